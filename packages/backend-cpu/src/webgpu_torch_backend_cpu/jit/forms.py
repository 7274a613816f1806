"""The kernel forms as machine code: which loops there are, in which order, and what is kept from one to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from webgpu_torch_core.ir.dtypes import dtype, float32, float64, int64
from webgpu_torch_core.ir.expression import Expression, cast, coordinate, make, rewrite, substitute, topological
from webgpu_torch_core.ir.kernels import Kernel, Pointwise, Reduction, RowProgram, Store
from webgpu_torch_core.ir.layouts import Shape
from webgpu_torch_core.ir.monoids import Monoid, monoid, standard_name

from .. import boxes
from .function import Function
from .functions import lowered
from .steps import TYPES, Unsupported, literal

#: rows that are reduced together where neighbours in memory belong to different rows
TILE = 128
#: pieces that a kernel is cut into at most, each a function of its own
MOST_PIECES = 9
#: monoids whose reductions become loops over vectors
_VECTORS = ("sum", "product", "maximum", "minimum", "any", "all", "xor")


class Piece(NamedTuple):
    """A function and what it is called with: how far its outermost loop goes, and the numbers that its text leaves open."""

    text: str
    size: int
    numbers: tuple[int, ...]


def pieces(kernel: Kernel) -> list[Piece]:
    """Return the functions that run a kernel, one after another.

    Raises:
        Unsupported: NumPy has to run it.
    """
    writer = _WRITERS.get(type(kernel))
    if writer is None:
        raise Unsupported(f"the form {kernel.form}")
    sizes = [each.numel for each in (*kernel.operands, *kernel.outputs)]
    if max([*sizes, kernel.elements()]) >= 1 << 31 or not kernel.elements():
        raise Unsupported("a kernel of no elements, or of more than 32 bits count")
    return writer(kernel)


def _finished(function: Function, size: int) -> Piece:
    return Piece(function.text(), size, tuple(function.numbers))


def _lowered(stores: tuple[Store, ...]) -> tuple[Store, ...]:
    return tuple(each.replace(value=lowered(each.value)) for each in stores)


def _loads(*roots: Expression) -> Iterator[Shape]:
    for node in topological(*roots):
        if node.step == "load":
            yield node.payload[2]


def _unit_strides(axis: int, roots: list[Expression], stores: tuple[Store, ...]) -> int:
    """Return how many accesses go from one element to the next along an axis; stores count twice."""
    found = sum(strides[axis : axis + 1] == (1,) for strides in _loads(*roots))
    return found + 2 * sum(each.strides[axis : axis + 1] == (1,) for each in stores)


def _put(function: Function, stores: tuple[Store, ...], names: list[str], group: str) -> None:
    for number, (each, value) in enumerate(zip(stores, names, strict=True)):
        place, _ = function.place((group, number), each.offset, each.strides)
        kind = function.kernel.outputs[each.output].dtype
        function.store(function.buffer("outputs", each.output), place, kind, value)


def _store(function: Function, stores: tuple[Store, ...], group: str = "store") -> None:
    """Write all values, then all stores."""
    _put(function, stores, [function.value(each.value) for each in stores], group)


@contextmanager
def _nest(function: Function, shape: Shape, order: list[int], split: bool, parallel: bool) -> Iterator[None]:
    """Open loops over some dimensions; the outermost goes over the function's range if ``split``."""
    with ExitStack() as stack:
        for number, axis in enumerate(order):
            whole = split and number == 0
            end = "%end" if whole else function.number(("size", axis), shape[axis])
            last = parallel and number == len(order) - 1
            stack.enter_context(function.loop(axis, "%begin" if whole else "0", end, parallel=last))
        yield


def _order(shape: Shape, axes: list[int], inner: int | None) -> list[int]:
    """Return the order of loops: the innermost last, a long one first, which threads share."""
    outer = [axis for axis in axes if axis != inner]
    if outer and shape[outer[0]] < 8:
        longest = max(outer, key=lambda axis: shape[axis])
        if shape[longest] >= 8:
            outer.remove(longest)
            outer.insert(0, longest)
    return outer + ([] if inner is None else [inner])


def _pointwise(kernel: Pointwise) -> list[Piece]:
    cut = boxes.pieces(kernel.shape, kernel.stores, by_rows=False)
    if len(cut) > MOST_PIECES:
        whole = tuple(each.replace(value=boxes.simplify(each.value, kernel.shape, False)) for each in kernel.stores)
        cut = [boxes.Piece(kernel.shape, whole)]
    return [_box(kernel, each.shape, _lowered(each.stores)) for each in cut]


