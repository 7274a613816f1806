"""Recomputing instead of keeping, as ``torch.utils.checkpoint``."""

from __future__ import annotations

from collections.abc import Sequence

from webgpu_torch_core import Tensor
from webgpu_torch_core.api.device_modules import device_module
from webgpu_torch_core.autograd.checkpoint import CheckpointError as CheckpointError
from webgpu_torch_core.autograd.checkpoint import CheckpointFunction as CheckpointFunction
from webgpu_torch_core.autograd.checkpoint import check_backward_validity as check_backward_validity
from webgpu_torch_core.autograd.checkpoint import checkpoint as checkpoint
from webgpu_torch_core.autograd.checkpoint import checkpoint_sequential as checkpoint_sequential
from webgpu_torch_core.autograd.checkpoint import detach_variable as detach_variable
from webgpu_torch_core.autograd.checkpoint import noop_context_fn as noop_context_fn
from webgpu_torch_core.autograd.recomputing import set_checkpoint_debug_enabled as set_checkpoint_debug_enabled
from webgpu_torch_core.autograd.recomputing import set_checkpoint_early_stop as set_checkpoint_early_stop
from webgpu_torch_core.record.devices import is_accelerator

from ._selective_checkpoint import CheckpointPolicy as CheckpointPolicy
from ._selective_checkpoint import SelectiveCheckpointContext as SelectiveCheckpointContext
from ._selective_checkpoint import create_selective_checkpoint_contexts as create_selective_checkpoint_contexts

__all__ = [
    "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "DefaultDeviceType", "SelectiveCheckpointContext",
    "check_backward_validity", "checkpoint", "checkpoint_sequential", "create_selective_checkpoint_contexts",
    "detach_variable", "get_device_states", "noop_context_fn", "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop", "set_device_states",
]  # fmt: skip


class DefaultDeviceType:
    """The kind of device whose random state is kept where the arguments name none."""

    _default_device_type = "webgpu"

    @staticmethod
    def set_device_type(device: str = "webgpu") -> None:
        """Set the kind of device."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """Return the kind of device."""
        return DefaultDeviceType._default_device_type


def get_device_states(*args: object) -> tuple[list[int], list[Tensor]]:
    """Return the numbers of the accelerators that the tensors among the arguments are on, with their random states.

    Of several types of accelerators those of the first tensor's count.
    """
    places = [each.device for each in args if isinstance(each, Tensor) and is_accelerator(each.device)]
    numbers = sorted({each.index or 0 for each in places if each.type == places[0].type})
    return numbers, [device_module(places[0].type).get_rng_state(number) for number in numbers]


def set_device_states(devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None) -> None:
    """Set random states that :func:`get_device_states` returned."""
    module = device_module(device_type or DefaultDeviceType.get_device_type())
    for number, state in zip(devices, states, strict=True):
        module.set_rng_state(state, number)
