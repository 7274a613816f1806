"""The text of a tensor is PyTorch's."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_core.ir import dtypes
from webgpu_torch_core.tensors import printing
from webgpu_torch_core.tensors.printing import format_tensor, get_printoptions, printoptions, set_printoptions

KINDS = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64")


@pytest.fixture(autouse=True)
def restored_options():
    yield
    set_printoptions(profile="default")
    torch.set_printoptions(profile="default")


def ours(tensor, **arguments):
    kind = dtypes.BY_NAME[str(tensor.dtype).removeprefix("torch.")]
    grad_fn = tensor.grad_fn
    return format_tensor(
        tensor.detach().reshape(-1).tolist(), kind, tuple(tensor.shape), requires_grad=tensor.requires_grad,
        grad_fn_name=None if grad_fn is None else type(grad_fn).__name__, **arguments
    )  # fmt: skip


NUMBERS = st.one_of(
    st.floats(width=32),
    st.floats(-1000, 1000, width=32),
    st.integers(-200, 200).map(float),
    st.sampled_from([0.0, -0.0, 1.0, -1.5, 1e-4, 9.9e-5, 1e8, 1.1e8, 1000.0, 1001.0, math.inf, -math.inf, math.nan]),
)
SHAPES = st.lists(st.integers(0, 5), max_size=4)


@st.composite
def tensors(draw):
    kind = getattr(torch, draw(st.sampled_from(KINDS)))
    shape = draw(SHAPES)
    pool = draw(st.lists(NUMBERS, min_size=1, max_size=6))
    if not kind.is_floating_point and not kind.is_complex:
        limit = 1 if kind is torch.bool else torch.iinfo(kind).max
        pool = [int(each) % (limit + 1) if math.isfinite(each) else limit for each in pool]
        pool += [-each for each in pool] if kind.is_signed else []
    if kind.is_complex:
        pool = [complex(each, other) for each in pool for other in pool[:3]]
    count = math.prod(shape)
    values = [draw(st.sampled_from(pool)) for _ in range(count)]
    return torch.tensor(values, dtype=torch.complex128 if kind.is_complex else None).to(kind).reshape(shape)


@settings(max_examples=700, deadline=None)
@given(tensors())
def test_small_tensors(tensor):
    assert ours(tensor) == repr(tensor)


@settings(max_examples=150, deadline=None)
@given(
    tensors(), st.integers(0, 6), st.sampled_from([0, 3, 10, math.inf]), st.integers(0, 3), st.integers(10, 100),
    st.sampled_from([None, True, False]),
)  # fmt: skip
def test_options(tensor, precision, threshold, edgeitems, linewidth, sci_mode):
    options = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    with printoptions(**options, sci_mode=sci_mode), torch._tensor_str.printoptions(**options, sci_mode=sci_mode):
        assert ours(tensor) == repr(tensor)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1000,), (1001,), (40, 40), (2, 3, 500), (7, 7, 7, 7), (1, 2000), (2000, 1)])
def test_summaries(kind, shape):
    torch.manual_seed(0)
    tensor = (torch.randn(shape) * 50).to(getattr(torch, kind))
    assert ours(tensor) == repr(tensor)


@pytest.mark.parametrize("profile", ["default", "short", "full"])
def test_profiles(profile):
    set_printoptions(profile=profile)
    torch.set_printoptions(profile=profile)
    assert get_printoptions() == torch._tensor_str.get_printoptions()
    tensor = torch.linspace(0, 1, 1200).reshape(30, 40)
    assert ours(tensor) == repr(tensor)
    with pytest.raises(ValueError, match="'long'"):
        set_printoptions(profile="long")


def test_gradient_suffixes():
    leaf = torch.randn(3, requires_grad=True)
    long = torch.randn(9, requires_grad=True, dtype=torch.float64)
    for tensor in (leaf, long, leaf + 1, long * 2, leaf.sum(), (long * 1000).half()):
        assert ours(tensor) == repr(tensor)


@pytest.mark.parametrize("kind", KINDS)
def test_empty(kind):
    for shape in ((0,), (0, 3), (2, 0, 3)):
        tensor = torch.empty(shape, dtype=getattr(torch, kind))
        assert ours(tensor) == repr(tensor)
        meta = torch.empty(shape, dtype=getattr(torch, kind), device="meta")
        assert format_tensor(None, dtypes.BY_NAME[kind], shape, device="meta") == repr(meta)


def test_device():
    assert (
        format_tensor([1.5, 2.0], dtypes.float32, (2,), device="webgpu:0")
        == "tensor([1.5000, 2.0000], device='webgpu:0')"
    )
    assert format_tensor([1], dtypes.int32, (), device="webgpu:0") == "tensor(1, device='webgpu:0', dtype=torch.int32)"


def test_default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        for tensor in (
            torch.ones(2),
            torch.ones(2, dtype=torch.float32),
            torch.empty(0),
            torch.ones(1, dtype=torch.int64),
        ):
            assert ours(tensor, is_default_dtype=tensor.dtype == torch.float64) == repr(tensor)
    finally:
        torch.set_default_dtype(torch.float32)


def test_doubles_of_extreme_ratio():
    for values in ([1e308, 1e-300], [5e-324], [1.7e308, 1.0], [1e-308, 1e-5]):
        tensor = torch.tensor(values, dtype=torch.float64)
        assert ours(tensor) == repr(tensor)


def test_wrong_number_of_values():
    with pytest.raises(ValueError, match="6 elements, got 2"):
        format_tensor([1, 2], dtypes.int64, (2, 3))


def test_options_object():
    options = printing.PrintOptions(precision=1)
    assert format_tensor([1.25], dtypes.float32, (1,), options=options) == "tensor([1.2])"
