"""QR, LU and LDL factorisations."""

from __future__ import annotations

from typing import Any

from ...dispatch.registry import operation
from ...ir.dtypes import int32, int64
from ...ir.layouts import broadcast_shapes
from ...notices import warn_of_old_function
from ...tensors.tensor import Tensor
from ..common import attach, needs_gradient, no_view
from ..creation.ranges import arange, eye
from ..host_algorithms import host_call
from ..movement.joining import cat
from ..outputs import into
from ..return_types import make
from ..value_checks import refuse_any
from ..without_derivatives import attach_refusal
from .common import adjoint, batch_shape, by_columns, lower_half, raise_where, require_matrix, require_square
from .triangular import solve_triangular


def _qr(A: Tensor, complete: bool) -> tuple[Tensor, Tensor]:
    batch, (rows, columns) = batch_shape(A), A.shape[-2:]
    width = rows if complete else min(rows, columns)
    shapes = ((*batch, rows, width), (*batch, width, columns))
    Q, R = host_call("qr", (A,), shapes, (A.dtype,) * 2, (0, 1), complete=complete)
    if needs_gradient(A):
        saved, kept = A._save(), (Q._save_result(), R._save_result(1))

        def run_backward(gQ: Any, gR: Any) -> Any:
            A = saved.unpack()
            if complete and rows > columns:
                raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols")
            q, r = _qr(A, complete) if needs_gradient(A, gQ, gR) else (each.unpack() for each in kept)
            return _qr_gradient(A, q, r, gQ, gR)

        attach((Q, R), "LinalgQrBackward0", (A,), run_backward)
    return Q, R


def _qr_gradient(A: Tensor, Q: Tensor, R: Tensor, gQ: Any, gR: Any) -> Tensor:
    """The gradient of a tall factorisation (Walter and Lehmann, 2010); of a wide one through its leading square."""
    rows, columns = A.shape[-2:]
    if rows < columns:
        left = gQ
        tail = None
        if gR is not None:
            tail = gR[..., rows:]
            extra = A[..., rows:] @ adjoint(tail)
            left = extra if left is None else left + extra
        first = _qr_gradient(A[..., :rows], Q, R[..., :rows], left, None if gR is None else gR[..., :rows])
        return cat([first, Q @ tail if tail is not None else first.new_zeros((*first.shape[:-1], columns - rows))], -1)
    middle = None
    if gR is not None:
        middle = R @ adjoint(gR)
    if gQ is not None:
        part = adjoint(gQ) @ Q
        middle = -part if middle is None else middle - part
    if middle is None:
        return Q * 0 @ R
    half = lower_half(middle)
    whole = half + adjoint(half)
    inner = Q @ whole if gQ is None else gQ + Q @ whole
    return solve_triangular(adjoint(R), inner, upper=False, left=False)


