"""Searches whose results depend on data, through NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def nonzero(flags: Array) -> tuple[Array]:
    """Return the positions of flags that hold, in order."""
    return (np.flatnonzero(flags),)


def order_statistic(values: Array, number: int, first_nan: bool) -> tuple[Array]:
    """Return in each row the position of an element with ``number`` smaller ones before it in order; NaN is the greatest.

    ``first_nan``: where there is NaN in a row, that of the first one.
    """
    found = np.partition(values, number, axis=-1)[..., number, None]
    is_it = values == found
    if values.dtype.kind == "f":
        most = np.maximum.reduce(values, axis=-1, keepdims=True)
        missing = np.isnan(most)
        if missing.any():
            is_it |= np.isnan(values) & (missing if first_nan else np.isnan(found))
            if first_nan:
                is_it &= np.isnan(values) | ~missing
    return (is_it.argmax(-1),)


ALGORITHMS = {"nonzero": nonzero, "order_statistic": order_statistic}
