"""The sign of a zero that pooling and folding find: a sum begins with 0, as PyTorch's does."""

from __future__ import annotations

from typing import Any

import torch as oracle
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(deadline=None)
@given(
    spatial=st.integers(1, 3),
    size=st.integers(3, 6),
    taps=st.integers(1, 3),
    stride=st.integers(1, 3),
    pads=st.booleans(),
    adaptive=st.booleans(),
    zeros=st.lists(st.sampled_from([0.0, -0.0]), min_size=1, max_size=3),
)
def test_averages(
    spatial: int, size: int, taps: int, stride: int, pads: bool, adaptive: bool, zeros: list[float]
) -> None:
    def signs(torch: Any) -> Any:
        count = 2 * size**spatial
        x = torch.tensor((zeros * count)[:count]).reshape(1, 2, *[size] * spatial)
        functional = torch.nn.functional
        if adaptive:
            return getattr(functional, f"adaptive_avg_pool{spatial}d")(x, taps).signbit().tolist()
        padding = 1 if pads and taps > 1 else 0
        return getattr(functional, f"avg_pool{spatial}d")(x, taps, stride, padding).signbit().tolist()

    assert signs(webgpu_torch) == signs(oracle)


@settings(deadline=None)
@given(
    size=st.integers(2, 5), taps=st.integers(1, 3), zeros=st.lists(st.sampled_from([0.0, -0.0]), min_size=1, max_size=3)
)
def test_overlaps(size: int, taps: int, zeros: list[float]) -> None:
    def signs(torch: Any) -> Any:
        rows, columns = taps * taps, max(size - taps + 1, 1) ** 2
        x = torch.tensor((zeros * rows * columns)[: rows * columns]).reshape(1, rows, columns)
        sizes = (max(size, taps),) * 2
        return torch.nn.functional.fold(x, sizes, taps).signbit().tolist()

    assert signs(webgpu_torch) == signs(oracle)
