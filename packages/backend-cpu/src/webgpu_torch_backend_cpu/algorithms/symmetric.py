"""Factors of symmetric and Hermitian matrices that need not be positive-definite."""

from __future__ import annotations

from typing import Any

import numpy as np

from .linalg import magnitude

Array = Any


def _turned(a: Array, hermitian: bool) -> Array:
    return a.conj().T if hermitian else a.T


def ldl_factor(a: Array, hermitian: bool) -> tuple[Array, Array, Array]:
    """Return packed ``L D L^T`` (or ``L D L^H``) factors, LAPACK's pivots (negative pairs mark 2x2 blocks), and info.

    Diagonal pivoting on the lower triangle (Bunch and Kaufman, 1977), with LAPACK's choices.
    """
    batch, n = a.shape[:-2], a.shape[-1]
    factors, pivots = a.copy(), np.zeros((*batch, n), np.int32)
    info = np.zeros(batch, np.int32)
    hermitian = hermitian and np.iscomplexobj(a)
    for index in np.ndindex(batch):
        info[index] = _bunch_kaufman(factors[index], pivots[index], hermitian)
    return factors, pivots, info


def _bunch_kaufman(a: Array, pivots: Array, hermitian: bool) -> int:
    n, step, info = len(a), 0, 0
    if hermitian:
        np.fill_diagonal(a, np.real(np.diagonal(a)))
    while step < n:
        pivot, size = _chosen(a, step)
        if not a[step:, step].any():
            info = info or step + 1
        other = step + size - 1
        if pivot != other:
            _exchange(a, step, other, pivot, hermitian)
        _eliminate(a, step, size, hermitian)
        pivots[step : step + size] = pivot + 1 if size == 1 else -(pivot + 1)
        step += size
    return info


def _chosen(a: Array, step: int) -> tuple[int, int]:
    """Return the row to bring to the diagonal and whether one or two are eliminated together."""
    alpha = (1 + np.sqrt(17.0)) / 8
    below = magnitude(a[step + 1 :, step])
    column = below.max(initial=0.0)
    # Also where one of them is NaN.
    if not magnitude(a[step, step]) < alpha * column:
        return step, 1
    largest = step + 1 + int(np.argmax(below))
    row = max(magnitude(a[largest, step:largest]).max(), magnitude(a[largest + 1 :, largest]).max(initial=0.0))
    if magnitude(a[step, step]) >= alpha * column * (column / row):
        return step, 1
    return (largest, 1) if magnitude(a[largest, largest]) >= alpha * row else (largest, 2)


def _exchange(a: Array, step: int, other: int, pivot: int, hermitian: bool) -> None:
    """Swap rows and columns ``other`` and ``pivot`` of the lower triangle."""
    a[pivot + 1 :, [other, pivot]] = a[pivot + 1 :, [pivot, other]]
    middle, row = a[other + 1 : pivot, other].copy(), a[pivot, other + 1 : pivot].copy()
    a[other + 1 : pivot, other] = row.conj() if hermitian else row
    a[pivot, other + 1 : pivot] = middle.conj() if hermitian else middle
    if hermitian:
        a[pivot, other] = a[pivot, other].conj()
    a[other, other], a[pivot, pivot] = a[pivot, pivot], a[other, other]
    if other > step:
        a[other, step], a[pivot, step] = a[pivot, step], a[other, step]


def _eliminate(a: Array, step: int, size: int, hermitian: bool) -> None:
    rest, block = slice(step + size, len(a)), slice(step, step + size)
    if size == 1 and a[step, step] == 0:
        return
    columns = a[rest, block] @ np.linalg.inv(_block(a, block, hermitian))
    a[rest, rest] -= np.tril(columns @ _turned(a[rest, block], hermitian))
    a[rest, block] = columns


def _block(a: Array, where: slice, hermitian: bool) -> Array:
    """Return a block of D, of which the lower triangle is stored."""
    lower = np.tril(a[where, where])
    return lower + _turned(np.tril(lower, -1), hermitian)


def ldl_solve(factors: Array, pivots: Array, b: Array, hermitian: bool) -> tuple[Array]:
    """Return solutions from packed ``L D L^T`` (or ``L D L^H``) factors."""
    result = b.copy()
    hermitian = hermitian and np.iscomplexobj(factors)
    for index in np.ndindex(factors.shape[:-2]):
        _solve_one(factors[index], pivots[index], result[index], hermitian)
    return (result,)


def _solve_one(a: Array, pivots: Array, b: Array, hermitian: bool) -> None:
    steps, step = [], 0
    while step < len(a):
        size = 1 if pivots[step] > 0 else 2
        steps.append((slice(step, step + size), step + size - 1, abs(int(pivots[step])) - 1))
        step += size
    for block, last, pivot in steps:
        b[[last, pivot]] = b[[pivot, last]]
        b[last + 1 :] -= a[last + 1 :, block] @ b[block]
    for block, _, _ in steps:
        whole = _block(a, block, hermitian)
        b[block] = b[block] / whole if len(whole) == 1 else np.linalg.solve(whole, b[block])
    for block, last, pivot in reversed(steps):
        b[block] -= _turned(a[last + 1 :, block], hermitian) @ b[last + 1 :]
        b[[last, pivot]] = b[[pivot, last]]


ALGORITHMS = {each.__name__: each for each in (ldl_factor, ldl_solve)}
