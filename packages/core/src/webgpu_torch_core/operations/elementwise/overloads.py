"""Arithmetic that chooses between element-wise operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...dispatch.titles import by_value, retitled
from ...dispatch.type_rules import involves_complex
from ...ir.dtypes import bool_, complex128, float16, float32, float64
from ...ir.host_bytes import check_number, real_number
from ...replay.recipes import remembered
from ...tensors.tensor import Tensor
from .. import elementwise as e
from ..common import (
    attach,
    check_apart,
    is_half,
    laid_out,
    needs_gradient,
    refuse_types,
    require_tensor,
    result_layout,
    row_major,
    type_title,
)
from ..creation.factories import filled, number_of
from ..in_place.writing import make_in_place, refuse_gradient, warn_of_repeats, without_repeats
from ..outputs import FOUND, finish_out
from .choosing import where
from .promotion import result_type

if TYPE_CHECKING:
    from ...tensors.type_aliases import Number

    _Limit = Tensor | Number | None


@operation("elementwise", aliases=("divide",))
def div(
    input: Tensor | Number, other: Tensor | Number, *, rounding_mode: str | None = None, out: Tensor | None = None
) -> Tensor:
    """``input / other``; ``rounding_mode`` 'floor' or 'trunc' rounds the quotient."""
    if rounding_mode is None:
        return finish_out(e.true_divide_(input, other), out, (input, other))
    if rounding_mode == "floor":
        return finish_out(e.divide_floor(input, other), out, (input, other))
    if rounding_mode == "trunc":
        if (is_half(input) or is_half(other)) and isinstance(other, Tensor) and other.ndim:
            # The quotient rounds to its own type first, as PyTorch's does where the divisor is not one number.
            return finish_out(e.true_divide_(input, other).trunc(), out, (input, other))
        return finish_out(e.divide_trunc(input, other), out, (input, other))
    raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'")


@operation("elementwise")
def true_divide(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """``input / other``."""
    return finish_out(e.true_divide_(input, other), out, (input, other))


@operation("elementwise")
def positive(input: Tensor) -> Tensor:
    """``+input``: the tensor itself.

    Raises:
        RuntimeError: a boolean tensor.
    """
    if input.dtype.category == 0:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@operation("elementwise")
def rsub(input: Tensor, other: Tensor | Number, alpha: Number = 1) -> Tensor:
    """``other - alpha * input``."""
    if not isinstance(input, Tensor):
        raise TypeError(
            f"rsub() received an invalid combination of arguments - got ({type(input).__name__}, {type(other).__name__})"
        )
    return retitled(e.sub(other, input, alpha=alpha), f"RsubBackward{int(not isinstance(other, Tensor))}")


def _cube_of_halves(input: Tensor) -> Tensor:
    """Return ``input ** 3`` of halves, of float16 rounded once and of bfloat16 by every product, as PyTorch rounds it."""
    wide = input.to(float32) if input.dtype is float16 else input
    return (e.square(wide) * wide).to(input.dtype)


_SIMPLE_POWERS = {
    0.5: lambda x: e.sqrt(x), 1.0: lambda x: x.clone(), 2.0: lambda x: e.square(x), 3.0: lambda x: _cube_of_halves(x),
    -1.0: lambda x: e.reciprocal(x), -0.5: lambda x: e.rsqrt(x), -2.0: lambda x: e.reciprocal(e.square(x)),
}  # fmt: skip
#: exponents of two beyond these take every number of a type to zero or infinity; a third of one is an exponent itself
_EXPONENTS = {float32: 378.0, float64: 2100.0}


def _simple_power(simple: Callable[[Tensor], Tensor], input: Tensor, exponent: float) -> Tensor:
    """Return a power by a shorter way; its gradient is the power's, which needs the input and not the result."""
    if exponent == 3 and not is_half(input):
        return e.cube(input)
    if exponent == 2 or not needs_gradient(input):
        return simple(input)
    saved = input._save()
    slope = lambda grad: grad * (pow(saved.unpack(), exponent - 1) * exponent)  # noqa: E731
    return attach(simple(input.detach()), "PowBackward0", (input,), slope)


