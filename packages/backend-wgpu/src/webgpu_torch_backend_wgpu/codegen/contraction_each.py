"""Contractions with a thread for each result: of few channels for each group there are no blocks that pay to be shared.

Depthwise convolutions are such: neighbours read nearly the same elements, which caches hold.
"""

from __future__ import annotations

from collections.abc import Iterator

from webgpu_torch_core.ir.kernels import Contraction, roots_of
from webgpu_torch_core.ir.layouts import number_of_elements

from ..facts import Facts
from ..program import Capabilities, Program
from .access import Buffers, evaluate
from .cancelling import known_sums
from .ir import Node, fixed, zero
from .module import LINEAR_GROUP, THREAD, Module, hidden, split_index
from .statements import Assign

#: most rows of the smaller side
FEW = 16
#: most products that are written out one after another
_WRITTEN_OUT = 16
#: operations that a product takes with its two elements' positions
_OPERATIONS = 16
#: the share of the memory's bandwidth that is reached
_BANDWIDTH = 0.6


def has_few_channels(kernel: Contraction) -> bool:
    """Return whether one side has few rows for each of the batch."""
    fewest = min(number_of_elements(kernel.m), number_of_elements(kernel.n))
    return kernel.dtype.name == "float32" and fewest <= FEW


def each_seconds(kernel: Contraction, plan: None, facts: Facts) -> float:
    """Return an estimate of the time that a thread for each result takes."""
    results, k = number_of_elements(kernel.batch + kernel.m + kernel.n), number_of_elements(kernel.k)
    return max(
        kernel.nbytes() / (facts.bandwidth * _BANDWIDTH), max(results, facts.threads) * k * _OPERATIONS / facts.flops
    )


def generate_each(kernel: Contraction, capabilities: Capabilities) -> Program:
    """Return the program in which a thread sums one result, in the order of k."""
    module = Module(kernel, capabilities)
    body, buffers = module.body, Buffers(module)
    sizes = (*kernel.batch, *kernel.m, *kernel.n)
    count, depth = number_of_elements(sizes), number_of_elements(kernel.k)
    i = body.let("i", LINEAR_GROUP * module.workgroup + THREAD)
    body.leave(i >= count)
    coordinates = split_index(module, i, sizes)
    total = body.var("total", zero("f32"), "f32")

    def steps() -> Iterator[Node]:
        if depth > _WRITTEN_OUT:
            with body.loop("deep", fixed(0), lambda deep: deep < depth, fixed(1)) as deep:
                yield deep
            return
        for number in range(depth):
            with body.when(None):
                yield body.let("deep", fixed(number))

    for deep in steps():
        inner = split_index(module, deep, kernel.k)
        left, right = evaluate(buffers, (kernel.left, kernel.right), [*coordinates, *inner])[0]
        body.add(Assign(total, left * right, "+="))
    store_sum(buffers, kernel, coordinates, total)
    return Program((module.finish(module.workgroup, -(-count // module.workgroup)),), ())


def store_sum(buffers: Buffers, kernel: Contraction, coordinates: list[Node], total: Node) -> None:
    """Write the stores of a result from its sum."""
    known = hidden(total) if known_sums(kernel.left, kernel.right) else total
    values = evaluate(buffers, roots_of(kernel.stores), coordinates, accumulators=[known])
    buffers.store_all(kernel.stores, values, coordinates)
