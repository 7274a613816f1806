"""Parts of numbers: fraction and exponent, infinities by sign, common divisors, steps."""

# Definitions are traced on expressions and run on numbers: their operands have no one type.
# pyright: basic
from __future__ import annotations

import math

from ...ir.dtypes import bool_, int32
from ...ir.expression import Expression
from ...ir.scalar import absolute as _absolute
from ...ir.scalar import equal, is_infinite, is_nan, less, less_equal, not_equal, where
from ...ir.scalar import exp2 as _exp2
from ...ir.scalar import floor as _floor
from ...ir.scalar import greatest_common_divisor as _greatest_common_divisor
from ...ir.scalar import log2 as _log2
from ...ir.scalar import maximum as _maximum
from ...ir.scalar import minimum as _minimum
from ...ir.scalar import truncate as _truncate
from ...ir.scalar import truncate_divide as _truncate_divide
from .call import elementwise
from .operand_kinds import is_integer as _is_integer


@elementwise(promotion="bool", in_place=False, exact_out=True)
def isposinf(input):
    """Whether an element is plus infinity."""
    return not_equal(input, input) if _is_integer(input) else equal(input, math.inf)


@elementwise(promotion="bool", in_place=False, exact_out=True)
def isneginf(input):
    """Whether an element is minus infinity."""
    return not_equal(input, input) if _is_integer(input) else equal(input, -math.inf)


@elementwise(method=False, namespace="internal", title="NotImplemented")
def heaviside_(input, values):
    """0 below zero, ``values`` at zero, 1 above."""
    if isinstance(input, Expression) and input.dtype is bool_:
        return input | values
    return where(equal(input, 0), values, where(less(0, input), 1, 0))


heaviside_.operation.refused = dict.fromkeys((0, 1), RuntimeError("derivative for aten::heaviside is not implemented"))


@elementwise(method=False, namespace="internal")
def gcd_(input, other):
    """The greatest common divisor."""
    return _greatest_common_divisor(input, other)


@elementwise(method=False, namespace="internal")
def lcm_(input, other):
    """The least common multiple."""
    divisor = _greatest_common_divisor(input, other)
    nothing = equal(divisor, 0)
    return where(nothing, 0, _absolute(_truncate_divide(input, where(nothing, 1, divisor)) * other))


def _exponent(x):
    """Return e with ``2**(e - 1) <= |x| < 2**e`` as a float, 0 for 0, infinities and NaN."""
    ordinary = not_equal(x, 0.0) & less(_absolute(x), math.inf)
    magnitude = where(ordinary, _absolute(x), 1.0)
    guess = _floor(_log2(magnitude)) + 1.0
    # The logarithm rounds: next to a power of 2 the guess may be off by one.
    fraction = _scaled(magnitude, guess)
    guess = where(less_equal(1.0, fraction), guess + 1.0, where(less(fraction, 0.5), guess - 1.0, guess))
    return where(ordinary, guess, 0.0)


def _scaled(x, exponent):
    """Return ``x / 2**exponent``, in two steps since the power may have no number."""
    half = _floor(exponent * 0.5)
    return x * _exp2(-half) * _exp2(half - exponent)


@elementwise(method=False, namespace="internal", title="FrexpBackward0")
def frexp_mantissa_(input):
    """The fraction in [0.5, 1) of ``fraction * 2**exponent``."""
    return where(is_nan(input) | is_infinite(input), input, _scaled(input, _exponent(input)))


@frexp_mantissa_.backward
def _(grad, input):
    return _scaled(grad, _exponent(input))


@elementwise(method=False, namespace="internal", result_dtype=lambda operands: int32)
def frexp_exponent_(input):
    """The exponent of ``fraction * 2**exponent``."""
    return _exponent(input)


@elementwise(method=False, namespace="internal")
def times_power_of_two_(input, exponent, *, limit=0.0):
    """``input * 2**exponent`` of whole exponents; up to ``limit`` they count."""
    bounded = _maximum(_minimum(exponent, limit), -limit)
    third = _truncate(bounded / 3.0)
    # Three factors, as the power may have no number where the product has one.
    return input * _exp2(third) * _exp2(third) * _exp2(bounded - third * 2.0)
