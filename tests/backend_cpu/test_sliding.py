"""Products with patches that slide over the same memory: as many products as shifts, and the sums of patches laid out in full."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_backend_cpu import contracting, sliding


def patches(generator, groups, channels, size, taps, stride, dilation):
    """Return patches [group, rows, columns, channel, tap, tap] of random images as a view."""
    image = generator.random((groups, channels, size, size), np.float32)
    places = (size - dilation * (taps - 1) - 1) // stride + 1
    group, channel, row, column = image.strides
    shape = (groups, places, places, channels, taps, taps)
    strides = (group, stride * row, stride * column, channel, dilation * row, dilation * column)
    return np.lib.stride_tricks.as_strided(image, shape, strides)


@pytest.mark.parametrize("block", [1, 1 << 13, 1 << 21])
@pytest.mark.parametrize(
    ("groups", "channels", "size", "taps", "stride", "dilation", "expected"),
    [
        (1, 16, 13, 3, 1, 1, (3, 1, 1)),
        (3, 16, 11, 3, 1, 2, (3, 1, 2)),
        (2, 8, 21, 5, 2, 1, (3, 2, 1)),
        (1, 4, 30, 7, 3, 1, (3, 3, 1)),
    ],
)
def test_products(groups, channels, size, taps, stride, dilation, expected, block, monkeypatch):
    monkeypatch.setattr(sliding, "BLOCK_BYTES", block)
    generator = np.random.default_rng(0)
    right = patches(generator, groups, channels, size, taps, stride, dilation)
    slide = sliding.slide_of(right, 1, 1, range(3, 6), 6)
    assert slide is not None
    assert (slide.shifts(taps), slide.parts, slide.step) == expected
    assert slide.tap == 4
    left = generator.random((groups, 6, channels, taps, taps), np.float32)
    into = np.full((groups, 6, *right.shape[1:3]), np.nan, np.float32)
    sliding.slid_products(sliding.factors_of(left, right, 1, slide), right, 1, slide, into)
    np.testing.assert_allclose(into, np.einsum("gmcij,gyxcij->gmyx", left, right), rtol=1e-4)


def test_what_is_not_worth_it():
    generator = np.random.default_rng(0)
    # Few terms, a window that jumps over all its taps, one that cannot move, many sums, and many factors for few places.
    cases = ((1, 20, 3, 1, 6), (16, 20, 3, 3, 6), (16, 3, 3, 1, 6), (16, 20, 3, 1, 60), (16, 7, 3, 1, 12))
    for channels, size, taps, stride, rows in cases:
        right = patches(generator, 1, channels, size, taps, stride, 1)
        assert sliding.slide_of(right, 1, 1, range(3, 6), rows) is None
    assert sliding.slide_of(patches(generator, 1, 16, 20, 3, 1, 1), 1, 1, range(3, 6), 12) is not None


def test_numbers_that_are_not_finite_stay_where_they_are():
    generator = np.random.default_rng(0)
    right = patches(generator, 1, 16, 24, 7, 2, 1).copy()
    image = generator.random((1, 16, 24, 24), np.float32)
    image[0, 3, 10, 11] = np.inf
    right = np.lib.stride_tricks.as_strided(
        image, right.shape, (image.strides[0], *(2 * each for each in image.strides[2:]), *image.strides[1:])
    )
    slide = sliding.slide_of(right, 1, 1, range(3, 6), 6)
    left = generator.random((1, 2, 16, 7, 7), np.float32)
    into = np.empty((1, 2, *right.shape[1:3]), np.float32)
    sliding.slid_products(sliding.factors_of(left, right, 1, slide), right, 1, slide, into)
    assert np.array_equal(np.isinf(into), np.isinf(np.einsum("gmcij,gyxcij->gmyx", left, right)))
    assert not np.isnan(into).any()


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("taps", [1, 3])
@pytest.mark.parametrize("size", [6, 40])
def test_written_where_they_belong(images, taps, size):
    """Products go straight into the memory of a result in which images come before channels."""
    generator = np.random.default_rng(0)
    image = generator.random((images, 16, size, size), np.float32)
    one, channel, row, column = image.strides
    places = size - taps + 1
    shape = (1, images, places, places, 16, taps, taps)
    right = np.lib.stride_tricks.as_strided(image, shape, (0, one, row, column, channel, row, column))
    left = generator.random((5, 1, 1, 1, 16, taps, taps), np.float32)
    result = np.full((images, 5, places, places), np.nan, np.float32)
    found = contracting.contract(left, right, (0, 1, 3), result.transpose(1, 0, 2, 3))
    assert np.shares_memory(found, result)
    expected = np.einsum("mcij,nyxcij->nmyx", left[:, 0, 0, 0], right[0])
    np.testing.assert_allclose(result, expected, rtol=1e-4)


@settings(deadline=None)
@given(
    st.integers(1, 3), st.integers(1, 24), st.tuples(st.integers(2, 6), st.integers(1, 6)), st.tuples(st.integers(1, 5), st.integers(1, 4)),
    st.permutations(range(3)), st.tuples(*[st.integers(1, 3)] * 3), st.integers(0, 99),
)  # fmt: skip
def test_products_reach_memory_of_any_layout(
    rows: int, channels: int, places: tuple[int, int], taps: tuple[int, int], order: list[int], steps: tuple[int, ...], seed: int
) -> None:  # fmt: skip
    generator = np.random.default_rng(seed)
    image = generator.random((channels, places[0] + taps[0] - 1, places[1] + taps[1] - 1), np.float32)
    channel, row, column = image.strides
    shape = (1, *places, channels, *taps)
    right = np.lib.stride_tricks.as_strided(image, shape, (0, row, column, channel, row, column))
    left = generator.random((rows, 1, 1, channels, *taps), np.float32)
    sizes = (rows, *places)
    memory = np.full([sizes[axis] * step for axis, step in zip(order, steps, strict=True)], np.nan, np.float32)
    into = memory[tuple(slice(None, None, step) for step in steps)].transpose(np.argsort(order))
    contracting.contract(left, right, (0, 1, 2), into)
    np.testing.assert_allclose(into, np.einsum("mcij,yxcij->myx", left[:, 0, 0], right[0]), rtol=1e-4)
