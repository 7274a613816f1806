"""Reductions of what reductions leave: fused or not, a sum of one element is that element."""

from __future__ import annotations

import pytest
import webgpu_torch as wt

DEVICES = ["cpu"] + (["webgpu"] if wt.webgpu.is_available() else [])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "prod"])
def test_reducing_a_row_again_changes_nothing(device: str, reduce: str) -> None:
    values = wt.tensor([1.0, 2.0, 3.0, 4.0], device=device)
    row = values.sum(0)
    again = getattr(row, reduce)()
    assert again.item() == 10.0


@pytest.mark.parametrize("device", DEVICES)
def test_reducing_dimensions_of_size_one(device: str) -> None:
    values = wt.arange(6.0, device=device).reshape(2, 3)
    assert values.sum(1, keepdim=True).sum(1).tolist() == [3.0, 12.0]
