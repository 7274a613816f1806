"""What a tensor prints as is PyTorch's text, whatever its type, shape, contents, history and the options."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st
from ops_oracle import to_ours

KINDS = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
SPECIAL = (0.0, -0.0, 1.0, -1.5, 1e-4, 9.9e-5, 1e8, 1.1e8, 1e30, 3e-41, 1000.0, 1001.0, math.inf, -math.inf, math.nan)
NUMBERS = st.one_of(
    st.floats(width=32),
    st.floats(-1000, 1000, width=32),
    st.integers(-200, 200).map(float),
    st.sampled_from(SPECIAL),
)
SHAPES = st.one_of(
    st.lists(st.integers(0, 4), max_size=5),
    st.sampled_from([[1001], [2000], [40, 40], [2, 3, 300], [7, 7, 7, 7], [1, 1200], [1200, 1], [3, 5, 2, 7, 9]]),
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "precision": st.integers(0, 9),
        "threshold": st.sampled_from([0, 3, 10, 1000, math.inf]),
        "edgeitems": st.integers(0, 4),
        "linewidth": st.integers(10, 120),
        "profile": st.sampled_from(["default", "short", "full"]),
        "sci_mode": st.sampled_from([None, True, False]),
    },
)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    for library in (ours, torch):
        library.set_printoptions(profile="default")
        library.set_default_dtype(library.float32)


@st.composite
def tensors(draw: Any, kinds: tuple[str, ...] = KINDS) -> torch.Tensor:
    """Draw a tensor of a few distinct values, now and then a view of a larger one."""
    kind = getattr(torch, draw(st.sampled_from(kinds)))
    shape = draw(SHAPES)
    pool: list[Any] = draw(st.lists(NUMBERS, min_size=1, max_size=6))
    if not kind.is_floating_point and not kind.is_complex:
        limit = 1 if kind is torch.bool else torch.iinfo(kind).max
        pool = [int(each) % (limit + 1) if math.isfinite(each) else limit for each in pool]
        pool += [-each for each in pool] if kind.is_signed else []
    if kind.is_complex:
        pool = [complex(each, other) for each in pool for other in pool[:3]]
    choice = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    values = torch.tensor(pool, dtype=torch.complex128 if kind.is_complex else None).to(kind)
    result = values[torch.randint(len(pool), shape, generator=choice)]
    how = draw(st.sampled_from(["whole", "transposed", "strided"]))
    if how == "transposed" and result.ndim > 1:
        return result.transpose(0, -1)
    return result[::2] if how == "strided" and result.ndim else result


def assert_same(tensor: torch.Tensor, place: str = "cpu") -> None:
    assert repr(to_ours(tensor, place)) == repr(tensor)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(tensors(), OPTIONS)
def test_text(tensor: torch.Tensor, options: dict[str, Any]) -> None:
    for library in (ours, torch):
        library.set_printoptions(profile="default")
        library.set_printoptions(**options)
    mine = to_ours(tensor, "cpu")
    assert repr(mine) == repr(tensor)
    assert str(mine) == str(tensor)
    if tensor.ndim:
        assert f"{mine}" == f"{tensor}"


HISTORIES = {
    "leaf": lambda x: x,
    "add": lambda x: x + 1,
    "sub": lambda x: x - x,
    "mul": lambda x: x * 2,
    "div": lambda x: x / 2,
    "neg": lambda x: -x,
    "pow": lambda x: x**2,
    "clone": lambda x: x.clone(),
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "reshape": lambda x: x.reshape(-1),
    "select": lambda x: x.reshape(1, -1)[0],
    "slice": lambda x: x.reshape(-1)[1:],
    "unsqueeze": lambda x: x.unsqueeze(0),
    "relu": lambda x: x.relu(),
    "exp": lambda x: x.exp(),
    "flatten": lambda x: x.flatten(),
    "max": lambda x: (x + 1).reshape(1, -1).squeeze(0),
    "to": lambda x: x.double().float(),
    "transposed": lambda x: x.reshape(1, -1).t(),
    "detached": lambda x: x.detach(),
}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(tensors(FLOATS), st.sampled_from(sorted(HISTORIES)), OPTIONS)
def test_text_of_histories(tensor: torch.Tensor, name: str, options: dict[str, Any]) -> None:
    # Sums of huge numbers differ in their last digit by the order of addition; the words are the question here.
    tensor = (tensor if name not in ("sum", "mean", "pow", "div") else torch.ones_like(tensor)).detach()
    # The exponential of one is rounded by the processor's own instructions.
    tensor = torch.zeros_like(tensor) if name == "exp" else tensor
    for library in (ours, torch):
        library.set_printoptions(profile="default")
        library.set_printoptions(**options)
    # What a reshape is called depends on the strides.
    mine = HISTORIES[name](to_ours(tensor, "cpu").requires_grad_())
    assert repr(mine) == repr(HISTORIES[name](tensor.detach().requires_grad_()))


@settings(max_examples=50, deadline=None, derandomize=True)
@given(tensors(), st.sampled_from(FLOATS))
def test_text_by_default_type(tensor: torch.Tensor, default: str) -> None:
    mine = to_ours(tensor, "cpu")
    for library in (ours, torch):
        library.set_default_dtype(getattr(library, default))
    try:
        assert repr(mine) == repr(tensor)
    finally:
        for library in (ours, torch):
            library.set_default_dtype(library.float32)


@pytest.mark.parametrize("profile", ["default", "short", "full"])
def test_profiles(profile: str) -> None:
    for library in (ours, torch):
        library.set_printoptions(profile=profile)
    assert_same(torch.linspace(0, 1, 1200).reshape(30, 40))
    assert_same(torch.arange(1200))


def test_other_devices(device: str) -> None:
    """PyTorch names every device but the CPU; its meta tensors print without elements."""
    for kind in ("float32", "int64", "bool", "float16", "int32"):
        tensor = torch.arange(6).reshape(2, 3).to(getattr(torch, kind))
        text = repr(to_ours(tensor, device))
        plain = repr(tensor)
        if device == "cpu":
            assert text == plain
        else:
            where = ", dtype" if ", dtype" in plain else ")"
            at = plain.rindex(where)
            assert text == f"{plain[:at]}, device='{device}:0'{plain[at:]}".replace(",,", ",")
    leaf = torch.tensor([1.5], requires_grad=True)
    suffix = "" if device == "cpu" else f", device='{device}:0'"
    assert repr(to_ours(leaf, device)) == f"tensor([1.5000]{suffix}, requires_grad=True)"
    assert repr(to_ours(leaf, device) * 2) == f"tensor([3.]{suffix}, grad_fn=<MulBackward0>)"
    assert repr(ours.empty(2, 3, device="meta")) == repr(torch.empty(2, 3, device="meta"))


def test_options_are_kept_and_given_back() -> None:
    for library in (ours, torch):
        library.set_printoptions(precision=2, linewidth=40, sci_mode=True)
    assert_same(torch.linspace(0, 1, 30))
    with pytest.raises(ValueError):
        ours.set_printoptions(profile="none")


class TestParameters:
    def test_parameter(self) -> None:
        values = torch.arange(6.0).reshape(2, 3) / 7
        mine, theirs = ours.nn.Parameter(to_ours(values, "cpu")), torch.nn.Parameter(values)
        assert repr(mine) == repr(theirs)
        assert str(mine) == str(theirs)
        assert repr(mine * 2) == repr(theirs * 2)
        quiet = (ours.nn.Parameter(to_ours(values, "cpu"), False), torch.nn.Parameter(values, False))
        assert repr(quiet[0]) == repr(quiet[1])

    def test_contents_given(self) -> None:
        assert ours.ones(2).__repr__(tensor_contents="...") == torch.ones(2).__repr__(tensor_contents="...")
