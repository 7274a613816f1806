"""Pointwise kernels: one thread computes 16 bytes of consecutive elements where the layout allows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from webgpu_torch_core.ir.dtypes import float16
from webgpu_torch_core.ir.expression import Expression, topological
from webgpu_torch_core.ir.kernels import Pointwise
from webgpu_torch_core.ir.layouts import number_of_elements

from ..program import Capabilities, Program
from .access import LANES, Buffers, aligned, group_of
from .printer import LINEAR_GROUP, Module, Printer, split_index, spread_workgroups

WORKGROUP = 256
#: most nodes of all lanes together that are written out for more than four lanes
MOST_NODES = 800
#: elements per thread of kernels whose accesses do not align, and from how many elements on
APART = 4
SEVERAL = 1 << 15


def generate_pointwise(kernel: Pointwise, capabilities: Capabilities) -> Program:
    """Return the program of a pointwise kernel."""
    from .transpose import generate_turned, turned_loads

    turned = turned_loads(kernel, capabilities)
    if turned is not None:
        return generate_turned(kernel, capabilities, *turned)
    module = Module(kernel, capabilities)
    lanes = _lanes(kernel, capabilities.half)
    if (
        lanes == 1
        and kernel.elements() >= SEVERAL
        and len(topological(*kernel.expressions())) * (APART + 1) <= MOST_NODES
    ):
        return _generate_apart(kernel, capabilities)
    vector = len(kernel.shape) - 1 if lanes > 1 else None
    shape = kernel.shape
    if vector is not None:
        shape = (*shape[:-1], -(-shape[-1] // lanes))
    count = number_of_elements(shape)
    lines = module.lines
    lines.append(f"let i = ({LINEAR_GROUP}) * {WORKGROUP}u + thread;")
    lines.append(f"if (i >= {count}u) {{ return; }}")
    coordinates = split_index(lines, module, "i", shape)
    if vector is not None:
        first = module.fresh("c")
        lines.append(f"let {first} = {coordinates[-1]} * {lanes}u;")
        coordinates = [*coordinates[:-1], first]
    buffers = Buffers(module, kernel, kernel.stores, vector, max(lanes, LANES))
    values = lane_values(module, buffers, [store.value for store in kernel.stores], coordinates, lanes)
    for number, store in enumerate(kernel.stores):
        buffers.store(store, [lane[number] for lane in values], coordinates, lines)
    groups = spread_workgroups(-(-count // WORKGROUP), capabilities.workgroups_per_dimension)
    return Program((module.finish((WORKGROUP, 1, 1), groups),), ())


def _generate_apart(kernel: Pointwise, capabilities: Capabilities) -> Program:
    """Return the program of a large kernel without aligned groups: a thread computes elements a workgroup apart.

    All are read before any is stored, so that several reads are under way at once.
    """
    module = Module(kernel, capabilities)
    buffers = Buffers(module, kernel, kernel.stores, None)
    lines, count = module.lines, kernel.elements()
    roots = [store.value for store in kernel.stores]
    lines.append(f"let base = ({LINEAR_GROUP}) * {WORKGROUP * APART}u + thread;")
    lines.append(f"if (base >= {count}u) {{ return; }}")
    lines.append(f"if (base < {max(count - WORKGROUP * (APART - 1), 0)}u) {{")
    done: list[tuple[list[str], list[str]]] = []
    for number in range(APART):
        at = module.fresh("at")
        lines.append(f"let {at} = base + {number * WORKGROUP}u;")
        coordinates = split_index(lines, module, at, kernel.shape)
        done.append((coordinates, lane_values(module, buffers, roots, coordinates, 1)[0]))
    for coordinates, values in done:
        for store, value in zip(kernel.stores, values, strict=True):
            buffers.store(store, [value], coordinates, lines)
    lines.append(f"}} else {{ for (var i = base; i < {count}u; i += {WORKGROUP}u) {{")
    coordinates = split_index(lines, module, "i", kernel.shape)
    (values,) = lane_values(module, buffers, roots, coordinates, 1)
    for store, value in zip(kernel.stores, values, strict=True):
        buffers.store(store, [value], coordinates, lines)
    lines.append("} }")
    groups = spread_workgroups(-(-count // (WORKGROUP * APART)), capabilities.workgroups_per_dimension)
    return Program((module.finish((WORKGROUP, 1, 1), groups),), ())


def lane_values(
    module: Module, buffers: Buffers, roots: list[Expression], coordinates: list[str], lanes: int, reduced: list[str] | None = None,
    kept: Callable[[Expression, int], str | None] | None = None,
) -> list[list[str]]:  # fmt: skip
    """Write the statements that compute expressions for each lane; return their names as [lane][expression].

    ``kept(load, lane)`` gives the text of a load that was made before, or None.
    """
    groups: dict[Any, Any] = {}
    result = []
    same = _same_for_all_lanes(roots) if lanes > 1 else set()
    shared: dict[Expression, str] = {}
    for lane in range(lanes):

        def leaf(node: Expression, argument: str | None, lane: int = lane) -> str:
            if node.step == "load":
                before = kept(node, lane) if kept is not None else None
                return before or buffers.load(node, coordinates, lane, groups, module.lines)
            if node.step == "load_at":
                return buffers.load_at(node, argument or "0u")
            if node.step == "reduced":
                return (reduced or [])[node.payload]
            position = coordinates[node.payload]
            return f"i32({position} + {lane}u)" if node.payload == buffers.vector and lane else f"i32({position})"

        printer = Printer(module, leaf)
        printer.names.update(shared)
        result.append([printer.value(root) for root in roots])
        if lane == 0:
            shared = {node: name for node, name in printer.names.items() if node in same}
    return result


def _same_for_all_lanes(roots: list[Expression]) -> set[Expression]:
    """Return the nodes that do not vary from element to element: made of numbers, parameters and reductions only."""
    same: set[Expression] = set()
    for node in topological(*roots):
        if node.step in ("constant", "parameter", "reduced") or (
            node.arguments and node.step != "load_at" and all(each in same for each in node.arguments)
        ):
            same.add(node)
    return same


def _lanes(kernel: Pointwise, half: bool) -> int:
    """Return how many consecutive elements of the last dimension a thread computes: 16 bytes of the widest type, or 1.

    Native halves (``half``) go by fours.
    """
    if not kernel.shape:
        return 1
    nodes = topological(*kernel.expressions())
    dtypes = [node.dtype for node in nodes if node.step == "load"]
    dtypes += [kernel.outputs[store.output].dtype for store in kernel.stores]
    most = LANES if half and float16 in dtypes else max(16 // max(each.itemsize for each in dtypes), LANES)
    # Every lane is written out: long expressions stay at four.
    choices = (most, LANES) if len(nodes) * most <= MOST_NODES else (LANES,)
    return next((lanes for lanes in choices if _fits(kernel, lanes)), 1)


def _fits(kernel: Pointwise, lanes: int) -> bool:
    """Return whether a thread can compute ``lanes`` elements: whole groups in every store, and none past the end."""
    last = len(kernel.shape) - 1
    for store in kernel.stores:
        if not aligned(store.offset, store.strides, last, group_of(kernel.outputs[store.output].dtype.itemsize, lanes)):
            return False
    if kernel.shape[-1] % lanes == 0:
        return True
    # A flat kernel may run past its end: buffers are padded, but only where the whole buffer is this kernel's to write.
    whole = len(kernel.shape) == 1 and all(
        store.offset == 0 and kernel.outputs[store.output].numel == kernel.shape[0] for store in kernel.stores
    )
    nodes = topological(*kernel.expressions())
    loads = [node for node in nodes if node.step == "load"]
    return (
        whole
        and all(node.payload[2][0] in (0, 1) and node.payload[1] % lanes == 0 for node in loads)
        and not any(node.step == "load_at" for node in nodes)
    )
