"""Reductions against PyTorch: every choice of dimensions, empty and strided inputs, NaN, gradients."""

from __future__ import annotations

import math

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st
from ops_oracle import EVERY, TOLERANCES, both_raise, check, kind_of, sample, to_ours, to_torch

# PyTorch warns where var counts no degrees of freedom; the values are compared all the same.
pytestmark = pytest.mark.filterwarnings("ignore:.*degrees of freedom")

NAMES = (
    "sum",
    "mean",
    "prod",
    "all",
    "any",
    "count_nonzero",
    "amax",
    "amin",
    "std",
    "var",
    "logsumexp",
    "norm",
    "nansum",
    "nanmean",
)
SINGLE = ("max", "min", "argmax", "argmin", "softmax", "log_softmax", "median", "cumsum", "prod", "logsumexp")
DIMS = ((), (0,), (1,), (-1,), (0, 2), (0, 1, 2), (-1, 0))
SHAPES = ((2, 3, 4), (1, 3, 1), (2, 0, 3), (3, 1, 0))


def _call(t, name, x, *args, **kwargs):
    return getattr(t, name)(x, *args, **kwargs)


def _kinds(device):
    return [each for each in EVERY if kind_of(each, device) is not None]


SUPPORTED = [each for each in NAMES if each not in ("nansum", "nanmean")]


@pytest.mark.parametrize("dtype", EVERY)
@pytest.mark.parametrize("name", SUPPORTED)
def test_over_dimensions(name: str, dtype: str, device: str) -> None:
    kind = kind_of(dtype, device)
    if kind is None:
        pytest.skip("no such type on this device")
    extra = {"norm": (2,)}.get(name, ())
    for number, shape in enumerate(SHAPES):
        x = sample(shape, kind, number, 0.3, 2)
        if name in ("var", "std") and kind.is_floating_point:
            # Elements that differ clearly: a deviation of nearly nothing is rounding.
            x = (sample(shape, torch.float64, number, 0, 0.4) + torch.arange(x.numel()).reshape(shape) % 5).to(kind)
        if name not in ("logsumexp",):
            check(lambda t, a: _call(t, name, a), [x], device, where=f"{name}{shape} all")
        for dim in DIMS:
            if name == "prod" and len(dim) != 1:
                continue
            chosen = dim[0] if name == "prod" else dim
            for keepdim in (False, True):
                if name == "count_nonzero" and keepdim:
                    continue
                options = {} if name == "count_nonzero" else {"keepdim": keepdim}
                # PyTorch's gradient of var over () counts no elements and is infinite.
                gradient = name not in ("var", "std") or dim != ()
                check(
                    lambda t, a, o=options, d=chosen: _call(t, name, a, *extra, dim=d, **o),
                    [x],
                    device,
                    gradient=gradient,
                    where=f"{name}{shape}{dim}{keepdim}",
                )
    check(lambda t, a: _call(t, name, a, *extra, dim=0), [sample((), kind, 3, 0.3, 2)], device, where=f"{name} 0-d")
    strided = sample((4, 6), kind, 5, 0.3, 2)
    for view in (strided.t(), strided[1:, ::2], strided[:, :1].expand(4, 3)):
        check(lambda t, a: _call(t, name, a, *extra, dim=1), [view], device, where=f"{name} view {view.stride()}")
        check(
            lambda t, a: _call(t, name, a, *extra, dim=(0, -1) if name != "prod" else 0),
            [view],
            device,
            where=f"{name} view {view.stride()}",
        )


