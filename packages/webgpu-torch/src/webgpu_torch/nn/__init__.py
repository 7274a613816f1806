"""Modules, as ``torch.nn``."""

from webgpu_torch_nn import *
from webgpu_torch_nn import common_types as common_types
from webgpu_torch_nn import grad as grad
from webgpu_torch_nn import init as init
from webgpu_torch_nn import modules as modules
from webgpu_torch_nn import parallel as parallel
from webgpu_torch_nn import parameter as parameter
from webgpu_torch_nn import utils as utils

from .._parts import lazily as _lazily
from .._submodules import offer as _offer
from . import attention as attention
from . import functional as functional

for _module in (common_types, grad, init, modules, parallel, parameter):
    _offer(_module, f"{__name__}.{_module.__name__.rpartition('.')[2]}")
_offer(utils, f"{__name__}.utils", leave_out=("data", "hooks", "tensorboard"))

__getattr__ = _lazily(__name__, "intrinsic", "qat", "quantized")
