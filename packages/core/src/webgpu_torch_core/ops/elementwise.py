"""Element-wise operations: each one definition; gradients derived from it unless a better one is declared."""

from __future__ import annotations

import math

from ..dtypes import bool_, int32, int64
from ..expression import Expression
from ..scalar import (
    absolute,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    cast,
    ceil,
    copysign,
    cos,
    cosh,
    digamma,
    equal,
    erf,
    erfc,
    erfinv,
    exp,
    exp2,
    expm1,
    floor,
    floor_divide,
    fmod,
    hypot,
    is_infinite,
    is_nan,
    less,
    less_equal,
    lgamma,
    log,
    log1p,
    log2,
    log10,
    maximum,
    minimum,
    next_after,
    not_equal,
    power,
    reciprocal_sqrt,
    remainder,
    round_half_even,
    shift_left,
    shift_right,
    sign,
    sign_bit,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    truncate,
    where,
)
from ..scalar import truncate_divide as scalar_truncate_divide
from .elementwise_call import elementwise

DEGREE = math.pi / 180.0
LOG2 = math.log(2.0)

# Definitions are named after the functions they become; the scalar functions they call keep names of their own.
_absolute, _acos, _asin, _atan, _atan2 = absolute, acos, asin, atan, atan2
_acosh, _asinh, _atanh, _cos, _cosh, _sin, _sinh = acosh, asinh, atanh, cos, cosh, sin, sinh
_tan, _tanh, _exp, _exp2, _expm1 = tan, tanh, exp, exp2, expm1
_log, _log2, _log10, _log1p, _sqrt = log, log2, log10, log1p, sqrt
_ceil, _floor, _floor_divide, _fmod, _remainder = ceil, floor, floor_divide, fmod, remainder
_copysign, _digamma, _erf, _erfc, _erfinv, _lgamma = copysign, digamma, erf, erfc, erfinv, lgamma
_hypot, _maximum, _minimum, _sign = hypot, maximum, minimum, sign
_bitwise_and, _bitwise_not, _bitwise_or, _bitwise_xor = bitwise_and, bitwise_not, bitwise_or, bitwise_xor
_not_equal, _where, _next_after = not_equal, where, next_after


def _is_integer(x: object) -> bool:
    return x.dtype.category < 2 if isinstance(x, Expression) else isinstance(x, int)


# Arithmetic


@elementwise
def add(input, other, *, alpha=1):
    """``input + alpha * other``."""
    return input + other if alpha.__class__ is int and alpha == 1 else input + other * alpha


@elementwise(aliases=("subtract",))
def sub(input, other, *, alpha=1):
    """``input - alpha * other``."""
    return input - other if alpha.__class__ is int and alpha == 1 else input - other * alpha


@elementwise(aliases=("multiply",))
def mul(input, other):
    """``input * other``."""
    return _bitwise_and(input, other) if isinstance(input, Expression) and input.dtype is bool_ else input * other


@elementwise(promotion="float", method=False, namespace="internal")
def true_divide_(input, other):
    """``input / other``."""
    return input / other


@elementwise(method=False, namespace="internal")
def divide_floor(input, other):
    """``floor(input / other)``."""
    return _floor_divide(input, other)


@elementwise(method=False, namespace="internal")
def divide_trunc(input, other):
    """``trunc(input / other)``."""
    return scalar_truncate_divide(input, other) if _is_integer(input) else truncate(input / other)


@elementwise
def floor_divide(input, other):
    """``floor(input / other)``, in the promoted type."""
    return _floor_divide(input, other)


@elementwise
def remainder(input, other):
    """The remainder of division with the sign of ``other``."""
    return _remainder(input, other)


@elementwise
def fmod(input, other):
    """The remainder of division with the sign of ``input``."""
    return _fmod(input, other)


@elementwise(aliases=("negative",))
def neg(input):
    """``-input``."""
    return -input


@elementwise(aliases=("absolute",))
def abs(input):
    """``|input|``."""
    return _absolute(input)


@elementwise
def square(input):
    """``input ** 2``."""
    return input * input


# A boolean's square counts in int64, as its powers do.
square.operation.result_dtype = lambda operands: int64 if operands[0].dtype is bool_ else operands[0].dtype


@elementwise(promotion="float")
def reciprocal(input):
    """``1 / input``."""
    return 1.0 / input


@reciprocal.backward
def _(grad, input):
    return -grad / (input * input)


