"""How a kernel's loads and stores reach its buffers: four or more neighbouring elements at a time where they align."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any

from webgpu_torch_core.ir.expression import Expression, topological
from webgpu_torch_core.ir.kernels import Store

from . import ir, statements
from .ir import Buffer, Load, LoadGroup, Name, Node, convert_to, group_element
from .lane_values import divisor, lane_bits
from .lowering import Lowering, Reports, as_index
from .module import Module, linear_index
from .statements import StoreGroup
from .types import HALVES_IN_WORDS

LANES = 4


def aligned(offset: int, strides: tuple[int, ...], position: int, group: int = LANES) -> bool:
    """Return whether ``group`` consecutive coordinates of dimension ``position`` are as many consecutive aligned elements."""
    if position >= len(strides) or strides[position] != 1 or offset % group:
        return False
    return all(stride % group == 0 for index, stride in enumerate(strides) if index != position)


def stores_aligned(store: Store, position: int, group: int = LANES) -> bool:
    """Return whether ``group`` consecutive coordinates of dimension ``position`` are stored as as many consecutive aligned elements."""
    place = group if store.place is None else divisor(store.place, position)
    where = 1 if store.where is None else divisor(store.where, position)
    return min(place, where) > 0 and place % group == 0 and aligned(store.offset, store.strides, position, group)


def group_of(itemsize: int, lanes: int) -> int:
    """Return how many elements of a size one access moves where a thread has ``lanes`` of them: 16 bytes at most, 4 at least.

    Kernels with native halves have four lanes: there is no vector of eight, and two of four are read at a distance.
    """
    return min(lanes, max(LANES, 16 // itemsize))


class Buffers:
    """A kernel's buffers; an output that starts as a copy of an operand shares the operand's.

    ``vector`` names the dimension whose coordinates run ``lanes`` at a time (None: one element per access).
    """

    def __init__(self, module: Module, vector: int | None = None, lanes: int = LANES) -> None:
        self.module = module
        self.kernel = module.kernel
        self.vector = vector
        self.lanes = lanes
        #: float16 operands that are read as words
        self.in_words: set[int] = set()
        self._outputs = {
            each.initial: number for number, each in enumerate(self.kernel.outputs) if each.initial is not None
        }

    def operand(self, index: int) -> Buffer:
        """Return an operand's buffer."""
        if index in self._outputs:
            return self.output(self._outputs[index])
        encoding = HALVES_IN_WORDS if index in self.in_words else self.module.type(self.kernel.operands[index].dtype)
        return self.module.buffer("operand", index, encoding, False)

    def output(self, index: int) -> Buffer:
        """Return an output's buffer."""
        return self.module.buffer("output", index, self.module.type(self.kernel.outputs[index].dtype), True)

    def grouped(self, offset: int, strides: tuple[int, ...], dtype: Any) -> bool:
        """Return whether an access moves a group of elements at once."""
        if self.vector is None or not self.module.type(dtype).grouped:
            return False
        return aligned(offset, strides, self.vector, group_of(dtype.itemsize, self.lanes))

    def _stored_at_once(self, store: Store) -> int:
        """Return how many elements a store moves at once."""
        dtype = self.kernel.outputs[store.output].dtype
        count = group_of(dtype.itemsize, self.lanes)
        whole = self.vector is not None and self.module.type(dtype).grouped
        return count if whole and stores_aligned(store, self.vector or 0, count) else 1

    @cached_property
    def _in_groups(self) -> set[int]:
        """The operands of which some loads move groups."""
        nodes = topological(*self.kernel.expressions())
        loads = [node for node in nodes if node.step == "load"]
        return {each.payload[0] for each in loads if self.grouped(each.payload[1], each.payload[2], each.dtype)}

    def _moved(self, coordinates: Sequence[Node], lane: int) -> Sequence[Node]:
        """Return the coordinates of a lane."""
        if self.vector is None or not lane:
            return coordinates
        return [each + ir.fixed(lane) if index == self.vector else each for index, each in enumerate(coordinates)]

    def load(self, node: Expression, coordinates: Sequence[Node], lane: int, groups: dict[Any, Name]) -> Node:
        """Return a strided load for one lane; ``groups`` keeps the groups loaded so far."""
        operand, offset, strides = node.payload
        buffer = self.operand(operand)
        if not self.grouped(offset, strides, node.dtype):
            along = self.vector is not None and any(strides[self.vector : self.vector + 1])
            at = self._moved(coordinates, lane) if along else coordinates
            # One element for all lanes may be taken out of a group, so that the others are still read as these.
            return Load(buffer, linear_index(offset, strides, at), not along and operand in self._in_groups)
        count = group_of(node.dtype.itemsize, self.lanes)
        identity = buffer, offset, strides, lane // count
        found = groups.get(identity)
        if found is None:
            index = linear_index(offset, strides, self._moved(coordinates, lane - lane % count))
            found = groups[identity] = self.module.body.let(self.module.fresh("g"), LoadGroup(buffer, index, count))
        return group_element(found, buffer.encoding, lane % count)

    def load_at(self, node: Expression, index: Node) -> Node:
        """Return a load at a computed index."""
        return Load(self.operand(node.payload), index)

    def store_all(self, stores: Sequence[Store], lanes: Sequence[Sequence[Node]], coordinates: Sequence[Node]) -> None:
        """Write the statements of stores; ``lanes`` are the values of their roots as [lane][expression], in the stores' order."""
        first = 0
        for each in stores:
            roots = [] if each.is_plain else [dict(zip(each.roots(), lane[first:], strict=False)) for lane in lanes]
            self.store(each, [lane[first] for lane in lanes], coordinates, roots)
            first += len(each.roots())

    def store(
        self,
        store: Store,
        values: Sequence[Node],
        coordinates: Sequence[Node],
        roots: Sequence[Mapping[Expression, Node]] = (),
    ) -> None:
        """Write the statements that store one value per lane; ``roots``: by lane what else of the store was computed."""
        body, buffer, count = self.module.body, self.output(store.output), self._stored_at_once(store)
        for first in range(0, len(values), count):
            index = linear_index(store.offset, store.strides, self._moved(coordinates, first))
            if store.place is not None:
                index = index + as_index(roots[first][store.place])
            with nullcontext() if store.where is None else body.when(roots[first][store.where]):
                if count > 1:
                    body.add(StoreGroup(buffer, index, values[first : first + count]))
                elif store.place is not None and buffer.encoding.lanes > 1:
                    # Two coordinates may store one element: their bits must not mix.
                    body.add(statements.Exchange(buffer, body.let(self.module.fresh("slot"), index), values[first]))
                else:
                    body.add(statements.Store(buffer, index, values[first]))


