"""What the linear algebra files share: checks, adjoints, triangles, outputs."""

from __future__ import annotations

from ...tensors.tensor import Tensor
from ..common import no_view, row_major, type_title


class LinAlgError(RuntimeError):
    """A matrix does not allow what was asked: it is singular, not positive-definite, or did not converge."""


#: PyTorch's kernels that refuse numbers of 16 bits, by the functions that come to them
_KERNELS = {
    "linalg.cholesky": "cholesky_cpu", "linalg.eig": "linalg_eig_out_cpu", "linalg.eigvals": "linalg_eig_out_cpu",
    "linalg.eigh": "linalg_eigh_cpu", "linalg.eigvalsh": "linalg_eigh_cpu", "linalg.svd": "linalg_svd_cpu",
    "linalg.qr": "geqrf_cpu", "linalg.det": "lu_cpu", "linalg.solve": "lu_cpu",
    "torch.lu_factor": "lu_cpu", "torch.linalg.householder_product": "orgqr_cpu",
    "linalg.solve_triangular": "triangular_solve_cpu", "torch.linalg.ldl_factor_ex": "ldl_factor_kernel_cpu",
}  # fmt: skip
#: those whose kernels refuse integers, too
_REFUSE_INTEGERS = frozenset(("linalg_eigh_cpu", "lu_cpu", "orgqr_cpu", "triangular_solve_cpu"))
#: functions that look at integers themselves, before their kernels
_LOOK_FIRST = frozenset(("linalg.det", "linalg.solve"))


def require_matrix(name: str, A: Tensor, argument: str = "A") -> None:
    """Raise unless the last two dimensions are matrices of floating-point or complex numbers."""
    if A.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")
    kernel, low = _KERNELS.get(name), A.dtype.category > 1 and A.dtype.itemsize < 4
    if kernel is not None and (
        low or (A.dtype.category < 2 and kernel in _REFUSE_INTEGERS and name not in _LOOK_FIRST)
    ):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{type_title(A)}'")
    if A.dtype.category < 2 and kernel == "linalg_eig_out_cpu":
        raise RuntimeError(f"Unknown Complex ScalarType for {type_title(A)}")
    if A.dtype.category < 2:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {type_title(A)}")
    if low:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {type_title(A)}")


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


def raise_where(info: Tensor, message: str, kind: type[RuntimeError] = LinAlgError) -> None:
    """Raise an exception for the first matrix whose info is not zero."""
    flat = info.reshape(-1).tolist()
    for number, each in enumerate(flat):
        if each:
            where = f"(Batch element {number}): " if info.ndim else ""
            raise kind(message.format(where=where, order=each))
