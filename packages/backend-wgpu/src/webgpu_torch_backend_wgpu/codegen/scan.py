"""Running reductions: one thread per short row, a workgroup per long one that carries the total from chunk to chunk."""

from __future__ import annotations

from webgpu_torch_core.expression import Expression
from webgpu_torch_core.kernels import Reduction, Scan, Store
from webgpu_torch_core.layouts import number_of_elements

from ..program import Capabilities, Program
from .access import Buffers
from .printer import LINEAR_GROUP, Module, Printer, spread_workgroups, split_index
from .rows import combine_text, state_literals

WORKGROUP = 256


def generate_scan(kernel: Scan, capabilities: Capabilities) -> Program:
    """Return the program of a scan: blocks of a row are scanned by doubling (Hillis and Steele, 1986)."""
    module = Module(kernel, capabilities)
    length = kernel.shape[-1]
    rows = number_of_elements(kernel.shape[:-1])
    workgroup = min(WORKGROUP, capabilities.invocations)
    while workgroup // 2 >= length and workgroup > 1:
        workgroup //= 2
    stores = tuple(Store(index, kernel.offset, kernel.strides, kernel.value) for index in range(len(kernel.outputs)))
    buffers = Buffers(module, kernel, stores, None)
    lines = module.lines
    lines += [f"let row = {LINEAR_GROUP};", f"if (row >= {rows}u) {{ return; }}"]
    outer = split_index(lines, module, "row", kernel.shape[:-1]) if len(kernel.shape) > 1 else []
    reduction = Reduction(kernel.kind, kernel.value, kernel.dtype)
    scalar, start = state_literals(module, reduction)
    has_place = len(kernel.outputs) > 1
    module.shared.append(f"var<workgroup> values: array<{scalar}, {workgroup}>;")
    lines.append(f"var carry: {scalar} = {start};")
    if has_place:
        module.shared.append(f"var<workgroup> places: array<u32, {workgroup}>;")
        lines.append("var carry_place = 0xffffffffu;")
    lines.append(f"for (var base = 0u; base < {length}u; base += {workgroup}u) {{")
    lines.append("let step = base + thread;")
    lines.append(f"let at = {f'{length - 1}u - min(step, {length - 1}u)' if kernel.reverse else f'min(step, {length - 1}u)'};")
    coordinates = [*outer, "at"]

    def leaf(node: Expression, argument: str | None) -> str:
        if node.step == "load":
            return buffers.load(node, coordinates, 0, {}, lines)
        if node.step == "load_at":
            return buffers.load_at(node, argument or "0u")
        return f"i32({coordinates[node.payload]})"

    value = Printer(module, leaf).value(kernel.value)
    lines.append(f"var v: {scalar} = select({start}, {value}, step < {length}u);")
    if has_place:
        lines.append(f"var p = select(0xffffffffu, at, step < {length}u);")
    lines += ["values[thread] = v;", *(["places[thread] = p;"] if has_place else []), "workgroupBarrier();"]
    _doubling(module, kernel, reduction, workgroup, has_place)
    _finish(module, buffers, kernel, reduction, coordinates, workgroup, has_place, stores)
    lines.append("}")
    groups = spread_workgroups(rows, capabilities.workgroups_per_dimension)
    return Program((module.finish((workgroup, 1, 1), groups),), ())


def _later_wins(module: Module, kernel: Scan, early: tuple[str, str], late: tuple[str, str]) -> str:
    """Return the text telling whether the later of two extrema takes over: ties go to the later, NaN sticks."""
    from .steps import spell

    scalar = module.type(kernel.dtype).scalar
    order = [early[0], late[0]] if kernel.kind == "maximum" else [late[0], early[0]]
    better = spell("less_equal", scalar, order)
    if scalar == "f32":
        better = f"(wt_isnan({late[0]}) || ({better} && !wt_isnan({early[0]})))"
    return f"({late[1]} != 0xffffffffu && ({early[1]} == 0xffffffffu || {better}))"


def _doubling(module: Module, kernel: Scan, reduction: Reduction, workgroup: int, has_place: bool) -> None:
    lines = module.lines
    distance = 1
    while distance < workgroup:
        lines.append(f"if (thread >= {distance}u) {{")
        lines.append(f"let w = values[thread - {distance}u];")
        if has_place:
            lines.append(f"let q = places[thread - {distance}u];")
            wins = _later_wins(module, kernel, ("w", "q"), ("v", "p"))
            lines.append(f"if (!{wins}) {{ v = w; p = q; }}")
        else:
            lines.append(f"v = {combine_text(module, reduction, 'w', 'v')};")
        lines += ["}", "workgroupBarrier();", "values[thread] = v;"]
        if has_place:
            lines.append("places[thread] = p;")
        lines.append("workgroupBarrier();")
        distance *= 2


def _finish(
    module: Module, buffers: Buffers, kernel: Scan, reduction: Reduction, coordinates: list[str], workgroup: int, has_place: bool,
    stores: tuple[Store, ...],
) -> None:  # fmt: skip
    from .rows import position_text
    from .steps import convert

    lines = module.lines
    if has_place:
        wins = _later_wins(module, kernel, ("carry", "carry_place"), ("v", "p"))
        lines.append(f"if (!{wins}) {{ v = carry; p = carry_place; }}")
    else:
        lines.append(f"v = {combine_text(module, reduction, 'carry', 'v')};")
    target = kernel.outputs[0].dtype
    own = module.type(kernel.dtype)
    text = convert("v", (kernel.dtype.name, own.scalar), (target.name, module.type(target).scalar))
    lines.append(f"if (step < {kernel.shape[-1]}u) {{")
    lines.append(f"let result = {text};")
    buffers.store(stores[0], ["result"], coordinates, lines)
    if has_place:
        lines.append(f"let position = {position_text(module, 'p')};")
        buffers.store(stores[1], ["position"], coordinates, lines)
    lines.append("}")
    # The last thread's total carries on; everyone reads it before the next chunk overwrites it.
    lines += ["workgroupBarrier();", "values[thread] = v;", *(["places[thread] = p;"] if has_place else []), "workgroupBarrier();"]
    lines.append(f"carry = values[{workgroup - 1}u];")
    if has_place:
        lines.append(f"carry_place = places[{workgroup - 1}u];")
    lines.append("workgroupBarrier();")
