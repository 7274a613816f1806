"""The functions operation definitions are written with: on expressions they trace, on numbers they compute."""

from __future__ import annotations

import math
from typing import Any

from .dtypes import dtype
from .expression import Expression, Operand, apply, binary, select
from .expression import cast as cast_expression
from .scalar_math import convert
from .steps import STEPS

E = 2.718281828459045


def _dispatch(name: str, *values: Any) -> Any:
    for value in values:
        if isinstance(value, Expression):
            return apply(name, *values)
    return STEPS[name].evaluate(*values)


def _unary(name: str) -> Any:
    def function(x: Operand) -> Any:
        return apply(name, x) if isinstance(x, Expression) else STEPS[name].evaluate(x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return the step ``{name}`` of a scalar."
    return function


def _binary(name: str) -> Any:
    def function(x: Operand, y: Operand) -> Any:
        if isinstance(x, Expression) or isinstance(y, Expression):
            return binary(name, x, y)
        return STEPS[name].evaluate(x, y)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return the step ``{name}`` of two scalars."
    return function


exp, exp2, expm1 = _unary("exp"), _unary("exp2"), _unary("expm1")
log, log2, log10, log1p = _unary("log"), _unary("log2"), _unary("log10"), _unary("log1p")
sqrt, reciprocal_sqrt = _unary("sqrt"), _unary("reciprocal_sqrt")
sin, cos, tan = _unary("sin"), _unary("cos"), _unary("tan")
asin, acos, atan = _unary("asin"), _unary("acos"), _unary("atan")
sinh, cosh, tanh = _unary("sinh"), _unary("cosh"), _unary("tanh")
asinh, acosh, atanh = _unary("asinh"), _unary("acosh"), _unary("atanh")
erf, erfc, erfinv, lgamma, digamma = (
    _unary("erf"),
    _unary("erfc"),
    _unary("erfinv"),
    _unary("lgamma"),
    _unary("digamma"),
)
floor, ceil, truncate, round_half_even = _unary("floor"), _unary("ceil"), _unary("truncate"), _unary("round")
sign, absolute, negate = _unary("sign"), _unary("absolute"), _unary("negate")
sign_bit, is_nan, is_infinite = _unary("sign_bit"), _unary("is_nan"), _unary("is_infinite")
bitwise_not = _unary("bitwise_not")
minimum, maximum = _binary("minimum"), _binary("maximum")
power, atan2, hypot, copysign = _binary("power"), _binary("atan2"), _binary("hypot"), _binary("copysign")
next_after = _binary("nextafter")


def fused_multiply_add(x: Operand, y: Operand, z: Operand) -> Any:
    """Return ``x * y + z``, rounded once where the device can."""
    return _dispatch("fused_multiply_add", x, y, z)


greatest_common_divisor = _binary("greatest_common_divisor")
floor_divide, truncate_divide = _binary("floor_divide"), _binary("truncate_divide")
remainder, fmod = _binary("remainder"), _binary("fmod")
equal, not_equal = _binary("equal"), _binary("not_equal")
less, less_equal = _binary("less"), _binary("less_equal")
bitwise_and, bitwise_or, bitwise_xor = _binary("bitwise_and"), _binary("bitwise_or"), _binary("bitwise_xor")
shift_left, shift_right = _binary("shift_left"), _binary("shift_right")


def where(condition: Any, yes: Operand, no: Operand) -> Any:
    """Return ``yes`` where the condition holds, else ``no``; both are evaluated."""
    if isinstance(condition, Expression):
        return select(condition, yes, no)
    if isinstance(yes, Expression) or isinstance(no, Expression):
        return yes if condition else no
    return yes if condition else no


def cast(x: Operand, to: dtype) -> Any:
    """Return a scalar converted to a type."""
    if isinstance(x, Expression):
        return cast_expression(x, to)

    return convert(x, to)


def logical_not(x: Operand) -> Any:
    """Return whether a scalar is zero."""
    return equal(x, 0)


def threefry(counter: tuple[Any, Any, Any, Any], key: tuple[Any, Any, Any, Any], word: Operand) -> Any:
    """Return word 0..3 of Threefry4x32-13 at a counter under a key (four uint32 each)."""
    return _dispatch("threefry", *counter, *key, word)


def trigamma(x: Operand) -> Operand:
    """Return the derivative of digamma (Abramowitz & Stegun 6.4.6, 6.4.7, 6.4.12): recurrence, series, reflection below 0.5."""
    reflected = less(x, 0.5)
    y = where(reflected, 1.0 - x, x)
    total = 0.0
    for shift in range(12):
        total = total + 1.0 / ((y + float(shift)) * (y + float(shift)))
    z = y + 12.0
    inverse = 1.0 / (z * z)
    series = 1 / 6 - inverse * (1 / 30 - inverse * (1 / 42 - inverse * (1 / 30 - inverse * (5 / 66))))
    direct = total + 1.0 / z + inverse * 0.5 + series * inverse / z
    sine = sin((x - round_half_even(x)) * math.pi)
    return where(reflected, math.pi * math.pi / (sine * sine) - direct, direct)


# Written with functions of this module, which need the table.
STEPS["digamma"].gradient = lambda grad, result, x: (grad * trigamma(x),)
