"""Rules of exponentials, logarithms, roots, trigonometric and hyperbolic functions of complex tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...ir.dtypes import float64
from ...ir.expression import Expression
from ...ir.scalar import (
    absolute,
    atan2,
    copysign,
    cos,
    cosh,
    equal,
    exp,
    expm1,
    hypot,
    is_infinite,
    is_nan,
    less,
    log,
    log1p,
    logical_not,
    maximum,
    minimum,
    sin,
    sinh,
    sqrt,
    where,
)
from ...ir.scalar import power as real_power
from ...record.devices import has_float64
from ...tensors.tensor import Tensor
from .. import elementwise as e
from ..common import attach, needs_gradient
from .arithmetic import full_parts, holomorphic, kernel, reduce_gradient
from .interleaving import join
from .views import as_complex, conj

Parts = Callable[[Any, Any], tuple[Any, Any]]


def _function(
    name: str, title: str, parts: Parts, derivative: Callable[[Tensor], Tensor], divides: bool = False
) -> Callable[[Any, Tensor], Tensor]:
    """Return the rule of a holomorphic function given its parts and its derivative; ``divides``: that one's inverse."""
    real = kernel(f"complex_{name}_real", lambda a, b: parts(a, b)[0])
    imag = kernel(f"complex_{name}_imag", lambda a, b: parts(a, b)[1])

    def rule(function: Any, input: Tensor) -> Tensor:
        return holomorphic(f"{title}Backward0", real, imag, derivative, input, divides)

    rule.__name__ = f"{name}_rule"
    return rule


# Exponentials and logarithms


def _zero_at(b: Any, value: Any) -> Any:
    """Return a value whose factor ``sin(b)`` is 0, exactly 0 even where the other factor is infinite."""
    return where(equal(b, 0.0), b, value)


def _lost(b: Expression) -> Expression:
    """Return where an angle is infinite or NaN: what remains of a value is as annex G of the C standard says."""
    return is_infinite(b) | is_nan(b)


def _exp(a: Any, b: Any) -> tuple[Any, Any]:
    size = exp(a)
    endless = is_infinite(a) & _lost(b)
    real = where(endless, size, size * cos(b))
    return real, where(endless & less(a, 0.0), 0.0, _zero_at(b, size * sin(b)))


def _expm1(a: Any, b: Any) -> tuple[Any, Any]:
    # expm1(a) cos(b) - 2 sin(b/2)^2 keeps small arguments accurate.
    half = sin(b * 0.5)
    return expm1(a) * cos(b) - 2.0 * half * half, exp(a) * sin(b)


def _log_size(a: Any, b: Any) -> Any:
    """Return log|a + bi|, near 1 by log1p: |z|^2 - 1 = (x - 1)(x + 1) + y^2 with x the larger part."""
    x, y = maximum(absolute(a), absolute(b)), minimum(absolute(a), absolute(b))
    near = less(absolute(x - 1.0), 0.4) & less(y, 0.9)
    return where(near, 0.5 * log1p((x - 1.0) * (x + 1.0) + y * y), log(hypot(a, b)))


def _log1p_size(a: Expression, b: Expression) -> Expression:
    """Return log|1 + a + bi|; where the argument is small, |1 + z|^2 - 1 = a (2 + a) + b^2 has no cancellation."""
    small = less(absolute(a), 0.5) & less(absolute(b), 0.5)
    size = where(small, 0.5 * log1p(a * (2.0 + a) + b * b), _log_size(a + 1.0, b))
    return where(is_nan(a) | is_nan(b), a + b, size)


def _log(scale: float) -> Parts:
    if scale == 1.0:
        return lambda a, b: (_log_size(a, b), atan2(b, a))
    return lambda a, b: (_log_size(a, b) * scale, atan2(b, a) * scale)


exp_rule = _function("exp", "Exp", _exp, lambda z: e.exp(z))
exp2_rule = _function(
    "exp2", "Exp2", lambda a, b: _exp(a * math.log(2.0), b * math.log(2.0)), lambda z: e.exp2(z) * math.log(2.0)
)
expm1_rule = _function("expm1", "Expm1", _expm1, lambda z: e.exp(z))
log_rule = _function("log", "Log", _log(1.0), lambda z: z, divides=True)
log2_rule = _function("log2", "Log2", _log(1.0 / math.log(2.0)), lambda z: z * math.log(2.0), divides=True)
log10_rule = _function("log10", "Log10", _log(1.0 / math.log(10.0)), lambda z: z * math.log(10.0), divides=True)
log1p_rule = _function(
    "log1p",
    "Log1P",
    lambda a, b: (_log1p_size(a, b), atan2(b, a + 1.0)),
    lambda z: z + 1.0,
    divides=True,
)


