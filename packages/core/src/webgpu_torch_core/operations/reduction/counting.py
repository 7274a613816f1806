"""Counting values and reducing segments: scatters whose positions are computed from the data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...dispatch.registry import operation
from ...ir.dtypes import bool_, float32, float64, int32, int64
from ...ir.layouts import wrap_dimension
from ...tensors.tensor import Tensor
from ..creation.ranges import arange
from ..host_algorithms import has_algorithm, host_call
from ..indexing.scatter_reductions import scatter_reduce
from ..movement.joining import cat, stack
from ..sorting.searching import searchsorted
from ..without_derivatives import attach_refusal

if TYPE_CHECKING:
    from ...tensors.type_aliases import Number


@operation("composite")
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number occurs in a vector of non-negative integers, or the sum of its occurrences' weights.

    Raises:
        RuntimeError: other inputs, weights of another size, or a negative ``minlength``.
    """
    if input.dtype.category != 1:
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{input.dtype.title}'")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if input.ndim != 1:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and (weights.ndim != 1 or weights.numel() != input.numel()):
        raise RuntimeError("weights should be 1-d and have the same length as input")
    if input.numel() == 0:
        return input.new_zeros(minlength, dtype=int64)
    if weights is None and has_algorithm(input, "bincount"):
        return host_call("bincount", (input,), None, (int64,), minlength=minlength)[0]
    values = input.to(int64)
    least, most = stack(values.aminmax()).tolist()
    if least < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    kind = int64 if weights is None else float32 if weights.dtype is float32 else float64
    count = max(most + 1, minlength)
    if weights is None:
        return counted(values, values.new_ones(values.numel(), dtype=int32), count).to(kind)
    sums = values.new_zeros(count, dtype=kind).index_add(0, values, weights.detach().to(kind))
    return attach_refusal(sums, "bincount", (weights,))


def counted(places: Tensor, amounts: Tensor, count: int) -> Tensor:
    """Return how often each of ``count`` places occurs, [count] of int32, among places [n]; amounts [n] of 0 and 1 say which count.

    Such numbers are added in any order, also by devices that have no atomic additions of floats or of 64 bits.
    """
    return amounts.new_zeros(count).index_add(0, places, amounts)


#: what a segment without elements gives, and how scatters call the reduction
_SEGMENT_REDUCTIONS = {
    "sum": (0.0, "sum"),
    "mean": (math.nan, "sum"),
    "prod": (1.0, "prod"),
    "max": (-math.inf, "amax"),
    "min": (math.inf, "amin"),
}


@operation("composite", method=False, title="SegmentReduceBackward0")
def segment_reduce(
    data: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None,
    offsets: Tensor | None = None, axis: int = 0, unsafe: bool = False, initial: Number | None = None,
) -> Tensor:  # fmt: skip
    """Stretches of a dimension reduced by sum, mean, max, min or prod; empty ones give ``initial`` or the neutral number.

    ``lengths`` [..., segments] or ``offsets`` [..., segments + 1] say where they lie; the dimensions before ``axis`` are rows.

    Raises:
        RuntimeError: another reduction, no lengths and offsets, other shapes, or (unless ``unsafe``) lengths that do not fit.
    """
    if reduce not in _SEGMENT_REDUCTIONS:
        raise RuntimeError("reduce must be one of sum, mean, max, min or prod, got " + str(reduce))
    if data.dtype.category != 2:
        raise NotImplementedError(f"\"_segment_reduce_cpu\" not implemented for '{data.dtype.name.capitalize()}'")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    axis = wrap_dimension(axis, data.ndim)
    bounds = _segment_bounds(data, lengths, offsets, axis, unsafe)
    counts = bounds[..., 1:] - bounds[..., :-1]
    neutral, kind = _SEGMENT_REDUCTIONS[reduce]
    start = neutral if initial is None else float(initial)
    shape = (*counts.shape, *data.shape[axis + 1 :])
    base = data.new_full(shape, 0.0 if reduce == "mean" and initial is None else start)
    columns = (...,) + (None,) * (data.ndim - axis - 1)
    size = data.shape[axis]
    positions = arange(size, device=data.device).expand((*counts.shape[:-1], size)).contiguous()
    place = searchsorted(bounds[..., 1:].contiguous(), positions, right=True)
    # What lies behind the last segment goes to a place that is cut off.
    spare = base.new_zeros((*shape[:axis], 1, *shape[axis + 1 :]))
    index = place[columns].expand(data.shape)
    result = scatter_reduce(_joined(base, spare, axis), axis, index, data, kind).narrow(axis, 0, shape[axis])
    if reduce != "mean":
        return result
    counted = counts[columns].expand(shape)
    return (result / counted.clamp(min=1).to(data.dtype)).masked_fill((counted == 0), start)


def _joined(base: Tensor, spare: Tensor, axis: int) -> Tensor:
    return cat([base, spare], axis)


def _segment_bounds(data: Tensor, lengths: Tensor | None, offsets: Tensor | None, axis: int, unsafe: bool) -> Tensor:
    """Return where segments begin and, behind the last one, end: [..., segments + 1]."""
    given = lengths if offsets is None else offsets
    if given is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    name = "lengths" if offsets is None else "offsets"
    if given.dtype.category != 1 or given.dtype is bool_:
        raise RuntimeError(f"segment_reduce(): Expected {name} to have an integral dtype, but got {given.dtype!r}")
    if given.ndim != axis + 1 or given.shape[:-1] != data.shape[:axis]:
        raise RuntimeError(
            f"segment_reduce(): Expected all dimensions of data up to axis {axis} and of {name} but the last to match, but got "
            f"{list(data.shape)} and {list(given.shape)}"
        )
    given = given.detach().to(int64)
    if offsets is not None:
        return given
    if not unsafe and given.numel():
        if int(given.min()) < 0:
            raise RuntimeError("segment_reduce(): lengths contains negative value!")
        if not bool((given.sum(-1) == data.shape[axis]).all()):
            raise RuntimeError(
                f"segment_reduce(): Expected all rows of lengths along axis to sum to data.size({axis}) when unsafe=False."
            )
    ends = given.cumsum(-1)
    return _joined(ends.new_zeros((*ends.shape[:-1], 1)), ends, ends.ndim - 1)
