"""Pooling to a given output size, and pooling over regions of random size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import NoReturn

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.argument_types import is_whole
from webgpu_torch_core.dispatch.titles import Named, Positional, titled
from webgpu_torch_core.operations.common import attach, ordered_as, with_ordered_gradient
from webgpu_torch_core.operations.spatial.resampling import Table, resampled
from webgpu_torch_core.operations.spatial.sliding_windows import Window, nothing, window_sum
from webgpu_torch_core.operations.without_derivatives import refuse_gradients

from ._arguments import Sizes, batched, per_rank, require_kind, spread
from .pooling import _maxima

OutputSize = int | Sequence[int | None]


def _regions(size: int, count: int) -> list[range]:
    """Return the input positions of each output position, as even a partition as integers allow."""
    return [range(place * size // count, -(-(place + 1) * size // count)) for place in range(count)]


@lru_cache(maxsize=256)
def _averaging_table(size: int, count: int) -> Table:
    """Return the table of adaptive average pooling from ``size`` to ``count`` positions."""
    return Table(size, [[(position, 1.0 / len(each)) for position in each] for each in _regions(size, count)])


def _check_rank(input: Tensor, output_size: OutputSize, spatial: int) -> None:
    if spatial > 1 and not isinstance(output_size, int) and input.ndim <= len(tuple(output_size)):
        raise ValueError(f"Input dimension should be at least {len(tuple(output_size)) + 1}")


def _output(input: Tensor, output_size: OutputSize, spatial: int, function: str) -> tuple[int, ...]:
    sizes = (output_size,) * spatial if isinstance(output_size, int) else tuple(output_size)
    for position, each in enumerate(sizes):
        if each is not None and not is_whole(each):
            raise TypeError(
                f"{function}(): argument 'output_size' (position 2) must be tuple of ints, but found element of type "
                f"{type(each).__name__} at pos {position}"
            )
    if len(sizes) != spatial:
        if spatial == 1:
            raise RuntimeError(f"{function}() argument 'output_size' should contain one int (got {len(sizes)})")
        wanted = "(): internal error: output_size.size()" if "max" in function else ": output_size"
        raise RuntimeError(f"{function}{wanted} must be {spatial}")
    found = tuple(size if wanted is None else int(wanted) for wanted, size in zip(sizes, input.shape[2:], strict=True))
    if min(found) < 0:
        # PyTorch's pools of one dimension are those of two, the first of which is 1.
        told = (1,) * (2 - spatial) + found
        if "max" in function:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {min(found)}: {[*input.shape[:2], *told]}"
            )
        name = "adaptive_avg_pool2d" if spatial == 1 else function
        last = f",{told[2]}" if spatial == 3 else ""
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {{{told[0]}, {told[1]}{last}}}"
        )
    return found


def _check_sizes(input: Tensor, output: Sequence[int], function: str) -> None:
    """Raise where an input has nothing to pool: averages of lines and images look at places only, others at channels, too."""
    spatial = len(output)
    places = spatial < 3 and "avg" in function
    if 0 in (input.shape[-spatial:] if places else input.shape[1:]) and not ("avg" in function and set(output) == {1}):
        raise RuntimeError(
            f"{function}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {list(input.shape)}"
        )


def _nowhere(source: Tensor, output: Sequence[int], function: str) -> Tensor:
    """Return a result without elements, whose gradient is refused."""

    def refuse(grad: Tensor) -> NoReturn:
        raise RuntimeError(
            f"{function}_backward(): Expected grad_output to have non-zero size for non-batch dimensions, but grad_output has "
            f"sizes {list(grad.shape)}"
        )

    result = source.new_zeros((*source.shape[:2], *output))
    return attach(result, "AdaptivePoolBackward0", (source,), refuse) if 0 in output else nothing(source, result.shape)


def _even_window(sizes: Sequence[int], output: Sequence[int]) -> Window | None:
    """Return the window whose positions are the regions, where all regions have one size and do not overlap."""
    if any(count == 0 or size % count for size, count in zip(sizes, output, strict=True)):
        return None
    taps = [size // count for size, count in zip(sizes, output, strict=True)]
    return Window(taps, taps, (0,) * len(taps), (1,) * len(taps), output)


def _adaptive_average(input: Tensor, output_size: OutputSize, spatial: int) -> Tensor:
    function = f"adaptive_avg_pool{spatial}d"
    _check_rank(input, output_size, spatial)
    source, alone = batched(input, spatial, function)
    output = _output(source, output_size, spatial, function)
    require_kind(input, input.is_complex() and set(output) == {1}, function)
    _check_sizes(input, output, function)
    if 0 in output:
        result = _nowhere(source, output, function)
    elif set(output) == {1}:
        result = source.mean(tuple(range(2, 2 + spatial)), keepdim=True)
    else:
        result = _averages(with_ordered_gradient(source, rows=True) if spatial < 3 and not alone else source, output)
    if alone:
        return result.squeeze(0)
    return ordered_as(result, source, rows=True) if spatial < 3 else result


def _averages(source: Tensor, output: tuple[int, ...]) -> Tensor:
    """Return the means of even regions of [n, c, sizes…], in row-major order."""
    sizes = tuple(source.shape[2:])
    window = _even_window(sizes, output)
    if window is not None:
        return window_sum(source, window, 1.0 / math.prod(window.taps))
    tables = [_averaging_table(size, count) for size, count in zip(sizes, output, strict=True)]
    return resampled(source, tables, from_zero=True, ordered=(False, False))


def _averages_title(spatial: int, args: Positional, kwargs: Named) -> str:
    """Return the name of a node: PyTorch takes the mean of whole images."""
    if spatial == 1:
        return "SqueezeBackward1"
    output = args[1] if len(args) > 1 else kwargs["output_size"]
    whole = output == 1 if isinstance(output, int) else all(each == 1 for each in output)
    return "MeanBackward1" if whole else f"AdaptiveAvgPool{spatial}DBackward0"


def _make_adaptive_avg_pool(spatial: int):
    def adaptive_avg_poolNd(input: Tensor, output_size: OutputSize) -> Tensor:
        """Means of ``output_size`` even regions of [n, c, {places}] or without n; None keeps a size."""
        return _adaptive_average(input, output_size, spatial)

    return titled(partial(_averages_title, spatial))(adaptive_avg_poolNd)


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = per_rank(_make_adaptive_avg_pool)


# Maxima


def _flat_positions(regions: Sequence[Sequence[Sequence[int]]], sizes: Sequence[int], like: Tensor) -> Tensor:
    """Return [outputs…, taps]: flat positions of every region's elements, in order, the last repeated where fewer."""
    spatial = len(sizes)
    total: Tensor | None = None
    for axis, rows in enumerate(regions):
        width = max(len(each) for each in rows)
        filled = [[*each, *([each[-1]] * (width - len(each)))] for each in rows]
        shape = [1] * (2 * spatial)
        shape[axis], shape[spatial + axis] = len(rows), width
        part = torch.tensor(filled, dtype=torch.int64, device=like.device).reshape(shape) * math.prod(sizes[axis + 1 :])
        total = part if total is None else total + part
    if total is None:
        raise RuntimeError("expected at least one spatial dimension")
    return total.flatten(spatial)


