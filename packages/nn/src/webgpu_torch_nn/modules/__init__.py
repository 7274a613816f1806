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
from webgpu_torch_nn.modules.channelshuffle import ChannelShuffle as ChannelShuffle
from webgpu_torch_nn.modules.container import Container as Container
from webgpu_torch_nn.modules.container import ModuleDict as ModuleDict
from webgpu_torch_nn.modules.container import ModuleList as ModuleList
from webgpu_torch_nn.modules.container import ParameterDict as ParameterDict
from webgpu_torch_nn.modules.container import ParameterList as ParameterList
from webgpu_torch_nn.modules.container import Sequential as Sequential
from webgpu_torch_nn.modules.conv import Conv1d as Conv1d
from webgpu_torch_nn.modules.conv import Conv2d as Conv2d
from webgpu_torch_nn.modules.conv import Conv3d as Conv3d
from webgpu_torch_nn.modules.conv_transpose import ConvTranspose1d as ConvTranspose1d
from webgpu_torch_nn.modules.conv_transpose import ConvTranspose2d as ConvTranspose2d
from webgpu_torch_nn.modules.conv_transpose import ConvTranspose3d as ConvTranspose3d
from webgpu_torch_nn.modules.distance import CosineSimilarity as CosineSimilarity
from webgpu_torch_nn.modules.distance import PairwiseDistance as PairwiseDistance
from webgpu_torch_nn.modules.dropout import AlphaDropout as AlphaDropout
from webgpu_torch_nn.modules.dropout import Dropout as Dropout
from webgpu_torch_nn.modules.dropout import Dropout1d as Dropout1d
from webgpu_torch_nn.modules.dropout import Dropout2d as Dropout2d
from webgpu_torch_nn.modules.dropout import Dropout3d as Dropout3d
from webgpu_torch_nn.modules.dropout import FeatureAlphaDropout as FeatureAlphaDropout
from webgpu_torch_nn.modules.flatten import Flatten as Flatten
from webgpu_torch_nn.modules.flatten import Unflatten as Unflatten
from webgpu_torch_nn.modules.fold import Fold as Fold
from webgpu_torch_nn.modules.fold import Unfold as Unfold
from webgpu_torch_nn.modules.instancenorm import InstanceNorm1d as InstanceNorm1d
from webgpu_torch_nn.modules.instancenorm import InstanceNorm2d as InstanceNorm2d
from webgpu_torch_nn.modules.instancenorm import InstanceNorm3d as InstanceNorm3d
from webgpu_torch_nn.modules.lazy import LazyBatchNorm1d as LazyBatchNorm1d
from webgpu_torch_nn.modules.lazy import LazyBatchNorm2d as LazyBatchNorm2d
from webgpu_torch_nn.modules.lazy import LazyBatchNorm3d as LazyBatchNorm3d
from webgpu_torch_nn.modules.lazy import LazyConv1d as LazyConv1d
from webgpu_torch_nn.modules.lazy import LazyConv2d as LazyConv2d
from webgpu_torch_nn.modules.lazy import LazyConv3d as LazyConv3d
from webgpu_torch_nn.modules.lazy import LazyConvTranspose1d as LazyConvTranspose1d
from webgpu_torch_nn.modules.lazy import LazyConvTranspose2d as LazyConvTranspose2d
from webgpu_torch_nn.modules.lazy import LazyConvTranspose3d as LazyConvTranspose3d
from webgpu_torch_nn.modules.lazy import LazyInstanceNorm1d as LazyInstanceNorm1d
from webgpu_torch_nn.modules.lazy import LazyInstanceNorm2d as LazyInstanceNorm2d
from webgpu_torch_nn.modules.lazy import LazyInstanceNorm3d as LazyInstanceNorm3d
from webgpu_torch_nn.modules.lazy import LazyLinear as LazyLinear
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
from webgpu_torch_nn.modules.multihead_attention import MultiheadAttention as MultiheadAttention
from webgpu_torch_nn.modules.normalization import CrossMapLRN2d as CrossMapLRN2d
from webgpu_torch_nn.modules.normalization import GroupNorm as GroupNorm
from webgpu_torch_nn.modules.normalization import LayerNorm as LayerNorm
from webgpu_torch_nn.modules.normalization import LocalResponseNorm as LocalResponseNorm
from webgpu_torch_nn.modules.normalization import RMSNorm as RMSNorm
from webgpu_torch_nn.modules.padding import CircularPad1d as CircularPad1d
from webgpu_torch_nn.modules.padding import CircularPad2d as CircularPad2d
from webgpu_torch_nn.modules.padding import CircularPad3d as CircularPad3d
from webgpu_torch_nn.modules.padding import ConstantPad1d as ConstantPad1d
from webgpu_torch_nn.modules.padding import ConstantPad2d as ConstantPad2d
from webgpu_torch_nn.modules.padding import ConstantPad3d as ConstantPad3d
from webgpu_torch_nn.modules.padding import ReflectionPad1d as ReflectionPad1d
from webgpu_torch_nn.modules.padding import ReflectionPad2d as ReflectionPad2d
from webgpu_torch_nn.modules.padding import ReflectionPad3d as ReflectionPad3d
from webgpu_torch_nn.modules.padding import ReplicationPad1d as ReplicationPad1d
from webgpu_torch_nn.modules.padding import ReplicationPad2d as ReplicationPad2d
from webgpu_torch_nn.modules.padding import ReplicationPad3d as ReplicationPad3d
from webgpu_torch_nn.modules.padding import ZeroPad1d as ZeroPad1d
from webgpu_torch_nn.modules.padding import ZeroPad2d as ZeroPad2d
from webgpu_torch_nn.modules.padding import ZeroPad3d as ZeroPad3d
from webgpu_torch_nn.modules.pixelshuffle import PixelShuffle as PixelShuffle
from webgpu_torch_nn.modules.pixelshuffle import PixelUnshuffle as PixelUnshuffle
from webgpu_torch_nn.modules.pooling import AdaptiveAvgPool1d as AdaptiveAvgPool1d
from webgpu_torch_nn.modules.pooling import AdaptiveAvgPool2d as AdaptiveAvgPool2d
from webgpu_torch_nn.modules.pooling import AdaptiveAvgPool3d as AdaptiveAvgPool3d
from webgpu_torch_nn.modules.pooling import AdaptiveMaxPool1d as AdaptiveMaxPool1d
from webgpu_torch_nn.modules.pooling import AdaptiveMaxPool2d as AdaptiveMaxPool2d
from webgpu_torch_nn.modules.pooling import AdaptiveMaxPool3d as AdaptiveMaxPool3d
from webgpu_torch_nn.modules.pooling import AvgPool1d as AvgPool1d
from webgpu_torch_nn.modules.pooling import AvgPool2d as AvgPool2d
from webgpu_torch_nn.modules.pooling import AvgPool3d as AvgPool3d
from webgpu_torch_nn.modules.pooling import FractionalMaxPool2d as FractionalMaxPool2d
from webgpu_torch_nn.modules.pooling import FractionalMaxPool3d as FractionalMaxPool3d
from webgpu_torch_nn.modules.pooling import LPPool1d as LPPool1d
from webgpu_torch_nn.modules.pooling import LPPool2d as LPPool2d
from webgpu_torch_nn.modules.pooling import LPPool3d as LPPool3d
from webgpu_torch_nn.modules.pooling import MaxPool1d as MaxPool1d
from webgpu_torch_nn.modules.pooling import MaxPool2d as MaxPool2d
from webgpu_torch_nn.modules.pooling import MaxPool3d as MaxPool3d
from webgpu_torch_nn.modules.pooling import MaxUnpool1d as MaxUnpool1d
from webgpu_torch_nn.modules.pooling import MaxUnpool2d as MaxUnpool2d
from webgpu_torch_nn.modules.pooling import MaxUnpool3d as MaxUnpool3d
from webgpu_torch_nn.modules.rnn import GRU as GRU
from webgpu_torch_nn.modules.rnn import LSTM as LSTM
from webgpu_torch_nn.modules.rnn import RNN as RNN
from webgpu_torch_nn.modules.rnn import GRUCell as GRUCell
from webgpu_torch_nn.modules.rnn import LSTMCell as LSTMCell
from webgpu_torch_nn.modules.rnn import RNNBase as RNNBase
from webgpu_torch_nn.modules.rnn import RNNCell as RNNCell
from webgpu_torch_nn.modules.rnn import RNNCellBase as RNNCellBase
from webgpu_torch_nn.modules.sparse import Embedding as Embedding
from webgpu_torch_nn.modules.sparse import EmbeddingBag as EmbeddingBag
from webgpu_torch_nn.modules.transformer import Transformer as Transformer
from webgpu_torch_nn.modules.transformer import TransformerDecoder as TransformerDecoder
from webgpu_torch_nn.modules.transformer import TransformerDecoderLayer as TransformerDecoderLayer
from webgpu_torch_nn.modules.transformer import TransformerEncoder as TransformerEncoder
from webgpu_torch_nn.modules.transformer import TransformerEncoderLayer as TransformerEncoderLayer
from webgpu_torch_nn.modules.upsampling import Upsample as Upsample
from webgpu_torch_nn.modules.upsampling import UpsamplingBilinear2d as UpsamplingBilinear2d
from webgpu_torch_nn.modules.upsampling import UpsamplingNearest2d as UpsamplingNearest2d

