"""Convolutions and transposed ones of drawn windows, with gradients: strides, paddings, dilations, groups, uneven ends."""

from __future__ import annotations

import math
from typing import Any

import pytest
from functional_oracle import check, tensor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def _window(data: st.DataObject, transposed: bool) -> tuple[int, dict[str, Any], list[int], list[int]]:
    """Return the number of spatial dimensions, a window's options, its taps and the sizes of an input that it fits."""
    spatial = data.draw(st.sampled_from([1, 2, 2, 3]))
    stride, dilation, taps = (
        data.draw(st.lists(each, min_size=spatial, max_size=spatial))
        for each in (st.integers(1, 3), st.sampled_from([1, 1, 1, 2]), st.integers(1, 3 if spatial == 3 else 5))
    )
    reach = [step * (size - 1) + 1 for step, size in zip(dilation, taps, strict=True)]
    padding = [data.draw(st.integers(0, size)) for size in reach]
    options: dict[str, Any] = {"stride": tuple(stride), "padding": tuple(padding), "dilation": tuple(dilation)}
    sizes = []
    for step, pad, size in zip(stride, padding, reach, strict=True):
        # An input to which the window fits, or whose output has an element at least.
        least = 1 + -(-max(2 * pad - size + 1, 0) // step) if transposed else max(size - 2 * pad, 1)
        # Gradients of a bias are sums over all of the output, which strides and dimensions multiply.
        sizes.append(least + data.draw(st.integers(0, {1: 4, 2: 2, 3: 1}[spatial] if transposed else 4)))
    if transposed:
        options["output_padding"] = tuple(
            data.draw(st.integers(0, max(pair) - 1)) for pair in zip(stride, dilation, strict=True)
        )
    return spatial, options, taps, sizes


def any_convolution(device: str, transposed: bool, data: st.DataObject) -> None:
    spatial, options, taps, sizes = _window(data, transposed)
    groups, images = data.draw(st.sampled_from([1, 1, 2, 3])), data.draw(st.integers(1, 2))
    channels, outputs = data.draw(st.integers(1, 5)), data.draw(st.sampled_from([1, 3, 9, 18]))
    weight = (groups * channels, outputs, *taps) if transposed else (groups * outputs, channels, *taps)
    bias = tensor(groups * outputs) if data.draw(st.booleans()) else None
    name = f"conv_transpose{spatial}d" if transposed else f"conv{spatial}d"
    # As much as makes results of about one: second gradients of large ones are differences of much larger numbers.
    limit = 1 / math.sqrt(channels * outputs * math.prod(taps))
    operands = (
        tensor(images, groups * channels, *sizes, low=-1.0, high=1.0),
        tensor(*weight, low=-limit, high=limit),
        bias,
    )
    check(device, name, *operands, groups=groups, **options)


@pytest.mark.parametrize("transposed", [False, True], ids=["plain", "transposed"])
@pytest.mark.parametrize("count", [pytest.param(3, id="some"), pytest.param(60, id="many", marks=pytest.mark.slow)])
def test_any_convolution(device: str, transposed: bool, count: int) -> None:
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    drawn = settings(max_examples=count, deadline=None, suppress_health_check=checks)
    drawn(given(data=st.data())(lambda data: any_convolution(device, transposed, data)))()


@pytest.mark.parametrize(
    "options", [{}, {"stride": 2, "output_padding": 1}, {"dilation": 2}, {"stride": 3, "groups": 2}]
)
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_transposed_convolution_of_no_images_has_gradients(device: str, spatial: int, options: dict[str, int]) -> None:
    sizes = (5,) * spatial
    check(device, f"conv_transpose{spatial}d", tensor(0, 4, *sizes), tensor(4, 3, *(3,) * spatial), **options)
