"""Mixed precision, as ``torch.amp``."""

from webgpu_torch_nn.amp import *
from webgpu_torch_nn.amp import autocast_mode as autocast_mode
from webgpu_torch_nn.amp import grad_scaler as grad_scaler

from .._submodules import offer as _offer

for _module in (autocast_mode, grad_scaler):
    _offer(_module, f"{__name__}.{_module.__name__.rpartition('.')[2]}")
