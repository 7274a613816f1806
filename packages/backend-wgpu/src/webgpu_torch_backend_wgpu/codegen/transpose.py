"""Pointwise kernels that read along one dimension and write along another: tiles turned round in workgroup memory.

A workgroup reads a square tile along the loads' dimension and writes it along the stores'; a column of padding keeps both
directions on different memory banks (as in NVIDIA's "An Efficient Matrix Transpose in CUDA").
"""

from __future__ import annotations

from collections.abc import Callable

from webgpu_torch_core.ir.expression import Expression, topological
from webgpu_torch_core.ir.kernels import Pointwise
from webgpu_torch_core.ir.layouts import number_of_elements

from ..program import Capabilities, Program
from .access import Buffers
from .pointwise import lane_values
from .printer import LINEAR_GROUP, Module, split_index, spread_workgroups

TILE = 32
ROWS = 8
#: fewest elements for which turning tiles pays
SMALLEST = 1 << 14
#: most loads turned in one kernel; each takes a tile of workgroup memory
MOST_TURNED = 2


def turned_loads(kernel: Pointwise, capabilities: Capabilities) -> tuple[int, list[Expression]] | None:
    """Return the dimension that loads run along and these loads, where stores run along the last dimension instead."""
    last = len(kernel.shape) - 1
    if last < 1 or kernel.elements() < SMALLEST or kernel.shape[last] < ROWS or capabilities.invocations < TILE * ROWS:
        return None
    module = Module(kernel, capabilities)
    if any(
        store.strides[last] != 1 or module.type(kernel.outputs[store.output].dtype).lanes > 1 for store in kernel.stores
    ):
        return None
    loads = [
        node for node in topological(*kernel.expressions()) if node.step == "load" and abs(node.payload[2][last]) > 1
    ]
    for dimension in range(last):
        turned = [node for node in loads if node.payload[2][dimension] == 1]
        if turned and kernel.shape[dimension] >= ROWS and len(turned) <= MOST_TURNED:
            return dimension, turned
    return None


def generate_turned(kernel: Pointwise, capabilities: Capabilities, along: int, turned: list[Expression]) -> Program:
    """Return the program of a pointwise kernel whose loads ``turned`` run along dimension ``along``."""
    module = Module(kernel, capabilities)
    buffers = Buffers(module, kernel, kernel.stores, None)
    lines, last = module.lines, len(kernel.shape) - 1
    across, beside = -(-kernel.shape[along] // TILE), -(-kernel.shape[last] // TILE)
    rest = tuple(size for dimension, size in enumerate(kernel.shape) if dimension not in (along, last))
    count = number_of_elements(rest) * across * beside
    lines.append(f"let tile = {LINEAR_GROUP}; if (tile >= {count}u) {{ return; }}")
    names = split_index(lines, module, "tile", (*rest, across, beside))
    lines.append(f"let from_along = {names[-2]} * {TILE}u; let from_last = {names[-1]} * {TILE}u;")
    lines.append(f"let fast = thread % {TILE}u; let slow = thread / {TILE}u;")

    def coordinates(at_along: str, at_last: str) -> list[str]:
        others = iter(names)
        return [at_along if each == along else at_last if each == last else next(others) for each in range(last + 1)]

    _read_tiles(module, buffers, turned, coordinates, kernel.shape[along], kernel.shape[last])
    lines.append("workgroupBarrier();")
    for step in range(0, TILE, ROWS):
        lines += ["{", f"let at_along = from_along + slow + {step}u;", "let at_last = from_last + fast;"]
        lines.append(f"if ((at_along < {kernel.shape[along]}u) & (at_last < {kernel.shape[last]}u)) {{")

        def kept(node: Expression, lane: int, step: int = step) -> str | None:
            del lane
            if node not in turned:
                return None
            text = f"turned{turned.index(node)}[fast * {TILE + 1}u + slow + {step}u]"
            return f"({text} != 0u)" if module.type(node.dtype).scalar == "bool" else text

        at = coordinates("at_along", "at_last")
        (values,) = lane_values(module, buffers, [store.value for store in kernel.stores], at, 1, None, kept)
        for store, value in zip(kernel.stores, values, strict=True):
            buffers.store(store, [value], at, lines)
        lines.append("} }")
    return Program(
        (module.finish((TILE * ROWS, 1, 1), spread_workgroups(count, capabilities.workgroups_per_dimension)),), ()
    )


def _read_tiles(
    module: Module,
    buffers: Buffers,
    turned: list[Expression],
    coordinates: Callable[[str, str], list[str]],
    along_size: int,
    last_size: int,
) -> None:
    """Write the reading of tiles along the loads' dimension; places past the end repeat the last one."""
    for number, node in enumerate(turned):
        scalar = module.type(node.dtype).scalar
        module.shared.append(
            f"var<workgroup> turned{number}: array<{'u32' if scalar == 'bool' else scalar}, {TILE * (TILE + 1)}>;"
        )
    for step in range(0, TILE, ROWS):
        module.lines.append("{")
        module.lines.append(f"let at_along = min(from_along + fast, {along_size - 1}u);")
        module.lines.append(f"let at_last = min(from_last + slow + {step}u, {last_size - 1}u);")
        (values,) = lane_values(module, buffers, turned, coordinates("at_along", "at_last"), 1)
        for number, (node, value) in enumerate(zip(turned, values, strict=True)):
            text = f"select(0u, 1u, {value})" if module.type(node.dtype).scalar == "bool" else value
            module.lines.append(f"turned{number}[(slow + {step}u) * {TILE + 1}u + fast] = {text};")
        module.lines.append("}")
