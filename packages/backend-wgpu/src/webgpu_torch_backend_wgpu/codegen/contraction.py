"""Contractions: what all of their kernels share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from webgpu_torch_core.ir.expression import Expression, loads_of, topological
from webgpu_torch_core.ir.kernels import Contraction, Operand, Output, roots_of
from webgpu_torch_core.ir.layouts import Shape, number_of_elements

from ..program import Capabilities
from .access import LANES, Buffers, evaluate
from .cancelling import known_sums
from .contraction_window import CHANNELS, Split, split_value, values_apart
from .ir import VECTORS, Load, LoadGroup, Node, bitcast, convert_to, fixed, group_element, vector, zero
from .lowering import Lowering
from .module import Module, hidden, linear_index, split_index
from .packed_numbers import cut_out, plain_numbers, turning
from .steps import spell

#: most bytes that one access moves
VECTOR_BYTES = 16
#: how many numbers an element may hold of which a thread takes all
_FOLDS = (2, 4)
_VECTOR_TYPES = ("float32", "float16", "bfloat16", "int8", "uint8")


def flat_stride(sizes: Shape, strides: Shape) -> int | None:
    """Return the one stride with which row-major positions of several dimensions are read; None where there is none."""
    if not sizes:
        return 0
    for index in range(len(sizes) - 1):
        if strides[index] != strides[index + 1] * sizes[index + 1]:
            return None
    return strides[-1]


def halves_in_words(values: list[Node]) -> Node:
    """Return eight halves as four words."""
    pairs = [bitcast("u32", vector("f16", values[first : first + 2])) for first in range(0, len(values), 2)]
    return vector("u32", pairs)


class Moving:
    """The batch dimensions along which a value moves, and how many batches there are of it."""

    def __init__(self, batch: Shape, value: Expression) -> None:
        nodes = topological(value)
        strides = [node.payload[2] for node in nodes if node.step == "load"]
        coordinates = {node.payload for node in nodes if node.step == "coordinate"}
        self._sizes = batch
        self._at = [at for at in range(len(batch)) if at in coordinates or any(each[at] for each in strides)]
        self.count = number_of_elements(tuple([batch[at] for at in self._at]))

    def flat(self, batch: list[Node]) -> Node | None:
        """Return the number of a batch among those of the value; None where there is one."""
        found: Node | None = None
        for at in self._at:
            found = batch[at] if found is None else found * self._sizes[at] + batch[at]
        return found

    def coordinates(self, module: Module, flat: Node) -> list[Node]:
        """Write the coordinates of one of them, 0 along which the value does not move, and return these."""
        batch: list[Node] = [fixed(0)] * len(self._sizes)
        for at in reversed(self._at):
            batch[at] = module.body.let(module.fresh("at"), flat % self._sizes[at])
            flat = module.body.let(module.fresh("rest"), flat // self._sizes[at])
        return batch


def binds(operands: Iterable[Operand], outputs: Iterable[Output], capabilities: Capabilities) -> int:
    """Return how many buffers a pass binds that reads operands and stores outputs, those too large for one in pieces."""
    sizes = [each.numel * each.dtype.itemsize for each in (*operands, *outputs)]
    return sum(max(1, -(-size // capabilities.binding_bytes)) for size in sizes)


def large_group(kernel: Contraction) -> str:
    """Return the group of the side with more rows, the right one's where they are as many."""
    return "n" if number_of_elements(kernel.m) <= number_of_elements(kernel.n) else "m"


