"""Rounding as quantising and dequantising would: values, gradients and refusals are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st

NUMBERS = st.one_of(st.floats(-4, 4, width=32), st.integers(-64, 64).map(lambda each: each / 16))
RANGES = st.sampled_from([(0, 255), (-128, 127), (-8, 7), (0, 3)])


def both(numbers: list[float], call: Callable[[Any, Any], Any]) -> list[Any]:
    found = []
    for t in (webgpu_torch, torch):
        x = t.tensor(numbers).reshape(2, 3).requires_grad_()
        result = call(t, x)
        (result * result).sum().backward()
        found.append((str(result.dtype), result.tolist(), x.grad.tolist()))
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.lists(NUMBERS, min_size=6, max_size=6),
    st.sampled_from([0.1, 0.25, 1.0, 0.03]),
    RANGES,
    st.integers(0, 3),
    st.booleans(),
)
def test_per_tensor(numbers: list[float], scale: float, limits: tuple[int, int], zero: int, tensors: bool) -> None:
    def call(t: Any, x: Any) -> Any:
        given_as = (t.tensor(scale), t.tensor(zero, dtype=t.int32)) if tensors else (scale, zero)
        return t.fake_quantize_per_tensor_affine(x, *given_as, *limits)

    ours, theirs = both(numbers, call)
    assert ours == theirs


@settings(max_examples=60, deadline=None)
@given(
    st.lists(NUMBERS, min_size=6, max_size=6), st.lists(st.sampled_from([0.1, 0.25, 1.0]), min_size=3, max_size=3), RANGES,
    st.lists(st.integers(0, 3), min_size=3, max_size=3), st.sampled_from([0, 1]), st.sampled_from(["int32", "float32"]),
)  # fmt: skip
def test_per_channel(
    numbers: list[float], scales: list[float], limits: tuple[int, int], zeros: list[int], axis: int, kind: str
) -> None:
    count = 2 if axis == 0 else 3

    def call(t: Any, x: Any) -> Any:
        zero = t.tensor(zeros[:count], dtype=getattr(t, kind))
        return t.fake_quantize_per_channel_affine(x, t.tensor(scales[:count]), zero, axis, *limits)

    ours, theirs = both(numbers, call)
    assert ours == theirs


REFUSED: dict[str, Callable[[Any], Any]] = {
    "outside": lambda t: t.fake_quantize_per_tensor_affine(t.ones(2), 0.1, 300, 0, 255),
    "empty": lambda t: t.fake_quantize_per_tensor_affine(t.ones(2), 0.1, 0, 5, 3),
    "whole numbers": lambda t: t.fake_quantize_per_tensor_affine(t.ones(2, dtype=t.int32), 0.1, 0, 0, 3),
    "type": lambda t: t.fake_quantize_per_channel_affine(t.ones(2, 2), t.ones(2), t.zeros(2, dtype=t.int64), 0, 0, 3),
    "count": lambda t: t.fake_quantize_per_channel_affine(t.ones(2, 3), t.ones(2), t.zeros(2, dtype=t.int32), 1, 0, 3),
    "one outside": lambda t: t.fake_quantize_per_channel_affine(t.ones(2, 2), t.ones(2), t.tensor([0, 9], dtype=t.int32), 1, 0, 3),
    "negative": lambda t: t.fake_quantize_per_channel_affine(t.ones(2, 2), t.ones(2), t.zeros(2, dtype=t.int32), -1, 0, 3),
    "dimension": lambda t: t.fake_quantize_per_channel_affine(t.ones(2, 2), t.ones(2), t.zeros(2, dtype=t.int32), 4, 0, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused(name: str) -> None:
    errors = []
    for t in (webgpu_torch, torch):
        with pytest.raises((RuntimeError, NotImplementedError, IndexError)) as caught:
            REFUSED[name](t)
        errors.append(caught.value)
    assert type(errors[0]) is type(errors[1])
    assert str(errors[0]).split() == str(errors[1]).split()


def test_on_devices(device: str) -> None:
    numbers = [each / 7 - 2 for each in range(24)]
    ours = webgpu_torch.fake_quantize_per_tensor_affine(webgpu_torch.tensor(numbers, device=device), 0.125, 3, 0, 15)
    theirs = torch.fake_quantize_per_tensor_affine(torch.tensor(numbers), 0.125, 3, 0, 15)
    assert ours.tolist() == theirs.tolist()
