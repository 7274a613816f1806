"""Linear algebra, as ``torch.linalg``."""

from webgpu_torch_core.api.linalg import *  # noqa: F403
