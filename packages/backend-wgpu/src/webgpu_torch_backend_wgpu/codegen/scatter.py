"""Scatters: parallel where order cannot show, else in the entries' order.

Where the index is a sum of a part per lane and a part per entry, entries are first sorted stably by their part: a thread
then combines one run of equal entries for one lane, so floating-point results follow the entries' order and do not depend
on timing. Otherwise one thread goes through all entries of a lane.
"""

from __future__ import annotations

from webgpu_torch_core.ir.expression import Expression, binary, cast, constant, topological
from webgpu_torch_core.ir.kernels import Scatter, Store
from webgpu_torch_core.ir.layouts import number_of_elements
from webgpu_torch_core.ir.monoids import standard_name

from ..program import Capabilities, Pass, Program
from .access import Buffers
from .combining import Combining
from .printer import LINEAR_GROUP, Module, Printer, load_element, split_index, spread_workgroups, store_element
from .sort import RunSort, Sorter
from .steps import convert
from .types import ElementType

WORKGROUP = 256
#: fewest entries worth sorting
SORTED_ENTRIES = 17
#: what combines 32-bit integers in any order
_ATOMICS = {"sum": "atomicAdd", "maximum": "atomicMax", "minimum": "atomicMin", "xor": "atomicXor"}


def generate_scatter(kernel: Scatter, capabilities: Capabilities) -> Program:
    """Return the program of a scatter."""
    element = Module(kernel, capabilities).type(kernel.outputs[0].dtype)
    known = kernel.monoid is not None and standard_name(kernel.monoid) in _ATOMICS
    atomic = known and element.word in ("i32", "u32") and element.lanes == 1
    if kernel.monoid is None or atomic:
        return Program((_parallel_pass(kernel, capabilities, atomic),), ())
    entries = number_of_elements(kernel.entries)
    parts = separate(kernel.index, len(kernel.lanes)) if entries >= SORTED_ENTRIES else None
    if parts is None:
        return Program((_serial_pass(kernel, capabilities),), ())

    def make() -> Sorter:
        module = Module(kernel, capabilities)
        return Sorter(module, Buffers(module, kernel, (), None), parts[1], (), kernel.entries, len(kernel.lanes))

    sorting = RunSort(parts[1].dtype, 1, entries, entries, make)
    passes = sorting.passes()
    passes.append(_sorted_pass(kernel, capabilities, sorting))
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


