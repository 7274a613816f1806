"""``torch.masked``: reductions and normalisations of what a boolean mask shows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...dispatch.registry import operation
from ...ir.dtypes import bool_, dtype, int64
from ...tensors.tensor import Tensor
from ..common import as_dimensions, is_half, wide
from ..elementwise.choosing import where
from ..neural.layers import log_softmax as plain_log_softmax
from ..neural.layers import softmax as plain_softmax
from ..sorting.order import cumprod as plain_cumprod
from ..sorting.order import cumsum as plain_cumsum
from .moments import vector_norm
from .statistics import nanmedian


def _mask(input: Tensor, mask: Tensor | None) -> Tensor:
    """Return where the input is shown, in its shape."""
    if mask is None:
        return input.detach().new_ones((), dtype=bool_).expand(input.shape)
    if mask.ndim > input.ndim:
        raise ValueError("_output_mask expected mask dimensionality less than or equal to input dimensionality")
    return (mask if mask.dtype is bool_ else mask != 0).expand(input.shape)


def _filled(input: Tensor, mask: Tensor | None, value: Any) -> Tensor:
    return where(_mask(input, mask), input, value).to(input.dtype)


def _converted(input: Tensor, dtype: Any, whole: bool) -> Tensor:
    if dtype is not None:
        return input.to(dtype)
    return input.to(int64) if whole and input.dtype.category < 2 else input


def _smallest(input: Tensor) -> Any:
    return -math.inf if input.dtype.category == 2 else input.dtype.minimum


def _largest(input: Tensor) -> Any:
    return math.inf if input.dtype.category == 2 else input.dtype.maximum


def _dims(input: Tensor, dim: Any) -> tuple[int, ...]:
    return as_dimensions(dim, input.ndim)


def _reduction(name: str, doc: str, compute: Callable[..., Tensor]) -> None:
    def function(
        input: Tensor,
        dim: Any = None,
        *,
        keepdim: object = False,
        dtype: dtype | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        return compute(input, _dims(input, dim), bool(keepdim), dtype, mask)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    operation("composite", namespace="masked", method=False)(function)


def _sum(input: Tensor, dims: tuple[int, ...], keepdim: bool, dtype: Any, mask: Any) -> Tensor:
    return _filled(_converted(input, dtype, True), mask, 0).sum(dims, keepdim)


def _prod(input: Tensor, dims: tuple[int, ...], keepdim: bool, dtype: Any, mask: Any) -> Tensor:
    result = _filled(_converted(input, dtype, True), mask, 1)
    for each in sorted(dims, reverse=True):
        result = result.prod(each, keepdim)
    return result


def _amax(input: Tensor, dims: tuple[int, ...], keepdim: bool, dtype: Any, mask: Any) -> Tensor:
    input = _converted(input, dtype, False)
    return _filled(input, mask, _smallest(input)).amax(dims, keepdim)


def _amin(input: Tensor, dims: tuple[int, ...], keepdim: bool, dtype: Any, mask: Any) -> Tensor:
    input = _converted(input, dtype, False)
    return _filled(input, mask, _largest(input)).amin(dims, keepdim)


def _mean(input: Tensor, dims: tuple[int, ...], keepdim: bool, dtype: Any, mask: Any) -> Tensor:
    if dtype is None and input.dtype.category == 0:
        input = input.to(int64)
    count = _mask(input, mask).sum(dims, keepdim)
    return _sum(input, dims, keepdim, dtype, mask) / count


_reduction("sum", "The sum over dimensions of what the mask shows.", _sum)
_reduction("prod", "The product over dimensions of what the mask shows.", _prod)
_reduction("amax", "The largest over dimensions of what the mask shows.", _amax)
_reduction("amin", "The smallest over dimensions of what the mask shows.", _amin)
_reduction("mean", "The mean over dimensions of what the mask shows.", _mean)


@operation("composite", namespace="masked", method=False)
def logsumexp(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """``log(sum(exp(input)))`` over dimensions of what the mask shows."""
    input = _converted(input, dtype, False)
    wide = input.float() if input.dtype.category < 2 else input
    return _filled(wide, mask, -math.inf).logsumexp(_dims(input, dim), keepdim).to(input.dtype)


@operation("composite", namespace="masked", method=False)
def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: dtype | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """``log(exp(input) + exp(other))`` with what is masked counted as nothing."""
    one, another = _converted(input, dtype, False), _converted(other, dtype, False)
    return _filled(one, input_mask, -math.inf).logaddexp(_filled(another, other_mask, -math.inf))


def _position(name: str, fill: Callable[[Tensor], Any], doc: str) -> None:
    def function(
        input: Tensor,
        dim: int | None = None,
        *,
        keepdim: object = False,
        dtype: dtype | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        input = _converted(input, dtype, False)
        # PyTorch returns positions in the input's type.
        return getattr(Tensor, name)(_filled(input, mask, fill(input)), dim, bool(keepdim)).to(input.dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    operation("composite", namespace="masked", method=False)(function)


_position("argmax", _smallest, "The position of the largest that the mask shows.")
_position("argmin", _largest, "The position of the smallest that the mask shows.")


@operation("composite", namespace="masked", method=False)
def cumsum(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Running sums of what the mask shows."""
    return plain_cumsum(_filled(_converted(input, dtype, True), mask, 0), dim)


