"""What NumPy has no function for, by the routines of the library that it calls itself; one matrix of a batch after another."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from ..openblas import routine

Array = np.ndarray

#: by NumPy's letters for types LAPACK's; and of complex ones one, which the C interface takes by its address
_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
_ONE = {"F": (ctypes.c_float * 2)(1.0, 0.0), "D": (ctypes.c_double * 2)(1.0, 0.0)}
#: what the routines take: an address, a size, an option; a number of the type itself, a size by its address
_AT, _SIZE, _OPTION = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
_NUMBER, _SIZE_AT = object(), ctypes.POINTER(ctypes.c_int64)
#: what solves triangular systems and what factors matrices, and what they take
_TRSM, _GETRF = "cblas_{}trsm", "{}getrf"
_TAKEN = {
    _TRSM: (*[_OPTION] * 5, _SIZE, _SIZE, _NUMBER, _AT, _SIZE, _AT, _SIZE),
    _GETRF: (_SIZE_AT, _SIZE_AT, _AT, _SIZE_AT, _AT, _AT),
}
#: how the C interface of BLAS numbers its options
_ROWS, _RIGHT, _UPPER, _LOWER, _TURNED, _ANY, _ONES = 101, 142, 121, 122, 112, 131, 132
#: matrices per row of one from which on all of a batch are taken together: so long does it take to call a routine
MANY = 16


def _gains(a: Array) -> bool:
    """Return whether to call a routine for each matrix of a batch takes no longer than to take all of them a step at a time."""
    return a.size > 0 and a.size <= MANY * a.shape[-1] * a.shape[-1] * a.shape[-2]


@lru_cache
def _routine(name: str, char: str) -> Callable[..., None] | None:
    """Return one of the routines ``_TAKEN`` for a type, by NumPy's letter for it; None where there is none."""
    letter = _LETTERS.get(char)
    found = letter and routine(name.format(letter))
    if not found:
        return None
    one = {"f": ctypes.c_float, "d": ctypes.c_double}.get(char, _AT)
    found.argtypes = [one if each is _NUMBER else each for each in _TAKEN[name]]  # type: ignore[attr-defined]
    return found


def _matrices(count: int, *arrays: Array) -> Iterator[tuple[int, ...]]:
    """Return the addresses of the parts of arrays, which are to be kept, that belong to each of so many matrices."""
    firsts = [each.__array_interface__["data"][0] for each in arrays]
    if count == 1:
        return iter((tuple(firsts),))
    steps = [each.nbytes // count for each in arrays]
    return zip(*[range(first, first + step * count, step) for first, step in zip(firsts, steps, strict=True)])


def solve_triangular(a: Array, b: Array, upper: bool, unitriangular: bool) -> Array | None:
    """Return the solutions of triangular systems, which lie in memory by columns; None where there is no routine for that."""
    char = a.dtype.char
    call = _routine(_TRSM, char) if _gains(a) else None
    if call is None:
        return None
    # Of rows instead: X^T A^T = B^T.
    dense, turned = np.ascontiguousarray(a), b.swapaxes(-1, -2).copy()
    if turned.size:
        *batch, count, size = turned.shape
        options = (_ROWS, _RIGHT, _UPPER if upper else _LOWER, _TURNED, _ONES if unitriangular else _ANY)
        one = _ONE.get(char, 1.0)
        for matrix, right in _matrices(math.prod(batch), dense, turned):
            call(*options, count, size, one, matrix, size, right, size)
    return turned.swapaxes(-1, -2)


def lu(a: Array) -> tuple[Array, Array, Array] | None:
    """Return packed factors by columns, pivots (from 1), and per matrix 0 or the first zero on the diagonal (from 1)."""
    call = _routine(_GETRF, a.dtype.char) if _gains(a) else None
    if call is None:
        return None
    *batch, m, n = a.shape
    columns = a.swapaxes(-1, -2).copy()
    pivots, info = np.zeros((*batch, min(m, n)), np.int64), np.zeros(batch, np.int64)
    rows, width = _SIZE(m), _SIZE(n)
    for matrix, pivot, bad in _matrices(math.prod(batch), columns, pivots, info):
        call(rows, width, matrix, rows, pivot, bad)
    return columns.swapaxes(-1, -2), pivots.astype(np.int32), info.astype(np.int32)


__all__ = ["lu", "solve_triangular"]
