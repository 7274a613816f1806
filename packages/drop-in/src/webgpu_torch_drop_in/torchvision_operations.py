"""torchvision's compiled operations, composed of this library's: on every device, with gradients.

They are registered when torchvision loads its extension module (``torch.ops.load_library``), under its own names; torchvision
itself registers which of the functions here computes whose gradient. The rules of sampling are those of its operations' documentation
(regions: He et al., "Mask R-CNN", 2017, and Dai et al., "R-FCN", 2016; deformable convolution: Zhu et al., "Deformable ConvNets v2", 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import webgpu_torch as torch
from webgpu_torch import Tensor, library

#: How many boxes are compared with all others at a time.
BLOCK = 1024


def register() -> None:
    """Register the operations under ``torch.ops.torchvision``."""
    found: dict[str, Callable[..., object]] = {"_cuda_version": lambda: -1}
    for function in (
        nms, roi_align, _roi_align_backward, roi_pool, _roi_pool_backward, ps_roi_align, _ps_roi_align_backward, ps_roi_pool,
        _ps_roi_pool_backward, deform_conv2d, _deform_conv2d_backward,
    ):  # fmt: skip
        found[function.__name__] = function
    for name, function in found.items():
        library.define(f"torchvision::{name}", "")
        library.impl(f"torchvision::{name}", "default", function)
    # torchvision describes the shapes of these two under the names of their quantised kinds.
    for name in ("qnms", "qroi_align"):
        library.define(f"torchvision::{name}", "")


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Return the places of the boxes that overlap no kept box of a higher score by more than the threshold.

    Args:
        dets: [boxes, 4], left, top, right and bottom.
        scores: [boxes].
        iou_threshold: of the intersection over the union.

    Raises:
        RuntimeError: other shapes.
    """
    if dets.ndim != 2 or dets.shape[1] != 4:
        raise RuntimeError(f"boxes should be [boxes, 4], got shape {tuple(dets.shape)}")
    if scores.shape != dets.shape[:1]:
        raise RuntimeError(
            f"scores should be [{dets.shape[0]}], a number for each box, got shape {tuple(scores.shape)}"
        )
    with torch.no_grad():
        order = scores.sort(stable=True, descending=True).indices
        boxes = dets[order]
        count = len(boxes)
        kept = torch.ones(count, dtype=torch.bool, device=dets.device)
        for start in range(0, count, BLOCK):
            end = min(start + BLOCK, count)
            over = _overlaps(boxes[start:end], boxes[start:]) > iou_threshold
            before = over[:, : end - start].triu(1)
            candidates = kept[start:end]
            chosen = candidates
            while True:
                # A box stays unless one that stays is before it; once nothing changes, that is so from the first on.
                following = candidates & ~(before & chosen[:, None]).any(0)
                if torch.equal(following, chosen):
                    break
                chosen = following
            kept[start:end] = chosen
            kept[end:] &= ~(over[:, end - start :] & chosen[:, None]).any(0)
        return order[kept]