class Side:
    """One operand of a contraction: its expression, and which of its dimensions are contiguous in memory.

    ``axis`` is the group (``"k"`` or the side's own, ``"m"`` or ``"n"``) along which neighbours are neighbours in memory,
    ``lanes`` how many elements along it one thread can load as aligned vectors: as many as asked for, or 1. After
    :meth:`fold`, ``folds`` is how many numbers each of these elements holds.
    """

    def __init__(self, kernel: Contraction, value: Expression, group: str, lanes: int = LANES) -> None:
        self.kernel = kernel
        self.value = value
        self.group = group
        counts = [len(kernel.batch), len(kernel.m), len(kernel.n), len(kernel.k)]
        own = counts[0] if group == "m" else counts[0] + counts[1]
        self.spans = {
            "batch": (0, kernel.batch),
            group: (own, kernel.m if group == "m" else kernel.n),
            "k": (sum(counts[:3]), kernel.k),
        }
        self.rows = number_of_elements(self.spans[group][1])
        leaves = [node.step for node in topological(value)]
        self.strided = not {"load_at", "coordinate"} & set(leaves)
        self.loads = [node for node in loads_of(value) if node.step == "load"]
        self.axis = self._axis()
        self.lanes = lanes if self.strided and self._vectors(self.axis, lanes) else 1
        self.folds = 1

    @cached_property
    def split(self) -> Split | None:
        """The value split by what changes with what, where it is read at computed places only."""
        return None if self.strided or self.loads else split_value(self.value, *self._dimensions())

    @cached_property
    def neighbours(self) -> list[Expression]:
        """The values of eight neighbours along k where its last dimension numbers these and all are read at computed places; else none."""
        first, sizes = self.spans["k"]
        if self.strided or self.loads or sizes[-1:] != (CHANNELS,):
            return []
        return values_apart(self.value, *self._dimensions(), first + len(sizes) - 1, CHANNELS)

    def _dimensions(self) -> tuple[frozenset[int], frozenset[int]]:
        """Return the dimensions of the batch and the side's rows, and those of the depth."""
        own, depths = (range(first, first + len(sizes)) for first, sizes in (self.spans[self.group], self.spans["k"]))
        return frozenset([*range(len(self.kernel.batch)), *own]), frozenset(depths)

    def stride(self, node: Expression, group: str) -> int | None:
        """Return the stride of a load along the flat index of a group."""
        first, sizes = self.spans[group]
        return flat_stride(sizes, node.payload[2][first : first + len(sizes)])

    def step(self, node: Expression, axis: str, lanes: int, inner: int = 0) -> int | None:
        """Return the stride of a load between ``lanes`` neighbours along a group that start at a multiple of their number.

        None where there is none, or where they are no aligned vector. ``inner``: without the group's last so many dimensions.
        """
        first, sizes = self.spans[axis]
        _, offset, strides = node.payload
        last = at = first + len(sizes) - inner
        found, count = None, 1
        while at > first and (found is None or sizes[at - 1 - first] == 1 or strides[at - 1] == found * count):
            at -= 1
            if sizes[at - first] > 1:
                found = strides[at] if found is None else found
                count *= sizes[at - first]
        if found is None or count % lanes:
            return None
        others = strides[:at] + strides[last:]
        return None if found and (offset % lanes or any(each % lanes for each in others)) else found

    def fold(self, widest: int) -> None:
        """Have a thread load bytes along k that hold a number each, or several: the last dimension of k; ``widest`` at most."""
        first, sizes = self.spans["k"]
        last = first + len(sizes) - 1
        nodes = topological(self.value)
        places = {node.payload for node in nodes if node.step == "coordinate"}
        folds = next((each for each in _FOLDS if sizes and sizes[-1] == each and places == {last}), 1)
        moves = folds > 1 and any(node.payload[2][last] for node in self.loads)
        if self.kernel.dtype.name != "float32" or moves or any(node.step == "load_at" for node in nodes):
            return
        bytes_only = [node for node in self.loads if node.dtype.itemsize == 1]
        if folds == 1 and (places or not bytes_only or self.axis != "k" or self.lanes == 1):
            return
        for lanes in (each for each in (16, 8, LANES) if each <= widest):
            steps = [self.step(node, "k", lanes, int(folds > 1)) for node in self.loads]
            if 1 in steps and all(
                step == 0
                or (step == 1 and node.dtype.name in _VECTOR_TYPES and node.dtype.itemsize * lanes <= VECTOR_BYTES)
                for node, step in zip(self.loads, steps, strict=True)
            ):
                self.axis, self.lanes, self.folds = "k", lanes, folds
                return

    def _axis(self) -> str:
        """Return the group that is contiguous; computed loads mostly are along the side's own dimensions."""
        for group in (self.group, "k"):
            first, sizes = self.spans[group]
            if sizes and any(node.payload[2][first + len(sizes) - 1] == 1 for node in self.loads):
                return group
        return self.group

    def _vectors(self, axis: str, lanes: int) -> bool:
        """Return whether every load reads ``lanes`` neighbours along ``axis`` as an aligned vector or one element."""
        if self.kernel.dtype.name != "float32":
            return False
        steps = [self.step(node, axis, lanes) for node in self.loads]
        if not set(steps) <= {0, 1}:
            return False
        return 1 in steps and all(
            node.dtype.name in _VECTOR_TYPES and node.dtype.itemsize * lanes <= VECTOR_BYTES
            for node, step in zip(self.loads, steps, strict=True)
            if step
        )


