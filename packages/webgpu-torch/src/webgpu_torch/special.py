"""Special functions, as ``torch.special``."""

from webgpu_torch_core.special import *  # noqa: F403