#: where PyTorch has classes that have a file of their own here: prefixes of names, and the family
_FAMILIES = {
    "conv": ("ConvTranspose", "LazyConv"),
    "batchnorm": ("LazyBatchNorm",),
    "instancenorm": ("LazyInstanceNorm",),
    "linear": ("LazyLinear",),
    "loss": (
        "HingeEmbeddingLoss", "MultiLabel", "SoftMarginLoss", "CosineEmbeddingLoss", "MarginRankingLoss",
        "MultiMarginLoss", "TripletMargin",
    ),
}  # fmt: skip
for _family, _prefixes in _FAMILIES.items():
    for _name in [each for each in globals() if each.startswith(_prefixes)]:
        setattr(globals()[_family], _name, globals()[_name])

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveLogSoftmaxWithLoss",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AlphaDropout",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Bilinear",
    "CELU",
    "CTCLoss",
    "ChannelShuffle",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "Container",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "CrossMapLRN2d",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "ELU",
    "Embedding",
    "EmbeddingBag",
    "FeatureAlphaDropout",
    "Flatten",
    "Fold",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "GELU",
    "GLU",
    "GRU",
    "GRUCell",
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
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "LSTM",
    "LSTMCell",
    "LayerNorm",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
    "LeakyReLU",
    "Linear",
    "LinearCrossEntropyLoss",
    "LinearCrossEntropyOptions",
    "LocalResponseNorm",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MarginRankingLoss",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "Mish",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "MultiheadAttention",
    "NLLLoss",
    "NLLLoss2d",
    "PReLU",
    "PairwiseDistance",
    "ParameterDict",
    "ParameterList",
    "PixelShuffle",
    "PixelUnshuffle",
    "PoissonNLLLoss",
    "RMSNorm",
    "RNN",
    "RNNBase",
    "RNNCell",
    "RNNCellBase",
    "RReLU",
    "ReLU",
    "ReLU6",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
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
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
    "Unflatten",
    "Unfold",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]
