"""Scatters that become stores of the kernel whose results they write: at computed places, of some of its coordinates.

What writes keys and values into a cache is small, and waits for the kernel that computes them: a kernel of its own takes longer to
start than to run.
"""

from __future__ import annotations

from typing import NamedTuple

from ..ir.expression import Expression, binary, cast, constant, coordinate, make, topological
from ..ir.kernels import Pointwise, Scatter, Store, roots_of
from ..ir.layouts import Shape
from ..ir.reindexing import reindex


class Index(NamedTuple):
    """An index as ``offset + sum(stride * coordinate) + place``; a place of None is zero."""

    offset: int
    strides: Shape
    place: Expression | None


def separated(index: Expression, rank: int) -> Index:
    """Return an index over ``rank`` dimensions with the multiples of coordinates that it adds taken out of it."""
    found: dict[Expression, Index] = {}
    none = (0,) * rank
    for node in topological(index):
        parts = [found[each] for each in node.arguments]
        if node.step == "constant" and node.dtype.category == 1:
            found[node] = Index(node.payload, none, None)
        elif node.step == "coordinate":
            found[node] = Index(0, tuple([int(each == node.payload) for each in range(rank)]), None)
        else:
            found[node] = _combined(node, parts) or Index(0, none, node)
    return found[index]


def _combined(node: Expression, parts: list[Index]) -> Index | None:
    if node.dtype.category != 1:
        return None
    if node.step == "add":
        (first, second), strides = parts, [sum(each) for each in zip(*[each.strides for each in parts], strict=True)]
        places = [each.place for each in parts if each.place is not None]
        place = binary("add", *places) if len(places) == 2 else next(iter(places), None)
        return Index(first.offset + second.offset, tuple(strides), place)
    if node.step == "multiply":
        for factor, each in zip(parts, reversed(parts), strict=True):
            if factor.place is None and not any(factor.strides):
                place = None if each.place is None else binary("multiply", each.place, factor.offset)
                return Index(each.offset * factor.offset, tuple([n * factor.offset for n in each.strides]), place)
    if node.step == "cast" and node.arguments[0].dtype.category == 1:
        place = parts[0].place
        return parts[0]._replace(place=None if place is None else cast(place, node.dtype))
    if node.step == "checked":
        place = constant(0, node.dtype) if parts[0].place is None else parts[0].place
        return parts[0]._replace(place=make("checked", (place, *node.arguments[1:]), node.payload, node.dtype))
    return None


def as_stores(kernel: Scatter) -> Pointwise:
    """Return the pointwise kernel that stores what a scatter without a monoid writes."""
    shape = kernel.lanes + kernel.entries
    offset, strides, place = separated(kernel.index, len(shape))
    # Entries of a lane may meet even where nothing else is added.
    place = constant(0, kernel.index.dtype) if place is None else place
    store = Store(0, offset, strides, kernel.value, place)
    return Pointwise(kernel.operands, kernel.outputs, kernel.parameters, kernel.name, shape, (store,))


def widened(kernel: Pointwise, load: Expression, count: int) -> Pointwise | None:
    """Return a kernel over a domain in which a load reads each of ``count`` elements once, whose stores are those of the elements
    that it read before; None where there is no such domain, or where it would read other elements of other operands.
    """
    slot, offset, strides = load.payload
    sizes, starts, above = list(kernel.shape), [0] * len(kernel.shape), count
    for dimension in sorted(range(len(sizes)), key=lambda each: -strides[each]):
        stride = strides[dimension]
        if stride <= 0 or above % stride:
            return None
        starts[dimension], offset = divmod(offset, stride)
        sizes[dimension], above = above // stride, stride
        if starts[dimension] + kernel.shape[dimension] > sizes[dimension]:
            return None
    if above != 1 or offset or tuple(sizes) == kernel.shape:
        return kernel if above == 1 and not offset else None
    wider = {each for each, size in enumerate(kernel.shape) if sizes[each] != size}
    if _reads_elsewhere(kernel, slot, wider):
        return None
    terms, back = tuple([((each, 1),) for each in range(len(sizes))]), [-each for each in starts]
    inside: Expression | None = None
    for each in sorted(wider):
        for holds in _within(each, starts[each], kernel.shape[each], sizes[each]):
            inside = holds if inside is None else binary("bitwise_and", inside, holds)
    stores = []
    for each in kernel.stores:
        moved = each.mapped(lambda root: reindex(root, terms, back))
        where = inside if moved.where is None or inside is None else binary("bitwise_and", inside, moved.where)
        shift = sum([stride * step for stride, step in zip(each.strides, back, strict=True)])
        stores.append(moved.replace(offset=each.offset + shift).replace(where=where))
    return kernel.replace(shape=tuple(sizes), stores=tuple(stores))


def _reads_elsewhere(kernel: Pointwise, slot: int, wider: set[int]) -> bool:
    """Return whether what a kernel reads from other slots, or reports, follows dimensions that become wider."""
    follows: set[Expression] = set()
    for node in topological(*roots_of(kernel.stores)):
        if node.step == "load":
            moves = any(node.payload[2][each] for each in wider)
            if moves and node.payload[0] != slot:
                return True
        else:
            moves = node.step == "coordinate" and node.payload in wider
        if moves or not follows.isdisjoint(node.arguments):
            if node.step in ("load_at", "checked"):
                return True
            follows.add(node)
    return False


def _within(dimension: int, start: int, count: int, size: int) -> list[Expression]:
    """Return what holds for ``count`` of a dimension's coordinates, from a first one on."""
    at = coordinate(dimension)
    found = [binary("less_equal", constant(start, at.dtype), at)] if start else []
    return found + ([binary("less", at, start + count)] if start + count < size else [])
