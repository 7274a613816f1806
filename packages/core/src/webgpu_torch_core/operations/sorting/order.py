"""Order: cumulative operations, sort, topk and what follows from them."""

from __future__ import annotations

import math
from typing import Any

from ...dispatch.registry import operation
from ...dispatch.titles import Named, Positional
from ...ir import expression as ir
from ...ir.dtypes import bfloat16, bool_, compute_dtype, dtype, float32, int32, int64
from ...ir.kernels import Operand, Output, Scan, Sort
from ...ir.layouts import Layout, contiguous_layout, contiguous_strides, wrap_dimension
from ...ir.monoids import monoid
from ...replay.recipes import remembered
from ...tensors.memory_formats import contiguous_format, dense_layout
from ...tensors.tensor import Tensor
from ..common import attach, check_apart, kernel_cache, needs_gradient, no_view, record, refuse_types
from ..creation.conversion import copied
from ..creation.ranges import eye
from ..host_algorithms import has_algorithm, host_call
from ..indexing.gathering import gather_known
from ..movement.joining import cat
from ..outputs import computed_in, into
from ..return_types import make


@kernel_cache
def scan_kernel(
    source: Layout, numel: int, kind: dtype, axis: int, scan: str, accumulate: dtype, result: dtype, reverse: bool,
    indices: bool,
) -> Scan:  # fmt: skip
    """Return the running reduction of a strided operand along a dimension; results are row-major."""
    order = [*(each for each in range(source.ndim) if each != axis), axis]
    target = contiguous_strides(source.shape)
    value = ir.cast(ir.load(0, source.offset, tuple(source.strides[each] for each in order), kind), accumulate)
    if scan == "sum" and accumulate.category == 2:
        # PyTorch adds to 0, of which no sum is -0.
        value = value + 0.0
    outputs = [Output(result, source.numel, None)]
    if indices:
        outputs.append(Output(int64, source.numel, None))
    return Scan(
        (Operand(kind, numel),), tuple(outputs), (), f"cumulative_{scan}", tuple(source.shape[each] for each in order),
        monoid(scan, accumulate), value, reverse, 0, tuple(target[each] for each in order),
    )  # fmt: skip


def _scan(input: Tensor, dim: int, scan: str, result: dtype, reverse: bool = False, indices: bool = False) -> Any:
    source = input if input.ndim else input.reshape(1)
    axis = wrap_dimension(dim, source.ndim)
    if result is bool_ and not indices:
        # Of what has no neighbours: others are refused.
        return input != 0
    # Whole numbers wrap: int32 of an int64 sum is the int32 sum.
    wide = result.category < 2 and result is not int32 and scan in ("sum", "product")
    accumulate = int64 if wide else compute_dtype(result)
    kernel = scan_kernel(
        source._layout, source._storage.value.numel, source.dtype, axis, scan, accumulate, result, reverse, indices
    )
    return record(kernel, (source,), (), (input._layout.shape,) * len(kernel.outputs))


@operation("scan")
@remembered
def cumsum(input: Tensor, dim: int, *, dtype: dtype | None = None, out: Tensor | None = None) -> Tensor:
    """The running sum along a dimension; integers sum in int64."""
    wrap_dimension(dim, input.ndim)
    kind = computed_in(dtype, out) or (int64 if input.dtype.category < 2 else input.dtype)
    if kind is bool_ and input.ndim and input.numel():
        raise NotImplementedError("\"cumsum_out_cpu\" not implemented for 'Bool'")
    result = _scan(input.detach(), dim, "sum", kind)
    own = input.dtype
    attach(result, "CumsumBackward0", (input,), lambda grad: reverse_cumsum(grad, dim).to(own))
    return into(result, out, read=(input,))


def reverse_cumsum(input: Tensor, dim: int) -> Tensor:
    """Return the running sum from the end, differentiable."""
    result = _scan(input.detach(), dim, "sum", input.dtype, reverse=True)
    return attach(result, "CumsumBackward0", (input,), lambda grad: cumsum(grad, dim))