# Roots


def _sqrt(a: Any, b: Any) -> tuple[Any, Any]:
    size = hypot(a, b)
    # Half the size first: their sum could overflow.
    root = sqrt(size * 0.5 + absolute(a) * 0.5)
    other = absolute(b) / (2.0 * where(equal(root, 0.0), 1.0, root))
    left = less(a, 0.0)
    real, imag = where(left, other, root), copysign(where(left, root, other), b)
    endless = is_infinite(b)
    lost = is_infinite(a) & logical_not(endless) & logical_not(is_nan(b))
    real = where(lost & left, absolute(b) * 0.0, where(lost, absolute(a), real))
    imag = where(lost & left, copysign(absolute(a), b), where(lost, b * 0.0, imag))
    return where(endless, absolute(b), real), where(endless, b, imag)


sqrt_rule = _function("sqrt", "Sqrt", _sqrt, lambda z: e.sqrt(z) * 2.0, divides=True)


def rsqrt_rule(function: Any, input: Tensor) -> Tensor:
    return e.reciprocal(e.sqrt(input))


# Trigonometric and hyperbolic functions


def _sinh(a: Expression, b: Expression) -> tuple[Expression, Expression]:
    real = where(_lost(b) & is_infinite(a), absolute(a), where(equal(a, 0.0), a, sinh(a) * cos(b)))
    return real, _zero_at(b, cosh(a) * sin(b))


def _cosh(a: Expression, b: Expression) -> tuple[Expression, Expression]:
    real = where(_lost(b) & is_infinite(a), absolute(a), cosh(a) * cos(b))
    return real, where(equal(a, 0.0) | equal(b, 0.0), 0.0, sinh(a) * sin(b))


def _tanh(a: Any, b: Any) -> tuple[Any, Any]:
    # Kahan, "Branch cuts for complex elementary functions", 1987; far out the quotient would be inf / inf.
    far = less(11.0, absolute(a))
    x = where(far, 0.0, a)
    tangent = sin(b) / cos(b)
    steep = 1.0 + tangent * tangent
    s = sinh(x)
    rho = sqrt(1.0 + s * s)
    bottom = 1.0 + steep * s * s
    endless = is_infinite(tangent)
    real = where(endless, rho / where(equal(s, 0.0), 1.0, s), steep * rho * s / bottom)
    imag = where(endless, b * 0.0, tangent / bottom)
    limit = copysign(absolute(x) + 1.0, a)
    decay = where(is_infinite(a), 0.0, 4.0 * sin(b) * cos(b) * exp(-2.0 * absolute(a)))
    return where(equal(a, 0.0), a, where(far, limit, real)), where(far, decay, _zero_at(b, imag))


def _turned(parts: Parts) -> Parts:
    """Return f(z) = -i g(iz) given the parts of g: tan from tanh, asin from asinh, atan from atanh."""

    def turned(a: Any, b: Any) -> tuple[Any, Any]:
        real, imag = parts(-b, a)
        return imag, -real

    return turned


def _sin(a: Expression, b: Expression) -> tuple[Expression, Expression]:
    real, imag = _turned(_sinh)(a, b)
    return real, where(_lost(a) & is_infinite(b), absolute(b), imag)


def _square(z: Tensor) -> Tensor:
    return z * z


sin_rule = _function("sin", "Sin", _sin, lambda z: e.cos(z))
cos_rule = _function("cos", "Cos", lambda a, b: _cosh(-b, a), lambda z: -e.sin(z))
sinh_rule = _function("sinh", "Sinh", _sinh, lambda z: e.cosh(z))
cosh_rule = _function("cosh", "Cosh", _cosh, lambda z: e.sinh(z))
tanh_rule = _function("tanh", "Tanh", _tanh, lambda z: 1.0 - _square(e.tanh(z)))
tan_rule = _function("tan", "Tan", _turned(_tanh), lambda z: 1.0 + _square(e.tan(z)))


# Inverse functions


