"""Layouts of results without elements, signs of zeros and gradients at what is not finite: PyTorch's own."""

from __future__ import annotations

import math

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st
from ops_oracle import to_torch

#: functions whose results of nothing have PyTorch's strides: some follow the input's, some are row-major
OF_NOTHING = {
    "softmax": lambda library, x: library.softmax(x, 0),
    "log_softmax": lambda library, x: library.log_softmax(x, -1),
    "softmin": lambda library, x: library.nn.functional.softmin(x, 0),
    "layer_norm": lambda library, x: library.nn.functional.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda library, x: library.nn.functional.rms_norm(x, x.shape[-1:]),
    "roll": lambda library, x: library.roll(x, 1, 0),
    "relu6": lambda library, x: library.nn.functional.relu6(x),
    "hardtanh": lambda library, x: library.nn.functional.hardtanh(x),
    "prelu": lambda library, x: library.nn.functional.prelu(x, library.ones(1)),
    "flip": lambda library, x: library.flip(x, [0]),
    "cumsum": lambda library, x: library.cumsum(x, 0),
    "cumprod": lambda library, x: library.cumprod(x, 0),
    "logcumsumexp": lambda library, x: library.logcumsumexp(x, 0),
    "cummax": lambda library, x: library.cummax(x, 0).values,
    "sort": lambda library, x: library.sort(x, 0).values,
    "gelu": lambda library, x: library.nn.functional.gelu(x),
    "where": lambda library, x: library.where(x > 0, x, x),
    "isfinite": lambda library, x: library.isfinite(x),
    "isinf": lambda library, x: library.isinf(x),
    "isnan": lambda library, x: library.isnan(x),
    "isreal": lambda library, x: library.isreal(x),
    "deg2rad": lambda library, x: library.deg2rad(x),
    "rad2deg": lambda library, x: library.rad2deg(x),
    "renorm": lambda library, x: library.renorm(x, 2.0, 0, 1.0),
    "nan_to_num": lambda library, x: library.nan_to_num(x),
    "abs": lambda library, x: library.abs(x),
    "conj_physical": lambda library, x: library.conj_physical(x),
    "clamp": lambda library, x: library.clamp(x, 0, 1),
    "clamp by a tensor": lambda library, x: library.clamp(x, library.tensor(0.0)),
    "lerp": lambda library, x: library.lerp(x, x, 0.5),
    "masked_fill": lambda library, x: x.masked_fill(library.zeros(x.shape, dtype=library.bool), 1),
    "masked_scatter": lambda library, x: x.masked_scatter(library.zeros(x.shape, dtype=library.bool), x.new_zeros(0)),
    "nextafter": lambda library, x: library.nextafter(x, x),
    "power of zero": lambda library, x: x**0,
    "square": lambda library, x: x**2,
    "power": lambda library, x: x**2.5,
    "sum with a number": lambda library, x: x + 1,
    "sum with another": lambda library, x: x + library.ones(x.shape),
}


def _layout_of(library, name, shape, strides, kind):
    try:
        found = OF_NOTHING[name](library, library.empty_strided(shape, strides, dtype=getattr(library, kind)))
    except (RuntimeError, NotImplementedError) as error:
        return type(error)
    return tuple(found.shape), found.stride(), str(found.dtype).rpartition(".")[2]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(OF_NOTHING)),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=3),
    st.integers(0, 2),
    st.sampled_from(("float32", "float32", "bfloat16", "int64", "bool", "complex64")),
)
def test_layouts_of_nothing(name, dimensions, empty, kind):
    shape = [size for size, _ in dimensions]
    shape[empty % len(shape)] = 0
    strides = [stride for _, stride in dimensions]
    if name == "cummax" and kind == "complex64":
        # Of complex numbers there is none; PyTorch refuses only those that there are.
        return
    expected, actual = (_layout_of(library, name, shape, strides, kind) for library in (torch, ours))
    if isinstance(expected, type):
        assert isinstance(actual, type) and issubclass(actual, expected), (actual, expected)
    else:
        assert actual == expected


