"""Tensors of few numbers put one after another, against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given
from hypothesis import strategies as st
from webgpu_torch_backend_cpu.compiler import source_of
from webgpu_torch_core.record.devices import engine_for

KINDS = ["float32", "float16", "bfloat16", "int64", "bool", "uint8", "float64"]


def sides(kind: str, shape: list[int], count: int, turned: bool) -> tuple[list[Any], list[Any]]:
    """Return tensors of both libraries, made of the same numbers."""
    theirs, own = [], []
    for number in range(count):
        drawn = torch.arange(number, number + torch.Size(shape).numel()).reshape(shape) % 5
        with ours.device("cpu"):
            one = ours.tensor(drawn.tolist()).to(getattr(ours, kind)).reshape(shape)
        other = drawn.to(getattr(torch, kind))
        theirs.append(other.T if turned and len(shape) == 2 else other)
        own.append(one.T if turned and len(shape) == 2 else one)
    return theirs, own


@given(
    kind=st.sampled_from(KINDS), shape=st.lists(st.integers(0, 6), min_size=1, max_size=3), count=st.integers(1, 70),
    turned=st.booleans(), data=st.data(),
)  # fmt: skip
def test_drawn_tensors(kind: str, shape: list[int], count: int, turned: bool, data: st.DataObject) -> None:
    theirs, own = sides(kind, shape, count, turned)
    # Some of them several times.
    chosen = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=2 * count))
    dim, function = data.draw(st.integers(0, len(shape) - 1)), data.draw(st.sampled_from(["cat", "stack"]))
    expected = getattr(torch, function)([theirs[each] for each in chosen], dim)
    found = getattr(ours, function)([own[each] for each in chosen], dim)
    assert found.shape == expected.shape and found.stride() == expected.stride()
    assert torch.equal(torch.tensor(found.tolist(), dtype=expected.dtype).reshape(expected.shape), expected)


@pytest.mark.parametrize(
    ("count", "size", "joined"), [(3, 10, True), (2, 10, False), (31, 10, True), (3, 10_000, False)]
)
def test_what_is_small_is_joined(count: int, size: int, joined: bool) -> None:
    with ours.device("cpu"):
        parts = [ours.arange(size) for _ in range(count)]
        ours.accelerator.synchronize("cpu")
        engine_for(parts[0].device).recorder.lone = 0
        result = ours.cat(parts)
        kernel = engine_for(result.device).kernels[-1]
        assert ("joining.join" in source_of(kernel)) == joined
        assert result.tolist() == list(range(size)) * count