@operation("composite", namespace="masked", method=False)
def cumprod(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Running products of what the mask shows."""
    return plain_cumprod(_filled(_converted(input, dtype, True), mask, 1), dim)


@operation("composite", namespace="masked", method=False)
def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The lower median of what the mask shows; NaN where it shows nothing.

    Raises:
        ValueError: integers where a mask is given.
    """
    input = _converted(input, dtype, False)
    if input.dtype.category != 2:
        raise ValueError(f"input must be floating-point, got {input.dtype!r}")
    if input.ndim == 0:
        return _filled(input, mask, math.nan)
    shown = _filled(input, mask, math.nan)
    if mask is None:
        return input.median(dim, bool(keepdim))[0]
    return nanmedian(shown, dim, bool(keepdim))[0]


@operation("composite", namespace="masked", method=False)
def norm(
    input: Tensor,
    ord: float = 2.0,
    dim: Any = None,
    *,
    keepdim: object = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The vector norm over dimensions of what the mask shows."""
    input = _converted(input, dtype, False)
    if ord is None:
        raise TypeError("norm(): argument 'ord' (position 2) must be Number, not NoneType")
    order = float(ord)
    fill = math.inf if order < 0 else 0
    return vector_norm(_filled(input, mask, fill), order, _dims(input, dim), bool(keepdim))


def _correction(unbiased: bool | None, correction: Any) -> float:
    if unbiased is not None and correction is not None:
        raise ValueError("Only one of unbiased and correction may be given")
    return float(correction) if correction is not None else float(unbiased is None or bool(unbiased))


def _variance(input: Tensor, dim: Any, correction: float, keepdim: bool, dtype: Any, mask: Any, root: bool) -> Tensor:
    input = _converted(input, dtype, False)
    source = input.float() if input.dtype.category < 2 or is_half(input) else input
    dims = _dims(source, dim)
    count = _mask(source, mask).sum(dims, True)
    center = _filled(source, mask, 0).sum(dims, True) / count
    distance = source - center
    square = distance * distance.conj() if distance.dtype.is_complex else distance.square()
    square = _filled(square, mask, 0).sum(dims, keepdim)
    divisor = _mask(source, mask).sum(dims, keepdim)
    divisor = (divisor - correction).clamp(min=0)
    result = square / divisor
    return (result.sqrt() if root else result).to(input.dtype if is_half(input) else source.dtype)


@operation("composite", namespace="masked", method=False)
def var(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, *, correction: Any = None, keepdim: object = False,
    dtype: dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The variance over dimensions of what the mask shows."""
    return _variance(input, dim, _correction(unbiased, correction), bool(keepdim), dtype, mask, False)


@operation("composite", namespace="masked", method=False)
def std(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, *, correction: Any = None, keepdim: object = False,
    dtype: dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The standard deviation over dimensions of what the mask shows."""
    return _variance(input, dim, _correction(unbiased, correction), bool(keepdim), dtype, mask, True)


@operation("composite", namespace="masked", method=False)
def softmax(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Softmax over what the mask shows; zero elsewhere."""
    return plain_softmax(_filled(_converted(input, dtype, False), mask, -math.inf), dim)


@operation("composite", namespace="masked", method=False)
def log_softmax(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Logarithms of the softmax over what the mask shows."""
    return plain_log_softmax(_filled(_converted(input, dtype, False), mask, -math.inf), dim)


@operation("composite", namespace="masked", method=False)
def softmin(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Softmax of the negative over what the mask shows; zero elsewhere."""
    return plain_softmax(-_filled(_converted(input, dtype, False), mask, math.inf), dim)


@operation("composite", namespace="masked", method=False)
def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """What the mask shows divided by its norm along a dimension; zero elsewhere."""
    input = _converted(input, dtype, False)
    source = wide(input)
    size = norm(source, ord, dim, keepdim=True, mask=mask)
    return (_filled(source, mask, 0) / size.clamp(min=eps)).to(input.dtype)
