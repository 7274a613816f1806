"""Scatters whose lanes each reach a bounded row of the output: a workgroup per lane, the row in workgroup memory.

Entries are taken in as many at a time as there are threads, in their order. Of those that go to one element, the first
claims it; then the second does; a third and those behind it are taken in by the second's thread. So every element combines
its entries in their order, as one thread would that goes through them all, and nothing depends on timing.
"""

from __future__ import annotations

from typing import NamedTuple

from webgpu_torch_core.ir.expression import Expression, binary, constant, topological
from webgpu_torch_core.ir.kernels import Scatter
from webgpu_torch_core.ir.layouts import number_of_elements

from ..program import Capabilities, Program
from . import statements
from .access import Buffers, evaluate
from .ir import Array, Literal, Load, Name, Node, fixed, minimum, u32, zero
from .lowering import as_index
from .module import LINEAR_GROUP, THREAD, WORKGROUP, Module, split_index
from .scatter import combined
from .types import element_type
from .wgsl import type_bytes
from .workgroup import AtomicWords, from_shared, shared_type, to_shared


class Row(NamedTuple):
    """The elements that a lane's entries may go to: ``size`` of them, ``stride`` apart, from ``base`` on."""

    base: Expression
    size: int
    stride: int


def row_of(kernel: Scatter, capabilities: Capabilities) -> Row | None:
    """Return the row of a scatter's lanes, where they have one that fits workgroup memory with what threads claim."""
    element = element_type(kernel.outputs[0].dtype.name, capabilities)
    row = _bounded(kernel.index, len(kernel.lanes)) if kernel.monoid is not None and element.lanes == 1 else None
    if row is None:
        return None
    threads = min(WORKGROUP, capabilities.invocations)
    nbytes = row.size * (type_bytes(shared_type(element.scalar)) + 4) + 12 * threads
    return row if nbytes <= capabilities.workgroup_bytes else None


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
    reads = any(node.step in ("load", "load_at") for node in topological(term))
    return term.arguments[1].payload + 1 if reads and least.step == "constant" and least.payload == 0 else None


def _of_lane(term: Expression, depth: int) -> bool:
    """Return whether an expression is the same for all entries of a lane."""
    return not any(
        (node.step == "coordinate" and node.payload >= depth)
        or (node.step == "load" and any(node.payload[2][depth:]))
        or node.step in ("load_at", "checked")
        for node in topological(term)
    )


def generate_row_scatter(kernel: Scatter, capabilities: Capabilities, row: Row) -> Program:
    """Return the program of a scatter with a workgroup per lane."""
    writer = _RowWriter(kernel, capabilities, row)
    body, threads = writer.body, writer.threads
    writer.last.write(THREAD, fixed(0))
    with body.loop("e", THREAD, lambda e: e < row.size, threads) as e:
        body.set(writer.held[e], to_shared(Load(writer.output, writer.element(e))))
        writer.claims.write(e, fixed(0))
    body.barrier()
    with body.loop("chunk", fixed(0), lambda chunk: chunk < writer.chunks, fixed(1)) as chunk:
        writer.take(chunk)
    body.barrier()
    with body.when(writer.valid), body.loop("e", THREAD, lambda e: e < row.size, threads) as e:
        body.add(statements.Store(writer.output, writer.element(e), writer.read(e)))
    return Program((writer.module.finish(threads, number_of_elements(kernel.lanes)),), ())


