"""Row programs: a team of threads per row reduces, then stores; few long rows are reduced in two passes."""

from __future__ import annotations

from typing import Any

from webgpu_torch_core.expression import Expression, topological
from webgpu_torch_core.interpreter import identity
from webgpu_torch_core.kernels import Reduction, RowProgram
from webgpu_torch_core.layouts import number_of_elements

from ..program import Capabilities, Program
from .access import LANES, Buffers, aligned
from .pointwise import lane_values
from .printer import LINEAR_GROUP, Module, spread_workgroups, split_index
from .types import literal

WORKGROUP = 256
#: rows at least this long, when there are too few of them to fill a GPU, are cut into chunks
SPLIT_LENGTH = 8192
SPLIT_ROWS = 128


class Team:
    """How a workgroup's threads are shared among rows: ``team`` threads per row, ``rows`` rows per workgroup.

    ``row_major`` puts neighbouring threads on neighbouring rows (coalesced when rows are contiguous in memory),
    otherwise on neighbouring elements.
    """

    def __init__(self, kernel: RowProgram, workgroup: int) -> None:
        self.row_count = number_of_elements(kernel.outer)
        self.length = number_of_elements(kernel.inner)
        self.workgroup = workgroup
        self.row_major = _rows_are_contiguous(kernel)
        self.vector = None if self.row_major else _vector_dimension(kernel)
        lanes = 1 if self.vector is None else LANES
        self.steps = self.length // lanes
        team = 1
        target = 8 if self.row_major else 1
        while team < workgroup and team * target < self.steps:
            team *= 2
        if self.row_major:
            team = min(team, 32)
        self.team = team
        self.rows = workgroup // team


def _rows_are_contiguous(kernel: RowProgram) -> bool:
    """Return whether the main load runs along rows' own dimension rather than along the reduced one."""
    depth = len(kernel.outer)
    if not depth or not kernel.inner:
        return False
    for reduction in kernel.reductions:
        for node in topological(reduction.value):
            if node.step == "load" and any(node.payload[2]):
                strides = node.payload[2]
                return strides[depth - 1] == 1 and strides[-1] != 1
    return False


def _vector_dimension(kernel: RowProgram) -> int | None:
    if not kernel.inner or kernel.inner[-1] % LANES:
        return None
    last = len(kernel.outer) + len(kernel.inner) - 1
    loads = [n for r in kernel.reductions for n in topological(r.value) if n.step == "load" and n.payload[2][last:] != (0,)]
    if any(not aligned(node.payload[1], node.payload[2], last) for node in loads):
        return None
    return last if all(aligned(each.offset, each.strides, last) for each in kernel.stores) else None