@elementwise(method=False, namespace="internal")
def power_(input, exponent):
    """``input ** exponent``."""
    return power(input, exponent)


@elementwise(promotion="float")
def sqrt(input):
    """``sqrt(input)``."""
    return _sqrt(input)


@elementwise(promotion="float", method=False, namespace="internal")
def deviation_(input):
    """The square root of a variance: no variance has no gradient, rather than an infinite one."""
    return _sqrt(input)


@deviation_.backward
def _(grad, input):
    return where(equal(input, 0.0), 0.0, grad * 0.5 * reciprocal_sqrt(input))


@elementwise(promotion="float")
def rsqrt(input):
    """``1 / sqrt(input)``."""
    return reciprocal_sqrt(input)


@elementwise(promotion="float")
def hypot(input, other):
    """``sqrt(input**2 + other**2)`` without overflow."""
    return _hypot(input, other)


@elementwise(method=True)
def lerp_tensor_(input, end, weight):
    """``input + weight * (end - input)``, computed from the nearer end as PyTorch does."""
    difference = end - input
    return where(less(_absolute(weight), 0.5), input + weight * difference, end - difference * (1.0 - weight))


@elementwise(method=True)
def addcmul(input, tensor1, tensor2, *, value=1):
    """``input + value * tensor1 * tensor2``."""
    return input + tensor1 * tensor2 * value


@elementwise(method=True)
def addcdiv(input, tensor1, tensor2, *, value=1):
    """``input + value * tensor1 / tensor2``."""
    return input + tensor1 / tensor2 * value


# Exponentials and logarithms


@elementwise(promotion="float")
def exp(input):
    """``e ** input``."""
    return _exp(input)


@elementwise(promotion="float", aliases=("special_exp2",))
def exp2(input):
    """``2 ** input``."""
    return _exp2(input)


@elementwise(promotion="float")
def expm1(input):
    """``e ** input - 1``, accurate near 0."""
    return _expm1(input)


@elementwise(promotion="float")
def log(input):
    """The natural logarithm."""
    return _log(input)


@elementwise(promotion="float")
def log2(input):
    """The logarithm to base 2."""
    return _log2(input)


@elementwise(promotion="float")
def log10(input):
    """The logarithm to base 10."""
    return _log10(input)


@elementwise(promotion="float")
def log1p(input):
    """``log(1 + input)``, accurate near 0."""
    return _log1p(input)


@elementwise(promotion="float")
def logaddexp(input, other):
    """``log(exp(input) + exp(other))`` without overflow."""
    high, low = _maximum(input, other), _minimum(input, other)
    same = is_infinite(input) & equal(input, other)
    return where(same, input, high + _log1p(_exp(low - high)))


@logaddexp.backward
def _(grad, input, other):
    share = 1.0 / (1.0 + _exp(other - input))
    return grad * share, grad * (1.0 - share)


@elementwise(promotion="float")
def logaddexp2(input, other):
    """``log2(2**input + 2**other)`` without overflow."""
    high, low = _maximum(input, other), _minimum(input, other)
    same = is_infinite(input) & equal(input, other)
    return where(same, input, high + _log1p(_exp2(low - high)) * (1.0 / LOG2))


@logaddexp2.backward
def _(grad, input, other):
    share = 1.0 / (1.0 + _exp2(other - input))
    return grad * share, grad * (1.0 - share)


@elementwise(promotion="float", aliases=("special_xlogy",))
def xlogy(input, other):
    """``input * log(other)``, 0 where input is 0 and other is not NaN."""
    return where(is_nan(other), other, where(equal(input, 0.0), 0.0, input * _log(other)))


@xlogy.backward
def _(grad, input, other):
    zero = equal(input, 0.0) & less_equal(other, 0.0)
    return where(zero, 0.0, grad * _log(other)), grad * input / other


@elementwise(promotion="float")
def sigmoid(input):
    """``1 / (1 + exp(-input))``."""
    return 1.0 / (1.0 + _exp(-input))


@sigmoid.backward
def _(grad, input):
    result = 1.0 / (1.0 + _exp(-input))
    return grad * result * (1.0 - result)


@elementwise(promotion="float")
def logit_(input):
    """``log(input / (1 - input))``."""
    return _log(input / (1.0 - input))


# Trigonometry


@elementwise(promotion="float")
def sin(input):
    """The sine of radians."""
    return _sin(input)


