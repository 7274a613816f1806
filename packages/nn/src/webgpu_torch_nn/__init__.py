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
from webgpu_torch_nn.modules import *
from webgpu_torch_nn.modules.utils import factory_kwargs as factory_kwargs
from webgpu_torch_nn.parallel import DataParallel as DataParallel
from webgpu_torch_nn.parameter import Buffer as Buffer
from webgpu_torch_nn.parameter import Parameter as Parameter
from webgpu_torch_nn.parameter import UninitializedBuffer as UninitializedBuffer
from webgpu_torch_nn.parameter import UninitializedParameter as UninitializedParameter
from webgpu_torch_nn.utils import parametrizations as _parametrizations

__all__ = [name for name in globals() if not name.startswith("_") and name != "annotations"]
