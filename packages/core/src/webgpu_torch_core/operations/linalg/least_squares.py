"""Least squares, the pseudoinverse and the rank: what singular values tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...ir.dtypes import int64
from ...ir.type_limits import finfo
from ...record.devices import on_host
from ...tensors.tensor import Tensor
from ..common import attach, needs_gradient, no_view, type_title
from ..movement.joining import cat
from ..outputs import into
from ..return_types import make
from ..without_derivatives import refuse_gradients
from .common import adjoint, batch_shape, by_columns, require_matrix, require_square
from .eigenvalues import eigvalsh, spectral, svdvals

if TYPE_CHECKING:
    pass


def _pinv(A: Tensor, rtol: Any, atol: Any, hermitian: bool) -> tuple[Tensor, Tensor]:
    """Return the inverse, and the singular values."""
    U, S, Vh = spectral(A.detach(), hermitian)
    reciprocal = S.reciprocal().masked_fill(S <= _limit(A, S, rtol, atol), 0.0) if S.shape[-1] else S
    result = adjoint(Vh) @ (reciprocal.unsqueeze(-1).to(A.dtype) * adjoint(U))
    if needs_gradient(A):
        result = result.detach()
        saved, kept = result._save_result(), A._save()

        def run_backward(grad: Tensor) -> Any:
            return _pinv_gradient(kept.unpack(), saved.unpack(), adjoint(grad))

        attach(result, "LinalgPinvBackward0", (A,), run_backward)
    return result, S


def _pinv_gradient(A: Tensor, pinv: Tensor, gradh: Tensor) -> Tensor:
    """The gradient at constant rank (Golub and Pereyra, 1973)."""
    pinvh = adjoint(pinv)
    if A.shape[-2] <= A.shape[-1]:
        K = gradh @ pinv
        KP = K @ pinvh
        return -adjoint(pinv @ K) + KP - (A @ pinv) @ KP + (pinvh @ pinv) @ (gradh - K @ A)
    K = pinv @ gradh
    PK = pinvh @ K
    return -adjoint(K @ pinv) + (gradh - A @ K) @ pinv @ pinvh + PK - (PK @ pinv) @ A


def _limit(A: Tensor, S: Tensor, rtol: Any, atol: Any) -> Any:
    """Return below which value a singular value counts as zero."""
    largest = S.detach().abs().amax(-1, keepdim=True)
    if rtol is None:
        rtol = 0.0 if _positive(atol) else finfo(S.dtype).eps * max(A.shape[-2:])
    relative = (rtol.unsqueeze(-1) if isinstance(rtol, Tensor) else rtol) * largest
    if atol is None:
        return relative
    absolute = atol.unsqueeze(-1) if isinstance(atol, Tensor) else relative.new_full((), float(atol))
    return relative.maximum(absolute)


def _positive(atol: Any) -> bool:
    return atol is not None and (isinstance(atol, Tensor) or atol > 0)


@operation("composite", namespace="linalg", method=False)
def pinv(
    input: Tensor,
    rcond: Tensor | float | None = None,
    hermitian: bool = False,
    *,
    atol: Tensor | float | None = None,
    rtol: Tensor | float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The Moore–Penrose inverse; singular values up to ``max(atol, rtol * largest)`` count as zero.

    Raises:
        RuntimeError: no matrix of 32- or 64-bit floating-point or complex numbers.
    """
    if input.ndim < 2 or input.dtype.category < 2 or input.dtype.itemsize < 4:
        raise RuntimeError(
            f"linalg.pinv({type_title(input)}{{{list(input.shape)}}}): expected a tensor with 2 or more dimensions of float, double, "
            "cfloat or cdouble types"
        )
    if hermitian:
        require_square("linalg.eigh", input)
    rtol = rcond if rcond is not None else rtol
    refuse_gradients("linalg_pinv", atol=atol, rtol=rtol)
    return into(_pinv(input, rtol, atol, hermitian)[0], out)


@operation("composite")
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """As :func:`torch.linalg.pinv`."""
    return pinv(input, rtol=rcond)


