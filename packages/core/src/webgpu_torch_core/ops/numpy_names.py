"""NumPy's names of arguments, which PyTorch's functions take beside their own: ``axis``, ``keepdims``, ``x``, ``x2``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "x1": "input", "a": "input", "x2": "other"}


def parameter_names(function: Any) -> tuple[str, ...]:
    """Return the names of a function's parameters, decorators set aside."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def with_numpy_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes NumPy's names of its arguments, too."""
    parameters = parameter_names(function)
    names = {alias: name for alias, name in NAMES.items() if name in parameters and alias not in parameters}
    if parameters[:1] == ("self",):
        names |= {alias: "self" for alias, name in NAMES.items() if name == "input" and alias not in parameters}
    if not names:
        return function

    @wraps(function)
    def named(*args: Any, **kwargs: Any) -> Any:
        for alias in kwargs.keys() & names:
            if names[alias] in kwargs:
                raise TypeError(f"{function.__name__}() got both '{names[alias]}' and its other name '{alias}'")
            kwargs[names[alias]] = kwargs.pop(alias)
        return function(*args, **kwargs)

    return named
