"""Pointwise kernels: one thread computes 16 bytes of consecutive elements where the layout allows it."""

from __future__ import annotations

from collections.abc import Sequence

from webgpu_torch_core.ir.dtypes import float16
from webgpu_torch_core.ir.expression import Expression, topological
from webgpu_torch_core.ir.kernels import Pointwise, roots_of
from webgpu_torch_core.ir.layouts import number_of_elements

from ..program import Capabilities, Program
from .access import LANES, Buffers, evaluate, evaluate_apart, group_of, stores_aligned
from .ir import Node, fixed
from .module import LINEAR_GROUP, THREAD, Module, split_index
from .steps import length_of
from .types import element_type

#: most nodes of all lanes together that are written out for more than four lanes
MOST_NODES = 800
#: most statements of all lanes together, helpers written out as compilers do, which take a tenth of a second for twice as many;
#: and the elements from which on computing is worth it
MOST_STATEMENTS = 400
WORTH = 1 << 24
#: reads that wait for each other from which on elements are for threads of their own, which wait at once: lanes would take turns
SEARCH = 4
#: elements per thread of kernels whose accesses do not align, and from how many elements on
APART = 4
SEVERAL = 1 << 15
#: groups of neighbours per thread where the host computes, and from how many elements on
ROUNDS = 4
MANY = 1 << 19