@elementwise(promotion="float")
def cos(input):
    """The cosine of radians."""
    return _cos(input)


@elementwise(promotion="float")
def tan(input):
    """The tangent of radians."""
    return _tan(input)


@elementwise(promotion="float", aliases=("arcsin",))
def asin(input):
    """The inverse sine, in radians."""
    return _asin(input)


@elementwise(promotion="float", aliases=("arccos",))
def acos(input):
    """The inverse cosine, in radians."""
    return _acos(input)


@elementwise(promotion="float", aliases=("arctan",))
def atan(input):
    """The inverse tangent, in radians."""
    return _atan(input)


@elementwise(promotion="float", aliases=("arctan2",))
def atan2(input, other):
    """The angle of the point (other, input), in radians."""
    return _atan2(input, other)


@elementwise(promotion="float")
def sinh(input):
    """The hyperbolic sine."""
    return _sinh(input)


@elementwise(promotion="float")
def cosh(input):
    """The hyperbolic cosine."""
    return _cosh(input)


@elementwise(promotion="float")
def tanh(input):
    """The hyperbolic tangent."""
    return _tanh(input)


@elementwise(promotion="float", aliases=("arcsinh",))
def asinh(input):
    """The inverse hyperbolic sine."""
    return _asinh(input)


@elementwise(promotion="float", aliases=("arccosh",))
def acosh(input):
    """The inverse hyperbolic cosine."""
    return _acosh(input)


@elementwise(promotion="float", aliases=("arctanh",))
def atanh(input):
    """The inverse hyperbolic tangent."""
    return _atanh(input)


@elementwise(promotion="float")
def sinc(input):
    """``sin(pi * input) / (pi * input)``, 1 at 0."""
    angle = input * math.pi
    return where(equal(input, 0.0), 1.0, _sin(angle) / angle)


@sinc.backward
def _(grad, input):
    angle = input * math.pi
    slope = (angle * _cos(angle) - _sin(angle)) / (angle * input)
    return where(equal(input, 0.0), 0.0, grad * slope)


@elementwise(promotion="float")
def deg2rad(input):
    """Degrees in radians."""
    return input * DEGREE


@elementwise(promotion="float")
def rad2deg(input):
    """Radians in degrees."""
    return input * (1.0 / DEGREE)


# Rounding and signs


@elementwise
def ceil(input):
    """The least integer not below."""
    return input if _is_integer(input) else _ceil(input)


@elementwise
def floor(input):
    """The greatest integer not above."""
    return input if _is_integer(input) else _floor(input)


@elementwise(aliases=("fix",))
def trunc(input):
    """The integer part, towards zero."""
    return input if _is_integer(input) else truncate(input)


@elementwise
def frac(input):
    """``input - trunc(input)``."""
    return input - truncate(input)


@frac.backward
def _(grad, input):
    return grad


@elementwise(method=False, namespace="internal")
def round_(input):
    """The nearest integer, ties to even."""
    return input if _is_integer(input) else round_half_even(input)


@elementwise(method=False, namespace="internal")
def round_decimals_(input, *, scale=1.0):
    """The nearest multiple of ``1 / scale``, ties to even."""
    return round_half_even(input * scale) / scale


@elementwise
def sign(input):
    """-1, 0 or 1."""
    return input if isinstance(input, Expression) and input.dtype is bool_ else _sign(input)


@elementwise(promotion="bool", in_place=False)
def signbit(input):
    """Whether the sign bit is set."""
    return less(input, 0) if _is_integer(input) else sign_bit(input)


@elementwise(promotion="float")
def copysign(input, other):
    """The magnitude of input with the sign of other."""
    return _copysign(input, other)


@elementwise(promotion="float")
def nextafter(input, other):
    """The next float after input towards other."""
    return _next_after(input, other)


@nextafter.backward
def _(grad, input, other):
    same = equal(input, other)
    return where(same, 0.0, grad), where(same, grad, 0.0)


# Special functions


@elementwise(promotion="float")
def erf(input):
    """The error function."""
    return _erf(input)


@elementwise(promotion="float")
def erfc(input):
    """``1 - erf(input)``."""
    return _erfc(input)


@elementwise(promotion="float")
def erfinv(input):
    """The inverse of erf."""
    return _erfinv(input)


@elementwise(promotion="float")
def lgamma(input):
    """``log(|gamma(input)|)``."""
    return _lgamma(input)


