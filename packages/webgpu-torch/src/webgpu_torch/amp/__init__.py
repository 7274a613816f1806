"""Mixed precision, as ``torch.amp``."""

from webgpu_torch_nn.amp import *  # noqa: F403
from webgpu_torch_nn.amp import autocast_mode as autocast_mode
from webgpu_torch_nn.amp import grad_scaler as grad_scaler
