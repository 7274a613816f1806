"""Sliding blocks of images taken apart and put together, and channels rearranged."""

from __future__ import annotations

from collections.abc import Callable

from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.titles import titled
from webgpu_torch_core.ir.layouts import wrap_dimension
from webgpu_torch_core.operations.common import attach, image_order, in_order, no_view, refuse_types
from webgpu_torch_core.operations.in_place.writing import snapshot
from webgpu_torch_core.operations.spatial.sliding_windows import Window, overlapping_sum, patches

from ._arguments import Sizes, spread


def _block_window(
    sizes: tuple[int, ...], kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes, function: str
) -> Window:
    taps = spread(kernel_size, 2, function, "kernel_size")
    spreads = spread(dilation, 2, function, "dilation")
    pads = spread(padding, 2, function, "padding")
    steps = spread(stride, 2, function, "stride")
    for name, values in (("kernel_size", taps), ("dilation", spreads), ("stride", steps)):
        if min(values) <= 0:
            title = "kernel size" if name == "kernel_size" else name
            raise RuntimeError(f"{title} should be greater than zero, but got {name}={list(values)}")
    if min(pads) < 0:
        raise RuntimeError(f"padding should be non-negative, but got padding={list(pads)}")
    output = tuple(
        (size + 2 * pads[axis] - spreads[axis] * (taps[axis] - 1) - 1) // steps[axis] + 1
        for axis, size in enumerate(sizes)
    )
    if min(output) < 1:
        raise RuntimeError(
            f"Given input with spatial size {sizes}, kernel_size={taps}, dilation={spreads}, padding={pads}, "
            f"calculated shape of the array of sliding blocks as {output}, but its components must be at least one."
        )
    return Window(taps, steps, pads, spreads, output)


@titled("Im2ColBackward0")
def unfold(input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """Sliding blocks of [n, c, height, width] (or without n) as columns: [n, c * taps, blocks]."""
    # PyTorch looks at the channels before anything else.
    wrap_dimension(1, input.ndim)
    if input.ndim == 3:
        return unfold(input.unsqueeze(0), kernel_size, dilation, padding, stride).squeeze(0)
    if input.ndim != 4 or 0 in input.shape[1:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but "
            f"got: {list(input.shape)}"
        )
    window = _block_window(tuple(input.shape[2:]), kernel_size, dilation, padding, stride, "unfold")
    refuse_types("im2col_out_cpu", input, 1)
    columns = input.shape[1] * window.taps[0] * window.taps[1]
    return patches(input, window).reshape(input.shape[0], columns, window.output[0] * window.output[1])


def fold(
    input: Tensor, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """Columns [n, c * taps, blocks] (or without n) summed at their blocks' places: [n, c, height, width]."""
    if input.ndim == 2:
        return fold(input.unsqueeze(0), output_size, kernel_size, dilation, padding, stride).squeeze(0)
    if input.ndim != 3 or 0 in input.shape[1:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but "
            f"got: {list(input.shape)}"
        )
    refuse_types("col2im_out_cpu", input, 1)
    sizes = spread(output_size, 2, "fold", "output_size")
    window = _block_window(sizes, kernel_size, dilation, padding, stride, "fold")
    taps = window.taps[0] * window.taps[1]
    blocks = window.output[0] * window.output[1]
    if input.shape[1] % taps:
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)="
            f"{input.shape[1]} and kernel_size={window.taps}."
        )
    if input.shape[2] != blocks:
        raise RuntimeError(
            f"Given output_size={sizes}, kernel_size={window.taps}, dilation={window.dilation}, padding={window.padding}, "
            f"stride={window.stride}, expected size of input's dimension 2 to match the calculated number of sliding blocks "
            f"{window.output[0]} * {window.output[1]} = {blocks}, but got input.size(2)={input.shape[2]}."
        )
    columns = input.reshape(input.shape[0], input.shape[1] // taps, *window.taps, *window.output)
    return overlapping_sum(columns, window, sizes)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """[*, c * r * r, h, w] to [*, c, h * r, w * r] (Shi et al., 2016)."""
    if input.ndim < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )
    if upscale_factor <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {upscale_factor}")
    *lead, channels, height, width = input.shape
    r = upscale_factor
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
            f"input.size(-3)={channels} is not divisible by {r * r}"
        )
    parts = input.detach().reshape(*lead, channels // (r * r), r, r, height, width)
    first = len(lead)
    order = (*range(first), first, first + 3, first + 1, first + 4, first + 2)
    result = parts.permute(order).reshape(*lead, channels // (r * r), height * r, width * r)
    return _rearranged(result, input, "PixelShuffleBackward0", lambda grad: pixel_unshuffle(grad, r))


def _rearranged(result: Tensor, input: Tensor, title: str, inverse: Callable[[Tensor], Tensor]) -> Tensor:
    """Return an input's elements in other places, in its order in memory; the gradient, put back by ``inverse``, is in its own."""
    apart = snapshot(result) if result._storage is input._storage else result
    return attach(in_order(no_view(apart), image_order(input)), title, (input,), inverse)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """[*, c, h * r, w * r] to [*, c * r * r, h, w]: the inverse of :func:`pixel_shuffle`."""
    if input.ndim < 3:
        raise RuntimeError(
            f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )
    if downscale_factor <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {downscale_factor}")
    *lead, channels, height, width = input.shape
    r = downscale_factor
    for name, place, size in (("height", -2, height), ("width", -1, width)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but input.size({place})={size} is not "
                f"divisible by {r}"
            )
    parts = input.detach().reshape(*lead, channels, height // r, r, width // r, r)
    first = len(lead)
    order = (*range(first), first, first + 2, first + 4, first + 1, first + 3)
    result = parts.permute(order).reshape(*lead, channels * r * r, height // r, width // r)
    return _rearranged(result, input, "PixelUnshuffleBackward0", lambda grad: pixel_shuffle(grad, r))


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """[n, groups * c, *] with the channels of the groups interleaved (Zhang et al., 2017)."""
    if input.ndim < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    count, channels, *rest = input.shape
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} groups."
        )
    each = channels // groups
    result = input.detach().reshape(count, groups, each, *rest).transpose(1, 2).reshape(input.shape)
    return _rearranged(result, input, "ChannelShuffleBackward0", lambda grad: channel_shuffle(grad, each))


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """:func:`channel_shuffle`, by the name of PyTorch's kernel."""
    return channel_shuffle(input, groups)
