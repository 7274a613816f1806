"""Sides of contractions that are read at computed places, such as a convolution's windows, split by what changes with what.

A place is mostly a sum: of what belongs to a side's row and of what belongs to the depth. Sums are sorted so that each part is
one expression, computed once for a row, or for a depth, however many elements are read; of an element there remain an addition
and tests. Places that are not in use are not kept inside of their dimension each by itself: the index is chosen at the end.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import lru_cache, reduce
from typing import NamedTuple

from webgpu_torch_core.ir.dtypes import int32, uint32
from webgpu_torch_core.ir.expression import Expression, binary, cast, constant, make, rewrite, select, topological
from webgpu_torch_core.ir.kernels import Contraction
from webgpu_torch_core.ir.layouts import number_of_elements

#: channels of one place of a window that are neighbours along k, and the most places of a window
CHANNELS, _MOST_PLACES = 8, 128


class Split(NamedTuple):
    """A side's value, and its largest parts that depend on the batch and the side's row only, or on the depth only."""

    value: Expression
    rows: tuple[Expression, ...]
    depths: tuple[Expression, ...]


@lru_cache(256)
def split_value(value: Expression, rows: frozenset[int], depths: frozenset[int]) -> Split:
    """Return a side's value, split by the dimensions of batch and row, and those of the depth."""
    changed = sorted_sums(value, rows, depths)
    found: dict[frozenset[int], list[Expression]] = {rows: [], depths: []}
    pending, seen = [changed], set[Expression]()
    while pending:
        node = pending.pop()
        if node in seen or node.step == "constant":
            continue
        seen.add(node)
        used = _dimensions(node)
        part = next((each for each in (rows, depths) if used <= each), None)
        if part is None:
            pending += node.arguments
        else:
            found[part].append(node)
    return Split(changed, tuple(found[rows]), tuple(found[depths]))


def sorted_sums(
    value: Expression, rows: frozenset[int] = frozenset(), depths: frozenset[int] = frozenset()
) -> Expression:
    """Return a value whose places are sums in one order: of what belongs to the rows, to the depths, and to both."""

    def sorted_sum(node: Expression, arguments: tuple[Expression, ...]) -> Expression | None:
        changed = make(node.step, arguments, node.payload, node.dtype)
        if changed.step == "select":
            condition, yes, no = arguments
            return _chosen(condition, yes, no, (rows, depths))
        return _sorted(changed, rows, depths) if changed.dtype is int32 and changed.step in _ADDITIVE else None

    return rewrite(value, sorted_sum)


_ADDITIVE = ("add", "subtract", "multiply")