@operation("scan")
@remembered
def cumprod(input: Tensor, dim: int, *, dtype: dtype | None = None, out: Tensor | None = None) -> Tensor:
    """The running product along a dimension; integers multiply in int64."""
    kind = computed_in(dtype, out) or (int64 if input.dtype.category < 2 else input.dtype)
    if kind is bool_ and input.ndim and input.numel():
        raise NotImplementedError("\"cumprod_out_cpu\" not implemented for 'Bool'")
    result = _scan(input.detach(), dim, "product", kind)
    if needs_gradient(input):
        saved, own = input._save(), input.dtype
        wide = float32 if own.itemsize == 2 else own

        def run_backward(grad: Tensor) -> Any:
            # 16-bit gradients are sums of products: they round once, at the end.
            return _cumprod_gradient(saved.unpack().to(wide), grad.to(wide), dim).to(own)

        attach(result, "CumprodBackward0", (input,), run_backward)
    return into(result, out, read=(input,))


def _cumprod_gradient(input: Tensor, grad: Tensor, dim: int) -> Tensor:
    """Sum over outputs k >= i of grad[k] times the product of inputs up to k without input i, right at zeros too."""
    axis = wrap_dimension(dim, input.ndim)
    if input.ndim == 0 or input._layout.shape[axis] == 1:
        return grad
    if needs_gradient(input, grad):
        rows = _cumprod_gradient_by_row(input.movedim(axis, -1), grad.movedim(axis, -1))
        return rows.movedim(-1, axis).contiguous()
    zero = input == 0
    seen = zero.to(int64).cumsum(axis)
    first = zero & (seen == 1)
    # Each part sums what lies before the zero that ends it: what is NaN or infinite behind a zero counts for nothing.
    shares = (grad * cumprod(input, axis)).masked_fill(seen > 0, 0.0)
    before = reverse_cumsum(shares, axis) / input.masked_fill(zero, 1.0)
    # Behind the first zero nothing matters but that zero itself: the products without it.
    shares = (grad * cumprod(input.masked_fill(first, 1.0), axis)).masked_fill(seen != 1, 0.0)
    own = reverse_cumsum(shares, axis)
    return before.masked_fill(seen > 0, 0.0) + own.masked_fill(~first, 0.0)


def _cumprod_gradient_by_row(rows: Tensor, seeds: Tensor) -> Tensor:
    """The same without divisions, so that it has derivatives at zeros: a row per left-out input, with a one in its place."""
    length = rows.shape[-1]
    identity = eye(length, dtype=bool_, device=rows.device)
    replaced = rows.unsqueeze(-2).expand((*rows.shape[:-1], length, length)).masked_fill(identity, 1.0)
    return (cumprod(replaced, -1).triu() * seeds.unsqueeze(-2)).sum(-1)


def _running_extremum(input: Tensor, dim: int, scan: str, title: str) -> Any:
    values, positions = _scan(input.detach(), dim, scan, input.dtype, indices=True)
    if needs_gradient(input):
        shape = input._layout.shape
        saved = positions._save()
        attach(
            values, f"{title.capitalize()}Backward0", (input,),
            lambda grad: grad.new_zeros(shape).scatter_add(dim, saved.unpack(), grad) if shape else grad,
        )  # fmt: skip
    return make(title, values=values, indices=positions)


@operation("scan")
@remembered
def cummax(input: Tensor, dim: int, *, out: Any = None) -> Any:
    """The running maximum along a dimension, and its position."""
    return into(_running_extremum(input, dim, "running_maximum", "cummax"), out, True)


@operation("scan")
@remembered
def cummin(input: Tensor, dim: int, *, out: Any = None) -> Any:
    """The running minimum along a dimension, and its position."""
    return into(_running_extremum(input, dim, "running_minimum", "cummin"), out, True)


