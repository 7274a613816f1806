"""Bessel functions, modified Bessel functions and Airy's function, from Chebyshev series near zero and in 1 / x.

The forms are those of Abramowitz & Stegun, chapters 9 and 10 (9.2.5, 9.6.13, 9.7.1, 10.4.59 ff.).
"""

# Definitions are traced on expressions and run on numbers: their operands have no one type.
# pyright: basic
from __future__ import annotations

import math

from ...ir.scalar import absolute as _absolute
from ...ir.scalar import cos as _cos
from ...ir.scalar import equal, is_infinite, is_nan, less, less_equal, maximum, minimum, where
from ...ir.scalar import exp as _exp
from ...ir.scalar import log as _log
from ...ir.scalar import sign as _sign
from ...ir.scalar import sin as _sin
from ...ir.scalar import sqrt as _sqrt
from . import approximations as series
from .approximations import chebyshev
from .call import elementwise
from .refusals import wide_reals

# Modified Bessel functions


def _scaled_i(x, order):
    """``exp(-|x|) I(x)``."""
    near, far = ((series.I0_NEAR, series.I0_FAR), (series.I1_NEAR, series.I1_FAR))[order]
    magnitude = _absolute(x)
    low, high = minimum(magnitude, 8.0), maximum(magnitude, 8.0)
    inner = chebyshev(low * 0.25 - 1.0, near)
    outer = chebyshev(16.0 / high - 1.0, far) / _sqrt(high)
    if order:
        inner, outer = inner * x, where(less(x, 0.0), -outer, outer)
    return where(less_equal(magnitude, 8.0), inner, outer)


def _i(x, order):
    return _exp(_absolute(x)) * _scaled_i(x, order)


def _slope_of_i1(x):
    # At 0, and at NaN as PyTorch has it.
    return where(less(0.0, _absolute(x)), _i(x, 0) - _i(x, 1) / x, 0.5)


@elementwise(promotion="float")
def i0(input):
    """The modified Bessel function of the first kind of order 0."""
    return _i(input, 0)


@i0.backward
def _(grad, input):
    return grad * _i(input, 1)


@elementwise(promotion="float", namespace="special", title="SpecialI0EBackward0")
def i0e(input):
    """``exp(-|input|) i0(input)``."""
    return _scaled_i(input, 0)


@i0e.backward
def _(grad, input):
    return grad * (_scaled_i(input, 1) - _sign(input) * _scaled_i(input, 0))


@elementwise(promotion="float", namespace="special", title="SpecialI1Backward0")
def i1(input):
    """The modified Bessel function of the first kind of order 1."""
    return _i(input, 1)


@i1.backward
def _(grad, input):
    return grad * _slope_of_i1(input)


@elementwise(promotion="float", namespace="special", title="SpecialI1EBackward0")
def i1e(input):
    """``exp(-|input|) i1(input)``."""
    return _scaled_i(input, 1)


@i1e.backward
def _(grad, input):
    slope = _scaled_i(input, 0) - _scaled_i(input, 1) * (_sign(input) + 1.0 / input)
    return grad * where(less(0.0, _absolute(input)), slope, 0.5)


@elementwise(promotion="float", namespace="special", refuses=wide_reals("modified_bessel_i0_cpu"))
def modified_bessel_i0(input):
    """The modified Bessel function of the first kind of order 0."""
    return _i(input, 0)


@modified_bessel_i0.backward
def _(grad, input):
    return grad * _i(input, 1)


@elementwise(promotion="float", namespace="special", refuses=wide_reals("modified_bessel_i1_cpu"))
def modified_bessel_i1(input):
    """The modified Bessel function of the first kind of order 1."""
    return _i(input, 1)


@modified_bessel_i1.backward
def _(grad, input):
    return grad * _slope_of_i1(input)


def _k(x, order, scaled):
    """``K(x)``, times ``exp(x)`` where scaled."""
    low, high = minimum(x, 2.0), maximum(x, 2.0)
    square = low * low * 0.5 - 1.0
    logarithm = _log(low * 0.5)
    if order:
        inner = chebyshev(square, series.K1_NEAR) / low + logarithm * _i(low, 1)
    else:
        inner = chebyshev(square, series.K0_NEAR) - logarithm * _i(low, 0)
    outer = chebyshev(4.0 / high - 1.0, series.K1_FAR if order else series.K0_FAR) / _sqrt(high)
    inner, outer = (inner * _exp(low), outer) if scaled else (inner, outer * _exp(-high))
    value = where(less_equal(x, 2.0), inner, outer)
    return where(less(x, 0.0), math.nan, where(equal(x, 0.0), math.inf, value))


@elementwise(promotion="float", namespace="special", refuses=wide_reals("modified_bessel_k0_cpu"))
def modified_bessel_k0(input):
    """The modified Bessel function of the second kind of order 0."""
    return _k(input, 0, False)


@modified_bessel_k0.backward
def _(grad, input):
    return -grad * _k(input, 1, False)


@elementwise(promotion="float", namespace="special", refuses=wide_reals("modified_bessel_k1_cpu"))
def modified_bessel_k1(input):
    """The modified Bessel function of the second kind of order 1."""
    return _k(input, 1, False)


@modified_bessel_k1.backward
def _(grad, input):
    return -grad * (_k(input, 0, False) + _k(input, 1, False) / input)


@elementwise(promotion="float", namespace="special", refuses=wide_reals("scaled_modified_bessel_k0_cpu"))
def scaled_modified_bessel_k0(x):
    """``exp(x) modified_bessel_k0(x)``."""
    return _k(x, 0, True)