def _greatest(source: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return maxima of [n, c, sizes…] over flat ``positions`` [outputs…, taps] and where they are."""
    flat = source.flatten(2)
    outputs = tuple(positions.shape[:-1])
    candidates = flat.detach()[:, :, positions.reshape(-1)].reshape(*flat.shape[:2], -1, positions.shape[-1])
    chosen = candidates.argmax(-1, keepdim=True)
    rows = positions.reshape(-1, positions.shape[-1]).expand(*flat.shape[:2], -1, -1)
    indices = rows.gather(-1, chosen).squeeze(-1)
    values = flat.gather(2, indices)
    return values.reshape(*flat.shape[:2], *outputs), indices.reshape(*flat.shape[:2], *outputs)


def _adaptive_maximum(
    input: Tensor, output_size: OutputSize, return_indices: bool, spatial: int
) -> Tensor | tuple[Tensor, Tensor]:
    function = f"adaptive_max_pool{spatial}d"
    _check_rank(input, output_size, spatial)
    require_kind(input, False, "adaptive_max_pool3d_cpu" if spatial == 3 else "adaptive_max_pool2d")
    source, alone = batched(input, spatial, function)
    output = _output(source, output_size, spatial, function)
    _check_sizes(input, output, function)
    sizes = tuple(source.shape[2:])
    window = _even_window(sizes, output)
    if window is not None and source.numel():
        # PyTorch's results for volumes are row-major.
        return _maxima(source.contiguous() if spatial == 3 else source, window, alone, return_indices)
    if 0 in output or not source.numel():
        values = _nowhere(source, output, function)
        indices = values.to(torch.int64)
    else:
        regions = [_regions(size, count) for size, count in zip(sizes, output, strict=True)]
        images = with_ordered_gradient(source, rows=True) if spatial < 3 and not alone else source
        values, indices = _greatest(images, _flat_positions(regions, sizes, source))
    if alone:
        values, indices = values.squeeze(0), indices.squeeze(0)
    elif spatial < 3:
        values, indices = (ordered_as(each, source, rows=True) for each in (values, indices))
    return (values, indices) if return_indices else values


def _maxima_title(spatial: int) -> str:
    return "SqueezeBackward1" if spatial == 1 else f"AdaptiveMaxPool{spatial}DBackward0"


def _make_adaptive_max_pool(spatial: int):
    def adaptive_max_poolNd(
        input: Tensor, output_size: OutputSize, return_indices: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Maxima of ``output_size`` even regions of [n, c, {places}] or without n; on request also their positions."""
        return _adaptive_maximum(input, output_size, return_indices, spatial)

    return titled(_maxima_title(spatial))(adaptive_max_poolNd)


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = per_rank(_make_adaptive_max_pool)


def _make_adaptive_max_pool_with_indices(spatial: int):
    def adaptive_max_poolNd_with_indices(
        input: Tensor, output_size: OutputSize, return_indices: bool = False
    ) -> tuple[Tensor, Tensor]:
        """:func:`adaptive_max_poolNd` with ``return_indices``."""
        return _adaptive_maximum(input, output_size, True, spatial)  # type: ignore[return-value]

    return titled(_maxima_title(spatial))(adaptive_max_poolNd_with_indices)


(adaptive_max_pool1d_with_indices, adaptive_max_pool2d_with_indices, adaptive_max_pool3d_with_indices) = per_rank(
    _make_adaptive_max_pool_with_indices
)


# Regions of random size


def _starts(samples: Tensor, size: int, taps: int, count: int) -> Tensor:
    """Return [n, c, count]: where the pseudorandom regions start (Graham, "Fractional max-pooling", 2014)."""
    if count == 1:
        return torch.full((*samples.shape, 1), size - taps, dtype=torch.int64, device=samples.device)
    alpha = (size - taps) / (count - 1)
    places = torch.arange(count, dtype=samples.dtype, device=samples.device)
    first = samples.unsqueeze(-1)
    starts = ((places + first) * alpha).to(torch.int64) - (first * alpha).to(torch.int64)
    return torch.where(places == count - 1, torch.full_like(starts, size - taps), starts)


def _check_samples(samples: Tensor, source: Tensor, spatial: int) -> None:
    if samples.dtype is not source.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if samples.ndim != 3:
        raise RuntimeError(f"Expect _random samples to have 3 dimensions; got {samples.ndim}")
    if samples.shape[0] < source.shape[0]:
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if samples.shape[1] != source.shape[1]:
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if samples.shape[2] != spatial:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {spatial}; got {samples.shape[2]}.")


def _fractional(
    input: Tensor, kernel_size: Sizes, output_size: OutputSize | None, output_ratio: float | Sequence[float] | None,
    samples: Tensor | None, spatial: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    function = f"fractional_max_pool{spatial}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{function} requires specifying either an output_size or an output_ratio")
    if isinstance(kernel_size, Sequence) and len(kernel_size) != spatial:
        raise RuntimeError(f"{function}: kernel_size must either be a single int or a tuple of {spatial} ints")
    source, alone = batched(input, spatial, function)
    if 0 in input.shape[1:]:
        raise RuntimeError(
            f"{function}(): Expected input to have non-zero size for non-batch dimensions, but got {list(input.shape)}"
        )
    taps = spread(kernel_size, spatial, function, "kernel_size")
    sizes = tuple(source.shape[2:])
    if output_size is None:
        ratios = (output_ratio,) * spatial if isinstance(output_ratio, float | int) else tuple(output_ratio or ())
        output = tuple(int(size * ratio) for size, ratio in zip(sizes, ratios, strict=True))
    else:
        if isinstance(output_size, Sequence) and len(output_size) != spatial:
            raise RuntimeError(f"{function}: output_size must either be a single int or a tuple of {spatial} ints")
        output = _output(source, output_size, spatial, function)
    for title, size, tap, count in zip(("time", "height", "width")[-spatial:], sizes, taps, output, strict=True):
        # PyTorch asks of volumes for one place more than they need.
        if count + tap - 1 > size - (spatial == 3):
            raise RuntimeError(f"{function}(): pool {title} {tap} too large relative to input {title} {size}")
    if samples is None:
        samples = torch.rand(*source.shape[:2], spatial, dtype=source.dtype, device=source.device)
    else:
        refuse_gradients(function, random_samples=samples)
        _check_samples(samples, source, spatial)
    lead = tuple(source.shape[:2])
    samples = samples[: lead[0]].detach()
    positions = torch.zeros((), dtype=torch.int64, device=source.device)
    for axis in range(spatial):
        # The samples of images are listed last dimension first, those of volumes first dimension first.
        sample = samples[..., spatial - 1 - axis if spatial == 2 else axis]
        starts = _starts(sample, sizes[axis], taps[axis], output[axis])
        steps = torch.arange(taps[axis], device=source.device)
        part = (starts.unsqueeze(-1) + steps) * math.prod(sizes[axis + 1 :])
        shape = [1] * (2 * spatial)
        shape[axis], shape[spatial + axis] = output[axis], taps[axis]
        positions = positions + part.reshape(*lead, *shape)
    flat = source.flatten(2)
    positions = positions.reshape(*lead, math.prod(output), math.prod(taps))
    candidates = flat.detach().gather(2, positions.flatten(2)).reshape(positions.shape)
    indices = positions.gather(-1, candidates.argmax(-1, keepdim=True)).squeeze(-1)
    values, indices = flat.gather(2, indices).reshape(*lead, *output), indices.reshape(*lead, *output)
    return (values.squeeze(0), indices.squeeze(0)) if alone else (values, indices)


def _make_fractional_max_pool(spatial: int):
    def fractional_max_poolNd(
        input: Tensor, kernel_size: Sizes, output_size: OutputSize | None = None,
        output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
        """Maxima of windows at pseudorandom places of [n, c, {places}] (Graham, "Fractional max-pooling", 2014)."""
        found = _fractional(input, kernel_size, output_size, output_ratio, _random_samples, spatial)
        return found if return_indices else found[0]

    return titled(f"FractionalMaxPool{spatial}DBackward0")(fractional_max_poolNd)


_, fractional_max_pool2d, fractional_max_pool3d = per_rank(_make_fractional_max_pool)


def _make_fractional_max_pool_with_indices(spatial: int):
    def fractional_max_poolNd_with_indices(
        input: Tensor, kernel_size: Sizes, output_size: OutputSize | None = None,
        output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """:func:`fractional_max_poolNd` with ``return_indices``."""
        return _fractional(input, kernel_size, output_size, output_ratio, _random_samples, spatial)

    return titled(f"FractionalMaxPool{spatial}DBackward0")(fractional_max_poolNd_with_indices)


_, fractional_max_pool2d_with_indices, fractional_max_pool3d_with_indices = per_rank(
    _make_fractional_max_pool_with_indices
)
