"""Variances, standard deviations and vector norms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ...dispatch.registry import operation
from ...dispatch.type_rules import with_type_rule
from ...ir.dtypes import complex64, dtype, float32, float64, promote_types
from ...ir.dtypes import dtype as dtype_class
from ...ir.layouts import wrap_dimension
from ...notices import warn
from ...record.devices import has_float64
from ...replay.recipes import remembered
from ...tensors.tensor import Tensor
from ..common import as_dimensions, attach, dtype_title, needs_gradient, type_title
from ..elementwise import sqrt
from ..elementwise.choosing import where
from ..outputs import into as _into
from .reductions import amax, amin, count_of, mean, restore, sum

if TYPE_CHECKING:
    from ...tensors.type_aliases import Dimensions, Number


class _Spread(NamedTuple):
    """A call's tensor, dimensions and options, and the mean and variance over them, which have no gradient yet."""

    input: Tensor
    dims: tuple[int, ...]
    #: over all dimensions, by default
    whole: bool
    keepdim: bool
    size: int
    correction: float
    center: Tensor
    variance: Tensor

    @property
    def bare(self) -> _Spread:
        """What gradients need of the call beside the input, which is saved for them."""
        return self._replace(input=None, center=None, variance=None)

    def with_gradient(self, result: Tensor, title: str, slope: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Return a result; ``slope`` gives the input's gradient from the result's and the input."""
        if not needs_gradient(self.input):
            return result
        saved = self.input._save()
        return attach(result, title, (self.input,), lambda grad: slope(grad, saved.unpack()))

    def variance_gradient(self, grad: Tensor, input: Tensor) -> Tensor:
        """Return the gradient of ``input`` from that of its variance, as PyTorch's ``var_backward`` multiplies it."""
        offset, divisor = input - mean(input, self.dims, True), self.size - self.correction
        if (self.whole or not input.ndim) and divisor <= 0:
            full = restore(grad, input._layout.shape, self.dims, self.keepdim)
            return (full * full.new_full((), math.inf).where(offset != 0, math.nan)).to(input.dtype)
        scaled = grad * (2.0 / divisor if divisor else math.inf)
        return restore(scaled, input._layout.shape, self.dims, self.keepdim) * offset

    def center_gradient(self, grad: Tensor, input: Tensor) -> Tensor:
        """Return the gradient of ``input`` from that of its mean."""
        return restore(grad, input._layout.shape, self.dims, self.keepdim) / float(self.size)

    def with_variance(self) -> Tensor:
        return self.with_gradient(
            self.variance.to(self.input.dtype.to_real()), "VarBackward0", self.bare.variance_gradient
        )

    def with_deviation(self) -> Tensor:
        """Return the standard deviation: where it is zero it has no gradient, rather than an infinite one."""
        result = sqrt(self.variance).to(self.input.dtype.to_real())
        kept = result._save_result() if needs_gradient(self.input) else None

        bare = self.bare

        def slope(grad: Tensor, input: Tensor) -> Tensor:
            size: Tensor = kept.unpack()  # type: ignore[union-attr]
            return bare.variance_gradient((grad / (size * 2)).masked_fill(size == 0, 0), input)

        return self.with_gradient(result, "StdBackward0", slope)

    def into(self, result: Tensor, out: Tensor | None) -> Tensor:
        """Return the result, written into ``out`` if that is given: of real rows none is complex, as in PyTorch."""
        if (
            out is not None
            and out.dtype.is_complex
            and len(self.dims) < self.input.ndim
            and result.dtype is self.input.dtype
        ):
            raise NotImplementedError(f"\"std_cpu\" not implemented for '{type_title(out)}'")
        return _into(result, out)

    def with_center(self) -> Tensor:
        return self.with_gradient(self.center.to(self.input.dtype), "MeanBackward1", self.bare.center_gradient)


def _widened(input: Tensor) -> Tensor:
    """Return the elements in the type in which they and their squares are added: float64 where there is one, as in PyTorch."""
    if input.dtype.is_complex:
        return input.detach() if input.dtype.itemsize > 4 else input.detach().to(complex64)
    return input.detach().to(float64 if has_float64(input.device) else float32)


def _spread(name: str, input: Tensor, dim: Any, unbiased: Any, correction: Any, keepdim: bool) -> _Spread:
    """Return variance and mean in at least float32."""
    dim, correction = _correction(dim, unbiased, correction)
    if input.dtype.category < 2:
        raise RuntimeError("std and var only support floating point and complex dtypes")
    dims = as_dimensions(dim, input.ndim)
    count = count_of(input, dims)
    if count <= correction:
        warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input numel divided "
            "by output numel)."
        )
    variance = _variance(input.detach(), dims, keepdim, float(count - correction))
    return _Spread(input, dims, dim is None, keepdim, count, correction, mean(_widened(input), dims, keepdim), variance)


