"""Errors whose words programs and people look for: type and text are PyTorch's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours

NAN = float("nan")


def _matrix(t: Any) -> Any:
    return t.tensor([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]])


def _batch(t: Any) -> Any:
    """Return a matrix, and one of NaN."""
    return t.stack([_matrix(t), _matrix(t) * NAN])


MATRICES: dict[str, Callable[[Any], Any]] = {
    "cholesky of nan": lambda t: t.linalg.cholesky(_matrix(t) * NAN),
    "cholesky of nan in the middle": lambda t: t.linalg.cholesky(_matrix(t) + t.diag(t.tensor([0.0, NAN, 0.0]))),
    "cholesky of a batch with nan": lambda t: t.linalg.cholesky(_batch(t)),
    "svd of nan": lambda t: t.linalg.svd(_matrix(t) * NAN),
    "svdvals of a batch with nan": lambda t: t.linalg.svdvals(_batch(t)),
    "pinv of nan": lambda t: t.linalg.pinv(_matrix(t) * NAN),
    "eigh of nan": lambda t: t.linalg.eigh(_matrix(t) * NAN),
    "eig of nan": lambda t: t.linalg.eig(_matrix(t) * NAN),
    "eigvalsh of a rectangle": lambda t: t.linalg.eigvalsh(t.ones(2, 3)),
    "eigvalsh of a vector": lambda t: t.linalg.eigvalsh(t.ones(2)),
    "lu of a vector": lambda t: t.linalg.lu(t.ones(3)),
    "lu_factor of a vector": lambda t: t.linalg.lu_factor(t.ones(3)),
    "pinv of a vector": lambda t: t.linalg.pinv(t.ones(3)),
    "pinv of integers": lambda t: t.linalg.pinv(t.ones(3, 3).long()),
    "pinv of a rectangle said to be hermitian": lambda t: t.linalg.pinv(t.ones(2, 3), hermitian=True),
    "matrix_rank of a vector": lambda t: t.linalg.matrix_rank(t.ones(3)),
    "matrix_rank of halves": lambda t: t.linalg.matrix_rank(t.ones(3, 3).half()),
    "matrix_rank of integers with a bound": lambda t: t.linalg.matrix_rank(t.ones(3, 3).int(), tol=0.1),
    "cond of integers": lambda t: t.linalg.cond(t.ones(3, 3).int()),
    "cond of integers by sums": lambda t: t.linalg.cond(t.ones(3, 3).int(), 1),
    "matrix_norm of integers": lambda t: t.linalg.matrix_norm(t.ones(3, 3).int(), 2),
    "lstsq of two types": lambda t: t.linalg.lstsq(t.eye(3), t.ones(3).double()),
    "lstsq of integers": lambda t: t.linalg.lstsq(t.eye(3).int(), t.ones(3).int()),
    "lstsq of a vector": lambda t: t.linalg.lstsq(t.ones(3), t.ones(3)),
    "ldl_factor of halves": lambda t: t.linalg.ldl_factor(t.eye(3).half()),
    "solve_triangular of integers": lambda t: t.linalg.solve_triangular(t.eye(3).long(), t.eye(3).long(), upper=True),
    "solve of other batches": lambda t: t.linalg.solve(t.eye(3).repeat(2, 1, 1), t.ones(3, 3, 1)),
    "solve_triangular of other batches": lambda t: t.linalg.solve_triangular(
        t.eye(3).repeat(2, 1, 1), t.ones(3, 3, 1), upper=True
    ),
    "householder_product by a matrix": lambda t: t.linalg.householder_product(t.eye(3), t.ones(3, 1)),
    "householder_product of a vector": lambda t: t.linalg.householder_product(t.ones(3), t.ones(1)),
    "vecdot of two types": lambda t: t.linalg.vecdot(t.ones(3), t.ones(3).double()),
    "vander of halves": lambda t: t.linalg.vander(t.ones(3).half()),
    "tensorinv of a vector": lambda t: t.linalg.tensorinv(t.ones(3)),
    "multi_dot of a tensor": lambda t: t.linalg.multi_dot(t.ones(2, 2, 2)),
    "a fraction for a power": lambda t: t.linalg.matrix_power(t.eye(2), 1.5),
}

TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "dimensions for one": lambda t: t.fft.fft(t.ones(3), dim=(0, 0)),
    "a size for two": lambda t: t.fft.fft2(t.ones(3, 3), n=3),
    "fft2 of a number": lambda t: t.fft.fft2(t.tensor(1.0)),
    "fftn along a dimension of none": lambda t: t.fft.fftn(t.tensor(1.0), dim=(0,)),
    "fftshift of a number": lambda t: t.fft.fftshift(t.tensor(1.0)),
    "fftfreq of integers": lambda t: t.fft.fftfreq(4, dtype=t.int32),
    "rfftfreq of truth values": lambda t: t.fft.rfftfreq(4, dtype=t.bool),
    "fftfreq of complex numbers": lambda t: t.fft.fftfreq(4, dtype=t.complex64),
    "fftfreq into integers": lambda t: t.fft.fftfreq(4, out=t.empty(4, dtype=t.int32)),
}


def _old(t: Any) -> Any:
    """Return a function of a user's that has neither rule nor leave for batches."""

    class Doubled(t.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * 2

    return Doubled.apply


def _cleared(value: Any, mask: Any) -> Any:
    """Return a copy with zeros where a mask is true."""
    value = value.clone()
    value[mask] = 0.0
    return value


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "backward inside of grad": lambda t: t.func.grad(lambda x: x.sum().backward())(t.ones(3)),
    "backward inside of vmap": lambda t: t.func.vmap(lambda x: x.sum().backward())(t.ones(2, 3, requires_grad=True)),
    "backward inside of jvp": lambda t: t.func.jvp(lambda x: t.autograd.backward(x.sum()), (t.ones(3),), (t.ones(3),)),
    "masks of examples": lambda t: t.func.vmap(lambda x: x[x > 0])(t.ones(2, 3)),
    "masks of examples for one tensor": lambda t: t.func.vmap(lambda m: t.ones(3)[m])(t.ones(2, 3) > 0),
    "writes by masks of examples": lambda t: t.func.vmap(lambda x: _cleared(x, x > 0))(t.ones(2, 3)),
    "a tangent of another size": lambda t: t.func.jvp(t.sin, (t.ones(3),), (t.ones(2),)),
    "a number for a tensor": lambda t: t.func.grad(lambda x: x * 2)(3.0),
    "cotangents of another structure": lambda t: t.func.vjp(lambda x: {"a": x, "b": [x, x]}, t.ones(2))[1](t.ones(2)),
    "float of an example": lambda t: t.func.vmap(lambda x: x * float(x[0]))(t.ones(2, 3)),
    "range of an example": lambda t: t.func.vmap(lambda x: sum(range(x)))(t.ones(2).long()),
    "a function without a rule": lambda t: t.func.vmap(_old(t))(t.ones(2, 3)),
    "statistics of a batch of batches": lambda t: t.func.vmap(
        lambda x: t.nn.functional.batch_norm(x, t.zeros(3), t.ones(3), training=True)
    )(t.ones(2, 4, 3)),
}


