"""``torch.overrides``: classes and modes that answer calls of the public API themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from webgpu_torch_core.dispatch.overridden_members import properties
from webgpu_torch_core.dispatch.overrides import PATHS
from webgpu_torch_core.dispatch.overrides import BaseTorchFunctionMode as BaseTorchFunctionMode
from webgpu_torch_core.dispatch.overrides import TorchFunctionMode as TorchFunctionMode
from webgpu_torch_core.dispatch.overrides import get_default_nowrap_functions as get_default_nowrap_functions
from webgpu_torch_core.dispatch.overrides import handle_torch_function as handle_torch_function
from webgpu_torch_core.dispatch.overrides import has_torch_function as has_torch_function
from webgpu_torch_core.dispatch.overrides import has_torch_function_unary as has_torch_function_unary
from webgpu_torch_core.dispatch.overrides import has_torch_function_variadic as has_torch_function_variadic
from webgpu_torch_core.dispatch.overrides import is_tensor_like as is_tensor_like
from webgpu_torch_core.dispatch.overrides import is_tensor_method_or_property as is_tensor_method_or_property
from webgpu_torch_core.dispatch.overrides import mode_stack as _get_current_function_mode_stack
from webgpu_torch_core.dispatch.overrides import resolve_name as resolve_name
from webgpu_torch_core.dispatch.overrides import wrap_torch_function as wrap_torch_function
from webgpu_torch_core.dispatch.torch_dispatch import EnableReentrantDispatch as enable_reentrant_dispatch


def _get_current_function_mode() -> Any:
    """Return the innermost open mode, None if there is none."""
    return (_get_current_function_mode_stack() or [None])[-1]


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Return the overridable functions by the module, or class, that they are found in."""
    import webgpu_torch as torch

    found: dict[Any, list[Callable[..., Any]]] = {}
    for function, path in PATHS.items():
        owner: Any = torch
        for part in path.split(".")[1:-1]:
            owner = getattr(owner, part)
        found.setdefault(owner, []).append(function)
    found[torch.Tensor] += properties()
    return found


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return, for every overridable function, a function of the same parameters that returns -1."""
    return {each: _stand_in(each) for each in (*PATHS, *properties())}


def _stand_in(function: Callable[..., Any]) -> Callable[..., Any]:
    import inspect

    def answer(*args: Any, **kwargs: Any) -> int:
        if signature is not None:
            signature.bind(*args, **kwargs)
        return -1

    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        signature = None
    else:
        answer.__signature__ = signature  # type: ignore[attr-defined]
    return answer


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Return the public functions that nothing overrides."""
    import webgpu_torch as torch

    found: set[Callable[..., Any]] = set()
    for owner in (torch, torch.Tensor, torch.linalg, torch.special, torch.fft, torch.nn.functional):
        for name in dir(owner):
            value = getattr(owner, name, None)
            if callable(value) and value not in PATHS and not isinstance(value, type) and not name.startswith("_"):
                found.add(value)
    return found | {torch.Tensor.__new__, torch.Tensor.__init__, torch.Tensor.__hash__}


__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode", "enable_reentrant_dispatch", "get_default_nowrap_functions",
    "get_ignored_functions", "get_overridable_functions", "get_testing_overrides", "handle_torch_function",
    "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like",
    "is_tensor_method_or_property", "resolve_name", "wrap_torch_function",
]  # fmt: skip
