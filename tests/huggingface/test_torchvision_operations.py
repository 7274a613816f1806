"""torchvision's operations as this library composes them, against their definitions written out as loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import webgpu_torch as torch
import webgpu_torch_drop_in.torchvision_operations as operations
from hypothesis import given, settings
from hypothesis import strategies as st

SEEDS = st.integers(0, 2**31)


def overlap(one: Any, other: Any) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(width, 0) * max(height, 0)
    areas = [(each[2] - each[0]) * (each[3] - each[1]) for each in (one, other)]
    return shared / (sum(areas) - shared)


@settings(max_examples=8, deadline=None)
@given(SEEDS, st.integers(0, 40), st.sampled_from([0.0, 0.3, 0.6, 1.0]), st.sampled_from([3, 16, 1024]))
def test_nms(seed: int, count: int, threshold: float, block: int) -> None:
    random = np.random.default_rng(seed)
    low = random.random((count, 2)) * 5
    boxes = np.concatenate([low, low + random.random((count, 2)) * 4 + 0.1], 1)
    scores = random.integers(0, 8, count) / 8
    kept: list[int] = []
    for place in sorted(range(count), key=lambda each: -scores[each]):
        if all(overlap(boxes[place], boxes[each]) <= threshold for each in kept):
            kept.append(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operations, "BLOCK", block)
        found = operations.nms(torch.tensor(boxes), torch.tensor(scores), threshold)
    assert found.tolist() == kept and found.dtype == torch.int64


def test_nms_refuses_other_shapes() -> None:
    with pytest.raises(RuntimeError, match=r"boxes should be \[boxes, 4\], got shape \(3, 5\)"):
        operations.nms(torch.ones(3, 5), torch.ones(3), 0.5)
    with pytest.raises(RuntimeError, match=r"a number for each box, got shape \(2,\)"):
        operations.nms(torch.ones(3, 4), torch.ones(2), 0.5)


def between(plane: Any, y: float, x: float) -> Any:
    """Return the value between pixels; none further than a pixel outside."""
    height, width = plane.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return np.zeros(len(plane))
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    down, across = y - top, x - left
    upper = (1 - across) * plane[:, top, left] + across * plane[:, top, right]
    lower = (1 - across) * plane[:, bottom, left] + across * plane[:, bottom, right]
    return (1 - down) * upper + down * lower


def align(
    image: Any, regions: Any, scale: float, bins: tuple[int, int], ratio: int, offset: float, least: float
) -> Any:
    result = np.zeros((len(regions), image.shape[1], *bins))
    for place, region in enumerate(regions):
        plane = image[int(region[0])]
        left, top, right, bottom = region[1:] * scale - offset
        sizes = [max(bottom - top, least) / bins[0], max(right - left, least) / bins[1]]
        counts = [ratio if ratio > 0 else max(math.ceil(each), 0) for each in sizes]
        for row in range(bins[0]):
            for column in range(bins[1]):
                for down in range(counts[0]):
                    for across in range(counts[1]):
                        y = top + (row + (down + 0.5) / counts[0]) * sizes[0]
                        x = left + (column + (across + 0.5) / counts[1]) * sizes[1]
                        result[place, :, row, column] += between(plane, y, x) / (counts[0] * counts[1])
    return result


def drawn(seed: int, regions: int, channels: int) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    image = random.standard_normal((2, channels, 7, 9))
    low = random.random((regions, 2)) * 8 - 1
    high = low + random.random((regions, 2)) * 7
    return image, np.concatenate([random.integers(0, 2, (regions, 1)), low, high], 1)


@settings(max_examples=8, deadline=None)
@given(
    SEEDS,
    st.integers(0, 3),
    st.sampled_from([1.0, 0.5]),
    st.sampled_from([(1, 1), (2, 3)]),
    st.sampled_from([-1, 1, 2]),
    st.booleans(),
)
def test_roi_align(seed: int, count: int, scale: float, bins: tuple[int, int], ratio: int, aligned: bool) -> None:
    image, regions = drawn(seed, count, 2)
    found = operations.roi_align(torch.tensor(image), torch.tensor(regions), scale, *bins, ratio, aligned)
    wanted = align(image, regions, scale, bins, ratio, 0.5 if aligned else 0.0, -math.inf if aligned else 1.0)
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-9)


@settings(max_examples=4, deadline=None)
@given(SEEDS, st.sampled_from([-1, 2]))
def test_ps_roi_align(seed: int, ratio: int) -> None:
    image, regions = drawn(seed, 3, 8)
    found, channels = operations.ps_roi_align(torch.tensor(image), torch.tensor(regions), 1.0, 2, 2, ratio)
    every = align(image, regions, 1.0, (2, 2), ratio, 0.5, -math.inf)
    wanted = np.take_along_axis(every, np.broadcast_to(np.arange(8).reshape(1, 2, 2, 2), (3, 2, 2, 2)), 1)
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-9)
    assert channels.tolist() == [np.arange(8).reshape(2, 2, 2).tolist()] * 3


def ranges(region: Any, bins: tuple[int, int], more: int, sizes: tuple[int, int]) -> list[list[range]]:
    """Return the rows and the columns of each bin of a region."""
    found = []
    for low, high, count, size in (
        (region[2], region[4], bins[0], sizes[0]),
        (region[1], region[3], bins[1], sizes[1]),
    ):
        start, end = (math.floor(abs(each) + 0.5) * (1 if each >= 0 else -1) for each in (low, high))
        width = max(end - start + more, 1) / count
        last = size - 1 + more
        edges = [(math.floor(each * width) + start, math.ceil((each + 1) * width) + start) for each in range(count)]
        found.append([range(min(max(one, 0), last), min(max(other, 0), last)) for one, other in edges])
    return found


@settings(max_examples=6, deadline=None)
@given(SEEDS, st.integers(1, 3), st.sampled_from([(1, 1), (2, 3)]))
def test_roi_pool(seed: int, count: int, bins: tuple[int, int]) -> None:
    image, regions = drawn(seed, count, 2)
    found, places = operations.roi_pool(torch.tensor(image), torch.tensor(regions), 1.0, *bins)
    gradient = operations._roi_pool_backward(found, torch.tensor(regions), places, 1.0, *bins, *image.shape)
    wanted, summed = np.zeros((count, 2, *bins)), np.zeros_like(image)
    for place, region in enumerate(regions):
        rows, columns = ranges(region, bins, 1, (7, 9))
        for row, down in enumerate(rows):
            for column, across in enumerate(columns):
                for channel in range(2):
                    pixels = [(image[int(region[0]), channel, y, x], y, x) for y in down for x in across]
                    if pixels:
                        value, y, x = max(pixels)
                        wanted[place, channel, row, column] = value
                        summed[int(region[0]), channel, y, x] += value
                        assert places[place, channel, row, column].item() == y * 9 + x
                    else:
                        assert places[place, channel, row, column].item() == -1
    np.testing.assert_allclose(found.numpy(), wanted)
    np.testing.assert_allclose(gradient.numpy(), summed, atol=1e-12)


@settings(max_examples=4, deadline=None)
@given(SEEDS)
def test_ps_roi_pool(seed: int) -> None:
    image, regions = drawn(seed, 3, 8)
    found, _ = operations.ps_roi_pool(torch.tensor(image), torch.tensor(regions), 1.0, 2, 2)
    wanted = np.zeros((3, 2, 2, 2))
    for place, region in enumerate(regions):
        rows, columns = ranges(region, (2, 2), 0, (7, 9))
        for row, down in enumerate(rows):
            for column, across in enumerate(columns):
                for channel in range(2):
                    plane = image[int(region[0]), channel * 4 + row * 2 + column]
                    pixels = [plane[y, x] for y in down for x in across]
                    wanted[place, channel, row, column] = np.mean(pixels) if pixels else 0.0
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-12)


@settings(max_examples=4, deadline=None)
@given(SEEDS, st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2)]), st.booleans(), st.sampled_from([1, 2]))
def test_deform_conv2d(seed: int, groups: tuple[int, int], masked: bool, stride: int) -> None:
    random = np.random.default_rng(seed)
    image, weight = random.standard_normal((2, 4, 6, 5)), random.standard_normal((4, 4 // groups[0], 3, 2))
    rows, columns = (6 + 2 - 3) // stride + 1, (5 + 2 - 2) // stride + 1
    offset = random.standard_normal((2, groups[1] * 12, rows, columns))
    mask = random.random((2, groups[1] * 6, rows, columns)) if masked else np.zeros((2, 1))
    bias = random.standard_normal(4)
    tensors = [torch.tensor(each) for each in (image, weight, offset, mask, bias)]
    found = operations.deform_conv2d(*tensors, stride, stride, 1, 1, 1, 1, *groups, masked)
    wanted = np.zeros((2, 4, rows, columns)) + bias[:, None, None]
    padded = np.pad(image, ((0, 0), (0, 0), (9, 9), (9, 9)))
    for b, out, row, column, inner, i, j in np.ndindex(2, 4, rows, columns, 4 // groups[0], 3, 2):
        channel = out // (4 // groups[0]) * (4 // groups[0]) + inner
        tap = channel // (4 // groups[1]) * 6 + i * 2 + j
        y = row * stride - 1 + i + offset[b, 2 * tap, row, column] + 9
        x = column * stride - 1 + j + offset[b, 2 * tap + 1, row, column] + 9
        value = between(padded[b, channel : channel + 1], y, x)[0]
        wanted[b, out, row, column] += weight[out, inner, i, j] * value * (mask[b, tap, row, column] if masked else 1)
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-9)


def test_gradients_of_deform_conv2d() -> None:
    torch.manual_seed(0)
    tensors = [
        torch.randn(shape, dtype=torch.float64)
        for shape in ((1, 2, 4, 4), (2, 2, 2, 2), (1, 8, 3, 3), (1, 4, 3, 3), (2,))
    ]
    numbers = (1, 1, 0, 0, 1, 1, 1, 1, True)
    grad = torch.randn(1, 2, 3, 3, dtype=torch.float64)
    found = operations._deform_conv2d_backward(grad, *tensors, *numbers)
    for place, each in enumerate(tensors):
        step = torch.randn_like(each) * 1e-6
        moved = [
            (
                operations.deform_conv2d(*(t + s * step if i == place else t for i, t in enumerate(tensors)), *numbers)
                * grad
            ).sum()
            for s in (1, -1)
        ]
        assert (found[place] * step).sum().item() == pytest.approx((moved[0] - moved[1]).item() / 2, rel=1e-4)


def test_loading_the_extension_registers_the_operations() -> None:
    from webgpu_torch.library import Operations

    ops = Operations()
    ops.brought["torchvision/_C"] = operations.register
    ops.load_library("/somewhere/torchvision/_C.so")
    assert torch.ops.torchvision.nms.default(torch.zeros(0, 4), torch.zeros(0), 0.5).shape == (0,)
    with pytest.raises(OSError, match=r"/else/thing\.so is compiled against PyTorch"):
        ops.load_library("/else/thing.so")
    assert ops.loaded_libraries == {"/somewhere/torchvision/_C.so"}
