"""Rows of numbers taken into places of an array, several at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .sorting import sorted_order

Array = Any

#: elements of all rows, for each row of the place that has most, below which those of one after another are combined by one call
LEAST_ELEMENTS = 2000
#: rows up to which, and elements of one from which on, they are combined one after another
FEW_ROWS, LONG_ROW = 32, 1 << 12


def rows(how: np.ufunc | None, target: Array, first: Array, values: Array, strides: tuple[int, ...]) -> None:
    """Combine rows with those that start at the elements ``first`` of a target, in their order; None replaces.

    Args:
        values: [rows, ...], whose elements lie ``strides`` elements apart in the target.
    """
    if not values.size:
        return
    sizes = values.shape[1:]
    length, whole = values[0].size, False
    if strides == (1,) and not (first % length).any():
        # Rows of a matrix, which are numbered.
        view, first, whole = target[: target.size // length * length].reshape(-1, length), first // length, True
    else:
        count = target.size - sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        step = target.itemsize
        # A view whose first axis numbers the elements where rows start.
        view = np.ndarray((count, *sizes), target.dtype, target, 0, (step, *(stride * step for stride in strides)))
    if how is None:
        view[first] = values
        return
    if len(first) <= FEW_ROWS or length >= LONG_ROW:
        return _in_turn(how, view, first, values)
    # None: they are in order already.
    order = None if (first[1:] >= first[:-1]).all() else sorted_order(first, False)
    places = first if order is None else first[order]
    new = np.empty(len(places), bool)
    new[0] = True
    np.not_equal(places[1:], places[:-1], out=new[1:])
    starts = np.flatnonzero(new)
    counts = np.diff(starts, append=len(places))
    places, turns = places[starts], int(counts.max())
    if not whole and not _are_apart(places, sizes, strides):
        _in_turn(how, view, first, values)
    elif turns > 1 and values.size < LEAST_ELEMENTS * turns:
        ordered = values if order is None else values.take(order, axis=0)
        view[places] = how(view[places], how.reduceat(ordered, starts, axis=0))
    else:
        # All first rows of places, then all second ones, …: those with most rows come first, so that a turn's places are a slice.
        by = sorted_order(counts, True) if turns > 1 else slice(None)
        places, starts, counts = places[by], starts[by], counts[by]
        found = view[places]
        for turn, have in enumerate(np.searchsorted(-counts, -np.arange(turns)).tolist()):
            here, part = starts[:have] + turn, found[:have]
            how(part, values.take(here if order is None else order[here], axis=0), out=part)
        view[places] = found


def _in_turn(how: np.ufunc, view: Array, first: Array, values: Array) -> None:
    """Combine rows with those of a view one after another."""
    for place, row in zip(first.tolist(), values, strict=True):
        of = view[place, ...]
        how(of, row, out=of)


def _are_apart(places: Array, sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Return whether rows that start at rising places have no element together.

    Places may lie between the elements of rows, as those of columns do: the axes with short strides span less than the gaps between
    places, and all places lie within the shortest of the other strides.
    """
    if len(places) < 2:
        return True
    gap, width = int((places[1:] - places[:-1]).min()), int(places[-1] - places[0])
    span, axes = 1, sorted((stride, size) for size, stride in zip(sizes, strides, strict=True) if size > 1)
    while axes and axes[0][0] < gap:
        stride, size = axes.pop(0)
        span += (size - 1) * stride
    if span > gap:
        return False
    nearest, reach = axes[0][0] if axes else math.inf, 0
    for stride, size in axes:
        if stride - reach < nearest:
            return False
        reach += (size - 1) * stride
    return width + span <= nearest