class _Lanes:
    """What computes expressions in each lane of a thread; ``bits``: those that are equal in the lanes with these bits, once."""

    def __init__(self, lowerings: Sequence[Lowering], bits: Mapping[Expression, int]) -> None:
        self.lowerings = lowerings
        self.bits = bits
        self._done: dict[tuple[Expression, int], Node] = {}

    def values(self, expressions: Sequence[Expression]) -> list[list[Node]]:
        """Write what computes expressions; return their values as [lane][expression]."""
        result: list[list[Node]] = []
        for lane, lowering in enumerate(self.lowerings):
            for node, own in self.bits.items():
                if node.step == "bitwise_and" and own > 0:
                    lowering.values[node] = ir.fixed(lane & own)
                elif (node, lane & own) in self._done:
                    lowering.values[node] = self._done[node, lane & own]
            result.append([lowering.value(each) for each in expressions])
            for node, own in self.bits.items():
                if node in lowering.values:
                    self._done[node, lane & own] = lowering.values[node]
        return result


#: gives the value of a load that was made before, or of what was computed, by its lane, or None
Kept = Callable[[Expression, int], Node | None]


def evaluate(
    buffers: Buffers,
    roots: Sequence[Expression],
    coordinates: Sequence[Node],
    lanes: int = 1,
    reduced: Sequence[Node] = (),
    kept: Kept | None = None,
    accumulators: Sequence[Node] = (),
    products: Sequence[Sequence[Node]] = (),
    computed: Sequence[Expression] = (),
) -> list[list[Node]]:
    """Write the statements that compute expressions for each lane; return their values as [lane][expression].

    ``computed`` are the expressions besides loads whose values are ``kept``, ``reduced`` those of earlier reductions, ``accumulators`` a contraction's sums by lane, ``products`` an
    attention's by lane, which are in the reductions' place.
    """
    bits = lane_bits(roots, buffers.vector, bool(products)) if lanes > 1 else {}
    groups: dict[Any, Name] = {}
    blocks: dict[tuple[Node, ...], Name] = {}
    reports = Reports(buffers.module)
    lowerings: list[Lowering] = []
    for lane in range(lanes):

        def leaf(node: Expression, index: Node | None, lane: int = lane) -> Node:
            before = kept(node, lane) if kept is not None and node.step == "load" else None
            if before is not None:
                return before
            if node.step == "reduced":
                return products[node.payload][lane] if products else reduced[node.payload]
            if node.step == "accumulator":
                return accumulators[lane]
            return _read(buffers, node, index, coordinates, lane, groups)

        given = {node: value for node in computed if kept is not None and (value := kept(node, lane)) is not None}
        lowerings.append(Lowering(buffers.module, leaf, blocks, given, reports))
    return _computed(roots, _Lanes(lowerings, bits), reports)


def evaluate_apart(buffers: Buffers, roots: Sequence[Expression], places: Sequence[Sequence[Node]]) -> list[list[Node]]:
    """Write the statements that compute expressions at several coordinates; return their values as [place][expression]."""
    reports, lowerings = Reports(buffers.module), []
    for coordinates in places:

        def leaf(node: Expression, index: Node | None, coordinates: Sequence[Node] = coordinates) -> Node:
            return _read(buffers, node, index, coordinates, 0, {})

        lowerings.append(Lowering(buffers.module, leaf, reports=reports))
    return _computed(roots, _Lanes(lowerings, {}), reports)


def _read(
    buffers: Buffers,
    node: Expression,
    index: Node | None,
    coordinates: Sequence[Node],
    lane: int,
    groups: dict[object, Name],
) -> Node:
    """Return the value of a load, of a load at an index, or of a coordinate."""
    if node.step == "load":
        return buffers.load(node, coordinates, lane, groups)
    if index is not None:
        return buffers.load_at(node, index)
    position = coordinates[node.payload]
    moved = position + ir.fixed(lane) if lane and node.payload == buffers.vector else position
    return convert_to("i32", moved)


def _computed(roots: Sequence[Expression], computing: _Lanes, reports: Reports) -> list[list[Node]]:
    """Write what computes expressions in every lane, then what was found wrong: all reads are under way by then."""
    found = computing.values(roots)
    reports.write()
    return found
