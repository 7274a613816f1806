"""Replacing a load of a pointwise value by the expression that computes it.

The consumer reads a flat value at ``offset + sum(stride * coordinate)``; the producer defined it over a shape in row-major
order. Where every consumer dimension moves along exactly one producer dimension (after splitting some), the producer's
coordinates are affine in the consumer's and its expression can be re-indexed and put in place of the load.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from ..ir.expression import Expression, load, load_at, loads_of, rewrite, topological
from ..ir.kernels import Attention, Contraction, Kernel, Pointwise
from ..ir.layouts import Shape, contiguous_strides, number_of_elements
from ..ir.records import Record
from ..ir.reindexing import Terms, reindex
from .domain import groups, schedule_cache, split_dimensions
from .limits import Limits, kernel_length, value_length
from .placing import (
    Compact,
    Numbers,
    Placed,
    bound_slots,
    compact,
    loaded_slots,
    renumbered,
    renumbered_value,
    taken,
    united,
)


class Definition(Record):
    """What a graph slot holds: an expression over a shape, stored contiguously.

    ``shared``: several kernels load it. ``settled``: it costs nothing to have it in memory, because it stays alive anyway or
    can be the epilogue of the kernel whose result it is computed from.
    """

    __slots__ = fields = ("shape", "value", "shared", "settled")
    shape: Shape
    value: Expression
    shared: bool
    settled: bool

    def loads(self) -> int:
        """Return how many loads the expression makes."""
        return len(loads_of(self.value))


class NeedsSplit(Exception):
    """The consumer's dimension must be split into these factors first."""

    def __init__(self, dimension: int, factors: Shape) -> None:
        self.dimension = dimension
        self.factors = factors