def generate_rows(kernel: RowProgram, capabilities: Capabilities) -> Program:
    """Return the program of a row program."""
    rows, length = number_of_elements(kernel.outer), number_of_elements(kernel.inner)
    if len(kernel.reductions) == 1 and not kernel.stores and length >= SPLIT_LENGTH and rows < SPLIT_ROWS:
        from .split_rows import generate_split

        return generate_split(kernel, capabilities)
    module = Module(kernel, capabilities)
    team = Team(kernel, min(WORKGROUP, capabilities.invocations))
    buffers = Buffers(module, kernel, kernel.row_stores + kernel.stores, team.vector)
    _row_stores_alone(kernel, buffers, module)
    lines = module.lines
    lines.append(f"let first_row = ({LINEAR_GROUP}) * {team.rows}u;")
    if team.row_major:
        lines += [f"let local_row = thread % {team.rows}u;", f"let part = thread / {team.rows}u;"]
    else:
        lines += [f"let local_row = thread / {team.team}u;", f"let part = thread % {team.team}u;"]
    lines.append(f"let valid = first_row + local_row < {team.row_count}u;")
    lines.append(f"let row = select({team.row_count - 1}u, first_row + local_row, valid);")
    outer = split_index(lines, module, "row", kernel.outer) if kernel.outer else []
    reduced: list[str] = []
    for number, reduction in enumerate(kernel.reductions):
        reduced.append(_reduce(module, buffers, team, kernel, reduction, number, outer, reduced))
    _store_rows(module, buffers, kernel, outer, reduced)
    if kernel.stores and team.length:
        _store_elements(module, buffers, team, kernel, outer, reduced)
    groups = spread_workgroups(-(-team.row_count // team.rows), capabilities.workgroups_per_dimension)
    return Program((module.finish((team.workgroup, 1, 1), groups),), ())


def _row_stores_alone(kernel: RowProgram, buffers: Buffers, module: Module) -> None:
    """Row stores write single elements: their packed outputs need atomics, whatever their alignment over elements."""
    for store in kernel.row_stores:
        key = ("output", store.output)
        buffers.wide.discard(key)
        if module.type(kernel.outputs[store.output].dtype).lanes > 1:
            buffers.atomic.add(key)


def element_loop(module: Module, inner: tuple[int, ...], vector: int | None, start: str, stop: str, step: str) -> list[str]:
    """Open a loop over a row's elements (four at a time with ``vector``); return the inner coordinates."""
    shape = inner if vector is None else (*inner[:-1], inner[-1] // LANES)
    lines = module.lines
    at = module.fresh("e")
    lines.append(f"for (var {at} = {start}; {at} < {stop}; {at} += {step}) {{")
    coordinates = split_index(lines, module, at, shape) if shape else []
    if vector is not None:
        first = module.fresh("c")
        lines.append(f"let {first} = {coordinates[-1]} * {LANES}u;")
        coordinates = [*coordinates[:-1], first]
    return coordinates


def state_literals(module: Module, reduction: Reduction) -> tuple[str, str]:
    """Return the scalar type of a reduction's state and its identity."""
    element = module.type(reduction.dtype)
    kind = reduction.kind.removeprefix("arg")
    start = identity(kind, reduction.dtype)
    if reduction.dtype.category == 0 and kind in ("maximum", "minimum"):
        start = kind == "minimum"
    return element.scalar, literal(start, element)


def combine_text(module: Module, reduction: Reduction, left: str, right: str) -> str:
    """Return the text that combines two states of a plain reduction."""
    from .steps import spell

    scalar = module.type(reduction.dtype).scalar
    step = {"sum": "add", "product": "multiply", "any": "bitwise_or", "all": "bitwise_and"}.get(reduction.kind, reduction.kind)
    return spell(step, scalar, [left, right])


def beats_text(module: Module, reduction: Reduction, value: str, place: str, best: str, best_place: str) -> str:
    """Return the text telling whether (value, place) comes before (best, best_place) as extremum."""
    from .steps import spell

    scalar = module.type(reduction.dtype).scalar
    pair = [best, value] if reduction.kind == "argmaximum" else [value, best]
    better = spell("less", scalar, pair)
    same = spell("equal", scalar, [value, best])
    if scalar in ("f32", "f16"):
        nan, best_nan = spell("is_nan", scalar, [value]), spell("is_nan", scalar, [best])
        better = f"((!{best_nan}) && ({nan} || {better}))"
        same = f"(({same}) || ({nan} && {best_nan}))"
    return f"({better} || ({same} && {place} < {best_place}))"


def accumulate(
    module: Module, buffers: Buffers, reduction: Reduction, coordinates: list[str], inner: list[str], sizes: tuple[int, ...],
    names: tuple[str, str], lanes: int, reduced: list[str],
) -> None:  # fmt: skip
    """Write the statements that fold the loop's elements into the state variables."""
    values = lane_values(module, buffers, [reduction.value], coordinates + inner, lanes, reduced)
    state, place = names
    for lane, (value,) in enumerate(values):
        if reduction.kind.startswith("arg"):
            at = module.fresh("p")
            position = inner[0] if inner else "0u"
            for coordinate, size in zip(inner[1:], sizes[1:], strict=True):
                position = f"({position} * {size}u + {coordinate})"
            module.lines.append(f"let {at} = {position} + {lane}u;")
            test = beats_text(module, reduction, value, at, state, place)
            module.lines.append(f"if ({place} == 0xffffffffu || {test}) {{ {state} = {value}; {place} = {at}; }}")
        else:
            module.lines.append(f"{state} = {combine_text(module, reduction, state, value)};")


def merge_shared(module: Module, reduction: Reduction, number: int, team: int, stride: int, size: int, names: tuple[str, str]) -> None:
    """Write the tree over a team's threads through workgroup memory; the first part's entry holds the result.

    Members of a team lie ``stride`` threads apart (1, or the number of rows in row-major teams).
    """
    state, place = names
    scalar, _ = state_literals(module, reduction)
    has_place = reduction.kind.startswith("arg")
    module.shared.append(f"var<workgroup> shared{number}: array<{scalar}, {size}>;")
    if has_place:
        module.shared.append(f"var<workgroup> place{number}: array<u32, {size}>;")
    lines = module.lines
    lines.append(f"shared{number}[thread] = {state};")
    if has_place:
        lines.append(f"place{number}[thread] = {place};")
    lines.append("workgroupBarrier();")
    width = team // 2
    while width:
        other = f"thread + {width * stride}u"
        lines.append(f"if (part < {width}u) {{")
        if has_place:
            lines.append(f"let v = shared{number}[{other}]; let w = place{number}[{other}];")
            test = beats_text(module, reduction, "v", "w", f"shared{number}[thread]", f"place{number}[thread]")
            lines.append(f"if (w != 0xffffffffu && (place{number}[thread] == 0xffffffffu || {test})) {{")
            lines.append(f"shared{number}[thread] = v; place{number}[thread] = w; }}")
        else:
            combined = combine_text(module, reduction, f"shared{number}[thread]", f"shared{number}[{other}]")
            lines.append(f"shared{number}[thread] = {combined};")
        lines.append("}")
        lines.append("workgroupBarrier();")
        width //= 2


def position_text(module: Module, text: str) -> str:
    """Return a u32 position as int64."""
    return f"i64({text})" if module.capabilities.int64 else f"vec2<u32>({text}, 0u)"


def _reduce(
    module: Module, buffers: Buffers, team: Team, kernel: RowProgram, reduction: Reduction, number: int, outer: list[str], reduced: list[str]
) -> str:
    lines = module.lines
    scalar, start = state_literals(module, reduction)
    names = (f"state{number}", f"where{number}")
    lines.append(f"var {names[0]}: {scalar} = {start};")
    if reduction.kind.startswith("arg"):
        lines.append(f"var {names[1]} = 0xffffffffu;")
    if team.length:
        inner = element_loop(module, kernel.inner, team.vector, "part", f"{team.steps}u", f"{team.team}u")
        accumulate(module, buffers, reduction, outer, inner, kernel.inner, names, 1 if team.vector is None else LANES, reduced)
        lines.append("}")
    has_place = reduction.kind.startswith("arg")
    if team.team > 1:
        stride = team.rows if team.row_major else 1
        merge_shared(module, reduction, number, team.team, stride, team.workgroup, names)
        first = "local_row" if team.row_major else f"local_row * {team.team}u"
        result = f"{'place' if has_place else 'shared'}{number}[{first}]"
    else:
        result = names[1] if has_place else names[0]
    name = f"r{number}"
    lines.append(f"let {name} = {position_text(module, result) if has_place else result};")
    return name


def _store_rows(module: Module, buffers: Buffers, kernel: RowProgram, outer: list[str], reduced: list[str]) -> None:
    if not kernel.row_stores:
        return
    module.lines.append("if (valid && part == 0u) {")
    vector, buffers.vector = buffers.vector, None
    values = lane_values(module, buffers, [store.value for store in kernel.row_stores], outer, 1, reduced)
    for store, value in zip(kernel.row_stores, values[0], strict=True):
        buffers.store(store, [value], outer, module.lines)
    buffers.vector = vector
    module.lines.append("}")


def _store_elements(module: Module, buffers: Buffers, team: Team, kernel: RowProgram, outer: list[str], reduced: list[str]) -> None:
    module.lines.append("if (valid) {")
    inner = element_loop(module, kernel.inner, team.vector, "part", f"{team.steps}u", f"{team.team}u")
    lanes = 1 if team.vector is None else LANES
    values = lane_values(module, buffers, [store.value for store in kernel.stores], outer + inner, lanes, reduced)
    for number, store in enumerate(kernel.stores):
        buffers.store(store, [lane[number] for lane in values], outer + inner, module.lines)
    module.lines += ["}", "}"]
