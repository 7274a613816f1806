"""Weighted sums of rows at computed positions as machine code: the channels of a place are one vector, which is read at once.

What is read is copied to memory that stays in cache, a tile after the other turned around in registers, and so are the sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from webgpu_torch_core.ir.dtypes import dtype, float32, float64, int32, int64
from webgpu_torch_core.ir.expression import Expression, cast
from webgpu_torch_core.ir.kernels import Pointwise, Store
from webgpu_torch_core.ir.layouts import Shape, number_of_elements

from .. import boxes, gathers
from .function import Function
from .functions import lowered
from .loops import Piece, finished, in_order, nest, store
from .steps import TYPES, literal

#: bytes of a vector at most, elements of what is copied at most, and points whose places are computed together at most
WIDE, MOST_ELEMENTS, POINTS = 64, 1 << 16, 256


class _Rows(NamedTuple):
    """A sum of rows: from where they are counted, how far behind it each begins, their weights, and how far apart channels lie."""

    base: Expression
    places: Sequence[Expression]
    weights: Sequence[Expression]
    operand: int
    apart: int


def gathered(kernel: Pointwise, shape: Shape, stores: tuple[Store, ...]) -> Piece | None:
    """Return the function of a sum of rows over a domain, None if that is anything else or has too few points."""
    if len(stores) != 1 or kernel.outputs[stores[0].output].initial is not None:
        return None
    node = gathers.with_gathered_sums(boxes.simplify(stores[0].value, shape), shape)
    if node.step != "gathered_rows" or node.dtype not in (float32, float64):
        return None
    operand, strides = node.payload
    number = len(node.arguments) // 2
    base, *rest = node.arguments
    row = [axis for axis, stride in enumerate(strides) if stride]
    point = next((axis for axis, stride in enumerate(stores[0].strides) if stride == 1 and axis not in row), None)
    if len(row) != 1 or point is None or len(shape) < 3 or gathers.varies(base, {point}):
        return None
    if kernel.operands[operand].dtype is not node.dtype or any(each.dtype is not int32 for each in rest[:number]):
        return None
    rows = _Rows(base, rest[:number], rest[number:], operand, strides[row[0]])
    found = _Gathering(kernel, shape, stores, rows, (row[0], point))
    return found.write() if found.is_worth_it() else None


class _Gathering:
    def __init__(
        self, kernel: Pointwise, shape: Shape, stores: tuple[Store, ...], rows: _Rows, axes: tuple[int, int]
    ) -> None:
        self.kernel, self.shape, self.stores, self.rows = kernel, shape, stores, rows
        self.row, self.point = axes
        self.channels, self.points = (shape[axis] for axis in axes)
        self.of: dtype = kernel.operands[rows.operand].dtype
        self.type = TYPES[self.of.name]
        #: channels that are one vector, and as many places that are turned around with them
        self.lanes = min(WIDE // self.of.itemsize, 1 << (self.channels - 1).bit_length())
        self.vector = f"<{self.lanes} x {self.type}>"
        self.together = min(POINTS, self.points // self.lanes * self.lanes)
        self.function = Function(kernel)

    def is_worth_it(self) -> bool:
        """Return whether there are enough points, and whether what is copied stays in cache."""
        if not self.together or (self.rows.apart + 1) * self.lanes > MOST_ELEMENTS:
            return False
        read = number_of_elements(self.shape) * len(self.rows.places)
        return read >= self.kernel.operands[self.rows.operand].numel

    def write(self) -> Piece:
        """Return the function."""
        function, rows = self.function, self.rows
        capacity = function.number("capacity", (rows.apart + 1) * self.lanes)
        self.table = function.variable(self.type, capacity)
        self.at = function.variable("i32", len(rows.places) * self.together)
        self.factors = function.variable(self.type, len(rows.places) * self.together)
        self.source = function.buffer("operands", rows.operand)
        self.apart = function.number("apart", rows.apart)
        outer = [axis for axis in range(len(self.shape)) if axis not in (self.row, self.point)]
        order = in_order(self.shape, outer, None)
        with nest(function, self.shape, order, True, False):
            self.base = function.value(cast(rows.base, int64))
            last = function.number("last", self.kernel.operands[rows.operand].numel - (self.channels - 1) * rows.apart)
            # All places that the last channel has, too.
            self.length = function.least(self.apart, function.here(f"sub nsw i64 {last}, {self.base}"))
            most = function.here(f"sext i32 {self._greatest()} to i64")
            fits = function.here(f"icmp slt i64 {most}, {self.length}")
            fits = function.here(f"and i1 {fits}, {function.here(f'icmp sge i64 {self.length}, {self.lanes}')}")
            with function.when([fits]):
                self._by_vectors()
            with function.when([function.here(f"xor i1 {fits}, true")]):
                with nest(function, self.shape, [self.row, self.point], False, True):
                    store(function, tuple(each.replace(value=lowered(each.value)) for each in self.stores))
        return finished(function, self.shape[order[0]])

    def _greatest(self) -> str:
        """Return the greatest place that is read."""
        function = self.function
        most = function.variable("i32")
        function.scopes[-1].lines.append(f"store i32 0, ptr {most}")
        with function.loop(self.point, "0", function.number(("size", self.point), self.points)):
            found = function.here(f"load i32, ptr {most}")
            for each in self.rows.places:
                place = function.value(lowered(each))
                greater = function.here(f"icmp sgt i32 {place}, {found}")
                found = function.here(f"select i1 {greater}, i32 {place}, i32 {found}")
            function.scopes[-1].lines.append(f"store i32 {found}, ptr {most}")
        return function.here(f"load i32, ptr {most}")

    def _by_vectors(self) -> None:
        """Write loops over blocks of channels; the last one begins earlier where fewer are left."""
        function, lanes = self.function, self.lanes
        blocks = function.number("blocks", -(-self.channels // lanes))
        final = function.number("final", max(self.channels - lanes, 0))
        with function.loop(None, "0", blocks) as block:
            channel = function.least(function.here(f"mul nsw i64 {block}, {lanes}"), final)
            self._copy(channel)
            size = function.number(("size", self.point), self.points)
            with function.loop(None, "0", size, step=self.together) as place:
                start = function.least(place, function.here(f"sub nsw i64 {size}, {self.together}"))
                self._note(start)
                self._add_up(channel, start)

    def _copy(self, channel: str) -> None:
        """Copy some channels, those of a place next to each other, and zeros behind the last place."""
        function, lanes = self.function, self.lanes
        first = function.here(f"mul nsw i64 {channel}, {self.apart}")
        first = function.here(f"add nsw i64 {self.base}, {first}")
        with function.loop(None, "0", self.length, step=lanes) as place:
            start = function.least(place, function.here(f"sub nsw i64 {self.length}, {lanes}"))
            at = function.here(f"add nsw i64 {first}, {start}")
            read: list[str] = []
            for number in range(lanes):
                if 0 < number < self.channels:
                    at = function.here(f"add nsw i64 {at}, {self.apart}")
                read.append(self._get(self.vector, self.source, at))
            to = function.here(f"mul nsw i64 {start}, {lanes}")
            for number, each in enumerate(self._turned(read)):
                self._put(self.vector, each, self.table, function.here(f"add nsw i64 {to}, {number * lanes}"))
        end = function.here(f"mul nsw i64 {self.length}, {lanes}")
        self._put(self.vector, "zeroinitializer", self.table, end)

    def _note(self, start: str) -> None:
        """Compute where the rows of some points begin, and their weights: what lies outside is the zeros."""
        function = self.function
        outside = function.here(f"trunc i64 {self.length} to i32")
        end = function.here(f"add nsw i64 {start}, {self.together}")
        with function.loop(self.point, start, end, parallel=True) as point:
            for number, (each, factor) in enumerate(zip(self.rows.places, self.rows.weights, strict=True)):
                place, weight = function.value(lowered(each)), function.value(lowered(factor))
                inside = function.here(f"icmp sge i32 {place}, 0")
                place = function.here(f"select i1 {inside}, i32 {place}, i32 {outside}")
                weight = function.here(f"select i1 {inside}, {self.type} {weight}, {self.type} {literal(0, self.of)}")
                to = function.here(f"sub nsw i64 {point}, {start}")
                to = function.here(f"add nsw i64 {to}, {number * self.together}")
                self._put("i32", place, self.at, to)
                self._put(self.type, weight, self.factors, to)

    def _add_up(self, channel: str, start: str) -> None:
        """Add up the rows of some points, and store the sums by channels."""
        function, lanes, (only,) = self.function, self.lanes, self.stores
        apart = function.stride(("store", "row"), only.strides[self.row])
        along = tuple(0 if axis in (self.row, self.point) else each for axis, each in enumerate(only.strides))
        target, _ = function.place(("store", "first"), only.offset, along)
        target = function.here(f"add nsw i64 {target}, {function.here(f'mul nsw i64 {channel}, {apart}')}")
        target = function.here(f"add nsw i64 {target}, {start}")
        with function.loop(None, "0", str(self.together), step=lanes) as first:
            sums = [
                self._sum(function.here(f"add nsw i64 {first}, {number}") if number else first)
                for number in range(lanes)
            ]
            at = function.here(f"add nsw i64 {target}, {first}")
            for number, each in enumerate(self._turned(sums)[: self.channels]):
                at = function.here(f"add nsw i64 {at}, {apart}") if number else at
                self._put(self.vector, each, function.buffer("outputs", only.output), at)

    def _sum(self, point: str) -> str:
        """Return a point's sum of all channels."""
        function, total = self.function, ""
        for number in range(len(self.rows.places)):
            noted = function.here(f"add nsw i64 {point}, {number * self.together}") if number else point
            place = function.here(f"zext i32 {self._get('i32', self.at, noted)} to i64")
            row = self._get(self.vector, self.table, function.here(f"mul nsw i64 {place}, {self.lanes}"))
            one = self._get(self.type, self.factors, noted)
            one = function.here(f"insertelement {self.vector} poison, {self.type} {one}, i64 0")
            mask = f"<{self.lanes} x i32> zeroinitializer"
            all_of_them = function.here(f"shufflevector {self.vector} {one}, {self.vector} poison, {mask}")
            product = function.here(f"fmul {self.vector} {row}, {all_of_them}")
            total = function.here(f"fadd {self.vector} {total}, {product}") if total else product
        return total

    def _turned(self, rows: list[str]) -> list[str]:
        """Return the columns of as many vectors as each has elements: halves are interleaved until all are in place."""
        lanes = self.lanes
        pairs = [(each, each + lanes) for each in range(lanes)]
        order = [place for pair in pairs for place in pair]
        masks = [
            f"<{lanes} x i32> <{', '.join(f'i32 {each}' for each in half)}>" for half in (order[:lanes], order[lanes:])
        ]
        for _ in range(lanes.bit_length() - 1):
            halves = zip(rows[: lanes // 2], rows[lanes // 2 :], strict=True)
            rows = [
                self.function.here(f"shufflevector {self.vector} {one}, {self.vector} {other}, {mask}")
                for one, other in halves
                for mask in masks
            ]
        return rows

    def _get(self, kind: str, start: str, place: str) -> str:
        scalar = kind if kind == "i32" else self.type
        address = self.function.here(f"getelementptr {scalar}, ptr {start}, i64 {place}")
        return self.function.here(f"load {kind}, ptr {address}, align 1{self.function.scopes[-1].group}")

    def _put(self, kind: str, value: str, start: str, place: str) -> None:
        scalar = kind if kind == "i32" else self.type
        address = self.function.here(f"getelementptr {scalar}, ptr {start}, i64 {place}")
        scope = self.function.scopes[-1]
        scope.lines.append(f"store {kind} {value}, ptr {address}, align 1{scope.group}")
