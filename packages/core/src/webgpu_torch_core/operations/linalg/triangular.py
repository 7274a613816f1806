"""Triangular systems, Cholesky factors and products of reflections."""

from __future__ import annotations

from typing import Any

from ...dispatch.registry import operation
from ...ir.dtypes import int32
from ...ir.layouts import broadcast_shapes
from ...notices import warn_of_old_function
from ...tensors.tensor import Tensor
from ..common import attach, needs_gradient, no_view, type_title
from ..creation.ranges import eye
from ..host_algorithms import host_call
from ..outputs import into, into_rows
from ..return_types import make
from .common import adjoint, batch_shape, by_columns, raise_where, require_matrix, require_square


@operation("composite", namespace="linalg", method=False)
def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False, out: Tensor | None = None
) -> Tensor:
    """The solution of ``A X = B`` (or ``X A = B``) with triangular A, of which one triangle is read.

    Raises:
        RuntimeError: A is not square, or the sizes do not fit.
    """
    require_square("linalg.solve_triangular", A)
    require_matrix("linalg.solve_triangular", B, "B")
    if B.shape[-2 if left else -1] != A.shape[-1]:
        raise RuntimeError(
            f"linalg.solve_triangular: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )
    if not left:
        turned = solve_triangular(A.mT, B.mT, upper=not upper, unitriangular=unitriangular)
        return into(by_columns(turned.mT), out, True)
    a, b = A, B
    if batch_shape(A) != batch_shape(B):
        batch = broadcast_shapes(batch_shape(B), batch_shape(A))
        a, b = A.expand(*batch, *A.shape[-2:]), B.expand(*batch, *B.shape[-2:])
    options = {"upper": upper, "unitriangular": unitriangular}
    (result,) = host_call("solve_triangular", (a, b), (b.shape,), (B.dtype,), (0,), **options)
    if needs_gradient(a, b):
        saved, kept = result._save_result(), a._save()

        def run_backward(grad: Tensor) -> Any:
            x = saved.unpack()
            right = solve_triangular(adjoint(kept.unpack()), grad, upper=not upper, unitriangular=unitriangular)
            whole = -(right @ adjoint(x))
            shift = 1 if unitriangular else 0
            return (whole.triu(shift) if upper else whole.tril(-shift)), right

        attach(result, "LinalgSolveTriangularBackward0", (a, b), run_backward)
    return into(result, out, True)


def _require_fitting(name: str, B: Tensor, A: Tensor) -> None:
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {type_title(B)} and A of type {type_title(A)} instead."
        )
    rows, columns = A.shape[-2:]
    if rows != columns:
        raise RuntimeError(f"A must be batches of square matrices, but they are {rows} by {columns} matrices")
    if B.shape[-2] != rows:
        raise RuntimeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {rows} by {columns} but each b matrix is "
            f"{B.shape[-2]} by {B.shape[-1]}"
        )


@operation("composite", title="TriangularSolveBackward0")
def triangular_solve(
    input: Tensor,
    A: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    *,
    out: Any = None,
) -> Any:
    """The solution of ``A X = input`` with triangular A, and A."""
    warn_of_old_function("triangular_solve", "torch.linalg.solve_triangular")
    matrix = A.mT if transpose else A
    if input.ndim > 1 and A.ndim > 1:
        _require_fitting("triangular_solve", input, A)
    solution = solve_triangular(matrix, input, upper=upper != transpose, unitriangular=unitriangular)
    return into(make("triangular_solve", solution=solution, cloned_coefficient=by_columns(A.clone())), out)


def _factor(A: Tensor, upper: bool) -> tuple[Tensor, Tensor]:
    source = adjoint(A) if upper else A
    lower, info = host_call("cholesky", (source,), (A.shape, batch_shape(A)), (A.dtype, int32), () if upper else (0,))
    if needs_gradient(A):
        saved = lower._save_result()

        def run_backward(grad: Tensor, _: Any = None) -> Any:
            factor = saved.unpack()
            inner = (adjoint(factor) @ grad).tril()
            inner = (inner + adjoint(inner.tril(-1))) * 0.5
            # L^-H phi(L^H g) L^-1, symmetrised (Murray, "Differentiation of the Cholesky decomposition", 2016).
            part = solve_triangular(adjoint(factor), inner, upper=True)
            return solve_triangular(factor, part, upper=False, left=False)

        attach(lower, "LinalgCholeskyExBackward0", (A,), run_backward)
    return (no_view(adjoint(lower)) if upper else lower), info


@operation("composite", namespace="linalg", method=False)
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False, out: Any = None) -> Any:
    """The Cholesky factor ``A = L L^H``, and per matrix 0 or the order of the minor that is not positive-definite."""
    require_square("linalg.cholesky", A)
    factor, info = _factor(A, upper)
    if check_errors:
        _refuse(info, "linalg.cholesky_ex")
    return into(make("linalg_cholesky_ex", L=factor, info=info), out)


def _refuse(info: Tensor, name: str) -> None:
    raise_where(
        info,
        name + ": {where}The factorization could not be completed because the input is not positive-definite (the "
        "leading minor of order {order} is not positive-definite).",
    )


