"""Statistics: medians, quantiles, modes, covariances, numerical integration and differentiation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...dispatch.titles import by_dimension, retitled
from ...ir.dtypes import bool_, dtype, float32, int32, int64, promote_types, uint8
from ...ir.layouts import existing_dimension, wrap_dimension
from ...notices import warn
from ...replay.recipes import remembered
from ...tensors.tensor import Tensor
from ..common import (
    as_dimensions,
    attach,
    dtype_title,
    is_half,
    needs_gradient,
    refuse_types,
    type_title,
    wide,
)
from ..complex.interleaving import join
from ..complex.views import conj, part
from ..creation.ranges import arange
from ..elementwise.call import default_float
from ..elementwise.choosing import where
from ..elementwise.overloads import clamp
from ..host_algorithms import has_algorithm
from ..indexing.gathering import gather_known
from ..movement.joining import cat
from ..movement.views import narrow
from ..outputs import computed_in, into
from ..return_types import make
from ..sorting.order import order_statistic, sort
from ..value_checks import require_none
from .moments import vector_norm
from .reductions import restore, spread_evenly
from .reductions import sum as summed

if TYPE_CHECKING:
    from ...tensors.type_aliases import Dimensions, Number


@operation("composite", title="NansumBackward0")
def nansum(
    input: Tensor,
    dim: Dimensions = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The sum over dimensions with NaN counted as zero.

    Raises:
        RuntimeError: complex numbers.
    """
    if out is None:
        as_dimensions(dim, input.ndim)
    if input.dtype.is_complex:
        raise RuntimeError("nansum does not support complex inputs")
    if dtype is not None and dtype.is_complex and input.dtype.category == 2 and input.numel():
        raise NotImplementedError(f"\"nansum_cpu\" not implemented for '{dtype_title(dtype)}'")
    if out is not None and input.dtype.category == 2 != out.dtype.category:
        raise NotImplementedError(f"\"nansum_cpu\" not implemented for '{type_title(out)}'")
    dtype = computed_in(dtype, out)
    if input.dtype.category < 2:
        return into(summed(input, dim, keepdim, dtype=dtype), out)
    own = input.detach()
    result = summed(where(own.isnan(), 0, own), dim, keepdim, dtype=dtype)
    if needs_gradient(input):
        saved, shape = input._save(), input._layout.shape

        def run_backward(grad: Tensor) -> Tensor:
            # As PyTorch multiplies: an infinite gradient, that of a mean of nothing, is NaN where the elements are.
            read = saved.unpack()
            arriving = restore(grad.to(read.dtype), shape, as_dimensions(dim, len(shape)), keepdim)
            return arriving * read.isnan().logical_not()

        attach(result, "NansumBackward0", (input,), run_backward)
    return into(result, out)