@lru_cache(64)
def channels_inside(kernel: Contraction) -> Contraction:
    """Return a contraction over windows with eight channels of one place, then those of the next one along k; any other as it is.

    As it is recorded, all places of one channel come first, so that each element has a place of its own to be found and tested.
    """
    groups = (kernel.left, 0, kernel.m), (kernel.right, len(kernel.m), kernel.n)
    computed = [each for each in groups if any(node.step in ("load_at", "coordinate") for node in topological(each[0]))]
    if len(computed) != 1 or not computed[0][2] or computed[0][2][-1] < CHANNELS:
        return kernel
    value, first = computed[0][0], len(kernel.batch + kernel.m + kernel.n)
    tested = [_dimensions(node.arguments[0]) for node in topological(value) if node.step == "select"]
    untested = [each for each in range(len(kernel.k)) if not any(first + each in some for some in tested)]
    channel = next((each for each in untested if kernel.k[each] % CHANNELS == 0), None)
    others = [each for each in range(len(kernel.k)) if each != channel]
    places = tuple([kernel.k[each] for each in others])
    if channel is None or number_of_elements(places) > _MOST_PLACES:
        return kernel
    old = (first + channel, CHANNELS), *((first + each, 1) for each in others), (first + channel, 1)
    terms = [*((each, 1) for each in range(first)), *old]
    sizes = (kernel.k[channel] // CHANNELS, *places, CHANNELS)
    return kernel.reindexed((kernel.batch, kernel.m, kernel.n, sizes), tuple([(each,) for each in terms]))


def values_apart(
    value: Expression, rows: frozenset[int], depths: frozenset[int], apart: int, count: int
) -> list[Expression]:
    """Return a side's values at each place along a dimension; what else they have in common is the same expression in all."""
    found = sorted_sums(value, rows, depths - {apart})

    def at(place: int) -> Expression:
        def replace(node: Expression, _: tuple[Expression, ...]) -> Expression | None:
            return constant(place, int32) if node.payload == apart else None

        return rewrite(found, replace, ("coordinate",))

    return [at(place) for place in range(count)]


@lru_cache(4096)
def _dimensions(node: Expression) -> frozenset[int]:
    """Return the dimensions whose coordinates an expression depends on."""
    return frozenset(each.payload for each in topological(node) if each.step == "coordinate")


def _terms(node: Expression, factor: int) -> Iterator[tuple[int, Expression | None]]:
    """Yield the summands of an integer expression with their factors; None stands for one."""
    if node.step == "constant":
        yield factor * node.payload, None
    elif node.step in ("add", "subtract"):
        yield from _terms(node.arguments[0], factor)
        yield from _terms(node.arguments[1], factor if node.step == "add" else -factor)
    elif node.step == "multiply" and node.arguments[1].step == "constant":
        yield from _terms(node.arguments[0], factor * node.arguments[1].payload)
    elif node.step == "multiply" and node.arguments[0].step == "constant":
        yield from _terms(node.arguments[1], factor * node.arguments[0].payload)
    else:
        yield factor, node


def _sorted(node: Expression, rows: frozenset[int], depths: frozenset[int]) -> Expression:
    """Return a sum with what depends on rows first, then what depends on the depth, then what depends on both."""
    factors: dict[Expression | None, int] = {}
    for factor, term in _terms(node, 1):
        factors[term] = factors.get(term, 0) + factor
    parts: list[list[Expression]] = [[], [], []]
    for term, factor in factors.items():
        if factor and term is not None:
            used = _dimensions(term)
            place = 0 if used <= rows else 1 if used <= depths else 2
            parts[place].append(term if factor == 1 else term * factor)
    if factors.get(None, 0) or not any(parts):
        parts[0].append(constant(factors.get(None, 0), int32))
    found: Expression | None = None
    for part in parts:
        total: Expression | None = None
        for each in part:
            total = each if total is None else total + each
        if total is not None:
            found = total if found is None else found + total
    return node if found is None else found


def _chosen(
    condition: Expression, yes: Expression, no: Expression, parts: tuple[frozenset[int], frozenset[int]]
) -> Expression:
    """Return a choice whose tests of places are one comparison each, and whose first side reads inside of its operand."""
    tests = list(_conjuncts(condition))
    sizes: dict[Expression, int] = {}
    for place, size, low, high in list(_ranges(tests)):
        sizes[place] = size
        tests.remove(low)
        tests[tests.index(high)] = binary("less", cast(place, uint32), constant(size, uint32))
    if not sizes:
        return select(condition, yes, no)
    inside = reduce(operator.and_, tests)

    def unbounded(node: Expression, arguments: tuple[Expression, ...]) -> Expression | None:
        if node.step == "minimum" and arguments[0].step == "maximum":
            place, least = arguments[0].arguments
            if sizes.get(place, 0) - 1 == arguments[1].payload and least is constant(0, int32):
                return place
        if node.step == "load_at":
            index = select(inside, _sorted(arguments[0], *parts), constant(0, int32))
            return make("load_at", (index,), node.payload, node.dtype)
        return None

    return select(inside, rewrite(yes, unbounded), no)


def _conjuncts(condition: Expression) -> Iterator[Expression]:
    """Yield the tests that hold where a condition does."""
    if condition.step == "bitwise_and":
        for each in condition.arguments:
            yield from _conjuncts(each)
    else:
        yield condition


def _ranges(tests: list[Expression]) -> Iterator[tuple[Expression, int, Expression, Expression]]:
    """Yield each place that is tested to lie from zero up to a size: the place, the size and both tests."""
    zero = constant(0, int32)
    lows = {each.arguments[1]: each for each in tests if each.step == "less_equal" and each.arguments[0] is zero}
    for high in tests:
        if high.step == "less" and high.arguments[0] in lows and high.arguments[1].step == "constant":
            place = high.arguments[0]
            if place.dtype is int32:
                yield place, high.arguments[1].payload, lows.pop(place), high