@scaled_modified_bessel_k0.backward
def _(grad, x):
    return grad * (_k(x, 0, True) - _k(x, 1, True))


@elementwise(promotion="float", namespace="special", refuses=wide_reals("scaled_modified_bessel_k1_cpu"))
def scaled_modified_bessel_k1(x):
    """``exp(x) modified_bessel_k1(x)``."""
    return _k(x, 1, True)


@scaled_modified_bessel_k1.backward
def _(grad, x):
    return grad * (_k(x, 1, True) * (1.0 - 1.0 / x) - _k(x, 0, True))


# Bessel functions


def _near(x, coefficients):
    low = minimum(_absolute(x), 8.0)
    return chebyshev(low * low * 0.03125 - 1.0, coefficients)


def _far(x, order):
    """Return J and Y for x >= 8: the phase is taken by the addition theorem, which keeps large arguments exact."""
    high = maximum(x, 8.0)
    t = 128.0 / (high * high) - 1.0
    p, q = chebyshev(t, (series.P0, series.P1)[order]), chebyshev(t, (series.Q0, series.Q1)[order]) / high
    sine, cosine = _sin(high), _cos(high)
    # sqrt(2) times the cosine and the sine of x - pi / 4, for order 1 of x - 3 pi / 4.
    c, s = (sine - cosine, -(sine + cosine)) if order else (sine + cosine, sine - cosine)
    scale = 1.0 / _sqrt(high * math.pi)
    return scale * (p * c - q * s), scale * (p * s + q * c)


def _j0(x):
    magnitude = _absolute(x)
    return where(less_equal(magnitude, 8.0), _near(x, series.J0_NEAR), _far(magnitude, 0)[0])


def _j1(x):
    magnitude = _absolute(x)
    far = _far(magnitude, 1)[0]
    return where(less_equal(magnitude, 8.0), _near(x, series.J1_NEAR) * x, where(less(x, 0.0), -far, far))


def _y(x, order):
    low = minimum(x, 8.0)
    logarithm = _log(low) * (2.0 / math.pi)
    if order:
        inner = low * _near(x, series.Y1_NEAR) + (logarithm * _near(x, series.J1_NEAR) * low - (2.0 / math.pi) / low)
    else:
        inner = _near(x, series.Y0_NEAR) + logarithm * _near(x, series.J0_NEAR)
    value = where(less_equal(x, 8.0), inner, _far(x, order)[1])
    return where(less(x, 0.0), math.nan, where(equal(x, 0.0), -math.inf, value))


@elementwise(promotion="float", namespace="special", refuses=wide_reals("bessel_j0_cpu"))
def bessel_j0(input):
    """The Bessel function of the first kind of order 0."""
    return _j0(input)


@bessel_j0.backward
def _(grad, input):
    return -grad * _j1(input)


@elementwise(promotion="float", namespace="special", refuses=wide_reals("bessel_j1_cpu"))
def bessel_j1(input):
    """The Bessel function of the first kind of order 1."""
    return _j1(input)


@bessel_j1.backward
def _(grad, input):
    return grad * where(equal(input, 0.0), 0.5, _j0(input) - _j1(input) / input)


@elementwise(promotion="float", namespace="special", refuses=wide_reals("bessel_y0_cpu"))
def bessel_y0(input):
    """The Bessel function of the second kind of order 0."""
    return _y(input, 0)


@bessel_y0.backward
def _(grad, input):
    return -grad * _y(input, 1)


@elementwise(promotion="float", namespace="special", refuses=wide_reals("bessel_y1_cpu"))
def bessel_y1(input):
    """The Bessel function of the second kind of order 1."""
    return _y(input, 1)


@bessel_y1.backward
def _(grad, input):
    return grad * (_y(input, 0) - _y(input, 1) / input)


@elementwise(promotion="float", namespace="special", refuses=wide_reals("spherical_bessel_j0_cpu"))
def spherical_bessel_j0(x):
    """``sin(x) / x``, 1 at 0."""
    return where(is_infinite(x), 0.0, where(equal(x, 0.0), 1.0, _sin(x) / x))


@spherical_bessel_j0.backward
def _(grad, x):
    return grad * where(less(_absolute(x), 1e-3), x * (-1.0 / 3.0), (_cos(x) - _sin(x) / x) / x)


# Airy's function


@elementwise(promotion="float", namespace="special", refuses=wide_reals("airy_ai_cpu"))
def airy_ai(input):
    """Airy's function ``Ai``."""
    middle = chebyshev((minimum(maximum(input, -4.0), 2.0) + 1.0) * (1.0 / 3.0), series.AIRY_NEAR)
    high = maximum(input, 2.0)
    phase = high * _sqrt(high) * (2.0 / 3.0)
    growth = 4.0 * math.sqrt(2.0) * (2.0 / 3.0)
    right = chebyshev(growth / phase - 1.0, series.AIRY_POSITIVE) * _exp(-phase) * (0.5 / math.sqrt(math.pi))
    right = right / _sqrt(_sqrt(high))
    low = maximum(-input, 4.0)
    phase = low * _sqrt(low) * (2.0 / 3.0)
    t = (512.0 / 9.0) / (phase * phase) - 1.0
    sine, cosine = _sin(phase), _cos(phase)
    left = chebyshev(t, series.AIRY_F) * (sine + cosine) - chebyshev(t, series.AIRY_G) / phase * (cosine - sine)
    left = left / (_sqrt(_sqrt(low)) * math.sqrt(2.0 * math.pi))
    value = where(less(input, -4.0), left, where(less_equal(input, 2.0), middle, right))
    return where(is_infinite(input) | is_nan(input), math.nan, value)


@airy_ai.backward
def _(grad, input):
    return None
