"""Arguments behind the first that are the same objects in each call of a layer: its parameters and options."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from types import NoneType

from ..dispatch.direct import PLAIN
from ..ir.dtypes import dtype
from ..ir.layouts import Layout
from ..record.context import context, default_float
from ..record.devices import device
from ..record.node import running
from ..record.tape import Value
from ..tensors.tensor import Tensor

#: classes of arguments of which the same object is always the same argument, as are tuples of these
_CONSTANT = frozenset((bool, int, float, str, NoneType, dtype, device))


class Tail:
    """What the arguments behind the first were; the memory of the first tensor among them keeps it, and nothing keeps that.

    Attributes:
        layout: that tensor's.
        others: the other arguments.
        values: those of the other tensors.
        mark: stands for it in keys, which outlive it.
    """

    __slots__ = ("_tensors", "layout", "mark", "others", "values")

    def __init__(self, args: tuple[Tensor, ...], second: int) -> None:
        self.layout: Layout = args[second]._layout
        self.others = args[1:second] + args[second + 1 :]
        self._tensors: list[tuple[Tensor, Value, Layout]] = [
            (each, each._storage.value, each._layout) for each in self.others if each.__class__ in PLAIN
        ]
        self.values = [value for _, value, _ in self._tensors]
        self.mark = object()

    def fits(self, args: tuple[Tensor, ...], second: int) -> bool:
        """Return whether arguments are those, as they were."""
        others = args[1:second] + args[second + 1 :]
        if args[second]._layout is not self.layout or len(others) != len(self.others):
            return False
        if not all(map(is_, others, self.others)):
            return False
        for tensor, value, layout in self._tensors:
            if tensor._storage.value is not value or tensor._layout is not layout:
                return False
        return True

    def key(self, first: Tensor, values: list[Value]) -> tuple[object, ...]:
        """Return what a call with these arguments behind the first one is remembered by; ``values``: of all of its tensors."""
        value = values[0]
        return (
            default_float[0], context.capture is None, not running.nodes, first._layout, first._dtype, value.numel, value.engine,
            self.mark, value in values[1:],
        )  # fmt: skip


def tail_of(function: Callable[..., object], args: tuple[Tensor, ...], second: int) -> Tail | None:
    """Return what arguments behind the first are, if they are what they were when a function had this ``second`` tensor first."""
    if args[0].__class__ not in PLAIN or args[second].__class__ not in PLAIN:
        return None
    value = args[second]._storage.value
    if not isinstance(value, Value):
        return None
    tails = value.tails
    if tails is None:
        # What is not computed yet was made for this call.
        if value.buffer is None:
            return None
        tails = value.tails = {}
    tail = tails.get(function)
    if tail is None:
        tail = tails[function] = Tail(args, second) if all(map(_lasts, args[1:])) else False
    return tail if tail and tail.fits(args, second) else None


def _lasts(argument: object) -> bool:
    """Return whether an argument is the same one as long as it is the same object and has the same memory."""
    if isinstance(argument, Tensor):
        value = argument._storage.value if argument.__class__ in PLAIN else None
        return isinstance(value, Value) and value.buffer is not None
    if isinstance(argument, tuple):
        return argument.__class__ is tuple and _CONSTANT.issuperset(map(type, argument))
    return argument.__class__ in _CONSTANT
