"""Convolutions of few channels whose threads sum several neighbours agree with PyTorch's, whatever windows slide by."""

from __future__ import annotations

from typing import Any

import codegen_harness
import pytest
import torch
from codegen_harness import harness
from contraction_cases import draw
from hypothesis import strategies as st
from webgpu_torch_backend_wgpu.codegen.contraction_sliding import Sliding, generate_sliding, sliding
from webgpu_torch_core.ir.dtypes import dtype, float16, float32
from webgpu_torch_core.ir.expression import Expression, accumulator, apply, cast, coordinate, load, load_at, select
from webgpu_torch_core.ir.kernels import Contraction, Operand, Output, Store

pytestmark = pytest.mark.usefixtures("webgpu")


def window(place: Expression, size: int) -> tuple[Expression, Expression]:
    """Return whether a place is inside of a dimension, and the place kept inside of it."""
    return (
        apply("less_equal", 0, place) & apply("less", place, size),
        apply("minimum", apply("maximum", place, 0), size - 1),
    )


def depthwise(
    images: int, channels: int, filters: int, height: int, width: int, taps: tuple[int, int], stride: int,
    padding: int, dilation: int, kind: dtype = float32, turned: bool = False, swapped: bool = False,
) -> Contraction:  # fmt: skip
    """Return the kernel of a depthwise convolution: results of [images, channels, filters, rows, columns].

    ``turned``: neighbouring results are channels of one position; ``swapped``: the images are the left side.
    """
    out_height, out_width = (
        (size + 2 * padding - dilation * (each - 1) - 1) // stride + 1
        for size, each in zip((height, width), taps, strict=True)
    )
    first = 1 if swapped else 2
    image, row, column = (coordinate(each) for each in range(first, first + 3))
    inside, y = window(row * stride + coordinate(5) * dilation - padding, height)
    beside, x = window(column * stride + coordinate(6) * dilation - padding, width)
    index = ((image * channels + coordinate(0)) * height + y) * width + x
    slides = cast(load_at(0, index, kind), float32)
    slides = select(inside & beside, slides, 0.0) if padding else slides
    size = taps[0] * taps[1]
    strides = [filters * size, 0, 0, 0, 0, taps[1], 1]
    strides[4 if swapped else 1] = size
    factor = cast(load(1, 0, tuple(strides), kind), float32)
    rows, positions = (images, out_height, out_width), channels * filters * images * out_height * out_width
    area = out_height * out_width
    by_image, by_row, by_column = (
        (channels * filters * area, channels * filters * out_width, channels * filters)
        if turned
        else (channels * filters * area, out_width, 1)
    )
    by_channel, by_filter = (filters, 1) if turned else (filters * area, area)
    stored = [
        by_channel,
        *((by_image, by_row, by_column, by_filter) if swapped else (by_filter, by_image, by_row, by_column)),
    ]
    sizes = (rows, (filters,)) if swapped else ((filters,), rows)
    sides = (slides, factor) if swapped else (factor, slides)
    return Contraction(
        (Operand(kind, images * channels * height * width), Operand(kind, channels * filters * size)),
        (Output(kind, positions, None),), (), "depthwise", (channels,), *sizes, taps, *sides, float32,
        (Store(0, 0, tuple(stored), cast(accumulator(float32), kind)),),
    )  # fmt: skip


def check(kernel: Contraction, plan: Sliding, given: tuple[torch.Tensor, torch.Tensor], wanted: torch.Tensor) -> None:
    def make(kernel: Contraction, capabilities: Any) -> Any:
        return generate_sliding(kernel, capabilities, plan)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codegen_harness, "generate", make)
        (got,) = harness().run(kernel, list(given))
    limit = 2e-3 if kernel.outputs[0].dtype is float16 else 1e-5
    torch.testing.assert_close(got.double().view(wanted.shape), wanted, rtol=limit, atol=limit)


def any_window(data: st.DataObject) -> None:
    few = st.integers(1, 3)
    images, channels, filters = data.draw(few), data.draw(few), data.draw(few)
    taps = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 7))
    stride, dilation = data.draw(st.sampled_from([(1, 1), (2, 1), (1, 1), (2, 2), (3, 3), (4, 2)]))
    padding = data.draw(st.integers(0, 3))
    least = [max(dilation * (each - 1) + 1 - 2 * padding, 1) for each in taps]
    height, width = data.draw(st.integers(least[0], least[0] + 3)), data.draw(st.integers(least[1], least[1] + 20))
    kind = data.draw(st.sampled_from([float32, float32, float16]))
    turned, swapped = data.draw(st.booleans()), data.draw(st.booleans())
    kernel = depthwise(
        images, channels, filters, height, width, taps, stride, padding, dilation, kind, turned, swapped
    )  # fmt: skip
    plans = [
        each
        for each in sliding(kernel, harness().native.replace(software=False))
        if each.group == ("m" if swapped else "n")
    ]
    out_width = kernel.m[-1] if swapped else kernel.n[-1]
    assert (len(plans) > 0) == (out_width > 1)
    if not plans:
        return
    torch.manual_seed(data.draw(st.integers(0, 99)))
    chosen = torch.float16 if kind is float16 else torch.float32
    image = torch.randn(images, channels, height, width).to(chosen)
    weight = torch.randn(channels * filters, 1, *taps).to(chosen)
    wanted = torch.nn.functional.conv2d(
        image.double(), weight.double(), stride=stride, padding=padding, dilation=dilation, groups=channels
    )
    check(
        kernel,
        data.draw(st.sampled_from(plans)),
        (image, weight),
        wanted.permute(0, 2, 3, 1).contiguous() if turned else wanted,
    )


@pytest.mark.parametrize("count", [pytest.param(12, id="some"), pytest.param(150, id="many", marks=pytest.mark.slow)])
def test_any_window(count: int) -> None:
    draw(count, any_window)


def test_what_does_not_slide() -> None:
    given = harness().native.replace(software=False)
    # The next result reads half a step further.
    assert not list(sliding(depthwise(1, 2, 1, 9, 9, (3, 3), 1, 1, 2), given))
