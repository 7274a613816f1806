"""Weighted sums of rows at computed positions: images sampled on grids, with NumPy alone and compiled, next to PyTorch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import webgpu_torch_core as core
import webgpu_torch_nn.functional as functional
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_backend_cpu import compiler, gathers
from webgpu_torch_backend_cpu.device import CpuDevice
from webgpu_torch_core.ir.dtypes import float32, float64
from webgpu_torch_core.ir.layouts import contiguous_layout, layout
from webgpu_torch_core.operations.spatial.grid_sampling import _gathering_kernel
from webgpu_torch_testing import assert_close, run_kernel


def sampled(shape, sizes, options, spoil=lambda image, grid: None):
    """Return what PyTorch and this library sample from random images."""
    torch.manual_seed(0)
    image, grid = torch.randn(shape), torch.rand(shape[0], *sizes, len(sizes)) * 2.6 - 1.3
    spoil(image, grid)
    expected = torch.nn.functional.grid_sample(image, grid, **options)
    with core.device("cpu"):
        actual = functional.grid_sample(core.tensor(image.tolist()), core.tensor(grid.tolist()), **options)
        return torch.tensor(actual.tolist()), expected


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("align", [False, True])
def test_images(mode, padding, align, monkeypatch):
    monkeypatch.setenv("WEBGPU_TORCH_CPU_JIT", "0")
    options = {"mode": mode, "padding_mode": padding, "align_corners": align}
    torch.testing.assert_close(*sampled((2, 9, 7, 11), (13, 5), options), rtol=1e-4, atol=1e-4)


def test_volumes_and_many_positions(monkeypatch):
    monkeypatch.setenv("WEBGPU_TORCH_CPU_JIT", "0")
    options = {"align_corners": False}
    torch.testing.assert_close(*sampled((2, 8, 3, 4, 5), (2, 3, 4), options), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(*sampled((1, 8, 6, 6), (80, 90), options), rtol=1e-4, atol=1e-4)


def test_what_is_not_read_does_not_matter(monkeypatch):
    def spoil(image, grid):
        image[:, :, 0, 0] = math.nan
        # All neighbours of these lie outside.
        grid[...] = 3.0
        grid[:, 0, 0] = 0.3

    monkeypatch.setenv("WEBGPU_TORCH_CPU_JIT", "0")
    actual, expected = sampled((2, 9, 7, 11), (13, 5), {"align_corners": False}, spoil)
    assert not actual.isnan().any()
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


def test_one_step_in_the_printed_kernel(monkeypatch, tmp_path):
    # What another process printed is not printed again.
    monkeypatch.setenv("WEBGPU_TORCH_CACHE", str(tmp_path))
    found = []

    class Watched(compiler.PointwiseWriter):
        def write(self):
            super().write()
            found.extend(self.body)

    writers = dict(compiler._WRITERS)
    try:
        compiler._WRITERS[compiler.Pointwise] = Watched
        with core.device("cpu"):
            # A size that no other test has.
            image, grid = core.rand(1, 8, 19, 23), core.rand(1, 24, 27, 2)
            functional.grid_sample(image, grid, align_corners=False).tolist()
    finally:
        compiler._WRITERS.update(writers)
    assert sum("gathers.gathered_rows" in line for line in found) == 1


@given(
    st.sampled_from([4, 400]), st.integers(1, 3), st.integers(1, 90), st.integers(-200, 700), st.integers(1, 300),
    st.sampled_from([np.int32, np.int64]), st.integers(0, 1000),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_rows_that_lie_together_and_far_apart(stride, images, count, low, span, kind, seed):
    """Of few and many places, which begin anywhere, of images that begin 100 elements apart."""
    generator = np.random.default_rng(seed)
    source = np.lib.stride_tricks.as_strided(generator.random(5000, np.float32), (1300, 8), (4, stride))
    base = np.arange(7, 7 + images * 100, 100, dtype=kind).reshape(images, 1, 1)
    places = [generator.integers(low, low + span, (images, 1, count), kind) for _ in range(3)]
    weights = [generator.random((size, 1, count), np.float32) for size in (images, images, 1)]
    weights[0][places[0] < 0] = np.nan
    expected = sum(
        np.where(place >= 0, np.moveaxis(source[(base + np.maximum(place, 0))[:, 0]], -1, 1) * weight, 0)
        for place, weight in zip(places, weights, strict=True)
    )
    into = np.empty((images, 8, count), np.float32)
    for out in (None, into):
        actual = gathers.gathered_rows(source, (1,), 3, base, *places, *weights, out=out)
        np.testing.assert_allclose(actual, expected, rtol=1e-5)
    assert actual is into


@given(
    st.integers(8, 37), st.integers(1, 3), st.integers(1, 40), st.sampled_from([512, 515, 700]), st.integers(1, 4),
    st.integers(-60, 60), st.booleans(), st.sampled_from([float32, float64]), st.integers(0, 1000),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_machine_code_adds_up_the_same_rows(channels, batch, size, count, taps, beyond, apart, kind, seed):
    """Of few and many places and channels, where rows are read beyond the places of a channel and where they are not."""
    pytest.importorskip("llvmlite")
    generator = np.random.default_rng(seed)
    # How far apart channels lie, and elements behind the last one's places.
    stride, extent = size + 3 * apart, max(size + beyond, 1)
    offset = 5 * apart
    source = layout((batch, channels, size), (channels * stride, stride, 1), offset)
    numel = offset + (batch * channels - 1) * stride + max(extent, stride)
    places = contiguous_layout((batch, taps, count))
    parts = ((places, places.numel, places, places.numel),) * (2 if taps < 3 else 1)
    kernel = _gathering_kernel(source, numel, kind, parts, kind)
    drawn = [
        generator.integers(-20 if number else 0, -(-extent // len(parts)), places.numel).tolist()
        for number in range(len(parts))
    ]
    weights = [generator.random(places.numel).tolist() for _ in parts]
    inputs = [generator.random(numel).tolist(), *(each for pair in zip(drawn, weights, strict=True) for each in pair)]
    results = []
    for mode in ("0", "wait"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("WEBGPU_TORCH_CPU_JIT", mode)
            results.append(run_kernel(CpuDevice(), kernel, inputs)[0])
    assert_close(results[1], results[0], kind)


def test_images_become_machine_code(monkeypatch):
    gathering = pytest.importorskip("webgpu_torch_backend_cpu.jit.gathering")
    written = []
    write = gathering._Gathering.write
    monkeypatch.setattr(gathering._Gathering, "write", lambda self: written.append(self) or write(self))
    monkeypatch.setenv("WEBGPU_TORCH_CPU_JIT", "wait")
    for channels in (9, 24):
        options = {"align_corners": False}
        torch.testing.assert_close(*sampled((2, channels, 17, 13), (29, 31), options), rtol=1e-4, atol=1e-4)
    assert len(written) == 2