@elementwise(promotion="float")
def digamma(input):
    """The logarithmic derivative of gamma."""
    return _digamma(input)


@digamma.backward
def _(grad, input):
    return grad * _trigamma(input)


def _trigamma(x):
    """The derivative of digamma (Abramowitz & Stegun 6.4.6, 6.4.7, 6.4.12): recurrence, series, reflection below 0.5."""
    reflected = less(x, 0.5)
    y = where(reflected, 1.0 - x, x)
    total = 0.0
    for shift in range(12):
        total = total + 1.0 / ((y + float(shift)) * (y + float(shift)))
    z = y + 12.0
    inverse = 1.0 / (z * z)
    series = 1 / 6 - inverse * (1 / 30 - inverse * (1 / 42 - inverse * (1 / 30 - inverse * (5 / 66))))
    direct = total + 1.0 / z + inverse * 0.5 + series * inverse / z
    sine = _sin((x - _floor(x)) * math.pi)
    return where(reflected, math.pi * math.pi / (sine * sine) - direct, direct)


for _function in (exp, exp2, expm1, sqrt, rsqrt, reciprocal, sigmoid, tan, tanh):
    _function.operation.saves_result = True


# Comparisons and selection


@elementwise(promotion="bool")
def eq(input, other):
    """``input == other``."""
    return equal(input, other)


@elementwise(promotion="bool", aliases=("not_equal",))
def ne(input, other):
    """``input != other``."""
    return _not_equal(input, other)


@elementwise(promotion="bool", aliases=("less",))
def lt(input, other):
    """``input < other``."""
    return less(input, other)


@elementwise(promotion="bool", aliases=("less_equal",))
def le(input, other):
    """``input <= other``."""
    return less_equal(input, other)


@elementwise(promotion="bool", aliases=("greater",))
def gt(input, other):
    """``input > other``."""
    return less(other, input)


@elementwise(promotion="bool", aliases=("greater_equal",))
def ge(input, other):
    """``input >= other``."""
    return less_equal(other, input)


@elementwise(promotion="bool", in_place=False)
def isnan(input):
    """Whether an element is NaN."""
    return not_equal(input, input) if _is_integer(input) else is_nan(input)


@elementwise(promotion="bool", in_place=False)
def isinf(input):
    """Whether an element is infinite."""
    return not_equal(input, input) if _is_integer(input) else is_infinite(input)


@elementwise(promotion="bool", in_place=False)
def isfinite(input):
    """Whether an element is neither NaN nor infinite."""
    return equal(input, input) if _is_integer(input) else _bitwise_not(is_nan(input) | is_infinite(input))


@elementwise
def maximum(input, other):
    """The larger; NaN if either is."""
    return _maximum(input, other)


@elementwise
def minimum(input, other):
    """The smaller; NaN if either is."""
    return _minimum(input, other)


@elementwise
def fmax(input, other):
    """The larger; a number wins over NaN."""
    if _is_integer(input):
        return _maximum(input, other)
    return where(is_nan(input), other, where(is_nan(other), input, _maximum(input, other)))


@elementwise
def fmin(input, other):
    """The smaller; a number wins over NaN."""
    if _is_integer(input):
        return _minimum(input, other)
    return where(is_nan(input), other, where(is_nan(other), input, _minimum(input, other)))


@elementwise(method=False, namespace="internal")
def clamp_both(input, min, max):
    """``min(max(input, min), max)``."""
    return _minimum(_maximum(input, min), max)


@clamp_both.backward
def _(grad, input, min, max):
    inside = less_equal(min, input) & less_equal(input, max)
    low = less(input, min) & less_equal(min, max)
    return where(inside, grad, 0.0), where(low, grad, 0.0), where(less(max, input) | less(max, min), grad, 0.0)


@elementwise(method=False, namespace="internal")
def clamp_low(input, min):
    """``max(input, min)``."""
    return _maximum(input, min)


@clamp_low.backward
def _(grad, input, min):
    return where(less_equal(min, input), grad, 0.0), where(less(input, min), grad, 0.0)


@elementwise(method=False, namespace="internal")
def clamp_high(input, max):
    """``min(input, max)``."""
    return _minimum(input, max)


@clamp_high.backward
def _(grad, input, max):
    return where(less_equal(input, max), grad, 0.0), where(less(max, input), grad, 0.0)


@elementwise(method=False, namespace="internal")
def select_(input, other, condition):
    """``input`` where the condition holds, else ``other``."""
    return where(not_equal(condition, 0), input, other)