@operation("composite", namespace="linalg", method=False)
def qr(A: Tensor, mode: str = "reduced", *, out: Any = None) -> Any:
    """``A = Q R`` with orthonormal columns of Q and upper triangular R, by Householder reflections (Householder, 1958).

    ``reduced`` gives Q [m, k] and R [k, n] with k = min(m, n), ``complete`` Q [m, m], ``r`` only R.

    Raises:
        RuntimeError: an unknown mode.
    """
    require_matrix("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    Q, R = _qr(A, mode == "complete")
    return into(make("linalg_qr", Q=A.new_empty(0) if mode == "r" else Q, R=R), out)


@operation("composite", name="qr")
def qr_of_torch(input: Tensor, some: bool = True, *, out: Any = None) -> Any:
    """As :func:`torch.linalg.qr`."""
    warn_of_old_function("qr", "torch.linalg.qr")
    require_matrix("torch.qr", input, "input")
    Q, R = _qr(input, not some)
    return into(make("qr", Q=Q, R=R), out)


@operation("composite")
def geqrf(input: Tensor, *, out: Any = None) -> Any:
    """LAPACK's packed reflections of a QR factorisation, and their factors."""
    require_matrix("torch.geqrf", input, "input")
    count = min(input.shape[-2:])
    packed, tau = host_call("geqrf", (input,), (input.shape, (*batch_shape(input), count)), (input.dtype,) * 2, (0,))
    attach_refusal((packed, tau), "geqrf", (input,), True)
    return into(make("geqrf", a=packed, tau=tau), out)


def _lu(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    batch, count = batch_shape(A), min(A.shape[-2:])
    packed, pivots, info = host_call("lu", (A,), (A.shape, (*batch, count), batch), (A.dtype, int32, int32), (0,))
    if needs_gradient(A):
        saved, kept = A._save(), packed._save_result()

        def run_backward(grad: Any, *_: Any) -> Any:
            A = saved.unpack()
            factors = _lu(A)[0] if needs_gradient(A, grad) else kept.unpack()
            lower, upper = _unpacked(factors)
            g_lower, g_upper = grad[..., :, :count].tril(-1), grad[..., :count, :].triu()
            return _lu_gradient(_permutation(pivots, A), lower, upper, g_lower, g_upper)

        attach((packed, pivots, info), "LinalgLuFactorExBackward0", (A,), run_backward, differentiable=(0,))
    return packed, pivots, info


def _unpacked(packed: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = packed.shape[-2:]
    count = min(rows, columns)
    one = eye(rows, count, dtype=packed.dtype, device=packed.device)
    return packed[..., :, :count].tril(-1) + one, packed[..., :count, :].triu()


def _permutation(pivots: Tensor, A: Tensor) -> Tensor:
    """Return the permutation matrices P with ``A = P L U``."""
    rows = A.shape[-2]
    (order,) = host_call("permutation", (pivots,), ((*pivots.shape[:-1], rows),), (int64,), rows=rows)
    positions = arange(rows, device=A.device)
    return (positions.unsqueeze(-1) == order.unsqueeze(-2)).to(A.dtype)


def _lu_gradient(P: Tensor, L: Tensor, U: Tensor, gL: Tensor, gU: Tensor) -> Tensor:
    """The gradient of ``P L U``, square, wide or tall (De Hoog et al., 2011; as derived for PyTorch's own)."""
    rows, columns = L.shape[-2], U.shape[-1]
    count = min(rows, columns)
    if rows == columns:
        inner = (adjoint(L) @ gL).tril(-1) + (gU @ adjoint(U)).triu()
        inner = solve_triangular(adjoint(L), inner, upper=True, unitriangular=True)
        return P @ solve_triangular(adjoint(U), inner, upper=False, left=False)
    if rows < columns:
        first = (adjoint(L) @ gL - gU @ adjoint(U)).tril(-1)
        first = solve_triangular(adjoint(U[..., :count]), first, upper=False, left=False) + gU[..., :count]
        whole = cat([first, gU[..., count:]], -1)
        return P @ solve_triangular(adjoint(L), whole, upper=True, unitriangular=True)
    first = (gU @ adjoint(U) - adjoint(L) @ gL).triu()
    first = solve_triangular(adjoint(L[..., :count, :]), first, upper=True, unitriangular=True) + gL[..., :count, :]
    whole = cat([first, gL[..., count:, :]], -2)
    return P @ solve_triangular(adjoint(U), whole, upper=False, left=False)


def _require_matrix(name: str, A: Tensor) -> None:
    if A.ndim < 2:
        raise RuntimeError(f"{name}: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead")
    require_matrix("torch.lu_factor", A)


@operation("composite", namespace="linalg", method=False)
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False, out: Any = None) -> Any:
    """Packed L and U with LAPACK's pivots, and per matrix 0 or the position of a zero pivot."""
    _require_matrix("torch.lu_factor", A)
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    packed, pivots, info = _lu(A)
    if check_errors:
        raise_where(
            info,
            "torch.linalg.lu_factor: {where}U[{order},{order}] is zero and using it on lu_solve would result in a division by "
            "zero. If you still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
            "linalg.lu_factor_ex(A, pivot)",
            RuntimeError,
        )
    return into(make("linalg_lu_factor_ex", LU=packed, pivots=pivots, info=info), out)


@operation("composite", namespace="linalg", method=False)
def lu_factor(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:
    """Packed L and U, and LAPACK's pivots."""
    packed, pivots, _ = lu_factor_ex(A, pivot=pivot, check_errors=True)
    return into(make("linalg_lu_factor", LU=packed, pivots=pivots), out)


@operation("composite", namespace="linalg", method=False, title="LinalgLuBackward0")
def lu(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:
    """``A = P L U`` with a permutation P, unit lower triangular L and upper triangular U."""
    _require_matrix("linalg.lu", A)
    packed, pivots, _ = lu_factor_ex(A, pivot=pivot)
    lower, upper = _unpacked(packed)
    return into(make("linalg_lu", P=_permutation(pivots, A), L=lower, U=upper), out)


@operation("composite", name="lu")
def lu_of_torch(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """Packed L and U with LAPACK's pivots (and info)."""
    warn_of_old_function("lu", "torch.linalg.lu_factor / torch.linalg.lu_factor_ex")
    packed, pivots, info = lu_factor_ex(A, pivot=pivot)
    results = (packed, pivots, info) if get_infos else (packed, pivots)
    if out is None:
        return results
    for target, each in zip(out, results, strict=True):
        target.resize_(each.shape).copy_(each)
    return out


@operation("composite", method=False, title="LuUnpackBackward0")
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True, *, out: Any = None
) -> Any:
    """P, L and U of packed factors; what is not asked for is empty."""
    if unpack_pivots and LU_pivots.dtype is not int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\n"
            "Note: this function is intended to be used with the output produced by torch.linalg.lu_factor"
        )
    if unpack_pivots:
        refuse_any(
            (LU_pivots < 1) | (LU_pivots > LU_data.shape[-2]),
            "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive.Did you properly pass the result of lu_factor?",
        )
    none = LU_data.new_empty(0)
    lower, upper = _unpacked(LU_data) if unpack_data else (none, none)
    matrix = _permutation(LU_pivots, LU_data) if unpack_pivots else none
    return into(make("lu_unpack", P=matrix, L=lower, U=upper), out)


@operation("composite", namespace="linalg", method=False, title="LinalgLuSolveBackward0")
def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False, out: Tensor | None = None
) -> Tensor:
    """The solution of ``A X = B`` (or ``X A = B``, or with ``A^H``) from A's packed factors."""
    require_square("torch.linalg.lu_solve", LU, "LU")
    return into(_lu_solve(LU, pivots, B, left, adjoint), out, True)


def _lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, left: bool, turned: bool) -> Tensor:
    if not left:
        return no_view(adjoint(_lu_solve(LU, pivots, adjoint(B), True, not turned)))
    P = _permutation(pivots, LU)
    lower, upper = _unpacked(LU)
    if turned:
        part = solve_triangular(adjoint(upper), B, upper=False)
        return by_columns(P @ solve_triangular(adjoint(lower), part, upper=True, unitriangular=True))
    part = solve_triangular(lower, P.mT @ B, upper=False, unitriangular=True)
    return solve_triangular(upper, part, upper=True)


@operation("composite", name="lu_solve", title="LinalgLuSolveBackward0")
def lu_solve_of_torch(input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The solution of ``A X = input`` from A's packed factors."""
    warn_of_old_function("lu_solve", "torch.linalg.lu_solve")
    return lu_solve(LU_data, LU_pivots, input, out=out)


@operation("composite", namespace="linalg", method=False)
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Any = None) -> Any:
    """Packed ``L D L^T`` of symmetric matrices with LAPACK's pivots, and per matrix 0 or the position of a zero block."""
    require_square("torch.linalg.ldl_factor_ex", A)
    batch = batch_shape(A)
    packed, pivots, info = host_call(
        "ldl_factor", (A.tril(),), (A.shape, A.shape[:-1], batch), (A.dtype, int32, int32), (0,), hermitian=hermitian
    )
    if check_errors:
        raise_where(info, "torch.linalg.ldl_factor_ex: {where}D[{order},{order}] is zero.")
    attach_refusal(packed, "linalg_ldl_factor_ex", (A,))
    return into(make("linalg_ldl_factor_ex", LD=packed, pivots=pivots, info=info), out)


@operation("composite", namespace="linalg", method=False)
def ldl_factor(A: Tensor, *, hermitian: bool = False, out: Any = None) -> Any:
    """Packed ``L D L^T`` of symmetric matrices, and LAPACK's pivots (Bunch and Kaufman, 1977)."""
    packed, pivots, _ = ldl_factor_ex(A, hermitian=hermitian)
    return into(make("linalg_ldl_factor", LD=packed, pivots=pivots), out)


@operation("composite", namespace="linalg", method=False)
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Tensor | None = None) -> Tensor:
    """The solution of ``A X = B`` from A's packed ``L D L^T`` factors."""
    require_square("torch.linalg.ldl_solve", LD, "LD")
    if B.ndim < 2:
        raise RuntimeError(
            f"torch.linalg.ldl_solve: Expected B to have at least 2 dimensions, but it has {B.ndim} dimensions instead"
        )
    batch = broadcast_shapes(batch_shape(LD), batch_shape(B))
    right = B.expand(*batch, *B.shape[-2:])
    factors, exchanges = LD.expand(*batch, *LD.shape[-2:]), pivots.expand(*batch, pivots.shape[-1])
    inputs = (factors, exchanges, right)
    (result,) = host_call("ldl_solve", inputs, (right.shape,), (B.dtype,), (0,), hermitian=hermitian)
    attach_refusal(result, "linalg_ldl_solve", (LD, B))
    return into(result, out, True)
