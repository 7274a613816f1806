"""PyTorch's ``torch.nn`` and ``torch.optim`` on webgpu-torch-core."""

from __future__ import annotations

from webgpu_torch_nn import amp as amp
from webgpu_torch_nn import common_types as common_types
from webgpu_torch_nn import functional as functional
from webgpu_torch_nn import grad as grad
from webgpu_torch_nn import init as init
from webgpu_torch_nn import modules as modules
from webgpu_torch_nn import optim as optim
from webgpu_torch_nn import parallel as parallel
from webgpu_torch_nn import parameter as parameter
from webgpu_torch_nn import utils as utils
from webgpu_torch_nn.modules import *  # noqa: F403
from webgpu_torch_nn.modules import GRU as GRU
from webgpu_torch_nn.modules import LSTM as LSTM
from webgpu_torch_nn.modules import RNN as RNN
from webgpu_torch_nn.modules import GRUCell as GRUCell
from webgpu_torch_nn.modules import LSTMCell as LSTMCell
from webgpu_torch_nn.modules import MultiheadAttention as MultiheadAttention
from webgpu_torch_nn.modules import RNNBase as RNNBase
from webgpu_torch_nn.modules import RNNCell as RNNCell
from webgpu_torch_nn.modules import RNNCellBase as RNNCellBase
from webgpu_torch_nn.modules import Transformer as Transformer
from webgpu_torch_nn.modules import TransformerDecoder as TransformerDecoder
from webgpu_torch_nn.modules import TransformerDecoderLayer as TransformerDecoderLayer
from webgpu_torch_nn.modules import TransformerEncoder as TransformerEncoder
from webgpu_torch_nn.modules import TransformerEncoderLayer as TransformerEncoderLayer
from webgpu_torch_nn.modules.utils import factory_kwargs as factory_kwargs
from webgpu_torch_nn.parallel import DataParallel as DataParallel
from webgpu_torch_nn.parameter import Buffer as Buffer
from webgpu_torch_nn.parameter import Parameter as Parameter
from webgpu_torch_nn.parameter import UninitializedBuffer as UninitializedBuffer
from webgpu_torch_nn.parameter import UninitializedParameter as UninitializedParameter
from webgpu_torch_nn.utils import parametrizations as _parametrizations

__all__ = [
    "Buffer",
    "DataParallel",
    "GRU",
    "GRUCell",
    "LSTM",
    "LSTMCell",
    "MultiheadAttention",
    "Parameter",
    "RNN",
    "RNNBase",
    "RNNCell",
    "RNNCellBase",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "UninitializedBuffer",
    "UninitializedParameter",
    "amp",
    "common_types",
    "factory_kwargs",
    "functional",
    "grad",
    "init",
    "modules",
    "optim",
    "parallel",
    "parameter",
    "utils",
]
__all__ += modules.__all__
