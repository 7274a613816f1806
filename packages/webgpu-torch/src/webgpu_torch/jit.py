"""``torch.jit``: there is no TorchScript; its marks leave Python functions and modules as they are."""

from __future__ import annotations

from typing import Any


def is_tracing() -> bool:
    """Return False."""
    return False


def is_scripting() -> bool:
    """Return False."""
    return False


def script(obj: Any, *_: Any, **__: Any) -> Any:
    """Return the function or module itself, which computes the same."""
    return obj


def script_if_tracing(fn: Any) -> Any:
    """Return the function."""
    return fn


def ignore(fn: Any = None, drop: bool = False, **_: Any) -> Any:
    """Return the function, or a decorator that does."""
    del drop
    return fn if callable(fn) else lambda function: function


def unused(fn: Any) -> Any:
    """Return the function."""
    return fn


def export(fn: Any) -> Any:
    """Return the function."""
    return fn


class ScriptModule:
    """The type of compiled modules, of which there are none."""


class ScriptFunction:
    """The type of compiled functions, of which there are none."""
