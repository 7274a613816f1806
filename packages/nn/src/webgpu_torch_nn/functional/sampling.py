"""Images sampled at computed positions: grids, and the grids of affine maps (Jaderberg et al., 2015)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.ops.sampling import sampled

_CORNERS_NOTE = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify "
    "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details."
)


def _limited(position: Tensor, size: int) -> Tensor:
    """Return positions kept inside a dimension, with zero gradient at and beyond its ends."""
    inside = (position > 0) & (position < size - 1)
    return torch.where(inside, position, position.detach().clamp(0, size - 1))


def _reflected(position: Tensor, size: int, align_corners: bool) -> Tensor:
    """Return positions mirrored at the borders: at pixel centres where corners align, else at pixel edges."""
    low, span = (0.0, float(size - 1)) if align_corners else (-0.5, float(size))
    if span == 0:
        return torch.zeros_like(position.detach())
    distance = (position - low).abs()
    flips = (distance.detach() / span).floor()
    rest = distance - flips * span
    return torch.where(flips % 2 == 0, rest + low, span - rest + low)


def _padded(position: Tensor, size: int, padding_mode: str, align_corners: bool) -> Tensor:
    if padding_mode == "reflection":
        position = _reflected(position, size, align_corners)
    return position if padding_mode == "zeros" else _limited(position, size)


def _unnormalized(coordinate: Tensor, size: int, align_corners: bool) -> Tensor:
    """Return pixel positions of coordinates in [-1, 1]."""
    return (coordinate + 1) / 2 * (size - 1) if align_corners else ((coordinate + 1) * size - 1) / 2


def _fetch(input: Tensor, places: Sequence[Tensor]) -> Tensor:
    """Return the elements of [n, c, sizes…] at integral positions [n, outputs…] per dimension; zero outside."""
    sizes = input.shape[2:]
    index: Tensor | None = None
    inside: Tensor | None = None
    for place, size in zip(places, sizes, strict=True):
        test = (place >= 0) & (place <= size - 1)
        inside = test if inside is None else inside & test
        part = torch.where(test, place, torch.zeros_like(place)).to(torch.int32)
        index = part if index is None else index * size + part
    if index is None or inside is None:
        raise RuntimeError("expected at least one spatial dimension")
    values = sampled(input.flatten(2), index.reshape(index.shape[0], -1))
    mask = inside.reshape(index.shape[0], 1, -1)
    found = torch.where(mask, values, torch.zeros((), dtype=values.dtype, device=values.device))
    return found.reshape(*input.shape[:2], *index.shape[1:])


def _linear(input: Tensor, positions: Sequence[Tensor]) -> Tensor:
    lows = [each.detach().floor() for each in positions]
    total: Tensor | None = None
    for corner in range(2 ** len(positions)):
        places, factor = [], None
        for axis, (position, low) in enumerate(zip(positions, lows, strict=True)):
            upper = corner >> axis & 1
            places.append(low + 1 if upper else low)
            share = position - low if upper else low + 1 - position
            factor = share if factor is None else factor * share
        if factor is not None:
            part = _fetch(input, places) * factor.unsqueeze(1)
            total = part if total is None else total + part
    if total is None:
        raise RuntimeError("expected at least one spatial dimension")
    return total


def _cubic_shares(share: Tensor) -> list[Tensor]:
    a = -0.75
    near = [((a + 2) * x - (a + 3)) * x * x + 1 for x in (share, 1 - share)]
    far = [(((x - 5) * x + 8) * x - 4) * a for x in (share + 1, 2 - share)]
    return [far[0], near[0], near[1], far[1]]


def _cubic(input: Tensor, positions: Sequence[Tensor], padding_mode: str, align_corners: bool) -> Tensor:
    lows = [each.detach().floor() for each in positions]
    shares = [_cubic_shares(position - low) for position, low in zip(positions, lows, strict=True)]
    total: Tensor | None = None
    for row in range(4):
        down = _padded(lows[0] + (row - 1), input.shape[2], padding_mode, align_corners)
        line: Tensor | None = None
        for column in range(4):
            right = _padded(lows[1] + (column - 1), input.shape[3], padding_mode, align_corners)
            part = _fetch(input, (down, right)) * shares[1][column].unsqueeze(1)
            line = part if line is None else line + part
        if line is not None:
            line = line * shares[0][row].unsqueeze(1)
            total = line if total is None else total + line
    if total is None:
        raise RuntimeError("expected two spatial dimensions")
    return total


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
    if input.ndim not in (4, 5) or input.ndim != grid.ndim:
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes "
            f"{list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if grid.shape[-1] != input.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {input.ndim - 2} in last dimension, but got grid with sizes "
            f"{list(grid.shape)}"
        )
    if 0 in input.shape[2:]:
        raise RuntimeError(
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
            f"{list(input.shape)} with dimension {2 + list(input.shape[2:]).index(0)} being empty"
        )
    if mode == "bicubic" and input.ndim == 5:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")


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
    if align_corners is None:
        warnings.warn(_CORNERS_NOTE, stacklevel=2)
    align = bool(align_corners)
    spatial = input.ndim - 2
    if not input.numel() or not grid.numel():
        return input.new_zeros((*input.shape[:2], *grid.shape[1:-1]))
    positions = [
        _unnormalized(grid.select(-1, spatial - 1 - axis), size, align) for axis, size in enumerate(input.shape[2:])
    ]
    if mode == "bicubic":
        return _cubic(input, positions, padding_mode, align).to(input.dtype)
    sizes = input.shape[2:]
    positions = [_padded(each, size, padding_mode, align) for each, size in zip(positions, sizes, strict=True)]
    if mode == "nearest":
        result = _fetch(input, [each.detach().round() for each in positions])
        # The position has a gradient, of zero.
        return result + grid.sum() * 0 if grid.requires_grad else result
    return _linear(input, positions).to(input.dtype)


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
            f"Got size {tuple(size)}"
        )
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (spatial, spatial + 1):
        raise ValueError(
            f"Expected a batch of {spatial}D affine matrices of shape Nx{spatial}x{spatial + 1} for size {tuple(size)}. Got "
            f"{tuple(theta.shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {tuple(size)}")
    if align_corners is None:
        warnings.warn(_CORNERS_NOTE, stacklevel=2)
    outputs = tuple(size[2:])
    columns: list[Tensor] = []
    for axis in reversed(range(spatial)):
        count = outputs[axis]
        line = (
            torch.linspace(-1, 1, count, dtype=theta.dtype, device=theta.device) if count > 1 else theta.new_zeros((1,))
        )
        line = line if align_corners else line * ((count - 1) / count)
        shape = [1] * spatial
        shape[axis] = count
        columns.append(line.reshape(shape).expand(outputs).reshape(-1))
    columns.append(theta.new_ones((math.prod(outputs),)))
    base = torch.stack(columns, 1)
    return (base @ theta.transpose(1, 2)).reshape(theta.shape[0], *outputs, spatial)
