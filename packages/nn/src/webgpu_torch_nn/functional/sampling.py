"""Images sampled at computed positions: grids, and the grids of affine maps (Jaderberg et al., 2015)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.titles import Named, Positional, titled
from webgpu_torch_core.notices import warn
from webgpu_torch_core.operations.common import attach_zeros, require_same_types, with_gradient_in
from webgpu_torch_core.operations.elementwise.rounding import lost_position_
from webgpu_torch_core.operations.spatial.grid_sampling import gathered_sum
from webgpu_torch_core.replay.recipes import remembered

from ._arguments import check_places, require_kind, wide

_CORNERS_NOTE = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify "
    "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details."
)


def _limited(position: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return positions kept inside a dimension, with zero gradient at and beyond its ends, and 1 where they are inside, else 0."""
    inside = (position > 0) & (position < size - 1)
    return torch.where(inside, position, position.detach().clamp(0, size - 1)), inside.to(position.dtype)


def _reflected(distance: Tensor, size: int, align_corners: bool) -> tuple[Tensor, Tensor]:
    """Return positions mirrored at the borders, pixel centres where corners align, else pixel edges, and their slopes of 1 or -1.

    distance: from the first border.
    """
    start, span = _borders(size, align_corners)
    if span == 0:
        zeros = torch.zeros_like(distance.detach())
        return zeros, zeros
    ahead = distance.detach() >= 0
    distance = distance.abs()
    flips = (distance.detach() / span).floor()
    rest, even = distance - flips * span, flips % 2 == 0
    slope = torch.where(even == ahead, 1.0, -1.0).to(distance.dtype)
    return torch.where(even, rest, span - rest) + start, slope


def _padded(distance: Tensor, size: int, padding_mode: str, align_corners: bool) -> tuple[Tensor, Tensor | float]:
    """Return where positions at a distance from the first border lie for a padding mode, and how far they move for a step of it."""
    if padding_mode == "reflection":
        mirrored, slope = _reflected(distance, size, align_corners)
        limited, inside = _limited(mirrored, size)
        return limited, slope * inside
    position = distance + _borders(size, align_corners)[0]
    return (position, 1.0) if padding_mode == "zeros" else _limited(position, size)


def _borders(size: int, align_corners: bool) -> tuple[float, float]:
    """Return where the first border lies that -1 is for, and how far from it the one that 1 is for."""
    return (0.0, float(size - 1)) if align_corners else (-0.5, float(size))


def _linear_weight(share: Tensor, offset: Tensor) -> Tensor:
    # Neighbour 0 has 1 - share, neighbour 1 the share: nothing is rounded here that is not there.
    return share * (2 * offset - 1) + (1 - offset)


def _cubic_weight(share: Tensor, offset: Tensor) -> Tensor:
    """Return the weights of neighbours -1, 0, 1, 2 by cubic convolution with a = -0.75 (Keys, 1981)."""
    a = -0.75
    x = torch.where(offset <= 0, share - offset, offset - share)
    # In factors, so that nothing cancels where a weight vanishes.
    near = (x - 1) * (((a + 2) * x - 1) * x - 1)
    far = (x - 1) * (x - 2) * (x - 2) * a
    return torch.where((offset == 0) | (offset == 1), near, far)


@remembered
def _neighbours(
    grid: Tensor, sizes: tuple[int, ...], mode: str, padding_mode: str, align_corners: bool
) -> tuple[Tensor, ...]:
    """Return where in images of some sizes the neighbours of a grid's positions lie, then their weights: [n, k, p] for each axis.

    The place of a neighbour is a sum over the axes, its weight a product; the place of one that lies outside is negative. Of a grid
    that has a gradient in float32 weights with less rounding follow: its gradient is a small difference of large sums.
    """
    # Positions are rounded as PyTorch's: on which side of a pixel's centre one lies decides a gradient.
    points = wide(grid)
    is_finer = grid.requires_grad and points.dtype is torch.float32 and mode != "nearest"
    places: list[Tensor] = []
    weights: list[Tensor] = []
    finer: list[Tensor] = []
    base = {"nearest": 1, "bilinear": 2, "bicubic": 4}[mode]
    stride = total = math.prod(sizes)
    for axis, size in enumerate(sizes):
        coordinate = points.select(-1, len(sizes) - 1 - axis).reshape(grid.shape[0], 1, -1)
        start, span = _borders(size, align_corners)
        distance = (coordinate + 1) * (span / 2)
        unpadded = "zeros" if mode == "bicubic" else padding_mode
        position, slope = _padded(distance, size, unpadded, align_corners)
        if mode == "nearest":
            place = position.detach().round()
            weight = torch.ones_like(place)
        else:
            low = position.detach().floor()
            share = position - low
            first = -1 if base == 4 else 0
            offset = torch.arange(first, first + base, dtype=low.dtype, device=low.device).reshape(1, base, 1)
            weigh = _cubic_weight if base == 4 else _linear_weight
            weight = weigh(share, offset)
            if is_finer:
                weight = weight.detach()
                # A driver may round a product and the sum after it once: what was lost is that of what was gone on with.
                at, border = (distance, 0.0) if unpadded == "reflection" else (distance + start, start)
                lost = lost_position_(coordinate.detach(), at.detach(), scale=span / 2, offset=border)
                finer.append(weigh(share + lost * slope, offset))
            place = low + offset
        if mode == "bicubic":
            place, _ = _padded(place - start, size, padding_mode, align_corners)
        stride //= size
        within = place.clamp(0, size - 1)
        # What lies outside has less than what the other axes may add to it.
        outside = (size - 1) * stride - total
        inside = (place == within).to(torch.int32)
        places.append((within.to(torch.int32) * stride - outside) * inside + outside)
        weights.append(weight)
    return (*places, *weights, *finer)