def _asin_parts(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """Return asin's real part, acos's real part and asin's imaginary part.

    Hull, Fairgrieve and Tang, "Implementing the complex arcsine and arccosine functions using exception handling", 1997.
    """
    x, y = absolute(a), absolute(b)
    r, s = hypot(x + 1.0, y), hypot(x - 1.0, y)
    mean = 0.5 * (r + s)
    ratio = x / mean
    square = y * y
    tiny = 1e-30
    # sqrt(mean^2 - x^2), without cancellation.
    gap_low = 0.5 * (mean + x) * (square / (r + x + 1.0) + (s + (1.0 - x)))
    gap_high = (mean + x) / (r + x + 1.0) + (mean + x) / (s + (x - 1.0) + tiny)
    gap = where(less(1.0, x), y * sqrt(0.5 * gap_high), sqrt(maximum(gap_low, 0.0)))
    flat = less(ratio, 0.6)
    angle = where(flat, _arcsine(ratio), atan2(x, gap))
    complement = where(flat, 0.5 * math.pi - _arcsine(ratio), atan2(gap, x))
    above_low = 0.5 * (square / (r + (x + 1.0)) + square / (s + (1.0 - x) + tiny))
    above_high = 0.5 * (square / (r + (x + 1.0)) + (s + (x - 1.0)))
    above = where(less(x, 1.0), above_low, above_high)
    height = where(less(mean, 1.5), log1p(above + sqrt(above * (mean + 1.0))), log(mean + sqrt(mean * mean - 1.0)))
    far = less(1e8, x) | less(1e8, y)
    height = where(far, math.log(2.0) + log(hypot(x, y)), height)
    angle, complement = where(far, atan2(x, y), angle), where(far, atan2(y, x), complement)
    upright = equal(x, 0.0)
    return where(upright, x, angle), where(upright, 0.5 * math.pi, complement), height


def _arcsine(x: Any) -> Any:
    return atan2(x, sqrt((1.0 - x) * (1.0 + x)))


def _asin(a: Any, b: Any) -> tuple[Any, Any]:
    angle, _, height = _asin_parts(a, b)
    return copysign(angle, a), copysign(height, b)


def _acos(a: Any, b: Any) -> tuple[Any, Any]:
    _, complement, height = _asin_parts(a, b)
    return where(less(a, 0.0), math.pi - complement, complement), -copysign(height, b)


def _acosh(a: Any, b: Any) -> tuple[Any, Any]:
    angle, height = _acos(a, b)
    return absolute(height), copysign(angle, b)


def _atanh(a: Any, b: Any) -> tuple[Any, Any]:
    x = absolute(a)
    square = b * b
    near = (1.0 - x) * (1.0 - x) + square
    real = 0.25 * log1p(4.0 * x / where(equal(near, 0.0), 1e-38, near))
    far = less(1e9, x) | less(1e9, absolute(b))
    size = hypot(a, b)
    real = where(far, x / size / size, real)
    imag = 0.5 * atan2(2.0 * b, (1.0 - x) * (1.0 + x) - square)
    endless = is_infinite(a) | is_infinite(b)
    # Of an infinite real part and an imaginary one that is NaN, there is no angle.
    outside = far & logical_not(is_nan(b))
    return copysign(where(endless | equal(a, 0.0), 0.0, real), a), where(outside, copysign(0.5 * math.pi, b), imag)


asin_rule = _function("asin", "Asin", _asin, lambda z: e.rsqrt(1.0 - _square(z)))
acos_rule = _function("acos", "Acos", _acos, lambda z: -e.rsqrt(1.0 - _square(z)))
asinh_rule = _function(
    "asinh", "Asinh", lambda a, b: (lambda p: (p[1], -p[0]))(_asin(-b, a)), lambda z: e.rsqrt(_square(z) + 1.0)
)
acosh_rule = _function("acosh", "Acosh", _acosh, lambda z: e.reciprocal(e.sqrt(z - 1.0) * e.sqrt(z + 1.0)))
atanh_rule = _function("atanh", "Atanh", _atanh, lambda z: 1.0 - _square(z), divides=True)
atan_rule = _function("atan", "Atan", _turned(_atanh), lambda z: _square(z) + 1.0, divides=True)


# Others


def sigmoid_rule(function: Any, input: Tensor) -> Tensor:
    return e.reciprocal(e.exp(-input) + 1.0)


def silu_rule(function: Any, input: Tensor) -> Tensor:
    return input * e.sigmoid(input)


def sinc_rule(function: Any, input: Tensor) -> Tensor:
    zero = input == 0
    angle = input * math.pi
    ones = angle.new_ones(())
    return e.select_(ones, e.sin(angle) / e.select_(ones, angle, zero), zero)


def _logaddexp(a: Expression, b: Expression, c: Expression, d: Expression) -> tuple[Expression, Expression]:
    smaller = less(a, c)
    low, low_angle = where(smaller, a, c), where(smaller, b, d)
    high, high_angle = where(smaller, c, a), where(smaller, d, b)
    grown, turned = _exp(low - high, low_angle - high_angle)
    real, imag = high + _log1p_size(grown, turned), high_angle + atan2(turned, grown + 1.0)
    # Of two that are equally infinite there is no difference: two zeros are added, or two infinite numbers.
    tie = is_infinite(low) & equal(low, high)
    (first, one), (second, other) = _exp(low, low_angle), _exp(high, high_angle)
    endless, angle = log(hypot(first + second, one + other)), atan2(one + other, first + second)
    real = where(tie, where(less(low, 0.0), low, endless), real)
    imag = where(tie, where(less(low, 0.0), low_angle, angle), imag)
    lost = is_nan(a) | is_nan(b) | is_nan(c) | is_nan(d)
    return where(lost, math.nan, real), where(lost, math.nan, imag)


_logaddexp_real = kernel("complex_logaddexp_real", lambda *parts: _logaddexp(*parts)[0])
_logaddexp_imag = kernel("complex_logaddexp_imag", lambda *parts: _logaddexp(*parts)[1])


def logaddexp_rule(function: Any, input: Any, other: Any) -> Tensor:
    parts = (*full_parts(input), *full_parts(other))
    result = join(_logaddexp_real(*parts), _logaddexp_imag(*parts))
    if not needs_gradient(input, other):
        return result
    saved = [each._save() if isinstance(each, Tensor) else None for each in (input, other)]

    def run_backward(grad: Tensor) -> tuple[Any, Any]:
        first, second = (
            each if kept is None else as_complex(kept.unpack()) for kept, each in zip(saved, (input, other))
        )
        shares = (grad / conj(e.exp(second - first) + 1.0), grad / conj(e.exp(first - second) + 1.0))
        return tuple(map(reduce_gradient, shares, (input, other)))

    return attach(result, "LogaddexpBackward0", (input, other), run_backward)


# Powers of tensors, numbers and both


def power(input: Any, exponent: Any) -> Tensor:
    """Return ``exp(exponent * log(input))``."""
    parts = [*full_parts(input), *full_parts(exponent)]
    kind = next(each.dtype for each in parts if isinstance(each, Tensor))
    if all(has_float64(each.device) for each in parts if isinstance(each, Tensor)):
        # An angle of many turns has few digits left in float32; where float64 is at hand it costs little.
        parts = [each.to(float64) if isinstance(each, Tensor) else each for each in parts]
    real, imag = _power_real(*parts), _power_imag(*parts)
    result = join(real.to(kind), imag.to(kind))
    if not needs_gradient(input, exponent):
        return result
    base = input._save() if isinstance(input, Tensor) else None
    raised = exponent._save() if isinstance(exponent, Tensor) else None

    def run_backward(grad: Tensor) -> tuple[Any, Any]:
        x = input if base is None else base.unpack()
        y = exponent if raised is None else raised.unpack()
        first = second = None
        if base is not None and x.requires_grad:
            first = grad * conj(as_complex(y * x ** (y - 1)))
            if isinstance(y, Tensor):
                first = e.select_(first.new_zeros(()), first, y == 0)
        if raised is not None and y.requires_grad:
            size = (
                as_complex(x)
                if isinstance(x, Tensor)
                else y.new_full((), x, dtype=first.dtype if first is not None else grad.dtype)
            )
            second = grad * conj(as_complex(x**y) * e.log(size))
            second = e.select_(second.new_zeros(()), second, size == 0)
        return reduce_gradient(first, input), reduce_gradient(second, exponent)

    return attach(result, "PowBackward0", (input, exponent), run_backward)


def _power(part: int) -> Callable[..., Any]:
    def definition(a: Any, b: Any, c: Any, d: Any) -> Any:
        size, angle = _log_size(a, b), atan2(b, a)
        turn = d * size + c * angle
        # The real power rounds less than the exponential of a large logarithm, but either factor alone may overflow.
        power, turned = real_power(hypot(a, b), c), exp(-(d * angle))
        whole = is_infinite(power) | is_infinite(turned) | equal(power, 0.0) | equal(turned, 0.0)
        grown = where(whole, exp(c * size - d * angle), power * turned)
        zero = equal(a, 0.0) & equal(b, 0.0)
        value = grown * (sin(turn) if part else cos(turn))
        # The logarithm of zero has no angle: PyTorch's powers of zero are zero, infinite or NaN by the exponent's real part.
        endless = where(less(c, 0.0), math.nan if part else math.inf, math.nan)
        return where(zero, where(less(0.0, c), 0.0, endless), value)

    return definition


_power_real = kernel("complex_power_real", _power(0))
_power_imag = kernel("complex_power_imag", _power(1))