def _box(kernel: Pointwise, shape: Shape, stores: tuple[Store, ...]) -> Piece:
    function = Function(kernel)
    axes = [axis for axis, size in enumerate(shape) if size > 1] or list(range(len(shape)))[-1:]
    shape, stores = _without(shape, axes, stores)
    roots = [each.value for each in stores]
    inner = max(range(len(shape)), key=lambda axis: (_unit_strides(axis, roots, stores), axis), default=None)
    order = _order(shape, list(range(len(shape))), inner)
    with _nest(function, shape, order, True, True) if order else function.loop(None, "%begin", "%end"):
        _store(function, stores)
    return _finished(function, shape[order[0]] if order else 1)


def _without(shape: Shape, axes: list[int], stores: tuple[Store, ...]) -> tuple[Shape, tuple[Store, ...]]:
    """Return a box over some of its axes: the others are of one element."""
    if len(axes) == len(shape):
        return shape, stores
    number = {axis: place for place, axis in enumerate(axes)}

    def replace(node: Expression, _: tuple[Expression, ...]) -> Expression | None:
        if node.step == "load":
            operand, offset, strides = node.payload
            return make("load", (), (operand, offset, tuple(strides[axis] for axis in axes)), node.dtype)
        if node.step == "coordinate":
            place = number.get(node.payload)
            return make("constant", (), 0, node.dtype) if place is None else make("coordinate", (), place, node.dtype)
        return None

    moved = tuple(
        Store(each.output, each.offset, tuple(each.strides[axis] for axis in axes), rewrite(each.value, replace))
        for each in stores
    )
    return tuple(shape[axis] for axis in axes), moved


class _State:
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
        else:
            function.scopes[-1].names.update(zip(own, earlier, strict=True))
            combined = [lowered(substitute(root, (*own, *lifted))) for root in self.how.combine]
            found = [function.value(each) for each in combined]
        self.put(found, place)

    def result(self, place: str | None, of: dtype) -> str:
        """Return the first result as a value of a type."""
        function = self.function
        own = [make("state", (), (id(self), index), each) for index, each in enumerate(self.how.states)]
        names = [self.get(index, place) for index in range(len(own))]
        function.scopes[-1].names.update(zip(own, names, strict=True))
        return function.value(cast(lowered(substitute(self.how.results[0], tuple(own))), of))


def _widened(reduction: Reduction) -> Reduction:
    """Return sums and products of float32 in double precision."""
    name = standard_name(reduction.monoid)
    if name in ("sum", "product") and reduction.dtype is float32:
        return Reduction(monoid(name, float64), cast(reduction.value, float64))
    return reduction


