"""Arithmetic of integers of few bits, which is computed in these, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given
from hypothesis import strategies as st
from webgpu_torch_backend_cpu.compiler import source_of
from webgpu_torch_core.record.devices import engine_for

STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "and": lambda x, y: x & y,
    "xor": lambda x, y: x ^ y,
    "neg": lambda x, y: -x,
    "not": lambda x, y: ~x,
    "abs": lambda x, y: x.abs(),
    "relu": lambda x, y: x.clamp(min=0),
    "clamp": lambda x, y: x.clamp(3, 100),
    "number": lambda x, y: 100 - x * 3,
    "half": lambda x, y: x // 2,
    "shift": lambda x, y: x << 1,
}
KINDS = ["uint8", "int8", "int16", "int32"]


@given(
    kind=st.sampled_from(KINDS), steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4), seed=st.integers(0, 99),
    count=st.sampled_from([7, 5000]),
)  # fmt: skip
def test_drawn_chains(kind: str, steps: list[str], seed: int, count: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    sides = [torch.randint(-(1 << 20), 1 << 20, (count,), generator=generator).to(getattr(torch, kind)) for _ in "xy"]
    with ours.device("cpu"):
        x, y = (ours.tensor(each.numpy()) for each in sides)
        found, expected = x, sides[0]
        for each in steps:
            found, expected = STEPS[each](found, y), STEPS[each](expected, sides[1])
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["add", "neg", "abs", "relu", "xor"])
def test_nothing_is_widened(name: str) -> None:
    with ours.device("cpu"):
        x = ours.zeros(1 << 16, dtype=ours.int8)
        x._storage.value.realize()
        engine_for(x.device).recorder.lone = 0
        result = STEPS[name](x, x)
        assert "int32_" not in source_of(engine_for(result.device).kernels[-1])
