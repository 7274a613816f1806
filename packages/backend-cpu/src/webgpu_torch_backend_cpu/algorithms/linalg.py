"""Linear algebra by LAPACK, through NumPy; batches are leading dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import lapack

Array = Any


#: columns eliminated one by one before a matrix product updates the rest
BLOCK = 32
#: matrices up to which each is eliminated by itself
FEW = 8


def magnitude(a: Array) -> Array:
    """Return what LAPACK compares when it chooses pivots: ``|re| + |im|``."""
    return np.abs(a.real) + np.abs(a.imag) if np.iscomplexobj(a) else np.abs(a)


def cholesky(a: Array) -> tuple[Array, Array]:
    """Return lower factors, and per matrix 0 or the order of the minor that is not positive-definite."""
    batch = a.shape[:-2]
    info = np.zeros(batch, np.int32)
    try:
        factors = np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        factors = np.zeros_like(a)
    else:
        # NaN is not positive.
        undefined = np.isnan(np.diagonal(factors, 0, -2, -1))
        return factors, np.where(undefined.any(-1), undefined.argmax(-1) + 1, info).astype(np.int32) if a.size else info
    for index in np.ndindex(batch):
        try:
            factors[index] = np.linalg.cholesky(a[index])
        except np.linalg.LinAlgError:
            info[index] = _first_bad_minor(a[index])
    return factors, info


def _first_bad_minor(a: Array) -> int:
    """Return the order of the first leading minor that is not positive-definite, by bisection: all larger ones are not."""
    good, bad = 0, a.shape[0]
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            np.linalg.cholesky(a[:middle, :middle])
            good = middle
        except np.linalg.LinAlgError:
            bad = middle
    return bad


def lu(a: Array) -> tuple[Array, Array, Array]:
    """Return packed factors, LAPACK's pivots (from 1), and per matrix 0 or the first zero diagonal element (from 1).

    Blocked Gaussian elimination with partial pivoting (Golub and Van Loan, Matrix Computations, section 3.4), where LAPACK's own is
    not at hand.
    """
    known = lapack.lu(a)
    if known is not None:
        return known
    batch, (m, n) = a.shape[:-2], a.shape[-2:]
    steps = min(m, n)
    factors = a.reshape((int(np.prod(batch)), m, n)).copy()
    pivots = np.zeros((len(factors), steps), np.int32)
    info = np.zeros(len(factors), np.int32)
    for start in range(0, steps if len(factors) else 0, BLOCK):
        stop = min(start + BLOCK, steps)
        if len(factors) > FEW:
            for step in range(start, stop):
                _eliminate(factors, pivots, info, step, stop)
        else:
            for number, matrix in enumerate(factors):
                bad = _eliminate_one(matrix, pivots[number], start, stop)
                info[number] = info[number] or bad
        if stop < n:
            right = factors[:, start:stop, stop:]
            _substitute(factors[:, start:stop, start:stop], right, False, True)
            factors[:, stop:, stop:] -= factors[:, stop:, start:stop] @ right
    return factors.reshape(a.shape), pivots.reshape((*batch, steps)), info.reshape(batch)


def _eliminate(factors: Array, pivots: Array, info: Array, step: int, stop: int) -> None:
    """Clear one column below its pivot; columns from ``stop`` on only take part in the exchange of rows."""
    rows = np.arange(len(factors))
    chosen = step + np.argmax(magnitude(factors[:, step:, step]), axis=1)
    pivots[:, step] = chosen + 1
    swapped = factors[rows, chosen].copy()
    factors[rows, chosen] = factors[:, step]
    factors[:, step] = swapped
    pivot = factors[:, step, step]
    info[(info == 0) & (pivot == 0)] = step + 1
    factors[:, step + 1 :, step] /= np.where(pivot == 0, 1, pivot)[:, None]
    factors[:, step + 1 :, step + 1 : stop] -= (
        factors[:, step + 1 :, step, None] * factors[:, step, None, step + 1 : stop]
    )


def _eliminate_one(matrix: Array, pivots: Array, start: int, stop: int) -> int:
    """Clear a block of columns of one matrix; return the first zero pivot's number from 1, or 0."""
    bad = 0
    for step in range(start, stop):
        chosen = step + int(magnitude(matrix[step:, step]).argmax())
        pivots[step] = chosen + 1
        row = matrix[step]
        if chosen != step:
            swapped = row.copy()
            row[...] = matrix[chosen]
            matrix[chosen] = swapped
        pivot = row[step]
        if pivot == 0:
            bad = bad or step + 1
            pivot = 1
        below = matrix[step + 1 :, step]
        below /= pivot
        if step + 1 < stop:
            matrix[step + 1 :, step + 1 : stop] -= below[:, None] * row[step + 1 : stop]
    return bad