@schedule_cache
def decompose(offset: int, strides: Shape, sizes: Shape, shape: Shape) -> tuple[Terms, Shape] | None:
    """Return the producer's coordinates as (terms, constants) of the consumer's, or None where they are not affine.

    Raises:
        NeedsSplit: they would be after splitting a consumer dimension.
    """
    weights = contiguous_strides(shape)
    real = [index for index, size in enumerate(shape) if size != 1]
    constants = [0] * len(shape)
    rest = offset
    for index in real:
        constants[index], rest = divmod(rest, weights[index])
    low = list(constants)
    high = list(constants)
    terms: list[tuple[tuple[int, int], ...]] = []
    for dimension, (stride, size) in enumerate(zip(strides, sizes, strict=False)):
        if stride == 0 or size == 1:
            terms.append(())
            continue
        magnitude = abs(stride)
        target = next((index for index in real if weights[index] <= magnitude), None)
        if target is None or magnitude % weights[target]:
            return None
        multiplier = magnitude // weights[target]
        if (size - 1) * multiplier >= shape[target]:
            inner = shape[target] // multiplier
            if shape[target] % multiplier or inner == 0 or size % inner or inner == size or inner == 1:
                return None
            raise NeedsSplit(dimension, (size // inner, inner))
        if stride < 0:
            multiplier = -multiplier
            low[target] += (size - 1) * multiplier
        else:
            high[target] += (size - 1) * multiplier
        terms.append(((target, multiplier),))
    for index in real:
        if low[index] < 0 or high[index] >= shape[index]:
            return None
    return tuple(terms), tuple(constants)


class Inliner:
    """Expands the loads of one graph's kernels in recording order."""

    def __init__(self, uses: dict[int, int], alive: frozenset[int], limits: Limits, long: dict[int, int]) -> None:
        self.definitions: dict[int, tuple[Definition, Placed]] = {}
        self.uses = uses
        self.alive = alive
        self.limits = limits
        self.hosts: set[int] = set()
        self.long = long

    def expand(self, item: Placed) -> Placed:
        """Return the kernel with every load inlined that should be."""
        known = [
            (number, *self.definitions[slot]) for number, slot in enumerate(item.slots) if slot in self.definitions
        ]
        if not known:
            return item
        rest = [slot for slot in item.slots if slot not in self.definitions]
        # What is replaced has the last numbers: those that are left have no gaps. The first definition keeps its own.
        slots, (*slot_numbers, _, own) = united(*[each.slots for _, _, each in known], rest, item.slots)
        parameters, (*parameter_numbers, numbers) = united(*[each.parameters for _, _, each in known], item.parameters)
        found = zip([(own[number], each) for number, each, _ in known], slot_numbers, parameter_numbers, strict=True)
        long = long_numbers(slots, self.long)
        expanded = _expanded(item.kernel, (own, numbers), tuple(found), self.limits, long)
        return Placed(expanded[0], taken(slots, expanded[1]), taken(parameters, expanded[2])) if expanded else item

    def define(self, slot: int, item: Placed) -> None:
        """Make the expression that a kernel stores into a slot available to later kernels."""
        settled = slot in self.alive or not self.hosts.isdisjoint(item.slots)
        definition = Definition(item.kernel.shape, item.kernel.stores[0].value, self.uses.get(slot, 0) > 1, settled)
        self.definitions[slot] = definition, item

    def host(self, slots: Iterable[int]) -> None:
        """Note slots whose kernel can take an epilogue."""
        self.hosts.update(slots)


@schedule_cache
def _expanded(
    kernel: Any,
    numbers: tuple[Numbers, Numbers],
    known: tuple[tuple[tuple[int, Definition], Numbers, Numbers], ...],
    limits: Limits,
    long: tuple[tuple[int, int], ...],
) -> Compact | None:
    """Return the kernel with loads inlined whose definitions are known, None where none is.

    ``numbers``, and those beside each definition, are their slots and parameters among those of all.
    """
    given = kernel = renumbered(kernel, *numbers)
    definitions = {
        number: definition.replace(value=renumbered_value(definition.value, *new))
        for (number, definition), *new in known
    }
    for _ in range(64):
        try:
            found = _inlined(kernel, definitions, limits, dict(long))
            return None if found == given else compact(found)
        except NeedsSplit as split:
            kernel = split_dimensions(kernel, {split.dimension: split.factors})
    return compact(kernel)


def long_numbers(slots: Sequence[int], long: dict[int, int]) -> tuple[tuple[int, int], ...]:
    """Return by their numbers how many bindings more than one the buffers of some slots take."""
    return tuple([(number, long[slot]) for number, slot in enumerate(slots) if slot in long]) if long else ()


def bindings(slots: AbstractSet[int], long: dict[int, int]) -> int:
    """Return how many bindings the buffers of slots take; ``long`` says how many more than one some do."""
    return len(slots) + (sum(long.get(slot, 0) for slot in slots) if long else 0)


def _inlined(kernel: Kernel, definitions: dict[int, Definition], limits: Limits, long: dict[int, int]) -> Any:
    sizes = tuple(size for group in groups(kernel) for size in group)
    slots = set(bound_slots(kernel))
    length = kernel_length(limits, kernel)
    pays = _PAYS.get(type(kernel), _worthwhile)

    def replace(node: Expression, arguments: tuple[Expression, ...]) -> Expression | None:
        nonlocal length
        if node.step == "load":
            slot, offset, strides = node.payload
        elif isinstance(kernel, Contraction):
            slot, offset, strides = node.payload, 0, ()
        else:
            return None
        definition = definitions.get(slot)
        if definition is None or not pays(definition, node, kernel):
            return None
        added = (slots | loaded_slots(definition.value)) - {slot}
        grown = length + value_length(limits, definition.value)
        if bindings(added, long) + 2 > limits.bindings or grown > limits.length:
            return None
        if node.step == "load_at":
            computed = _at_index(definition, arguments[0], len(sizes))
            if computed is not None:
                slots.update(added)
                length = grown
            return computed
        try:
            found = decompose(offset, strides, sizes, definition.shape)
        except NeedsSplit:
            if kernel.is_ordered:
                return None
            raise
        if found is None:
            return None
        slots.update(added)
        length = grown
        return definition.value if _is_identity(definition.shape, *found) else reindex(definition.value, *found)

    return kernel.map_expressions(lambda each: rewrite(each, replace, ("load", "load_at")))


def _is_identity(shape: Shape, terms: Terms, constants: Shape) -> bool:
    """Return whether a shape's coordinates are the consumer's own."""
    return terms == tuple(((dimension, 1),) for dimension in range(len(shape))) and not any(constants)


def _at_index(definition: Definition, index: Expression, rank: int) -> Expression | None:
    """Return the value at a computed place of a row-major shape, where all it loads is as dense, or one number."""
    real = [place for place, size in enumerate(definition.shape) if size != 1]
    dense = contiguous_strides(definition.shape)

    def replace(node: Expression, arguments: tuple[Expression, ...]) -> Expression | None:
        slot, offset, strides = node.payload
        if not any(strides[place] for place in real):
            return load(slot, offset, (0,) * rank, node.dtype)
        return load_at(slot, index + offset if offset else index, node.dtype)

    for node in topological(definition.value):
        if node.step in ("load_at", "coordinate"):
            return None
        if node.step == "load":
            strides = [node.payload[2][place] for place in real]
            if any(strides) and strides != [dense[place] for place in real]:
                return None
    return rewrite(definition.value, replace, ("load",))


#: rows of a block of a contraction's result, for which a loaded element is used as often; a strip has this many columns
BLOCK, STRIP = 64, 4
#: most rows of a result that is computed in strips instead of blocks
FEW_ROWS = 8
#: most rows of a result that decode the other operand on the way
DECODED_ROWS = 2 * BLOCK
#: steps that cost about as much as a multiplication; others cost as much as ``_DEAR`` of them
_CHEAP = frozenset(
    "add subtract multiply divide negate absolute sign minimum maximum fused_multiply_add floor ceil truncate round sign_bit "
    "is_nan equal not_equal less less_equal bitwise_and bitwise_or bitwise_xor bitwise_not shift_left shift_right select".split()
)
_DEAR = 8


@schedule_cache
def prologue_pays(definition: Definition, node: Expression, kernel: Contraction) -> bool:
    """Return whether a contraction should compute an operand's elements instead of loading them.

    It loads each element of a side once per block of the other side's rows and uses it for as many multiplications as the
    block has rows: what is computed at each load must be little beside these, and load no more than the element itself.
    """
    value = definition.value
    nodes = topological(value)
    steps = [each.step for each in nodes if each.arguments and each.step != "cast"]
    if not definition.loads():
        return False
    if not steps:
        # Data that is only moved or converted.
        return True
    if definition.shared or definition.settled or "load_at" in steps:
        return False
    rows = {"m": number_of_elements(kernel.m), "n": number_of_elements(kernel.n)}
    own, other = ("m", "n") if node in topological(kernel.left) else ("n", "m")
    if any(each.step == "coordinate" for each in nodes):
        # What is packed is unpacked on the way for a few blocks; for more of them once, beforehand.
        if not _decodes(definition) or rows[other] > DECODED_ROWS:
            return False
    few = min(rows.values()) <= FEW_ROWS
    block = rows[other] if few and rows[own] > rows[other] else STRIP if few else BLOCK
    if block >= rows[other] and node.step == "load" and _repeats(node.payload[2], _sizes(kernel, other)) == 1:
        # Every element is loaded once, whoever computes it.
        return value.size <= 400 and definition.loads() <= 4
    cost = sum(1 if step in _CHEAP else _DEAR for step in steps)
    return cost * 4 <= block and _loads_whole(definition) <= 1


def _loads_whole(definition: Definition) -> int:
    """Return how many loads read as many elements as the value has."""
    nodes = topological(definition.value)
    return sum(each.step == "load" and _repeats(each.payload[2], definition.shape) == 1 for each in nodes)


def _decodes(definition: Definition) -> bool:
    """Return whether an expression makes much of little: what it loads takes at most half of the memory of its values."""
    loads = [node for node in topological(definition.value) if node.step == "load"]
    read = sum(
        node.dtype.bits * number_of_elements(definition.shape) // _repeats(node.payload[2], definition.shape)
        for node in loads
    )
    return read * 2 <= number_of_elements(definition.shape) * definition.value.dtype.bits


def _sizes(kernel: Contraction, hidden: str) -> Shape:
    """Return the sizes of a contraction's dimensions, those of one side's rows left out as ones."""
    return tuple(1 if name == hidden else size for name in ("batch", "m", "n", "k") for size in getattr(kernel, name))


def _worthwhile(definition: Definition, node: Expression, kernel: Kernel) -> bool:
    value = definition.value
    # One load of what is in memory anyway, instead of all that it is made of; of a mask, which takes less memory than that, even
    # instead of one load, unless one kernel makes both.
    mask = value.dtype.category == 0 and not isinstance(kernel, Pointwise)
    if definition.settled and (definition.shared or mask) and _loads_whole(definition) > (not mask):
        return False
    if value.size <= 6:
        return True
    repeats = _repeats(node.payload[2], tuple(size for group in groups(kernel) for size in group))
    if not definition.shared and repeats == 1:
        return value.size <= 400
    # Recomputing beats a round trip through memory while it stays small.
    # (Two readings: the parts of complex numbers, which a kernel that interleaves them asks for alternately.)
    return value.size <= 24 and definition.loads() <= (4 if repeats == 2 else 3) and repeats <= 4096


def _pays_in_attention(definition: Definition, node: Expression, kernel: Attention) -> bool:
    """Return whether an attention should compute what it loads: data that is only moved or converted, or what is short of a mask."""
    if node not in kernel.read_often():
        return definition.value.size <= 24 and definition.loads() <= 3
    nodes = topological(definition.value)
    return definition.loads() > 0 and not any(each.arguments and each.step != "cast" for each in nodes)


#: by form, whether to compute what a kernel loads
_PAYS: dict[type[Kernel], Any] = {Contraction: prologue_pays, Attention: _pays_in_attention}


def _repeats(strides: Shape, sizes: Shape) -> int:
    """Return how often each element is read because of broadcasting."""
    count = 1
    for stride, size in zip(strides, sizes, strict=False):
        if stride == 0:
            count *= size
    return count
