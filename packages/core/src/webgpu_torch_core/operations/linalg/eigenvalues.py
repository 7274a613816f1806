"""Singular values and eigenvalues."""

from __future__ import annotations

from typing import Any

from ...dispatch.registry import operation
from ...tensors.tensor import Tensor
from ..common import attach, needs_gradient
from ..host_algorithms import host_call
from ..outputs import into
from ..return_types import make
from .common import adjoint, batch_shape, real_of, require_matrix, require_square
from .factorizations import qr
from .solving import solve


def _sizes(A: Tensor, full: bool) -> tuple[tuple[int, ...], ...]:
    batch, (rows, columns) = batch_shape(A), A.shape[-2:]
    least = min(rows, columns)
    return (
        (*batch, rows, rows if full else least), (*batch, least), (*batch, columns if full else least, columns),
    )  # fmt: skip


def _svd(A: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    found = host_call("svd", (A,), _sizes(A, full), (A.dtype, A.dtype.to_real(), A.dtype), (0, 2), full=full)
    U, S, Vh = found
    if needs_gradient(A):
        count, saved, kept = S.shape[-1], A._save(), [each._save_result(number) for number, each in enumerate(found)]

        def run_backward(gU: Any, gS: Any, gVh: Any) -> Any:
            A = saved.unpack()
            # The vectors beyond the rank are not unique: only the first ones have a gradient.
            gU = gU if gU is None else gU[..., :count]
            gVh = gVh if gVh is None else gVh[..., :count, :]
            # Of the recomputed factors, so that the gradient has a gradient.
            u, s, vh = _svd(A, False) if needs_gradient(A, gU, gS, gVh) else (each.unpack() for each in kept)
            u, vh = u[..., :count], vh[..., :count, :]
            return _svd_gradient(u, s, vh, gU, gS, gVh)

        attach((U, S, Vh), "LinalgSvdBackward0", (A,), run_backward)
    return U, S, Vh


def _svd_gradient(U: Tensor, S: Tensor, Vh: Tensor, gU: Any, gS: Any, gVh: Any) -> Tensor:
    """The gradient for distinct singular values (Townsend, "Differentiating the singular value decomposition", 2016)."""
    count = S.shape[-1]
    middle = None if gS is None else gS.to(U.dtype).diag_embed()
    if gU is not None or gVh is not None:
        square = S * S
        gap = square.unsqueeze(-2) - square.unsqueeze(-1)
        gap = (gap + gap.new_ones(count).diag_embed()).to(U.dtype)
        values = S.to(U.dtype)
        if gU is not None:
            skew = adjoint(U) @ gU
            skew = skew - adjoint(skew)
            part = (skew / gap) * values.unsqueeze(-2)
            if U.dtype.is_complex:
                # The phase of a pair of vectors: of a loss that does not depend on it, U's part tells all.
                turn = skew.diagonal(0, -2, -1)
                part = part + (turn / (2 * values) - turn * values).diag_embed()
            middle = part if middle is None else middle + part
        if gVh is not None:
            skew = Vh @ adjoint(gVh)
            skew = skew - adjoint(skew)
            skew = skew - skew.diagonal(0, -2, -1).diag_embed()
            part = values.unsqueeze(-1) * (skew / gap)
            middle = part if middle is None else middle + part
    result = U @ middle @ Vh if middle is not None else (U * 0) @ Vh
    if gU is not None and U.shape[-2] > count:
        scaled = gU / S.to(U.dtype).unsqueeze(-2)
        result = result + (scaled - U @ (adjoint(U) @ scaled)) @ Vh
    if gVh is not None and Vh.shape[-1] > count:
        scaled = gVh / S.to(U.dtype).unsqueeze(-1)
        result = result + U @ (scaled - (scaled @ adjoint(Vh)) @ Vh)
    return result


@operation("composite", namespace="linalg", method=False)
def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None, out: Any = None) -> Any:
    """``A = U diag(S) Vh`` with orthonormal U and Vh and S from the largest down."""
    require_matrix("linalg.svd", A)
    U, S, Vh = _svd(A, full_matrices)
    return into(make("linalg_svd", U=U, S=S, Vh=Vh), out)


@operation("composite", namespace="linalg", method=False)
def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:
    """Singular values, from the largest down.

    Raises:
        RuntimeError: a driver is named; there is one way to compute them.
    """
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )
    require_matrix("linalg.svd", A)
    if needs_gradient(A):
        return into(_svd(A, False)[1], out, True)
    (values,) = host_call("svdvals", (A,), (_sizes(A, False)[1],), (A.dtype.to_real(),))
    return into(values, out, True)


@operation("composite", name="svd")
def svd_of_torch(input: Tensor, some: bool = True, compute_uv: bool = True, *, out: Any = None) -> Any:
    """``input = U diag(S) V^H``; without ``compute_uv`` U and V are zero."""
    require_matrix("torch.svd", input, "input")
    if not compute_uv:
        values = svdvals(input)
        rows, columns = input.shape[-2:]
        batch = batch_shape(input)
        U, V = input.new_zeros((*batch, rows, rows)), input.new_zeros((*batch, columns, columns))
        return into(make("svd", U=U, S=values, V=V), out)
    U, S, Vh = _svd(input, not some)
    return into(make("svd", U=U, S=S, V=adjoint(Vh)), out)


