"""What the linear algebra files share: checks, adjoints, triangles, outputs."""

from __future__ import annotations

from ...ir.dtypes import dtype
from ...tensors.tensor import Tensor
from ..common import no_view, row_major


class LinAlgError(RuntimeError):
    """A matrix does not allow what was asked: it is singular, not positive-definite, or did not converge."""


def require_matrix(name: str, A: Tensor, argument: str = "A") -> None:
    """Raise unless the last two dimensions are matrices of floating-point or complex numbers."""
    if A.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")
    if A.dtype.category < 2:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {_title(A.dtype)}")
    if A.dtype.itemsize < 4:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {_title(A.dtype)}")


def _title(kind: dtype) -> str:
    return {"float16": "Half", "bfloat16": "BFloat16", "int64": "Long", "int32": "Int", "bool": "Bool"}.get(
        kind.name, kind.name
    )


def require_square(name: str, A: Tensor, argument: str = "A") -> None:
    """Raise unless the last two dimensions are square matrices."""
    require_matrix(name, A, argument)
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"{name}: {argument} must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices"
        )


def adjoint(A: Tensor) -> Tensor:
    """Return the conjugate transpose."""
    turned = A.transpose(-2, -1)
    return turned.conj() if A.dtype.is_complex else turned


def real_of(A: Tensor) -> Tensor:
    """Return the real part."""
    return A.real if A.dtype.is_complex else A


def lower_half(A: Tensor) -> Tensor:
    """Return the lower triangle with the diagonal halved."""
    return A.tril() - (A.diagonal(0, -2, -1) * 0.5).diag_embed()


def by_columns(A: Tensor) -> Tensor:
    """Return matrices that lie in memory by columns, as LAPACK leaves them."""
    return no_view(row_major(A.mT).mT)


def batch_shape(A: Tensor) -> tuple[int, ...]:
    """Return the dimensions before the matrices."""
    return tuple(A.shape[:-2])


def raise_where(info: Tensor, message: str) -> None:
    """Raise LinAlgError for the first matrix whose info is not zero."""
    flat = info.reshape(-1).tolist()
    for number, each in enumerate(flat):
        if each:
            where = f"(Batch element {number}): " if info.ndim else ""
            raise LinAlgError(message.format(where=where, order=each))
