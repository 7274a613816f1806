"""torch.linalg and the matrix functions of torch against PyTorch, with first and second gradients."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch_core as core
from ops_oracle import check, sample, to_ours, to_torch

pytestmark = pytest.mark.filterwarnings("ignore::webgpu_torch_core.operations.host_algorithms.HostFallbackWarning")


def square(*batch: int, size: int = 4, seed: int = 0) -> torch.Tensor:
    """Return well-conditioned matrices with distinct singular values."""
    noise = sample((*batch, size, size), torch.float32, seed, -0.5, 0.5)
    return noise + torch.diag(torch.arange(1.0, size + 1) * torch.tensor([1.0, -1.0] * size)[:size])


def positive(*batch: int, size: int = 4) -> torch.Tensor:
    """Return positive-definite matrices."""
    matrix = square(*batch, size=size)
    return matrix @ matrix.mT + torch.eye(size)


def tall(*shape: int, seed: int = 0) -> torch.Tensor:
    return sample(shape, torch.float32, seed, -1.0, 1.0) + torch.eye(*shape[-2:]) * torch.arange(1.0, shape[-1] + 1)


def symmetric(A: Any) -> Any:
    return (A + A.mT) / 2


def absolute(results: Any) -> tuple[Any, ...]:
    """Return what does not depend on the signs of vectors, which LAPACKs choose differently."""
    return tuple(each.abs() for each in results)


#: name, function, operands, whether the second gradient is compared
CASES: list[tuple[str, Callable[..., Any], list[Any], bool]] = [
    ("cholesky", lambda t, a: t.linalg.cholesky(symmetric(a)), [positive(2)], True),
    ("cholesky upper", lambda t, a: t.linalg.cholesky(symmetric(a), upper=True), [positive()], True),
    ("cholesky_ex", lambda t, a: t.linalg.cholesky_ex(a), [positive(2)], False),
    ("cholesky_solve", lambda t, b, a: t.cholesky_solve(b, a.tril()), [tall(4, 2), positive()], True),
    ("cholesky_inverse", lambda t, a: t.cholesky_inverse(a.tril()), [positive()], False),
    ("inv", lambda t, a: t.linalg.inv(a), [square(2)], True),
    ("inverse", lambda t, a: a.inverse(), [square()], False),
    ("inv_ex singular", lambda t, a: t.linalg.inv_ex(a).info, [torch.zeros(2, 3, 3)], False),
    ("solve", lambda t, a, b: t.linalg.solve(a, b), [square(2), tall(2, 4, 3)], True),
    ("solve vector", lambda t, a, b: t.linalg.solve(a, b), [square(), tall(4, 4)[0]], True),
    ("solve batch", lambda t, a, b: t.linalg.solve(a, b), [square(), tall(3, 4, 2)], False),
    ("solve right", lambda t, a, b: t.linalg.solve(a, b, left=False), [square(), tall(3, 4)], False),
    ("solve_triangular", lambda t, a, b: t.linalg.solve_triangular(a, b, upper=True), [square(2), tall(4, 2)], True),
    (
        "solve_triangular unit",
        lambda t, a, b: t.linalg.solve_triangular(a, b, upper=False, left=False, unitriangular=True),
        [square(), tall(3, 4)],
        True,
    ),

    ("det", lambda t, a: t.det(a), [square(3)], True),
    ("slogdet", lambda t, a: t.linalg.slogdet(a), [square(3)], True),
    ("logdet", lambda t, a: t.logdet(a), [positive(2)], True),
    ("qr", lambda t, a: t.linalg.qr(a), [tall(2, 5, 3)], True),
    ("qr wide", lambda t, a: t.linalg.qr(a), [tall(3, 5)], True),
    ("qr complete", lambda t, a: t.linalg.qr(a.detach(), mode="complete"), [tall(5, 3)], False),
    ("geqrf", lambda t, a: t.geqrf(a.detach()), [tall(2, 5, 3)], False),
    ("svd", lambda t, a: absolute(t.linalg.svd(a, full_matrices=False)), [tall(2, 5, 3)], True),
    ("svd wide", lambda t, a: absolute(t.svd(a)), [tall(3, 5)], True),
    ("svdvals", lambda t, a: t.linalg.svdvals(a), [tall(5, 3)], True),
    ("eigh", lambda t, a: absolute(t.linalg.eigh(symmetric(a))), [square(2)], True),
    ("eigvalsh", lambda t, a: t.linalg.eigvalsh(a, UPLO="U"), [positive()], True),
    ("lu", lambda t, a: t.linalg.lu(a), [square(2)], True),
    ("lu tall", lambda t, a: t.linalg.lu(a), [tall(5, 3)], True),
    ("lu wide", lambda t, a: t.linalg.lu(a), [tall(3, 5)], True),
    ("lu_factor", lambda t, a: t.linalg.lu_factor(a), [square(2)], False),
    ("lu_solve", lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b, adjoint=True), [square(), tall(4, 2)], True),
    ("lu_unpack", lambda t, a: t.lu_unpack(*t.linalg.lu_factor(a)), [square(2)], False),
    ("ldl", lambda t, a: t.linalg.ldl_factor(a.detach()), [square(2) + square(2).mT], False),
    ("ldl_solve", lambda t, a, b: t.linalg.ldl_solve(*t.linalg.ldl_factor(a.detach()), b.detach()),
     [square() + square().mT - 4 * torch.eye(4).flip(0), tall(4, 2)], False),
    ("lstsq", lambda t, a, b: t.linalg.lstsq(a, b).solution, [tall(5, 3), tall(5, 2, seed=3)], True),
    ("pinv", lambda t, a: t.linalg.pinv(a), [tall(2, 5, 3)], True),
    ("pinv hermitian", lambda t, a: t.linalg.pinv(symmetric(a), hermitian=True), [positive()], False),
    ("matrix_rank", lambda t, a: t.linalg.matrix_rank(a), [torch.arange(24.0).reshape(2, 3, 4)], False),
    ("matrix_power", lambda t, a: t.linalg.matrix_power(a, 5), [square(2) / 3], True),
    ("matrix_power inverse", lambda t, a: a.matrix_power(-3), [square()], False),
    ("matrix_exp", lambda t, a: t.linalg.matrix_exp(a), [square(2) / 3], True),
    ("norm nuc", lambda t, a: t.linalg.norm(a, "nuc"), [tall(4, 3)], False),
    ("norm 2", lambda t, a: t.linalg.matrix_norm(a, 2, keepdim=True), [tall(2, 4, 3)], False),
    ("norm -1", lambda t, a: t.linalg.matrix_norm(a, -1), [tall(2, 4, 3)], False),
    ("norm inf", lambda t, a: t.linalg.norm(a, float("inf"), dim=(0, 2)), [tall(2, 4, 3)], False),
    ("cond", lambda t, a: t.linalg.cond(a), [square(2)], False),
    ("cond 1", lambda t, a: t.linalg.cond(a.detach(), 1), [square(2)], False),
    ("multi_dot", lambda t, a, b, c: t.linalg.multi_dot([a, b, c]), [tall(4, 3), tall(3, 5), tall(5, 2)], True),
    ("householder", lambda t, a, b: t.linalg.householder_product(a, b), [tall(5, 3), tall(3, 3)[0]], True),
    ("ormqr", lambda t, a, b, c: t.ormqr(a, b, c, transpose=True), [tall(5, 3), tall(3, 3)[0], tall(5, 2)], False),
    ("tensorinv", lambda t, a: t.linalg.tensorinv(a.reshape(2, 3, 6)), [square(size=6)], False),
    ("tensorsolve", lambda t, a, b: t.linalg.tensorsolve(a.reshape(2, 3, 6), b), [square(size=6), tall(2, 3)], False),
    ("vander", lambda t, a: t.linalg.vander(a[0]), [tall(4, 4)], False),
    ("vecdot", lambda t, a, b: t.linalg.vecdot(a, b, dim=0), [tall(4, 3), tall(4, 3, seed=2)], True),
    ("matmul", lambda t, a, b: t.linalg.matmul(a, b), [tall(4, 3), tall(3, 2)], False),
    ("ger", lambda t, a, b: t.ger(a[0], b[0]), [tall(4, 3), tall(3, 2)], False),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_against_the_oracle(case: tuple[str, Callable[..., Any], list[Any], bool], device: str) -> None:
    name, function, operands, second = case
    if device == "cpu":
        # Second gradients cancel much: PyTorch's own tolerances hold in double precision.
        operands = [each.double() for each in operands]
    gradient = device == "cpu" or name in ("cholesky", "solve", "svd", "lu")
    second = second and device == "cpu"
    assert check(function, operands, device, gradient=gradient, second=second, where=name), "the oracle refuses"


EMPTY = [
    ("inv", lambda t, a: t.linalg.inv(a), (0, 0)),
    ("inv", lambda t, a: t.linalg.inv(a), (0, 3, 3)),
    ("det", lambda t, a: t.linalg.det(a), (2, 0, 0)),
    ("cholesky", lambda t, a: t.linalg.cholesky(a), (2, 0, 0)),
    ("svd", lambda t, a: t.linalg.svd(a, full_matrices=False), (0, 3)),
    ("qr", lambda t, a: t.linalg.qr(a), (3, 0)),
    ("eigh", lambda t, a: t.linalg.eigh(a), (0, 3, 3)),
    ("lu", lambda t, a: t.linalg.lu(a), (3, 0)),
    ("pinv", lambda t, a: t.linalg.pinv(a), (0, 3)),
    ("matrix_exp", lambda t, a: t.linalg.matrix_exp(a), (0, 0)),
]


@pytest.mark.parametrize(("name", "function", "shape"), EMPTY, ids=[f"{name} {shape}" for name, _, shape in EMPTY])
def test_no_elements(name: str, function: Callable[..., Any], shape: tuple[int, ...], device: str) -> None:
    assert check(function, [torch.zeros(shape)], device, gradient=False, where=name)


@pytest.mark.parametrize(
    ("function", "operand", "words"),
    [
        (lambda t, a: t.linalg.inv(a), torch.zeros(3, 3), "singular"),
        (lambda t, a: t.linalg.inv(a), torch.zeros(2, 3), "square"),
        (lambda t, a: t.linalg.solve(a, a), torch.zeros(2, 3, 3), r"\(Batch element 0\)"),
        (lambda t, a: t.linalg.cholesky(a), -torch.eye(3), "leading minor of order 1"),
        (lambda t, a: t.linalg.svd(a), torch.zeros(3), "at least 2 dimensions"),
        (lambda t, a: t.linalg.qr(a), torch.zeros(3, 3, dtype=torch.int64), "floating point"),
        (lambda t, a: t.linalg.qr(a, mode="full"), torch.zeros(3, 3), "unrecognized mode"),
        (lambda t, a: t.linalg.solve(a, a[:2]), torch.eye(3), "Incompatible shapes"),
    ],
)
def test_errors(function: Callable[..., Any], operand: torch.Tensor, words: str, device: str) -> None:
    with pytest.raises(RuntimeError, match=words) as expected:
        function(torch, operand)
    with pytest.raises(RuntimeError, match=words) as found:
        function(core, to_ours(operand, device))
    assert isinstance(expected.value, torch.linalg.LinAlgError) == isinstance(found.value, core.linalg.LinAlgError)


def test_gradient_of_a_determinant_that_is_zero(device: str) -> None:
    """Cofactors exist at singular matrices."""
    matrix = to_ours(torch.arange(9.0).reshape(3, 3), device).requires_grad_()
    core.linalg.det(matrix).backward()
    expected = torch.tensor([[-3.0, 6.0, -3.0], [6.0, -12.0, 6.0], [-3.0, 6.0, -3.0]])
    torch.testing.assert_close(to_torch(matrix.grad), expected)


def test_large_matrices_by_blocks() -> None:
    """Blocked elimination gives factors of the matrix, pivots as LAPACK's, and solutions."""
    matrix = sample((150, 150), torch.float64, 5)
    packed, pivots = core.linalg.lu_factor(to_ours(matrix, "cpu"))
    expected, exchanges = torch.linalg.lu_factor(matrix)
    torch.testing.assert_close(to_torch(packed), expected)
    torch.testing.assert_close(to_torch(pivots), exchanges)
    triangle = matrix.tril() + 20 * torch.eye(150, dtype=torch.float64)
    right = sample((150, 3), torch.float64, 6)
    for upper in (False, True):
        source = triangle.mT.contiguous() if upper else triangle
        found = core.linalg.solve_triangular(to_ours(source, "cpu"), to_ours(right, "cpu"), upper=upper)
        torch.testing.assert_close(to_torch(found), torch.linalg.solve_triangular(source, right, upper=upper))


