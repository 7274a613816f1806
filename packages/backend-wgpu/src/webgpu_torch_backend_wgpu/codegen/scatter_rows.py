"""Scatters whose lanes each reach a bounded row of the output: a workgroup per lane sorts its entries by where they go.

A block of entries at a time is counted by element in workgroup memory; the counts say where each element's entries are
listed. They are listed in any order, but each then finds its place among those of its element, and the thread that owns
the element combines them in their order, as one thread would that goes through all entries: nothing depends on timing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from webgpu_torch_core.ir.expression import Expression, binary, constant, loads_of, topological
from webgpu_torch_core.ir.kernels import Scatter
from webgpu_torch_core.ir.layouts import number_of_elements

from ..program import Capabilities, Program
from .access import Buffers, evaluate
from .ir import Call, Load, Name, Node, choose, fixed, minimum, u32, zero
from .lowering import as_index
from .module import LINEAR_GROUP, THREAD, WORKGROUP, Module, split_index
from .scatter import combined
from .statements import Break, Do, Store
from .types import element_type
from .wgsl import type_bytes
from .workgroup import AtomicWords, from_shared, shared_type, to_shared

#: reads that a thread has under way at once; the longest list that is put in order
SEVERAL, MOST_LISTED = 4, 32
#: most entries of a block, and elements of a row: two counts share a word, and so do an entry and its element
MOST_COUNTED = (1 << 16) - 1


class Row(NamedTuple):
    """The elements that a lane's entries may go to: ``size`` of them, ``stride`` apart, from ``base`` on."""

    base: Expression
    size: int
    stride: int


def row_of(kernel: Scatter, capabilities: Capabilities) -> Row | None:
    """Return the row of a scatter's lanes, where they have one that fits workgroup memory with what threads claim."""
    element = element_type(kernel.outputs[0].dtype.name, capabilities)
    row = _bounded(kernel.index, len(kernel.lanes)) if kernel.monoid is not None and element.lanes == 1 else None
    if row is None or row.size > MOST_COUNTED:
        return None
    return row if _block(kernel, capabilities, row.size) else None


def _threads(kernel: Scatter, capabilities: Capabilities) -> int:
    """Return the threads of a lane: as few workgroups' memory fits a unit at a time, long lanes have many."""
    threads, entries = min(WORKGROUP, capabilities.invocations), number_of_elements(kernel.entries)
    while threads * SEVERAL < entries and threads * 2 <= min(capabilities.invocations, 1024):
        threads *= 2
    return threads


