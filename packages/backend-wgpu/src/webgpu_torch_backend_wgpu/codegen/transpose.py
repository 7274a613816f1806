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
from .access import Buffers, evaluate
from .ir import Array, Node, fixed, minimum
from .module import LINEAR_GROUP, THREAD, Module, split_index
from .types import element_type
from .wgsl import type_bytes
from .workgroup import from_shared, shared_type, to_shared

TILE = 32
#: rows of a tile that a workgroup reads at a time, where the adapter has threads for them
ROWS = 8
#: fewest elements for which turning tiles pays
SMALLEST = 1 << 14
#: most loads turned in one kernel; each takes a tile of workgroup memory
MOST_TURNED = 2


def turned_loads(kernel: Pointwise, capabilities: Capabilities) -> tuple[int, list[Expression]] | None:
    """Return the dimension that loads run along and these loads, where stores run along the last dimension instead."""
    last = len(kernel.shape) - 1
    if last < 1 or kernel.elements() < SMALLEST or kernel.shape[last] < ROWS:
        return None
    if any(
        not store.is_plain
        or store.strides[last] != 1
        or element_type(kernel.outputs[store.output].dtype.name, capabilities).lanes > 1
        for store in kernel.stores
    ):
        return None
    loads = [
        node for node in topological(*kernel.expressions()) if node.step == "load" and abs(node.payload[2][last]) > 1
    ]
    for dimension in range(last):
        turned = [node for node in loads if node.payload[2][dimension] == 1]
        if turned and kernel.shape[dimension] >= ROWS and len(turned) <= MOST_TURNED:
            kinds = [shared_type(element_type(node.dtype.name, capabilities).scalar) for node in turned]
            needed = sum(type_bytes(each) for each in kinds) * TILE * (TILE + 1)
            return (dimension, turned) if needed <= capabilities.workgroup_bytes else None
    return None


def generate_turned(kernel: Pointwise, capabilities: Capabilities, plan: tuple[int, list[Expression]]) -> Program:
    """Return the program of a pointwise kernel some of whose loads run along a dimension: ``plan`` has this and them."""
    along, turned = plan
    module = Module(kernel, capabilities)
    buffers = Buffers(module)
    body, last = module.body, len(kernel.shape) - 1
    rows = min(ROWS, capabilities.invocations // TILE)
    across, beside = -(-kernel.shape[along] // TILE), -(-kernel.shape[last] // TILE)
    rest = tuple(size for dimension, size in enumerate(kernel.shape) if dimension not in (along, last))
    count = number_of_elements(rest) * across * beside
    tile = body.let("tile", LINEAR_GROUP)
    body.leave(tile >= count)
    names = split_index(module, tile, (*rest, across, beside))
    starts = body.let("from_along", names[-2] * TILE), body.let("from_last", names[-1] * TILE)
    fast, slow = body.let("fast", THREAD % TILE), body.let("slow", THREAD // TILE)
    sizes = kernel.shape[along], kernel.shape[last]

    def coordinates(at_along: Node, at_last: Node) -> list[Node]:
        others = iter(names)
        return [at_along if each == along else at_last if each == last else next(others) for each in range(last + 1)]

    tiles = [
        module.array(f"turned{number}", shared_type(module.type(node.dtype).scalar), TILE * (TILE + 1))
        for number, node in enumerate(turned)
    ]
    for step in range(0, TILE, rows):
        with body.when(None):
            # Places past the end repeat the last one.
            at_along = body.let("at_along", minimum(starts[0] + fast, sizes[0] - 1))
            at_last = body.let("at_last", minimum(starts[1] + slow + fixed(step), sizes[1] - 1))
            (values,) = evaluate(buffers, turned, coordinates(at_along, at_last))
            for array, value in zip(tiles, values, strict=True):
                body.set(array[(slow + fixed(step)) * (TILE + 1) + fast], to_shared(value))
    body.barrier()
    kept = _reader(module, turned, tiles)
    for step in range(0, TILE, rows):
        with body.when(None):
            at_along = body.let("at_along", starts[0] + slow + fixed(step))
            at_last = body.let("at_last", starts[1] + fast)
            with body.when((at_along < sizes[0]) & (at_last < sizes[1])):
                at = coordinates(at_along, at_last)
                place = fast * (TILE + 1) + slow + fixed(step)
                roots = [store.value for store in kernel.stores]
                (values,) = evaluate(buffers, roots, at, kept=lambda node, lane, place=place: kept(node, place))
                for store, value in zip(kernel.stores, values, strict=True):
                    buffers.store(store, [value], at)
    return Program((module.finish(TILE * rows, count),), ())


def _reader(module: Module, turned: list[Expression], tiles: list[Array]) -> Callable[[Expression, Node], Node | None]:
    """Return what gives a turned load's value from a place of its tile, None for other loads."""

    def kept(node: Expression, place: Node) -> Node | None:
        if node not in turned:
            return None
        return from_shared(tiles[turned.index(node)][place], module.type(node.dtype).scalar)

    return kept