def test_hermitian_indefinite_factors() -> None:
    torch.manual_seed(2)
    for size in (1, 2, 5, 9):
        half = torch.randn(size, size, dtype=torch.complex64)
        for matrix, hermitian in ((half + half.mH, True), (half + half.mT, False)):
            found = core.linalg.ldl_factor(core.tensor(matrix.tolist()), hermitian=hermitian)
            expected = torch.linalg.ldl_factor(matrix, hermitian=hermitian)
            assert found.pivots.tolist() == expected.pivots.tolist()
            lower = torch.tensor(found.LD.tolist()).tril()
            torch.testing.assert_close(lower, expected.LD.tril(), rtol=1e-4, atol=1e-5)


def test_low_rank_approximations() -> None:
    core.manual_seed(0)
    matrix = core.randn(20, 3) @ core.randn(3, 12)
    U, S, V = core.svd_lowrank(matrix, q=3)
    rebuilt = (U * S) @ V.mT
    assert float((rebuilt - matrix).abs().max()) < 1e-4
    _, values, _ = core.pca_lowrank(matrix, q=3)
    exact = core.linalg.svdvals(matrix - matrix.mean(0))[:3]
    assert float((values - exact).abs().max()) < 1e-3


def test_factors_of_integer_sums_are_truncated(device: str) -> None:
    left, right = torch.arange(6).reshape(2, 3), torch.arange(12).reshape(3, 4)
    batch = [left.expand(2, 2, 3), right.expand(2, 3, 4)]
    added = torch.ones(2, 4, dtype=torch.int64)
    check(lambda t, a, b, c: t.addmm(a, b, c, beta=2.7, alpha=1.6), [added, left, right], device, where="addmm")
    check(lambda t, a, b, c: t.addbmm(a, b, c, beta=0.7, alpha=2.6), [added, *batch], device, where="addbmm")
    check(lambda t, a, b, c: t.addmv(a, b, c, alpha=0.6), [added[:, 0], left, right[:, 0]], device, where="addmv")
    with pytest.raises(RuntimeError, match="argument beta must not be a floating point number"):
        core.addr(to_ours(added, device), to_ours(left[:, 0], device), to_ours(right[0], device), beta=0.5)


