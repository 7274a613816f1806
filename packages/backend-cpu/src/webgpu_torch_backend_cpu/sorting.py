"""Orders of elements: stable, with NaN the greatest, of all or of the first."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .choices import MANY

Array = Any


def first_sorted(keys: Array, limit: int, descending: bool) -> Array:
    """Return the positions of the first elements in sorted order, of equal ones the first first; NaN is the greatest.

    The extremes of groups of elements give a bound that as many elements reach as are wanted, and few others: only they are sorted.
    """
    length = keys.shape[-1]
    groups = max(LEAST_GROUPS, 4 * limit)
    size = length // groups
    if size < 4:
        return sorted_order(keys, descending, limit)
    rows = keys.reshape(-1, length)
    extreme = (np.maximum if descending else np.minimum).reduce
    extremes = extreme(rows[:, : size * groups].reshape(-1, size, groups), axis=1)
    place = groups - limit if descending else limit - 1
    bound = np.partition(extremes, place, axis=-1)[:, place, None]
    # NaN is beyond every bound, and nothing beyond NaN.
    reached = rows < bound if descending else rows > bound
    np.logical_not(reached, out=reached)
    places = np.flatnonzero(reached)
    starts = np.searchsorted(places, np.arange(len(rows) + 1) * length)
    counts = np.diff(starts)
    # Rows of many equal elements are sorted apart.
    crowded = counts > 4 * groups
    order = np.empty((len(rows), limit), np.int64)
    if crowded.any():
        order[crowded] = sorted_order(rows[crowded], descending, limit)
        places = places[np.repeat(~crowded, counts)]
        rows, counts = rows[~crowded], counts[~crowded]
    if counts.size:
        number = np.repeat(np.arange(len(counts)), counts)
        order[~crowded] = _order_of(rows, number, places % length, counts, limit, descending)
    return order.reshape((*keys.shape[:-1], limit))


#: groups of elements at least whose extremes bound the first in sorted order
LEAST_GROUPS = 64


def _order_of(rows: Array, number: Array, position: Array, counts: Array, limit: int, descending: bool) -> Array:
    """Return the positions of the first elements of rows in sorted order, which are all among those that are given.

    These have the numbers of their rows, in order, and positions there; ``counts`` says how many there are in each.
    """
    column = np.arange(len(number)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = len(rows), int(counts.max())
    positions = np.zeros(shape, np.int64)
    positions[number, column] = position
    # What fills up the rows comes last, behind its equals.
    kind = rows.dtype
    if kind.kind == "f":
        last = -np.inf if descending else np.nan
    else:
        last = not descending if kind.kind == "b" else (np.iinfo(kind).min if descending else np.iinfo(kind).max)
    values = np.full(shape, last, kind)
    values[number, column] = rows[number, position]
    return np.take_along_axis(positions, sorted_order(values, descending)[:, :limit], -1)


def sorted_order(keys: Array, descending: bool, limit: int | None = None) -> Array:
    """Return the positions of elements in stable order, or of the first ``limit``; NaN is the greatest.

    Keys of up to 32 bits are sorted as integers with their positions in the low half, for which NumPy has vector instructions and
    where no two are equal; others by merging.
    """
    length = keys.shape[-1]
    if keys.dtype.kind in "iu" and keys.size >= MANY:
        found = _digit_order(keys, descending)
        if found is not None:
            return found[..., :limit]
    if keys.dtype.itemsize <= 4 and 0 < length < 1 << 32:
        packed = _with_positions(keys, descending)
        if limit and limit < length:
            packed = np.partition(packed, limit - 1, axis=-1)[..., :limit].copy()
        packed.sort(axis=-1)
        return packed.view(np.uint32)[..., LOW_HALF::2].astype(np.int64)[..., :limit]
    if not descending:
        return np.argsort(keys, axis=-1, kind="stable")[..., :limit]
    return (length - 1 - np.argsort(keys[..., ::-1], axis=-1, kind="stable"))[..., ::-1][..., :limit]


def _digit_order(keys: Array, descending: bool) -> Array | None:
    """Return the positions of integers in stable order by their lower and their upper 16 bits, None where that takes longer.

    NumPy sorts numbers of 16 bits by their digits, whose time does not grow with how many there are (H. Hollerith, 1889).
    """
    low, high = int(keys.min()), int(keys.max())
    if high - low >= (1 << 32 if keys.shape[-1] > LONG_LINE else 1 << 16):
        return None
    # What does not fit wraps, and the difference is right.
    kind = f"u{keys.dtype.itemsize}"
    first = keys.dtype.type(high if descending else low)
    digits = (first - keys if descending else keys - first).view(kind)
    order = np.argsort(digits.astype(np.uint16), axis=-1, kind="stable")
    if high - low >= 1 << 16:
        upper = np.take_along_axis((digits >> digits.dtype.type(16)).astype(np.uint16), order, -1)
        order = np.take_along_axis(order, np.argsort(upper, axis=-1, kind="stable"), -1)
    return order


#: elements of rows from which on integers are sorted by their lower and their upper bits: of fewer the whole ones stay in cache
LONG_LINE = 1 << 16


LOW_HALF = 0 if sys.byteorder == "little" else 1


def _with_positions(keys: Array, descending: bool) -> Array:
    """Return integers of 64 bits in the order of keys: the keys' high, their positions low."""
    if keys.dtype.kind == "f":
        # Adding 0 makes -0 and 0 one number. The bits of negative numbers count down.
        bits = (keys.astype(np.float32, copy=False) + np.float32(0.0)).view(np.uint32)
        ordered = bits ^ ((bits.view(np.int32) >> 31).view(np.uint32) | np.uint32(1 << 31))
        ordered[np.isnan(keys)] = 0xFFFFFFFF
    elif keys.dtype.kind == "i":
        ordered = keys.astype(np.int32).view(np.uint32) ^ np.uint32(1 << 31)
    else:
        ordered = keys.astype(np.uint32)
    halves = np.empty((*keys.shape, 2), np.uint32)
    halves[..., 1 - LOW_HALF] = ~ordered if descending else ordered
    halves[..., LOW_HALF] = np.arange(keys.shape[-1], dtype=np.uint32)
    return halves.view(np.uint64)[..., 0]