@operation("composite")
def nanmean(
    input: Tensor,
    dim: Dimensions = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The mean over dimensions of what is not NaN."""
    if input.dtype.category < 2:
        raise RuntimeError(f"nanmean(): expected input to have floating point or complex dtype but got {input.dtype!r}")
    count = summed(input.isnan().logical_not(), dim, keepdim)
    if out is not None and out.dtype.category != 2:
        raise NotImplementedError(f"\"nansum_cpu\" not implemented for '{type_title(out)}'")
    result = nansum(input, dim, keepdim, dtype=computed_in(dtype, out)) / count
    return into(result, out)


def _pick(values: Tensor, positions: Tensor, place: Tensor, axis: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    found = gather_known(values, axis, place), gather_known(positions, axis, place)
    return found if keepdim else (found[0].squeeze(axis), found[1].squeeze(axis))


def _middle(input: Tensor, dim: int | None, keepdim: bool, ignore_nan: bool, title: str) -> Any:
    """The lower median along a dimension: NaN where there is one, or of what is not NaN."""
    if dim is None:
        flat = input.reshape(-1)
        if flat.numel() == 0:
            if input.dtype.category >= 2:
                return flat.sum() + math.nan
            # What PyTorch makes of NaN in the type.
            wide = input.dtype.itemsize >= int32.itemsize
            return input.new_full((), (input.dtype.minimum if wide else 0) if input.dtype.category else True)
        refuse_types("median_cpu", input, 3)
        value = _middle(flat.detach(), 0, False, ignore_nan, title)[0]
        if not needs_gradient(input):
            return value
        saved, kept = input._save(), value.detach()
        backward = lambda grad: spread_evenly(grad, saved.unpack(), kept)  # noqa: E731
        return attach(value, f"{title.capitalize()}Backward0", (input,), backward)
    axis = wrap_dimension(dim, input.ndim)
    if input.ndim == 0:
        refuse_types("median_out", input, 0, 3)
        return make(title, values=input.clone(), indices=input.new_zeros((), dtype=int64))
    size = input.shape[axis]
    if size == 0:
        raise IndexError(f"{title}(): Expected reduction dim {axis} to have non-zero size.")
    refuse_types("median_out", input, 0, 3)
    if not ignore_nan and has_algorithm(input, "order_statistic"):
        return order_statistic(input, axis, (size - 1) // 2, keepdim, title)
    values, positions = sort(input, axis)
    shape = tuple(1 if place == axis else each for place, each in enumerate(input.shape))
    if input.dtype.category != 2:
        place = input.new_full(shape, (size - 1) // 2, dtype=int64)
    else:
        # NaN is the greatest: any sorts to the end.
        lacking = summed(input.detach().isnan(), axis, True)
        middle = clamp((size - lacking - 1) // 2, min=0)
        place = middle if ignore_nan else where(lacking > 0, size - lacking, (size - 1) // 2).to(int64)
        if ignore_nan:
            place = where(lacking == size, 0, place).to(int64)
    found = _pick(values, positions, place, axis, keepdim)
    return make(title, values=found[0], indices=found[1])


@operation("composite", title=by_dimension("Median", 0, 1))
def median(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The lower median of all elements, or along a dimension with its position; NaN where there is one."""
    result = _middle(input, dim, keepdim, False, "median")
    return into(result, out, True, (input,))


@operation("composite", title=by_dimension("Nanmedian", 0, 1))
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The lower median of what is not NaN, of all elements or along a dimension with its position."""
    result = _middle(input, dim, keepdim, True, "nanmedian")
    return into(result, out, True, (input,))


@operation("composite", title="ModeBackward0")
def mode(input: Tensor, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> Any:
    """The smallest most frequent value along a dimension, and the position of its last occurrence."""
    axis = wrap_dimension(dim, input.ndim)
    if input.ndim == 0:
        return into(make("mode", values=input.clone(), indices=input.new_zeros((), dtype=int64)), out, True)
    if input.shape[axis] == 0:
        raise IndexError(f"mode(): Expected reduction dim {axis} to have non-zero size.")
    values, positions = sort(input, axis)
    still = values.detach().movedim(axis, -1)
    size = still.shape[-1]
    number = arange(size, device=input.device)
    fresh = cat([still.new_ones((*still.shape[:-1], 1), dtype=int64).bool(), still[..., 1:] != still[..., :-1]], -1)
    # Where the run of equal values that an element belongs to starts: its length so far.
    start = where(fresh, number, 0).cummax(-1).values
    place = (number - start).argmax(-1, keepdim=True).movedim(-1, axis)
    found = _pick(values, positions, place, axis, keepdim)
    result = make("mode", values=found[0], indices=found[1])
    return into(result, out, True, (input,))


@operation("composite", title="DistBackward0")
@remembered
def dist(input: Tensor, other: Tensor, p: Number = 2) -> Tensor:
    """The ``p``-norm of the difference."""
    if is_half(input) or is_half(other):
        return vector_norm(wide(input) - wide(other), p).to(promote_types(input.dtype, other.dtype))
    return vector_norm(input - other, p)


@operation("composite")
@remembered
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariance matrix of variables (rows) over observations (columns), optionally weighted.

    Raises:
        RuntimeError: more than two dimensions, or weights of another size or type.
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    if input.dtype is bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    input = input if input.dtype.category >= 2 else input.to(default_float[0])
    values = input.reshape(1, -1) if input.ndim < 2 else input
    count = values.shape[1]
    weights = None
    for name, each, category in (("fweights", fweights, 1), ("aweights", aweights, 2)):
        if each is None:
            continue
        if each.ndim > 1:
            raise RuntimeError(
                f"cov(): expected {name} to have one or fewer dimensions but got {name} with {each.ndim} dimensions"
            )
        if each.dtype.category != category:
            kind = "integral" if category == 1 else "floating point"
            raise RuntimeError(
                f"cov(): expected {name} to have {kind} dtype but got {name} with {dtype_title(each.dtype)} dtype"
            )
        if each.numel() != count:
            raise RuntimeError(
                f"cov(): expected {name} to have the same numel as there are observations in the input but got {each.numel()} != {count}"
            )
        require_none(each.detach() < 0, f"cov(): {name} cannot be negative")
        weights = each if weights is None else weights * each
    total: Any = count if weights is None else weights.sum()
    if weights is not None:
        require_none(total.detach() == 0, "cov(): weights sum to zero, can't be normalized")
    mean = values.mean(1, True) if weights is None else (values * weights).sum(1, True) / total
    if weights is not None and aweights is not None and correction != 0:
        norm: Any = total - correction * (weights * aweights).sum() / total
    else:
        norm = total - correction
    if not isinstance(norm, Tensor) and norm <= 0:
        warn("cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.")
    norm = clamp(norm, min=0) if isinstance(norm, Tensor) else max(norm, 0)
    centered = values - mean
    right = centered if weights is None else centered * weights
    result = (centered @ conj(right.t())) / norm
    return result.squeeze()


@operation("composite")
@remembered
def corrcoef(input: Tensor) -> Tensor:
    """The correlation matrix of variables (rows) over observations (columns), kept inside [-1, 1]."""
    if input.ndim > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    if is_half(input):
        return corrcoef(wide(input)).to(input.dtype)
    matrix = cov(input)
    if matrix.ndim == 0:
        return matrix / matrix
    deviation = matrix.diagonal().sqrt()
    result = matrix / deviation.unsqueeze(1) / deviation.unsqueeze(0)
    if result.dtype.is_complex:
        return join(clamp(part(result, 0), -1, 1), clamp(part(result, 1), -1, 1))
    return clamp(result, -1, 1)


@operation("composite", method=False)
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Number = 1.0, dim: int = -1) -> Tensor:
    """The integral along a dimension by the trapezoidal rule, over positions ``x`` or in steps ``dx``."""
    axis = existing_dimension(dim, y.ndim)
    if not y.shape[axis]:
        return y.new_zeros((*y.shape[:axis], *y.shape[axis + 1 :]))
    sums, width = _trapezoids("trapezoid", y, x, dx, dim)
    if width is None:
        return retitled(sums.sum(dim) * (dx / 2.0), "MulBackward1")
    return retitled((sums * width).sum(dim) / 2.0, "DivBackward1")


@operation("composite", method=False)
def trapz(y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """As :func:`trapezoid`."""
    return trapezoid(y, x, dx=float(dx), dim=dim)


@operation("composite", method=False)
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Number = 1.0, dim: int = -1) -> Tensor:
    """The running integral along a dimension by the trapezoidal rule."""
    sums, width = _trapezoids("cumulative_trapezoid", y, x, dx, dim)
    if width is None:
        return (sums * (dx / 2.0)).cumsum(dim)
    return retitled((sums * width).cumsum(dim) / 2.0, "DivBackward1")


def _trapezoids(function: str, y: Tensor, x: Tensor | None, dx: Number, dim: int) -> tuple[Tensor, Tensor | None]:
    """Return the sums of neighbours and, where they are not all ``dx``, the distances between them.

    Raises:
        RuntimeError: truth values, a ``dx`` that is no real number, or positions that are not one for each sample.
    """
    if y.dtype is bool_ or (x is not None and x.dtype is bool_):
        names = "`y`" if x is None else "`x` or `y`"
        raise RuntimeError(f"{function}: received a bool input for {names}, but bool is not supported")
    if isinstance(dx, bool | complex):
        raise RuntimeError(f"{function}: Currently, we only support dx as a real number.")
    axis = existing_dimension(dim, y.ndim)
    size = max(y.shape[axis] - 1, 0)
    low, high = narrow(y, axis, 0, size), narrow(y, axis, min(1, y.shape[axis]), size)
    if x is None:
        return low + high, None
    if x.ndim == 1:
        if x.shape[0] != y.shape[axis]:
            raise RuntimeError(f"{function}: There must be one `x` value for each sample point")
        x = x.reshape(tuple(-1 if place == axis else 1 for place in range(y.ndim)))
    steps = x.ndim - y.ndim + axis
    count = max(x.shape[steps] - 1, 0)
    width = narrow(x, steps, min(1, x.shape[steps]), count) - narrow(x, steps, 0, count)
    return low + high, width


@operation("composite", method=False)
def gradient(input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Derivatives along dimensions by second-order central differences (Fornberg, 1988), one-sided at the ends.

    ``spacing``: one number, one per dimension, or a tensor of positions per dimension.

    Raises:
        RuntimeError: a dimension shorter than ``edge_order + 1``, or spacings that do not match the dimensions.
    """
    dims = (
        as_dimensions(dim, input.ndim)
        if not isinstance(dim, list | tuple)
        else tuple(wrap_dimension(each, input.ndim) for each in dim)
    )
    if len(set(dims)) != len(dims):
        repeated = next(each for each in dims if dims.count(each) > 1)
        raise RuntimeError(f"dim {repeated} appears multiple times in the list of dims")
    if input.dtype is uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    spacing = 1 if spacing is None else spacing
    spacings = list(spacing) if isinstance(spacing, list | tuple) else [spacing] * len(dims)
    if len(spacings) != len(dims):
        raise RuntimeError(
            f"torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to 'self.dim() = "
            f"{len(dims)}', but got a list of length {len(spacings)}"
        )
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    for each in dims:
        if input.shape[each] < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    return tuple(_derivative(input, each, step, edge_order) for each, step in zip(dims, spacings, strict=True))


def _derivative(input: Tensor, axis: int, step: Any, order: int) -> Tensor:
    size = input.shape[axis]
    if input.dtype is bool_:
        # Refused in the words of what it would be computed by.
        return input - input
    values = input if input.dtype.category >= 2 else input.to(float32)

    def at(start: int, length: int) -> Tensor:
        return narrow(values, axis, start, length)

    if isinstance(step, Tensor) and step.ndim:
        shape = tuple(-1 if place == axis else 1 for place in range(input.ndim))
        widths = (step[1:] - step[:-1]).reshape(shape)
        before, after = narrow(widths, axis, 0, size - 2), narrow(widths, axis, 1, size - 2)
        inner = -after / (before * (before + after)) * at(0, size - 2)
        inner = inner + (after - before) / (before * after) * at(1, size - 2)
        inner = inner + before / (after * (before + after)) * at(2, size - 2)
        first, last = narrow(widths, axis, 0, 1), narrow(widths, axis, size - 2, 1)
    else:
        first = last = before = after = step
        inner = (at(2, size - 2) - at(0, size - 2)) / (2.0 * step)
    if order == 1:
        low, high = (at(1, 1) - at(0, 1)) / first, (at(size - 1, 1) - at(size - 2, 1)) / last
        return cat([low, inner, high], axis)
    second = narrow(after, axis, 0, 1) if isinstance(after, Tensor) and after.ndim else step
    previous = narrow(before, axis, size - 3, 1) if isinstance(before, Tensor) and before.ndim else step
    low = (-(2.0 * first + second) / (first * (first + second))) * at(0, 1)
    low = low + (first + second) / (first * second) * at(1, 1) - first / (second * (first + second)) * at(2, 1)
    high = last / (previous * (previous + last)) * at(size - 3, 1) - (previous + last) / (previous * last) * at(
        size - 2, 1
    )
    high = high + (2.0 * last + previous) / (last * (previous + last)) * at(size - 1, 1)
    return cat([low, inner, high], axis)