def test_norms_of_16_bit_numbers_do_not_overflow(device: str) -> None:
    numbers = torch.tensor([30.0, -40.0, 20.0], dtype=torch.float16)
    check(lambda t, a: t.linalg.vector_norm(a, 6), [numbers], device, gradient=False, where="6-norm")
    check(lambda t, a: t.linalg.vector_norm(a, -0.5), [numbers], device, gradient=False, where="-0.5-norm")


#: what LAPACK leaves by columns, of matrices and a right-hand side
BY_COLUMNS: dict[str, Callable[..., Any]] = {
    "inv": lambda t, a, b: t.linalg.inv(a),
    "solve": lambda t, a, b: t.linalg.solve(a, b),
    "solve from the right": lambda t, a, b: t.linalg.solve(a, b.mT, left=False),
    "solve of vectors": lambda t, a, b: t.linalg.solve(a, b[..., 0]),
    "solve_triangular": lambda t, a, b: t.linalg.solve_triangular(a, b, upper=True),
    "svd": lambda t, a, b: t.linalg.svd(a),
    "svd of tall": lambda t, a, b: t.linalg.svd(b, full_matrices=False),
    "eigh": lambda t, a, b: t.linalg.eigh(a + a.mH),
    "eig": lambda t, a, b: t.linalg.eig(a),
    "cholesky": lambda t, a, b: t.linalg.cholesky(a @ a.mH),
    "cholesky upper": lambda t, a, b: t.linalg.cholesky(a @ a.mH, upper=True),
    "cholesky_solve": lambda t, a, b: t.cholesky_solve(b, a),
    "cholesky_inverse": lambda t, a, b: t.cholesky_inverse(a),
    "lu": lambda t, a, b: t.linalg.lu(a),
    "lu_factor": lambda t, a, b: t.linalg.lu_factor(a),
    "lu_solve": lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b),
    "lu_solve adjoint": lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b, adjoint=True),
    "qr": lambda t, a, b: t.linalg.qr(b),
    "geqrf": lambda t, a, b: t.geqrf(b),
    "householder_product": lambda t, a, b: t.linalg.householder_product(b, b[..., 0, :]),
    "ormqr": lambda t, a, b: t.ormqr(a, a[..., 0], b),
    "ldl_factor": lambda t, a, b: t.linalg.ldl_factor(a @ a.mH),
    "lstsq": lambda t, a, b: t.linalg.lstsq(b, a),
    "lstsq of few rows": lambda t, a, b: t.linalg.lstsq(b.mT, b.mT, driver="gelsd"),
    "matrix_power": lambda t, a, b: t.linalg.matrix_power(a.mT, 1),
    "pinv": lambda t, a, b: t.linalg.pinv(b),
}


