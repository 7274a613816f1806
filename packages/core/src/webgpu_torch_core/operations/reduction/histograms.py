"""How many elements lie in each of several bins, along one or several dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...ir.dtypes import float32, float64, int32, int64
from ...replay.recipes import remembered
from ...tensors.tensor import Tensor
from ..common import refuse_halves, refuse_types
from ..creation.ranges import linspace
from ..elementwise.choosing import where
from ..elementwise.overloads import clamp
from ..host_algorithms import has_algorithm, host_call
from ..movement.joining import stack
from ..outputs import into
from ..return_types import make
from ..sorting.searching import searchsorted
from ..without_derivatives import attach_refusal
from .counting import counted

if TYPE_CHECKING:
    from ...tensors.type_aliases import Number


@operation("composite")
def histc(input: Tensor, bins: int = 100, min: Number = 0, max: Number = 0, *, out: Tensor | None = None) -> Tensor:
    """How many elements lie in each of ``bins`` equal bins between two ends (the extrema if both are equal).

    Raises:
        RuntimeError: no bins, or ends in the wrong order or infinite.
        NotImplementedError: the input is not of floating-point numbers.
    """
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    refuse_types("histogram_cpu", input, 0, 1, 3)
    low, high = float(min), float(max)
    if low == high and input.numel():
        low, high = stack(input.aminmax()).tolist()
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.histc: range of [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError("torch.histc: max must be larger than min")
    values = input.detach().reshape(-1)
    if values.dtype in (float32, float64) and has_algorithm(values, "histogram"):
        found = host_call("histogram", (values,), ((bins,),), (values.dtype,), bins=bins, low=low, high=high)
        return into(found[0], out, True)
    return into(_in_bins(values, bins, low, high), out, True)


def _require_wide(input: Tensor) -> None:
    """Raise a NotImplementedError for elements that are neither of float32 nor of float64."""
    refuse_types("histogramdd", input, 0, 1, 3)
    refuse_halves("histogramdd", input)


@remembered
def _in_bins(values: Tensor, bins: int, low: float, high: float) -> Tensor:
    """Return how many values [n] lie in each bin, in their type."""
    inside = (values >= low) & (values <= high)
    place = clamp(((values - low) * bins / (high - low)).floor(), 0, bins - 1)
    place = where(inside, place, 0).to(int64)
    return counted(place, inside.to(int32), bins).to(values.dtype)


@operation("composite")
def histogram(
    input: Tensor, bins: Tensor | int = 100, *, range: Sequence[float] | None = None, weight: Tensor | None = None, density: bool = False,
    out: Any = None,
) -> Any:  # fmt: skip
    """How many elements (or how much weight) lie between neighbouring edges, and the edges."""
    _require_wide(input)
    edges = bins if isinstance(bins, Tensor) else _edges(input.reshape(-1), int(bins), range)
    counts = _counts(input.reshape(-1, 1), [edges], None if weight is None else weight.reshape(-1), density)
    found = [attach_refusal(each, "histogram", (input, weight)) for each in (counts, edges.detach())]
    return into(make("histogram", hist=found[0], bin_edges=found[1]), out)


@operation("composite", method=False)
def histogramdd(
    input: Tensor,
    bins: Any,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """:func:`histogram` over points of several dimensions: ``input`` [..., d].

    Raises:
        TypeError: a truth value for the number of bins.
        RuntimeError: not one number of bins for each dimension, or weights of another shape than the points.
    """
    if isinstance(bins, bool):
        raise TypeError(
            "histogramdd(): argument 'bins' (position 2) must be an int, or a tuple of ints or tensors, not bool"
        )
    if weight is not None and weight.shape != input.shape[:-1]:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding its "
            f"innermost dimension, but got input with shape {list(input.shape)} and weight with shape {list(weight.shape)}"
        )
    points = input.reshape(-1, input.shape[-1])
    depth = points.shape[1]
    sizes = [bins] * depth if isinstance(bins, int) else list(bins)
    if len(sizes) != depth:
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    _require_wide(input)
    ends = (
        [None] * depth if range is None else [tuple(range[2 * number : 2 * number + 2]) for number in _numbers(depth)]
    )
    edges = [
        each if isinstance(each, Tensor) else _edges(points[:, number], int(each), ends[number])
        for number, each in enumerate(sizes)
    ]
    counts = _counts(points, edges, None if weight is None else weight.reshape(-1), density)
    given = "cts" if all(isinstance(each, int) for each in sizes) else "tensors"
    hist = attach_refusal(counts, f"_histogramdd_from_bin_{given}", (input, weight))
    if given == "cts":
        edges = [attach_refusal(each.detach(), "_histogramdd_bin_edges", (input, weight)) for each in edges]
    return make("histogramdd", hist=hist, bin_edges=tuple(edges))


_numbers = range


def _edges(values: Tensor, bins: int, ends: Any) -> Tensor:
    if bins <= 0:
        raise RuntimeError(f"histogramdd(): bins must be > 0, but got {bins} for dimension 0")
    low, high = (
        ends if ends is not None else (values.min().item(), values.max().item()) if values.numel() else (0.0, 1.0)
    )
    if low > high:
        raise RuntimeError(f"histogramdd: min should not exceed max, but got min {low} max {high} for dimension 0")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return linspace(low, high, bins + 1, dtype=values.dtype, device=values.device)


def _counts(points: Tensor, edges: list[Tensor], weight: Tensor | None, density: bool) -> Tensor:
    flat, inside = None, None
    for number, each in enumerate(edges):
        values = points[:, number].contiguous()
        place = searchsorted(each, values, right=True) - 1
        # The last bin has its right end, too.
        place = where(values == each[-1], each.numel() - 2, place)
        fits = (values >= each[0]) & (values <= each[-1])
        inside = fits if inside is None else inside & fits
        place = clamp(place, 0, each.numel() - 2)
        flat = place if flat is None else flat * (each.numel() - 1) + place
    shape = tuple(each.numel() - 1 for each in edges)
    if flat is None or inside is None:
        raise RuntimeError("histogramdd: no dimensions")
    size = math.prod(shape)
    if weight is None:
        result = counted(flat, inside.to(int32), size).to(points.dtype)
    else:
        result = points.new_zeros(size).index_add(0, flat, inside.to(points.dtype) * weight.detach())
    result = result.reshape(shape)
    if density:
        result = result / result.sum()
        for number, each in enumerate(edges):
            width = (each[1:] - each[:-1]).reshape(tuple(-1 if place == number else 1 for place in range(len(edges))))
            result = result / width
    return result
