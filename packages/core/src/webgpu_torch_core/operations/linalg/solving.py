"""Inverses, determinants and systems of equations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...ir.dtypes import int32
from ...ir.layouts import broadcast_shapes, wrap_dimension
from ...tensors.tensor import Tensor
from ..common import attach, needs_gradient, no_view, type_title
from ..complex.views import complex as from_parts
from ..creation.ranges import eye
from ..host_algorithms import host_call
from ..outputs import into, into_rows
from ..return_types import make
from .common import adjoint, batch_shape, by_columns, raise_where, require_square

if TYPE_CHECKING:
    from ...tensors.type_aliases import Dimensions

_SINGULAR = (
    "linalg.{name}: {{where}}The diagonal element {{order}} is zero, the {what} because the input matrix is singular."
)


def _solved(A: Tensor, B: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Solve ``A X = B`` for matrices B of the same batch."""
    result, info = host_call("solve", (A, B), (B.shape, batch_shape(A)), (B.dtype, int32), (0,))
    if needs_gradient(A, B):
        saved, kept = result._save_result(), A._save()

        def run_backward(grad: Tensor, _: Any = None) -> Any:
            right, _ = _solved(adjoint(kept.unpack()), grad, name)
            return -(right @ adjoint(saved.unpack())), right

        attach(result, name, (A, B), run_backward)
    return result, info


def _inverse(A: Tensor) -> tuple[Tensor, Tensor]:
    one = eye(A.shape[-1], dtype=A.dtype, device=A.device).expand(A.shape)
    result, info = host_call("solve", (A, one), (A.shape, batch_shape(A)), (A.dtype, int32), (0,))
    if needs_gradient(A):
        saved = result._save_result()

        def run_backward(grad: Tensor, _: Any = None) -> Any:
            turned = adjoint(saved.unpack())
            return -(turned @ grad @ turned)

        attach(result, "LinalgInvExBackward0", (A,), run_backward)
    return result, info


@operation("composite", namespace="linalg", method=False)
def inv_ex(A: Tensor, *, check_errors: bool = False, out: Any = None) -> Any:
    """Inverses, and per matrix 0 or the position of a zero pivot."""
    require_square("linalg.inv", A)
    result, info = _inverse(A)
    if check_errors:
        raise_where(info, _SINGULAR.format(name="inv", what="inversion could not be completed"))
    return into(make("linalg_inv_ex", inverse=result, info=info), out)


@operation("composite", namespace="linalg", method=False)
def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverses of square matrices.

    Raises:
        LinAlgError: a matrix is singular.
    """
    require_square("linalg.inv", A)
    result, info = _inverse(A)
    if not A.is_meta:
        raise_where(info, _SINGULAR.format(name="inv", what="inversion could not be completed"))
    return into(result, out, True)


@operation("composite")
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """As :func:`torch.linalg.inv`."""
    return inv(input, out=out)


def _is_vector(A: Tensor, B: Tensor) -> bool:
    """Return whether B holds vectors, by PyTorch's rule."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))


def _solve(A: Tensor, B: Tensor, left: bool) -> tuple[Tensor, Tensor]:
    require_square("linalg.solve", A)
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"linalg.solve: Expected A and B to have the same dtype, but found A of type {type_title(A)} and B of type "
            f"{type_title(B)} instead"
        )
    vector = _is_vector(A, B)
    columns = B.unsqueeze(-1) if vector else B
    if vector and not left:
        raise RuntimeError("linalg.solve: Vector broadcasting of the left hand side is not supported for left=False.")
    if columns.shape[-2 if left else -1] != A.shape[-1]:
        raise RuntimeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({A.shape[-2]}x{A.shape[-1]} and {columns.shape[-2]}x{columns.shape[-1]})"
        )
    if not left:
        turned, info = _solve(A.mT, columns.mT, True)
        return no_view(turned.mT), info
    batch = broadcast_shapes(batch_shape(columns), batch_shape(A))
    result, info = _solved(
        A.expand(*batch, *A.shape[-2:]), columns.expand(*batch, *columns.shape[-2:]), "LinalgSolveExBackward0"
    )
    if vector:
        # PyTorch takes several vectors for one matrix, of which each is a row, where it lays them out.
        alone = no_view(result.squeeze(-1))
        return (by_columns(alone) if alone.ndim > 1 else alone), info
    return result, info


@operation("composite", namespace="linalg", method=False)
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False, out: Any = None) -> Any:
    """Solutions of ``A X = B``, and per matrix 0 or the position of a zero pivot."""
    result, info = _solve(A, B, left)
    if check_errors:
        raise_where(info, _SINGULAR.format(name="solve", what="solve could not be completed"))
    return into(make("linalg_solve_ex", result=result, info=info), out)


