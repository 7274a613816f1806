"""Scatters: parallel where order cannot show, else in the entries' order.

Where many entries are added up in few elements, such as a histogram's, each workgroup first does so in memory of its own: threads
that change the same element of a buffer wait for each other, across the whole device.

Where the index is a sum of a part per lane and a part per entry, entries are first sorted stably by their part: a thread
then combines one run of equal entries for one lane, or a piece of it, so floating-point results follow the entries' order and do
not depend on timing. Otherwise one thread goes through all entries of a lane.
"""

from __future__ import annotations

from webgpu_torch_core.ir.expression import Expression, binary, cast, constant, make, topological
from webgpu_torch_core.ir.kernels import Scatter
from webgpu_torch_core.ir.layouts import number_of_elements
from webgpu_torch_core.ir.monoids import standard_name

from ..program import Capabilities, Pass, Program
from . import statements
from .access import Buffers, evaluate
from .combining import Combining
from .ir import Buffer, Call, Literal, Load, Node, bitcast, choose, fixed, minimum
from .lowering import as_index
from .module import LINEAR_GROUP, THREAD, WORKGROUP, Module, split_index
from .sort import RunSort, Sorter
from .statements import Atomic, Break, Do, Exchange
from .steps import convert
from .types import element_type
from .workgroup import AtomicWords

#: what combines 32-bit integers in any order
_ATOMICS = {"sum": "atomicAdd", "maximum": "atomicMax", "minimum": "atomicMin", "xor": "atomicXor"}
#: entries for each element, and of a thread, from which on workgroups add them up by themselves, and those from which on it is worth
#: it; most elements; workgroups for each unit
_COUNTED, _WORTH, _MOST_COUNTS, _GROUPS = 16, 1 << 16, 1 << 12, 8
#: entries of a piece of the sorted order
_LEAST_PIECE, _MOST_PIECE = 64, 1024


def any_order(kernel: Scatter, capabilities: Capabilities) -> bool:
    """Return whether entries may be combined in any order: one of several writers wins, or integers are combined."""
    element = element_type(kernel.outputs[0].dtype.name, capabilities)
    known = kernel.monoid is not None and standard_name(kernel.monoid) in _ATOMICS
    return kernel.monoid is None or (known and element.scalar in ("i32", "u32") and element.lanes == 1)


def generate_parallel_scatter(kernel: Scatter, capabilities: Capabilities) -> Program:
    """Return the program of a scatter whose entries may be combined in any order: a thread for each."""
    return Program((_parallel_pass(kernel, capabilities),), ())


