"""What the forms share: nests of loops, stores, and the state of a reduction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from webgpu_torch_core.ir.dtypes import dtype, int64
from webgpu_torch_core.ir.expression import Expression, cast, make, substitute, topological
from webgpu_torch_core.ir.kernels import Store
from webgpu_torch_core.ir.layouts import Shape, number_of_elements
from webgpu_torch_core.ir.monoids import Monoid, standard_name

from .function import Function
from .functions import lowered
from .steps import TYPES, literal

#: rows that are reduced together where neighbours in memory belong to different rows
TILE = 128


class Piece(NamedTuple):
    """A function and what it is called with: how far its outermost loop goes, and the numbers that its text leaves open."""

    text: str
    size: int
    numbers: tuple[int, ...]


def finished(function: Function, size: int) -> Piece:
    return Piece(function.text(), size, tuple(function.numbers))


def lowered_stores(stores: tuple[Store, ...]) -> tuple[Store, ...]:
    return tuple(each.replace(value=lowered(each.value)) for each in stores)


def unit_strides(axis: int, shape: Shape, roots: list[Expression], stores: tuple[Store, ...]) -> int:
    """Return how many elements are next to each other along an axis, over all operands that are read; stores count twice."""
    found = 0
    read = [node.payload[2] for node in topological(*roots) if node.step == "load"]
    for strides, weight in [*((each, 1) for each in read), *((each.strides, 2) for each in stores)]:
        if strides[axis : axis + 1] == (1,):
            found += weight * number_of_elements(
                tuple(size for size, stride in zip(shape, strides, strict=False) if stride)
            )
    return found


def put(function: Function, stores: tuple[Store, ...], names: list[str], group: str) -> None:
    for number, (each, value) in enumerate(zip(stores, names, strict=True)):
        place, _ = function.place((group, number), each.offset, each.strides)
        kind = function.kernel.outputs[each.output].dtype
        function.store(function.buffer("outputs", each.output), place, kind, value)


def store(function: Function, stores: tuple[Store, ...], group: str = "store") -> None:
    """Write all values, then all stores."""
    put(function, stores, [function.value(each.value) for each in stores], group)


@contextmanager
def nest(function: Function, shape: Shape, order: list[int], split: bool, parallel: bool) -> Iterator[None]:
    """Open loops over some dimensions; the outermost goes over the function's range if ``split``."""
    with ExitStack() as stack:
        for number, axis in enumerate(order):
            whole = split and number == 0
            end = "%end" if whole else function.number(("size", axis), shape[axis])
            last = parallel and number == len(order) - 1
            stack.enter_context(function.loop(axis, "%begin" if whole else "0", end, parallel=last))
        yield


def in_order(shape: Shape, axes: list[int], inner: int | None) -> list[int]:
    """Return the order of loops: the innermost last, a long one first, which threads share."""
    outer = [axis for axis in axes if axis != inner]
    if outer and shape[outer[0]] < 8:
        longest = max(outer, key=lambda axis: shape[axis])
        if shape[longest] >= 8:
            outer.remove(longest)
            outer.insert(0, longest)
    return outer + ([] if inner is None else [inner])


def position_type(how: Monoid) -> dtype:
    """Return the type in which a monoid takes the position of an element."""
    return next((node.dtype for node in topological(*how.lift) if (node.step, node.payload) == ("argument", 1)), int64)


class State:
    """The numbers that a reduction keeps: one of each, or one for every row of a tile."""

    def __init__(self, function: Function, how: Monoid, count: int) -> None:
        self.function, self.how, self.count = function, how, count
        self.addresses = [function.variable(TYPES[each.name] if each.category else "i8", count) for each in how.states]

    def _at(self, index: int, place: str | None) -> str:
        function, of = self.function, self.how.states[index]
        if place is None:
            return self.addresses[index]
        kind = TYPES[of.name] if of.category else "i8"
        return function.emit(
            len(function.scopes) - 1, f"getelementptr {kind}, ptr {self.addresses[index]}, i64 {place}"
        )

    def get(self, index: int, place: str | None) -> str:
        """Read a number of the state."""
        function, of = self.function, self.how.states[index]
        depth = len(function.scopes) - 1
        kind = TYPES[of.name] if of.category else "i8"
        value = function.emit(depth, f"load {kind}, ptr {self._at(index, place)}{function.scopes[depth].group}")
        return value if of.category else function.emit(depth, f"trunc i8 {value} to i1")

    def put(self, values: list[str], place: str | None) -> None:
        """Write the numbers of the state."""
        function = self.function
        scope, depth = function.scopes[-1], len(function.scopes) - 1
        for index, (of, value) in enumerate(zip(self.how.states, values, strict=True)):
            kind = TYPES[of.name] if of.category else "i8"
            value = value if of.category else function.emit(depth, f"zext i1 {value} to i8")
            scope.lines.append(f"store {kind} {value}, ptr {self._at(index, place)}{scope.group}")

    def start(self, place: str | None) -> None:
        """Write the identity."""
        self.put([literal(value, of) for value, of in zip(self.how.identity, self.how.states, strict=True)], place)

    def take(self, value: Expression, position: Expression, place: str | None, free: bool) -> None:
        """Combine the state with an element; ``free``: sums may be added in any order."""
        function, depth = self.function, len(self.function.scopes) - 1
        name = standard_name(self.how)
        own = [make("state", (), (id(self), index), of) for index, of in enumerate(self.how.states)]
        lifted = tuple(lowered(each) for each in (substitute(root, (value, position)) for root in self.how.lift))
        names = [function.value(each) for each in lifted]
        earlier = [self.get(index, place) for index in range(len(own))]
        if free and name in ("sum", "product") and self.how.states[0].category == 2:
            step = "fadd" if name == "sum" else "fmul"
            kind = TYPES[self.how.states[0].name]
            found = [function.emit(depth, f"{step} reassoc {kind} {earlier[0]}, {names[0]}")]
        elif free and name in ("maximum", "minimum") and self.how.states[0].category == 2:
            # One step, so that it becomes one over vectors; which of two zeros is the greater one does not matter.
            found = [function.extremum(name, TYPES[self.how.states[0].name], earlier[0], names[0])]
        else:
            function.scopes[-1].names.update(zip(own, earlier, strict=True))
            combined = [lowered(substitute(root, (*own, *lifted))) for root in self.how.combine]
            found = [function.value(each) for each in combined]
        self.put(found, place)

    def result(self, place: str | None, of: dtype, index: int = 0) -> str:
        """Return a result as a value of a type."""
        function = self.function
        own = [make("result", (), (id(self), each), kind) for each, kind in enumerate(self.how.states)]
        names = [self.get(each, place) for each in range(len(own))]
        function.scopes[-1].names.update(zip(own, names, strict=True))
        return function.value(cast(lowered(substitute(self.how.results[index], tuple(own))), of))
