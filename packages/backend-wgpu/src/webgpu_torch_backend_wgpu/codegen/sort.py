"""Stable sorting: blocks in workgroup memory, then merges of sorted runs by rank.

Elements are compared as unsigned keys whose order is the values' order, and by position where keys are equal. Where only
the first ``limit`` of a row are wanted, runs are cut to that length on the way.
"""

from __future__ import annotations

from collections.abc import Callable

from webgpu_torch_core.ir.expression import Expression
from webgpu_torch_core.ir.kernels import Sort, Store
from webgpu_torch_core.ir.layouts import contiguous_strides, number_of_elements

from ..program import Capabilities, Pass, Program
from .access import Buffers, evaluate
from .ir import Call, Literal, Node, bitcast, choose, convert_to, every, fixed, u32, vector
from .lowering import as_position
from .module import LINEAR_GROUP, THREAD, WORKGROUP, Module, split_index
from .sort_block import Block, behind, steps_together
from .steps import convert
from .workgroup import Partials

#: keys that a workgroup sorts, where its memory has room for them
LARGEST_BLOCK = 4096


def sorting_of(kernel: Sort, capabilities: Capabilities) -> RunSort:
    """Return how the rows of a sort are sorted."""
    rows, length = number_of_elements(kernel.shape[:-1]), kernel.shape[-1]
    return RunSort(rows, length, kernel.limit, lambda: KernelSorter(kernel, capabilities))


