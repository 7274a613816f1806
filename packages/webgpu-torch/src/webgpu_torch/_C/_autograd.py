"""What graphs keep, as PyTorch's extension module names it."""

from __future__ import annotations

from webgpu_torch_core.tensors import saved_tensors

_SAVED = saved_tensors.SavedTensor, saved_tensors.SavedResult, saved_tensors.SavedNothing, saved_tensors.ShownResult


class _SavedTensorType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _SAVED)


class SavedTensor(metaclass=_SavedTensorType):
    """A tensor that a graph keeps; only recording makes one."""

    def __init__(self) -> None:
        raise RuntimeError(
            "Trying to create a SavedTensor object from Python is forbidden: it is made where a graph keeps a tensor"
        )


def _saved_tensors_hooks_is_enabled() -> bool:
    """Return whether hooks on what is saved may be given."""
    return not saved_tensors.disabled