class Frame:
    """What every contraction kernel starts with: sizes, sides, buffers and a way to spell loads and epilogues.

    A contraction that is a part of a larger kernel is written into that one's module.
    """

    def __init__(self, kernel: Contraction, capabilities: Capabilities, module: Module | None = None) -> None:
        self.kernel = kernel
        self.module = module or Module(kernel, capabilities)
        self.body = self.module.body
        self.batch = number_of_elements(kernel.batch)
        self.m = number_of_elements(kernel.m)
        self.n = number_of_elements(kernel.n)
        self.k = number_of_elements(kernel.k)
        self.known_sums = not self.k or known_sums(kernel.left, kernel.right)
        self.left = Side(kernel, kernel.left, "m")
        self.right = Side(kernel, kernel.right, "n")
        self.scalar = self.module.type(kernel.dtype).scalar
        # Four columns of the result are stored at once where the last dimension of n allows.
        self.vector = len(kernel.batch + kernel.m + kernel.n) - 1 if kernel.n and kernel.n[-1] % LANES == 0 else None
        self.buffers = Buffers(self.module, self.vector)
        #: what of the left side's values is known before their elements are read
        self.given: dict[Expression, Node] = {}

    @property
    def columns(self) -> int:
        """How many neighbouring columns of the result are stored at once."""
        return 1 if self.vector is None else LANES

    def store_apart(self) -> None:
        """Have every element of the result stored by itself, before anything is written."""
        self.vector = None
        self.buffers = Buffers(self.module)

    def batch_coordinates(self, flat: Node) -> list[Node]:
        """Write the batch coordinates of a flat batch index."""
        return split_index(self.module, flat, self.kernel.batch)

    def _index(self, side: Side, node: Expression, batch: list[Node], at: Mapping[str, Node | list[Node]]) -> Node:
        """Return the element index of a strided load; positions in a group, if not split yet, stay flat where they can."""
        _, offset, strides = node.payload
        used, names = list(strides[: len(batch)]), list(batch)
        for group, position in at.items():
            first, sizes = side.spans[group]
            if isinstance(position, list):
                used += strides[first : first + len(sizes)]
                names += position
                continue
            flat = side.stride(node, group)
            if flat is not None:
                used.append(flat)
                names.append(position)
            elif any(strides[first : first + len(sizes)]):
                used += strides[first : first + len(sizes)]
                names += split_index(self.module, position, sizes)
        return linear_index(offset, tuple(used), names)

    def element(
        self, side: Side, batch: list[Node], row: Node, depth: Node | list[Node], coordinates: list[Node] | None = None
    ) -> Node:
        """Write what computes one element of a side and return it; indices are in range.

        ``coordinates`` are the row's where they have been written already; so is ``depth`` a list.
        """
        at: dict[str, Node | list[Node]] = {side.group: row, "k": depth}
        split: dict[str, list[Node]] = {"batch": batch}
        if coordinates is not None:
            split[side.group] = coordinates

        def coordinate(dimension: int) -> Node:
            for group, (first, sizes) in side.spans.items():
                if first <= dimension < first + len(sizes):
                    if group not in split:
                        flat = row if group == side.group else depth
                        split[group] = flat if isinstance(flat, list) else split_index(self.module, flat, sizes)
                    return split[group][dimension - first]
            return fixed(0)

        def leaf(node: Expression, index: Node | None) -> Node:
            if node.step == "load":
                return self._single(side, node, self._index(side, node, batch, at))
            if index is not None:
                return self.buffers.load_at(node, index)
            return convert_to("i32", coordinate(node.payload))

        return Lowering(self.module, leaf, given=self.given).value(side.value)

    def neighbours(
        self, side: Side, batch: list[Node], row: Node, depth: Node, coordinates: list[Node] | None
    ) -> list[Node]:
        """Write what computes a side's neighbours along k, from a depth on, and return them; ``coordinates`` as for :meth:`element`."""
        (own, sizes), (first, depths) = side.spans[side.group], side.spans["k"]
        at = {own + number: each for number, each in enumerate(coordinates or split_index(self.module, row, sizes))}
        at |= {first + number: each for number, each in enumerate(split_index(self.module, depth, depths))}
        at |= dict(enumerate(batch))

        def leaf(node: Expression, index: Node | None) -> Node:
            return self.buffers.load_at(node, index) if index is not None else convert_to("i32", at[node.payload])

        lowering = Lowering(self.module, leaf, given=self.given)
        return [lowering.value(each) for each in side.neighbours]

    def parts(self, side: Side, group: str, batch: list[Node], place: Node) -> dict[Expression, Node]:
        """Write what of a side that is split depends on the batch and its row only, or on the depth, and return it."""
        if side.split is None:
            return {}
        first, sizes = side.spans[group]
        split = split_index(self.module, place, sizes)

        def leaf(node: Expression, index: Node | None) -> Node:
            if index is not None:
                return self.buffers.load_at(node, index)
            return convert_to("i32", batch[node.payload] if node.payload < first else split[node.payload - first])

        lowering = Lowering(self.module, leaf)
        return {each: lowering.value(each) for each in (side.split.depths if group == "k" else side.split.rows)}

    def joined(self, side: Side, parts: dict[Expression, Node]) -> Node:
        """Write what computes one element of a side that is split from its parts and return it."""
        assert side.split is not None

        def leaf(node: Expression, index: Node | None) -> Node:
            assert index is not None
            return self.buffers.load_at(node, index)

        return Lowering(self.module, leaf, given=parts).value(side.split.value)

    def _single(self, side: Side, node: Expression, index: Node) -> Node:
        """Return one element of a strided load; of a side that is read as vectors, it may be taken out of one."""
        vectors = side.lanes > 1 and side.step(node, side.axis, side.lanes) == 1
        if vectors:
            index = self.body.let(self.module.fresh("a"), index)
        return Load(self.buffers.operand(node.payload[0]), index, vectors)

    def vector_of(self, side: Side, batch: list[Node], row: Node, depth: Node) -> Node:
        """Write what loads neighbours along a side's axis and return them as a vector; eight halves as four words."""
        at = {side.group: row, "k": depth}
        scalar = self.module.type(side.value.dtype).scalar
        wanted = "vec4<u32>" if scalar == "f16" else VECTORS[scalar, side.lanes]
        groups: dict[Expression, list[Node]] = {}
        for node in side.loads:
            index = self._index(side, node, batch, at)
            if side.step(node, side.axis, side.lanes) == 0:
                groups[node] = [self.body.let(self.module.fresh("s"), self._single(side, node, index))] * side.lanes
                continue
            index = self.body.let(self.module.fresh("a"), index)
            buffer = self.buffers.operand(node.payload[0])
            group = self.body.let(self.module.fresh("v"), LoadGroup(buffer, index, side.lanes))
            groups[node] = [group_element(group, buffer.encoding, lane) for lane in range(side.lanes)]
            if node is side.value and buffer.encoding.scalar == scalar and group.type == wanted:
                return group
        values: list[Node] = []
        for lane in range(side.lanes):

            def leaf(node: Expression, index: Node | None, lane: int = lane) -> Node:
                return groups[node][lane]

            values.append(Lowering(self.module, leaf, given=self.given).value(side.value))
        return halves_in_words(values) if scalar == "f16" else vector(scalar, values)

    def folded(self, side: Side, batch: list[Node], row: Node, depth: Node) -> list[Node]:
        """Write what loads neighbours along k that hold a number each, or several, and return these as vectors."""
        numbers, several = side.lanes * side.folds, int(side.folds > 1)
        at: dict[str, Node | list[Node]] = {side.group: row, "k": depth}
        if several:
            at["k"] = split_index(self.module, depth, side.spans["k"][1])
        groups: dict[Expression, list[Node]] = {}
        cut: dict[Expression, list[Node]] = {}
        for node in side.loads:
            index = self.body.let(self.module.fresh("a"), self._index(side, node, batch, at))
            buffer = self.buffers.operand(node.payload[0])
            if side.step(node, "k", side.lanes, several) == 0:
                groups[node] = [self.body.let(self.module.fresh("s"), Load(buffer, index, False))] * numbers
                continue
            group = self.body.let(self.module.fresh("v"), LoadGroup(buffer, index, side.lanes))
            groups[node] = [group_element(group, buffer.encoding, number // side.folds) for number in range(numbers)]
            cut |= self._cut(side, node, group)
        values: list[Node] = []
        for number in range(numbers):

            def leaf(node: Expression, index: Node | None, number: int = number) -> Node:
                return groups[node][number] if node.step == "load" else convert_to("i32", fixed(number % side.folds))

            given = {**self.given, **{node: found[number] for node, found in cut.items()}}
            values.append(Lowering(self.module, leaf, given=given).value(side.value))
        return [vector("f32", values[first : first + LANES]) for first in range(0, numbers, LANES)]

    def _cut(self, side: Side, node: Expression, group: Node) -> dict[Expression, list[Node]]:
        """Write what cuts the numbers out of words that were loaded; return them by the expression that they are."""
        first, sizes = side.spans["k"]
        found = plain_numbers(side.value, node, first + len(sizes) - 1 if side.folds > 1 else None, side.folds)
        if found is None:
            return {}
        part, turned = found
        bits = 8 // side.folds
        words: list[Node] = [group] if group.type == "u32" else [group.lane(each) for each in range(side.lanes // 4)]
        if turned:
            mask = fixed(turning(bits, turned))
            words = [self.body.let(self.module.fresh("turned"), each ^ mask) for each in words]
        return {part: [cut_out(words, number, bits, turned) for number in range(side.lanes * side.folds)]}

    def epilogue(self, batch: list[Node], row: Node, column: Node, values: list[Node]) -> None:
        """Write the stores of one element of the result, or of four neighbouring columns."""
        kernel = self.kernel
        coordinates = batch + split_index(self.module, row, kernel.m) + split_index(self.module, column, kernel.n)
        roots = roots_of(kernel.stores)
        if self.known_sums:
            values = [hidden(each) for each in values]
        found = evaluate(self.buffers, roots, coordinates, len(values), accumulators=values)
        self.buffers.store_all(kernel.stores, found, coordinates)

    def zero(self) -> Node:
        """Return the accumulator's zero."""
        return zero(self.scalar)

    def add(self, total: Node, value: Node) -> Node:
        """Return ``total + value`` in the accumulator's type."""
        return spell("bitwise_or" if self.scalar == "bool" else "add", self.scalar, [total, value])

    def multiply_add(self, total: Node, left: Node, right: Node) -> Node:
        """Return ``total + left * right`` in the accumulator's type."""
        return self.add(
            total, spell("bitwise_and" if self.scalar == "bool" else "multiply", self.scalar, [left, right])
        )
