"""Kernels in boxes: what depends on coordinates alone is decided when a kernel is compiled, and nothing else changes."""

from __future__ import annotations

import pytest
import torch as pytorch
import webgpu_torch as ours
from webgpu_torch_backend_cpu import boxes
from webgpu_torch_backend_cpu.compiler import source_of
from webgpu_torch_core.record.devices import engine_for

CASES = {
    "cat": lambda t, x: t.cat([x, x * 2, x[:, :3]], 1),
    "pad": lambda t, x: t.nn.functional.pad(x, (2, 1, 0, 3), value=0.5),
    "reflect": lambda t, x: t.nn.functional.pad(x, (2, 1), mode="reflect"),
    "roll": lambda t, x: t.roll(x, (2, -3), (1, 2)),
    "flip": lambda t, x: t.flip(x, (0, 2)),
    "slice's gradient": lambda t, x: _gradient(t, x, lambda y: y[:, 1:6:2] * 3),
    "max_pool2d's gradient": lambda t, x: _gradient(t, x, lambda y: t.nn.functional.max_pool2d(y, 3, 2, 1)),
    "avg_pool2d": lambda t, x: t.nn.functional.avg_pool2d(x, 3, 2, 1),
    "unfold": lambda t, x: t.nn.functional.unfold(x[None], 3, padding=1, stride=2),
    "upsample": lambda t, x: t.nn.functional.interpolate(x[None], scale_factor=2),
    "index_select": lambda t, x: x.index_select(1, t.tensor([3, 0, 3])),
    "rows": lambda t, x: x[t.tensor([2, 0])],
    "columns": lambda t, x: x[:, :, t.tensor([4, 0, 4, 1])],
    "bilinear": lambda t, x: t.nn.functional.interpolate(x[None], (5, 20), mode="bilinear"),
}


def _gradient(t, x, function):
    y = x.clone().requires_grad_()
    function(y).pow(2).sum().backward()
    return y.grad


@pytest.mark.parametrize("name", CASES)
def test_small_boxes(name, monkeypatch):
    monkeypatch.setattr(boxes, "LEAST_ELEMENTS", 1)
    monkeypatch.setattr(boxes, "LEAST_ROW", 1)
    # A shape that no other test has compiled kernels for.
    values = pytorch.randn(3, 7, 13, generator=pytorch.Generator().manual_seed(1))
    with ours.device("cpu"):
        mine = CASES[name](ours, ours.tensor(values.tolist()))
    pytorch.testing.assert_close(pytorch.tensor(mine.tolist()), CASES[name](pytorch, values))


def test_concatenation_copies_slices():
    with ours.device("cpu"):
        parts = [ours.zeros(40, 100).contiguous() for _ in range(3)]
        joined = ours.cat(parts, 1)
        (kernel,) = [each for each in engine_for(joined.device).kernels if each.name == "cat"]
    source = source_of(kernel)
    assert "where" not in source and "arange" not in source, source
