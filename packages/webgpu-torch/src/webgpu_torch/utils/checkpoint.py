"""Recomputing instead of keeping, as ``torch.utils.checkpoint``."""

from webgpu_torch_core.autograd.checkpoint import CheckpointError as CheckpointError
from webgpu_torch_core.autograd.checkpoint import CheckpointFunction as CheckpointFunction
from webgpu_torch_core.autograd.checkpoint import check_backward_validity as check_backward_validity
from webgpu_torch_core.autograd.checkpoint import checkpoint as checkpoint
from webgpu_torch_core.autograd.checkpoint import checkpoint_sequential as checkpoint_sequential
from webgpu_torch_core.autograd.checkpoint import detach_variable as detach_variable
from webgpu_torch_core.autograd.checkpoint import noop_context_fn as noop_context_fn

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "detach_variable",
    "noop_context_fn",
]
