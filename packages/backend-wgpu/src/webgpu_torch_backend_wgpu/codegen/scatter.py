"""Scatters: parallel where order cannot show, one thread per lane in the entries' order where it can."""

from __future__ import annotations

from webgpu_torch_core.expression import Expression
from webgpu_torch_core.kernels import Scatter, Store
from webgpu_torch_core.layouts import number_of_elements

from ..program import Capabilities, Program
from .access import Buffers
from .printer import LINEAR_GROUP, Module, Printer, load_element, spread_workgroups, split_index, store_element
from .steps import convert, spell
from .types import ElementType

WORKGROUP = 256


def generate_scatter(kernel: Scatter, capabilities: Capabilities) -> Program:
    """Return the program of a scatter.

    Overwriting, and integer sums and extrema of 32 bits, run one thread per entry; everything else follows the order of
    entries, one thread per lane, so that floating-point results do not depend on timing.
    """
    module = Module(kernel, capabilities)
    output = kernel.outputs[0]
    element = module.type(output.dtype)
    atomic = kernel.kind in ("add", "maximum", "minimum") and element.word in ("i32", "u32") and element.lanes == 1
    parallel = kernel.kind == "set" or atomic
    lanes, entries = number_of_elements(kernel.lanes), number_of_elements(kernel.entries)
    store = Store(0, 0, (), kernel.value)
    buffers = Buffers(module, kernel, (store,), None)
    key = ("output", 0)
    if atomic or element.lanes > 1:
        buffers.atomic.add(key)
    lines = module.lines
    count = lanes * entries if parallel else lanes
    lines += [f"let i = ({LINEAR_GROUP}) * {WORKGROUP}u + thread;", f"if (i >= {count}u) {{ return; }}"]
    if parallel:
        coordinates = split_index(lines, module, "i", kernel.lanes + kernel.entries) if kernel.lanes + kernel.entries else []
    else:
        outer = split_index(lines, module, "i", kernel.lanes) if kernel.lanes else []
        lines.append(f"for (var entry = 0u; entry < {entries}u; entry++) {{")
        inner = split_index(lines, module, "entry", kernel.entries) if kernel.entries else []
        coordinates = outer + inner

    def leaf(node: Expression, argument: str | None) -> str:
        if node.step == "load":
            return buffers.load(node, coordinates, 0, {}, lines)
        if node.step == "load_at":
            return buffers.load_at(node, argument or "0u")
        return f"i32({coordinates[node.payload]})"

    printer = Printer(module, leaf)
    index, value = printer.value(kernel.index), printer.value(kernel.value)
    lines.append(f"let slot = {_unsigned(index, module, kernel)};")
    name = buffers.name(key)
    if kernel.kind == "set" and element.lanes > 1:
        _exchange(lines, name, element, value)
    elif kernel.kind == "set":
        store_element(lines, name, element, "slot", value)
    elif atomic:
        function = {"add": "atomicAdd", "maximum": "atomicMax", "minimum": "atomicMin"}[kernel.kind]
        lines.append(f"{function}(&{name}[slot], {value});")
    else:
        _combine(module, kernel, name, value, key in buffers.atomic)
    if not parallel:
        lines.append("}")
    groups = spread_workgroups(-(-count // WORKGROUP), capabilities.workgroups_per_dimension)
    return Program((module.finish((WORKGROUP, 1, 1), groups),), ())


def _exchange(lines: list[str], name: str, element: ElementType, value: str) -> None:
    """Write the store of a packed element that other threads may store too: one of the values must win whole."""
    shift = 2 if element.lanes == 4 else 1
    mask = "0xffu" if element.bits == 8 else "0xffffu"
    lines += [
        f"let word = slot >> {shift}u;", f"let low = (slot & {element.lanes - 1}u) * {element.bits}u;", "loop {",
        f"let before = atomicLoad(&{name}[word]);",
        f"let wanted = (before & ~({mask} << low)) | (({element.pack(value)}) << low);",
        f"if (atomicCompareExchangeWeak(&{name}[word], before, wanted).exchanged) {{ break; }}", "}",
    ]  # fmt: skip


def _unsigned(index: str, module: Module, kernel: Scatter) -> str:
    return f"({index}).x" if module.type(kernel.index.dtype).scalar == "vec2<u32>" else f"u32({index})"


def _combine(module: Module, kernel: Scatter, name: str, value: str, atomic: bool) -> None:
    """Write the read, the combination in the compute type, and the store."""
    from webgpu_torch_core.dtypes import compute_dtype

    kind = kernel.outputs[0].dtype
    element = module.type(kind)
    wide = compute_dtype(kind)
    scalar = module.type(wide).scalar
    lines = module.lines
    lines.append(f"let held = {load_element(module, name, element, 'slot', atomic)};")
    own = (kind.name, element.scalar)
    up = convert("held", own, (wide.name, scalar)), convert(f"({value})", own, (wide.name, scalar))
    step = {"add": "add", "multiply": "multiply", "maximum": "maximum", "minimum": "minimum"}[kernel.kind]
    if scalar == "bool":
        step = {"add": "bitwise_or", "multiply": "bitwise_and"}.get(step, step)
    lines.append(f"let next = {spell(step, scalar, [f'({each})' for each in up])};")
    lines.append(f"let stored = {convert('next', (wide.name, scalar), own)};")
    store_element(lines, name, element, "slot", "stored")
