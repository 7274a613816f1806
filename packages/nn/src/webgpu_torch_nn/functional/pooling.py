"""Pooling: averages, maxima and power means of sliding windows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.argument_types import is_whole
from webgpu_torch_core.dispatch.titles import titled
from webgpu_torch_core.notices import alert_not_deterministic
from webgpu_torch_core.operations.common import (
    dtype_title,
    in_order,
    ordered_as,
    refuse_halves,
    refuse_types,
    with_ordered_gradient,
)
from webgpu_torch_core.operations.outputs import into
from webgpu_torch_core.operations.spatial.sliding_windows import (
    Window,
    flat_indices,
    greatest_taps,
    nothing,
    picked,
    window_sum,
)
from webgpu_torch_core.operations.value_checks import refuse_any
from webgpu_torch_core.replay.recipes import remembered

from ._arguments import Sizes, batched, per_rank, require_kind, spread, wide
from .activation import relu


def _windows_that_fit(size: int, taps: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """Return how many windows fit; with ``ceil_mode`` one more that starts inside but reaches beyond the end."""
    reach = size + 2 * padding - dilation * (taps - 1) - 1
    count = (reach + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1
    return count


_EMPTY = {
    "avg_pool": "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:{shape}",
    "avg_pool3d": "{function}(): Expected input's non-batch dimensions to have positive length, but input has a shape of {shape}",
    "max_pool1d": "{function}: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:{shape}",
    "max_pool3d": "{function}: Expected input's non-batch dimensions to have positive length, but got: {shape}",
}


def _check_line(taps: tuple[int, ...], stride: Sizes | None, padding: Sizes, dilation: Sizes) -> None:
    """Raise the errors of max_pool1d, which PyTorch words differently."""
    named = (("kernel_size", taps), ("stride", taps if stride is None else stride), ("dilation", dilation))
    for name, given in named:
        value = given if isinstance(given, int) else next(iter(given), 1)
        if value <= 0:
            raise RuntimeError(f"max_pool1d() {name} must be greater than zero, but got {value}")
    pad = padding if isinstance(padding, int) else next(iter(padding), 0)
    if pad > taps[0] // 2:
        raise RuntimeError(
            f"max_pool1d() padding should be at most half of kernel size, but got padding={pad} and kernel_size={taps[0]}"
        )


def _pooling_window(
    input: Tensor, spatial: int, function: str, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes,
    ceil_mode: bool,
) -> Window:  # fmt: skip
    """Return the window of a pooling over [n, c, sizes…].

    Raises:
        RuntimeError: sizes that no window fits, or padding of more than half of a window.
    """
    taps = spread(kernel_size, spatial, function, "kernel_size")
    if function == "max_pool1d":
        _check_line(taps, stride, padding, dilation)
    given = stride if stride is not None and stride != () and stride != [] else taps
    steps = spread(given, spatial, function, "stride")
    pads = spread(padding, spatial, function, "padding")
    spreads = spread(dilation, spatial, function, "dilation")
    if 0 in steps:
        raise RuntimeError("stride should not be zero")
    if min(taps) <= 0:
        sizes = (1,) * (2 - spatial) + taps
        told = " ".join(f"k{axis}: {size}" for axis, size in zip("THW"[-len(sizes) :], sizes, strict=True))
        raise RuntimeError(f"kernel size should be greater than zero, but got {told}")
    if min(steps) <= 0:
        raise RuntimeError(f"stride should be positive, got {steps}")
    if min(spreads) <= 0:
        told = " ".join(f"dilation{axis}: {gap}" for axis, gap in zip("THW"[-spatial:], spreads, strict=True))
        raise RuntimeError(f"dilation should be greater than zero, but got {told}")
    for pad, size, gap in zip(pads, taps, spreads, strict=True):
        if pad < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {pad}")
        if pad > ((size - 1) * gap + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={pad}, kernel_size={size} and dilation={gap}"
            )
    sizes = tuple(input.shape[2:])
    if 0 in sizes or input.shape[1] == 0:
        raise RuntimeError(_EMPTY.get(function, _EMPTY["avg_pool"]).format(function=function, shape=list(input.shape)))
    output = tuple(
        _windows_that_fit(size, taps[axis], steps[axis], pads[axis], spreads[axis], ceil_mode)
        for axis, size in enumerate(sizes)
    )
    if min(output) < 1:
        if function == "max_pool1d":
            raise RuntimeError(f"Invalid computed output size: {output[0]}")
        raise RuntimeError(
            f"Given input size: ({'x'.join(map(str, input.shape[1:]))}). Calculated output size: "
            f"({'x'.join(map(str, (input.shape[1], *output)))}). Output size is too small"
        )
    return Window(taps, steps, pads, spreads, output)


# Averages


def _count(window: Window, axis: int, size: int, include_pad: bool) -> list[int]:
    """Return how many elements each of the windows along a dimension has, or one number for all."""
    if not window.padding[axis] and (window.output[axis] - 1) * window.stride[axis] + window.taps[axis] <= size:
        return [window.taps[axis]]
    counts: list[int] = []
    for position in range(window.output[axis]):
        start = position * window.stride[axis] - window.padding[axis]
        stop = min(start + window.taps[axis], size + window.padding[axis])
        counts.append(stop - start if include_pad else min(stop, size) - max(start, 0))
    return counts


def _average(input: Tensor, window: Window, include_pad: bool, divisor: int | None) -> Tensor:
    sizes = tuple(input.shape[2:])
    if divisor is not None:
        if divisor == 0:
            raise RuntimeError("divisor must be not zero")
        counts = [[divisor], *([1] for _ in sizes[1:])]
    else:
        counts = [_count(window, axis, size, include_pad) for axis, size in enumerate(sizes)]
    if not input.dtype.is_floating_point:
        total = window_sum(input, window)
        for axis, each in enumerate(counts):
            total = total.div(_along(each, axis, len(sizes), input, torch.int64), rounding_mode="trunc")
        return total.to(input.dtype)
    if all(len(set(each)) == 1 for each in counts):
        return window_sum(input, window, 1.0 / math.prod(each[0] for each in counts))
    total = window_sum(wide(input), window)
    for axis, each in enumerate(counts):
        if set(each) != {1}:
            total = total / _along(each, axis, len(sizes), total, total.dtype)
    return total.to(input.dtype)


def _along(counts: list[int], axis: int, spatial: int, like: Tensor, kind: torch.dtype) -> Tensor:
    shape = [1] * spatial
    shape[axis] = len(counts)
    return torch.tensor(counts, dtype=kind, device=like.device).reshape(shape)


@remembered
def _avg_pool(
    input: Tensor, spatial: int, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    function = f"avg_pool{spatial}d"
    require_kind(input, input.dtype is torch.int64, "avg_pool3d_out_frame" if spatial == 3 else "avg_pool2d")
    if spatial == 3:
        refuse_halves("avg_pool3d_out_frame", input)
    source, alone = batched(input, spatial, function)
    window = _pooling_window(source, spatial, function, kernel_size, stride, padding, 1, ceil_mode)
    if alone or spatial == 3:
        result = _average(source, window, count_include_pad, divisor_override)
        return result.squeeze(0) if alone else result
    images = with_ordered_gradient(source, rows=True)
    return ordered_as(_average(images, window, count_include_pad, divisor_override), source, rows=True)


@titled("SqueezeBackward1")
def avg_pool1d(
    input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """Means of sliding windows over [n, c, length] or [c, length]."""
    return _avg_pool(input, 1, kernel_size, stride, padding, ceil_mode, count_include_pad)


def _make_avg_pool(spatial: int):
    def avg_poolNd(
        input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None, *, out: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Means of sliding windows over [n, c, {places}]; ``divisor_override`` replaces the windows' size."""
        result = _avg_pool(input, spatial, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
        return into(result, out, True)

    return titled(f"AvgPool{spatial}DBackward0")(avg_poolNd)


_, avg_pool2d, avg_pool3d = per_rank(_make_avg_pool)


def _make_lp_pool(spatial: int):
    def lp_poolNd(
        input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> Tensor:
        """``(sum of x ** norm_type) ** (1 / norm_type)`` of sliding windows over [n, c, {places}]."""
        mean = _avg_pool(input.pow(norm_type), spatial, kernel_size, stride, 0, ceil_mode, True)
        return _power_mean(mean, norm_type, kernel_size, spatial)

    return lp_poolNd


lp_pool1d, lp_pool2d, lp_pool3d = per_rank(_make_lp_pool)


def _power_mean(mean: Tensor, order: float, kernel_size: Sizes, spatial: int) -> Tensor:
    taps = math.prod(spread(kernel_size, spatial, f"lp_pool{spatial}d", "kernel_size"))
    return (torch.sign(mean) * relu(mean.abs()) * taps).pow(1.0 / order)


# Maxima


@remembered
def _max_pool(
    input: Tensor, spatial: int, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes, ceil_mode: bool,
    return_indices: bool,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    function = f"max_pool{spatial}d"
    of_integers = not input.is_complex() and input.dtype is not torch.bool
    if spatial == 1 and not return_indices and not input.requires_grad:
        require_kind(input, False, "max_pool1d_impl")
    require_kind(input, of_integers, "max_pool3d" if spatial == 3 else "max_pool2d")
    source, alone = batched(input, spatial, function)
    # With places, PyTorch's lines are images of one row.
    worded = "max_pool2d" if spatial == 1 and return_indices else function
    window = _pooling_window(source, spatial, worded, kernel_size, stride, padding, dilation, ceil_mode)
    # Lines are no images of one row where only their maxima are asked for.
    rows = return_indices or (input.requires_grad and torch.is_grad_enabled())
    return _maxima(source, window, alone, return_indices, rows)


def _ordered(result: Tensor, source: Tensor, alone: bool, rows: bool) -> Tensor:
    """Return maxima in the order in memory of what they are of; the stride of a batch of one volume tells nothing of it."""
    last = torch.channels_last_3d
    if alone and source.ndim == 5 and not source.is_contiguous() and source.is_contiguous(memory_format=last):
        return in_order(result, last)
    return ordered_as(result, source, rows=rows and not alone)


def _maxima(
    source: Tensor, window: Window, alone: bool, return_indices: bool, rows: bool = True
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the windows' maxima over [n, c, sizes…] and, where asked, their flat positions."""
    if not source.numel():
        values = nothing(source, (*source.shape[:2], *window.output))
        return (values, values.to(torch.int64)) if return_indices else values
    source = source if alone else with_ordered_gradient(source, rows=rows)
    taps = greatest_taps(source.detach(), window)
    indices = _ordered(flat_indices(source, taps, window), source, alone, rows) if return_indices else None
    values = _ordered(picked(source, taps, window, indices), source, alone, rows)
    values = values.squeeze(0) if alone else values
    if indices is None:
        return values
    return values, indices.squeeze(0) if alone else indices


def _maxima_title(spatial: int) -> str:
    return "SqueezeBackward1" if spatial == 1 else f"MaxPool{spatial}DWithIndicesBackward0"


def _make_max_pool(spatial: int):
    def max_poolNd(
        input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
        """Maxima of sliding windows over [n, c, {places}]; on request also their flat positions in {places}."""
        return _max_pool(input, spatial, kernel_size, stride, padding, dilation, ceil_mode, return_indices)

    return titled(_maxima_title(spatial))(max_poolNd)


max_pool1d, max_pool2d, max_pool3d = per_rank(_make_max_pool)


def _make_max_pool_with_indices(spatial: int):
    def max_poolNd_with_indices(
        input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """:func:`max_poolNd` with ``return_indices``."""
        return _max_pool(input, spatial, kernel_size, stride, padding, dilation, ceil_mode, True)  # type: ignore[return-value]

    return titled(_maxima_title(spatial))(max_poolNd_with_indices)


max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = per_rank(_make_max_pool_with_indices)


# Unpooling


def _several(value: Sizes, count: int) -> tuple[int, ...]:
    """Return what holds several values as a tuple, one value ``count`` times."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * count


def _unpool(
    input: Tensor, indices: Tensor, spatial: int, kernel_size: Sizes, stride: Sizes | None, padding: Sizes,
    output_size: Sequence[int] | None,
) -> Tensor:  # fmt: skip
    function = f"max_unpool{spatial}d"
    taps = _several(kernel_size, spatial)
    steps = taps if stride is None else _several(stride, spatial)
    pads = _several(padding, spatial)
    lengths = input.shape[-len(taps) :]
    default = tuple(
        (size - 1) * steps[axis] + taps[axis] - 2 * pads[axis] for axis, size in enumerate(lengths[: len(taps)])
    )
    sizes = default if output_size is None else _unpool_size(output_size, default, steps)
    alert_not_deterministic(f"max_unpooling{max(spatial, 2)}d_forward_out")
    if len(sizes) != spatial:
        named = "(height, width)" if spatial == 2 else "(depth, height, width)"
        raise RuntimeError(
            f"There should be exactly {spatial} elements {named} in output_size, but got {len(sizes)} elements."
        )
    if not all(map(is_whole, sizes)):
        raise TypeError(f"{function}(): argument 'output_size' must be tuple of {spatial} ints, got {sizes!r:.80}")
    if indices.dtype is not torch.int64:
        raise RuntimeError(f"elements in indices should be type int64 but got: {dtype_title(indices.dtype)}")
    if indices.shape != input.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got indices tensor "
            f"with shape: {list(indices.shape)}"
        )
    if spatial == 3:
        spread(stride if stride is not None else kernel_size, spatial, function, "stride")
        spread(padding, spatial, function, "padding")
    source, alone = batched(input, spatial, function)
    if 0 in source.shape[1:]:
        raise RuntimeError(
            f"{function}(): Expected input to have non-zero size for non-batch dimensions, but got {list(input.shape)}"
        )
    refuse_types(f"max_unpool{max(spatial, 2)}d", input, 0, 1, 3)
    lead, count = tuple(source.shape[:2]), math.prod(sizes)
    flat, places = (each.reshape(*lead, math.prod(source.shape[2:])) for each in (source, indices))
    refuse_any(
        (places < 0) | (places >= count),
        f"Found an invalid max index (output volumes are of size {'x'.join(map(str, sizes))})",
    )
    result = flat.new_zeros((*lead, count)).scatter(2, places, flat).reshape(*lead, *sizes)
    return result.squeeze(0) if alone else (ordered_as(result, source) if spatial == 2 else result)


def _unpool_size(wanted: Sequence[int], default: tuple[int, ...], steps: tuple[int, ...]) -> Sequence[int]:
    if len(wanted) == len(default) + 2:
        wanted = wanted[2:]
    if len(wanted) != len(default):
        raise ValueError(
            f"output_size should be a sequence containing {len(default)} or {len(default) + 2} elements, but it has a length "
            f"of '{len(wanted)}'"
        )
    for axis, size in enumerate(wanted):
        low, high = default[axis] - steps[axis], default[axis] + steps[axis]
        if not low < size < high:
            raise ValueError(f'invalid output_size "{wanted}" (dim {axis} must be between {low} and {high})')
    return wanted


def _make_max_unpool(spatial: int):
    def max_unpoolNd(
        input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
        output_size: Sequence[int] | None = None,
    ) -> Tensor:  # fmt: skip
        """The partial inverse of :func:`max_poolNd`: maxima at the positions they came from, zeros elsewhere."""
        return _unpool(input, indices, spatial, kernel_size, stride, padding, output_size)

    return titled("SqueezeBackward1" if spatial == 1 else f"MaxUnpool{spatial}DBackward0")(max_unpoolNd)


max_unpool1d, max_unpool2d, max_unpool3d = per_rank(_make_max_unpool)
