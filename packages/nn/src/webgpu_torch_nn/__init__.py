"""PyTorch's ``torch.nn`` and ``torch.optim`` on webgpu-torch-core."""

from __future__ import annotations

from webgpu_torch_nn import functional as functional
from webgpu_torch_nn import init as init
from webgpu_torch_nn import modules as modules
from webgpu_torch_nn import optim as optim
from webgpu_torch_nn import parameter as parameter
from webgpu_torch_nn import utils as utils
from webgpu_torch_nn.modules import CELU as CELU
from webgpu_torch_nn.modules import ELU as ELU
from webgpu_torch_nn.modules import GELU as GELU
from webgpu_torch_nn.modules import GLU as GLU
from webgpu_torch_nn.modules import SELU as SELU
from webgpu_torch_nn.modules import AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss
from webgpu_torch_nn.modules import BatchNorm1d as BatchNorm1d
from webgpu_torch_nn.modules import BatchNorm2d as BatchNorm2d
from webgpu_torch_nn.modules import BatchNorm3d as BatchNorm3d
from webgpu_torch_nn.modules import BCELoss as BCELoss
from webgpu_torch_nn.modules import BCEWithLogitsLoss as BCEWithLogitsLoss
from webgpu_torch_nn.modules import Bilinear as Bilinear
from webgpu_torch_nn.modules import Conv2d as Conv2d
from webgpu_torch_nn.modules import CosineEmbeddingLoss as CosineEmbeddingLoss
from webgpu_torch_nn.modules import CosineSimilarity as CosineSimilarity
from webgpu_torch_nn.modules import CrossEntropyLoss as CrossEntropyLoss
from webgpu_torch_nn.modules import CrossMapLRN2d as CrossMapLRN2d
from webgpu_torch_nn.modules import CTCLoss as CTCLoss
from webgpu_torch_nn.modules import Dropout as Dropout
from webgpu_torch_nn.modules import Embedding as Embedding
from webgpu_torch_nn.modules import EmbeddingBag as EmbeddingBag
from webgpu_torch_nn.modules import Flatten as Flatten
from webgpu_torch_nn.modules import GaussianNLLLoss as GaussianNLLLoss
from webgpu_torch_nn.modules import GroupNorm as GroupNorm
from webgpu_torch_nn.modules import Hardshrink as Hardshrink
from webgpu_torch_nn.modules import Hardsigmoid as Hardsigmoid
from webgpu_torch_nn.modules import Hardswish as Hardswish
from webgpu_torch_nn.modules import Hardtanh as Hardtanh
from webgpu_torch_nn.modules import HingeEmbeddingLoss as HingeEmbeddingLoss
from webgpu_torch_nn.modules import HuberLoss as HuberLoss
from webgpu_torch_nn.modules import Identity as Identity
from webgpu_torch_nn.modules import InstanceNorm1d as InstanceNorm1d
from webgpu_torch_nn.modules import InstanceNorm2d as InstanceNorm2d
from webgpu_torch_nn.modules import InstanceNorm3d as InstanceNorm3d
from webgpu_torch_nn.modules import KLDivLoss as KLDivLoss
from webgpu_torch_nn.modules import L1Loss as L1Loss
from webgpu_torch_nn.modules import LayerNorm as LayerNorm
from webgpu_torch_nn.modules import LeakyReLU as LeakyReLU
from webgpu_torch_nn.modules import Linear as Linear
from webgpu_torch_nn.modules import LinearCrossEntropyLoss as LinearCrossEntropyLoss
from webgpu_torch_nn.modules import LinearCrossEntropyOptions as LinearCrossEntropyOptions
from webgpu_torch_nn.modules import LocalResponseNorm as LocalResponseNorm
from webgpu_torch_nn.modules import LogSigmoid as LogSigmoid
from webgpu_torch_nn.modules import LogSoftmax as LogSoftmax
from webgpu_torch_nn.modules import MarginRankingLoss as MarginRankingLoss
from webgpu_torch_nn.modules import Mish as Mish
from webgpu_torch_nn.modules import Module as Module
from webgpu_torch_nn.modules import ModuleDict as ModuleDict
from webgpu_torch_nn.modules import ModuleList as ModuleList
from webgpu_torch_nn.modules import MSELoss as MSELoss
from webgpu_torch_nn.modules import MultiLabelMarginLoss as MultiLabelMarginLoss
from webgpu_torch_nn.modules import MultiLabelSoftMarginLoss as MultiLabelSoftMarginLoss
from webgpu_torch_nn.modules import MultiMarginLoss as MultiMarginLoss
from webgpu_torch_nn.modules import NLLLoss as NLLLoss
from webgpu_torch_nn.modules import NLLLoss2d as NLLLoss2d
from webgpu_torch_nn.modules import PairwiseDistance as PairwiseDistance
from webgpu_torch_nn.modules import ParameterDict as ParameterDict
from webgpu_torch_nn.modules import ParameterList as ParameterList
from webgpu_torch_nn.modules import PoissonNLLLoss as PoissonNLLLoss
from webgpu_torch_nn.modules import PReLU as PReLU
from webgpu_torch_nn.modules import ReLU as ReLU
from webgpu_torch_nn.modules import ReLU6 as ReLU6
from webgpu_torch_nn.modules import RMSNorm as RMSNorm
from webgpu_torch_nn.modules import RReLU as RReLU
from webgpu_torch_nn.modules import Sequential as Sequential
from webgpu_torch_nn.modules import Sigmoid as Sigmoid
from webgpu_torch_nn.modules import SiLU as SiLU
from webgpu_torch_nn.modules import SmoothL1Loss as SmoothL1Loss
from webgpu_torch_nn.modules import SoftMarginLoss as SoftMarginLoss
from webgpu_torch_nn.modules import Softmax as Softmax
from webgpu_torch_nn.modules import Softmax2d as Softmax2d
from webgpu_torch_nn.modules import Softmin as Softmin
from webgpu_torch_nn.modules import Softplus as Softplus
from webgpu_torch_nn.modules import Softshrink as Softshrink
from webgpu_torch_nn.modules import Softsign as Softsign
from webgpu_torch_nn.modules import SyncBatchNorm as SyncBatchNorm
from webgpu_torch_nn.modules import Tanh as Tanh
from webgpu_torch_nn.modules import Tanhshrink as Tanhshrink
from webgpu_torch_nn.modules import Threshold as Threshold
from webgpu_torch_nn.modules import TripletMarginLoss as TripletMarginLoss
from webgpu_torch_nn.modules import TripletMarginWithDistanceLoss as TripletMarginWithDistanceLoss
from webgpu_torch_nn.modules import Unflatten as Unflatten
from webgpu_torch_nn.parameter import Buffer as Buffer
from webgpu_torch_nn.parameter import Parameter as Parameter

__all__ = [
    "AdaptiveLogSoftmaxWithLoss",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Bilinear",
    "Buffer",
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
    "Parameter",
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
    "functional",
    "init",
    "modules",
    "optim",
    "parameter",
    "utils",
]