class _Rows:
    """Rows reduced one after another, or a tile of rows at a time where neighbours in memory belong to different rows."""

    def __init__(self, kernel: RowProgram) -> None:
        self.kernel = kernel
        self.domain = kernel.outer + kernel.inner
        self.depth = len(kernel.outer)
        self.inner = list(range(self.depth, len(self.domain)))
        simplify = boxes.simplify
        self.values = [lowered(simplify(each.value, self.domain, False)) for each in kernel.reductions]
        self.row_stores = _lowered(
            tuple(each.replace(value=simplify(each.value, kernel.outer, False)) for each in kernel.row_stores)
        )
        self.stores = _lowered(
            tuple(each.replace(value=simplify(each.value, self.domain, False)) for each in kernel.stores)
        )
        self.reductions = [
            _widened(each.replace(value=value)) for each, value in zip(kernel.reductions, self.values, strict=True)
        ]
        self.function = Function(kernel)
        self.together = self._neighbours()
        if not kernel.inner:
            raise Unsupported("rows of no elements")
        if self.together is None and any(standard_name(each.monoid) not in _VECTORS for each in self.reductions):
            raise Unsupported("a reduction that is no loop over vectors")
        self.states = [
            _State(self.function, each.monoid, TILE if self.together is not None else 1) for each in self.reductions
        ]

    def _neighbours(self) -> int | None:
        """Return the outer dimension along which most accesses go from one element to the next, if it is not an inner one."""
        counts = [_unit_strides(axis, self.values, self.stores) for axis in range(len(self.domain))]
        outer = max(range(self.depth), key=lambda axis: counts[axis], default=None)
        if outer is None or self.kernel.outer[outer] < 8:
            return None
        return outer if counts[outer] > max((counts[axis] for axis in self.inner), default=0) else None

    def write(self) -> Piece:
        """Return the function."""
        function, outer = self.function, self.kernel.outer
        others = [axis for axis in range(self.depth) if axis != self.together]
        order = _order(outer, others, None)
        if self.together is None:
            if order:
                with _nest(function, outer, order, True, False):
                    self._rows(None, None)
            else:
                with function.loop(None, "%begin", "%end"):
                    self._rows(None, None)
        elif order:
            with _nest(function, outer, order, True, False):
                self._tiles("0", function.number(("size", self.together), outer[self.together]))
        else:
            self._tiles("%begin", "%end")
        size = outer[order[0]] if order else 1 if self.together is None else outer[self.together]
        return _finished(function, size)

    def _tiles(self, start: str, end: str) -> None:
        function = self.function
        with function.loop(None, start, end, step=TILE) as first:
            depth = len(function.scopes) - 1
            last = function.emit(depth, f"add nsw i64 {first}, {TILE}")
            last = self._call("llvm.smin.i64", last, end)
            self._rows(first, last)

    def _call(self, name: str, left: str, right: str) -> str:
        function = self.function
        function.declarations[name] = f"declare i64 @{name}(i64, i64)"
        return function.emit(len(function.scopes) - 1, f"call i64 @{name}(i64 {left}, i64 {right})")

    def _each(self, first: str | None, last: str | None, write: Callable[[str | None], None]) -> None:
        """Write something for the row, or for each row of the tile."""
        if first is None or last is None:
            write(None)
            return
        function = self.function
        with function.loop(self.together, first, last, parallel=True) as variable:
            place = function.emit(len(function.scopes) - 1, f"sub nsw i64 {variable}, {first}")
            for number, state in enumerate(self.states[: self.known]):
                self._know(number, state.result(place, self._type(number)))
            write(place)

    def _know(self, number: int, value: str) -> None:
        self.function.scopes[-1].names[make("reduced", (), number, self._type(number))] = value

    def _rows(self, first: str | None, last: str | None) -> None:
        function = self.function
        self.known = 0
        for group in self._passes():
            members = range(self.known, self.known + len(group))
            self._each(first, last, lambda place, members=members: self._start(members, place))
            with _nest(function, self.domain, self.inner, False, False):
                self._each(first, last, lambda place, members=members: self._take(members, place))
            self.known += len(group)
            if first is None:
                for number in members:
                    self._know(number, self.states[number].result(None, self._type(number)))
        # The rows' values come before what the elements store, and are stored after it.
        if not self.stores:
            self._each(first, last, lambda _: _store(function, self.row_stores, "row"))
            return
        if first is not None and self.row_stores:
            raise Unsupported("stores per row and per element of a tile")
        names = [function.value(each.value) for each in self.row_stores]
        if first is None:
            with _nest(function, self.domain, self.inner, False, True):
                _store(function, self.stores)
        else:
            with _nest(function, self.domain, self.inner, False, False):
                self._each(first, last, lambda _: _store(function, self.stores))
        _put(function, self.row_stores, names, "row")

    def _type(self, number: int) -> dtype:
        return self.kernel.reductions[number].monoid.results[0].dtype

    def _start(self, members: range, place: str | None) -> None:
        for number in members:
            self.states[number].start(place)

    def _take(self, members: range, place: str | None) -> None:
        for number in members:
            reduction = self.reductions[number]
            self.states[number].take(reduction.value, self._position(reduction.monoid), place, place is None)

    def _position(self, how: Monoid) -> Expression:
        """Return an element's number among those of its row, in the type in which a monoid takes it."""
        of = next(
            (node.dtype for node in topological(*how.lift) if (node.step, node.payload) == ("argument", 1)), int64
        )
        result: Any = None
        for axis in self.inner:
            size = self.domain[axis]
            term = cast(coordinate(axis), of)
            result = term if result is None else result * size + term
        return result

    def _passes(self) -> Iterator[list[int]]:
        """Yield the reductions that go over the elements together: none uses another's result."""
        group: list[int] = []
        for number, value in enumerate(self.values):
            used = {node.payload for node in topological(value) if node.step == "reduced"}
            if used & set(group):
                yield group
                group = []
            group.append(number)
        if group:
            yield group


def _row_program(kernel: RowProgram) -> list[Piece]:
    return [_Rows(kernel).write()]


_WRITERS: dict[type, Callable[[Any], list[Piece]]] = {Pointwise: _pointwise, RowProgram: _row_program}
