"""What NumPy has no function for, by the routines of the library that it calls itself; one matrix of a batch after another."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..openblas import routine

Array = Any

#: by NumPy's letters for types LAPACK's, and one as the C interface takes it: complex numbers by their address
_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
_ONE: dict[str, Any] = {
    "f": ctypes.c_float(1.0),
    "d": ctypes.c_double(1.0),
    "F": (ctypes.c_float * 2)(1.0, 0.0),
    "D": (ctypes.c_double * 2)(1.0, 0.0),
}
#: how the C interface of BLAS numbers its options
_ROWS, _RIGHT, _UPPER, _LOWER, _TURNED, _ANY, _ONES = 101, 142, 121, 122, 112, 131, 132
#: matrices per row of one from which on all of a batch are taken together: so long does it take to call a routine
MANY = 16


def found(name: str, a: Array) -> Callable[..., Any] | None:
    """Return a routine, ``?`` in whose name is a type's letter, for matrices of a batch; None where there is none, or nothing to gain."""
    letter = _LETTERS.get(a.dtype.char)
    if letter is None or not a.size or a.size // (a.shape[-1] * a.shape[-2]) > MANY * a.shape[-1]:
        return None
    return routine(name.replace("?", letter))


def _matrices(*arrays: Array) -> Iterator[tuple[int, ...]]:
    """Yield the addresses of each one's matrices, whose batches lie densely; with them of vectors where there are fewer dimensions."""
    firsts = [each.__array_interface__["data"][0] for each in arrays]
    count = arrays[0].size // (arrays[0].shape[-1] * arrays[0].shape[-2])
    steps = [each.nbytes // count for each in arrays]
    for number in range(count):
        yield tuple([first + step * number for first, step in zip(firsts, steps, strict=True)])


def solve_triangular(a: Array, b: Array, upper: bool, unitriangular: bool) -> Array | None:
    """Return the solutions of triangular systems, which lie in memory by columns; None where there is no routine for that."""
    call = found("cblas_?trsm", a)
    if call is None:
        return None
    # Of rows instead: X^T A^T = B^T.
    turned = b.swapaxes(-1, -2).copy()
    if turned.size:
        count, size = ctypes.c_int64(turned.shape[-2]), ctypes.c_int64(turned.shape[-1])
        options = (_ROWS, _RIGHT, _UPPER if upper else _LOWER, _TURNED, _ONES if unitriangular else _ANY)
        sizes = (count, size, _ONE[a.dtype.char])
        for matrix, right in _matrices(np.ascontiguousarray(a), turned):
            call(*options, *sizes, ctypes.c_void_p(matrix), size, ctypes.c_void_p(right), size)
    return turned.swapaxes(-1, -2)


def lu(a: Array) -> tuple[Array, Array, Array] | None:
    """Return packed factors by columns, pivots (from 1), and per matrix 0 or the first zero on the diagonal (from 1)."""
    call = found("?getrf", a)
    if call is None:
        return None
    batch, (m, n) = a.shape[:-2], a.shape[-2:]
    columns = a.swapaxes(-1, -2).copy()
    pivots, info = np.zeros((*batch, min(m, n)), np.int64), np.zeros(batch, np.int64)
    rows, width = ctypes.c_int64(m), ctypes.c_int64(n)
    sizes = ctypes.byref(rows), ctypes.byref(width)
    for matrix, pivot, bad in _matrices(columns, pivots, info):
        call(*sizes, ctypes.c_void_p(matrix), sizes[0], ctypes.c_void_p(pivot), ctypes.c_void_p(bad))
    return columns.swapaxes(-1, -2), pivots.astype(np.int32), info.astype(np.int32)


__all__ = ["lu", "solve_triangular"]
