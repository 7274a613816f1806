"""Resizing by interpolation.

Each mode is a table per dimension of which positions an output position reads, and with which weights; see
:mod:`webgpu_torch_core.operations.spatial.resampling`. Positions are rounded as PyTorch rounds them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.argument_types import is_real, is_whole
from webgpu_torch_core.dispatch.titles import Named, Positional, titled
from webgpu_torch_core.ir.scalar_math import round_to_float32
from webgpu_torch_core.notices import warn
from webgpu_torch_core.operations.common import dtype_title
from webgpu_torch_core.operations.spatial.resampling import Table, resampled
from webgpu_torch_core.record.devices import has_float64

from .adaptive_pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d

_DIMENSIONS = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5}
_AREA = {3: adaptive_avg_pool1d, 4: adaptive_avg_pool2d, 5: adaptive_avg_pool3d}


def _scale(size: int, count: int, align_corners: bool, factor: float | None, double: bool) -> float:
    """Return how many input positions an output position advances."""
    if align_corners:
        value = (size - 1) / (count - 1) if count > 1 else 0.0
    else:
        value = 1.0 / factor if factor is not None and factor > 0 else size / count
    return value if double else round_to_float32(value)


def _source(scale: float, place: int, align_corners: bool, cubic: bool, double: bool) -> float:
    rounded = (lambda value: value) if double else round_to_float32
    if align_corners:
        return rounded(scale * place)
    position = rounded(rounded(scale * (place + 0.5)) - 0.5)
    return 0.0 if position < 0 and not cubic else position


def _nearest_row(size: int, count: int, place: int, scale: float, exact: bool) -> list[tuple[int, float]]:
    if exact:
        position = math.floor(round_to_float32((place + 0.5) * scale))
    elif count == size:
        position = place
    elif count == 2 * size:
        position = place // 2
    else:
        position = math.floor(round_to_float32(place * scale))
    return [(min(position, size - 1), 1.0)]


def _linear_row(size: int, count: int, position: float, place: int) -> list[tuple[int, float]]:
    if count == size:
        return [(place, 1.0)]
    first = min(math.floor(position), size - 1)
    share = min(max(position - first, 0.0), 1.0)
    if first == size - 1:
        return [(first, 1.0)]
    return [(first, 1.0 - share), (first + 1, share)]


def _cubic_weights(share: float) -> list[float]:
    """Return the weights of four neighbours by cubic convolution with a = -0.75 (Keys, 1981)."""
    return [_cubic(distance, -0.75) for distance in (share + 1, share, 1 - share, 2 - share)]


def _cubic(distance: float, a: float) -> float:
    x = abs(distance)
    if x <= 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0.0


def _cubic_row(size: int, position: float) -> list[tuple[int, float]]:
    first = math.floor(position)
    weights: dict[int, float] = {}
    for tap, weight in enumerate(_cubic_weights(position - first)):
        place = min(max(first - 1 + tap, 0), size - 1)
        weights[place] = weights.get(place, 0.0) + weight
    return list(weights.items())


def _smooth_row(size: int, place: int, scale: float, cubic: bool) -> list[tuple[int, float]]:
    """Return an antialiased row: the filter widened by the scale where the image shrinks."""
    support = (2.0 if cubic else 1.0) * max(scale, 1.0)
    center = scale * (place + 0.5)
    first = max(int(center - support + 0.5), 0)
    last = min(int(center + support + 0.5), size)
    found = []
    for position in range(first, last):
        distance = (position - center + 0.5) / max(scale, 1.0)
        weight = _cubic(distance, -0.5) if cubic else max(1.0 - abs(distance), 0.0)
        found.append((position, weight))
    total = sum(weight for _, weight in found)
    return [(position, weight / total) for position, weight in found] if total else found


@lru_cache(maxsize=256)
def _interpolation_table(
    mode: str, size: int, count: int, align_corners: bool, factor: float | None, antialias: bool, double: bool
) -> Table:
    """Return the table that maps ``size`` positions to ``count`` by a mode: nearest, nearest-exact, linear, cubic."""
    if mode.startswith("nearest"):
        scale = _scale(size, count, False, factor, False)
        return Table(size, [_nearest_row(size, count, place, scale, mode != "nearest") for place in range(count)])
    cubic = mode == "cubic"
    scale = _scale(size, count, align_corners, factor, double)
    if antialias:
        return Table(size, [_smooth_row(size, place, scale, cubic) for place in range(count)])
    positions = [_source(scale, place, align_corners, cubic, double) for place in range(count)]
    if cubic:
        return Table(size, [_cubic_row(size, position) for position in positions])
    return Table(size, [_linear_row(size, count, position, place) for place, position in enumerate(positions)])


#: bits of the integers that weights of images of bytes are rounded to
_WEIGHT_BITS = 15


@lru_cache(maxsize=256)
def _rounded(table: Table) -> Table:
    """Return a table with weights as PyTorch, after Pillow, rounds them for images of bytes: integers over one power of two."""
    largest = max((weight for row in table.rows for _, weight in row), default=0.0)
    shift = 0
    while shift < 22 and int(0.5 + largest * 2 ** (shift + 1)) < 2**_WEIGHT_BITS:
        shift += 1
    scale = 2.0**shift
    rows = [
        [(position, math.trunc(weight * scale + math.copysign(0.5, weight)) / scale) for position, weight in row]
        for row in table.rows
    ]
    return Table(table.size, rows)


def _resampled_bytes(input: Tensor, tables: Sequence[Table]) -> Tensor:
    """Return [n, c, h, w] of bytes resized along the width, then along the height, each time rounded to bytes."""
    image = input.to(torch.float64 if has_float64(input.device) else torch.float32)
    for index in (1, 0):
        image = resampled(image, [_rounded(table) if place == index else None for place, table in enumerate(tables)])
        image = (image + 0.5).floor().clamp(0, 255)
    return image.to(torch.uint8)


def _target(
    input: Tensor, size: int | Sequence[int] | None, scale_factor: float | Sequence[float] | None,
    recompute: bool | None,
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:  # fmt: skip
    """Return output sizes and, where they say how positions map, the scale factors."""
    spatial = input.ndim - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        given = tuple(size) if isinstance(size, tuple | list) else (size,) * spatial
        if len(given) != spatial:
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got input with spatial dimensions of "
                f"{list(input.shape[2:])} and output size of {size}. Please provide input tensor in (N, C, d1, d2, ...,dK) "
                "format and output size in (o1, o2, ...,oK) format."
            )
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        sizes = tuple(operator.index(each) for each in given if is_whole(each))
        if len(sizes) < len(given):
            raise TypeError(
                f"expected size to be one of int or Tuple[int], Tuple[int, int], ... but got size {size!r:.80}"
            )
        return sizes, (None,) * spatial
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    scales = tuple(scale_factor) if isinstance(scale_factor, tuple | list) else (scale_factor,) * spatial
    if len(scales) != spatial:
        raise ValueError(
            "Input and scale_factor must have the same number of spatial dimensions, but got input with spatial dimensions of "
            f"{list(input.shape[2:])} and scale_factor of shape {scale_factor}. Please provide input tensor in (N, C, d1, d2, "
            "...,dK) format and scale_factor in (s1, s2, ...,sK) format."
        )
    factors = tuple(float(each) for each in scales if is_real(each))
    if len(factors) < len(scales):
        raise TypeError(f"argument 'scale_factor' must be a number or a tuple of numbers, not {scale_factor!r:.80}")
    sizes = tuple(math.floor(have * factor) for have, factor in zip(input.shape[2:], factors, strict=True))
    return sizes, (None,) * spatial if recompute else factors


def _check_mode(input: Tensor, mode: str, align_corners: bool | None, antialias: bool) -> None:
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
            )
    elif mode not in tuple(_DIMENSIONS):
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the modes: nearest | linear | bilinear | "
            f"bicubic | trilinear | lanczos | area | nearest-exact (got {mode})"
        )
    elif align_corners is not None and not isinstance(align_corners, bool):
        raise TypeError(f"argument 'align_corners' must be bool, not {type(align_corners).__name__}")
    if input.ndim not in (3, 4, 5):
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the modes: nearest | linear | "
            f"bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got {mode})"
        )
    if mode in _DIMENSIONS and _DIMENSIONS[mode] != input.ndim:
        raise NotImplementedError(f"Got {input.ndim}D input, but {mode} mode needs {_DIMENSIONS[mode]}D input")
    if antialias and not (mode in ("bilinear", "bicubic") and input.ndim == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input"
        )


def _require_kind(input: Tensor, mode: str) -> None:
    """Raise a NotImplementedError for elements that PyTorch does not interpolate: complex numbers, and integers but for bytes of images."""
    of_bytes = input.dtype is torch.uint8 and mode not in ("linear", "trilinear")
    if not (input.dtype.is_floating_point or of_bytes):
        raise NotImplementedError(
            f'"upsample_{mode}{input.ndim - 2}d" not implemented for {dtype_title(input.dtype)!r}'
        )


def _title(args: Positional, kwargs: Named) -> str:
    """Return the name of a node: of the mode and the number of sizes."""
    count = (args[0] if args else kwargs["input"]).ndim - 2
    mode = args[3] if len(args) > 3 else kwargs.get("mode", "nearest")
    antialias = args[6] if len(args) > 6 else kwargs.get("antialias", False)
    if mode == "area":
        return "SqueezeBackward1" if count == 1 else f"AdaptiveAvgPool{count}DBackward0"
    kind = "NearestExact" if mode == "nearest-exact" else mode.capitalize()
    return f"Upsample{kind}{count}D{'Aa' if antialias else ''}Backward0"


def _check_sizes(input: Tensor, sizes: Sequence[int]) -> None:
    """Raise PyTorch's errors for images without elements."""
    if 0 in input.shape[2:] or min(sizes) <= 0:
        one, other = (
            ", ".join(f"{axis}: {size}" for axis, size in zip("DHW"[-len(sizes) :], each, strict=True))
            for each in (input.shape[2:], sizes)
        )
        joined = " and output" if len(sizes) == 1 else " output"
        raise RuntimeError(f"Input and output sizes should be greater than 0, but got input ({one}){joined} ({other})")
    if input.shape[1] == 0:
        raise RuntimeError(
            f"Non-empty {input.ndim}D data tensor expected but got a tensor with sizes {list(input.shape)}"
        )