def generate_grouped(kernel: Pointwise, capabilities: Capabilities, lanes: int, rounds: int = 1) -> Program:
    """Return the program of a pointwise kernel in which a thread computes ``lanes`` neighbours of the last dimension.

    It does so ``rounds`` times, a workgroup apart.
    """
    module = Module(kernel, capabilities)
    body, workgroup = module.body, module.workgroup
    vector = len(kernel.shape) - 1 if lanes > 1 else None
    shape = kernel.shape if vector is None else (*kernel.shape[:-1], -(-kernel.shape[-1] // lanes))
    count = number_of_elements(shape)
    buffers = Buffers(module, vector, max(lanes, LANES))

    def write(i: Node) -> None:
        coordinates = split_index(module, i, shape)
        if vector is not None:
            coordinates[-1] = body.let(module.fresh("c"), coordinates[-1] * lanes)
        buffers.store_all(kernel.stores, _values(kernel, buffers, coordinates, lanes), coordinates)

    i = body.let("i", LINEAR_GROUP * (workgroup * rounds) + THREAD)
    body.leave(i >= count)
    if rounds == 1:
        write(i)
    else:
        # The last workgroup, which may have fewer, goes through them one by one.
        with body.when(i < max(count - workgroup * (rounds - 1), 0)):
            for number in range(rounds):
                with body.when(None):
                    write(body.let("at", i + fixed(number * workgroup)))
        with body.otherwise(), body.loop("at", i, lambda at: at < count, workgroup) as at:
            write(at)
    return Program((module.finish(workgroup, -(-count // (workgroup * rounds))),), ())


def _values(kernel: Pointwise, buffers: Buffers, coordinates: list[Node], lanes: int = 1) -> list[list[Node]]:
    return evaluate(buffers, roots_of(kernel.stores), coordinates, lanes)


def generate_apart(kernel: Pointwise, capabilities: Capabilities) -> Program:
    """Return the program of a large kernel without aligned groups: a thread computes elements a workgroup apart.

    All are read before any is stored, so that several reads are under way at once.
    """
    module = Module(kernel, capabilities)
    buffers, body, count, workgroup = Buffers(module), module.body, kernel.elements(), module.workgroup
    base = body.let("base", LINEAR_GROUP * (workgroup * APART) + THREAD)
    body.leave(base >= count)
    with body.when(base < max(count - workgroup * (APART - 1), 0)):
        places = [
            split_index(module, body.let(module.fresh("at"), base + fixed(number * workgroup)), kernel.shape)
            for number in range(APART)
        ]
        values = evaluate_apart(buffers, roots_of(kernel.stores), places)
        for coordinates, found in zip(places, values, strict=True):
            buffers.store_all(kernel.stores, [found], coordinates)
    with body.otherwise(), body.loop("i", base, lambda i: i < count, workgroup) as i:
        coordinates = split_index(module, i, kernel.shape)
        buffers.store_all(kernel.stores, _values(kernel, buffers, coordinates), coordinates)
    return Program((module.finish(workgroup, -(-count // (workgroup * APART))),), ())


def pays_apart(kernel: Pointwise, capabilities: Capabilities) -> bool:
    """Return whether a kernel is large enough, and its text small enough, for several elements per thread."""
    nodes = topological(*kernel.expressions())
    short = len(nodes) * (APART + 1) <= MOST_NODES and not _is_long(kernel, nodes, APART + 1, capabilities)
    return kernel.elements() >= SEVERAL and _waits(nodes) < SEARCH and short


def _is_long(kernel: Pointwise, nodes: Sequence[Expression], copies: int, capabilities: Capabilities) -> bool:
    """Return whether so many copies of what an element takes would compile for longer than computing them side by side is worth."""
    return kernel.elements() < WORTH and length_of(nodes, capabilities) * copies > MOST_STATEMENTS


def rounds_of(kernel: Pointwise, capabilities: Capabilities, lanes: int) -> int:
    """Return how many groups of ``lanes`` elements a thread computes: several where starting a thread costs the host as much as
    an element, of kernels with more than enough threads whose text stays short."""
    nodes = len(topological(*kernel.expressions())) * lanes * (ROUNDS + 1)
    return ROUNDS if capabilities.software and kernel.elements() >= MANY and nodes <= MOST_NODES // 4 else 1


def lanes_of(kernel: Pointwise, capabilities: Capabilities) -> int:
    """Return how many consecutive elements of the last dimension a thread computes: 16 bytes of the widest type, or 1.

    Native halves go by fours.
    """
    nodes = topological(*kernel.expressions())
    if not kernel.shape or _waits(nodes) >= SEARCH or _is_long(kernel, nodes, LANES, capabilities):
        return 1
    stored = [kernel.outputs[store.output].dtype for store in kernel.stores]
    loads = [node for node in nodes if node.step == "load"]
    dtypes = [*(node.dtype for node in loads), *stored]
    last = len(kernel.shape) - 1
    moved = [node.dtype for node in loads if any(node.payload[2][last:])]
    types = [element_type(each.name, capabilities) for each in (*moved, *stored)]
    if not all(each.grouped for each in types) and all(each.lanes == 1 for each in types[len(moved) :]):
        # Pairs of words move one by one: neighbours in a thread would leave gaps between those of the threads beside it.
        return 1
    most = LANES if capabilities.half and float16 in dtypes else max(16 // max(each.itemsize for each in dtypes), LANES)
    # Every lane is written out: long expressions stay at four.
    choices = (most, LANES) if len(nodes) * most <= MOST_NODES else (LANES,)
    return next((lanes for lanes in choices if _fits(kernel, lanes)), 1)


def _waits(nodes: Sequence[Expression]) -> int:
    """Return how many reads, of a series in which the place of each depends on the one before, an element waits for."""
    depth: dict[Expression, int] = {}
    for node in nodes:
        depth[node] = max((depth[each] for each in node.arguments), default=0) + (node.step == "load_at")
    return max(depth.values(), default=0)


def _fits(kernel: Pointwise, lanes: int) -> bool:
    """Return whether a thread can compute ``lanes`` elements: whole groups in every store, and none past the end."""
    last = len(kernel.shape) - 1
    for store in kernel.stores:
        if not stores_aligned(store, last, group_of(kernel.outputs[store.output].dtype.itemsize, lanes)):
            return False
    if kernel.shape[-1] % lanes == 0:
        return True
    # A flat kernel may run past its end: buffers are padded, but only where the whole buffer is this kernel's to write.
    whole = len(kernel.shape) == 1 and all(
        store.is_plain and store.offset == 0 and kernel.outputs[store.output].numel == kernel.shape[0]
        for store in kernel.stores
    )
    nodes = topological(*kernel.expressions())
    loads = [node for node in nodes if node.step == "load"]
    return (
        whole
        and all(node.payload[2][0] in (0, 1) and node.payload[1] % lanes == 0 for node in loads)
        and not any(node.step in ("load_at", "checked") for node in nodes)
    )