def _overlaps(boxes: Tensor, others: Tensor) -> Tensor:
    """Return the intersection over the union of each of [n, 4] with each of [m, 4] as [n, m]."""
    low = torch.maximum(boxes[:, None, :2], others[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], others[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(2)
    areas, other_areas = ((each[:, 2:] - each[:, :2]).prod(1) for each in (boxes, others))
    return shared / (areas[:, None] + other_areas - shared)


def roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int,
    aligned: bool,
) -> Tensor:  # fmt: skip
    """Return the means of points in a grid of bins of each region, between pixels by bilinear interpolation.

    Args:
        input: [batch, channels, height, width].
        rois: [regions, 5], the place in the batch, left, top, right and bottom.
        spatial_scale: from the regions' coordinates to pixels.
        pooled_height, pooled_width: bins of a region.
        sampling_ratio: points of a bin each way; 0 or less: as many as it has pixels.
        aligned: pixels are half a pixel to the right and below of their numbers.

    Returns:
        [regions, channels, pooled_height, pooled_width].

    Raises:
        RuntimeError: other shapes, or two types.
    """
    _check(input, rois)
    offset = 0.5 if aligned else 0.0
    low, high = rois[:, 1:3] * spatial_scale - offset, rois[:, 3:5] * spatial_scale - offset
    extent = high - low if aligned else (high - low).clamp(min=1.0)
    return _sampled(input, rois, low, extent, (pooled_height, pooled_width), sampling_ratio)


def _check(input: Tensor, rois: Tensor) -> None:
    if rois.ndim != 2 or rois.shape[1] != 5:
        raise RuntimeError(f"rois must have shape as Tensor[K, 5], got {tuple(rois.shape)}")
    if input.ndim != 4:
        raise RuntimeError(f"input should be [batch, channels, height, width], got shape {tuple(input.shape)}")
    if input.dtype != rois.dtype:
        raise RuntimeError(
            f"Expected tensor for input to have the same type as tensor for rois; but type {input.dtype} does not equal {rois.dtype}"
        )


def _sampled(
    input: Tensor, rois: Tensor, low: Tensor, extent: Tensor, bins: tuple[int, int], sampling_ratio: int
) -> Tensor:
    """Return the means of points of each bin as [regions, channels, rows, columns]; ``low`` and ``extent`` are [regions, (x, y)]."""
    regions, channels = rois.shape[0], input.shape[1]
    if 0 in (regions, input.numel()):
        return input.new_zeros((regions, channels, *bins))
    points = []
    for axis, count in ((1, bins[0]), (0, bins[1])):
        size = extent[:, axis] / count
        if sampling_ratio > 0:
            most, taken = sampling_ratio, torch.full_like(size, sampling_ratio)
        else:
            taken = size.ceil().clamp(min=0)
            most = max(int(taken.max().item()), 1)
        steps = torch.arange(most, dtype=size.dtype, device=size.device)
        # [regions, bins, points]
        starts = torch.arange(count, dtype=size.dtype, device=size.device)[:, None] * size[:, None, None]
        inside = (steps + 0.5) * (size / taken.clamp(min=1))[:, None, None]
        points.append((low[:, axis, None, None] + starts + inside, (steps < taken[:, None]).to(size.dtype), taken))
    (rows, row_weights, row_count), (columns, column_weights, column_count) = points
    height, width = input.shape[2:]
    batch = rois[:, 0].to(torch.int64)[:, None, None]
    maps = input.permute(0, 2, 3, 1)
    total: Any = 0
    for row, row_part in _corners(rows.flatten(1), height):
        for column, column_part in _corners(columns.flatten(1), width):
            weights = row_part[:, :, None] * column_part[:, None, :]
            total = total + maps[batch, row[:, :, None], column[:, None, :]] * weights[..., None]
    weighed = total.unflatten(2, (bins[1], -1)).unflatten(1, (bins[0], -1))
    weighed = weighed * (row_weights[:, None, :, None, None, None] * column_weights[:, None, None, None, :, None])
    count = (row_count * column_count).clamp(min=1)
    return weighed.sum((2, 4)).permute(0, 3, 1, 2) / count[:, None, None, None]


def _corners(places: Tensor, size: int) -> list[tuple[Tensor, Tensor]]:
    """Return the two pixels beside each place with their parts; none of a place further than a pixel outside."""
    outside = (places < -1.0) | (places > size)
    clamped = places.clamp(0, size - 1)
    first = clamped.detach().floor().clamp(max=max(size - 1, 0))
    part = clamped - first
    second = (first + 1).clamp(max=size - 1)
    return [
        (first.to(torch.int64), (1 - part).masked_fill(outside, 0.0)),
        (second.to(torch.int64), part.masked_fill(outside, 0.0)),
    ]


def roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """Return the largest pixel in each bin of each region, and where it is in its plane (-1: the bin is empty).

    Arguments and shapes are those of :func:`roi_align`.
    """
    _check(input, rois)
    with torch.no_grad():
        pixels = input[rois[:, 0].to(torch.int64)]
        height, width = pixels.shape[2:]
        by_columns, by_rows = _bins(rois, spatial_scale, (pooled_height, pooled_width), (height, width), 1)
        least = -torch.finfo(input.dtype).max
        columns: list[Any] = [
            pixels.masked_fill(~by_columns[:, None, None, each], least).max(3) for each in range(pooled_width)
        ]
        values = torch.stack([each.values for each in columns], 3)
        places = torch.stack([each.indices for each in columns], 3)
        found, where = [], []
        for each in range(pooled_height):
            largest: Any = values.masked_fill(~by_rows[:, None, each, :, None], least).max(2)
            found.append(largest.values)
            row = largest.indices[:, :, None]
            where.append((row * width + places.gather(2, row))[:, :, 0])
        empty = ~(by_rows.any(2)[:, None, :, None] & by_columns.any(2)[:, None, None, :])
        return (
            torch.stack(found, 2).masked_fill(empty, 0.0),
            torch.stack(where, 2).masked_fill(empty, -1).to(torch.int32),
        )


def _bins(
    rois: Tensor, spatial_scale: float, bins: tuple[int, int], size: tuple[int, int], more: int
) -> tuple[Tensor, Tensor]:
    """Return which columns, and which rows, belong to each bin: [regions, bins, pixels] each.

    A region's last pixel counts where ``more`` is 1, and none of it where it is 0, nor the last of the image then.
    """
    found = []
    for axis, count, pixels in ((0, bins[1], size[1]), (1, bins[0], size[0])):
        # Halves are rounded away from zero.
        start, end = (
            each.sign() * (each.abs() + 0.5).floor() for each in (rois[:, [1 + axis, 3 + axis]] * spatial_scale).T
        )
        width = (end - start + more).clamp(min=1) / count
        steps = torch.arange(count + 1, dtype=start.dtype, device=start.device)
        low = (steps[:-1] * width[:, None]).floor() + start[:, None]
        high = ((steps[1:] * width[:, None]).ceil() + start[:, None]).clamp(max=pixels - 1 + more)
        places = torch.arange(pixels, dtype=start.dtype, device=start.device)
        found.append((places >= low[..., None]) & (places < high[..., None]))
    return found[0], found[1]


def ps_roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int
) -> tuple[Tensor, Tensor]:
    """Return :func:`roi_align` of a channel of its own for each bin, and which channel that is.

    Raises:
        RuntimeError: the channels are no multiple of the bins; other shapes, or two types.
    """
    _check(input, rois)
    mapping = _channels(input, rois, pooled_height, pooled_width)
    low, high = rois[:, 1:3] * spatial_scale - 0.5, rois[:, 3:5] * spatial_scale - 0.5
    every = _sampled(input, rois, low, high - low, (pooled_height, pooled_width), sampling_ratio)
    return every.gather(1, mapping.to(torch.int64)), mapping