@operation("elementwise")
def pow(input: Tensor, exponent: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """``input ** exponent``.

    Raises:
        RuntimeError: an integer to a negative integer power.
        NotImplementedError: a truth value to powers that are truth values.
    """
    if not isinstance(input, Tensor) and isinstance(exponent, Tensor):
        if isinstance(input, bool):
            refuse_types("pow", exponent, 0)
        # Powers of a number are row-major.
        exponent = exponent.contiguous()
    if isinstance(exponent, int | float) and isinstance(input, Tensor) and not isinstance(exponent, bool):
        kind = result_type(input, exponent)
        if kind.category < 2 and exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        if kind.category == 1 or is_half(input):
            check_number(exponent, kind)
        simple = _SIMPLE_POWERS.get(float(exponent))
        if simple is not None and input.dtype.category == 2 and kind is input.dtype:
            return finish_out(_simple_power(simple, input, exponent), out, (input,))
        if exponent == 0:
            shape, given = input._layout.shape, input.dtype
            ones = laid_out(filled(shape, 1, kind, input.device), result_layout((input,), shape))
            if needs_gradient(input):
                # One whatever the input, NaN included.
                ones = attach(ones, "PowBackward0", (input,), lambda grad: grad.new_zeros(shape, dtype=given))
            return finish_out(ones, out)
    return finish_out(e.power_(input, exponent), out, (input, exponent))


def _times_power_of_two(input: Tensor, other: Tensor) -> Tensor:
    """Return ``input * 2**other``, its power rounded to ``other``'s own type but for integers, of which nothing is rounded."""
    if input.dtype.category == 2 and other.dtype.category < 2:
        refuse_types("ldexp_cpu_exp", other, 0)
        kind = result_type(input, other)
        wide = float32 if is_half(input) else input.dtype
        return e.times_power_of_two_(input.to(wide), other.to(wide), limit=_EXPONENTS[wide]).to(kind)
    # A power of a number is row-major; that of a tensor without dimensions lies as the exponents do.
    plain = input.dtype.category < 2 or input.dtype is float32
    two = 2.0 if plain else filled((), 2.0, input.dtype, input.device)
    return e.mul(input, pow(two, other))


@operation("elementwise")
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input * 2**other``.

    Raises:
        NotImplementedError: a floating-point number and exponents that are truth values.
    """
    require_tensor("ldexp", "input", 1, input)
    require_tensor("ldexp", "other", 2, other)
    kind = result_type(input, other)
    if kind.category == 3:
        return finish_out(_times_power_of_two(input, other), out, (input,))
    result = _times_power_of_two(input.detach(), other.detach())
    if needs_gradient(input, other):
        base, exponent = (each.to(result.dtype).expand(result.shape) for each in (input, other))
        saved = other._save() if needs_gradient(base) else None
        kept = result._save_result() if needs_gradient(exponent) else None

        def run_backward(grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
            first = None if saved is None else ldexp(grad, saved.unpack())
            return first, None if kept is None else grad * kept.unpack() * math.log(2.0)

        attach(result, "LdexpBackward0", (base, exponent), run_backward)
    return finish_out(result, out, (input,))


@operation("elementwise")
def float_power(input: Tensor, exponent: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """``input ** exponent`` in float64, of complex numbers in complex128."""
    kind, number = (complex128, complex) if involves_complex((input, exponent)) else (float64, float)
    base = input.to(kind) if isinstance(input, Tensor) else number(input)
    power = exponent.to(kind) if isinstance(exponent, Tensor) else number(exponent)
    return finish_out(pow(base, power), out, exact=True)


def _both_alike(low: _Limit, high: _Limit) -> tuple[_Limit, _Limit]:
    """Return limits that are two tensors or two numbers; beside a number, a tensor without dimensions is one."""
    if low is None or high is None or isinstance(low, Tensor) == isinstance(high, Tensor):
        return low, high
    low = low.item() if isinstance(low, Tensor) and not low.ndim else low
    high = high.item() if isinstance(high, Tensor) and not high.ndim else high
    if isinstance(low, Tensor) != isinstance(high, Tensor):
        raise TypeError("clamp(): 'min' and 'max' must both be tensors or both be numbers")
    return low, high


def _overload(result: Tensor, name: str, value: object) -> Tensor:
    """Return a result whose node is called as that of the overload for a tensor, or else for a number."""
    return retitled(result, f"{name}Backward{int(isinstance(value, Tensor))}")


def _check_limits(input: Tensor, *limits: _Limit) -> None:
    """Refuse a number that the result's type cannot hold."""
    numbers = [each for each in limits if isinstance(each, int | float)]
    if numbers:
        kind = result_type(input, *(each for each in limits if each is not None))
        for each in numbers:
            check_number(each, kind)


@operation("elementwise", aliases=("clip",))
def clamp(
    input: Tensor, min: Tensor | Number | None = None, max: Tensor | Number | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The elements limited to ``[min, max]``; NaN stays."""
    require_tensor("clamp", "input", 1, input)
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    min, max = _both_alike(min, max)
    if input.dtype.is_complex:
        raise NotImplementedError("clamp is not supported for complex types")
    _check_limits(input, min, max)
    if max is None:
        return finish_out(e.clamp_low(input, min), out, (input, min))
    if min is None:
        return finish_out(e.clamp_high(input, max), out, (input, max))
    return finish_out(e.clamp_both(input, min, max), out, (input, min, max))


@operation("elementwise")
def clamp_min(input: Tensor, min: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """``max(input, min)``."""
    require_tensor("clamp_min", "input", 1, input)
    _check_limits(input, min)
    return finish_out(_overload(e.clamp_low(input, min), "ClampMin", min), out, (input, min))


@operation("elementwise")
def clamp_max(input: Tensor, max: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """``min(input, max)``."""
    require_tensor("clamp_max", "input", 1, input)
    _check_limits(input, max)
    return finish_out(_overload(e.clamp_high(input, max), "ClampMax", max), out, (input, max))


@operation("elementwise")
def round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Tensor:
    """The nearest integer (or multiple of ``10**-decimals``), ties to even."""
    if decimals == 0:
        return finish_out(e.round_(input), out, (input,), exact=True, refusal=FOUND)
    return finish_out(e.round_decimals_(input, scale=10.0**decimals), out, (input,), exact=True, refusal=FOUND)


def _c_name(tensor: Tensor) -> str:
    return {"float64": "double", "float32": "float", "float16": "c10::Half", "bfloat16": "c10::BFloat16"}.get(
        tensor.dtype.name, tensor.dtype.name
    )


@operation("elementwise")
def lerp(input: Tensor, end: Tensor, weight: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """``input + weight * (end - input)``.

    Raises:
        RuntimeError: ``end`` or a weight with dimensions of another type than the input, or a complex number for real ones.
        NotImplementedError: integers, but where the weight is a floating-point or complex tensor without dimensions.
    """
    require_tensor("lerp", "input", 1, input)
    require_tensor("lerp", "end", 2, end)
    for name, each in (("end", end), ("weight", weight)):
        if isinstance(each, Tensor) and each.dtype is not input.dtype and (name == "end" or each.ndim):
            raise RuntimeError(f"expected dtype {_c_name(input)} for `{name}` but got dtype {_c_name(each)}")
    if isinstance(weight, complex) and not input.dtype.is_complex:
        raise RuntimeError("value cannot be converted to type float without overflow")
    if input.dtype.category < 2 and isinstance(weight, Tensor) and weight.dtype.category >= 2:
        kind = result_type(input, weight)
        input, end = input.to(kind), end.to(kind)
    if input.dtype.category < 2:
        form = "tensor" if isinstance(weight, Tensor) else "scalar"
        raise NotImplementedError(f"\"lerp_kernel_{form}\" not implemented for '{type_title(input)}'")
    operands = (input, end, weight)
    return finish_out(e.lerp_tensor_(*operands), out, operands, exact=isinstance(weight, Tensor))


@operation("elementwise", aliases=("special_logit",))
def logit(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """``log(input / (1 - input))``, the input limited to ``[eps, 1 - eps]`` where ``eps`` is given and not negative."""
    if eps is None or eps < 0.0:
        return finish_out(e.logit_(input), out, (input,))
    return finish_out(e.limited_logit_(input, low=eps, high=1.0 - eps), out, (input,))


@operation("elementwise", title=by_value("MaskedFill", 2))
@remembered
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """``value`` where the mask holds, else ``input``."""
    require_tensor("masked_fill", "input", 1, input)
    if mask.dtype.category:
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype.word}")
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    if isinstance(value, Tensor) and value.dtype.is_complex and not input.dtype.is_complex:
        value = real_number(value.item(), input.dtype)
    filled = value if isinstance(value, Tensor) else number_of(input, value)
    filled = filled.to(dtype=input.dtype, device=input.device)
    return row_major(e.select_(filled, row_major(input), row_major(mask)))


@operation("elementwise", method=False)
def fill(input: Tensor, value: Tensor | Number) -> Tensor:
    """A tensor of the input's shape and type whose elements are all ``value``, a number or a 0-d tensor.

    Raises:
        RuntimeError: ``value`` is a tensor with dimensions.
    """
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(f"fill only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    given = value
    if not isinstance(value, Tensor) and input.numel() == 1:
        value = filled((), value, input.dtype, input.device)
    return _overload(masked_fill(input, input.new_ones((), dtype=bool_), value), "Fill", given)


@operation("elementwise")
def isclose(
    input: Tensor, other: Tensor, rtol: Number = 1e-05, atol: Number = 1e-08, equal_nan: bool = False
) -> Tensor:
    """``|input - other| <= atol + rtol * |other|``.

    Raises:
        RuntimeError: a negative tolerance, or different element types.
    """
    require_tensor("isclose", "input", 1, input)
    require_tensor("isclose", "other", 2, other)
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value}")
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{input.dtype!r} did not match {other.dtype!r}")
    close = input == other
    if input.dtype.category == 0:
        return close
    if equal_nan and input.dtype.category >= 2:
        close = close | ((input != input) & (other != other))
    if not rtol and not atol:
        return close
    if input.dtype.category >= 2:
        near = e.le(e.abs(input - other), atol + rtol * e.abs(other)) & e.isfinite(input - other)
        close = close | (near & e.isfinite(other))
    else:
        close = close | e.le(e.abs(input - other), atol + rtol * e.abs(other))
    return close


@operation("composite")
def allclose(input: Tensor, other: Tensor, rtol: Number = 1e-05, atol: Number = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close, as a Python bool."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all().item())


@operation("composite")
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shapes and all elements are the same, as a Python bool."""
    return input._layout.shape == other._layout.shape and bool(_equals(input, other).item())


@remembered
def _equals(input: Tensor, other: Tensor) -> Tensor:
    return (input == other).all()


@operation("composite")
@remembered
def nan_to_num(
    input: Tensor,
    nan: Number | None = 0.0,
    posinf: Number | None = None,
    neginf: Number | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """NaN and infinities replaced by numbers, in each part of complex ones."""
    if input.dtype.category < 2 or not input.numel():
        return finish_out(input.clone(), out, exact=True)
    high = input.dtype.maximum if posinf is None else posinf
    low = input.dtype.minimum if neginf is None else neginf
    nan = 0.0 if nan is None else nan
    plain = input.detach()
    result = where(e.isnan(plain), nan, plain)
    result = where(e.eq(plain, math.inf), high, result)
    result = where(e.eq(plain, -math.inf), low, result)
    if needs_gradient(input):
        saved = input._save()
        # A product, as PyTorch's, so that NaN passes everywhere.
        slope = lambda grad: grad * e.isfinite(saved.unpack()).to(grad.dtype)  # noqa: E731
        result = attach(result, "NanToNumBackward0", (input,), slope)
    return finish_out(result, out, (input,), exact=True)


for _name in (
    "div",
    "true_divide",
    "pow",
    "clamp",
    "clamp_min",
    "clamp_max",
    "round",
    "lerp",
    "logit",
    "nan_to_num",
    "ldexp",
):
    setattr(Tensor, f"{_name}_", make_in_place(globals()[_name], f"{_name}_", globals()[_name]))


_fill_where = make_in_place(masked_fill, "masked_fill_", apart=None)


def _masked_fill_in_place(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    """In-place version of :func:`masked_fill`; what an expanded tensor shows several times is filled where the mask holds for any."""
    shown = without_repeats(self)
    if shown is not self and mask.dtype is bool_:
        masked_fill(self.to("meta"), mask.to("meta"), value)
        warn_of_repeats("masked_fill_")
        repeated = tuple(each for each in range(self.ndim) if shown.shape[each] != self.shape[each])
        mask = mask.expand(self.shape).any(repeated, True)
    check_apart(shown, mask, but_same=True)
    _fill_where(shown, mask, value)
    refuse_gradient(self, shown)
    return self


Tensor.masked_fill_ = _masked_fill_in_place  # type: ignore[attr-defined]


def _float_power_in_place(self: Tensor, exponent: Tensor | Number) -> Tensor:
    """In-place version of :func:`float_power`: for float64 (and complex numbers) only.

    Raises:
        RuntimeError: another type, which cannot hold the result.
    """
    if not self.dtype.is_complex and self.dtype.name != "float64":
        raise RuntimeError(
            f"the base given to float_power_ has dtype {type_title(self)} but the operation's result requires dtype Double"
        )
    return make_in_place(float_power, "float_power_")(self, exponent)


Tensor.float_power_ = _float_power_in_place  # type: ignore[attr-defined]
Tensor.divide_ = Tensor.div_  # type: ignore[attr-defined]
Tensor.clip_ = Tensor.clamp_  # type: ignore[attr-defined]
