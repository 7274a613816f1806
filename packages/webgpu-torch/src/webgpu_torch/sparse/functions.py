"""Functions of sparse tensors that PyTorch has in ``torch.sparse``."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, cast

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor, dtype

from .base import refuse
from .layouts import sparse_csr
from .nodes import multiplied, noted, summed
from .reduced_products import reduced_matmul

if TYPE_CHECKING:
    from .compressed import CompressedTensor
    from .coordinates import SparseTensor


@noted(multiplied)
def mm(mat1: Tensor, mat2: Tensor, reduce: str | EllipsisType = ...) -> Tensor:
    """Return a product of matrices ``[m, k] @ [k, n]`` of which the first, at least, is sparse.

    ``reduce`` takes another reduction of the products than their sum, over the values that a row of ``mat1`` has: "sum", "mean", "amax"
    or "amin", zero where a row has none. ``mat1`` is then in CSR and ``mat2`` dense.

    Raises:
        NotImplementedError: ``mat1`` has another layout than CSR, with ``reduce``.
        RuntimeError: sizes do not match, or ``mat2`` is sparse or of another type, with ``reduce``.
        TypeError: ``reduce`` is no name.
    """
    if reduce is ...:
        return mat1 @ mat2
    if not isinstance(reduce, str):
        raise TypeError(f"sparse.mm(): argument 'reduce' (position 3) must be str, not {type(reduce).__name__}")
    if mat1.layout != sparse_csr:
        refuse("torch.sparse.mm with reduce of another layout than sparse_csr")
    return reduced_matmul(cast("CompressedTensor", mat1), mat2, reduce)


@noted(summed)
def sum(input: Tensor, dim: int | Sequence[int] | None = None, dtype: dtype | None = None) -> Tensor:
    """Return the sum of a sparse tensor, ``[sparse dimensions ...]`` over some of them or over all."""
    return input.sum(dim, dtype=dtype) if dim is not None else input.sum(dtype=dtype)


@noted("SparseAddmmBackward0")
def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: complex = 1.0, alpha: complex = 1.0) -> Tensor:
    """Return ``beta * mat + alpha * (mat1 @ mat2)`` of matrices ``[m, n]``, ``[m, k]`` and ``[k, n]``, the first of a product sparse."""
    return torch.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)  # type: ignore[arg-type]


def sampled_addmm(
    input: CompressedTensor, mat1: Tensor, mat2: Tensor, *, beta: complex = 1.0, alpha: complex = 1.0
) -> CompressedTensor:
    """Return ``beta * input + alpha * (mat1 @ mat2)`` where the sparse matrix ``input`` ``[m, n]`` has values, and nowhere else.

    Raises:
        RuntimeError: sizes do not match, or a complex factor of real numbers.
        TypeError: a factor that is no number.
    """
    for name, factor in (("beta", beta), ("alpha", alpha)):
        if isinstance(factor, Tensor) and factor.ndim:
            raise TypeError(f"sparse.sampled_addmm(): argument '{name}' must be Number, not Tensor")
        if isinstance(factor, complex) and not mat1.dtype.is_complex:
            raise RuntimeError(
                f"{name}={factor} cannot be converted to {mat1.dtype!r}: complex numbers need complex tensors"
            )
    return input.sampled_addmm(mat1, mat2, beta=beta, alpha=alpha)


def softmax(input: SparseTensor, dim: int, *, dtype: dtype | None = None) -> SparseTensor:
    """Return the softmax along a sparse dimension of the elements that are there: what is not there counts as minus infinity."""
    return input.softmax(dim, dtype)


def log_softmax(input: SparseTensor, dim: int, *, dtype: dtype | None = None) -> SparseTensor:
    """Return the logarithm of the softmax along a sparse dimension of the elements that are there."""
    return input.softmax(dim, dtype, logarithms=True)
