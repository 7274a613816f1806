"""Scans and scatters: one element after the other along a line, all lines at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from webgpu_torch_core.ir.dtypes import float32, float64, int64
from webgpu_torch_core.ir.expression import cast, constant, coordinate, make, substitute
from webgpu_torch_core.ir.kernels import Scan, Scatter
from webgpu_torch_core.ir.monoids import monoid, standard_name

from .. import boxes
from .function import Function
from .functions import lowered
from .loops import TILE, Piece, State, finished, in_order, nest, position_type, unit_strides
from .steps import Statements, Unsupported


class _Scan:
    """Lines one after another, or a tile of lines at a time where neighbours in memory belong to different lines."""

    def __init__(self, kernel: Scan) -> None:
        self.kernel, self.shape, self.line = kernel, kernel.shape, len(kernel.shape) - 1
        value = boxes.simplify(kernel.value, kernel.shape, False)
        self.how = kernel.monoid
        name, of = standard_name(self.how), self.how.states[0]
        if name in ("sum", "product") and of is float32:
            self.how, value = monoid(name, float64), cast(value, float64)
        self.value = lowered(value)
        self.function = Function(kernel)
        counts = [unit_strides(axis, self.shape, [self.value], ()) for axis in range(len(self.shape))]
        together = max(range(self.line), key=lambda axis: counts[axis], default=None)
        alone = together is None or counts[together] <= counts[self.line] or self.shape[together] < 8
        self.together = None if alone else together
        self.state = State(self.function, self.how, 1 if self.together is None else TILE)

    def write(self) -> Piece:
        """Return the function."""
        function, shape = self.function, self.shape
        order = in_order(shape, [axis for axis in range(self.line) if axis != self.together], None)
        if self.together is None:
            with nest(function, shape, order, True, False) if order else function.loop(None, "%begin", "%end"):
                self._line(lambda write: write(None))
        elif order:
            with nest(function, shape, order, True, False):
                self._tiles("0", function.number(("size", self.together), shape[self.together]))
        else:
            self._tiles("%begin", "%end")
        return finished(function, shape[order[0]] if order else 1 if self.together is None else shape[self.together])

    def _tiles(self, start: str, end: str) -> None:
        function = self.function
        with function.loop(None, start, end, step=TILE) as first:
            last = function.least(function.here(f"add nsw i64 {first}, {TILE}"), end)

            def each(write: Callable[[str | None], None]) -> None:
                with function.loop(self.together, first, last, parallel=True) as place:
                    write(function.here(f"sub nsw i64 {place}, {first}"))

            self._line(each)

    def _line(self, each: Callable[[Callable[[str | None], None]], None]) -> None:
        """Write the loop along lines; ``each`` writes something for every line of a tile."""
        function = self.function
        each(self.state.start)
        size = function.number(("size", self.line), self.shape[self.line])
        with function.loop(self.line, "0", size, backwards=self.kernel.reverse):
            each(self._step)

    def _step(self, place: str | None) -> None:
        kernel, function = self.kernel, self.function
        position = cast(coordinate(self.line), position_type(self.how))
        self.state.take(self.value, position, place, False)
        for index, output in enumerate(kernel.outputs):
            value = self.state.result(place, output.dtype, index)
            at, _ = function.place(("store",), kernel.offset, kernel.strides)
            function.store(function.buffer("outputs", index), at, output.dtype, value)


def scan(kernel: Scan) -> list[Piece]:
    """Return the function of a scan."""
    return [_Scan(kernel).write()]


def scatter(kernel: Scatter) -> list[Piece]:
    """Return the function of a scatter: lanes, which touch different elements, are what threads share."""
    of, how = kernel.outputs[0].dtype, kernel.monoid
    if how is not None and of.category == 2 and of.itemsize < 4:
        raise Unsupported("sums in types of 16 bits, which are added in wider ones")
    domain, depth = kernel.lanes + kernel.entries, len(kernel.lanes)
    lanes, entries = list(range(depth)), list(range(depth, len(domain)))
    index, value = (lowered(boxes.simplify(each, domain, False)) for each in (kernel.index, kernel.value))
    function = Function(kernel)
    lane, entry = (unit_strides(axis, domain, [index, value], ()) for axis in (depth - 1, len(domain) - 1))
    inside = depth > 0 and lane > entry

    def write() -> None:
        kind = index.dtype
        wide = function.value(cast(index, int64) if kind is not int64 else index)
        last = function.number(("last",), kernel.outputs[0].numel - 1)
        statements = Statements(function.here, function.declarations)
        place = statements.call("llvm.umin.i64", "i64", [("i64", wide), ("i64", last)])
        buffer = function.buffer("outputs", 0)
        if how is None:
            function.store(buffer, place, of, function.value(cast(value, of)))
            return
        here, state = len(function.scopes) - 1, how.states[0]
        before = make("state", (), "target", of)
        function.scopes[-1].names[before] = function.load(buffer, place, here, of)
        (lifted,) = (substitute(root, (value, constant(0, position_type(how)))) for root in how.lift)
        (combined,) = (substitute(root, (cast(before, state), lifted)) for root in how.combine)
        function.store(buffer, place, of, function.value(cast(lowered(combined), of)))

    if inside:
        with nest(function, domain, entries, False, False), nest(function, domain, lanes, True, False):
            write()
    else:
        whole = nest(function, domain, lanes, True, False) if lanes else function.loop(None, "%begin", "%end")
        with whole, nest(function, domain, entries, False, False) if entries else nullcontext():
            write()
    return [finished(function, domain[0] if lanes else 1)]
