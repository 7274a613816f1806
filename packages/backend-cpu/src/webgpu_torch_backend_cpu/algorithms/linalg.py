"""Linear algebra by LAPACK, through NumPy; batches are leading dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def cholesky(a: Array) -> tuple[Array, Array]:
    """Return lower factors, and per matrix 0 or the order of the minor that is not positive-definite."""
    batch, n = a.shape[:-2], a.shape[-1]
    factors, info = np.zeros_like(a), np.zeros(batch, np.int32)
    for index in np.ndindex(batch):
        lower = np.tril(a[index])
        whole = lower + np.conj(np.tril(lower, -1)).T
        try:
            factors[index] = np.linalg.cholesky(whole) if n else whole
        except np.linalg.LinAlgError:
            info[index] = _first_bad_minor(whole)
    return factors, info


def _first_bad_minor(a: Array) -> int:
    for order in range(1, a.shape[0] + 1):
        try:
            np.linalg.cholesky(a[:order, :order])
        except np.linalg.LinAlgError:
            return order
    return a.shape[0]


def _size(a: Array) -> Array:
    """Return how large LAPACK takes elements for when it chooses pivots: |real| + |imaginary|."""
    return np.abs(a.real) + np.abs(a.imag) if np.iscomplexobj(a) else np.abs(a)


def lu(a: Array) -> tuple[Array, Array, Array]:
    """Return packed factors, LAPACK's pivots (from 1), and per matrix 0 or the first zero diagonal element (from 1).

    Gaussian elimination with partial pivoting (Golub and Van Loan, Matrix Computations, algorithm 3.4.1).
    """
    batch, (m, n) = a.shape[:-2], a.shape[-2:]
    steps = min(m, n)
    factors = a.reshape((int(np.prod(batch)), m, n)).copy()
    pivots = np.zeros((len(factors), steps), np.int32)
    info = np.zeros(len(factors), np.int32)
    rows = np.arange(len(factors))
    for step in range(steps):
        if not len(factors):
            break
        chosen = step + np.argmax(_size(factors[:, step:, step]), axis=1)
        pivots[:, step] = chosen + 1
        swapped = factors[rows, chosen].copy()
        factors[rows, chosen] = factors[:, step]
        factors[:, step] = swapped
        pivot = factors[:, step, step]
        info = np.where((info == 0) & (pivot == 0), step + 1, info)
        safe = np.where(pivot == 0, 1, pivot)[:, None]
        factors[:, step + 1 :, step] = np.where(
            pivot[:, None] == 0, factors[:, step + 1 :, step], factors[:, step + 1 :, step] / safe
        )
        factors[:, step + 1 :, step + 1 :] -= factors[:, step + 1 :, step, None] * factors[:, step, None, step + 1 :]
    shape = (*batch, steps)
    return factors.reshape(a.shape), pivots.reshape(shape), info.reshape(batch).astype(np.int32)


def permutation(pivots: Array, rows: int) -> tuple[Array]:
    """Return which row each row comes from after LAPACK's exchanges."""
    flat = pivots.reshape((int(np.prod(pivots.shape[:-1])), pivots.shape[-1]))
    order = np.tile(np.arange(rows, dtype=np.int64), (len(flat), 1))
    for number, exchanges in enumerate(flat):
        for step, other in enumerate(exchanges):
            order[number, [step, other - 1]] = order[number, [other - 1, step]]
    return (order.reshape((*pivots.shape[:-1], rows)),)


def solve(a: Array, b: Array) -> tuple[Array, Array]:
    """Return solutions, and per matrix 0 or the position (from 1) of the zero pivot that makes it singular."""
    batch = a.shape[:-2]
    result, info = np.zeros((*batch, a.shape[-1], b.shape[-1]), b.dtype), np.zeros(batch, np.int32)
    for index in np.ndindex(batch):
        try:
            result[index] = np.linalg.solve(a[index], b[index]) if a.shape[-1] else b[index]
        except np.linalg.LinAlgError:
            info[index] = max(int(lu(a[index])[2]), 1)
    return result, info