class _Writer:
    """One pass over the output."""

    def __init__(self, kernel: Scatter, capabilities: Capabilities, atomic: bool) -> None:
        self.kernel = kernel
        self.module = Module(kernel, capabilities)
        self.element: ElementType = self.module.type(kernel.outputs[0].dtype)
        self.lines = self.module.lines
        self.buffers = Buffers(self.module, kernel, (Store(0, 0, (), kernel.value),), None)
        if atomic:
            self.buffers.atomic.add(("output", 0))
        self.atomic = ("output", 0) in self.buffers.atomic
        self.lanes, self.entries = number_of_elements(kernel.lanes), number_of_elements(kernel.entries)

    def open(self, count: int) -> tuple[int, int, int]:
        """Number the threads with ``i``; return the workgroups."""
        self.lines += [f"let i = ({LINEAR_GROUP}) * {WORKGROUP}u + thread;", f"if (i >= {count}u) {{ return; }}"]
        return spread_workgroups(-(-count // WORKGROUP), self.module.capabilities.workgroups_per_dimension)

    def split(self, flat: str, shape: tuple[int, ...]) -> list[str]:
        """Return the coordinates of a flat number."""
        return split_index(self.lines, self.module, flat, shape) if shape else []

    def evaluate(self, coordinates: list[str], *roots: Expression) -> list[str]:
        """Write the statements that compute expressions at an entry; return their names."""

        def leaf(node: Expression, argument: str | None) -> str:
            if node.step == "load":
                return self.buffers.load(node, coordinates, 0, {}, self.lines)
            if node.step == "load_at":
                return self.buffers.load_at(node, argument or "0u")
            return f"i32({coordinates[node.payload]})"

        printer = Printer(self.module, leaf)
        return [printer.value(root) for root in roots]

    def slot(self, index: str) -> str:
        """Return an index as u32."""
        return f"({index}).x" if self.module.type(self.kernel.index.dtype).scalar == "vec2<u32>" else f"u32({index})"

    def name(self) -> str:
        """Return the output's name."""
        return self.buffers.name(("output", 0))

    def load(self, slot: str) -> str:
        """Return the text of the output's element."""
        return load_element(self.module, self.name(), self.element, slot, self.atomic)

    def combine(self, held: str, value: str) -> str:
        """Write the combination of two elements; return its name, rounded to the stored type."""
        own, lines, monoid = self.kernel.outputs[0].dtype, self.lines, self.kernel.monoid
        if monoid is None:
            return value
        combining = Combining(self.module, monoid)
        earlier, later = ([f"({each})" for each in combining.lift(x, own, "0u", lines)] for x in (held, value))
        (found,) = combining.combine(earlier, later, lines)
        following, stored = self.module.fresh("n"), self.module.fresh("n")
        wide = monoid.states[0]
        lines.append(f"let {following} = {found};")
        text = convert(following, (wide.name, combining.scalars[0]), (own.name, self.element.scalar))
        lines.append(f"let {stored} = {text};")
        return stored


def _parallel_pass(kernel: Scatter, capabilities: Capabilities, atomic: bool) -> Pass:
    writer = _Writer(kernel, capabilities, atomic)
    lines, element = writer.lines, writer.element
    groups = writer.open(writer.lanes * writer.entries)
    index, value = writer.evaluate(writer.split("i", kernel.lanes + kernel.entries), kernel.index, kernel.value)
    lines.append(f"let slot = {writer.slot(index)};")
    name = writer.name()
    if kernel.monoid is not None:
        function = _ATOMICS[kernel.monoid.name]
        lines.append(f"{function}(&{name}[slot], {value});")
    elif element.lanes == 1:
        lines.append(f"{name}[slot] = {value};")
    else:
        # One exchange per element: two writers of the same element must not mix their bits.
        shift = 2 if element.lanes == 4 else 1
        lines += [
            f"let shift = (slot & {element.lanes - 1}u) * {element.bits}u;",
            f"let bits = ({element.pack(value)}) << shift;",
        ]
        lines += [
            f"let mask = {(1 << element.bits) - 1}u << shift;",
            f"var seen = atomicLoad(&{name}[slot >> {shift}u]);",
        ]
        lines += [
            "loop {",
            f"let swap = atomicCompareExchangeWeak(&{name}[slot >> {shift}u], seen, (seen & ~mask) | bits);",
        ]
        lines += ["if (swap.exchanged) { break; }", "seen = swap.old_value;", "}"]
    return writer.module.finish((WORKGROUP, 1, 1), groups)


def _serial_pass(kernel: Scatter, capabilities: Capabilities) -> Pass:
    writer = _Writer(kernel, capabilities, False)
    lines = writer.lines
    groups = writer.open(writer.lanes)
    outer = writer.split("i", kernel.lanes)
    lines.append(f"for (var entry = 0u; entry < {writer.entries}u; entry++) {{")
    index, value = writer.evaluate(outer + writer.split("entry", kernel.entries), kernel.index, kernel.value)
    lines += [f"let slot = {writer.slot(index)};", f"let held = {writer.load('slot')};"]
    store_element(lines, writer.name(), writer.element, "slot", writer.combine("held", value))
    lines.append("}")
    return writer.module.finish((WORKGROUP, 1, 1), groups)


def _sorted_pass(kernel: Scatter, capabilities: Capabilities, sorting: RunSort) -> Pass:
    """A thread per lane and first entry of a run of equal ones."""
    writer = _Writer(kernel, capabilities, False)
    lines = writer.lines
    groups = writer.open(writer.lanes * writer.entries)
    scratch = sorting.scratch(writer.module)
    lines += [f"let first = i / {writer.lanes}u;", f"let lane = i % {writer.lanes}u;"]

    def same(left: str, right: str) -> str:
        words = [f"({scratch}[{sorting.key_base + each}u + ({left}) * {sorting.words}u] == "
                 f"{scratch}[{sorting.key_base + each}u + ({right}) * {sorting.words}u])" for each in range(sorting.words)]  # fmt: skip
        return " & ".join(words)

    lines.append(f"if (first > 0u) {{ if ({same('first', 'first - 1u')}) {{ return; }} }}")
    outer = writer.split("lane", kernel.lanes)
    lines.append(f"let first_entry = {scratch}[{sorting.place_base}u + first];")
    (index,) = writer.evaluate(outer + writer.split("first_entry", kernel.entries), kernel.index)
    lines += [f"let slot = {writer.slot(index)};", f"var held = {writer.load('slot')};"]
    lines.append(f"for (var at = first; at < {writer.entries}u; at++) {{")
    lines.append(f"if (at > first) {{ if (!({same('at', 'at - 1u')})) {{ break; }} }}")
    lines.append(f"let entry = {scratch}[{sorting.place_base}u + at];")
    (value,) = writer.evaluate(outer + writer.split("entry", kernel.entries), kernel.value)
    lines += [f"held = {writer.combine('held', value)};", "}"]
    store_element(lines, writer.name(), writer.element, "slot", "held")
    return writer.module.finish((WORKGROUP, 1, 1), groups, " (runs)")