def counting_groups(kernel: Scatter, capabilities: Capabilities) -> int | None:
    """Return how many workgroups add up entries in memory of their own; None where elements are many, entries few, or the host computes."""
    size, entries = kernel.outputs[0].numel, number_of_elements(kernel.entries)
    sums = kernel.monoid is not None and standard_name(kernel.monoid) == "sum" and any_order(kernel, capabilities)
    many = not kernel.lanes and entries >= max(size * _COUNTED, _WORTH) and not capabilities.software
    if not (sums and many) or size > min(_MOST_COUNTS, capabilities.workgroup_bytes // 4):
        return None
    return min(-(-entries // (WORKGROUP * _COUNTED)), capabilities.facts.units * _GROUPS)


def generate_counting_scatter(kernel: Scatter, capabilities: Capabilities, groups: int) -> Program:
    """Return the program of a scatter whose workgroups add up their entries in memory of their own, and then add what they have."""
    module = Module(kernel, capabilities)
    body, buffers, workgroup = module.body, Buffers(module), module.workgroup
    size, entries = kernel.outputs[0].numel, number_of_elements(kernel.entries)
    counts = AtomicWords(module, "counts", size)
    with body.loop("first", THREAD, lambda at: at < size, workgroup) as at:
        counts.write(at, fixed(0))
    body.barrier()
    with body.loop("entry", LINEAR_GROUP * workgroup + THREAD, lambda at: at < entries, groups * workgroup) as entry:
        coordinates = split_index(module, entry, kernel.entries)
        index, value = evaluate(buffers, (kernel.index, kernel.value), coordinates)[0]
        body.add(Do(counts.add(as_index(index), bitcast("u32", value))))
    body.barrier()
    output = buffers.output(0)
    with body.loop("at", THREAD, lambda at: at < size, workgroup) as at:
        count = body.let("count", counts.read(at))
        with body.when(count.differs(fixed(0))):
            body.add(Atomic("atomicAdd", output, at, bitcast(output.encoding.scalar, count)))
    return Program((module.finish(workgroup, groups),), ())


def generate_serial_scatter(kernel: Scatter, capabilities: Capabilities) -> Program:
    """Return the program of a scatter in which a thread goes through all entries of a lane."""
    return Program((_serial_pass(kernel, capabilities),), ())


def generate_sorted_scatter(kernel: Scatter, capabilities: Capabilities, of_entry: Expression) -> Program:
    """Return the program of a scatter whose entries are sorted by their part of the index first."""
    entries = number_of_elements(kernel.entries)

    def make() -> Sorter:
        return Sorter(Module(kernel, capabilities), of_entry, (), kernel.entries, len(kernel.lanes))

    sorting = RunSort(1, entries, entries, make)
    runs = _Runs(kernel, capabilities, sorting)
    passes = [*sorting.passes(), runs.combine_pass(), *([runs.join_pass()] if runs.pieces > 1 else [])]
    return Program(tuple(passes), (sorting.nbytes,))


def separate(index: Expression, depth: int) -> tuple[Expression, Expression] | None:
    """Return the parts (per lane, per entry) whose sum is the index, where it has this form; lanes are ``depth`` dimensions."""
    lanes: dict[Expression, bool] = {}
    entries: dict[Expression, bool] = {}
    parts: dict[Expression, tuple[Expression, Expression] | None] = {}
    for node in topological(index):
        of_lane = any(lanes[each] for each in node.arguments)
        of_entry = any(entries[each] for each in node.arguments)
        if node.step == "coordinate":
            of_lane, of_entry = node.payload < depth, node.payload >= depth
        elif node.step == "load":
            of_lane, of_entry = any(node.payload[2][:depth]), any(node.payload[2][depth:])
        lanes[node], entries[node] = of_lane, of_entry
        zero = constant(0, node.dtype) if node.dtype.category == 1 else None
        if zero is None:
            parts[node] = None
        elif not of_lane:
            parts[node] = zero, node
        elif not of_entry:
            parts[node] = node, zero
        elif node.step == "checked" and not any(lanes[each] for each in node.arguments[1:]):
            # What is wrong with an entry is wrong in every lane: it is told where the entry's part is computed.
            whole, *found = node.arguments
            split = parts[whole]
            parts[node] = split and (split[0], make("checked", (split[1], *found), node.payload, node.dtype))
        else:
            parts[node] = _separate_node(node, [parts[each] for each in node.arguments])
    return parts[index]


def _separate_node(
    node: Expression, parts: list[tuple[Expression, Expression] | None]
) -> tuple[Expression, Expression] | None:
    if any(each is None for each in parts):
        return None
    known = [each for each in parts if each is not None]
    if node.step in ("add", "subtract"):
        return binary(node.step, known[0][0], known[1][0]), binary(node.step, known[0][1], known[1][1])
    if node.step == "cast":
        return cast(known[0][0], node.dtype), cast(known[0][1], node.dtype)
    if node.step == "multiply":
        for factor, (of_lane, of_entry) in zip(node.arguments, reversed(known), strict=True):
            if factor.step == "constant":
                return binary("multiply", of_lane, factor), binary("multiply", of_entry, factor)
    return None


def combined(module: Module, held: Node, value: Node) -> Node:
    """Write the combination of an element that a scatter's output holds with another; return it rounded to the stored type."""
    own, monoid = module.kernel.outputs[0].dtype, module.kernel.monoid
    if monoid is None:
        return value
    combining = Combining(module, monoid)
    (found,) = combining.combine(*(combining.lift(each, own, fixed(0)) for each in (held, value)))
    following = module.body.let(module.fresh("n"), found)
    pair = (monoid.states[0].name, combining.scalars[0]), (own.name, module.type(own).scalar)
    return module.body.let(module.fresh("n"), convert(following, *pair))


class _Writer:
    """One pass over the output; threads are numbered by ``i``."""

    def __init__(self, kernel: Scatter, capabilities: Capabilities, threads: int) -> None:
        self.kernel = kernel
        self.module = Module(kernel, capabilities)
        self.body = self.module.body
        self.buffers = Buffers(self.module)
        self.threads = threads
        self.i = self.body.let("i", LINEAR_GROUP * self.module.workgroup + THREAD)
        self.body.leave(self.i >= threads)

    @property
    def output(self) -> Buffer:
        """The buffer that entries are combined into."""
        return self.buffers.output(0)

    def evaluate(self, coordinates: list[Node], *roots: Expression) -> list[Node]:
        """Write the statements that compute expressions at an entry; return their values."""
        return evaluate(self.buffers, roots, coordinates)[0]

    def combine(self, held: Node, value: Node) -> Node:
        """Write the combination of two elements; return it rounded to the stored type."""
        return combined(self.module, held, value)

    def finish(self, suffix: str = "") -> Pass:
        """Return the pass."""
        return self.module.finish(self.module.workgroup, -(-self.threads // self.module.workgroup), suffix)


def _side_by_side(index: Expression) -> int | None:
    """Return the dimension along which entries go to elements that lie side by side, None where they do along none."""
    terms = [index]
    while terms:
        term = terms.pop()
        if term.step == "coordinate":
            return term.payload
        if term.step == "add":
            terms += term.arguments
        elif term.step in ("cast", "checked"):
            terms.append(term.arguments[0])
    return None


def _parallel_pass(kernel: Scatter, capabilities: Capabilities) -> Pass:
    shape = kernel.lanes + kernel.entries
    writer = _Writer(kernel, capabilities, number_of_elements(shape))
    body = writer.body
    # Neighbouring threads write neighbouring elements.
    last = _side_by_side(kernel.index)
    order = sorted(range(len(shape)), key=lambda place: place == last)
    places = split_index(writer.module, writer.i, tuple([shape[place] for place in order]))
    coordinates = [each for _, each in sorted(zip(order, places, strict=True), key=lambda pair: pair[0])]
    index, value = writer.evaluate(coordinates, kernel.index, kernel.value)
    slot = body.let("slot", as_index(index))
    output = writer.output
    if kernel.monoid is not None:
        body.add(Atomic(_ATOMICS[kernel.monoid.name], output, slot, value))
    elif output.encoding.lanes > 1:
        # One exchange per element: two writers of the same element must not mix their bits.
        body.add(Exchange(output, slot, value))
    else:
        body.add(statements.Store(output, slot, value))
    return writer.finish()


def _serial_pass(kernel: Scatter, capabilities: Capabilities) -> Pass:
    """A thread per lane, which goes through all entries."""
    writer = _Writer(kernel, capabilities, number_of_elements(kernel.lanes))
    body, module = writer.body, writer.module
    outer = split_index(module, writer.i, kernel.lanes)
    entries = number_of_elements(kernel.entries)
    with body.loop("entry", fixed(0), lambda entry: entry < entries, fixed(1)) as entry:
        inner = split_index(module, entry, kernel.entries)
        index, value = writer.evaluate(outer + inner, kernel.index, kernel.value)
        slot = body.let("slot", as_index(index))
        held = body.let("held", Load(writer.output, slot))
        body.add(statements.Store(writer.output, slot, writer.combine(held, value)))
    return writer.finish()


class _Runs:
    """The passes that combine runs of equal entries in their order; long ones are cut into pieces of the sorted order.

    What threads do one after another so is at most about twice the root of the number of entries, whatever the entries are.
    """

    def __init__(self, kernel: Scatter, capabilities: Capabilities, sorting: RunSort) -> None:
        self.kernel, self.capabilities, self.sorting = kernel, capabilities, sorting
        self.lanes, self.entries = number_of_elements(kernel.lanes), number_of_elements(kernel.entries)
        root = (max(self.entries - 1, 1).bit_length() + 1) // 2
        self.piece = min(max(1 << root, _LEAST_PIECE), _MOST_PIECE)
        self.pieces = -(-self.entries // self.piece)
        scalar = element_type(kernel.outputs[0].dtype.name, capabilities).scalar
        #: of each piece and lane the part of the run that began before it, and of the one that goes on behind it
        self.heads, self.tails = (
            sorting.partials.records(self.pieces * self.lanes if self.pieces > 1 else 0, scalar) for _ in range(2)
        )

    def _equal(self, module: Module, left: Node, right: Node) -> Node:
        """Return whether what is at two places of the sorted order has one key."""
        first, second = self.sorting.key(module, left), self.sorting.key(module, right)
        return first.equals(second) if first.type == "u32" else Call("all", (first.equals(second),), "bool")

    def _entry(self, writer: _Writer, lane: Node, place: Node) -> list[Node]:
        """Return the coordinates of a lane and the entry at a place of the sorted order."""
        outer = split_index(writer.module, lane, self.kernel.lanes)
        entry = writer.body.let(writer.module.fresh("entry"), self.sorting.place(writer.module, place))
        return outer + split_index(writer.module, entry, self.kernel.entries)

    def combine_pass(self) -> Pass:
        """Return the pass with a thread for each lane and beginning of a run, or of its part in a piece."""
        writer = _Writer(self.kernel, self.capabilities, self.lanes * self.entries)
        body, module, cuts = writer.body, writer.module, self.pieces > 1
        first, lane = body.let("first", writer.i // self.lanes), body.let("lane", writer.i % self.lanes)
        begins = body.var("begins", first.equals(fixed(0)))
        with body.when(~begins):
            body.set(begins, ~self._equal(module, first, first - fixed(1)))
            body.leave(~begins & (first % fixed(self.piece)).differs(fixed(0)) if cuts else ~begins)
        piece = body.let("piece", first // fixed(self.piece))
        end = body.let("end", minimum((piece + fixed(1)) * fixed(self.piece), self.entries))
        (index,) = writer.evaluate(self._entry(writer, lane, first), self.kernel.index)
        slot = body.let("slot", as_index(index))
        held = body.var("held", Load(writer.output, slot))
        goes_on = body.var("goes_on", end < self.entries)
        with body.loop("at", first, lambda at: at < end, fixed(1)) as at:
            with body.when(at > first), body.when(~self._equal(module, at, at - fixed(1))):
                body.set(goes_on, Literal(False, "bool"))
                body.add(Break())
            (value,) = writer.evaluate(self._entry(writer, lane, at), self.kernel.value)
            found = writer.combine(held, value)
            # A part that began before has nothing to start from.
            body.set(held, choose(begins | (at > first), found, value) if cuts else found)
        if not cuts:
            body.add(statements.Store(writer.output, slot, held))
            return writer.finish(" (runs)")
        with body.when(goes_on):
            body.set(goes_on, self._equal(module, end, end - fixed(1)))
        number = body.let("number", piece * self.lanes + lane)
        with body.when(begins & ~goes_on):
            body.add(statements.Store(writer.output, slot, held))
        with body.when(begins & goes_on):
            self.tails.write(module, number, [held])
        with body.when(~begins):
            self.heads.write(module, number, [held])
        return writer.finish(" (runs)")

    def join_pass(self) -> Pass:
        """Return the pass with a thread for each lane and run that was cut."""
        writer = _Writer(self.kernel, self.capabilities, self.lanes * (self.pieces - 1))
        body, module = writer.body, writer.module
        piece, lane = body.let("piece", writer.i // self.lanes), body.let("lane", writer.i % self.lanes)
        start = body.let("start", piece * fixed(self.piece))
        end = body.let("end", start + fixed(self.piece))
        body.leave(~self._equal(module, end, end - fixed(1)))
        # Whoever has the beginning of the run has the rest of it.
        with body.when(start > fixed(0)):
            body.leave(self._equal(module, end, start - fixed(1)))
        (index,) = writer.evaluate(self._entry(writer, lane, end), self.kernel.index)
        slot = body.let("slot", as_index(index))
        held = body.var("held", self.tails.read(module, piece * self.lanes + lane, True)[0])
        with body.loop("next", piece + fixed(1), lambda next: next < self.pieces, fixed(1)) as next:
            with body.when(~self._equal(module, next * fixed(self.piece), end)):
                body.add(Break())
            body.set(held, writer.combine(held, self.heads.read(module, next * self.lanes + lane, True)[0]))
        body.add(statements.Store(writer.output, slot, held))
        return writer.finish(" (cut runs)")
