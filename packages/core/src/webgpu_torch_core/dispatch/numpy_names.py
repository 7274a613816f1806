"""Names that PyTorch's functions take beside their parameters' own: NumPy's (``axis``, ``keepdims``, ``x``, ``x2``), and
those of single overloads (``sections`` or ``indices`` of ``tensor_split``)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "x1": "input", "a": "input", "x2": "other"} | {
    "self": "input", "axis0": "dim0", "axis1": "dim1", "split_size": "split_size_or_sections",
    "sections": "indices_or_sections", "indices": "indices_or_sections",
    "tensor_indices_or_sections": "indices_or_sections", "element": "elements", "test_element": "test_elements",
}  # fmt: skip
#: functions of several sizes, by what PyTorch calls them where they are given as one
SEVERAL = {
    "view": "size", "resize_": "size", "repeat": "repeats", "tile": "dims", "new_zeros": "size", "new_ones": "size",
    "new_empty": "size", "empty": "size",
}  # fmt: skip
_OTHER_NAMES: dict[Callable[..., Any], frozenset[str]] = {}


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
        own = [alias for alias, name in NAMES.items() if name == "input"]
        names |= {alias: "self" for alias in ("input", *own) if alias not in parameters}
    several = SEVERAL.get(function.__name__)
    if not names and several is None:
        return function

    @wraps(function)
    def named(*args: Any, **kwargs: Any) -> Any:
        for alias in kwargs.keys() & names:
            if names[alias] in kwargs:
                raise TypeError(f"{function.__name__}() got both '{names[alias]}' and its other name '{alias}'")
            kwargs[names[alias]] = kwargs.pop(alias)
        if several in kwargs:
            args += (kwargs.pop(several),)
        return function(*args, **kwargs)

    _OTHER_NAMES[named] = frozenset((*names, *filter(None, [several])))
    return named


def other_names(function: Callable[..., object]) -> frozenset[str]:
    """Return the names that a function takes beside those of its parameters."""
    return _OTHER_NAMES.get(function, frozenset())
