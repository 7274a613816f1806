"""Re-indexing: rewriting expressions when the domain they range over is split, permuted or replaced.

A change of domain is described by ``terms``: for every new dimension the (old dimension, multiplier) pairs it
contributes to, so that ``old[i] = constants[i] + sum(multiplier * new[j])``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from .dtypes import bool_, int32
from .expression import Expression, constant, coordinate, make, rewrite_all
from .layouts import Shape

#: steps that a change of domain changes
_OF_COORDINATES = frozenset(("load", "coordinate", "equal", "select"))

Terms = tuple[tuple[tuple[int, int], ...], ...]


def permutation(order: Iterable[int]) -> Terms:
    """Return the terms by which a domain's dimensions are in another order."""
    return tuple([((place, 1),) for place in order])


@lru_cache(maxsize=8192)
def reindex_strides(strides: Shape, terms: Terms) -> Shape:
    """Return strides over the new dimensions."""
    count = len(strides)
    return tuple([sum([strides[old] * multiplier for old, multiplier in pairs if old < count]) for pairs in terms])


def reindex(expression: Expression, terms: Terms, constants: Sequence[int] | None = None) -> Expression:
    """Return an expression over the new domain."""
    return reindex_all((expression,), terms, constants)[0]


def reindex_all(
    expressions: tuple[Expression, ...], terms: Terms, constants: Sequence[int] | None = None
) -> tuple[Expression, ...]:
    """Return expressions over the new domain; what they share is looked at once."""

    def replace(node: Expression, arguments: tuple[Expression, ...]) -> Expression | None:
        step = node.step
        if step == "load":
            slot, offset, strides = node.payload
            if constants is not None:
                offset += sum(stride * shift for stride, shift in zip(strides, constants, strict=False))
            return make("load", (), (slot, offset, reindex_strides(strides, terms)), node.dtype)
        if step == "coordinate":
            return _coordinate(node.payload, terms, constants[node.payload] if constants is not None else 0)
        if step == "equal" and all(each.step == "constant" for each in arguments):
            # A coordinate that became a constant decides a selection: one part of interleaved numbers.
            return constant(arguments[0].payload == arguments[1].payload, bool_)
        if step == "select" and arguments[0].step == "constant":
            return arguments[1] if arguments[0].payload else arguments[2]
        return None

    return rewrite_all(expressions, replace, _OF_COORDINATES)


def _coordinate(old: int, terms: Terms, shift: int) -> Expression:
    result: Expression | None = None
    for new, pairs in enumerate(terms):
        for dimension, multiplier in pairs:
            if dimension == old:
                part: Any = coordinate(new)
                if multiplier != 1:
                    part = part * multiplier
                result = part if result is None else result + part
    if result is None:
        return constant(shift, int32)
    return result + shift if shift else result
