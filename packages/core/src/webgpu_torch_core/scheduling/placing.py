"""Kernels apart from where they stand in a graph, so that what repeats in it is worked on once.

In a kernel that is being merged, loads and parameters have numbers from zero; beside it stands which slots and parameters of the
graph these are. The steps of scheduling are remembered by kernels alone: the second of two equal layers takes what was found for
the first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ..ir.expression import Expression, make, rewrite, topological
from ..ir.kernels import Kernel
from .domain import schedule_cache

#: stands for the buffer of reports among the slots that a kernel binds
REPORTS = -1
#: steps that name an operand or a parameter by its number
NUMBERED = frozenset(("load", "load_at", "parameter"))
Numbers = tuple[int, ...]
#: new numbers by old ones
New = Sequence[int] | Mapping[int, int]
_Entry = TypeVar("_Entry")
#: a kernel whose numbers have no gaps, and which slots and parameters of a table these are
Compact = tuple[Any, Numbers, Numbers]


class Slot:
    """A value of the graph: its type, size, and whether it exists before the plan runs."""

    __slots__ = ("dtype", "is_leaf", "numel")

    def __init__(self, dtype: Any, numel: int, is_leaf: bool) -> None:
        # A leaf's type is known once a kernel reads it.
        self.dtype = dtype
        self.numel = numel
        self.is_leaf = is_leaf


def leaf() -> Slot:
    """Return what is known of a value that no kernel has read yet."""
    return Slot(None, 0, True)


#: what a graph's kernels tell of its slots; others are leaves that nobody reads
Slots = defaultdict[int, Slot]


class Placed(NamedTuple):
    """A kernel, and the graph's slots and parameters by the kernel's numbers, each of which it loads."""

    kernel: Any
    slots: Numbers
    parameters: Numbers

    def bound(self) -> set[int]:
        """Return the slots that the kernel loads, and :data:`REPORTS` where it reports."""
        return {*self.slots, REPORTS} if REPORTS in bound_slots(self.kernel) else set(self.slots)

    def changed(self, kernel: Any) -> Placed:
        """Return another kernel with the same numbers in its place, which need not load all of them."""
        kernel, slots, parameters = compact(kernel)
        return Placed(kernel, taken(self.slots, slots), taken(self.parameters, parameters))


def placed(kernel: Any, operands: Numbers, start: int) -> Placed:
    """Return a recorded kernel where it stands: ``operands`` are slots, ``start`` is the place of its first parameter."""
    slots, (numbers,) = united(operands)
    kernel, live, parameters = _recorded(kernel, numbers)
    return Placed(kernel, taken(slots, live), tuple([start + each for each in parameters]))


@schedule_cache
def _recorded(kernel: Any, numbers: Numbers) -> Compact:
    return compact(renumbered(kernel, numbers, range(len(kernel.parameters))))


def united(*tables: Sequence[int]) -> tuple[Numbers, list[Numbers]]:
    """Return all that stands in tables, each once, and where what stands in each is among these."""
    places: dict[int, int] = {}
    numbers = [tuple([places.setdefault(each, len(places)) for each in table]) for table in tables]
    return tuple(places), numbers


def taken(table: Sequence[_Entry], numbers: Iterable[int]) -> tuple[_Entry, ...]:
    """Return some entries of a table."""
    return tuple([table[each] for each in numbers])


@schedule_cache
def compact(kernel: Any) -> Compact:
    """Return the kernel with numbers that have no gaps, and the numbers that it had before."""
    bound, taking = _bound(kernel)
    slots, parameters = sorted(bound - {REPORTS}), sorted(taking)
    new = [{old: number for number, old in enumerate(each)} for each in (slots, parameters)]
    return renumbered(kernel, *new), tuple(slots), tuple(parameters)


def renumbered(kernel: Any, slots: New, parameters: New) -> Any:
    """Return the kernel with other numbers, given by its own."""
    if _stay(_bound(kernel), slots, parameters):
        return kernel
    return kernel.map_expressions(lambda root: renumbered_value(root, slots, parameters))


def _stay(named: tuple[frozenset[int], frozenset[int]], slots: New, parameters: New) -> bool:
    """Return whether new numbers of slots and parameters are the old ones."""
    changed = [each for each in named[0] if each != REPORTS and slots[each] != each]
    return not changed and not [each for each in named[1] if parameters[each] != each]


def renumbered_value(root: Expression, slots: New, parameters: New) -> Expression:
    """Return an expression with other numbers, given by its own."""
    if _stay(_named(root), slots, parameters):
        return root

    def replace(node: Expression, arguments: tuple[Expression, ...]) -> Expression:
        if node.step == "load":
            slot, offset, strides = node.payload
            return make("load", (), (slots[slot], offset, strides), node.dtype)
        if node.step == "load_at":
            return make("load_at", arguments, slots[node.payload], node.dtype)
        return make("parameter", (), parameters[node.payload], node.dtype)

    return rewrite(root, replace, NUMBERED)


def bound_slots(kernel: Kernel) -> frozenset[int]:
    """Return the slots a kernel loads, and :data:`REPORTS` where it reports."""
    return _bound(kernel)[0]


def loaded_slots(root: Expression) -> frozenset[int]:
    """Return the slots an expression loads, and :data:`REPORTS` where it reports."""
    return _named(root)[0]


@schedule_cache
def _bound(kernel: Kernel) -> tuple[frozenset[int], frozenset[int]]:
    """Return the slots a kernel binds and the parameters it takes."""
    found = [_named(root) for root in kernel.expressions()]
    return (
        found[0]
        if len(found) == 1
        else (frozenset().union(*[a for a, _ in found]), frozenset().union(*[b for _, b in found]))
    )


@schedule_cache
def _named(root: Expression) -> tuple[frozenset[int], frozenset[int]]:
    """Return the slots an expression binds and the parameters it takes."""
    slots: set[int] = set()
    parameters: set[int] = set()
    for node in topological(root):
        step = node.step
        if step == "load":
            slots.add(node.payload[0])
        elif step == "load_at":
            slots.add(node.payload)
        elif step == "parameter":
            parameters.add(node.payload)
        elif step == "checked":
            slots.add(REPORTS)
    return frozenset(slots), frozenset(parameters)