@kernel_cache
def sort_kernel(source: Layout, numel: int, kind: dtype, descending: bool, limit: int) -> Sort:
    """Return the sort of a strided operand along its last dimension."""
    value = ir.load(0, source.offset, source.strides, kind)
    shape = (*source.shape[:-1], limit)
    count = contiguous_layout(shape).numel
    return Sort(
        (Operand(kind, numel),), (Output(kind, count, None), Output(int64, count, None)), (), "sort", source.shape, value, kind,
        descending, limit,
    )  # fmt: skip


def _placed(found: Tensor, target: Layout | None) -> Tensor:
    """Return a result in the layout it should have (None: row-major), in the memory it lies in where that will do."""
    target = contiguous_layout(found._layout.shape) if target is None else target
    return no_view(found) if found._layout is target else copied(found, found.dtype, target)


def _sorted(input: Tensor, dim: int, descending: bool, limit: int | None, title: str) -> Any:
    axis = wrap_dimension(dim, input.ndim)
    if input.dtype.is_complex:
        raise RuntimeError(f"{title} does not support complex dtypes such as ComplexFloat")
    if input.ndim == 0:
        return make(title, values=input.clone(), indices=input.new_zeros((), dtype=int64))
    moved = input.detach().movedim(axis, -1)
    count = moved.shape[-1] if limit is None else limit
    kernel = sort_kernel(moved._layout, moved._storage.value.numel, moved.dtype, descending, count)
    shape = (*moved._layout.shape[:-1], count)
    values, positions = record(kernel, (moved,), (), (shape, shape))
    target = (
        dense_layout(input._layout, None if limit is None else contiguous_format)
        if count == input.shape[axis]
        else None
    )
    values, positions = (_placed(each.movedim(-1, axis), target) for each in (values, positions))
    if needs_gradient(input):
        original, saved = input._layout.shape, positions._save()
        attach(
            values, f"{title.capitalize()}Backward0", (input,),
            lambda grad: grad.new_zeros(original).scatter_add(axis, saved.unpack(), grad),
        )  # fmt: skip
    return make(title, values=values, indices=positions)


@operation("scan")
def logcumsumexp(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """The running ``log(sum(exp(input)))`` along a dimension."""
    wrap_dimension(dim, input.ndim)
    refuse_types("logcumsumexp_out_cpu", input, 0, 1)
    result = _scan(input.detach(), dim, "log_sum_exp", input.dtype)
    if needs_gradient(input):
        saved, own, shape = input._save(), input.dtype, input._layout.shape
        wide = compute_dtype(own)

        def run_backward(grad: Tensor) -> Tensor:
            if not shape:
                return grad
            # PyTorch's formula has the logarithms of positive and of negative gradients: what is NaN counts for nothing.
            given = grad.to(wide).masked_fill(grad != grad, 0.0)
            # 16-bit gradients are sums of products: they round once, at the end.
            return _running_share(saved.unpack().to(wide), given, dim).to(own)

        attach(result, "LogcumsumexpBackward0", (input,), run_backward)
    return into(result, out, True, (input,))


def _running_share(input: Tensor, grad: Tensor, dim: int) -> Tensor:
    """Return ``sum over i >= j of grad_i * exp(input_j - total_i)``.

    A total is the greatest element so far, exactly, and a sum of exponentials relative to it, so that no exponential sees the
    rounding of a logarithm. Both sums are recurrences whose factors are at most 1.
    """
    axis = wrap_dimension(dim, input.ndim)
    size = input.shape[axis]
    greatest = cummax(input.detach(), axis)[0]
    before, after = greatest.narrow(axis, 0, max(size - 1, 0)), greatest.narrow(axis, min(1, size), max(size - 1, 0))
    # Equal infinities have no difference.
    steps = (before - after).masked_fill(before == after, 0.0).exp()
    same = greatest.isinf() & (input.detach() == greatest)
    own = (input.masked_fill(same, 0.0) - greatest.masked_fill(same, 0.0)).exp().masked_fill(greatest == -math.inf, 0.0)
    total = _decayed_sum(own, steps, axis, False)
    share = own * _decayed_sum(grad / total, steps, axis, True)
    return share.masked_fill(input.detach() == math.inf, math.nan)


def _decayed_sum(values: Tensor, steps: Tensor, axis: int, from_end: bool) -> Tensor:
    """Return the running sum in which what is summed so far is multiplied by a factor at every step, by doubling."""
    size, step = values.shape[axis], 1

    def moved(part: Tensor, by: int, keep: int) -> Tensor:
        shape = tuple(by if place == axis else each for place, each in enumerate(part.shape))
        pieces = [part.narrow(axis, by if from_end else 0, keep), part.new_zeros(shape)]
        return cat(pieces if from_end else pieces[::-1], axis)

    edge = steps.new_zeros(tuple(min(1, size) if place == axis else each for place, each in enumerate(values.shape)))
    factor = cat([steps, edge] if from_end else [edge, steps], axis)
    while step < size:
        values = values + factor * moved(values, step, size - step)
        factor = factor * moved(factor, step, size - step)
        step *= 2
    return values


def _sort_title(args: Positional, kwargs: Named) -> str:
    return f"SortBackward{int('stable' in kwargs)}"


@operation("sort", title=_sort_title)
@remembered
def sort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = False, *, out: Any = None
) -> Any:
    """Values in order along a dimension, and where they came from; always stable, NaN last."""
    return into(_sorted(input, dim, descending, None, "sort"), out, True, (input,))


