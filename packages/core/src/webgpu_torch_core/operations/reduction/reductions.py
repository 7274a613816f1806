"""Reductions over any dimensions: one kernel form, gradients written with other operations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...dispatch.titles import Named, Positional, Title, by_dimension
from ...ir import expression as ir
from ...ir.dtypes import bool_, compute_dtype, dtype, float32, int32, int64, uint8
from ...ir.kernels import Operand, Output, Reduction, RowProgram, Store
from ...ir.layouts import Layout, contiguous_strides, number_of_elements, wrap_dimension
from ...ir.monoids import monoid
from ...replay.recipes import remembered
from ...tensors.tensor import Tensor
from .. import elementwise
from ..common import (
    as_dimensions,
    attach,
    dtype_title,
    kernel_cache,
    needs_gradient,
    no_view,
    record,
    reduced_shape,
    refuse_types,
    require_tensor,
)
from ..creation.factories import filled
from ..elementwise.call import default_float
from ..elementwise.choosing import where
from ..indexing.gathering import gather_known
from ..movement.joining import cat
from ..outputs import computed_in
from ..outputs import into as _into
from ..return_types import make

if TYPE_CHECKING:
    from ...tensors.type_aliases import Dimensions

_min, _max, _all, _any, _sum = min, max, all, any, sum


@kernel_cache
def reduction_kernel(
    kind: str, source: Layout, numel: int, dtype: dtype, dims: tuple[int, ...], accumulate: dtype, result: dtype
) -> RowProgram:
    """Return the kernel that reduces ``dims`` of a strided operand, accumulating in one type and storing another."""
    kept = [index for index in range(source.ndim) if index not in dims]
    outer = tuple(source.shape[index] for index in kept)
    inner = tuple(source.shape[index] for index in dims)
    strides = tuple(source.strides[index] for index in (*kept, *dims))
    leaf: Any = ir.load(0, source.offset, strides, dtype)
    if kind in ("sum", "product") and dtype.category == 2 and result.category == 1:
        # What the result's type cannot hold becomes what it does there, not what is left of it in a wider one.
        leaf = ir.cast(leaf, result)
    leaf = ir.cast(leaf, accumulate)
    combined = monoid(kind, accumulate)
    value = ir.cast(ir.reduced(0, combined.results[0].dtype), result)
    return RowProgram(
        (Operand(dtype, numel),), (Output(result, number_of_elements(outer), None),), (), combined.name, outer, inner,
        (Reduction(combined, leaf),), (Store(0, 0, contiguous_strides(outer), value),), (),
    )  # fmt: skip


#: what reductions of no elements give
_OF_NOTHING = {"sum": 0, "product": 1, "any": False, "all": True}


def reduce(
    input: Tensor, kind: str, dims: tuple[int, ...], keepdim: bool, result: dtype, accumulate: dtype | None = None
) -> Tensor:
    """Record a reduction of non-negative dimensions."""
    if kind in _OF_NOTHING and not (input.dtype.is_complex or count_of(input, dims)):
        # A number that is given at run time: GPUs' compilers take 0 / 0 for 0 where they know one of them.
        shape = reduced_shape(input._layout.shape, dims, keepdim)
        return filled(shape, _OF_NOTHING[kind], result, input.device)
    accumulate = accumulate or (int64 if result.category == 1 else compute_dtype(result))
    kernel = reduction_kernel(kind, input._layout, input._storage.value.numel, input.dtype, dims, accumulate, result)
    return record(kernel, (input,), (), (reduced_shape(input._layout.shape, dims, keepdim),))


def restore(tensor: Tensor, shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """Return a reduced tensor broadcast back over the dimensions it lost."""
    if not keepdim:
        tensor = tensor.reshape(tuple(1 if index in dims else size for index, size in enumerate(shape)))
    return tensor.expand(shape)


def sum_to_size(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return a gradient summed over the dimensions along which its operand was broadcast."""
    have = tensor._layout.shape
    if have == shape:
        return tensor
    extra = len(have) - len(shape)
    dims = tuple(range(extra)) + tuple(
        index + extra for index, size in enumerate(shape) if size == 1 and have[index + extra] != 1
    )
    result = sum(tensor, dims, keepdim=True) if dims else tensor
    return result if result._layout.shape == shape else result.reshape(shape)


def _sum_type(input: Tensor, dtype: dtype | None) -> dtype:
    return dtype or (int64 if input.dtype.category < 2 else input.dtype)