def _block(kernel: Scatter, capabilities: Capabilities, size: int) -> int:
    """Return how many entries are listed at a time, beside the counts of a row's elements: 0 where there is no room."""
    threads, entries = _threads(kernel, capabilities), number_of_elements(kernel.entries)
    value = type_bytes(shared_type(element_type(kernel.value.dtype.name, capabilities).scalar))
    room = (capabilities.workgroup_bytes - 4 * (-(-size // 2) + 2 * threads)) // (4 + value)
    return entries if entries <= min(room, MOST_COUNTED) else max(min(room, MOST_COUNTED) // threads, 0) * threads


def _bounded(index: Expression, depth: int) -> Row | None:
    """Return the row of an index that is a sum of numbers of the lane and one number of the entry kept inside a range."""
    terms, base, row = [index], constant(0, index.dtype), None
    while terms:
        term = terms.pop()
        if term.step == "checked":
            terms.append(term.arguments[0])
        elif _of_lane(term, depth):
            base = binary("add", base, term)
        elif term.step == "add":
            terms += term.arguments
        elif row is None:
            stride = 1
            if term.step == "multiply" and term.arguments[1].step == "constant":
                term, stride = term.arguments[0], term.arguments[1].payload
            size = _size(term)
            if size is None or stride < 1:
                return None
            row = size, stride
        else:
            return None
    return None if row is None else Row(base, *row)


def _size(term: Expression) -> int | None:
    """Return n where a number read from memory is kept in [0, n), else None."""
    if term.step != "minimum" or term.arguments[1].step != "constant" or term.arguments[0].step != "maximum":
        return None
    least = term.arguments[0].arguments[1]
    reads = loads_of(term)
    return term.arguments[1].payload + 1 if reads and least.step == "constant" and least.payload == 0 else None


def _of_lane(term: Expression, depth: int) -> bool:
    """Return whether an expression is the same for all entries of a lane."""
    return not any(
        (node.step == "coordinate" and node.payload >= depth)
        or (node.step == "load" and any(node.payload[2][depth:]))
        or node.step in ("load_at", "checked")
        for node in topological(term)
    )


class _Entry(NamedTuple):
    """An entry's number in its block, and the place in the row where it goes."""

    number: Node
    place: Node


def generate_row_scatter(kernel: Scatter, capabilities: Capabilities, row: Row) -> Program:
    """Return the program of a scatter with a workgroup per lane."""
    writer = _Writer(kernel, capabilities, row)
    if writer.block == writer.entries:
        writer.take(fixed(0), u32(writer.entries))
    else:
        body, blocks = writer.body, -(-writer.entries // writer.block)
        with body.loop("block", fixed(0), lambda block: block < blocks, fixed(1)) as block:
            first = body.let("first_entry", block * writer.block)
            writer.take(first, body.let("count", minimum(u32(writer.entries) - first, writer.block)))
            body.barrier()
    return Program((writer.module.finish(writer.threads, number_of_elements(kernel.lanes)),), ())


class _Writer:
    """The pass under construction; workgroups behind the last lane repeat it without storing."""

    def __init__(self, kernel: Scatter, capabilities: Capabilities, row: Row) -> None:
        self.kernel, self.row = kernel, row
        self.module = module = Module(kernel, capabilities)
        self.body = body = module.body
        self.buffers = Buffers(module)
        self.output = self.buffers.output(0)
        self.threads = _threads(kernel, capabilities)
        self.entries = number_of_elements(kernel.entries)
        self.block = _block(kernel, capabilities, row.size)
        lanes = number_of_elements(kernel.lanes)
        group = body.let("group_number", LINEAR_GROUP)
        self.valid = body.let("valid", group < lanes)
        self.outer = split_index(module, body.let("lane", minimum(group, lanes - 1)), kernel.lanes)
        ((base,),) = evaluate(self.buffers, [row.base], self.outer)
        self.base = body.let("base", as_index(base))
        #: how many entries go to each element; then where the next one of it is listed; in the end where its list ends
        self.counts = AtomicWords(module, "counts", -(-row.size // 2))
        self.scalar = module.type(kernel.value.dtype).scalar
        self.listed = module.array("listed", "u32", self.block)
        self.values = module.array("listed_values", shared_type(self.scalar), self.block)
        self.sums = [module.array(name, "u32", self.threads) for name in ("sums", "others")]

    def _count(self, place: Node) -> Node:
        """Return the count of an element."""
        return (self.counts.read(place >> 1) >> _shift(place)) & fixed(0xFFFF)

    def _add_to_count(self, place: Node, value: Node) -> Call:
        """Return the addition to an element's count, whose value is the word before it."""
        return self.counts.add(place >> 1, value << _shift(place))

    def take(self, first: Node, count: Node) -> None:
        """Write the statements that take in a block of entries."""
        body, row, threads = self.body, self.row, self.threads
        with body.loop("e", THREAD, lambda e: e < -(-row.size // 2), threads) as e:
            self.counts.write(e, fixed(0))
        body.barrier()
        for each in self._entries(first, count, True):
            body.add(Do(self._add_to_count(each.place, fixed(1))))
        body.barrier()
        start = self._starts()
        body.barrier()
        for each in self._entries(first, count, False):
            before = body.let("before", self._add_to_count(each.place, fixed(1)))
            at = body.let("at", (before >> _shift(each.place)) & fixed(0xFFFF))
            body.set(self.listed[at], each.place << 16 | each.number)
        body.barrier()
        self._order(first, count)
        body.barrier()
        with body.loop("several", THREAD, lambda several: several < row.size, threads * SEVERAL) as several:
            held: list[tuple[Node, Node, Name]] = []
            for number in range(SEVERAL):
                place = body.let(self.module.fresh("place"), several + u32(number * threads) if number else several)
                element = self.base + (place * row.stride if row.stride > 1 else place)
                element = body.let(self.module.fresh("element"), element)
                value = body.var(self.module.fresh("held"), zero(self.output.encoding.scalar))
                with body.when(place < row.size):
                    body.set(value, Load(self.output, element))
                held.append((place, element, value))
            for place, element, value in held:
                with body.when(place < row.size):
                    end = body.let("end", self._count(place))
                    with body.when(self.valid.both(end > start)):
                        self._combine(place, value, (start, end), (first, count))
                        body.add(Store(self.output, element, value))
                    body.set(start, end)

    def _order(self, first: Node, count: Node) -> None:
        """Write the values of the listed entries in the entries' order, as far as no element has too many."""
        body = self.body
        with body.loop("at", THREAD, lambda at: at < count, self.threads) as at:
            own = body.let("own_entry", self.listed[at])
            smaller, lowest = body.var("smaller", fixed(0)), body.var("lowest", at)
            for step in (-1, 1):
                other = body.var(self.module.fresh("other"), at + fixed(1) if step > 0 else at)
                nearby = (
                    other < minimum(count, at + fixed(MOST_LISTED)),
                    (other > fixed(0)).both(at - other < fixed(MOST_LISTED)),
                )
                with body.repeat(nearby[0] if step > 0 else nearby[1]):
                    word = body.let(self.module.fresh("word"), self.listed[other if step > 0 else other - fixed(1)])
                    with body.when((word >> 16).differs(own >> 16)):
                        body.add(Break())
                    body.set(smaller, smaller + choose(word < own, fixed(1), fixed(0)))
                    body.set(other, other + fixed(1) if step > 0 else other - fixed(1))
                if step < 0:
                    body.set(lowest, other)
            entry = body.let("entry", first + (own & fixed(0xFFFF)))
            body.set(self.values[lowest + smaller], to_shared(self._evaluate(entry, self.kernel.value)))

    def _entries(self, first: Node, count: Node, reports: bool) -> Iterator[_Entry]:
        """Open a thread's loop over the entries of a block, some at a time so that several reads are under way at once.

        ``reports``: with a look at whether they go where they may.
        """
        body = self.body
        with body.loop("several", THREAD, lambda several: several < count, self.threads * SEVERAL) as several:
            found: list[_Entry] = []
            for number in range(SEVERAL):
                at = body.let(self.module.fresh("entry"), several + u32(number * self.threads) if number else several)
                place = body.var(self.module.fresh("place"), fixed(0))
                with body.when(at < count):
                    entry = body.let(self.module.fresh("at"), first + at)
                    body.set(place, self._place(entry, reports))
                found.append(_Entry(at, place))
            for each in found:
                with body.when(each.number < count):
                    yield each

    def _evaluate(self, entry: Node, root: Expression) -> Node:
        inner = split_index(self.module, entry, self.kernel.entries)
        return evaluate(self.buffers, [root], [*self.outer, *inner])[0][0]

    def _place(self, entry: Node, reports: bool = False) -> Node:
        """Return the place in the row where an entry goes; ``reports``: with a look at whether it is right."""
        index = self.kernel.index
        while index.step == "checked" and not reports:
            index = index.arguments[0]
        distance = as_index(self._evaluate(entry, index)) - self.base
        return distance // self.row.stride if self.row.stride > 1 else distance

    def _starts(self) -> Name:
        """Write where the list of each element begins into the counts; return where this thread's first one does.

        The threads' sums are added up by doubling (Hillis and Steele, 1986).
        """
        body, threads = self.body, self.threads
        total = body.var("total", fixed(0))
        with body.loop("e", THREAD, lambda e: e < self.row.size, threads) as e:
            body.set(total, total + self._count(e))
        own = body.var("own", total)
        arrays = list(self.sums)
        body.set(arrays[0][THREAD], own)
        body.barrier()
        distance = 1
        while distance < threads:
            with body.when(THREAD >= fixed(distance)):
                body.set(own, own + arrays[0][THREAD - fixed(distance)])
            arrays.reverse()
            body.set(arrays[0][THREAD], own)
            body.barrier()
            distance *= 2
        start = body.var("start", own - total)
        following = body.var("following", start)
        with body.loop("e", THREAD, lambda e: e < self.row.size, threads) as e:
            own_count = body.let("own_count", self._count(e))
            # Another thread may change the other half of the word.
            body.add(Do(self._add_to_count(e, following - own_count)))
            body.set(following, following + own_count)
        return start

    def _combine(self, place: Node, held: Name, listed: tuple[Node, Node], block: tuple[Node, Node]) -> None:
        """Write the combination of an element with its entries, in their order."""
        body, (start, end), (first, count) = self.body, listed, block

        def add(value: Node) -> None:
            body.set(held, combined(self.module, held, value))

        # A long list is not in order: all entries are gone through.
        with body.when(end - start <= fixed(MOST_LISTED)), body.loop("at", start, lambda at: at < end, fixed(1)) as at:
            add(body.let("next_value", from_shared(self.values[at], self.scalar)))
        with body.otherwise(), body.loop("number", fixed(0), lambda number: number < count, fixed(1)) as number:
            entry = body.let("its_entry", first + number)
            with body.when(self._place(entry).equals(place)):
                add(self._evaluate(entry, self.kernel.value))


def _shift(place: Node) -> Node:
    """Return how far the count of an element is shifted in its word."""
    return (place & fixed(1)) << 4
