"""Turning a merged kernel from graph slots into its own operand and parameter numbers, ready to be compiled and cached."""

from __future__ import annotations

from typing import Any

from ..ir.expression import Expression, make, rewrite, topological
from ..ir.kernels import Contraction, Operand, Output, Pointwise
from .domain import collapse, schedule_cache
from .inlining import REPORTS, bound_slots

#: steps that name an operand or a parameter by its number
NUMBERED = frozenset(("load", "load_at", "parameter"))


class Finished:
    """A kernel with local numbers, and the graph slots and parameters those numbers stand for.

    ``initials`` are the graph slots outputs start from (None: none); ``in_place`` lists operand slots each output could
    overwrite because the kernel reads exactly the element it stores.
    """

    __slots__ = ("in_place", "initials", "kernel", "operands", "outputs", "parameters")

    def __init__(self, kernel: Any, operands: list[int], outputs: tuple[int, ...], parameters: list[int]) -> None:
        self.kernel = kernel
        self.operands = operands
        self.outputs = outputs
        self.parameters = tuple(parameters)
        self.initials: tuple[int | None, ...] = ()
        self.in_place: list[list[int]] = []


def unfused(item: Any) -> Finished:
    """Return a recorded kernel as it is, for devices that run one operation at a time."""
    kernel = item.kernel
    parameters = list(range(item.parameter_start, item.parameter_start + len(kernel.parameters)))
    finished = Finished(kernel, list(item.operands), item.outputs, parameters)
    finished.initials = tuple(None if each.initial is None else item.operands[each.initial] for each in kernel.outputs)
    finished.in_place = [[] for _ in kernel.outputs]
    return finished


def localize(group: Any, slots: list[Any], collapses: bool = True) -> Finished:
    """Return the group's kernel with operands and parameters numbered by first use, and as few dimensions as it needs.

    ``collapses``: False leaves its dimensions as they are, for kernels that are to be merged with others.
    """
    loaded = bound_slots(group.kernel) - {REPORTS}
    described = tuple([(slot, Operand(slots[slot].dtype, slots[slot].numel)) for slot in loaded | set(group.outputs)])
    return _localized(collapse(group.kernel) if collapses else group.kernel, group.outputs, group.initials, described)


@schedule_cache
def _localized(
    kernel: Any, outputs: tuple[int, ...], initials: tuple[int | None, ...], described: tuple[tuple[int, Operand], ...]
) -> Finished:
    slots = dict(described)
    operands: list[int] = []
    parameters: list[int] = []
    types: list[Any] = []
    operand_number: dict[int, int] = {}
    parameter_number: dict[int, int] = {}
    for root in kernel.expressions():
        for node in topological(root):
            if node.step in ("load", "load_at"):
                slot = node.payload[0] if node.step == "load" else node.payload
                if slot not in operand_number:
                    operand_number[slot] = len(operands)
                    operands.append(slot)
            elif node.step == "parameter" and node.payload not in parameter_number:
                parameter_number[node.payload] = len(parameters)
                parameters.append(node.payload)
                types.append(node.dtype)

    def replace(node: Expression, arguments: tuple[Expression, ...]) -> Expression:
        if node.step == "load":
            slot, offset, strides = node.payload
            return make("load", (), (operand_number[slot], offset, strides), node.dtype)
        if node.step == "load_at":
            return make("load_at", arguments, operand_number[node.payload], node.dtype)
        return make("parameter", (), parameter_number[node.payload], node.dtype)

    local = kernel.map_expressions(lambda root: rewrite(root, replace, NUMBERED))
    local = local.replace(
        operands=tuple(slots[slot] for slot in operands),
        outputs=tuple(Output(slots[slot].dtype, slots[slot].numel, None) for slot in outputs),
        parameters=tuple(types),
    )
    finished = Finished(local, operands, outputs, parameters)
    finished.initials = initials
    if isinstance(local, Pointwise | Contraction):
        accesses = _accesses(local)
        finished.in_place = [_overwritable(local, operands, accesses, index) for index in range(len(outputs))]
    else:
        finished.in_place = [[] for _ in outputs]
    return finished


def _overwritable(kernel: Any, operands: list[int], accesses: dict[int, set[Any]], output: int) -> list[int]:
    """Return operand slots that output ``output`` may share a buffer with: read only where it is stored."""
    stores = [each for each in kernel.all_stores() if each.output == output]
    if len(stores) != 1:
        return []
    wanted = {(stores[0].offset, stores[0].strides)}
    described = kernel.outputs[output]
    return [
        slot
        for number, slot in enumerate(operands)
        if accesses[number] == wanted
        and (kernel.operands[number].dtype, kernel.operands[number].numel) == (described.dtype, described.numel)
    ]


def _accesses(kernel: Any) -> dict[int, set[Any]]:
    """Return how each operand is read: (offset, strides) of its loads, None for a computed index or a tile's load."""
    found: dict[int, set[Any]] = {number: set() for number in range(len(kernel.operands))}
    tiled: list[Expression] = [each.value for each in getattr(kernel, "reductions", ())]
    tiled += (kernel.left, kernel.right) if isinstance(kernel, Contraction) else ()
    for node in topological(*tiled):
        if node.step in ("load", "load_at"):
            found[node.payload[0] if node.step == "load" else node.payload].add(None)
    for node in topological(*(store.value for store in kernel.all_stores())):
        if node.step == "load":
            found[node.payload[0]].add(node.payload[1:])
        elif node.step == "load_at":
            found[node.payload].add(None)
    return found
