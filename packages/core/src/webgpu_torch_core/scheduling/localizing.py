"""Numbering a merged kernel's operands and parameters by first use, ready to be compiled and cached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.expression import LOAD_STEPS, Expression, loads_of, operand_of, topological
from ..ir.kernels import Contraction, Kernel, Operand, Output, Pointwise
from .domain import collapse, schedule_cache
from .placing import Numbers, Placed, Slots, renumbered, taken


class Finished:
    """A kernel with local numbers, and the graph slots and parameters those numbers stand for.

    ``initials`` are the graph slots outputs start from (None: none); ``in_place`` lists operand slots each output could
    overwrite because the kernel reads exactly the element it stores.
    """

    __slots__ = ("in_place", "initials", "kernel", "operands", "outputs", "parameters")

    def __init__(self, kernel: Any, operands: list[int], outputs: tuple[int, ...], parameters: Numbers) -> None:
        self.kernel = kernel
        self.operands = operands
        self.outputs = outputs
        self.parameters = parameters
        self.initials: tuple[int | None, ...] = ()
        self.in_place: list[list[int]] = []


def unfused(item: Any) -> Finished:
    """Return a recorded kernel as it is, for devices that run one operation at a time."""
    kernel = item.kernel
    parameters = tuple(range(item.parameter_start, item.parameter_start + len(kernel.parameters)))
    finished = Finished(kernel, list(item.operands), item.outputs, parameters)
    finished.initials = tuple(None if each.initial is None else item.operands[each.initial] for each in kernel.outputs)
    finished.in_place = [[] for _ in kernel.outputs]
    return finished


def localize(group: Any, slots: Slots, collapses: bool = True) -> Finished:
    """Return the group's kernel with operands and parameters numbered by first use, and as few dimensions as it needs.

    ``collapses``: False leaves its dimensions as they are, for kernels that are to be merged with others.
    """
    item = group.item
    kernel, numbers, parameters, in_place = _localized(item.kernel, *_buffers(item, group.outputs, slots), collapses)
    operands = list(taken(item.slots, numbers))
    finished = Finished(kernel, operands, group.outputs, taken(item.parameters, parameters))
    finished.initials = group.initials
    finished.in_place = [[operands[number] for number in each] for each in in_place]
    return finished


def with_buffers(item: Placed, outputs: Sequence[int], slots: Slots) -> Kernel:
    """Return a kernel that is not finished with the buffers that it would bind if it were."""
    made, operands = _buffers(item, outputs, slots)
    return item.kernel.replace(operands=operands, outputs=made)


def _buffers(item: Placed, outputs: Sequence[int], slots: Slots) -> tuple[tuple[Output, ...], tuple[Operand, ...]]:
    return (
        tuple([Output(slots[slot].dtype, slots[slot].numel, None) for slot in outputs]),
        tuple([Operand(slots[slot].dtype, slots[slot].numel) for slot in item.slots]),
    )


@schedule_cache
def _localized(
    kernel: Any, outputs: tuple[Output, ...], operands: tuple[Operand, ...], collapses: bool
) -> tuple[Any, Numbers, Numbers, list[list[int]]]:
    """Return a kernel with numbers by first use, the operands and parameters that it loads, and what outputs may overwrite."""
    kernel = collapse(kernel) if collapses else kernel
    nodes = topological(*kernel.expressions())
    loaded = [operand_of(node) for node in nodes if node.step in LOAD_STEPS]
    types = {node.payload: node.dtype for node in nodes if node.step == "parameter"}
    numbers, parameters = tuple(dict.fromkeys(loaded)), tuple(types)
    new = [{old: number for number, old in enumerate(each)} for each in (numbers, parameters)]
    local = renumbered(kernel, *new).replace(
        operands=taken(operands, numbers), outputs=outputs, parameters=tuple(types.values())
    )
    if not isinstance(local, Pointwise | Contraction):
        return local, numbers, parameters, [[] for _ in outputs]
    accesses = _accesses(local)
    return local, numbers, parameters, [_overwritable(local, accesses, index) for index in range(len(outputs))]


def _overwritable(kernel: Any, accesses: dict[int, set[Any]], output: int) -> list[int]:
    """Return the operands that output ``output`` may share a buffer with: read only where it is stored."""
    stores = [each for each in kernel.all_stores() if each.output == output]
    if len(stores) != 1 or not stores[0].is_plain:
        return []
    wanted = {(stores[0].offset, stores[0].strides)}
    described = kernel.outputs[output]
    return [
        number
        for number, operand in enumerate(kernel.operands)
        if accesses[number] == wanted and (operand.dtype, operand.numel) == (described.dtype, described.numel)
    ]


def _accesses(kernel: Any) -> dict[int, set[Any]]:
    """Return how each operand is read: (offset, strides) of its loads, None for a computed index or a tile's load."""
    found: dict[int, set[Any]] = {number: set() for number in range(len(kernel.operands))}
    tiled: list[Expression] = [each.value for each in getattr(kernel, "reductions", ())]
    tiled += (kernel.left, kernel.right) if isinstance(kernel, Contraction) else ()
    tiled += [root for store in kernel.all_stores() for root in store.roots()[1:]]
    for node in loads_of(*tiled):
        found[operand_of(node)].add(None)
    for node in loads_of(*(store.value for store in kernel.all_stores())):
        found[operand_of(node)].add(node.payload[1:] if node.step == "load" else None)
    return found