@operation("composite", namespace="linalg", method=False, title="LinalgSolveExBackward0")
def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor:
    """The solution of ``A X = B`` (or ``X A = B``) of square matrices.

    Raises:
        LinAlgError: a matrix is singular.
        RuntimeError: the sizes do not fit.
    """
    result, info = _solve(A, B, left)
    if not A.is_meta:
        raise_where(
            info,
            "torch.linalg.solve: {where}The solver failed because the input matrix is singular.",
        )
    return into(result, out, True)


@operation("composite", namespace="linalg", method=False)
def slogdet(A: Tensor, *, out: Any = None) -> Any:
    """The sign and the logarithm of the absolute value of determinants."""
    require_square("linalg.slogdet", A)
    real = A.dtype.to_real()
    sign, logarithm = host_call("slogdet", (A,), (batch_shape(A), batch_shape(A)), (A.dtype, real))
    if needs_gradient(A):
        saved, kept = A._save(), sign._save_result()

        def run_backward(gsign: Any, grad: Any) -> Any:
            A = saved.unpack()
            # d log det = tr(A^-1 dA): the real part moves the logarithm, the imaginary part turns the sign.
            if A.dtype.is_complex and gsign is not None:
                angle = slogdet(A).sign if needs_gradient(A, gsign) else kept.unpack()
                turn = (gsign.conj() * angle).imag
                grad = from_parts(turn * 0 if grad is None else grad, -turn)
            if grad is None:
                return None
            # At singular matrices this is infinite, as PyTorch's.
            inverse, _ = _inverse(A)
            return grad[..., None, None] * adjoint(inverse)

        attach((sign, logarithm), "LinalgSlogdetBackward0", (A,), run_backward)
    return into(make("linalg_slogdet", sign=sign, logabsdet=logarithm), out)


@operation("composite", name="slogdet")
def slogdet_of_torch(input: Tensor, *, out: Any = None) -> Any:
    """As :func:`torch.linalg.slogdet`."""
    return slogdet(input, out=out)


@operation("composite", namespace="linalg", method=False)
def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Determinants of square matrices."""
    require_square("linalg.det", A)
    (result,) = host_call("det", (A,), (batch_shape(A),), (A.dtype,))
    if needs_gradient(A):
        saved = A._save()

        def run_backward(grad: Tensor) -> Any:
            A = saved.unpack()
            if needs_gradient(grad) or needs_gradient(A):
                inverse, _ = _inverse(A)
                value = det(A)
                return (grad * (value.conj() if A.dtype.is_complex else value))[..., None, None] * adjoint(inverse)
            # The cofactors exist at singular matrices, too.
            (cofactors,) = host_call("cofactor", (A,), (A.shape,), (A.dtype,))
            return grad[..., None, None] * (cofactors.conj() if A.dtype.is_complex else cofactors)

        attach(result, "LinalgDetBackward0", (A,), run_backward)
    return into(result, out, True)


@operation("composite", name="det")
def det_of_torch(input: Tensor) -> Tensor:
    """As :func:`torch.linalg.det`."""
    return det(input)


@operation("composite")
def logdet(input: Tensor) -> Tensor:
    """The logarithm of determinants; NaN where they are negative."""
    found = slogdet(input)
    if input.dtype.is_complex:
        return found.sign.log() + found.logabsdet
    return found.logabsdet.masked_fill(found.sign == -1, math.nan)


@operation("composite", namespace="linalg", method=False)
def tensorinv(A: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor:
    """The inverse under :func:`torch.tensordot`: the first ``ind`` dimensions against the others.

    Raises:
        RuntimeError: ``ind`` is not positive, or the products of sizes differ.
    """
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    if ind > A.ndim:
        raise RuntimeError(f"ArrayRef: invalid slice, N = {ind}; size = {A.ndim}")
    first, last = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    if math.prod(first) != math.prod(last):
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{math.prod(last)} != {math.prod(first)}"
        )
    return into_rows(inv(A.reshape(math.prod(first), math.prod(last))).reshape((*last, *first)), out)


@operation("composite", namespace="linalg", method=False)
def tensorsolve(A: Tensor, B: Tensor, dims: Dimensions = None, *, out: Tensor | None = None) -> Tensor:
    """The X with ``tensordot(A, X, X.ndim) = B``."""
    if dims is not None:
        moved = [wrap_dimension(each, A.ndim) for each in (dims if isinstance(dims, Sequence) else (dims,))]
        A = A.permute([each for each in range(A.ndim) if each not in moved] + moved)
    shape = tuple(A.shape[B.ndim :])
    if math.prod(shape) != B.numel():
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            f"but got {math.prod(shape)} != {B.numel()}"
        )
    return into(solve(A.reshape(B.numel(), math.prod(shape)), B.reshape(-1)).reshape(shape), out)
