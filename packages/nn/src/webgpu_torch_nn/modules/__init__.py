"""Every module, one family per file."""

from __future__ import annotations

from webgpu_torch_nn.modules._hooks import (
    register_module_buffer_registration_hook as register_module_buffer_registration_hook,
)
from webgpu_torch_nn.modules._hooks import register_module_forward_hook as register_module_forward_hook
from webgpu_torch_nn.modules._hooks import register_module_forward_pre_hook as register_module_forward_pre_hook
from webgpu_torch_nn.modules._hooks import register_module_full_backward_hook as register_module_full_backward_hook
from webgpu_torch_nn.modules._hooks import (
    register_module_full_backward_pre_hook as register_module_full_backward_pre_hook,
)
from webgpu_torch_nn.modules._hooks import (
    register_module_module_registration_hook as register_module_module_registration_hook,
)
from webgpu_torch_nn.modules._hooks import (
    register_module_parameter_registration_hook as register_module_parameter_registration_hook,
)
from webgpu_torch_nn.modules.activation import CELU as CELU
from webgpu_torch_nn.modules.activation import ELU as ELU
from webgpu_torch_nn.modules.activation import GELU as GELU
from webgpu_torch_nn.modules.activation import GLU as GLU
from webgpu_torch_nn.modules.activation import SELU as SELU
from webgpu_torch_nn.modules.activation import Hardshrink as Hardshrink
from webgpu_torch_nn.modules.activation import Hardsigmoid as Hardsigmoid
from webgpu_torch_nn.modules.activation import Hardswish as Hardswish
from webgpu_torch_nn.modules.activation import Hardtanh as Hardtanh
from webgpu_torch_nn.modules.activation import LeakyReLU as LeakyReLU
from webgpu_torch_nn.modules.activation import LogSigmoid as LogSigmoid
from webgpu_torch_nn.modules.activation import LogSoftmax as LogSoftmax
from webgpu_torch_nn.modules.activation import Mish as Mish
from webgpu_torch_nn.modules.activation import PReLU as PReLU
from webgpu_torch_nn.modules.activation import ReLU as ReLU
from webgpu_torch_nn.modules.activation import ReLU6 as ReLU6
from webgpu_torch_nn.modules.activation import RReLU as RReLU
from webgpu_torch_nn.modules.activation import Sigmoid as Sigmoid
from webgpu_torch_nn.modules.activation import SiLU as SiLU
from webgpu_torch_nn.modules.activation import Softmax as Softmax
from webgpu_torch_nn.modules.activation import Softmax2d as Softmax2d
from webgpu_torch_nn.modules.activation import Softmin as Softmin
from webgpu_torch_nn.modules.activation import Softplus as Softplus
from webgpu_torch_nn.modules.activation import Softshrink as Softshrink
from webgpu_torch_nn.modules.activation import Softsign as Softsign
from webgpu_torch_nn.modules.activation import Tanh as Tanh
from webgpu_torch_nn.modules.activation import Tanhshrink as Tanhshrink
from webgpu_torch_nn.modules.activation import Threshold as Threshold
from webgpu_torch_nn.modules.adaptive import AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss
from webgpu_torch_nn.modules.batchnorm import BatchNorm1d as BatchNorm1d
from webgpu_torch_nn.modules.batchnorm import BatchNorm2d as BatchNorm2d
from webgpu_torch_nn.modules.batchnorm import BatchNorm3d as BatchNorm3d
from webgpu_torch_nn.modules.batchnorm import SyncBatchNorm as SyncBatchNorm
from webgpu_torch_nn.modules.container import ModuleDict as ModuleDict
from webgpu_torch_nn.modules.container import ModuleList as ModuleList
from webgpu_torch_nn.modules.container import ParameterDict as ParameterDict
from webgpu_torch_nn.modules.container import ParameterList as ParameterList
from webgpu_torch_nn.modules.container import Sequential as Sequential
from webgpu_torch_nn.modules.conv import Conv2d as Conv2d
from webgpu_torch_nn.modules.distance import CosineSimilarity as CosineSimilarity
from webgpu_torch_nn.modules.distance import PairwiseDistance as PairwiseDistance
from webgpu_torch_nn.modules.dropout import Dropout as Dropout
from webgpu_torch_nn.modules.flatten import Flatten as Flatten
from webgpu_torch_nn.modules.flatten import Unflatten as Unflatten
from webgpu_torch_nn.modules.instancenorm import InstanceNorm1d as InstanceNorm1d
from webgpu_torch_nn.modules.instancenorm import InstanceNorm2d as InstanceNorm2d
from webgpu_torch_nn.modules.instancenorm import InstanceNorm3d as InstanceNorm3d
from webgpu_torch_nn.modules.linear import Bilinear as Bilinear
from webgpu_torch_nn.modules.linear import Identity as Identity
from webgpu_torch_nn.modules.linear import Linear as Linear
from webgpu_torch_nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions as LinearCrossEntropyOptions
from webgpu_torch_nn.modules.loss import BCELoss as BCELoss
from webgpu_torch_nn.modules.loss import BCEWithLogitsLoss as BCEWithLogitsLoss
from webgpu_torch_nn.modules.loss import CrossEntropyLoss as CrossEntropyLoss
from webgpu_torch_nn.modules.loss import CTCLoss as CTCLoss
from webgpu_torch_nn.modules.loss import GaussianNLLLoss as GaussianNLLLoss
from webgpu_torch_nn.modules.loss import HuberLoss as HuberLoss
from webgpu_torch_nn.modules.loss import KLDivLoss as KLDivLoss
from webgpu_torch_nn.modules.loss import L1Loss as L1Loss
from webgpu_torch_nn.modules.loss import LinearCrossEntropyLoss as LinearCrossEntropyLoss
from webgpu_torch_nn.modules.loss import MSELoss as MSELoss
from webgpu_torch_nn.modules.loss import NLLLoss as NLLLoss
from webgpu_torch_nn.modules.loss import NLLLoss2d as NLLLoss2d
from webgpu_torch_nn.modules.loss import PoissonNLLLoss as PoissonNLLLoss
from webgpu_torch_nn.modules.loss import SmoothL1Loss as SmoothL1Loss
from webgpu_torch_nn.modules.loss_margin import CosineEmbeddingLoss as CosineEmbeddingLoss
from webgpu_torch_nn.modules.loss_margin import HingeEmbeddingLoss as HingeEmbeddingLoss
from webgpu_torch_nn.modules.loss_margin import MarginRankingLoss as MarginRankingLoss
from webgpu_torch_nn.modules.loss_margin import MultiLabelMarginLoss as MultiLabelMarginLoss
from webgpu_torch_nn.modules.loss_margin import MultiLabelSoftMarginLoss as MultiLabelSoftMarginLoss
from webgpu_torch_nn.modules.loss_margin import MultiMarginLoss as MultiMarginLoss
from webgpu_torch_nn.modules.loss_margin import SoftMarginLoss as SoftMarginLoss
from webgpu_torch_nn.modules.loss_margin import TripletMarginLoss as TripletMarginLoss
from webgpu_torch_nn.modules.loss_margin import TripletMarginWithDistanceLoss as TripletMarginWithDistanceLoss
from webgpu_torch_nn.modules.module import Module as Module
from webgpu_torch_nn.modules.normalization import CrossMapLRN2d as CrossMapLRN2d
from webgpu_torch_nn.modules.normalization import GroupNorm as GroupNorm
from webgpu_torch_nn.modules.normalization import LayerNorm as LayerNorm
from webgpu_torch_nn.modules.normalization import LocalResponseNorm as LocalResponseNorm
from webgpu_torch_nn.modules.normalization import RMSNorm as RMSNorm
from webgpu_torch_nn.modules.sparse import Embedding as Embedding
from webgpu_torch_nn.modules.sparse import EmbeddingBag as EmbeddingBag

__all__ = [
    "AdaptiveLogSoftmaxWithLoss",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Bilinear",
    "CELU",
    "CTCLoss",
    "Conv2d",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "CrossMapLRN2d",
    "Dropout",
    "ELU",
    "Embedding",
    "EmbeddingBag",
    "Flatten",
    "GELU",
    "GLU",
    "GaussianNLLLoss",
    "GroupNorm",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "Identity",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "KLDivLoss",
    "L1Loss",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LinearCrossEntropyLoss",
    "LinearCrossEntropyOptions",
    "LocalResponseNorm",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MarginRankingLoss",
    "Mish",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "NLLLoss2d",
    "PReLU",
    "PairwiseDistance",
    "ParameterDict",
    "ParameterList",
    "PoissonNLLLoss",
    "RMSNorm",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "SyncBatchNorm",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
    "Unflatten",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]
