"""Searching and sorting out: binary search, membership, distinct values, positions."""

from __future__ import annotations

import math
from types import EllipsisType
from typing import Any

from ...dispatch.registry import operation
from ...ir import expression as ir
from ...ir.dtypes import bfloat16, compute_dtype, dtype, float32, int32, int64, promote_types
from ...ir.kernels import Operand, Output, Pointwise, Store
from ...ir.layouts import Layout, contiguous_layout, existing_dimension, wrap_dimension
from ...record.devices import on_host
from ...tensors.memory_formats import contiguous_format
from ...tensors.tensor import Tensor
from ..common import kernel_cache, no_view, record, refuse_types, type_title
from ..creation.factories import tensor
from ..creation.ranges import arange
from ..elementwise.promotion import result_type
from ..host_algorithms import has_algorithm, host_call
from ..indexing.gathering import index_select
from ..indexing.nonzero import coordinates, first_positions
from ..movement.joining import cat
from ..outputs import into
from ..value_checks import refuse_any, require_none
from ..without_derivatives import attach_refusal
from .order import sort


@kernel_cache
def search_kernel(
    edges: Layout, numel: int, kind: dtype, values: Layout, count: int, right: bool, result: dtype, sorter: int | None
) -> Pointwise:
    """Return the kernel of a binary search in the last dimension of ``edges``, its steps unrolled.

    Nothing is known of NaN: an edge counts as smaller where it or the value is NaN, as in PyTorch.
    """
    size = edges.shape[-1]
    domain = values.shape
    compute = compute_dtype(kind)
    value = ir.cast(ir.load(1, values.offset, values.strides, kind), compute)
    row: Any = ir.constant(edges.offset, int32)
    if edges.ndim > 1:
        for index in range(edges.ndim - 1):
            row = row + ir.coordinate(index) * edges.strides[index]
    low: Any = ir.constant(0, int32)
    high: Any = ir.constant(size, int32)
    for _ in range(size.bit_length()):
        middle = ir.binary("shift_right", low + high, ir.constant(1, int32))
        place = ir.apply("minimum", middle, max(size - 1, 0))
        at = row + place * edges.strides[-1]
        if sorter is not None:
            at = row + ir.cast(ir.load_at(2, at, int64), int32) * edges.strides[-1]
        edge = ir.cast(ir.load_at(0, at, kind), compute)
        before = edge <= value if right else edge < value
        if kind.category == 2:
            unordered = ir.binary("bitwise_or", ir.apply("is_nan", value), ir.apply("is_nan", edge))
            before = ir.select(unordered, ir.constant(True, before.dtype), before)
        active = low < high
        low, high = (
            ir.select(ir.binary("bitwise_and", active, before), middle + 1, low),
            ir.select(ir.binary("bitwise_and", active, ir.apply("bitwise_not", before)), middle, high),
        )
    operands = [Operand(kind, numel), Operand(kind, count)]
    operands += [Operand(int64, sorter)] if sorter is not None else []
    target = contiguous_layout(domain)
    store = Store(0, 0, target.strides, ir.cast(low, result))
    return Pointwise(tuple(operands), (Output(result, target.numel, None),), (), "searchsorted", domain, (store,))


