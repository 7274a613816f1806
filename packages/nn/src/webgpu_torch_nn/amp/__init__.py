"""Training in mixed precision."""

from __future__ import annotations

from webgpu_torch_core.dispatch.autocast import autocast as autocast

from webgpu_torch_nn.amp.autocast_mode import custom_bwd as custom_bwd
from webgpu_torch_nn.amp.autocast_mode import custom_fwd as custom_fwd
from webgpu_torch_nn.amp.autocast_mode import is_autocast_available as is_autocast_available
from webgpu_torch_nn.amp.grad_scaler import GradScaler as GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