def spectral(A: Tensor, hermitian: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return singular vectors and values, of Hermitian matrices from their eigenvalues."""
    if not hermitian:
        return _svd(A, False)
    values, vectors = _eigh(A, False)
    sign = values.sign()
    return vectors * sign.unsqueeze(-2).to(A.dtype), values.abs(), adjoint(vectors)


def _eigh(A: Tensor, upper: bool) -> tuple[Tensor, Tensor]:
    shapes = (tuple(A.shape[:-1]), tuple(A.shape))
    values, vectors = host_call("eigh", (A,), shapes, (A.dtype.to_real(), A.dtype), (1,), upper=upper)
    if needs_gradient(A):
        saved, kept = A._save(), (values._save_result(), vectors._save_result(1))

        def run_backward(gL: Any, gV: Any) -> Any:
            A = saved.unpack()
            L, V = _eigh(A, upper) if needs_gradient(A, gL, gV) else (each.unpack() for each in kept)
            inner = None if gL is None else gL.to(V.dtype).diag_embed()
            if gV is not None:
                gap = L.unsqueeze(-2) - L.unsqueeze(-1)
                gap = (gap + gap.new_ones(L.shape[-1]).diag_embed()).to(V.dtype)
                turn = adjoint(V) @ gV
                turn = (turn - turn.diagonal(0, -2, -1).diag_embed()) / gap
                inner = turn if inner is None else inner + turn
            if inner is None:
                return None
            # One triangle stands for both.
            result = V @ inner @ adjoint(V)
            return (result + adjoint(result)) * 0.5

        attach((values, vectors), "LinalgEighBackward0", (A,), run_backward)
    return values, vectors


def _upper(UPLO: str, name: str) -> bool:
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    del name
    return UPLO.upper() == "U"


@operation("composite", namespace="linalg", method=False)
def eigh(A: Tensor, UPLO: str = "L", *, out: Any = None) -> Any:
    """Eigenvalues, ascending, and orthonormal eigenvectors of Hermitian matrices, of which one triangle is read."""
    require_square("linalg.eigh", A)
    values, vectors = _eigh(A, _upper(UPLO, "eigh"))
    return into(make("linalg_eigh", eigenvalues=values, eigenvectors=vectors), out)


@operation("composite", namespace="linalg", method=False)
def eigvalsh(A: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Tensor:
    """Eigenvalues of Hermitian matrices, ascending."""
    require_square("linalg.eigh", A)
    return into(_eigh(A, _upper(UPLO, "eigvalsh"))[0], out, True)


def _eig(A: Tensor) -> tuple[Tensor, Tensor]:
    shapes = (tuple(A.shape[:-1]), tuple(A.shape))
    kind = A.dtype.to_complex()
    values, vectors = host_call("eig", (A,), shapes, (kind, kind), (1,))
    if needs_gradient(A):
        saved, kept = A._save(), (values._save_result(), vectors._save_result(1))

        def run_backward(gL: Any, gV: Any) -> Any:
            A = saved.unpack()
            L, V = _eig(A) if needs_gradient(A, gL, gV) else (each.unpack() for each in kept)
            inner = None if gL is None else gL.diag_embed()
            if gV is not None:
                turn = adjoint(V) @ gV
                length = adjoint(V) @ (V * real_of(turn.diagonal(0, -2, -1)).unsqueeze(-2).to(V.dtype))
                gap = (L.unsqueeze(-2) - L.unsqueeze(-1)).conj()
                gap = gap + gap.new_ones(L.shape[-1]).diag_embed()
                part = (turn - length) / gap
                part = part - part.diagonal(0, -2, -1).diag_embed()
                inner = part if inner is None else inner + part
            if inner is None:
                return None
            result = solve(adjoint(V), inner @ adjoint(V))
            return result if A.dtype.is_complex else result.real

        attach((values, vectors), "LinalgEigBackward0", (A,), run_backward)
    return values, vectors


@operation("composite", namespace="linalg", method=False)
def eig(A: Tensor, *, out: Any = None) -> Any:
    """Complex eigenvalues and eigenvectors of square matrices."""
    require_square("linalg.eig", A)
    values, vectors = _eig(A)
    return into(make("linalg_eig", eigenvalues=values, eigenvectors=vectors), out)


@operation("composite", namespace="linalg", method=False)
def eigvals(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complex eigenvalues of square matrices."""
    require_square("linalg.eigvals", A)
    return into(_eig(A)[0], out)


def _basis(A: Tensor, q: int, niter: int, M: Tensor | None) -> Tensor:
    """Return orthonormal columns that span most of A's range (Halko et al., 2011, algorithm 4.4)."""
    shifted = A if M is None else A - M
    start = A.detach().new_empty((A.shape[-1], q)).normal_()
    basis = qr(shifted @ start).Q
    for _ in range(niter):
        basis = qr(adjoint(shifted) @ basis).Q
        basis = qr(shifted @ basis).Q
    return basis


@operation("composite", method=False)
def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """An approximate singular value decomposition of rank ``q`` by random projections: U, S, V."""
    rank = 6 if q is None else q
    rounds = 2 if niter is None else niter
    m, n = A.shape[-2:]
    if M is not None:
        M = M.broadcast_to(A.shape)
    wide = m < n
    if wide:
        A, M = adjoint(A), None if M is None else adjoint(M)
    Q = _basis(A, rank, rounds, M)
    B = adjoint(Q) @ (A if M is None else A - M)
    U, S, Vh = svd(B, full_matrices=False)
    V, U = adjoint(Vh), Q @ U
    return (V, S, U) if wide else (U, S, V)


@operation("composite", method=False)
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Principal components of rank ``q``, by :func:`svd_lowrank` of the (centered) matrix.

    Raises:
        ValueError: a rank outside of the matrix's, or a negative number of iterations.
    """
    m, n = A.shape[-2:]
    rank = min(6, m, n) if q is None else q
    if not 0 <= rank <= min(m, n):
        raise ValueError(f"q(={rank}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, rank, niter)
