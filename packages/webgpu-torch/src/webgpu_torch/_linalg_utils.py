"""Decompositions that PyTorch has removed: they say what to call instead."""

from __future__ import annotations

from typing import NoReturn

from webgpu_torch_core import Tensor

_REMOVED = "This function was deprecated since version 1.9 and is now removed. "


def matrix_rank(
    input: Tensor, tol: float | None = None, symmetric: bool = False, *, out: Tensor | None = None
) -> NoReturn:
    """Refuse: :func:`torch.linalg.matrix_rank` is what counts singular values.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(f"{_REMOVED}Please use torch.linalg.matrix_rank, whose 'hermitian' was called 'symmetric' here.")


def solve(input: Tensor, A: Tensor, *, out: Tensor | None = None) -> NoReturn:
    """Refuse: :func:`torch.linalg.solve` takes the matrices first.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        f"{_REMOVED}`torch.solve` is deprecated in favor of `torch.linalg.solve`, which takes its arguments the other way round and "
        "returns no factors: torch.linalg.lu_factor does."
    )


def lstsq(input: Tensor, A: Tensor, *, out: Tensor | None = None) -> NoReturn:
    """Refuse: :func:`torch.linalg.lstsq` takes the matrices first.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        f"{_REMOVED}`torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`, which takes its arguments the other way round and "
        "has residuals in a field of their own."
    )


def _symeig(
    input: Tensor, eigenvectors: bool = False, upper: bool = True, *, out: tuple[Tensor, Tensor] | None = None
) -> NoReturn:
    """Refuse: :func:`torch.linalg.eigh` and ``eigvalsh`` take Hermitian matrices.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        f"{_REMOVED}The default behavior has changed from using the upper triangular portion of the matrix by default to using the "
        "lower one: torch.linalg.eigvalsh(A, UPLO='U' if upper else 'L'), and torch.linalg.eigh for the vectors, too."
    )


def eig(self: Tensor, eigenvectors: bool = False, *, e: Tensor | None = None, v: Tensor | None = None) -> NoReturn:
    """Refuse: :func:`torch.linalg.eig` and ``eigvals`` return complex numbers.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        f"{_REMOVED}`torch.linalg.eig` returns complex tensors rather than real ones that stand for them: "
        "torch.linalg.eigvals(A), and torch.linalg.eig for the vectors, too."
    )
