"""``torch.compiler``: there is no tracing compiler to steer, so marks on functions leave them as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from webgpu_torch_core import compile as compile


def is_compiling() -> bool:
    """Return False: capture runs Python as it is and never traces it."""
    return False


def is_dynamo_compiling() -> bool:
    """Return False, as :func:`is_compiling`."""
    return False


#: one for each export that is under way
_exporting: list[bool] = []


def is_exporting() -> bool:
    """Return whether a module is being called to export it."""
    return bool(_exporting)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return the function, or a decorator that does."""
    return fn if fn is not None else lambda function: function


def allow_in_graph(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function: every function may be called in a captured step."""
    return fn


def assume_constant_result(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function."""
    return fn


def reset() -> None:
    """Do nothing: captures live with the functions that :func:`torch.compile` returned."""


def cudagraph_mark_step_begin() -> None:
    """Do nothing: there are no CUDA graphs."""
