"""The kernel forms as machine code: which loops there are, in which order, and what is kept from one to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from webgpu_torch_core.ir.dtypes import dtype, float32, float64
from webgpu_torch_core.ir.expression import Expression, cast, coordinate, make, rewrite, topological
from webgpu_torch_core.ir.kernels import Contraction, Kernel, Pointwise, Reduction, RowProgram, Scan, Scatter, Store
from webgpu_torch_core.ir.layouts import Shape
from webgpu_torch_core.ir.monoids import Monoid, monoid, standard_name

from .. import boxes
from .contractions import contraction
from .function import Function
from .functions import lowered
from .gathering import gathered
from .loops import TILE, Piece, State, finished, in_order, lowered_stores, nest, position_type, put, store, unit_strides
from .ordered import scan, scatter
from .steps import Unsupported

#: pieces that a kernel is cut into at most, each a function of its own
MOST_PIECES = 9
#: steps from which on a value is kept rather than computed again
LONG = 20
#: monoids whose reductions become loops over vectors
_VECTORS = ("sum", "product", "maximum", "minimum", "any", "all", "xor")


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


def _pointwise(kernel: Pointwise) -> list[Piece]:
    cut = boxes.pieces(kernel.shape, kernel.stores, by_rows=False)
    if len(cut) > MOST_PIECES:
        whole = tuple(each.replace(value=boxes.simplify(each.value, kernel.shape, False)) for each in kernel.stores)
        cut = [boxes.Piece(kernel.shape, whole)]
    if all(each.initial is None for each in kernel.outputs):
        # Boxes of one size in one loop: parts of complex numbers are written as neighbours.
        alike: dict[Shape, tuple[Store, ...]] = {}
        for each in cut:
            alike[each.shape] = (*alike.get(each.shape, ()), *each.stores)
        cut = [boxes.Piece(*each) for each in alike.items()]
    return [
        gathered(kernel, each.shape, each.stores) or _box(kernel, each.shape, lowered_stores(each.stores))
        for each in cut
    ]


def _box(kernel: Pointwise, shape: Shape, stores: tuple[Store, ...]) -> Piece:
    function = Function(kernel)
    axes = [axis for axis, size in enumerate(shape) if size > 1] or list(range(len(shape)))[-1:]
    shape, stores = _without(shape, axes, stores)
    roots = [each.value for each in stores]
    inner = max(range(len(shape)), key=lambda axis: (unit_strides(axis, shape, roots, stores), axis), default=None)
    order = in_order(shape, list(range(len(shape))), inner)
    with nest(function, shape, order, True, True) if order else function.loop(None, "%begin", "%end"):
        store(function, stores)
    return finished(function, shape[order[0]] if order else 1)


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
        self.row_stores = lowered_stores(
            tuple(each.replace(value=simplify(each.value, kernel.outer, False)) for each in kernel.row_stores)
        )
        self.stores = lowered_stores(
            tuple(each.replace(value=simplify(each.value, self.domain, False)) for each in kernel.stores)
        )
        self.reductions = [
            _widened(each.replace(value=value)) for each, value in zip(kernel.reductions, self.values, strict=True)
        ]
        self.function = Function(kernel)
        self.together = self._neighbours()
        self.kept = self._keeps()
        if not kernel.inner:
            raise Unsupported("rows of no elements")
        if self.together is None and any(standard_name(each.monoid) not in _VECTORS for each in self.reductions):
            raise Unsupported("a reduction that is no loop over vectors")
        self.states = [
            State(self.function, each.monoid, TILE if self.together is not None else 1) for each in self.reductions
        ]

    def _neighbours(self) -> int | None:
        """Return the outer dimension along which most accesses go from one element to the next, if it is not an inner one."""
        counts = [unit_strides(axis, self.domain, self.values, self.stores) for axis in range(len(self.domain))]
        outer = max(range(self.depth), key=lambda axis: counts[axis], default=None)
        if outer is None or self.kernel.outer[outer] < 8:
            return None
        return outer if counts[outer] > max((counts[axis] for axis in self.inner), default=0) else None

    def write(self) -> Piece:
        """Return the function."""
        function, outer = self.function, self.kernel.outer
        others = [axis for axis in range(self.depth) if axis != self.together]
        order = in_order(outer, others, None)
        if self.together is None:
            if order:
                with nest(function, outer, order, True, False):
                    self._rows(None, None)
            else:
                with function.loop(None, "%begin", "%end"):
                    self._rows(None, None)
        elif order:
            with nest(function, outer, order, True, False):
                self._tiles("0", function.number(("size", self.together), outer[self.together]))
        else:
            self._tiles("%begin", "%end")
        size = outer[order[0]] if order else 1 if self.together is None else outer[self.together]
        return finished(function, size)

    def _tiles(self, start: str, end: str) -> None:
        function = self.function
        with function.loop(None, start, end, step=TILE) as first:
            self._rows(first, function.least(function.here(f"add nsw i64 {first}, {TILE}"), end))

    def _each(self, first: str | None, last: str | None, write: Callable[[str | None], None]) -> None:
        """Write something for the row, or for each row of the tile."""
        if first is None or last is None:
            write(None)
            return
        function = self.function
        with function.loop(self.together, first, last, parallel=True) as variable:
            place = function.here(f"sub nsw i64 {variable}, {first}")
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
            if first is None:
                self._reduce(members)
            else:
                with nest(function, self.domain, self.inner, False, False):
                    self._each(first, last, lambda place, members=members: self._take(members, place))
            self.known += len(group)
            if first is None:
                for number in members:
                    self._know(number, self.states[number].result(None, self._type(number)))
        # The rows' values come before what the elements store, and are stored after it.
        if not self.stores:
            self._each(first, last, lambda _: store(function, self.row_stores, "row"))
            return
        if first is not None:
            if self.row_stores and any(each.initial is not None for each in self.kernel.outputs):
                raise Unsupported("stores per row and per element of a tile that may be an operand's")
            self._each(first, last, lambda _: store(function, self.row_stores, "row"))
            with nest(function, self.domain, self.inner, False, False):
                self._each(first, last, lambda _: store(function, self.stores))
            return
        names = [function.value(each.value) for each in self.row_stores]
        with nest(function, self.domain, self.inner, False, True):
            self._read_kept()
            store(function, self.stores)
        put(function, self.row_stores, names, "row")

    def _type(self, number: int) -> dtype:
        return self.kernel.reductions[number].monoid.results[0].dtype

    def _start(self, members: range, place: str | None) -> None:
        for number in members:
            self.states[number].start(place)

    def _take(self, members: range, place: str | None) -> None:
        for number in members:
            reduction = self.reductions[number]
            self.states[number].take(reduction.value, self._position(reduction.monoid), place, place is None)

    def _reduce(self, members: range) -> None:
        """Write the loops over one row."""
        function, axis = self.function, self.inner[-1]
        with nest(function, self.domain, self.inner[:-1], False, False):
            size = function.number(("size", axis), self.domain[axis])
            with function.loop(axis, "0", size, parallel=True):
                for number in members:
                    state = self.states[number]
                    state.take(self.reductions[number].value, self._position(state.how), None, True)
                    if number == self.kept:
                        put(function, self.stores, [function.value(self.values[number])], "store")

    def _keeps(self) -> int | None:
        """Return the reduction whose elements take long to compute and are needed again: they wait where the results will be."""
        if self.together is not None or len(self.stores) != 1:
            return None
        (only,) = self.stores
        output, parts = self.kernel.outputs[only.output], topological(only.value)
        if output.initial is not None or any(each.output == only.output for each in self.row_stores):
            return None
        for number, value in enumerate(self.values):
            if value.size > LONG and value.dtype is output.dtype and value in parts:
                return number
        return None

    def _read_kept(self) -> None:
        if self.kept is not None:
            function, (only,) = self.function, self.stores
            of = self.kernel.outputs[only.output].dtype
            place, depth = function.place(("store", 0), only.offset, only.strides)
            value = function.load(function.buffer("outputs", only.output), place, depth, of)
            function.scopes[-1].names[self.values[self.kept]] = value

    def _position(self, how: Monoid) -> Expression:
        """Return an element's number among those of its row, in the type in which a monoid takes it."""
        of = position_type(how)
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


_WRITERS: dict[type, Callable[[Any], list[Piece]]] = {
    Pointwise: _pointwise,
    RowProgram: _row_program,
    Contraction: contraction,
    Scan: scan,
    Scatter: scatter,
}
