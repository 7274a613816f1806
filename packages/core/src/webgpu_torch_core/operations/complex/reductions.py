"""Rules of reductions and scans over complex tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...dispatch.titles import titled
from ...ir.dtypes import float32, promote_types
from ...ir.layouts import contiguous_layout, wrap_dimension
from ...tensors.memory_formats import contiguous_format
from ...tensors.tensor import Tensor
from .. import elementwise as e
from ..common import as_dimensions, attach, needs_gradient, no_view, reduced_shape, row_major
from ..creation.ranges import arange
from ..movement.joining import cat
from ..outputs import computed_in, finish_out, into
from ..reduction.moments import check_norm
from ..reduction.reductions import restore
from .views import as_complex, complex_view, conj, part, view_as_real


def sum_rule(
    function: Any,
    input: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Any = None,
    **named: Any,
) -> Tensor:
    dim, keepdim = named.get("axis", dim), named.get("keepdims", keepdim)
    dtype = computed_in(dtype, out)
    if dtype is not None and not dtype.is_complex:
        return function(input.to(dtype), dim, keepdim, dtype=dtype, out=out)
    source = as_complex(input if dtype is None else input.to(dtype))
    dims = as_dimensions(dim, source.ndim)
    floats = view_as_real(source)
    result = function(floats, dims, keepdim) if dims else floats.clone()
    return finish_out(complex_view(result), out)


def all_rule(function: Any, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return function(input != 0, *args, **kwargs)


def any_rule(function: Any, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return function(input != 0, *args, **kwargs)


@titled("CumsumBackward0")
def cumsum_rule(function: Any, input: Tensor, dim: int, *, dtype: Any = None, out: Any = None) -> Tensor:
    dtype = computed_in(dtype, out)
    if dtype is not None and not dtype.is_complex:
        return function(input.to(dtype), dim, dtype=dtype, out=out)
    source = as_complex(input if dtype is None else input.to(dtype))
    if source.ndim == 0:
        wrap_dimension(dim, 0)
        return finish_out(source.clone(), out)
    return finish_out(complex_view(function(view_as_real(source), wrap_dimension(dim, source.ndim))), out)


def _line(input: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return the tensor with the reduced dimensions merged into a last one."""
    kept = tuple(index for index in range(input.ndim) if index not in dims)
    shape = tuple(input._layout.shape[index] for index in kept)
    count = math.prod(input._layout.shape[index] for index in dims)
    return input.permute(kept + dims).reshape((*shape, count))