def solve_triangular(a: Array, b: Array, upper: bool, unitriangular: bool) -> tuple[Array]:
    """Return solutions by substitution."""
    n = a.shape[-1]
    result = b.copy()
    for step in range(n - 1, -1, -1) if upper else range(n):
        if not unitriangular:
            result[..., step, :] = result[..., step, :] / a[..., step, step, None]
        rest = slice(0, step) if upper else slice(step + 1, n)
        result[..., rest, :] -= a[..., rest, step, None] * result[..., step, None, :]
    return (result,)


def qr(a: Array, complete: bool) -> tuple[Array, Array]:
    """Return orthonormal and upper factors by Householder reflections."""
    return tuple(np.linalg.qr(a, mode="complete" if complete else "reduced"))  # type: ignore[return-value]


def geqrf(a: Array) -> tuple[Array, Array]:
    """Return LAPACK's packed reflectors and their factors."""
    batch, (m, n) = a.shape[:-2], a.shape[-2:]
    packed, factors = np.zeros_like(a), np.zeros((*batch, min(m, n)), a.dtype)
    for index in np.ndindex(batch):
        found, tau = np.linalg.qr(a[index], mode="raw")
        packed[index], factors[index] = np.swapaxes(found, -1, -2), tau
    return packed, factors


def svd(a: Array, full: bool) -> tuple[Array, Array, Array]:
    """Return left vectors, values and right vectors (conjugate transposed)."""
    return tuple(np.linalg.svd(a, full_matrices=full))  # type: ignore[return-value]


def svdvals(a: Array) -> tuple[Array]:
    """Return singular values, largest first."""
    return (np.linalg.svd(a, compute_uv=False),)


def eigh(a: Array, upper: bool) -> tuple[Array, Array]:
    """Return values (ascending) and vectors of Hermitian matrices, of which one triangle is read."""
    return tuple(np.linalg.eigh(a, "U" if upper else "L"))  # type: ignore[return-value]


def eig(a: Array) -> tuple[Array, Array]:
    """Return complex values and vectors."""
    values, vectors = np.linalg.eig(a)
    return values.astype(np.complex64), vectors.astype(np.complex64)


def cofactor(a: Array) -> tuple[Array]:
    """Return cofactor matrices, also of singular matrices, by singular values (Stewart, 1998)."""
    u, s, v = np.linalg.svd(a)
    n = a.shape[-1]
    others = np.stack([np.prod(np.delete(s, each, -1), -1) for each in range(n)], -1) if n else s
    turn = np.linalg.det(u @ v) if n else np.ones(a.shape[:-2], a.dtype)
    return ((turn[..., None, None] * ((np.conj(u) * others[..., None, :]) @ np.conj(v))).astype(a.dtype),)


def slogdet(a: Array) -> tuple[Array, Array]:
    """Return signs and logarithms of absolute determinants."""
    sign, logarithm = np.linalg.slogdet(a)
    return np.asarray(sign, a.dtype), np.asarray(logarithm, np.abs(a[..., :0]).dtype)


def matrix_exp(a: Array) -> tuple[Array]:
    """Return exponentials by scaling, a Taylor polynomial of degree 18 in double precision, and squaring (Higham, 2005)."""
    wide = a.astype(np.complex128 if np.iscomplexobj(a) else np.float64)
    flat = wide.reshape((int(np.prod(a.shape[:-2])), *a.shape[-2:]))
    result = np.empty_like(flat)
    for number, each in enumerate(flat):
        norm = np.abs(each).sum(0).max() if each.size else 0.0
        squarings = max(0, int(np.ceil(np.log2(norm)) + 1)) if norm > 0.5 and np.isfinite(norm) else 0
        scaled = each / 2.0**squarings
        total = term = np.eye(each.shape[-1], dtype=wide.dtype)
        for degree in range(1, 19):
            term = term @ scaled / degree
            total = total + term
        for _ in range(squarings):
            total = total @ total
        result[number] = total
    return (result.reshape(a.shape).astype(a.dtype),)


def ldl_factor(a: Array) -> tuple[Array, Array, Array]:
    """Return packed ``L D L^H`` factors with LAPACK's pivots (negative pairs mark 2x2 blocks) and info.

    Bunch–Kaufman diagonal pivoting on the lower triangle (Bunch and Kaufman, 1977), as LAPACK's sytf2.
    """
    batch, n = a.shape[:-2], a.shape[-1]
    factors, pivots = a.copy(), np.zeros((*batch, n), np.int32)
    info = np.zeros(batch, np.int32)
    for index in np.ndindex(batch):
        info[index] = _bunch_kaufman(factors[index], pivots[index])
    return factors, pivots, info