@pytest.mark.parametrize("batch", [(), (2,), (0,)])
@pytest.mark.parametrize("kind", [torch.float32, torch.complex64])
@pytest.mark.parametrize("name", BY_COLUMNS)
def test_how_matrices_lie(name: str, kind: torch.dtype, batch: tuple[int, ...]) -> None:
    a, b = square(*batch).to(kind), tall(*batch, 4, 2).to(kind)
    wanted = BY_COLUMNS[name](torch, a, b)
    found = BY_COLUMNS[name](core, to_ours(a, "cpu"), to_ours(b, "cpu"))
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    for have, want in pairs:
        assert tuple(have.shape) == tuple(want.shape)
        assert have.stride() == want.stride()
        assert have._is_view() == want._is_view()


@pytest.mark.parametrize("count", [None, 0, 1, 3])
@pytest.mark.parametrize("values", [[0j, 1 + 1j, 2 + 0j], [0, 3, 2], [True, False], [0.0, float("inf")]], ids=str)
def test_powers_of_zero(values: list[complex], count: int | None) -> None:
    wanted = torch.vander(torch.tensor(values), count)
    found = core.vander(core.tensor(values), count)
    assert str(found.dtype) == str(wanted.dtype)
    torch.testing.assert_close(to_torch(found), wanted)


@pytest.mark.parametrize("order", [None, 2, "fro"])
@pytest.mark.parametrize("dims", [(), (0,), (0, 1), (0, 1, 2)])
def test_dimensions_of_norms(dims: tuple[int, ...], order: object) -> None:
    given = square(2)
    try:
        wanted = torch.linalg.norm(given, order, dims)
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match=re.escape(str(error))):
            core.linalg.norm(to_ours(given, "cpu"), order, dims)
        return
    torch.testing.assert_close(to_torch(core.linalg.norm(to_ours(given, "cpu"), order, dims)), wanted)
