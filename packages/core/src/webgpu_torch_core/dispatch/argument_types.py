"""Arguments of types that a function does not take, told in PyTorch's words.

Only a call that failed is looked at: those that succeed pay nothing for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache

from ..ir.dtypes import dtype
from ..tensors.tensor import Tensor

#: errors in which Python's own words tell of an argument of a wrong type; the others are of functions that checked
RAW = (AttributeError, KeyError, ValueError)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | complex) or (hasattr(value, "__float__") and not getattr(value, "ndim", 0))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) or (hasattr(value, "__index__") and not getattr(value, "ndim", 0))


#: what an annotation takes, and what PyTorch's errors call it
_KINDS: dict[str, tuple[Callable[[object], bool], str]] = {
    "Tensor": (lambda value: isinstance(value, Tensor), "Tensor"),
    "Number": (_is_number, "Number"),
    "float": (_is_number, "float"),
    "int": (_is_whole, "int"),
    "bool": (lambda value: isinstance(value, int), "bool"),
    "str": (lambda value: isinstance(value, str), "str"),
    "dtype": (
        lambda value: isinstance(value, dtype) or any(value is each for each in (float, int, bool, complex)),
        "torch.dtype",
    ),
    "Dimensions": (lambda value: value is None or _is_whole(value) or _all_whole(value), "tuple of ints"),
    "None": (lambda value: value is None, "None"),
}


def _all_whole(value: object) -> bool:
    return isinstance(value, tuple | list) and all(map(_is_whole, value))


@lru_cache(maxsize=1024)
def _signature(function: Callable[..., object]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def wrong_argument(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> TypeError | None:
    """Return the error that names the first argument which its parameter's annotation excludes, None if all may be right."""
    signature = _signature(function)
    if signature is None:
        return None
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    for position, (name, value) in enumerate(bound.arguments.items(), 1):
        kinds = [_KINDS.get(each.strip()) for each in str(signature.parameters[name].annotation).split("|")]
        known = [each for each in kinds if each is not None]
        if len(known) < len(kinds) or any(takes(value) for takes, _ in known):
            continue
        place = "" if name in kwargs else f" (position {position})"
        return TypeError(
            f"{function.__name__}(): argument '{name}'{place} must be {known[0][1]}, not {type(value).__name__}"
        )
    return None
