"""Few long rows: each is cut into chunks reduced by a workgroup of their own; a second pass combines the chunks."""

from __future__ import annotations

from webgpu_torch_core.kernels import RowProgram
from webgpu_torch_core.layouts import number_of_elements

from ..program import Capabilities, Pass, Program
from .access import LANES, Buffers
from .printer import LINEAR_GROUP, Module, spread_workgroups, split_index
from .rows import (
    WORKGROUP,
    Team,
    _row_stores_alone,
    _store_rows,
    accumulate,
    beats_text,
    combine_text,
    element_loop,
    merge_shared,
    position_text,
    state_literals,
)

#: elements each workgroup of the first pass reduces, at least
CHUNK = 16384
MAXIMUM_CHUNKS = 1024


def generate_split(kernel: RowProgram, capabilities: Capabilities) -> Program:
    """Return the two passes of a single reduction over few long rows."""
    rows, length = number_of_elements(kernel.outer), number_of_elements(kernel.inner)
    chunks = min(MAXIMUM_CHUNKS, max(1, length // CHUNK))
    first = _first_pass(kernel, capabilities, chunks)
    second = _second_pass(kernel, capabilities, chunks)
    bytes_per_state = 8 if kernel.reductions[0].dtype.itemsize == 8 else 4
    scratch = (rows * chunks * bytes_per_state, rows * chunks * 4)
    return Program((first, second), scratch if kernel.reductions[0].kind.startswith("arg") else scratch[:1])


def _word(module: Module, kernel: RowProgram) -> str:
    scalar, _ = state_literals(module, kernel.reductions[0])
    return "u32" if scalar == "bool" else scalar


def _first_pass(kernel: RowProgram, capabilities: Capabilities, chunks: int) -> Pass:
    module = Module(kernel, capabilities)
    reduction = kernel.reductions[0]
    workgroup = min(WORKGROUP, capabilities.invocations)
    team = Team(kernel, workgroup)
    vector = team.vector
    steps = team.length // (1 if vector is None else LANES)
    per_chunk = -(-steps // chunks)
    buffers = Buffers(module, kernel, (), vector)
    lines = module.lines
    lines += [
        f"let chunk_index = {LINEAR_GROUP};", f"if (chunk_index >= {team.row_count * chunks}u) {{ return; }}",
        f"let row = chunk_index / {chunks}u;", f"let chunk = chunk_index % {chunks}u;", "let part = thread;",
    ]  # fmt: skip
    outer = split_index(lines, module, "row", kernel.outer) if kernel.outer else []
    scalar, start = state_literals(module, reduction)
    lines.append(f"var state0: {scalar} = {start};")
    has_place = reduction.kind.startswith("arg")
    if has_place:
        lines.append("var where0 = 0xffffffffu;")
    stop = f"min((chunk + 1u) * {per_chunk}u, {steps}u)"
    inner = element_loop(module, kernel.inner, vector, f"chunk * {per_chunk}u + thread", stop, f"{workgroup}u")
    accumulate(module, buffers, reduction, outer, inner, kernel.inner, ("state0", "where0"), 1 if vector is None else LANES, [])
    lines.append("}")
    merge_shared(module, reduction, 0, workgroup, 1, workgroup, ("state0", "where0"))
    target = module.buffer("scratch", 0, _word(module, kernel), True)
    value = "select(0u, 1u, shared0[0])" if scalar == "bool" else "shared0[0]"
    lines.append(f"if (thread == 0u) {{ {target}[chunk_index] = {value};")
    if has_place:
        lines.append(f"{module.buffer('scratch', 1, 'u32', True)}[chunk_index] = place0[0];")
    lines.append("}")
    groups = spread_workgroups(team.row_count * chunks, capabilities.workgroups_per_dimension)
    return module.finish((workgroup, 1, 1), groups, " (chunks)")


def _second_pass(kernel: RowProgram, capabilities: Capabilities, chunks: int) -> Pass:
    module = Module(kernel, capabilities)
    reduction = kernel.reductions[0]
    workgroup = min(WORKGROUP, capabilities.invocations)
    buffers = Buffers(module, kernel, kernel.row_stores, None)
    _row_stores_alone(kernel, buffers, module)
    lines = module.lines
    rows = number_of_elements(kernel.outer)
    lines += ["let row = group.x;", "let part = thread;", f"let valid = row < {rows}u;"]
    outer = split_index(lines, module, "row", kernel.outer) if kernel.outer else []
    scalar, start = state_literals(module, reduction)
    has_place = reduction.kind.startswith("arg")
    source = module.buffer("scratch", 0, _word(module, kernel), False)
    lines.append(f"var state0: {scalar} = {start};")
    if has_place:
        places = module.buffer("scratch", 1, "u32", False)
        lines.append("var where0 = 0xffffffffu;")
    lines.append(f"for (var e = thread; e < {chunks}u; e += {workgroup}u) {{")
    read = f"{source}[row * {chunks}u + e]"
    lines.append(f"let v = {f'({read} != 0u)' if scalar == 'bool' else read};")
    if has_place:
        lines.append(f"let w = {places}[row * {chunks}u + e];")
        test = beats_text(module, reduction, "v", "w", "state0", "where0")
        lines.append(f"if (w != 0xffffffffu && (where0 == 0xffffffffu || {test})) {{ state0 = v; where0 = w; }}")
    else:
        lines.append(f"state0 = {combine_text(module, reduction, 'state0', 'v')};")
    lines.append("}")
    merge_shared(module, reduction, 0, workgroup, 1, workgroup, ("state0", "where0"))
    lines.append(f"let r0 = {position_text(module, 'place0[0]') if has_place else 'shared0[0]'};")
    _store_rows(module, buffers, kernel, outer, ["r0"])
    return module.finish((workgroup, 1, 1), (rows, 1, 1))