@operation("reduction")
@remembered
def sum(
    input: Tensor,
    dim: Dimensions = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The sum over dimensions (all by default); integers sum in int64."""
    dims = as_dimensions(dim, input.ndim)
    result_type = _sum_type(input, computed_in(dtype, out))
    shape = input._layout.shape
    result = reduce(input, "sum", dims, keepdim, result_type)
    if needs_gradient(input):
        own = input.dtype

        def run_backward(grad: Tensor) -> Any:
            return restore(grad if grad.dtype is own else grad.to(own), shape, dims, keepdim)

        attach(result, "SumBackward0" if dim is None else "SumBackward1", (input,), run_backward)
    return _into(result, out)


def count_of(input: Tensor, dims: tuple[int, ...]) -> int:
    """Return how many elements each result reduces."""
    return number_of_elements(input._layout.shape[index] for index in dims)


@operation("composite", title=by_dimension("Mean", 0, 1))
@remembered
def mean(
    input: Tensor,
    dim: Dimensions = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The arithmetic mean over dimensions (all by default).

    Raises:
        RuntimeError: the input is neither floating-point nor complex and no dtype is given.
    """
    kind = dtype or input.dtype
    if out is not None and kind.category >= 2 <= out.dtype.category and (dim is not None or not input.dtype.is_complex):
        kind = computed_in(dtype, out) or kind
    if kind.category < 2:
        raise RuntimeError(
            f"mean(): could not infer output dtype. {'Input' if dtype is None else 'Optional'} dtype must be either a floating point or complex dtype. "
            f"Got: {dtype_title(kind)}"
        )
    dims = as_dimensions(dim, input.ndim)
    count = count_of(input, dims)
    # Of 16-bit numbers the quotient is rounded, not the sum, too.
    wide = float32 if kind.category == 2 and kind.itemsize == 2 else kind
    plain = input.detach()
    total = sum(plain.to(kind), dims, keepdim, dtype=wide) if dims else plain.to(wide)
    # A mean of nothing is NaN; adding it, unlike dividing zero, is nothing a driver folds away.
    nothing = complex(math.nan, math.nan) if kind.is_complex else math.nan
    result = (total / float(count) if count else total + nothing).to(kind)
    if needs_gradient(input):
        own, shape = input.dtype, input._layout.shape

        def run_backward(grad: Tensor) -> Any:
            # Divided where every element has its own place: gradients are dense, as PyTorch's.
            return restore(grad if grad.dtype is own else grad.to(own), shape, dims, keepdim) / float(count or 1)

        attach(result, "MeanBackward0" if dim is None else "MeanBackward1", (input,), run_backward)
    return _into(result, out)


@operation("reduction", title=by_dimension("Prod", 0, 1))
@remembered
def prod(
    input: Tensor,
    dim: int | EllipsisType = ...,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The product over one dimension (all by default); integers multiply in int64."""
    dims = as_dimensions(None if dim is ... else dim, input.ndim)
    dtype = computed_in(dtype, out)
    input = input if dtype is None else input.to(dtype)
    result = reduce(input, "product", dims, keepdim, _sum_type(input, dtype))
    if needs_gradient(input):
        saved = input._save()

        def run_backward(grad: Tensor) -> Any:
            return _prod_gradient(saved.unpack(), grad, dims, keepdim, dim is ...)

        attach(result, "ProdBackward0", (input,), run_backward)
    return _into(result, out)


def _prod_gradient(input: Tensor, grad: Tensor, dims: tuple[int, ...], keepdim: bool, everything: bool) -> Tensor:
    """Gradient of a product: the product of the other elements, right even where elements are zero.

    As PyTorch's it is the quotient of the product and the element where none of all elements is zero, which differs for NaN.
    """
    shape = input._layout.shape
    if number_of_elements(shape) == 0:
        return input * 0
    if not shape:
        return grad
    rows, axis = (input.reshape(-1), 0) if everything else (input, dims[0])
    size, zero = rows._layout.shape[axis], input == 0
    ones = rows.new_ones(tuple(1 if each == axis else wide for each, wide in enumerate(rows._layout.shape)))
    before = _cat((ones, rows.narrow(axis, 0, size - 1)), axis).cumprod(axis)
    after = _cat((ones, rows.flip(axis).narrow(axis, 0, size - 1)), axis).cumprod(axis).flip(axis)
    whole = before.narrow(axis, size - 1, 1) * rows.narrow(axis, size - 1, 1)
    quotient = (whole.reshape(()) if everything else whole) / input.where(~zero, 1.0)
    others = quotient.where(~zero.any(), (before * after).reshape(shape))
    result = restore(grad, shape, dims, keepdim) * others
    # Beside two zeros of a product of everything not even NaN counts.
    return result.where(zero.sum() <= 1, 0.0) if everything and not needs_gradient(input, grad) else result


def _cat(tensors: Any, dim: int) -> Tensor:
    return cat(tensors, dim)


def _truth(input: Tensor) -> Tensor:
    """Return what ``all`` and ``any`` give over no dimension: each element's own truth, row-major."""
    return ((input != 0).to(uint8) if input.dtype is uint8 else input != 0).contiguous()


def _told_into(result: Tensor, out: Tensor | None, name: str) -> Tensor:
    """Write whether something holds into ``out``, which is of booleans or bytes."""
    if isinstance(out, Tensor) and out.dtype not in (bool_, uint8):
        raise RuntimeError(f"{name} only supports bool tensor for result, got: {dtype_title(out.dtype)}")
    return _into(result, out)


@operation("reduction")
@remembered
def all(input: Tensor, dim: Dimensions = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Whether every element is non-zero."""
    if dim == ():
        return _told_into(_truth(input), out, "all")
    dims = as_dimensions(dim, input.ndim)

    kind = uint8 if input.dtype is uint8 else bool_
    return _told_into(reduce(input, "all", dims, keepdim, kind, bool_), out, "all")


@operation("reduction")
@remembered
def any(input: Tensor, dim: Dimensions = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Whether some element is non-zero."""
    if dim == ():
        return _told_into(_truth(input), out, "any")
    dims = as_dimensions(dim, input.ndim)

    kind = uint8 if input.dtype is uint8 else bool_
    return _told_into(reduce(input, "any", dims, keepdim, kind, bool_), out, "any")


@operation("composite")
def count_nonzero(input: Tensor, dim: Dimensions = None) -> Tensor:
    """How many elements are not zero, as int64."""
    return sum(input != 0, dim)


def spread_evenly(grad: Tensor, input: Tensor, value: Tensor) -> Tensor:
    """Return the gradient of one element picked from all: those equal to it share it, others have none."""
    source = input.detach()
    hit = (source == value) | ((source != source) & (value != value))
    return where(hit, grad / sum(hit.to(grad.dtype)), 0.0)


def require_elements(input: Tensor, dims: tuple[int, ...], dim: Any, title: str) -> None:
    """Raise RuntimeError or IndexError, as PyTorch does, for a reduction of nothing to what has no neutral element."""
    if input.ndim and count_of(input, dims) == 0:
        if dim is None:
            raise RuntimeError(
                f"{title}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with "
                "the 'dim' argument."
            )
        raise IndexError(f"{title}(): Expected reduction dim {dims[0]} to have non-zero size.")


def _extremum(input: Tensor, kind: str, dim: Any, keepdim: bool, title: str) -> Tensor:
    # (A tensor of one integer compares with a tuple element by element.)
    dim = None if isinstance(dim, tuple) and not dim else dim
    dims = as_dimensions(dim, input.ndim)
    require_elements(input, dims, dim, title)
    if input.dtype.is_complex and input.ndim and not input.numel():
        # Extrema of complex numbers are refused only where there are any.
        return no_view(input.reshape(reduced_shape(input._layout.shape, dims, keepdim)))
    accumulate = int32 if input.dtype.category < 2 and input.dtype.itemsize < 4 else compute_dtype(input.dtype)
    result = reduce(input, kind, dims, keepdim, input.dtype, accumulate)
    if needs_gradient(input):
        saved, shape = input._save(), input._layout.shape
        kept = result._save_result()

        def run_backward(grad: Tensor) -> Any:
            # PyTorch spreads the gradient evenly over equal extrema.
            source = saved.unpack()
            if dim is None and title in ("max", "min"):
                return spread_evenly(grad, source, kept.unpack().detach())
            full = restore(kept.unpack().detach(), shape, dims, keepdim)
            hit = source == full
            if title not in ("amax", "amin"):
                # Of those the gradient goes to elements that equal the extremum, and NaN equals nothing.
                hit = hit | (source != source)
            share = hit.to(grad.dtype)
            return share * restore(grad, shape, dims, keepdim) / sum(share, dims, keepdim=True)

        attach(result, f"{title.capitalize()}Backward0", (input,), run_backward)
    return result


@operation("reduction")
@remembered
def amax(input: Tensor, dim: Dimensions = (), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The maximum over dimensions; NaN wins; equal maxima share the gradient."""
    return _into(_extremum(input, "maximum", dim, keepdim, "amax"), out, True)


@operation("reduction")
@remembered
def amin(input: Tensor, dim: Dimensions = (), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The minimum over dimensions; NaN wins; equal minima share the gradient."""
    return _into(_extremum(input, "minimum", dim, keepdim, "amin"), out, True)


def _position(input: Tensor, kind: str, dim: Any, keepdim: bool, title: str) -> Tensor:
    dims = as_dimensions(dim, input.ndim)
    if input.numel() == 0 and count_of(input, dims) == 0:
        raise IndexError(
            f"{title}(): Expected reduction dim to be specified for input.numel() == 0."
            if dim is None
            else f"{title}(): Expected reduction dim {dims[0]} to have non-zero size."
        )
    accumulate = int32 if input.dtype.category < 2 and input.dtype.itemsize < 4 else compute_dtype(input.dtype)
    return reduce(input, kind, dims, keepdim, int64, accumulate)


def _refuse_unordered(input: Tensor, title: str) -> None:
    if input.dtype.category in (0, 3):
        what = "bool" if input.dtype.category == 0 else "complex"
        raise RuntimeError(f"{title}(): does not support {what} input")


@operation("reduction")
@remembered
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The position of the first maximum: in the flattened tensor, or along a dimension."""
    _refuse_unordered(input, "argmax")
    return _into(_position(input, "argmaximum", dim, keepdim, "argmax"), out, True)


@operation("reduction")
@remembered
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The position of the first minimum: in the flattened tensor, or along a dimension."""
    _refuse_unordered(input, "argmin")
    return _into(_position(input, "argminimum", dim, keepdim, "argmin"), out, True)


def _with_positions(input: Tensor, dim: int, keepdim: bool, kind: str, title: str) -> Any:
    dims = as_dimensions(dim, input.ndim)
    positions = _position(input, f"arg{kind}", dim, True, title)
    values = gather_known(input, dims[0], positions) if dims else input.clone()
    if not keepdim and dims:
        values, positions = no_view(values.squeeze(dims[0])), no_view(positions.squeeze(dims[0]))
    return make(title, values=values, indices=positions)


def _extremum_title(name: str) -> Title:
    reduced = by_dimension(name, 1, 0)

    def title(args: Positional, kwargs: Named) -> str:
        of_two = kwargs.get("other") is not None or (len(args) > 1 and isinstance(args[1], Tensor))
        return f"{name}imumBackward0" if of_two else reduced(args, kwargs)

    return title


@operation("reduction", title=_extremum_title("Max"))
@remembered
def max(
    input: Tensor,
    dim: Tensor | int | None = None,
    keepdim: bool = False,
    *,
    other: Tensor | None = None,
    out: Any = None,
) -> Tensor:
    """The maximum of all elements; with ``dim``, values and positions; with a tensor, the element-wise maximum."""
    return _min_or_max(input, dim if other is None else other, keepdim, "maximum", "max", out)


@operation("reduction", title=_extremum_title("Min"))
@remembered
def min(
    input: Tensor,
    dim: Tensor | int | None = None,
    keepdim: bool = False,
    *,
    other: Tensor | None = None,
    out: Any = None,
) -> Tensor:
    """The minimum of all elements; with ``dim``, values and positions; with a tensor, the element-wise minimum."""
    return _min_or_max(input, dim if other is None else other, keepdim, "minimum", "min", out)


def _min_or_max(input: Tensor, dim: Any, keepdim: bool, kind: str, title: str, out: Any) -> Any:
    require_tensor(title, "input", 1, input)
    if dim is None and keepdim:
        raise TypeError(f"{title}(): keepdim={keepdim} needs a dim, got {dim}")
    if isinstance(dim, Tensor):
        return getattr(elementwise, kind)(input, dim, out=out)
    if dim is None:
        return _into(_extremum(input, kind, None, False, title), out)
    return _into(_with_positions(input, dim, keepdim, kind, title), out, True, (input,))


@operation("composite", title="AminmaxBackward0")
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False, out: Any = None) -> Any:
    """Minimum and maximum over a dimension (all by default)."""
    if dim is not None:
        wrap_dimension(dim, input.ndim)
    require_elements(input, as_dimensions(dim, input.ndim), dim, "aminmax")
    refuse_types("aminmax_cpu", input, 3)
    found = make(
        "aminmax",
        min=_extremum(input, "minimum", dim, keepdim, "amin"),
        max=_extremum(input, "maximum", dim, keepdim, "amax"),
    )
    return _into(found, out, True, (input,))


@operation("composite", aliases=("special_logsumexp",), title="LogsumexpBackward0")
@remembered
def logsumexp(input: Tensor, dim: int | Sequence[int], keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """``log(sum(exp(input)))`` over dimensions without overflow."""
    dims = as_dimensions(dim, input.ndim)
    kind = input.dtype if input.dtype.category >= 2 else default_float[0]
    wide = input.to(float32) if kind.itemsize < 4 else input.to(kind)
    if count_of(wide, dims) == 0:
        return _into(sum(wide.exp(), dims, keepdim).log().to(kind), out)
    highest = amax(wide.detach(), dims, True)
    shift = highest.masked_fill(highest.isinf(), 0.0)
    total = (wide - shift).exp().sum(dims, True).log() + shift
    total = total if keepdim else total.reshape(reduced_shape(wide._layout.shape, dims, False))
    return _into(total.to(kind), out)
