"""Searches whose results depend on data, through NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def nonzero(flags: Array) -> tuple[Array]:
    """Return the positions of flags that hold, in order."""
    return (np.flatnonzero(flags),)


def order_statistic(values: Array, number: int, first_nan: bool) -> tuple[Array]:
    """Return in each row the position of the element that has a number in stable order; NaN is the greatest.

    ``first_nan``: where there is NaN in a row, that of the first one.
    """
    found = np.partition(values, number, axis=-1)[..., number, None]
    asked: Array | int = number
    is_it, smaller = values == found, values < found
    if values.dtype.kind == "f":
        missing = np.isnan(np.maximum.reduce(values, axis=-1, keepdims=True))
        if missing.any():
            lacks = np.isnan(values)
            sought = missing if first_nan else np.isnan(found)
            is_it, smaller = np.where(sought, lacks, is_it), np.where(sought, ~lacks, smaller)
            if first_nan:
                asked = np.where(missing, np.count_nonzero(smaller, axis=-1, keepdims=True), number)
    # How many of its equals come before it.
    before = asked - np.count_nonzero(smaller, axis=-1, keepdims=True)
    several = np.flatnonzero(before)
    if several.size:
        rows = is_it.reshape(-1, is_it.shape[-1])
        rows[several] &= np.cumsum(rows[several], axis=-1) == before.reshape(-1, 1)[several] + 1
        is_it = rows.reshape(is_it.shape)
    return (is_it.argmax(-1),)


def unique(values: Array, consecutive: bool, inverse: bool, counts: bool) -> tuple[Array, Array, Array]:
    """Return the first of each run of equal numbers, in order unless only neighbours are compared; in which run each number of
    theirs is, and how many each run has: nothing where these are not asked for.
    """
    order = None
    if not consecutive and inverse:
        order = values.argsort(kind="stable")
        values = values[order]
    elif not consecutive:
        # The two zeros are equal: the first one is shown.
        values = np.sort(values, kind="stable")
    fresh = np.empty(len(values), np.bool_)
    fresh[:1] = True
    np.not_equal(values[1:], values[:-1], fresh[1:])
    starts = np.flatnonzero(fresh)
    back = number = np.cumsum(fresh) - 1 if inverse else _NOTHING
    if inverse and order is not None:
        back = np.empty_like(number)
        back[order] = number
    return values[starts], back, np.diff(starts, append=len(values)) if counts else _NOTHING


def bincount(values: Array, minlength: int) -> tuple[Array]:
    """Return how often each number occurs.

    Raises:
        RuntimeError: there are negative ones.
    """
    if values.min() < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    return (np.bincount(values, minlength=minlength),)


def histogram(values: Array, bins: int, low: float, high: float) -> tuple[Array]:
    """Return how many numbers lie in each of equal bins between two ends, of which both count."""
    inside = values[(values >= low) & (values <= high)]
    places = np.minimum((inside - low) * bins / (high - low), bins - 1)
    return (np.bincount(places.astype(np.intp), minlength=bins),)


_NOTHING = np.empty(0, np.int64)
ALGORITHMS = {
    "bincount": bincount, "histogram": histogram, "nonzero": nonzero, "order_statistic": order_statistic, "unique": unique,
}  # fmt: skip