@titled(_title)
def interpolate(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest", align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:  # fmt: skip
    """[n, c, sizes…] resized to ``size``, or by ``scale_factor``.

    Modes: nearest, nearest-exact, area (any number of sizes up to 3), linear (1), bilinear, bicubic (2), trilinear (3);
    ``antialias`` widens the filter of bilinear and bicubic where the image shrinks.

    Raises:
        ValueError: options that contradict each other.
        NotImplementedError: a mode that does not fit the input's dimensions or type.
    """
    _check_mode(input, mode, align_corners, antialias)
    sizes, factors = _target(input, size, scale_factor, recompute_scale_factor)
    _check_sizes(input, sizes)
    if mode == "area":
        return _AREA[input.ndim](input, sizes)
    _require_kind(input, mode)
    kind = mode if mode.startswith("nearest") else "cubic" if mode == "bicubic" else "linear"
    of_bytes = input.dtype is torch.uint8 and kind in ("linear", "cubic") and input.ndim == 4
    double = input.dtype is torch.float64 or of_bytes
    tables = [
        _interpolation_table(kind, have, count, bool(align_corners), factor, bool(antialias), double)
        for have, count, factor in zip(input.shape[2:], sizes, factors, strict=True)
    ]
    if of_bytes:
        return _resampled_bytes(input, tables)
    # PyTorch's gradients of these are row-major.
    plain = mode == "bicubic" or (input.ndim == 5 and kind.startswith("nearest"))
    return resampled(input, tables, ordered=(True, not plain))


def upsample(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest", align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """The older name of :func:`interpolate`."""
    warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """:func:`interpolate` by nearest neighbours."""
    warn("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """:func:`interpolate` by bilinear interpolation with aligned corners."""
    warn("`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