# Logic and bits


@elementwise(promotion="bool")
def logical_not(input):
    """Whether an element is zero."""
    return equal(input, 0)


@elementwise(promotion="bool")
def logical_and(input, other):
    """Whether both are non-zero."""
    return _not_equal(input, 0) & _not_equal(other, 0)


@elementwise(promotion="bool")
def logical_or(input, other):
    """Whether either is non-zero."""
    return _not_equal(input, 0) | _not_equal(other, 0)


@elementwise(promotion="bool")
def logical_xor(input, other):
    """Whether exactly one is non-zero."""
    return _not_equal(input, 0) ^ _not_equal(other, 0)


@elementwise
def bitwise_and(input, other):
    """``input & other``."""
    return _bitwise_and(input, other)


@elementwise
def bitwise_or(input, other):
    """``input | other``."""
    return _bitwise_or(input, other)


@elementwise
def bitwise_xor(input, other):
    """``input ^ other``."""
    return _bitwise_xor(input, other)


@elementwise
def bitwise_not(input):
    """``~input``."""
    return _bitwise_not(input)


@elementwise
def bitwise_left_shift(input, other):
    """``input << other``."""
    return shift_left(input, other)


@elementwise
def bitwise_right_shift(input, other):
    """``input >> other``."""
    return shift_right(input, other)


# Activations


@elementwise
def relu(input):
    """``max(input, 0)``."""
    return _maximum(input, 0)


@relu.backward
def _(grad, input):
    return where(less(0.0, input), grad, 0.0)


relu.operation.saves_result = True


@elementwise(promotion="float", namespace="functional", method=False)
def silu(input):
    """``input * sigmoid(input)``."""
    return input / (1.0 + _exp(-input))


@silu.backward
def _(grad, input):
    share = 1.0 / (1.0 + _exp(-input))
    return grad * share * (1.0 + input * (1.0 - share))


@elementwise(promotion="float", method=False, namespace="internal")
def gelu_erf(input):
    """``input * Phi(input)`` with the exact normal distribution function."""
    return input * 0.5 * (1.0 + _erf(input * math.sqrt(0.5)))


@gelu_erf.backward
def _(grad, input):
    distribution = 0.5 * (1.0 + _erf(input * math.sqrt(0.5)))
    density = _exp(input * input * -0.5) * (1.0 / math.sqrt(2.0 * math.pi))
    return grad * (distribution + input * density)


@elementwise(promotion="float", method=False, namespace="internal")
def gelu_tanh(input):
    """GELU by Hendrycks and Gimpel's tanh formula."""
    inner = math.sqrt(2.0 / math.pi) * (input + input * input * input * 0.044715)
    return input * 0.5 * (1.0 + _tanh(inner))


@gelu_tanh.backward
def _(grad, input):
    scale = math.sqrt(2.0 / math.pi)
    curve = _tanh(scale * (input + input * input * input * 0.044715))
    slope = (1.0 - curve * curve) * scale * (1.0 + input * input * (3.0 * 0.044715))
    return grad * (0.5 * (1.0 + curve) + input * 0.5 * slope)


@elementwise(namespace="functional", method=False)
def leaky_relu(input, *, negative_slope=0.01):
    """``input`` where positive, else ``negative_slope * input``."""
    return where(less(0.0, input), input, input * negative_slope)


@elementwise(promotion="float", namespace="functional", method=False)
def elu_(input, *, alpha=1.0):
    """``input`` where positive, else ``alpha * (exp(input) - 1)``."""
    return where(less(0.0, input), input, _expm1(input) * alpha)


@elementwise(promotion="float", namespace="functional", method=False)
def softplus_(input, *, beta=1.0, threshold=20.0):
    """``log(1 + exp(beta * input)) / beta``, linear above the threshold."""
    scaled = input * beta
    return where(less(threshold, scaled), input, _log1p(_exp(scaled)) / beta)


@elementwise(promotion="float", namespace="functional", method=False)
def logsigmoid(input):
    """``log(sigmoid(input))`` without overflow."""
    return _minimum(input, 0.0) - _log1p(_exp(-_absolute(input)))


@logsigmoid.backward
def _(grad, input):
    return grad / (1.0 + _exp(input))


@elementwise(namespace="internal", method=False)
def to_int32_(input):
    """The element as int32."""
    return cast(input, int32)
