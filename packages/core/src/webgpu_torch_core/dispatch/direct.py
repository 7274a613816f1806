"""What public functions call where nothing lies between a call and its operation: no mode, no autocast region, no other name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ..tensors.tensor import Tensor

Function = TypeVar("Function", bound=Callable[..., object])
#: classes of tensors that are nothing but tensors, and of numbers
PLAIN: set[type] = {Tensor}
NUMBERS: frozenset[type] = frozenset((int, float, bool))


class Direct(NamedTuple):
    """What records an operation.

    Fields:
        record: given a tuple of arguments; and the keyword arguments, where ``operands`` is 0.
        operands: of an element-wise operation, how many there are. The first one must be a plain tensor.
    """

    record: Callable[..., Any]
    operands: int = 0


#: the functions that need no call of their own; the methods of operators that need none where the other operand is a tensor or number
DIRECT: dict[Callable[..., Any], Direct] = {}
OPERATORS: dict[Callable[..., Any], Direct] = {}


def within(layer: Callable[[Function], Function], function: Function) -> Function:
    """Return a function with a layer around it, or around what it calls where it does not remember the call."""
    found = DIRECT.get(function)
    if found is None or found.operands:
        return layer(function)
    function.__wrapped__ = layer(function.__wrapped__)  # type: ignore[attr-defined]
    return function