def _channels(input: Tensor, rois: Tensor, pooled_height: int, pooled_width: int) -> Tensor:
    bins = pooled_height * pooled_width
    if input.shape[1] % bins:
        raise RuntimeError(
            f"input channels must be a multiple of pooling height * pooling width, got {input.shape[1]} and {bins}"
        )
    mapping = torch.arange(input.shape[1], dtype=torch.int32, device=input.device)
    mapping = mapping.reshape(1, -1, pooled_height, pooled_width)
    return mapping.expand(rois.shape[0], -1, -1, -1).contiguous()


def ps_roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """Return the mean pixel of each bin, of a channel of its own for each, and which channel that is.

    Raises:
        RuntimeError: the channels are no multiple of the bins; other shapes, or two types.
    """
    _check(input, rois)
    mapping = _channels(input, rois, pooled_height, pooled_width)
    bins, size = (pooled_height, pooled_width), (input.shape[2], input.shape[3])
    columns, rows = (each.to(input.dtype) for each in _bins(rois, spatial_scale, bins, size, 0))
    pixels = input[rois[:, 0].to(torch.int64)].unflatten(1, (-1, pooled_height, pooled_width))
    summed = torch.einsum("kcijhw,kjw,kih->kcij", pixels, columns, rows)
    area = (rows.sum(2)[:, :, None] * columns.sum(2)[:, None, :])[:, None]
    return torch.where(area > 0, summed / area.clamp(min=1), 0.0), mapping