@with_type_rule("variance")
def _variance(input: Tensor, dims: tuple[int, ...], keepdim: bool, divisor: float) -> Tensor:
    """Return the sum of squared deviations over a divisor: infinite or NaN of no more elements than are taken off."""
    first = wide = _widened(input)
    for each in dims if count_of(input, dims) else ():
        first = first.narrow(each, 0, 1)
    # From the first element on: rounding leaves no deviation among equal elements.
    offset = wide - first
    deviation = offset - mean(offset, dims, True)
    total = sum(deviation * deviation, dims, keepdim)
    if divisor > 0:
        return total / divisor
    return total / total.new_zeros(()) if deviation.numel() else total + math.nan


def _correction(dim: Any, unbiased: Any, correction: Any) -> tuple[Any, float]:
    # torch.var(x, False) passes `unbiased` where `dim` stands.
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError(f"unbiased={unbiased} and correction={correction!r:.80} exclude each other: give one")
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return dim, correction


@operation("composite", title="VarBackward0")
@remembered
def var(
    input: Tensor,
    dim: Dimensions | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """The variance over dimensions, with Bessel's correction by default."""
    spread = _spread("var", input, dim, unbiased, correction, keepdim)
    return spread.into(spread.with_variance(), out)


@operation("composite", title="StdBackward0")
@remembered
def std(
    input: Tensor,
    dim: Dimensions | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """The standard deviation over dimensions, with Bessel's correction by default."""
    spread = _spread("std", input, dim, unbiased, correction, keepdim)
    return spread.into(spread.with_deviation(), out)


@operation("composite", title="VarMeanBackward0")
@remembered
def var_mean(
    input: Tensor,
    dim: Dimensions | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> tuple[Tensor, Tensor]:
    """Variance and mean over dimensions."""
    spread = _spread("var_mean", input, dim, unbiased, correction, keepdim)
    return spread.with_variance(), spread.with_center()


@operation("composite", title="StdMeanBackward0")
@remembered
def std_mean(
    input: Tensor,
    dim: Dimensions | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean over dimensions."""
    spread = _spread("std_mean", input, dim, unbiased, correction, keepdim)
    return spread.with_deviation(), spread.with_center()


@operation("composite")
@remembered
def norm(
    input: Tensor,
    p: Any = "fro",
    dim: Dimensions = None,
    keepdim: bool = False,
    out: Tensor | dtype | None = None,
    dtype: dtype | None = None,
) -> Tensor:
    """The vector norm over dimensions: 2-norm by default, ``p`` any real number or infinity."""
    if isinstance(out, dtype_class):
        # The method has the type in this place.
        out, dtype = None, out
    if p == "fro" and isinstance(dim, tuple | list) and len(dim) > 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dim))}")
    if p == "nuc" and dim is None and input.ndim != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, range(input.ndim)))}")
    order = 2.0 if p in ("fro", None) else p
    if order == "nuc":
        # A circle: that module imports this one.
        from ..linalg.norms import matrix_norm

        return matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim, dtype=dtype, out=out)
    if isinstance(order, str):
        raise RuntimeError(f"norm(): unsupported order '{p}'; use 'fro', 'nuc' or a number")
    return _into(vector_norm(input, float(order), dim, keepdim, dtype=dtype), out, True)


def check_norm(x: Tensor, ord: float, dim: Dimensions, kind: dtype_class | None) -> None:
    """Raise where a vector norm cannot be computed, or not in a type."""
    name = "linalg.vector_norm"
    if x.dtype.category < 2:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {dtype_title(x.dtype)}")
    if not x.numel() and (ord < 0 or ord == math.inf):
        why, shown = "operation does not have an identity", f"{ord:g}"
        if dim is None or dim in ((), []):
            raise RuntimeError(f"{name} cannot compute the {shown} norm on an empty tensor because the {why}")
        for each in (dim,) if isinstance(dim, int) else dim:
            if not x.shape[wrap_dimension(each, x.ndim)]:
                raise RuntimeError(
                    f"{name} cannot compute the {shown} norm on the dimension {each}because this dimension is empty and the {why}"
                )
    if kind is None:
        return
    if kind.category < 2:
        raise RuntimeError(f"{name}: dtype should be floating point or complex, but got {dtype_title(kind)}")
    if kind.is_complex is not x.dtype.is_complex:
        what = "complex" if x.dtype.is_complex else "real"
        raise RuntimeError(f"{name}: dtype should be {what} for {what} inputs, but got {dtype_title(kind)}")
    if promote_types(x.dtype, kind) is not kind:
        raise RuntimeError(
            f"{name}: the dtype of the input ({dtype_title(x.dtype)}) should be convertible without narrowing to the specified dtype "
            f"({dtype_title(kind)})"
        )


@operation("composite", namespace="linalg", method=False)
@remembered
def vector_norm(
    x: Tensor,
    ord: Number = 2,
    dim: Dimensions = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The vector norm ``sum(|x|**ord)**(1/ord)`` over dimensions.

    Raises:
        RuntimeError: integers, a type that would lose precision, or a negative or infinite order of no elements.
    """
    check_norm(x, ord, dim, dtype)
    input = x.to(dtype) if dtype is not None else x
    dims = as_dimensions(dim, input.ndim)
    if math.isinf(ord):
        result = _extreme_norm(input, ord, dims, keepdim)
    elif ord == 0:
        # Counting has the gradient zero; PyTorch returns zeros rather than none.
        shape = input._layout.shape
        result = sum((input.detach() != 0).to(input.dtype.to_real()), dims, keepdim)
        attach(result, "LinalgVectorNormBackward0", (input,), lambda grad: grad.new_zeros(shape))
    elif ord == 1:
        result = sum(input.abs(), dims, keepdim)
    elif ord == 2:
        result = _two_norm(input, dims, keepdim)
    else:
        # Powers of 16-bit numbers overflow: the norm is computed in float32.
        wide = input.to(float32) if input.dtype.itemsize < 4 else input
        result = _power_norm(wide, float(ord), dims, keepdim).to(input.dtype.to_real())
    return _into(result, out, True)


def _extreme_norm(input: Tensor, ord: float, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """The largest or smallest magnitude; those that are equal to it share its gradient, and so do NaN, whose sign is 0."""
    result = (amax if ord > 0 else amin)(input.detach().abs(), dims, keepdim)
    if needs_gradient(input):
        shape, saved, kept = input._layout.shape, input._save(), result._save_result()

        def run_backward(grad: Tensor) -> Tensor:
            given = saved.unpack()
            size = given.detach().abs()
            chosen = (size == restore(kept.unpack().detach(), shape, dims, keepdim)).logical_or(size != size)
            share = restore(grad, shape, dims, keepdim) / sum(chosen, dims, True)
            return given.detach().sgn() * (share * chosen)

        attach(result, "LinalgVectorNormBackward0", (input,), run_backward)
    return result


def _power_norm(input: Tensor, ord: float, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """``sum(|x|**ord)**(1/ord)``, whose gradient is PyTorch's where the formula has none, too."""
    size = input.detach().abs()
    one = count_of(input, dims) == 1
    # That of one element is its size, which its power may have lost.
    result = amax(size, dims, keepdim) if one else sum(size**ord, dims, keepdim) ** (1.0 / ord)
    if needs_gradient(input):
        shape, saved, kept = input._layout.shape, input._save(), result._save_result()

        def run_backward(grad: Tensor) -> Tensor:
            given = saved.unpack()
            size, total, share = given.abs(), *(restore(each, shape, dims, keepdim) for each in (kept.unpack(), grad))
            if ord < 1:
                return given.sgn() * size.pow(ord - 1).masked_fill(given == 0, 0.0) * share * total.pow(1 - ord)
            scale = (share / total.pow(ord - 1)).masked_fill(total == 0, 0.0)
            return (given.sgn() * size.pow(ord - 1) if ord < 2 else given * size.pow(ord - 2)) * scale

        attach(result, "LinalgVectorNormBackward0", (input,), run_backward)
    return result


def _two_norm(input: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """The Euclidean norm, whose gradient at zero is zero."""
    wide = input.detach()
    wide = wide if wide.dtype in (float32, float64) else wide.to(float32)
    one = count_of(input, dims) == 1
    # That of one element is its size, which its square may have lost.
    found = amax(wide.abs(), dims, keepdim) if one else sum(wide * wide, dims, keepdim).sqrt()
    result = found.to(input.dtype)
    if needs_gradient(input):
        shape, saved, kept = input._layout.shape, input._save(), result._save_result()

        def run_backward(grad: Tensor) -> Any:
            input = saved.unpack()
            size = sum(input * input, dims, keepdim).sqrt() if needs_gradient(input) else kept.unpack()
            # What is spread over the input has no order in memory of its own: the gradient has the input's.
            wide, zero, seed = (restore(each, shape, dims, keepdim) for each in (size, size == 0, grad))
            return seed * where(zero, 0.0, input / wide)

        attach(result, "LinalgVectorNormBackward0", (input,), run_backward)
    return result
