"""Reductions of what a mask shows, as ``torch.masked``."""

from webgpu_torch_core.api.masked import *  # noqa: F403