@operation("composite", namespace="linalg", method=False)
def cholesky(A: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """The lower triangular ``L`` with ``A = L L^H`` of positive-definite matrices (or ``L^H``).

    Raises:
        LinAlgError: a matrix is not positive-definite.
    """
    require_square("linalg.cholesky", A)
    factor, info = _factor(A, upper)
    if not A.is_meta:
        _refuse(info, "linalg.cholesky")
    return into(factor, out, True)


@operation("composite", name="cholesky")
def cholesky_of_torch(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """As :func:`torch.linalg.cholesky`."""
    warn_of_old_function("cholesky", "torch.linalg.cholesky")
    return into_rows(cholesky(input, upper=upper), out)


@operation("composite")
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The solution of ``A X = input`` given A's Cholesky factor."""
    if input.ndim < 2 or input2.ndim < 2:
        raise RuntimeError(
            f"b should have at least 2 dimensions, but has {input.ndim} dimensions instead"
            if input.ndim < 2
            else f"u should have at least 2 dimensions, but has {input2.ndim} dimensions instead"
        )
    _require_fitting("cholesky_solve", input, input2)
    result = _cholesky_solution(input.detach(), input2.detach(), upper)
    if needs_gradient(input, input2):
        saved, kept = (input._save(), input2._save()), result._save_result()

        def run_backward(grad: Tensor) -> Any:
            input, input2 = saved[0].unpack(), saved[1].unpack()
            right = cholesky_solve(grad, input2, upper)
            found = cholesky_solve(input, input2, upper) if needs_gradient(input, input2) else kept.unpack()
            common = right @ adjoint(found)
            common = common + adjoint(common)
            # All of the factor counts as given, as in PyTorch, not just its triangle.
            return right, -(input2 @ common if upper else common @ input2)

        attach(result, "CholeskySolveBackward0", (input, input2), run_backward)
    return into_rows(result, out)


def _cholesky_solution(B: Tensor, factor: Tensor, upper: bool) -> Tensor:
    lower = adjoint(factor) if upper else factor
    half = solve_triangular(lower, B, upper=False)
    return solve_triangular(adjoint(lower), half, upper=True)


@operation("composite", title="CholeskyInverseBackward0")
def cholesky_inverse(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The inverse of the matrix with this Cholesky factor."""
    require_square("cholesky_inverse", input)
    size = input.shape[-1]
    one = eye(size, dtype=input.dtype, device=input.device).expand(input.shape)
    return into(cholesky_solve(one, input, upper), out)


@operation("composite", namespace="linalg", method=False, title="LinalgHouseholderProductBackward0")
def householder_product(A: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first columns of the product of reflections ``I - tau v v^H`` whose vectors are below the diagonal of A.

    Raises:
        RuntimeError: more columns than rows, or more factors than columns.
    """
    if A.ndim < 2:
        raise RuntimeError("torch.linalg.householder_product: input must have at least 2 dimensions.")
    if A.shape[-2] < A.shape[-1]:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    if A.shape[-1] < tau.shape[-1]:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    if tau.ndim != A.ndim - 1:
        raise RuntimeError(
            "torch.linalg.householder_product: Expected tau to have one dimension less than input, but got tau.ndim equal to "
            f"{tau.ndim} and input.ndim is equal to {A.ndim}"
        )
    require_matrix("torch.linalg.householder_product", A, "input")
    result = eye(A.shape[-2], A.shape[-1], dtype=A.dtype, device=A.device).expand(A.shape)
    return into(by_columns(_reflected(A, tau, result, turned=False)), out)


def _reflected(A: Tensor, tau: Tensor, target: Tensor, turned: bool) -> Tensor:
    """Return ``Q target`` (or ``Q^H target``) of the packed reflections.

    ``Q = I - V T V^H`` with ``T = (I + D S)^-1 D``, D the factors and S the strict upper triangle of ``V^H V``: the compact
    form of Schreiber and Van Loan (1989), as a solution instead of a recurrence.
    """
    count = tau.shape[-1]
    if not count:
        return target + A * 0 if A.shape == target.shape else target.clone()
    vectors = A[..., :, :count].tril(-1) + eye(A.shape[-2], count, dtype=A.dtype, device=A.device)
    factors = tau.unsqueeze(-1)
    triangle = factors * (adjoint(vectors) @ vectors).triu(1)
    inner = adjoint(vectors) @ target
    if turned:
        inner = adjoint(tau.unsqueeze(-2)) * solve_triangular(adjoint(triangle), inner, upper=False, unitriangular=True)
    else:
        inner = solve_triangular(triangle, factors * inner, upper=True, unitriangular=True)
    return target - vectors @ inner


@operation("composite")
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """As :func:`torch.linalg.householder_product`."""
    return householder_product(input, input2, out=out)


@operation("composite", title="OrmqrBackward0")
def ormqr(
    input: Tensor, input2: Tensor, input3: Tensor, left: bool = True, transpose: bool = False, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``Q input3`` (or ``input3 Q``, with Q transposed on request) of the reflections packed in ``input`` and ``input2``.

    Raises:
        RuntimeError: sizes that do not fit.
    """
    tau, other = input2, input3
    if input.ndim < 2 or other.ndim < 2:
        raise RuntimeError("torch.ormqr: input must have at least 2 dimensions.")
    if other.shape[-2 if left else -1] != input.shape[-2]:
        raise RuntimeError(f"torch.ormqr: other.shape[{-2 if left else -1}] must be equal to input.shape[-2]")
    if not left:
        # other Q = (Q^H other^H)^H.
        found = adjoint(_reflected(input, tau, adjoint(other), turned=not transpose))
    else:
        found = _reflected(input, tau, other, turned=transpose)
    return into(by_columns(found), out, True)