def _bunch_kaufman(a: Array, pivots: Array) -> int:
    n, step, info = len(a), 0, 0
    alpha = (1 + np.sqrt(17.0)) / 8
    while step < n:
        size, pivot = 1, step
        diagonal = _size(a[step, step])
        below = _size(a[step + 1 :, step])
        largest = step + 1 + int(np.argmax(below)) if len(below) else step
        column = below.max() if len(below) else 0.0
        if max(diagonal, column) == 0:
            info = info or step + 1
        elif diagonal < alpha * column:
            row = max(_size(a[largest, step:largest]).max(), _size(a[largest + 1 :, largest]).max(initial=0.0))
            if diagonal < alpha * column * (column / row):
                pivot = largest
                size = 1 if _size(a[largest, largest]) >= alpha * row else 2
        other = step + size - 1
        if pivot != other:
            _exchange(a, step, other, pivot, size)
        _eliminate(a, step, size)
        pivots[step : step + size] = pivot + 1 if size == 1 else -(pivot + 1)
        step += size
    return info


def _exchange(a: Array, step: int, other: int, pivot: int, size: int) -> None:
    """Swap rows and columns ``other`` and ``pivot`` of the lower triangle."""
    a[pivot + 1 :, [other, pivot]] = a[pivot + 1 :, [pivot, other]]
    middle = a[other + 1 : pivot, other].copy()
    a[other + 1 : pivot, other] = a[pivot, other + 1 : pivot]
    a[pivot, other + 1 : pivot] = middle
    a[other, other], a[pivot, pivot] = a[pivot, pivot], a[other, other]
    if size == 2:
        a[step + 1, step], a[pivot, step] = a[pivot, step], a[step + 1, step]


def _eliminate(a: Array, step: int, size: int) -> None:
    rest = slice(step + size, len(a))
    if size == 1:
        if a[step, step] == 0:
            return
        column = a[rest, step] / a[step, step]
        a[rest, rest] -= np.tril(np.outer(column, a[rest, step]))
        a[rest, step] = column
        return
    block = a[step : step + 2, step : step + 2].copy()
    block[0, 1] = block[1, 0]
    columns = a[rest, step : step + 2] @ np.linalg.inv(block)
    a[rest, rest] -= np.tril(columns @ a[rest, step : step + 2].T)
    a[rest, step : step + 2] = columns


def ldl_solve(factors: Array, pivots: Array, b: Array) -> tuple[Array]:
    """Return solutions from packed ``L D L^T`` factors."""
    result = b.copy()
    for index in np.ndindex(factors.shape[:-2]):
        result[index] = _ldl_solve(factors[index], pivots[index], result[index])
    return (result,)


def _ldl_solve(a: Array, pivots: Array, b: Array) -> Array:
    n, steps, step = len(a), [], 0
    while step < n:
        size = 1 if pivots[step] > 0 else 2
        steps.append((step, size, abs(int(pivots[step])) - 1))
        step += size
    for start, size, pivot in steps:
        other = start + size - 1
        b[[other, pivot]] = b[[pivot, other]]
        b[start + size :] -= a[start + size :, start : start + size] @ b[start : start + size]
    for start, size, _ in steps:
        block = a[start : start + size, start : start + size].copy()
        if size == 2:
            block[0, 1] = block[1, 0]
        b[start : start + size] = np.linalg.solve(block, b[start : start + size])
    for start, size, pivot in reversed(steps):
        b[start : start + size] -= a[start + size :, start : start + size].T @ b[start + size :]
        other = start + size - 1
        b[[other, pivot]] = b[[pivot, other]]
    return b


ALGORITHMS = {
    each.__name__: each
    for each in (
        cholesky, lu, permutation, solve, solve_triangular, qr, geqrf, svd, svdvals, eigh, eig, cofactor, slogdet, matrix_exp,
        ldl_factor, ldl_solve,
    )
}  # fmt: skip
