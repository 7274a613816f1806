"""Matrix decompositions written with other operations."""

from __future__ import annotations

from typing import Any

from ..return_types import make
from ..tensor import Tensor
from .common import needs_gradient
from .registry import operation


@operation("composite", namespace="linalg", method=False)
def qr(A: Tensor, mode: str = "reduced", *, out: Tensor | None = None) -> Any:
    """``A = Q R`` with orthonormal columns of Q and upper triangular R, by Householder reflections (Householder, 1958).

    A [m, n] without gradient; ``reduced`` gives Q [m, k] and R [k, n] with k = min(m, n), ``complete`` Q [m, m], ``r`` only R.

    Raises:
        RuntimeError: the input is not a floating-point matrix, or needs a gradient.
    """
    if A.ndim != 2 or A.dtype.category != 2:
        raise RuntimeError(f"linalg.qr: expected a floating-point matrix, got {A.ndim} dimension(s) of {A.dtype!r}")
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    if needs_gradient(A):
        raise RuntimeError("linalg.qr: gradients are not supported; call it on a detached matrix")
    rows, columns = A._layout.shape
    steps = min(rows, columns)
    triangle = A.detach().clone()
    reflections = [_reflect(triangle, step) for step in range(min(steps, rows - 1))]
    width = rows if mode == "complete" else steps
    upper = triangle[:width].triu()
    from .ranges import eye

    basis = eye(rows, width, dtype=A.dtype, device=A.device)
    for step, direction in reversed(list(enumerate(reflections))) if mode != "r" else ():
        _apply(basis[step:], direction)
    result = make("linalg_qr", Q=basis if mode != "r" else A.new_empty((0,)), R=upper)
    return result if out is None else tuple(each.copy_(value) for each, value in zip(out, result, strict=True))


def _reflect(triangle: Tensor, step: int) -> Tensor:
    """Zero a column below the diagonal in place; return the reflection's unit direction."""
    column = triangle[step:, step]
    length = column.square().sum().sqrt()
    # LAPACK's sign: the diagonal of R takes the opposite sign of the column's first element.
    first = column[:1]
    target = length.where(first < 0, -length)
    direction = column.clone()
    direction[:1] = first - target
    size = direction.square().sum().sqrt()
    # A column that is zero below the diagonal needs no reflection.
    rest = column[1:].square().sum()
    direction = (direction / size).masked_fill((rest == 0) | (size == 0), 0.0)
    _apply(triangle[step:, step:], direction)
    return direction


def _apply(block: Any, direction: Tensor) -> None:
    """Reflect the columns of a block in place: ``block -= 2 d (d^T block)``."""
    block.sub_(2.0 * direction.unsqueeze(1) * (direction @ block).unsqueeze(0))