def permutation(pivots: Array, rows: int) -> tuple[Array]:
    """Return which row each row comes from after LAPACK's exchanges."""
    flat = pivots.reshape((int(np.prod(pivots.shape[:-1])), pivots.shape[-1]))
    found = np.empty((len(flat), rows), np.int64)
    for number, exchanges in enumerate(flat.tolist()):
        order = list(range(rows))
        for step, other in enumerate(exchanges):
            order[step], order[other - 1] = order[other - 1], order[step]
        found[number] = order
    return (found.reshape((*pivots.shape[:-1], rows)),)


def solve(a: Array, b: Array) -> tuple[Array, Array]:
    """Return solutions, and per matrix 0 or the position (from 1) of the zero pivot that makes it singular."""
    batch = a.shape[:-2]
    info = np.zeros(batch, np.int32)
    try:
        return np.linalg.solve(a, b), info
    except np.linalg.LinAlgError:
        result = np.zeros((*batch, a.shape[-1], b.shape[-1]), b.dtype)
    for index in np.ndindex(batch):
        try:
            result[index] = np.linalg.solve(a[index], b[index])
        except np.linalg.LinAlgError:
            info[index] = max(int(lu(a[index])[2]), 1)
    return result, info


def solve_triangular(a: Array, b: Array, upper: bool, unitriangular: bool) -> tuple[Array]:
    """Return solutions by substitution."""
    known = lapack.solve_triangular(a, b, upper, unitriangular)
    if known is not None:
        return (known,)
    result = b.copy()
    _substitute(a, result, upper, unitriangular)
    return (result,)


def _substitute(a: Array, b: Array, upper: bool, unitriangular: bool) -> None:
    """Overwrite b by the solution, half by half so that most of the work is a matrix product."""
    n = a.shape[-1]
    if n > BLOCK:
        cut = n // 2
        first, last = (slice(cut, n), slice(0, cut)) if upper else (slice(0, cut), slice(cut, n))
        _substitute(a[..., first, first], b[..., first, :], upper, unitriangular)
        b[..., last, :] -= a[..., last, first] @ b[..., first, :]
        _substitute(a[..., last, last], b[..., last, :], upper, unitriangular)
        return
    for step in range(n - 1, -1, -1) if upper else range(n):
        if not unitriangular:
            b[..., step, :] /= a[..., step, step, None]
        rest = slice(0, step) if upper else slice(step + 1, n)
        b[..., rest, :] -= a[..., rest, step, None] * b[..., step, None, :]


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
    kind = np.result_type(a.dtype, np.complex64)
    if not np.isfinite(a).all():
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    values, vectors = np.linalg.eig(a)
    return values.astype(kind), vectors.astype(kind)


def cofactor(a: Array) -> tuple[Array]:
    """Return cofactor matrices, also of singular matrices, by singular values (Stewart, 1998)."""
    u, s, vh = np.linalg.svd(a)
    n = a.shape[-1]
    others = np.stack([np.prod(np.delete(s, each, -1), -1) for each in range(n)], -1) if n else s
    turn = np.linalg.det(u @ vh) if n else np.ones(a.shape[:-2], a.dtype)
    return ((turn[..., None, None] * ((u.conj() * others[..., None, :]) @ vh.conj())).astype(a.dtype),)


def det(a: Array) -> tuple[Array]:
    """Return determinants by LU factors."""
    return (np.asarray(np.linalg.det(a), a.dtype),)


def slogdet(a: Array) -> tuple[Array, Array]:
    """Return signs and logarithms of absolute determinants."""
    sign, logarithm = np.linalg.slogdet(a)
    if not np.iscomplexobj(a):
        sign = np.where(np.isnan(logarithm), 0, sign)
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


_SVD = "linalg.svd: {}The algorithm failed to converge because the input matrix contained non-finite values."
_DIVERGED = {
    "svd": _SVD,
    "svdvals": _SVD,
    "eigh": "linalg.eigh: {}The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
    "eigenvalues (error code: {}).",
}


def diverged(name: str, a: Array, error: Exception) -> str:
    """Return what PyTorch says where an algorithm has no result for matrices."""
    message = _DIVERGED.get(name)
    if message is None:
        return f"{name}: {error}"
    unusual = ~np.isfinite(a).all((-2, -1)).reshape(-1)
    return message.format(f"(Batch element {unusual.argmax()}): " if a.ndim > 2 else "", a.shape[-1] - 1)


ALGORITHMS = {
    each.__name__: each
    for each in (
        cholesky, lu, permutation, solve, solve_triangular, qr, geqrf, svd, svdvals, eigh, eig, cofactor, det, slogdet,
        matrix_exp,
    )
}  # fmt: skip
