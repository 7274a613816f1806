"""Copies of rows as elements write what copies of elements do."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from webgpu_torch_backend_cpu.moving import FEWEST_ROWS, LONGEST_ROW, move, together

KINDS = ("uint8", "float16", "float32", "int64", "complex64")


@st.composite
def windows(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Return a target and a source of one shape, parts of larger arrays whose axes may lie in any order and backwards."""
    kind = np.dtype(draw(st.sampled_from(KINDS)))
    outer = draw(st.lists(st.integers(0, 12), min_size=0, max_size=3))
    shape = (
        *outer,
        draw(st.integers(0, 2 * LONGEST_ROW // kind.itemsize)) if draw(st.booleans()) else draw(st.integers(0, 9)),
    )
    found = []
    for _ in range(2):
        order = draw(st.permutations(range(len(outer))))
        gaps = [draw(st.integers(0, 2)) for _ in shape]
        whole = np.zeros([shape[axis] + gaps[axis] for axis in (*order, len(outer))], kind)
        back = [order.index(axis) for axis in range(len(outer))]
        array = whole.transpose((*back, len(outer)))
        array = array[tuple(slice(gap, None) for gap in gaps)]
        found.append(array[tuple(slice(None, None, draw(st.sampled_from((1, -1)))) for _ in shape)])
    target, source = found
    source[...] = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 100, shape)
    return target, source


@given(windows())
def test_a_copy_has_all_elements(arrays: tuple[np.ndarray, np.ndarray]) -> None:
    target, source = arrays
    expected = source.copy()
    move(target, source)
    np.testing.assert_array_equal(target, expected)
    np.testing.assert_array_equal(together(source), expected)


def test_rows_are_repeated_along_axes_that_have_one() -> None:
    source = np.arange(2 * FEWEST_ROWS * 3.0).reshape(FEWEST_ROWS, 1, 6)
    target = np.zeros((FEWEST_ROWS, 4, 6))
    move(target, source)
    np.testing.assert_array_equal(target, np.broadcast_to(source, target.shape))


def test_other_types_are_converted() -> None:
    source = np.arange(FEWEST_ROWS * 6).reshape(FEWEST_ROWS, 6)
    target = np.zeros((FEWEST_ROWS, 6), np.float32)
    move(target, source)
    np.testing.assert_array_equal(target, source)