def prod_rule(
    function: Any, input: Tensor, dim: Any = ..., keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Tensor:
    """Multiply halves of the row pairwise until one element is left: log2(n) products of whole rows."""
    dtype = computed_in(dtype, out)
    if dtype is not None and not dtype.is_complex:
        return function(input.to(dtype), dim, keepdim, dtype=dtype, out=out)
    dims = as_dimensions(None if dim is ... else dim, input.ndim)
    source = as_complex(input if dtype is None else input.to(dtype))
    # PyTorch's product starts with one: of an infinite number one part is left.
    line = (_line(source, dims) if dims else source.unsqueeze(-1)) * 1.0
    count = line.shape[-1]
    if count == 0:
        line = line.sum(-1, keepdim=True) + 1.0
    while line.shape[-1] > 1:
        half = line.shape[-1] // 2
        product = line.narrow(-1, 0, half) * line.narrow(-1, half, half)
        rest = line.narrow(-1, 2 * half, line.shape[-1] - 2 * half)
        line = _cat(product, rest) if rest.shape[-1] else product
    return finish_out(_own(line, line.reshape(reduced_shape(source._layout.shape, dims, keepdim))), out)


def _cat(*pieces: Tensor) -> Tensor:
    return cat(pieces, -1)


@titled("CumprodBackward0")
def cumprod_rule(function: Any, input: Tensor, dim: int, *, dtype: Any = None, out: Any = None) -> Tensor:
    """Running products by doubling (Hillis and Steele, 1986): log2(n) products of whole rows."""
    dtype = computed_in(dtype, out)
    if dtype is not None and not dtype.is_complex:
        return function(input.to(dtype), dim, dtype=dtype, out=out)
    source = as_complex(input if dtype is None else input.to(dtype))
    axis = wrap_dimension(dim, source.ndim)
    if source.ndim == 0 or not source.numel():
        return finish_out(row_major(source.clone()), out)
    line = source.movedim(axis, -1)
    step, count = 1, line.shape[-1]
    while step < count:
        moved = line.narrow(-1, step, count - step) * line.narrow(-1, 0, count - step)
        line = _cat(line.narrow(-1, 0, step), moved)
        step *= 2
    return finish_out(_own(line, line.movedim(-1, axis)), out)


def _own(line: Tensor, shown: Tensor) -> Tensor:
    """Return a result, which ``line`` holds, row-major in memory that is nobody else's."""
    result = (
        no_view(shown) if line._base is None and shown.is_contiguous() else shown.clone(memory_format=contiguous_format)
    )
    # Strides of dimensions of one element are those of row-major memory, too.
    result._layout = contiguous_layout(result._layout.shape)
    return result


def variance_rule(function: Any, input: Tensor, dims: tuple[int, ...], keepdim: bool, divisor: float) -> Tensor:
    """Return the variance of each part, rounded and added: what is infinite in one may be NaN in the other."""
    kind = promote_types(input.dtype.to_real(), float32)
    real, imaginary = (function(part(input, each), dims, keepdim, divisor).to(kind) for each in (0, 1))
    return real + imaginary


def vector_norm_rule(
    function: Any,
    x: Tensor,
    ord: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Any = None,
) -> Tensor:
    check_norm(x, ord, dim, dtype)
    return function(e.abs(as_complex(x if dtype is None else x.to(dtype))), ord, dim, keepdim, out=out)


def logsumexp_rule(function: Any, input: Tensor, dim: Any, keepdim: bool = False, *, out: Any = None) -> Tensor:
    source = as_complex(input)
    dims = as_dimensions(dim, source.ndim)
    result = _logsumexp(source.detach(), dims, keepdim)
    if needs_gradient(source):
        saved, shape = source._save(), source._layout.shape

        def run_backward(grad: Tensor) -> Tensor:
            given = saved.unpack()
            total = logsumexp_rule(function, given, dims, keepdim) if needs_gradient(given) else result.detach()
            full = [restore(each, shape, dims, keepdim) if dims else each for each in (grad, total)]
            return full[0] * conj(e.exp(given - full[1]))

        attach(result, "LogsumexpBackward0", (source,), run_backward)
    return finish_out(result, out)


def _logsumexp(input: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    if not input.numel():
        return e.log(e.exp(input).sum(dims, keepdim))
    floats = part(input, 0)
    highest = floats.amax(dims, True) if dims else floats
    shift = highest.masked_fill(highest.isinf(), 0.0)
    grown = e.exp(input - shift)
    total = e.log(grown.sum(dims, True) if dims else grown) + shift
    return total if keepdim else total.reshape(reduced_shape(input._layout.shape, dims, False))


def logcumsumexp_rule(
    function: Callable[[Tensor, int], Tensor], input: Tensor, dim: int, *, out: Tensor | None = None
) -> Tensor:
    """Running log-sums by doubling, on the branch of the logarithm that adding one element after the other ends on."""
    axis = wrap_dimension(dim, input.ndim)
    if input.ndim == 0 or not input.numel():
        return into(row_major(input.clone()), out, True)
    # The sum starts with the logarithm of zero, whose angle is lost.
    source = line = e.logaddexp(input.movedim(axis, -1), input.new_full((), complex(-math.inf, 0.0)))
    step, count = 1, line.shape[-1]
    while step < count:
        added = e.logaddexp(line.narrow(-1, step, count - step), line.narrow(-1, 0, count - step))
        line = _cat(line.narrow(-1, 0, step), added)
        step *= 2
    turns = _full_turns(source.detach(), line.detach())
    result = line + turns * complex(0.0, 2.0 * math.pi)
    return into(_own(result, result.movedim(-1, axis)), out, True)


def _turns(angle: Tensor) -> Tensor:
    """Return how many full turns are nearest to an angle, none to one that is infinite or NaN."""
    return (angle / (2.0 * math.pi)).round().nan_to_num(0.0, 0.0, 0.0)


def _full_turns(source: Tensor, sums: Tensor) -> Tensor:
    """Return how many full turns running log-sums are away from where one addition after the other leads.

    Adding a smaller number turns a sum by less than a quarter; a larger number takes its own angle along.
    """
    angle, real = part(sums, 1), part(sums, 0)
    count = angle.shape[-1]
    first = angle.new_zeros((*angle.shape[:-1], 1))
    follows = real.narrow(-1, 0, count - 1) > part(source, 0).narrow(-1, 1, count - 1)
    change = _turns(angle.narrow(-1, 0, count - 1) - angle.narrow(-1, 1, count - 1))
    running = _cat(first, change * follows).cumsum(-1)
    starts = ~_cat(first.to(follows.dtype), follows)
    positions = (arange(count, device=angle.device) * starts).cummax(-1).values
    own = _turns(part(source, 1) - angle)
    return running + (own - running).gather(-1, positions)