class _RowWriter:
    """The pass under construction; workgroups behind the last lane repeat it without storing."""

    def __init__(self, kernel: Scatter, capabilities: Capabilities, row: Row) -> None:
        self.kernel, self.row = kernel, row
        self.module = module = Module(kernel, capabilities)
        self.body = body = module.body
        self.buffers = Buffers(module)
        self.output = self.buffers.output(0)
        self.threads = module.workgroup
        self.entries = number_of_elements(kernel.entries)
        self.chunks = -(-self.entries // self.threads)
        lanes = number_of_elements(kernel.lanes)
        group = body.let("group_number", LINEAR_GROUP)
        self.valid = body.let("valid", group < lanes)
        self.outer = split_index(module, body.let("lane", minimum(group, lanes - 1)), kernel.lanes)
        ((base,),) = evaluate(self.buffers, [row.base], self.outer)
        self.base = body.let("base", as_index(base))
        self.scalar = self.output.encoding.scalar
        self.held = module.array("held", shared_type(self.scalar), row.size)
        #: for each element the last turn in which a thread asked for it, and the first thread that did
        self.claims = AtomicWords(module, "claims", row.size)
        #: the elements of the threads' entries, of this chunk and the one before; the last thread that one stands for
        self.places: Array = module.array("places", "u32", 2 * self.threads)
        self.last = AtomicWords(module, "last", self.threads)

    def element(self, place: Node) -> Node:
        """Return where in the output a place of the row is."""
        return self.base + (place * self.row.stride if self.row.stride > 1 else place)

    def read(self, place: Node) -> Node:
        """Return what the row holds."""
        return from_shared(self.held[place], self.scalar)

    def _evaluate(self, entry: Node, *roots: Expression) -> list[Node]:
        return evaluate(self.buffers, roots, [*self.outer, *split_index(self.module, entry, self.kernel.entries)])[0]

    def _combine(self, place: Node, value: Node) -> None:
        self.body.set(self.held[place], to_shared(combined(self.module, self.read(place), value)))

    def take(self, chunk: Node) -> None:
        """Write the statements that take in an entry per thread."""
        body, threads = self.body, self.threads
        first_entry = body.let("first_entry", chunk * threads)
        entry = body.let("entry", first_entry + THREAD)
        half = body.let("half", (chunk % fixed(2)) * threads)
        # Later turns have greater numbers, and of one turn's threads the first has the greatest.
        turn = body.let("turn", (chunk * fixed(2) + fixed(1)) * threads + (u32(threads - 1) - THREAD))
        place, value = body.var("place", u32(self.row.size)), body.var("value", zero(self.scalar))
        waits = body.var("waits", entry < self.entries)
        with body.when(waits):
            index, found = self._evaluate(entry, self.kernel.index, self.kernel.value)
            distance = as_index(index) - self.base
            body.set(place, distance // self.row.stride if self.row.stride > 1 else distance)
            body.set(value, found)
            self.claims.raise_to(place, turn)
        body.set(self.places[half + THREAD], place)
        body.barrier()
        self._settle(place, value, waits, turn)
        body.barrier()
        again = body.let("again", turn + u32(threads))
        with body.when(waits):
            self.claims.raise_to(place, again)
        body.barrier()
        second = body.let("second", self._settle(place, value, waits, again))
        with body.when(waits):
            claimed = body.let("claimed", self.claims.read(place))
            self.last.raise_to(u32(threads - 1) - claimed % threads, THREAD)
        body.barrier()
        with body.when(second):
            self._stand_for(place, first_entry, half)

    def _settle(self, place: Name, value: Name, waits: Name, turn: Node) -> Node:
        """Write the combination by threads whose claim holds, which then wait no more; return whether this one's did."""
        body = self.body
        wins = body.var(self.module.fresh("wins"), waits)
        with body.when(waits):
            body.set(wins, self.claims.read(place).equals(turn))
        with body.when(wins):
            self._combine(place, value)
            body.set(waits, Literal(False, "bool"))
        return wins

    def _stand_for(self, place: Name, first_entry: Node, half: Node) -> None:
        """Write the loop over entries of later threads that go to this thread's element."""
        body = self.body
        until = body.let("until", self.last.read(THREAD))
        self.last.write(THREAD, fixed(0))
        with (
            body.loop("other", THREAD + fixed(1), lambda other: other <= until, fixed(1)) as other,
            body.when(self.places[half + other].equals(place)),
        ):
            (value,) = self._evaluate(body.let("its_entry", first_entry + other), self.kernel.value)
            self._combine(place, value)
