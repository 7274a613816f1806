"""Copies of arrays whose rows lie together: a short row moves as one element, for which NumPy takes less than half the time."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

Array = Any

#: bytes of the longest row that is one element: longer ones are as quick element by element
LONGEST_ROW = 1 << 9
#: rows from which on it pays to look at them as elements
FEWEST_ROWS = 64


def has_short_rows(shape: tuple[int, ...], itemsize: int) -> bool:
    """Return whether arrays of a shape have many short rows, which move as elements where they lie together."""
    return len(shape) > 1 and itemsize < shape[-1] * itemsize <= LONGEST_ROW and prod(shape[:-1]) >= FEWEST_ROWS


def move(target: Array, source: Array) -> None:
    """Write an array into another one of its shape."""
    size = source.itemsize
    if (
        source.dtype == target.dtype
        and has_short_rows(source.shape, size)
        and source.strides[-1] == target.strides[-1] == size
    ):
        kind = _row_of(source.shape[-1] * size)
        target, source = target.view(kind), source.view(kind)
    target[...] = source


def together(source: Array) -> Array:
    """Return a copy whose elements lie one after another."""
    found = np.empty(source.shape, source.dtype)
    move(found, source)
    return found


@lru_cache(maxsize=LONGEST_ROW)
def _row_of(nbytes: int) -> np.dtype:
    return np.dtype((np.void, nbytes))


__all__ = ["has_short_rows", "move", "together"]
