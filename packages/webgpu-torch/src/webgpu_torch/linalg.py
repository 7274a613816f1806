"""Linear algebra, as ``torch.linalg``."""

from webgpu_torch_core.linalg import *  # noqa: F403