@operation("sort")
@remembered
def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The positions that would sort a dimension."""
    return into(_sorted(input.detach(), dim, descending, None, "sort").indices, out, True)


@operation("sort")
@remembered
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *, out: Any = None) -> Any:
    """The ``k`` largest (or smallest) values along a dimension, in order, and their positions."""
    axis = wrap_dimension(dim, input.ndim)
    size = input._layout.shape[axis] if input.ndim else 1
    if not 0 <= k <= size:
        raise RuntimeError("selected index k out of range")
    if input.dtype is bool_:
        raise RuntimeError("topk does not support bool dtypes")
    return into(_sorted(input, dim, largest, int(k), "topk"), out, True, (input,))


def order_statistic(input: Tensor, axis: int, number: int, keepdim: bool, title: str) -> tuple[Tensor, Tensor]:
    """Return the elements with ``number`` smaller ones along a dimension and their positions; of a median, or the first NaN."""
    moved = input.detach().movedim(axis, -1)
    # bfloat16 is kept as its bits.
    moved = moved.to(float32) if moved.dtype is bfloat16 else moved
    first_nan = title == "median"
    (found,) = host_call("order_statistic", (moved,), (moved.shape[:-1],), (int64,), number=number, first_nan=first_nan)
    positions = found.unsqueeze(axis)
    values = gather_known(input, axis, positions)
    return make(title, values=values if keepdim else values.squeeze(axis), indices=positions if keepdim else found)


@operation("sort", title="KthvalueBackward0")
@remembered
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> Any:
    """The ``k``-th smallest value along a dimension, and its position."""
    axis = wrap_dimension(dim, input.ndim)
    size = input._layout.shape[axis] if input.ndim else 1
    if not size:
        raise IndexError(f"kthvalue(): Expected reduction dim {dim} to have non-zero size.")
    if input.ndim:
        refuse_types("kthvalue_cpu", input, 0, 3)
    if not 1 <= k <= size:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {axis}")
    for each in out or ():
        check_apart(each, input)
    if input.ndim and has_algorithm(input, "order_statistic"):
        return into(order_statistic(input, axis, k - 1, keepdim, "kthvalue"), out, True)
    values, positions = _sorted(input, dim, False, None, "sort")
    if input.ndim == 0:
        return into(make("kthvalue", values=values, indices=positions), out, True)
    found = [each.narrow(dim, k - 1, 1) if keepdim else each.select(dim, k - 1) for each in (values, positions)]
    found = [each.clone(memory_format=contiguous_format) for each in found]
    return into(make("kthvalue", values=found[0], indices=found[1]), out, True, (input,))


for _function in (cumsum, cumprod):
    from ..in_place.writing import make_in_place

    setattr(Tensor, f"{_function.__name__}_", make_in_place(_function, f"{_function.__name__}_", _function))