@pytest.mark.parametrize("dtype", EVERY)
@pytest.mark.parametrize("name", ("max", "min", "argmax", "argmin", "softmax", "log_softmax"))
def test_over_one_dimension(name: str, dtype: str, device: str) -> None:
    kind = kind_of(dtype, device)
    if kind is None:
        pytest.skip("no such type on this device")
    for number, shape in enumerate(((2, 3, 4), (5,), (), (2, 0, 3), (1, 6))):
        x = sample(shape, kind, number)
        if name in ("max", "min", "argmax", "argmin"):
            check(
                lambda t, a: _call(t, name, a),
                [x],
                device,
                where=f"{name}{shape} all",
                gradient=kind not in (torch.float16, torch.bfloat16),
            )
        for dim in range(-max(len(shape), 1), max(len(shape), 1)):
            check(lambda t, a, d=dim: _tuple(_call(t, name, a, dim=d)), [x], device, where=f"{name}{shape}{dim}")
            if "soft" not in name:
                check(
                    lambda t, a, d=dim: _tuple(_call(t, name, a, dim=d, keepdim=True)),
                    [x],
                    device,
                    where=f"{name}{shape}{dim} keepdim",
                )
    view = sample((4, 6), kind, 9)
    for each in (view.t(), view[1:, ::2]):
        check(lambda t, a: _tuple(_call(t, name, a, dim=1)), [each], device, where=f"{name} view")


def _tuple(value):
    return tuple(value) if isinstance(value, tuple) else value


SPECIALS = (
    [math.nan, 1.0, 2.0],
    [1.0, math.nan, -2.0],
    [math.inf, 1.0, -math.inf],
    [math.inf, math.inf, 1.0],
    [-math.inf] * 3,
    [0.0, 0.0, 0.0],
    [math.inf, 1.0, 2.0],
)


@pytest.mark.parametrize("name", (*SUPPORTED, "max", "min", "argmax", "argmin", "softmax", "log_softmax"))
def test_special_values(name: str, device: str) -> None:
    extra = {"norm": (2,)}.get(name, ())
    for dtype in ("float32", "float16", "bfloat16"):
        for values in SPECIALS:
            check(
                lambda t, a: _tuple(_call(t, name, a, *extra, dim=0)),
                [torch.tensor(values).to(kind_of(dtype, device))],
                device,
                gradient=False,
                where=f"{name}{values}",
            )


CASES = {
    "sum dtype": lambda t, x: t.sum(x, dtype=t.float32),
    "mean dtype": lambda t, x: x.mean(dtype=t.float32),
    "prod dtype": lambda t, x: x.prod(1, dtype=t.float32),
    "sum int": lambda t, x: x.sum(dtype=t.int32),
    "var 0": lambda t, x: x.var(1, correction=0),
    "var biased": lambda t, x: x.var(1, unbiased=False),
    "var all": lambda t, x: x.var(False),
    "std 2": lambda t, x: x.std((0, 1), correction=2, keepdim=True),
    "var_mean": lambda t, x: t.var_mean(x, 1),
    "std_mean": lambda t, x: t.std_mean(x, dim=(0, 2), keepdim=True),
    "aminmax": lambda t, x: tuple(t.aminmax(x, dim=1)),
    "max other": lambda t, x: t.max(x, x.flip(0)),
    "min other": lambda t, x: x.min(x * 0.5),
    "method all": lambda t, x: x.gt(0).all(1),
    "norm 1": lambda t, x: t.norm(x, 1, dim=1),
    "norm inf": lambda t, x: t.norm(x, math.inf, dim=1),
    "norm 3": lambda t, x: t.norm(x, 3),
    "norm 0": lambda t, x: t.norm(x, 0, dim=1),
    "norm fro": lambda t, x: t.norm(x),
    "norm -inf": lambda t, x: t.norm(x, -math.inf, dim=2),
    "log_softmax dtype": lambda t, x: t.log_softmax(x, 1, dtype=t.float32),
    "softmax dtype": lambda t, x: t.softmax(x, -1, dtype=t.float32),
    "named": lambda t, x: x.max(1).values + x.max(1)[0] + x.max(dim=1).indices,
    "mean of mean": lambda t, x: x.mean(0).mean(-1).sum(),
    "normalise": lambda t, x: (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-3),
    "prod zero": lambda t, x: (x * x.gt(0.5)).prod(1),
    "equal maxima": lambda t, x: t.amax(x.round(), 1),
    "all maxima": lambda t, x: t.max(x.round()),
    "functional softmax": lambda t, x: t.F.softmax(x, dim=1),
    "softmin": lambda t, x: t.F.softmin(x, dim=1),
    "vector_norm": lambda t, x: t.linalg.vector_norm(x, 2, 1) if hasattr(t, "linalg") else x.norm(2, 1),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_forms(name: str, device: str) -> None:
    if name == "vector_norm":
        pytest.skip("the linalg namespace belongs to the façade")
    for dtype in ("float32", "float16", "float64", "int64"):
        kind = kind_of(dtype, device)
        if kind is not None and (name != "normalise" or dtype != "float16"):
            check(CASES[name], [sample((2, 3, 4), kind, 4, 0.2, 3)], device, where=f"{name} {dtype}")


@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "softmax", "log_softmax", "logsumexp", "prod", "norm"])
def test_double_backward(name: str, device: str) -> None:
    extra = {"norm": (2,)}.get(name, ())
    assert check(
        lambda t, a: _call(t, name, a, *extra, dim=1),
        [sample((3, 4), torch.float32, 1, 0.5, 2)],
        device,
        second=True,
        where=name,
    )


