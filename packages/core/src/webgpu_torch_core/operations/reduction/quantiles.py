"""Quantiles: of all elements, or along a dimension, with and without what is no number."""

from __future__ import annotations

from typing import Any

from ...dispatch.registry import operation
from ...dispatch.titles import retitled
from ...ir.dtypes import float32, float64, int64
from ...ir.layouts import wrap_dimension
from ...record.devices import on_host
from ...tensors.tensor import Tensor
from ..common import no_view
from ..creation.factories import tensor
from ..elementwise.choosing import where
from ..elementwise.overloads import clamp
from ..indexing.gathering import gather_known
from ..outputs import into
from ..sorting.order import sort
from ..value_checks import refuse_any
from .reductions import sum as summed

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(
    input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, ignore_nan: bool, name: str
) -> Tensor:
    if input.dtype not in (float32, float64):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    wanted = q if isinstance(q, Tensor) else tensor(float(q), dtype=input.dtype, device=input.device)
    if wanted.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    if wanted.dtype is not input.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if isinstance(q, Tensor) and on_host(q.device):
        refuse_any(~((q >= 0) & (q <= 1)), "quantile() q values must be in the range [0, 1]")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    if not isinstance(q, Tensor) and not 0 <= q <= 1:
        raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
    if input.numel() == 0:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if dim is not None:
        wrap_dimension(dim, input.ndim)
    moved = input.reshape(1, -1) if dim is None or input.ndim == 0 else input.movedim(dim, -1)
    values = sort(moved, -1).values
    size = values.shape[-1]
    lacking = summed(moved.detach().isnan(), -1, True)
    last = (size - 1 - lacking).to(input.dtype) if ignore_nan else values.detach().new_full((), float(size - 1))
    rank = clamp(last, min=0) * wanted.reshape(-1)
    if not ignore_nan:
        # A row with NaN is NaN: its rank is its last element.
        rank = where(lacking > 0, float(size - 1), rank)
    rank = {"lower": rank.floor, "higher": rank.ceil, "nearest": rank.round}.get(interpolation, lambda: rank)()
    low = rank.detach().floor()
    weight = rank - low if interpolation == "linear" else where(rank > low, 0.5, 0.0)
    shape = (*values.shape[:-1], wanted.numel())
    below = gather_known(values, values.ndim - 1, low.to(int64).expand(shape))
    result = below
    if interpolation in ("linear", "midpoint"):
        above = gather_known(values, values.ndim - 1, rank.detach().ceil().to(int64).expand(shape))
        result = below.lerp(above, weight.expand(shape).to(input.dtype))
    # [..., quantiles] → quantiles first, as PyTorch has them.
    if dim is None or input.ndim == 0:
        result = result.reshape(wanted.numel())
        kept = (1,) * input.ndim if keepdim else ()
    else:
        axis = wrap_dimension(dim, input.ndim) if input.ndim else 0
        kept = tuple(1 if place == axis else each for place, each in enumerate(input.shape))
        kept = kept if keepdim else tuple(each for place, each in enumerate(input.shape) if place != axis)
        result = result.movedim(-1, 0)
    return retitled(no_view(result.reshape((wanted.numel(), *kept) if wanted.ndim else kept)), "SqueezeBackward4")


@operation("composite")
def quantile(
    input: Tensor, q: Tensor | float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The values below which the fractions ``q`` lie, interpolated between neighbours; NaN where there is one.

    Raises:
        RuntimeError: fractions outside of [0, 1], other types than float32 and float64, or no elements.
    """
    result = _quantile(input, q, dim, keepdim, interpolation, False, "quantile")
    return into(result, out, True)


@operation("composite")
def nanquantile(
    input: Tensor, q: Tensor | float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """:func:`quantile` of what is not NaN."""
    result = _quantile(input, q, dim, keepdim, interpolation, True, "nanquantile")
    return into(result, out, True)
