"""The few names of PyTorch's extension module that libraries touch."""

from __future__ import annotations

from typing import Any

from webgpu_torch_core import device as device
from webgpu_torch_core import overrides
from webgpu_torch_core.dispatch.overrides import DisableTorchFunction as DisableTorchFunction
from webgpu_torch_core.dispatch.overrides import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass

from .accelerator import current_accelerator

_disabled_torch_function_impl = overrides.disabled_implementation
_has_torch_function = overrides.has_torch_function
_has_torch_function_unary = overrides.has_torch_function_unary
_has_torch_function_variadic = overrides.has_torch_function_variadic
_is_torch_function_enabled = overrides.is_enabled


def _get_accelerator(check: bool | None = None) -> device:
    """Return the accelerator's device, else the CPU's."""
    del check
    return current_accelerator() or device("cpu")


def _is_torch_function_mode_enabled() -> bool:
    """Return whether a mode is open in this thread."""
    return bool(overrides.mode_stack())


def _len_torch_function_stack() -> int:
    """Return how many modes are open in this thread."""
    return len(overrides.mode_stack())


def _get_function_stack_at(ind: int) -> Any:
    """Return an open mode by its place, the outermost first."""
    return overrides.mode_stack()[ind]


def _log_api_usage_once(event: str) -> None:
    """Do nothing: nothing is reported to anybody."""
    del event


def _log_api_usage_metadata(event: str, metadata_map: dict[str, str]) -> None:
    """Do nothing: nothing is reported to anybody."""
    del event, metadata_map


def _get_privateuse1_backend_name() -> str:
    """Return the name of PyTorch's own slot for other devices, which is free."""
    return "privateuseone"
