"""Windows over single channels as machine code: every plane is copied with its border of zeros to memory that stays in cache.

There no tap needs a test, and where windows move by single places whole planes are one long loop, the gaps between lines
included, in which all taps are added up in a register: what is stored is picked out of its results.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from webgpu_torch_core.ir.expression import Expression, accumulator, cast, load
from webgpu_torch_core.ir.kernels import Contraction
from webgpu_torch_core.ir.layouts import Shape, contiguous_strides, number_of_elements
from webgpu_torch_core.ir.reindexing import reindex

from .. import boxes
from ..windows import Affine, Axis, Window, window_of
from .function import Function
from .functions import lowered
from .loops import Piece, finished, in_order, lowered_stores, nest, store
from .steps import TYPES, literal

#: elements of a plane with its border, and taps, up to which this is done: what two planes take stays in the second-level cache
MOST_ELEMENTS, MOST_TAPS = 1 << 15, 50


def planes(kernel: Contraction) -> Piece | None:
    """Return the function of a window that moves over planes of its own; None if the contraction is anything else."""
    window = window_of(kernel.right)
    if window is None or not kernel.batch or number_of_elements(kernel.m) != 1 or kernel.dtype.category != 2:
        return None
    count, stored = len(kernel.k), len(kernel.batch) + len(kernel.m) + len(kernel.n)
    if not 0 < count <= len(kernel.n) or number_of_elements(kernel.k) > MOST_TAPS:
        return None
    lead = stored - count
    window = window if window.axes else _with_axes(kernel, window, lead)
    if window is None or len(window.axes) != count or any(dimension >= lead for dimension, _ in window.rest.factors):
        return None
    for number, axis in enumerate(window.axes):
        if not {dimension for dimension, _ in axis.position.factors} <= {lead + number, stored + number}:
            return None
    found = _Planes(kernel, window)
    return found.write() if number_of_elements(found.sizes) <= MOST_ELEMENTS else None


def _with_axes(kernel: Contraction, window: Window, lead: int) -> Window | None:
    """Return a window that leaves no axis as one over axes, moving by one place."""
    factors, axes, count = dict(window.rest.factors), list[Axis](), len(kernel.k)
    for place, tap in zip(range(lead, lead + count), range(lead + count, lead + 2 * count), strict=True):
        stride, apart = factors.pop(place, 0), factors.pop(tap, 0)
        if stride <= 0 or apart <= 0 or apart % stride:
            return None
        position = Affine(((place, 1), (tap, apart // stride)), 0)
        axes.append(Axis(position.extremes(_domain(kernel))[1] + 1, stride, position))
    return Window(window.operand, Affine(tuple(factors.items()), window.rest.constant), tuple(axes))


def _domain(kernel: Contraction) -> Shape:
    return kernel.batch + kernel.m + kernel.n + kernel.k


class _Planes:
    def __init__(self, kernel: Contraction, window: Window) -> None:
        self.kernel, self.window = kernel, window
        self.domain, self.places = _domain(kernel), kernel.n[-len(kernel.k) :]
        self.lead = len(self.domain) - 2 * len(kernel.k)
        reaches = [axis.position.extremes(self.domain) for axis in window.axes]
        #: the first position of each axis that is read, and how many there are
        self.lows = [low for low, _ in reaches]
        self.sizes: Shape = tuple(high - low + 1 for low, high in reaches)
        self.strides = contiguous_strides(self.sizes)
        factors = [dict(axis.position.factors) for axis in window.axes]
        self.moves = [each.get(self.lead + number, 1) for number, each in enumerate(factors)]
        self.taps = [each.get(self.lead + len(kernel.k) + number, 0) for number, each in enumerate(factors)]
        self.flat = all(each == 1 for each in self.moves)
        self.function = Function(kernel)
        self.type = TYPES[kernel.dtype.name]

    def write(self) -> Piece:
        """Return the function."""
        function, domain = self.function, self.domain
        total = function.number("plane", number_of_elements(self.sizes))
        plane, sums = function.variable(self.type, total), function.variable(self.type, total)
        with function.loop(None, "0", total, parallel=True) as place:
            # The border stays as it is from one plane to the next.
            self._put(plane, place, literal(0, self.kernel.dtype))
        order = in_order(domain, list(range(self.lead)), None)
        with nest(function, domain, order, True, False):
            self._copy(plane)
            self._add_up(plane, sums)
            self._store(sums)
        return finished(function, domain[order[0]])

    def _spread(self, strides: Shape) -> Shape:
        """Return strides along the axes of results as strides along all dimensions."""
        return (*(0 for _ in range(self.lead)), *strides, *(0 for _ in strides))

    @contextmanager
    def _loops(self, starts: list[int], ends: list[int], key: str) -> Iterator[None]:
        """Open loops over the axes of results, or of what is read."""
        function, last = self.function, len(ends) - 1
        with ExitStack() as stack:
            for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
                first = function.number((key, "start", number), start) if start else "0"
                until = function.number((key, "end", number), end)
                stack.enter_context(function.loop(self.lead + number, first, until, parallel=number == last))
            yield

    def _copy(self, plane: str) -> None:
        """Copy what lies inside of the axes."""
        function, window = self.function, self.window
        starts = [max(low, 0) for low in self.lows]
        ends = [min(axis.size, low + size) for axis, low, size in zip(window.axes, self.lows, self.sizes, strict=True)]
        factors = dict(window.rest.factors)
        steps = self._spread(tuple(axis.stride for axis in window.axes))
        strides = tuple(factors.get(dimension, 0) + step for dimension, step in enumerate(steps))
        of = self.kernel.operands[window.operand].dtype
        source = lowered(cast(load(window.operand, window.rest.constant, strides, of), self.kernel.dtype))
        offset = -sum(low * stride for low, stride in zip(self.lows, self.strides, strict=True))
        with self._loops(starts, ends, "source"):
            value = function.value(source)
            place, _ = function.place(("plane", "place"), offset, self._spread(self.strides))
            self._put(plane, place, value)

    def _tap(self, at: tuple[int, ...]) -> tuple[Expression, int, int]:
        """Return the factor of a tap, and where the plane is read for the first result: a line's start, and how far from it."""
        stored = self.lead + len(at)
        terms = tuple(((axis, 1),) if axis < stored else () for axis in range(len(self.domain)))
        factor = reindex(self.kernel.left, terms, [*(0 for _ in range(stored)), *at])
        start = 0
        for number, axis in enumerate(self.window.axes):
            position = axis.position.constant - self.lows[number]
            start += (position + (at[number] * self.taps[number] if number < len(at) - 1 else 0)) * self.strides[number]
        factor = lowered(cast(boxes.simplify(factor, self.domain, False), self.kernel.dtype))
        return factor, start, at[-1] * self.taps[-1]

    def _add_up(self, plane: str, sums: str) -> None:
        """Add up all taps at the places of results, and where windows move by one, of the gaps between them."""
        function, kernel = self.function, self.kernel
        factors, starts = list[str](), list[str]()
        for at in itertools.product(*map(range, kernel.k)):
            factor, line, along = self._tap(at)
            factors.append(function.value(factor))
            key = function.number(("line", at[:-1]), line)
            if at[-1] == 0:
                pointer = function.here(f"getelementptr {self.type}, ptr {plane}, i64 {key}")
            # How far apart neighbours are stands in the text, so that a line's taps are read from one pointer.
            starts.append(function.here(f"getelementptr {self.type}, ptr {pointer}, i64 {along}"))
        if self.flat:
            run = 1 + sum((size - 1) * stride for size, stride in zip(self.places, self.strides, strict=True))
            with function.loop(None, "0", function.number("run", run), parallel=True) as place:
                self._put(sums, place, self._total(factors, starts, place))
            return
        with self._loops([0] * len(self.places), list(self.places), "results"):
            steps = tuple(stride * move for stride, move in zip(self.strides, self.moves, strict=True))
            place, _ = function.place(("read", "place"), 0, self._spread(steps))
            total = self._total(factors, starts, place)
            self._put(sums, self._result(), total)

    def _total(self, factors: list[str], starts: list[str], place: str) -> str:
        function, total = self.function, literal(0, self.kernel.dtype)
        for factor, start in zip(factors, starts, strict=True):
            product = function.here(f"fmul contract {self.type} {factor}, {self._get(start, place)}")
            total = function.here(f"fadd contract {self.type} {total}, {product}")
        return total

    def _result(self) -> str:
        """Return where a result's sum lies."""
        strides = self.strides if self.flat else contiguous_strides(self.places)
        return self.function.place(("sum", "place"), 0, self._spread(strides))[0]

    def _store(self, sums: str) -> None:
        function, domain = self.function, self.domain[: self.lead + len(self.places)]
        stores = tuple(each.replace(value=boxes.simplify(each.value, domain, False)) for each in self.kernel.stores)
        with self._loops([0] * len(self.places), list(self.places), "results"):
            function.scopes[-1].names[accumulator(self.kernel.dtype)] = self._get(sums, self._result())
            store(function, lowered_stores(stores))

    def _get(self, start: str, place: str) -> str:
        address = self.function.here(f"getelementptr {self.type}, ptr {start}, i64 {place}")
        return self.function.here(f"load {self.type}, ptr {address}{self.function.scopes[-1].group}")

    def _put(self, start: str, place: str, value: str) -> None:
        address = self.function.here(f"getelementptr {self.type}, ptr {start}, i64 {place}")
        scope = self.function.scopes[-1]
        scope.lines.append(f"store {self.type} {value}, ptr {address}{scope.group}")