@operation("composite", method=False)
def searchsorted(
    sorted_sequence: Tensor, input: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Tensor | None = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where values would be inserted into sorted rows (``side`` left: before equal ones, right: after them).

    Raises:
        RuntimeError: shapes that do not fit, or contradicting sides.
    """
    values = input if isinstance(input, Tensor) else tensor(input, device=sorted_sequence.device)
    if side not in (None, "left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    if values.ndim and sorted_sequence.ndim == 0:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension"
        )
    if sorted_sequence.ndim != 1 and (values.ndim == 0 or values.shape[:-1] != sorted_sequence.shape[:-1]):
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and "
            f"input value tensor must match, but we got boundaries tensor {list(sorted_sequence.shape)} and input value tensor "
            f"{list(values.shape)}"
        )
    if sorter is not None and (sorter.shape != sorted_sequence.shape or sorter.dtype is not int64):
        raise RuntimeError(
            f"torch.searchsorted(): sorter must be of int64 and of the shape of the boundaries, {list(sorted_sequence.shape)}, but got "
            f"{sorter.dtype!r} and {list(sorter.shape)}"
        )
    if sorter is not None and on_host(sorter.device):
        outside = (sorter < 0) | (sorter >= sorted_sequence.shape[-1])
        refuse_any(outside, "torch.searchsorted(): sorter index out of range")
    common = result_type(sorted_sequence, values)
    sorted_sequence, values = sorted_sequence.to(common), values.to(common)
    if values.numel() and sorted_sequence.numel():
        refuse_types("searchsorted_out_cpu", values, 0, 3)
    kind = int32 if out_int32 else int64
    edges, values = sorted_sequence.detach().contiguous(), values.detach()
    if values.numel() == 0 or edges.shape[-1] == 0:
        result = values.new_zeros(values.shape, dtype=kind)
    else:
        extra = () if sorter is None else (_flat(sorter.contiguous()),)
        edges = _flat(edges)
        kernel = search_kernel(
            edges._layout, edges._storage.value.numel, edges.dtype, values._layout, values._storage.value.numel,
            right or side == "right", kind, extra[0]._storage.value.numel if extra else None,
        )  # fmt: skip
        result = record(kernel, (edges, values, *extra), (), (values._layout.shape,))
    return into(result, out, True)


def _flat(input: Tensor) -> Tensor:
    """Return a tensor whose storage is just its elements."""
    return input if input._layout.offset == 0 and input._storage.value.numel == input.numel() else input.clone()


@operation("composite", method=False)
def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False, out: Tensor | None = None
) -> Tensor:
    """Between which of the sorted boundaries values lie.

    Raises:
        RuntimeError: boundaries of another number of dimensions than one.
    """
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    values = input if isinstance(input, Tensor) else tensor(input, device=boundaries.device)
    return searchsorted(boundaries, values, out_int32=out_int32, right=right, out=out)


@operation("composite", method=False)
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False, out: Tensor | None = None
) -> Tensor:
    """Whether each element is among others.

    Raises:
        RuntimeError: elements are truth values or complex.
    """
    like = elements if isinstance(elements, Tensor) else test_elements
    one = elements if isinstance(elements, Tensor) else tensor(elements, device=like.device)
    other = test_elements if isinstance(test_elements, Tensor) else tensor(test_elements, device=like.device)
    for each in (one, other):
        if each.dtype.category in (0, 3):
            raise RuntimeError(f"Unsupported input type encountered for isin(): {type_title(each)}")
    if other.numel() == 0:
        found = one.new_zeros(one.shape, dtype=int64).bool()
    elif other.numel() == 1 and one.ndim and one._layout.is_contiguous:
        found = one == (other if other.ndim == 1 else other.reshape(1))
    elif other.numel() <= 64:
        found = (one.unsqueeze(-1) == other.reshape(-1)).any(-1)
    else:
        kind = promote_types(one.dtype, other.dtype)
        one, ordered = one.to(kind), sort(other.reshape(-1).to(kind)).values
        place = searchsorted(ordered, one.contiguous()).clamp(max=ordered.numel() - 1)
        found = ordered[place] == one
    return into(found.logical_not() if invert else found, out, True)


@operation("composite")
def argwhere(input: Tensor) -> Tensor:
    """The coordinates of what is not zero, a row each."""
    return input.nonzero()


@operation("composite")
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None) -> Tensor:
    """The first ``size`` rows of :func:`nonzero`, filled up with a number; nothing waits for the data.

    Raises:
        RuntimeError: a negative size.
    """
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    positions, count = first_positions(input, size)
    rows = coordinates(positions, input._layout.shape)
    if not input.ndim:
        return into(positions.new_zeros((size, 0)), out)
    missing = arange(size, device=input.device) >= count
    return into(rows.masked_fill(missing, fill_value).T.clone(memory_format=contiguous_format), out)


@operation("composite")
def repeat_interleave(
    input: Tensor | None = None,
    repeats: Tensor | int | EllipsisType = ...,
    dim: int | None = None,
    *,
    output_size: int | None = None,
) -> Tensor:
    """Elements repeated: each ``repeats`` times, or by counts per element; without ``repeats`` the positions by counts.

    ``output_size`` is the sum of the counts, where the caller knows it: then nothing waits for them.

    Raises:
        RuntimeError: counts that are negative, of more than one dimension, of another size, or no integers.
    """
    given, repeats = (repeats, ...) if input is None else (input, repeats)
    if not isinstance(given, Tensor):
        raise TypeError("repeat_interleave() received an invalid combination of arguments: it needs a tensor")
    elements: Tensor = given
    if repeats is ...:
        if elements.ndim != 1:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        repeats, elements, dim = elements, arange(elements.numel(), device=elements.device), 0
    if dim is None:
        elements, dim = elements.reshape(-1), 0
    elif elements.ndim == 0:
        # PyTorch puts the copies in a dimension after the one that is not there.
        wrap_dimension(wrap_dimension(dim, 0) + 1, 0)
    elements = elements.reshape(1) if elements.ndim == 0 else elements
    axis = wrap_dimension(dim, elements.ndim)
    if isinstance(repeats, Tensor) and repeats.numel() != 1:
        return index_select(elements, axis, _repeated(repeats, elements.shape[axis], output_size))
    if isinstance(repeats, Tensor) and repeats.dtype not in (int32, int64):
        raise NotImplementedError(f"\"repeat_interleave_cpu\" not implemented for '{type_title(repeats)}'")
    count = int(repeats)
    if count < 0:
        raise RuntimeError("Repeats must be non-negative")
    if output_size is not None and output_size != count * elements.shape[axis]:
        raise RuntimeError(
            f"repeat_interleave: Invalid output_size, expected {count * elements.shape[axis]} but got {output_size}"
        )
    spread = elements.unsqueeze(axis + 1)
    sizes = list(spread._layout.shape)
    sizes[axis + 1] = count
    return spread.expand(sizes).clone(memory_format=contiguous_format).flatten(axis, axis + 1)


def _repeated(repeats: Tensor, size: int, total: int | None) -> Tensor:
    """Return every position as often as its count says."""
    if repeats.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if repeats.dtype not in (int32, int64):
        raise NotImplementedError(f"\"repeat_interleave_cpu\" not implemented for '{type_title(repeats)}'")
    if repeats.numel() != size:
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = {repeats.numel()} and "
            f"input.size(dim) = {size}"
        )
    ends = repeats.to(int64).cumsum(0)
    if total is None:
        if size and int(repeats.min()) < 0:
            raise RuntimeError("repeats can not be negative")
        total = int(ends[-1]) if size else 0
    else:
        # Told when results are read next: nothing waits for the counts.
        require_none(repeats < 0, "repeats can not be negative")
        require_none(ends[-1:] != total, "allocated size does not match required size")
    return searchsorted(ends, arange(total, device=repeats.device), right=True)


@operation("composite")
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Values in order along the first dimension."""
    return into(sort(input, 0).values, out, True, (input,))


def _runs(order: Tensor, fresh: Tensor, counted: bool, inverse: bool) -> tuple[Any, Any, Any]:
    """Return (first position of each run, inverse by position, counts), of a 1-d order whose runs start where ``fresh``."""
    starts = fresh.nonzero().reshape(-1)
    size = fresh.numel()
    number = fresh.to(int64).cumsum(0) - 1
    back = order.new_zeros(size).scatter(0, order, number) if inverse else None
    ends = cat([starts[1:], starts.new_full((1,), size)], 0) if starts.numel() else starts
    return starts, back, ends - starts if counted else None


def _packed(result: Tensor, inverse: Any, counts: Any, return_inverse: bool, return_counts: bool) -> Any:
    found = [result, *([inverse] if return_inverse else []), *([counts] if return_counts else [])]
    return found[0] if len(found) == 1 else tuple(found)


@operation("composite")
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements in order (or slices of a dimension), where each element went, and how many there were."""
    if dim is not None:
        return _unique_slices(input, dim, return_inverse, return_counts, False)
    refuse_types("unique", input, 3)
    return _unique_elements("_unique2", input, return_inverse, return_counts)


@operation("composite")
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements (or slices of a dimension) without repetitions next to each other."""
    if dim is not None:
        return _unique_slices(input, dim, return_inverse, return_counts, True)
    refuse_types("unique", input, 3)
    return _unique_elements("unique_consecutive", input, return_inverse, return_counts)


def _unique_elements(name: str, input: Tensor, return_inverse: bool, return_counts: bool) -> Any:
    """Return the first element of each run of equal ones, of elements in order unless only neighbours are compared."""
    values = input.detach().reshape(-1)
    if values.numel() == 0:
        none = values.new_zeros(0, dtype=int64)
        first = attach_refusal(values.clone(), name, (input,), True)
        return _packed(first, no_view(none.reshape(input.shape)), none, return_inverse, return_counts)
    if has_algorithm(values, "unique"):
        # bfloat16 is kept as its bits.
        found = values.to(float32) if values.dtype is bfloat16 else values
        first, back, counts = host_call(
            "unique", (found,), None, (found.dtype, int64, int64),
            consecutive=name != "_unique2", inverse=return_inverse, counts=return_counts,
        )  # fmt: skip
        back = no_view(back.reshape(input.shape)) if return_inverse else None
        return _packed(
            attach_refusal(first.to(values.dtype), name, (input,), True), back, counts, return_inverse, return_counts
        )
    values, order = sort(values, 0) if name == "_unique2" else (values, arange(values.numel(), device=input.device))
    fresh = cat([values.new_ones(1, dtype=int64).bool(), values[1:] != values[:-1]], 0)
    starts, back, counts = _runs(order, fresh, return_counts, return_inverse)
    back = no_view(back.reshape(input.shape)) if back is not None else None
    return _packed(attach_refusal(values[starts], name, (input,), True), back, counts, return_inverse, return_counts)


def _row_ranks(rows: Tensor) -> Tensor:
    """Return the rank of each row in lexicographic order, equal rows alike.

    Ranks within columns, then within pairs of columns, and so on: log2(columns) sorts of all columns at once (Karp, Miller
    and Rosenberg, "Rapid identification of repeated patterns in strings, trees and arrays", 1972).
    """
    ranks, count = _column_ranks(rows), rows.shape[0]
    while ranks.shape[1] > 1:
        if ranks.shape[1] % 2:
            ranks = cat([ranks, ranks.new_zeros((count, 1))], 1)
        ranks = _column_ranks(ranks[:, 0::2] * count + ranks[:, 1::2])
    return ranks[:, 0]


def _column_ranks(rows: Tensor) -> Tensor:
    ordered, order = sort(rows, 0)
    fresh = (ordered[1:] != ordered[:-1]).to(int64).cumsum(0)
    number = cat([fresh.new_zeros((1, rows.shape[1])), fresh], 0)
    return number.scatter(0, order, number)


def _unique_slices(input: Tensor, dim: int, return_inverse: bool, return_counts: bool, consecutive: bool) -> Any:
    refuse_types("unique_dim", input, 3)
    axis = existing_dimension(dim, input.ndim)
    name = "unique_dim_consecutive" if consecutive else "unique_dim"
    moved = input.detach().movedim(axis, 0)
    count = moved.shape[0]
    width = math.prod(moved.shape[1:])
    if count == 0 or width == 0:
        if len([size for size in input.shape if not size]) > 1:
            raise RuntimeError("Number of zero sized dimensions is more than one, so unique cannot be applied ")
        if count and not width:
            raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
        none = input.new_zeros(0, dtype=int64)
        return _packed(
            attach_refusal(input.detach().clone(), name, (input,), True), none, none, return_inverse, return_counts
        )
    rows = moved.reshape(count, width)
    order = arange(count, device=input.device)
    if consecutive:
        ordered, different = rows, (rows[1:] != rows[:-1]).any(1)
    else:
        ranks, order = sort(_row_ranks(rows.to(int32) if rows.dtype.category == 0 else rows), 0)
        ordered, different = rows[order], ranks[1:] != ranks[:-1]
    fresh = cat([different.new_ones(1, dtype=int64).bool(), different], 0)
    starts, back, counts = _runs(order, fresh, return_counts, return_inverse)
    result = no_view(ordered[starts].reshape((-1, *moved.shape[1:])).movedim(0, axis))
    return _packed(attach_refusal(result, name, (input,), True), back, counts, return_inverse, return_counts)
