"""Special functions, as ``torch.special``."""

from webgpu_torch_core.api.special import *  # noqa: F403
