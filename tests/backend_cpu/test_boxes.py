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


@pytest.mark.parametrize("kind", ["float32", "float64", "int8", "bfloat16"])
def test_turned_copies_in_strips(kind):
    """Rows as long as the lines of the cache share places, and a few that do not."""
    for shape in ((128, 1024), (100, 4096), (3, 70, 2048), (130, 1000)):
        values = pytorch.arange(pytorch.Size(shape).numel()).remainder(113).reshape(shape)
        with ours.device("cpu"):
            mine = ours.tensor(values.numpy()).to(getattr(ours, kind)).mT.contiguous()
        assert pytorch.equal(pytorch.from_numpy(mine.float().numpy()), values.float().mT)
    with ours.device("cpu"):
        copy = ours.zeros(128, 1024).T.contiguous()
        kernels = [each for each in engine_for(copy.device).kernels if each.name == "copy"]
    assert "for start in range(0, 128, 8)" in source_of(kernels[-1])


@pytest.mark.parametrize("count", [2, 9, 40])
def test_few_elements_are_joined_without_tests(count):
    with ours.device("cpu"):
        joined = ours.cat([ours.full((1,), float(each)) for each in range(count)])
        sources = [source_of(each) for each in engine_for(joined.device).kernels if each.name == "cat"]
        assert joined.tolist() == list(range(count))
    assert sources and not any("select" in each for each in sources[:1])