def generate_block_sort(kernel: Sort, capabilities: Capabilities, sorting: RunSort) -> Program:
    """Return the program of a sort of rows that fit workgroup memory: one pass."""
    sorter = KernelSorter(kernel, capabilities)
    body = sorter.module.body
    first_row, _ = sorting.sort_blocks(sorter)
    with body.loop("e", THREAD, lambda e: e < sorting.rows_together * kernel.limit, sorting.sorters) as e:
        own_row = body.let("own_row", first_row + e // kernel.limit)
        at = body.let("at", e % kernel.limit)
        with body.when(own_row < sorting.rows):
            place = body.let("place", sorter.block.place((e // kernel.limit) * sorting.padded + at))
            sorter.emit(own_row, at, place)
    return Program((sorter.module.finish(sorting.sorters, sorting.blocks),), ())


def generate_run_sort(kernel: Sort, capabilities: Capabilities, sorting: RunSort) -> Program:
    """Return the program of a sort of long rows: passes over scratch memory."""
    passes = sorting.passes()
    sorter = KernelSorter(kernel, capabilities)
    module, body = sorter.module, sorter.module.body
    count = sorting.rows * kernel.limit
    i = body.let("i", LINEAR_GROUP * module.workgroup + THREAD)
    body.leave(i >= count)
    row, at = body.let("row", i // kernel.limit), body.let("at", i % kernel.limit)
    place = body.let("place", sorting.place(module, row * sorting.length + at))
    sorter.emit(row, at, place)
    passes.append(module.finish(module.workgroup, -(-count // module.workgroup), " (emit)"))
    return Program(tuple(passes), (sorting.nbytes,))


class Sorter:
    """One pass under construction: the buffers it reads and the function ``element(row, at)`` that gives sorted values."""

    def __init__(
        self, module: Module, value: Expression, outer: tuple[int, ...], inner: tuple[int, ...], leading: int = 0
    ) -> None:
        self.module = module
        self.buffers = Buffers(module)
        self.value = value
        self.shapes = outer, inner
        # dimensions in front of the sorted ones that the value does not depend on
        self.leading = leading
        self.descending = False
        self.scalar = module.type(value.dtype).scalar
        self._declared = False
        #: the block that a pass sorts in workgroup memory
        self.block: Block

    def element(self, row: Node, at: Node) -> Node:
        """Return the value at a place, by a function that is declared when it is first asked for."""
        if not self._declared:
            self._declared = True
            with self.module.function("element", {"row": "u32", "at": "u32"}, self.scalar) as (own_row, own_at):
                outer, inner = self.shapes
                coordinates: list[Node] = [fixed(0)] * self.leading
                coordinates += split_index(self.module, own_row, outer) + split_index(self.module, own_at, inner)
                ((value,),) = evaluate(self.buffers, [self.value], coordinates)
                self.module.body.leave(value=value)
        return Call("element", (row, at), self.scalar)

    def key(self, value: Node) -> Node:
        """Return the unsigned key of a value: u32, or vec2<u32> with the low word first."""
        key = self._ascending(value)
        return ~key if self.descending else key

    def _ascending(self, value: Node) -> Node:
        body, scalar, top = self.module.body, self.scalar, fixed(0x80000000)
        if scalar in ("f32", "f16"):
            number = body.let("number", convert_to("f32", value))
            bits = body.let("bits", choose(number.equals(_ZERO), fixed(0), bitcast("u32", number)))
            order = choose((bits >> 31).differs(fixed(0)), ~bits, bits ^ top)
            return choose(Call("wt_isnan", (number,), "bool"), fixed(0xFFFFFFFF), order)
        if scalar == "i64":
            number = body.let("number", value)
            low, high = (convert_to("u32", each & fixed(0xFFFFFFFF, "i64")) for each in (number, number >> 32))
            return vector("u32", (low, high ^ top))
        if scalar == "vec2<u32>":
            number = body.let("number", value)
            return vector("u32", (number.lane(0), number.lane(1) ^ top))
        if scalar == "bool":
            return choose(value, fixed(1), fixed(0))
        return value if scalar == "u32" else bitcast("u32", value) ^ top


_ZERO = Literal(0.0, "f32")


class KernelSorter(Sorter):
    """A pass of a sort kernel, which can also store its results."""

    def __init__(self, kernel: Sort, capabilities: Capabilities) -> None:
        super().__init__(Module(kernel, capabilities), kernel.value, kernel.shape[:-1], kernel.shape[-1:])
        self.kernel = kernel
        self.descending = kernel.descending

    def emit(self, row: Node, at: Node, place: Node) -> None:
        """Write the stores of one sorted position."""
        module, kernel, body = self.module, self.kernel, self.module.body
        strides = contiguous_strides((*kernel.shape[:-1], kernel.limit))
        outer = split_index(module, row, kernel.shape[:-1])
        kind = kernel.outputs[0].dtype
        own, stored = (kernel.dtype.name, self.scalar), (kind.name, module.type(kind).scalar)
        found = [body.let("value", convert(self.element(row, place), own, stored))]
        if len(kernel.outputs) > 1:
            found.append(body.let("position", as_position(module, place)))
        for number, each in enumerate(found):
            self.buffers.store(Store(number, 0, strides, kernel.value), [each], [*outer, at])


class RunSort:
    """Sorts ``rows`` of ``length`` keys with their positions into scratch memory.

    ``make()`` returns a fresh :class:`Sorter` for each pass. After :meth:`passes`, :meth:`place` and :meth:`key` read
    what is at a place of the sorted order: of row ``r``, these are the places from ``r * length`` on.
    """

    def __init__(self, rows: int, length: int, limit: int, make: Callable[[], Sorter]) -> None:
        sorter = make()
        capabilities = sorter.module.capabilities
        self.make = make
        self.rows, self.length, self.limit = rows, length, limit
        self.wide = sorter.scalar in ("i64", "vec2<u32>")
        self.kind = "vec2<u32>" if self.wide else "u32"
        self.block = LARGEST_BLOCK
        while Block.nbytes(self.kind, self.block) > capabilities.workgroup_bytes:
            self.block //= 2
        self.padded = 1
        while self.padded < min(length, self.block):
            self.padded *= 2
        self.workgroup = min(WORKGROUP, capabilities.invocations)
        keys = 1 << steps_together(capabilities)
        together = max(1, min(keys * self.workgroup, self.block) // self.padded) if length <= self.block else 1
        self.rows_together = min(together, 1 << max(rows - 1, 0).bit_length())
        #: threads that sort a block: a group of keys that meet in the network for each
        self.sorters = self.workgroup
        while self.sorters * keys < self.padded and self.sorters * 2 <= min(capabilities.invocations, 1024):
            self.sorters *= 2
        #: workgroups that sort blocks, and of these the ones of a row
        self.row_blocks = -(-length // self.padded)
        self.blocks = -(-rows // self.rows_together) * self.row_blocks
        #: the scratch memory, where passes that follow may leave each other more
        self.partials = Partials()
        #: its two halves that passes read and write in turn: keys and positions
        self.halves = [
            (self.partials.records(rows * length, self.kind), self.partials.records(rows * length, "u32"))
            for _ in range(2)
        ]
        self.half = 0

    @property
    def nbytes(self) -> int:
        """The size of the scratch memory."""
        return self.partials.nbytes

    def key(self, module: Module, index: Node) -> Node:
        """Return the key at a place."""
        return self.halves[self.half][0].read(module, index, True)[0]

    def place(self, module: Module, index: Node) -> Node:
        """Return the original position of what is at a place."""
        return self.halves[self.half][1].read(module, index, True)[0]

    def sort_blocks(self, sorter: Sorter) -> tuple[Node, Node]:
        """Write the sort of blocks of rows in workgroup arrays; return the first row and where the block starts in it.

        Short rows share a workgroup; a long row has a workgroup per block.
        """
        module, body, padded = sorter.module, sorter.module.body, self.padded
        total = padded * self.rows_together
        block = sorter.block = Block(module, self.kind, total)
        group = body.let("group_number", LINEAR_GROUP)
        first_row = body.let("first_row", (group // self.row_blocks) * self.rows_together)
        block_start = body.let("block_start", (group % self.row_blocks) * padded)
        with body.loop("e", THREAD, lambda e: e < total, self.sorters) as e:
            row = body.let("row", first_row + e // padded)
            at = body.let("at", block_start + e % padded)
            body.set(block.place(e), at)
            with body.when(every(row < self.rows, at < self.length)):
                value = body.let("value", sorter.element(row, at))
                body.set(block.key(e), sorter.key(value))
            with body.otherwise():
                body.set(block.key(e), vector("u32", [fixed(0xFFFFFFFF)] * (1 + self.wide)))
        body.barrier()
        block.sort(padded, self.sorters)
        return first_row, block_start

    def passes(self) -> list[Pass]:
        """Return the passes that sort into scratch memory."""
        stride = min(self.padded, self.limit)
        runs = self.row_blocks
        last = min(self.length - (runs - 1) * self.padded, stride)
        result = [self._block_pass(stride)]
        while runs > 1:
            result.append(self._merge_pass(stride, runs, last))
            wider = min(2 * stride, self.limit)
            last = min(last + (stride if runs % 2 == 0 else 0), wider)
            runs = -(-runs // 2)
            stride = wider
        return result

    def _block_pass(self, stride: int) -> Pass:
        sorter = self.make()
        module, body = sorter.module, sorter.module.body
        first_row, block_start = self.sort_blocks(sorter)
        with (
            body.when(first_row < self.rows),
            body.loop("e", THREAD, lambda e: e < stride, self.sorters) as e,
            body.when(block_start + e < self.length),
        ):
            to = body.let("to", first_row * self.length + (block_start // self.padded) * stride + e)
            self._write(module, to, sorter.block.key(e), sorter.block.place(e))
        return module.finish(self.sorters, self.blocks, " (blocks)")

    def _write(self, module: Module, to: Node, key: Node, place: Node) -> None:
        for records, value in zip(self.halves[self.half], (key, place), strict=True):
            records.write(module, to, [value])

    def _merge_pass(self, stride: int, runs: int, last: int) -> Pass:
        """Each element counts how many of its partner run belong before it: that is its place in the merged run."""
        sorter = self.make()
        module, body = sorter.module, sorter.module.body
        behind(module, self.kind)
        count = (runs - 1) * stride + last
        wider = min(2 * stride, self.limit)
        i = body.let("i", LINEAR_GROUP * self.workgroup + THREAD)
        body.leave(i >= self.rows * count)
        base = body.let("base", (i // count) * self.length)
        e = body.let("e", i % count)
        run = body.let("run", e // stride)
        own = body.let("own", self.key(module, base + e))
        own_place = body.let("own_place", self.place(module, base + e))
        partner = body.let("partner", run ^ fixed(1))
        start = body.let("start", base + partner * stride)
        low = body.var("low", fixed(0))
        shorter = choose(partner.equals(runs - 1), u32(last), fixed(0))
        high = body.var("high", choose(partner >= runs - 1, shorter, u32(stride)))
        with body.repeat(low < high):
            middle = body.let("middle", (low + high) // fixed(2))
            other = body.let("other", self.key(module, start + middle))
            other_place = body.let("other_place", self.place(module, start + middle))
            with body.when(Call("behind", (own, own_place, other, other_place), "bool")):
                body.set(low, middle + fixed(1))
            with body.otherwise():
                body.set(high, middle)
        rank = body.let("rank", e % stride + low)
        self.half = 1 - self.half
        with body.when(rank < wider):
            to = body.let("to", base + (run // fixed(2)) * wider + rank)
            self._write(module, to, own, own_place)
        return module.finish(self.workgroup, -(-self.rows * count // self.workgroup), " (merge)")