def _grid(t: Any, *shape: int) -> Any:
    return t.nn.functional.grid_sample(t.ones(shape), t.zeros(1, 1, 1, 2), align_corners=False)


def _leaf(t: Any) -> Any:
    return t.tensor([-1.0, 1.0], requires_grad=True)


LAYERS: dict[str, Callable[[Any], Any]] = {
    "a grid for an image without examples": lambda t: _grid(t, 1, 2, 2),
    "a grid for a number": lambda t: _grid(t),
    "a grid for an image without places": lambda t: _grid(t, 1, 1, 0, 2),
    "a grid of volumes": lambda t: t.grid_sampler_2d(t.ones(1, 1, 2, 2, 2), t.zeros(1, 1, 1, 1, 3), 0, 0, True),
    "a grid of other batches": lambda t: t.grid_sampler_3d(t.ones(5, 5, 5, 5), t.zeros(1, 1, 4, 4), 0, 0, True),
    "backward of elu_ downwards": lambda t: t.nn.functional.elu_(_leaf(t) * 1, -2.0).sum().backward(),
    "backward of celu_ downwards": lambda t: t.nn.functional.celu_(_leaf(t) * 1, -2.0).sum().backward(),
    "backward of leaky_relu_ downwards": lambda t: t.nn.functional.leaky_relu_(_leaf(t) * 1, -2.0).sum().backward(),
    "masked_fill_ by a part of itself": lambda t: (m := t.ones(3) > 0)[1:].masked_fill_(m[:-1], False),
    "masked_fill_ by itself turned": lambda t: (m := t.ones(3, 3) > 0).masked_fill_(m.t(), False),
}

COMPLEX: dict[str, Callable[[Any], Any]] = {
    "integers of a complex type": lambda t: t.randint(3, (2,), dtype=t.complex64),
    "arange to an imaginary end": lambda t: t.arange(0, 3j),
    "dropout of complex numbers": lambda t: t.nn.functional.dropout(t.ones(4, dtype=t.complex64), 0.5),
}

ATTRIBUTES: dict[str, Callable[[Any], Any]] = {
    "data deleted": lambda t: delattr(t.ones(2), "data"),
    "requires_grad deleted": lambda t: delattr(t.ones(2), "requires_grad"),
}

TABLES = {
    "attributes": ATTRIBUTES,
    "complex": COMPLEX,
    "layers": LAYERS,
    "matrices": MATRICES,
    "transforms": TRANSFORMS,
    "functions": FUNCTIONS,
}
CASES = [(family, name) for family, table in TABLES.items() for name in table]


def refusal(library: Any, call: Callable[[Any], Any]) -> tuple[str, str]:
    """Return the type and the text of what a call raises, ("", "") if it raises nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call(library)
        except Exception as error:
            return type(error).__name__, str(error)
    return "", ""


@pytest.mark.parametrize(("family", "name"), CASES, ids=[f"{family}: {name}" for family, name in CASES])
def test_words_of_errors(family: str, name: str) -> None:
    call = TABLES[family][name]
    expected = refusal(torch, call)
    assert expected[0]
    kind, text = refusal(ours, call)
    assert (kind.lstrip("_"), text) == (expected[0].lstrip("_"), expected[1])


def test_what_is_not_a_number_has_no_sign() -> None:
    for library in (ours, torch):
        assert library.linalg.slogdet(_matrix(library) * NAN).sign == 0
        assert library.linalg.cholesky_ex(_batch(library)).info.tolist() == [0, 1]
        assert library.fft.fftfreq(0).tolist() == []
        assert library.fft.rfftfreq(0).isnan().all()
