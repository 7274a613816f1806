"""Replacing a load of a pointwise value by the expression that computes it.

The consumer reads a flat value at ``offset + sum(stride * coordinate)``; the producer defined it over a shape in row-major
order. Where every consumer dimension moves along exactly one producer dimension (after splitting some), the producer's
coordinates are affine in the consumer's and its expression can be re-indexed and put in place of the load.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from ..expression import Expression, rewrite, topological
from ..kernels import Contraction, Kernel, Record, Scan, Sort
from ..layouts import Shape, contiguous_strides
from .domain import Terms, groups, reindex, schedule_cache, split_dimensions


class Definition(Record):
    """What a graph slot holds: an expression over a shape, stored contiguously; ``shared`` where several kernels load it."""

    __slots__ = fields = ("shape", "value", "shared")
    shape: Shape
    value: Expression
    shared: bool

    def loads(self) -> int:
        """Return how many loads the expression makes."""
        return sum(1 for node in topological(self.value) if node.step in ("load", "load_at"))


class NeedsSplit(Exception):
    """The consumer's dimension must be split into these factors first."""

    def __init__(self, dimension: int, factors: Shape) -> None:
        self.dimension = dimension
        self.factors = factors


def decompose(offset: int, strides: Shape, sizes: Shape, shape: Shape) -> tuple[Terms, list[int]] | None:
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
    return tuple(terms), constants


class Inliner:
    """Expands the loads of one graph's kernels in recording order."""

    def __init__(self, uses: dict[int, int], maximum_bindings: int, long: dict[int, int]) -> None:
        self.definitions: dict[int, Definition] = {}
        self.uses = uses
        self.maximum_bindings = maximum_bindings
        self.long = tuple(long.items())

    def expand(self, kernel: Any) -> Any:
        """Return the kernel with every load inlined that should be."""
        known = tuple([(slot, self.definitions[slot]) for slot in bound_slots(kernel) if slot in self.definitions])
        return _expanded(kernel, known, self.maximum_bindings, self.long) if known else kernel

    def define(self, slot: int, shape: Shape, value: Expression) -> None:
        """Make a slot's expression available to later kernels."""
        self.definitions[slot] = Definition(shape, value, self.uses.get(slot, 0) > 1)


@schedule_cache
def _expanded(
    kernel: Any, known: tuple[tuple[int, Definition], ...], maximum_bindings: int, long: tuple[tuple[int, int], ...]
) -> Any:
    """Return the kernel with loads of slots inlined whose definitions are known."""
    definitions = dict(known)
    for _ in range(64):
        try:
            return _inlined(kernel, definitions, maximum_bindings, dict(long))
        except NeedsSplit as split:
            kernel = split_dimensions(kernel, {split.dimension: split.factors})
    return kernel


def bindings(slots: AbstractSet[int], long: dict[int, int]) -> int:
    """Return how many bindings the buffers of slots take; ``long`` says how many more than one some do."""
    return len(slots) + (sum(long.get(slot, 0) for slot in slots) if long else 0)


def _inlined(kernel: Kernel, definitions: dict[int, Definition], maximum_bindings: int, long: dict[int, int]) -> Any:
    sizes = tuple(size for group in groups(kernel) for size in group)
    slots = set(bound_slots(kernel))
    heavy = isinstance(kernel, Contraction)

    def replace(node: Expression, arguments: tuple[Expression, ...]) -> Expression | None:
        del arguments
        if node.step != "load":
            return None
        slot, offset, strides = node.payload
        definition = definitions.get(slot)
        if definition is None or not _worthwhile(definition, heavy, node, sizes):
            return None
        added = (slots | _loaded(definition.value)) - {slot}
        if bindings(added, long) + 2 > maximum_bindings:
            return None
        try:
            found = decompose(offset, strides, sizes, definition.shape)
        except NeedsSplit:
            # The last dimension of a scan or sort is one line of elements; it cannot be split.
            if isinstance(kernel, Scan | Sort):
                return None
            raise
        if found is None:
            return None
        slots.update(added)
        return reindex(definition.value, *found)

    return kernel.map_expressions(lambda each: rewrite(each, replace))


def _worthwhile(definition: Definition, heavy: bool, node: Expression, sizes: Shape) -> bool:
    value = definition.value
    if heavy:
        # A contraction loads each element many times: inline only what moves or converts data.
        return value.step == "load" or (value.step == "cast" and value.arguments[0].step == "load")
    if value.size <= 6:
        return True
    repeats = _repeats(node.payload[2], sizes)
    if not definition.shared and repeats == 1:
        return value.size <= 400
    # Recomputing beats a round trip through memory while it stays small.
    # (Two readings: the parts of complex numbers, which a kernel that interleaves them asks for alternately.)
    return value.size <= 24 and definition.loads() <= (4 if repeats == 2 else 3) and repeats <= 4096


def _repeats(strides: Shape, sizes: Shape) -> int:
    """Return how often each element is read because of broadcasting."""
    count = 1
    for stride, size in zip(strides, sizes, strict=False):
        if stride == 0:
            count *= size
    return count


@schedule_cache
def bound_slots(kernel: Kernel) -> frozenset[int]:
    """Return the graph slots a kernel loads."""
    return frozenset().union(*map(_loaded, kernel.expressions()))


@schedule_cache
def _loaded(root: Expression) -> frozenset[int]:
    """Return the graph slots an expression loads."""
    nodes = topological(root)
    strided = [node.payload[0] for node in nodes if node.step == "load"]
    return frozenset(strided + [node.payload for node in nodes if node.step == "load_at"])