@operation("composite", namespace="linalg", method=False)
def matrix_rank(
    input: Tensor,
    tol: Tensor | float | None = None,
    hermitian: bool = False,
    *,
    atol: Tensor | float | None = None,
    rtol: Tensor | float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """How many singular values are above ``max(atol, rtol * largest)``.

    Raises:
        RuntimeError: no matrix, or one of a type whose resolution is not known where nothing says what counts as zero.
    """
    A = input
    if A.ndim < 2:
        raise RuntimeError("torch.linalg.matrix_rank: The input tensor input must have at least 2 dimensions.")
    if tol is not None:
        atol, rtol = tol, 0.0
    if rtol is None and not _positive(atol):
        _require_resolution(A)
    S = svdvals(A.detach()) if not hermitian else eigvalsh(A.detach()).abs()
    if S.shape[-1] == 0:
        return into(A.new_zeros(batch_shape(A), dtype=int64), out)
    return into((S > _limit(A, S, rtol, atol)).sum(-1), out)


@operation("composite", namespace="linalg", method=False)
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None, out: Any = None) -> Any:
    """The solution of least norm that minimises ``|A X - B|``, with residuals, rank and singular values.

    Raises:
        RuntimeError: sizes that do not fit, or an unknown driver.
    """
    if A.ndim < 2:
        raise RuntimeError("torch.linalg.lstsq: input must have at least 2 dimensions.")
    if A.dtype is not B.dtype:
        raise RuntimeError(
            "torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype "
            f"{type_title(A)} and other's dtype {type_title(B)}"
        )
    if rcond is None:
        _require_resolution(A)
    require_matrix("torch.linalg.lstsq", A, "input")
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError("torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    if B.ndim < 1:
        raise RuntimeError("torch.linalg.lstsq: other must have at least 1 dimension.")
    vector = A.ndim == B.ndim + 1
    columns = B.unsqueeze(-1) if vector else B
    if columns.shape[-2] != A.shape[-2]:
        raise RuntimeError(f"torch.linalg.lstsq: input.size(-2) should match other.size({-1 if vector else -2})")
    inverse, S = _pinv(A, rcond, None, False)
    solution = _as_lapack_leaves(inverse @ columns, A.shape[-2])
    rows, unknowns = A.shape[-2:]
    # PyTorch's drivers where none is named: gelsy on the CPU, which has no residuals, and gels elsewhere.
    driver = ("gelsy" if on_host(A.device) else "gels") if driver is None else driver
    rank = A.new_empty(0, dtype=int64) if driver == "gels" else _rank(A, S, rcond)
    # None are a part of what gradients flow through all the same.
    residuals = no_view(solution.abs().reshape(-1)[:0])
    if rows > unknowns and driver != "gelsy" and (driver == "gels" or bool((rank == unknowns).all().item())):
        residuals = ((A @ solution - columns).abs() ** 2).sum(-2)
    solution = no_view(solution.squeeze(-1)) if vector else solution
    values = S if driver in ("gelsd", "gelss") else S.new_empty(0)
    return into(make("linalg_lstsq", solution=solution, residuals=residuals, rank=rank, singular_values=values), out)


def _require_resolution(A: Tensor) -> None:
    """Raise unless it is told from a type's resolution which singular values count as zero."""
    if A.dtype.category < 2 or A.dtype.itemsize < 4:
        raise RuntimeError("This function doesn't handle types other than float and double")


def _rank(A: Tensor, S: Tensor, rtol: float | None) -> Tensor:
    if not S.shape[-1]:
        return A.new_zeros(batch_shape(A), dtype=int64)
    return (S > _limit(A, S, rtol, None)).sum(-1)


def _as_lapack_leaves(solution: Tensor, rows: int) -> Tensor:
    """Return solutions by columns, where the right-hand sides were: those of more rows leave gaps."""
    beyond = rows - solution.shape[-2]
    if beyond <= 0:
        return by_columns(solution)
    columns = cat([solution.mT, solution.new_zeros((*solution.shape[:-2], solution.shape[-1], beyond))], -1)
    return no_view(columns[..., : solution.shape[-2]].mT)