#: functions of numbers and zeros, of which the sign of the result's zeros is compared
OF_ZEROS = {
    "relu": lambda library, x, y: library.relu(x),
    "relu6": lambda library, x, y: library.nn.functional.relu6(x),
    "hardtanh": lambda library, x, y: library.nn.functional.hardtanh(x, -0.0, 0.0),
    "clamp": lambda library, x, y: library.clamp(x, 0.0, 1.0),
    "clamp below": lambda library, x, y: library.clamp(x, max=-0.0),
    "clamp by tensors": lambda library, x, y: library.clamp(x, y, y),
    "abs": lambda library, x, y: library.abs(x),
    "neg": lambda library, x, y: -x,
    "product": lambda library, x, y: x * y,
}


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(OF_ZEROS)),
    st.lists(st.tuples(*[st.sampled_from((0.0, -0.0, 1.0, -1.0, math.nan))] * 2), min_size=1, max_size=4),
)
def test_signs_of_zeros(name, pairs):
    for device in ("cpu", "webgpu"):
        check_signs(device, name, pairs)


def check_signs(device, name, pairs):
    with ours.device(device):
        found = to_torch(OF_ZEROS[name](ours, *(ours.tensor(each) for each in zip(*pairs, strict=True))))
    expected = OF_ZEROS[name](torch, *(torch.tensor(each) for each in zip(*pairs, strict=True)))
    torch.testing.assert_close(found, expected, equal_nan=True)
    numbers = ~expected.isnan()
    assert found.signbit()[numbers].tolist() == expected.signbit()[numbers].tolist()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(*[st.sampled_from((0.0, 1.5, math.inf, -math.inf, math.nan))] * 2), min_size=1, max_size=4))
def test_nan_to_num(pairs):
    answers = []
    for library in (torch, ours):
        x, seed = (library.tensor(each) for each in zip(*pairs, strict=True))
        both = library.complex(x, seed)
        x.requires_grad_()
        result = library.nan_to_num(x)
        (slope,) = library.autograd.grad(result, x, seed)
        answers += [each.detach() for each in (result, slope, library.nan_to_num(both, 2.0))]
        with pytest.raises(RuntimeError, match="does not support automatic differentiation"):
            library.nan_to_num(both.requires_grad_())
    for found, expected in zip(answers[3:], answers[:3], strict=True):
        torch.testing.assert_close(to_torch(found), expected, equal_nan=True)


#: an input replaced in part, by the dimension
REPLACED = {
    "select": lambda library, x, dim: library.select_scatter(x, x.select(dim, 0) * 2, dim, 0),
    "slice": lambda library, x, dim: library.slice_scatter(x, x.narrow(dim, 0, 1) * 2, dim, 0, 1),
    "diagonal": lambda library, x, dim: library.diagonal_scatter(x, x.diagonal(0, dim, 2) * 2, 0, dim, 2),
}


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(REPLACED)),
    st.integers(0, 1),
    st.tuples(*[st.integers(1, 3)] * 3),
)
def test_gradients_of_parts_replaced_among_overlaps(name, dim, strides):
    answers = []
    for library in (torch, ours):
        x = library.arange(1.0, 16.0, dtype=library.float64).requires_grad_()
        result = REPLACED[name](library, x.as_strided((2, 3, 2), strides), dim)
        weights = library.arange(1.0, 13.0, dtype=library.float64).reshape(2, 3, 2)
        (slope,) = library.autograd.grad((result * weights).sum(), x)
        answers.append((result.stride(), slope.tolist()))
    assert answers[1] == answers[0]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(("amax", "amin", "prod", "sum", "mean")),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), max_size=4),
)
def test_gradients_of_scatter_reduce(reduce, include, pairs):
    answers = []
    for library in (torch, ours):
        x = library.tensor([1.0, 2.0, 3.0], requires_grad=True)
        index = library.tensor([each for each, _ in pairs], dtype=library.int64)
        source = library.tensor([float(each) for _, each in pairs], requires_grad=True)
        result = x.scatter_reduce(0, index, source, reduce, include_self=include)
        slopes = library.autograd.grad((result * library.tensor([1.0, 2.0, 4.0])).sum(), (x, source), allow_unused=True)
        answers.append([[] if each is None else each.tolist() for each in (result, *slopes)])
    for found, expected in zip(answers[1], answers[0], strict=True):
        assert found == pytest.approx(expected)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16"])
def test_layouts_of_nextafter(kind, order):
    strides = [
        library.nextafter(x.permute(order), library.full((1, 3), 4.0, dtype=x.dtype)[:, :1]).stride()
        for library in (torch, ours)
        for x in [library.ones(3, 2, dtype=getattr(library, kind))]
    ]
    assert strides[1] == strides[0]


@pytest.mark.parametrize("name", ["relu6", "hardtanh"])
def test_limits_of_no_complex_numbers_are_refused(name):
    for library in (torch, ours):
        with pytest.raises(NotImplementedError):
            getattr(library.nn.functional, name)(library.zeros(0, dtype=library.complex64))