def _check_grid(input: Tensor, grid: Tensor, mode: str, padding_mode: str) -> None:
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    check_places(input, grid, (4, 5))
    if mode == "bicubic" and input.ndim == 5:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")


def _title(args: Positional, kwargs: Named) -> str:
    return f"GridSampler{(args[0] if args else kwargs['input']).ndim - 2}DBackward0"


@titled(_title)
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """[n, c, h, w] (or [n, c, d, h, w]) sampled at the positions of ``grid`` [n, h', w', 2] (or [n, d', h', w', 3]).

    Coordinates run from -1 to 1, last dimension first. mode: bilinear, nearest, bicubic (4-d inputs); padding_mode: zeros,
    border, reflection.

    Raises:
        ValueError: an unknown mode.
        RuntimeError: shapes that do not fit.
    """
    _check_grid(input, grid, mode, padding_mode)
    require_kind(input, False, f"grid_sampler_{input.ndim - 2}d_cpu_kernel_impl")
    require_same_types(input, grid)
    if align_corners is None:
        warn(_CORNERS_NOTE)
    align = bool(align_corners)
    if not input.numel() or not grid.numel():
        return attach_zeros(input.new_zeros((*input.shape[:2], *grid.shape[1:-1])), "", (input, grid))
    result = _sampled(input, grid, mode, padding_mode, align)
    # The position of a nearest neighbour has a gradient, of zero.
    return result + grid.sum() * 0 if mode == "nearest" and grid.requires_grad else result


@remembered
def _sampled(input: Tensor, grid: Tensor, mode: str, padding_mode: str, align_corners: bool) -> Tensor:
    """Return what is left of :func:`grid_sample` once its arguments are known to fit: all that is remembered for others of their kind."""
    found = _neighbours(grid, tuple(input.shape[2:]), mode, padding_mode, align_corners)
    axes = input.ndim - 2
    plain = with_gradient_in(input, torch.contiguous_format)
    result = gathered_sum(plain.flatten(2), found[:axes], found[axes : 2 * axes], found[2 * axes :])
    return result.reshape(*input.shape[:2], *grid.shape[1:-1])


@titled("AffineGridGeneratorBackward0")
@remembered
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid [n, h, w, 2] (or [n, d, h, w, 3]) for :func:`grid_sample` of affine maps ``theta`` [n, 2, 3] (or [n, 3, 4]).

    Raises:
        ValueError: a size that is neither [n, c, h, w] nor [n, c, d, h, w], or a type that is not floating-point.
    """
    if not theta.dtype.is_floating_point:
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    spatial = len(size) - 2
    if spatial not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {size}."
        )
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (spatial, spatial + 1):
        raise ValueError(
            f"Expected a batch of {spatial}D affine matrices of shape Nx{spatial}x{spatial + 1} for size {size}. Got "
            f"{theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {tuple(size)}")
    if align_corners is None:
        warn(_CORNERS_NOTE)
    outputs = tuple(size[2:])
    columns: list[Tensor] = []
    for axis in reversed(range(spatial)):
        count = outputs[axis]
        line = (
            torch.linspace(-1, 1, count, dtype=theta.dtype, device=theta.device) if count > 1 else theta.new_zeros((1,))
        )
        line = line if align_corners else line * (count - 1) / count
        shape = [1] * spatial
        shape[axis] = count
        columns.append(line.reshape(shape).expand(outputs).reshape(-1))
    columns.append(theta.new_ones((math.prod(outputs),)))
    base = torch.stack(columns, 1)
    return (base @ theta.transpose(1, 2)).reshape(theta.shape[0], *outputs, spatial)
