"""``torch.fx``: there is no symbolic tracing; its marks leave Python functions as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def wrap(fn_or_name: str | Callable[..., Any]) -> str | Callable[..., Any]:
    """Return the function, or the name of one, that a tracer would not look into.

    Raises:
        RuntimeError: it is neither a function nor a name.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name of the function"
        )
    return fn_or_name


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, which a tracer would keep even if nobody reads its result."""
    return fn