def deform_conv2d(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, stride_h: int, stride_w: int, pad_h: int,
    pad_w: int, dilation_h: int, dilation_w: int, groups: int, offset_groups: int, use_mask: bool,
) -> Tensor:  # fmt: skip
    """Return the convolution whose every tap reads beside its place, at an offset of its own, times its mask.

    Args:
        input: [batch, channels, height, width].
        weight: [out, channels / groups, taps down, taps across].
        offset: [batch, offset_groups * taps * 2, rows, columns], down and across of each tap.
        mask: [batch, offset_groups * taps, rows, columns], unless ``use_mask`` is false.
        bias: [out].

    Raises:
        RuntimeError: shapes that do not fit together.
    """
    batch, channels, height, width = input.shape
    outs, _, down, across = weight.shape
    rows = (height + 2 * pad_h - dilation_h * (down - 1) - 1) // stride_h + 1
    columns = (width + 2 * pad_w - dilation_w * (across - 1) - 1) // stride_w + 1
    taps = down * across
    for name, given, wanted in (
        ("offset", offset, (batch, offset_groups * taps * 2, rows, columns)),
        *((("mask", mask, (batch, offset_groups * taps, rows, columns)),) if use_mask else ()),
    ):
        if tuple(given.shape) != wanted:
            raise RuntimeError(f"{name} should have shape {wanted}, got {tuple(given.shape)}")
    moved = offset.reshape(batch, offset_groups, down, across, 2, rows, columns)

    def places(
        axis: int, step: int, pad: int, dilation: int, count: int, tap_shape: Sequence[int], shape: Sequence[int]
    ) -> Tensor:
        size = weight.shape[2 + axis]
        tap = torch.arange(size, dtype=input.dtype, device=input.device).reshape(tap_shape) * dilation
        start = torch.arange(count, dtype=input.dtype, device=input.device).reshape(shape) * step - pad
        return moved[:, :, :, :, axis] + tap + start

    y = places(0, stride_h, pad_h, dilation_h, rows, (down, 1, 1, 1), (rows, 1))
    x = places(1, stride_w, pad_w, dilation_w, columns, (across, 1, 1), (columns,))
    flat = input.reshape(batch, offset_groups, channels // offset_groups, height * width)
    sampled: Any = 0
    for row, row_part in _free_corners(y, height):
        for column, column_part in _free_corners(x, width):
            where = (row * width + column).flatten(2)[:, :, None].expand(-1, -1, flat.shape[2], -1)
            sampled = sampled + flat.gather(3, where) * (row_part * column_part).flatten(2)[:, :, None]
    if use_mask:
        sampled = sampled * mask.reshape(batch, offset_groups, 1, -1)
    patches = sampled.reshape(batch, groups, channels // groups * taps, rows * columns)
    filters = weight.reshape(groups, outs // groups, -1)
    return torch.matmul(filters, patches).reshape(batch, outs, rows, columns) + bias[:, None, None]


def _free_corners(places: Tensor, size: int) -> list[tuple[Tensor, Tensor]]:
    """Return the two pixels beside each place with their parts; pixels outside count nothing."""
    first = places.detach().floor()
    part = places - first
    found = []
    for pixel, share in ((first, 1 - part), (first + 1, part)):
        outside = (pixel < 0) | (pixel > size - 1)
        found.append((pixel.clamp(0, size - 1).to(torch.int64), share.masked_fill(outside, 0.0)))
    return found


# Gradients: torchvision registers these functions as those of the ones above.


def _gradients(function: Callable[..., Tensor], inputs: Sequence[Tensor], grad: Tensor) -> tuple[Tensor, ...]:
    """Return the products of a gradient with the Jacobians of a function's tensors."""
    with torch.enable_grad():
        leaves = [each.detach().requires_grad_() for each in inputs]
        results = torch.autograd.grad(function(*leaves), leaves, grad, allow_unused=True)
    return tuple(torch.zeros_like(each) if one is None else one for each, one in zip(inputs, results, strict=True))


def _roi_align_backward(
    grad: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, batch_size: int, channels: int,
    height: int, width: int, sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    def forward(input: Tensor) -> Tensor:
        return roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)

    return _gradients(forward, [grad.new_zeros((batch_size, channels, height, width))], grad)[0]


def _roi_pool_backward(
    grad: Tensor, rois: Tensor, argmax: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, batch_size: int,
    channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    image = rois[:, 0].to(torch.int64)[:, None, None, None]
    channel = torch.arange(channels, device=grad.device)[:, None, None]
    where = (image * channels + channel) * (height * width) + argmax.clamp(min=0)
    counted = grad.masked_fill(argmax < 0, 0.0)
    result = grad.new_zeros(batch_size * channels * height * width)
    return result.index_add(0, where.flatten(), counted.flatten()).reshape(batch_size, channels, height, width)


def _gradient_of_image(
    pool: Callable[..., tuple[Tensor, ...]], grad: Tensor, rois: Tensor, numbers: Sequence[float]
) -> Tensor:
    """Return the product of a gradient with the Jacobian of pooling an image, whose sizes are the last four numbers."""
    *options, batch_size, channels, height, width = numbers
    image = grad.new_zeros((int(batch_size), int(channels), int(height), int(width)))
    return _gradients(lambda each: pool(each, rois, *options)[0], [image], grad)[0]


def _ps_roi_align_backward(grad: Tensor, rois: Tensor, channel_mapping: Tensor, *numbers: float) -> Tensor:
    return _gradient_of_image(ps_roi_align, grad, rois, numbers)


def _ps_roi_pool_backward(grad: Tensor, rois: Tensor, channel_mapping: Tensor, *numbers: float) -> Tensor:
    return _gradient_of_image(ps_roi_pool, grad, rois, numbers)


def _deform_conv2d_backward(
    grad: Tensor, input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, *numbers: int
) -> tuple[Tensor, ...]:
    *sizes, use_mask = numbers

    def forward(input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor) -> Tensor:
        return deform_conv2d(input, weight, offset, mask, bias, *sizes, use_mask=bool(use_mask))  # type: ignore[misc]

    return _gradients(forward, [input, weight, offset, mask, bias], grad)
