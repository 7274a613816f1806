"""Scatters that reduce: sums, products, means and extrema of what an index sends to one place."""

from __future__ import annotations

from typing import Any

from ...dispatch.registry import operation
from ...ir.layouts import wrap_dimension
from ...tensors.tensor import Tensor
from ..common import attach, is_half, needs_gradient, refuse_types, wide
from ..elementwise.choosing import where
from ..outputs import into
from .gathering import REDUCE, attach_scatter, gather, scatter, scatter_add, scatter_along


@operation("scatter")
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``input`` combined with ``src`` at ``index`` along a dimension by sum, prod, amax, amin or mean.

    Raises:
        RuntimeError: the types differ.
    """
    wrap_dimension(dim, input.ndim)
    if src.dtype is not input.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    return into(_scatter_reduce(input, dim, index, src, reduce, include_self), out, True, (input, index, src))


def _scatter_reduce(input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool) -> Tensor:
    if reduce == "mean":
        refuse_types("scatter_gather_tensor_cpu_reduce_mean", input, 0)
        total = scatter_reduce(input, dim, index, src, "sum", include_self=include_self)
        base = input.new_ones(input.shape) if include_self else input.new_zeros(input.shape)
        count = scatter_add(base, dim, index, src.new_ones(src.shape)).clamp(min=1)
        return total / count if input.dtype.category == 2 else total.div(count, rounding_mode="floor")
    if reduce not in REDUCE:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    base = input
    if not include_self:
        neutral = {"sum": 0, "prod": 1, "amax": input.dtype.minimum, "amin": input.dtype.maximum}[reduce]
        if input.dtype.category == 2 and reduce in ("amax", "amin"):
            neutral = float("-inf") if reduce == "amax" else float("inf")
        base = scatter(input, dim, index, neutral)
    result = scatter_along(base, dim, index, src.detach(), REDUCE[reduce], "scatter_reduce")
    if reduce == "sum":
        return attach_scatter(result, base, dim, index, src, "sum", "ScatterReduceBackward0")
    if needs_gradient(input, src):
        if reduce == "prod":
            return _attach_product(result, base, dim, index, src)
        return _attach_extremum(result, input, dim, index, src, include_self)
    return result


def _attach_product(result: Tensor, input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """The gradient of a product is the product of the others: by division where nothing is zero, else computed again."""
    saved, kept = (input._save(), index._save(), src._save()), result._save_result()

    def run_backward(grad: Tensor) -> Any:
        input, index, src = (each.unpack() for each in saved)
        kind, narrow = input.dtype, is_half(input)
        # 16-bit gradients are quotients of products: they round once, at the end.
        input, src, grad = wide(input), wide(src), wide(grad)

        def product(start: Tensor, factors: Tensor) -> Tensor:
            found = scatter_along(start.detach(), dim, index, factors.detach(), "product", "scatter_reduce")
            return _attach_product(found, start, dim, index, factors) if needs_gradient(start, factors) else found

        value = product(input, src) if narrow else kept.unpack()
        filled = input.masked_fill(input == 0, 1.0)
        own = grad * product(filled, src) / filled
        zero = src == 0
        zeros = gather(scatter_add(input.new_zeros(input.shape), dim, index, zero.to(src.dtype)), dim, index)
        if needs_gradient(input, src, grad) and bool((zeros > 1).any()):
            raise RuntimeError(
                "Double backward is unsupported for src when >1 zeros in src are scattered to the same position in self"
            )
        single = zero & (zeros == 1)
        others = gather(grad * product(input, src.masked_fill(single, 1.0)), dim, index)
        divided = gather(grad * value, dim, index) / src.masked_fill(zero, 1.0)
        theirs = where(single, others, divided).masked_fill(zeros > 1, 0.0)
        return own.to(kind), None, theirs.to(kind)

    return attach(result, "ScatterReduceBackward0", (input, index, src), run_backward)


def _attach_extremum(result: Tensor, input: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool) -> Tensor:
    """Equal winners share the gradient, as PyTorch's scatter_reduce amax/amin; what is not included counts among them, too."""
    saved, kept = (input._save(), index._save(), src._save()), result._save_result()

    def run_backward(grad: Tensor) -> Any:
        (input, index, src), value = (each.unpack() for each in saved), kept.unpack().detach()
        own = (input == value).to(grad.dtype)
        theirs = (src == gather(value, dim, index)).to(grad.dtype)
        count = scatter_add(own, dim, index, theirs)
        share = grad / count
        ours = share * own if include_self else scatter(share * own, dim, index, 0)
        return ours, None, gather(share, dim, index) * theirs

    return attach(result, "ScatterReduceBackward0", (input, index, src), run_backward)