def test_large(device: str) -> None:
    x = sample((300, 1000), torch.float32, 1)
    for function in (
        lambda t, a: a.sum(),
        lambda t, a: a.sum(0),
        lambda t, a: a.mean(1),
        lambda t, a: a.softmax(1),
        lambda t, a: a.var(0),
        lambda t, a: a.amax(1),
        lambda t, a: a.argmin(0),
    ):
        check(function, [x], device)
    check(lambda t, a: a.sum(), [torch.full((70000,), 1.0).half()], device, gradient=False)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(("var", "std", "var_mean", "std_mean")),
    st.sampled_from(("float32", "float64", "bfloat16", "float16", "complex64")),
    # Sums of all stay in the range: on some processors PyTorch adds four numbers before it takes their mean.
    st.sampled_from((1e-44, 1e-38, 1e-25, 1e-20, 1.0, 1e18, 1e25, 2e37)),
    st.integers(0, 5),
    st.lists(st.floats(-2, 2, width=16), min_size=4, max_size=4),
)
def test_spreads_of_numbers_whose_squares_leave_the_range(
    name: str, kind: str, scale: float, correction: int, numbers: list[float]
) -> None:
    # Of an infinite number PyTorch's running mean is NaN or not by where it stands.
    x = torch.tensor(numbers, dtype=torch.float64) * (min(scale, 1e4) if kind == "float16" else scale)
    x = (torch.complex(x, x.flip(0)) if kind == "complex64" else x).to(getattr(torch, kind))
    wanted = getattr(torch, name)(x, 0, correction=correction)
    found = getattr(ours, name)(to_ours(x, "cpu"), 0, correction=correction)
    for one, other in zip(*((each if isinstance(each, tuple) else (each,)) for each in (found, wanted)), strict=True):
        tolerance = TOLERANCES.get(other.dtype, 1e-6)
        kind_of_result = torch.finfo(other.dtype)
        smallest = kind_of_result.tiny * kind_of_result.eps
        torch.testing.assert_close(to_torch(one), other, rtol=tolerance, atol=smallest, equal_nan=True)


ERRORS = {
    "repeated": (lambda t, x: x.sum((0, 0)), "appears multiple times"),
    "range": (lambda t, x: x.sum(5), "Dimension out of range"),
    "mean of ints": (lambda t, x: x.long().mean(), "mean(): could not infer output dtype"),
    "var of ints": (lambda t, x: x.long().var(), "only support floating point and complex dtypes"),
    "max of nothing": (lambda t, x: x[:0].max(), "numel() == 0"),
    "argmax of nothing": (lambda t, x: x[:0].argmax(), "numel() == 0"),
    "amax of nothing": (lambda t, x: x[:0].amax(0), "Expected reduction dim 0 to have non-zero size"),
    "max of empty dim": (lambda t, x: x[:0].max(0), "Expected reduction dim 0 to have non-zero size"),
    "bad softmax": (lambda t, x: x.softmax(7), "Dimension out of range"),
}


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_errors(name: str, device: str) -> None:
    function, words = ERRORS[name]
    both_raise(function, [sample((2, 3), torch.float32)], device, words)
