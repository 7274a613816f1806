"""Orthogonal polynomials by their three-term recurrences, Chebyshev's also in closed form (DLMF 18.5, 18.9)."""

# Definitions are traced on expressions and run on numbers: their operands have no one type.
# pyright: basic
from __future__ import annotations

import math

from ...ir.dtypes import float64
from ...ir.expression import Expression
from ...ir.scalar import absolute as _absolute
from ...ir.scalar import acos as _acos
from ...ir.scalar import acosh as _acosh
from ...ir.scalar import cos as _cos
from ...ir.scalar import cosh as _cosh
from ...ir.scalar import equal, less, less_equal, truncate, where
from ...ir.scalar import fused_multiply_add as _fused
from ...ir.scalar import remainder as _remainder
from ...ir.scalar import sin as _sin
from ...ir.scalar import sinh as _sinh
from .call import elementwise
from .refusals import wide_reals

#: degrees up to which a tensor of degrees follows the recurrence
LARGEST_DEGREE = 40
_CHEBYSHEV_DEGREE = 30


# Sums are fused with the product before them, as compilers fuse PyTorch's: near a root that decides the first digits.


def _recurrence(n, first, second, following, largest):
    """Return member ``n`` of a sequence given by its first two and ``following(k, member, before)``."""
    result = where(less_equal(1.0, n), second, first)
    before, member = first, second
    for k in range(2, largest + 1):
        before, member = member, following(k, member, before)
        result = where(less_equal(float(k), n), member, result)
    return result


def _of_degree(degree, first, second, following):
    """Return the member of a degree known when the kernel is made."""
    before, member = first, second
    for k in range(2, degree + 1):
        before, member = member, following(k, member, before)
    return first if degree == 0 else member


def _polynomial(x, n, degree, second, following):
    """Return a polynomial of a tensor of degrees ``n``, or of the one ``degree`` given as a tuple."""
    if degree is not None:
        return x * 0.0 + _of_degree(degree[0], 1.0, second, following) if degree[0] >= 0 else x * 0.0
    n = truncate(n)
    value = _recurrence(n, 1.0 + x * 0.0, second, following, LARGEST_DEGREE)
    return where(less(n, 0.0), 0.0, where(less(float(LARGEST_DEGREE), n), math.nan, value))


def _hermite_limit(x, degree):
    """Return whether PyTorch gives NaN for a degree: the polynomial's values leave the range of its type."""
    largest = 512 if isinstance(x, Expression) and x.dtype is float64 else 128
    return degree is not None and degree[0] > largest


@elementwise(promotion="float", namespace="internal", method=False, refuses=wide_reals("hermite_polynomial_h_cpu"))
def hermite_h_(input, n, *, degree=None):
    """The physicists' Hermite polynomial of degree n."""
    if _hermite_limit(input, degree):
        return input * math.nan
    twice = input + input
    return _polynomial(input, n, degree, twice, lambda k, p, before: _fused(twice, p, before * (2.0 - 2.0 * k)))


@elementwise(promotion="float", namespace="internal", method=False, refuses=wide_reals("hermite_polynomial_he_cpu"))
def hermite_he_(input, n, *, degree=None):
    """The probabilists' Hermite polynomial of degree n."""
    if _hermite_limit(input, degree):
        return input * math.nan
    return _polynomial(input, n, degree, input, lambda k, p, before: _fused(input, p, before * (1.0 - k)))


@elementwise(promotion="float", namespace="internal", method=False, refuses=wide_reals("laguerre_polynomial_l_cpu"))
def laguerre_l_(input, n, *, degree=None):
    """The Laguerre polynomial of degree n."""
    rest = 1.0 - input

    def following(k, p, before):
        return _fused(2.0 * k - 2.0 + rest, p, before * (1.0 - k)) / float(k)

    return _polynomial(input, n, degree, rest, following)


@elementwise(promotion="float", namespace="internal", method=False, refuses=wide_reals("legendre_polynomial_p_cpu"))
def legendre_p_(input, n, *, degree=None):
    """The Legendre polynomial of degree n."""

    def following(k, p, before):
        return _fused((2.0 * k - 1.0) * input, p, before * (1.0 - k)) / float(k)

    return _polynomial(input, n, degree, input, following)


# Chebyshev polynomials


def _chebyshev(x, n, kind):
    """Return a Chebyshev polynomial: trigonometric inside [-1, 1], the recurrence outside, hyperbolic for high degrees."""
    n = truncate(n)
    twice = x + x
    second = {"t": x, "u": twice, "v": twice - 1.0, "w": twice + 1.0}[kind]
    direct = _recurrence(n, 1.0 + x * 0.0, second, lambda k, p, before: _fused(twice, p, -before), _CHEBYSHEV_DEGREE)
    sign = where(equal(_remainder(n, 2.0), 0.0), 1.0, -1.0)
    positive = less(0.0, x)
    distance = _acosh(_absolute(x))
    value = where(less(float(_CHEBYSHEV_DEGREE), n), _outside(n, distance, positive, sign, kind), direct)
    inside = less(_absolute(x), 1.0) & less(6.0 if kind == "t" else 8.0, n)
    value = where(inside, _inside(n, _acos(x), kind), value)
    value = where(equal(_absolute(x), 1.0), _at_end(n, positive, sign, kind), value)
    return where(less(n, 0.0), 0.0, value)


def _inside(n, angle, kind):
    if kind == "t":
        return _cos(n * angle)
    if kind == "u":
        return _sin((n + 1.0) * angle) / _sin(angle)
    if kind == "v":
        return _cos((n + 0.5) * angle) / _cos(angle * 0.5)
    return _sin((n + 0.5) * angle) / _sin(angle * 0.5)


def _outside(n, distance, positive, sign, kind):
    """Beyond 1; a negative argument gives the sign of the degree, and exchanges the third and fourth kinds."""
    if kind == "t":
        return where(positive, 1.0, sign) * _cosh(n * distance)
    if kind == "u":
        return where(positive, 1.0, sign) * (_sinh((n + 1.0) * distance) / _sinh(distance))
    even = _cosh((n + 0.5) * distance) / _cosh(distance * 0.5)
    odd = _sinh((n + 0.5) * distance) / _sinh(distance * 0.5)
    return where(positive, even, sign * odd) if kind == "v" else where(positive, odd, sign * even)


def _at_end(n, positive, sign, kind):
    if kind == "t":
        return where(positive, 1.0, sign)
    if kind == "u":
        return where(positive, 1.0, sign) * (n + 1.0)
    long = n + n + 1.0
    return where(positive, 1.0, sign * long) if kind == "v" else where(positive, long, sign)


def _shifted(x, n, kind):
    """Return a polynomial shifted to [0, 1]."""
    return _chebyshev(x + x - 1.0, n, kind)


@elementwise(promotion="float", namespace="special", refuses=wide_reals("chebyshev_polynomial_t_cpu"))
def chebyshev_polynomial_t(input, n):
    """The Chebyshev polynomial of the first kind of degree n."""
    return _chebyshev(input, n, "t")


@elementwise(promotion="float", namespace="special", refuses=wide_reals("chebyshev_polynomial_u_cpu"))
def chebyshev_polynomial_u(input, n):
    """The Chebyshev polynomial of the second kind of degree n."""
    return _chebyshev(input, n, "u")


@elementwise(promotion="float", namespace="special", refuses=wide_reals("chebyshev_polynomial_v_cpu"))
def chebyshev_polynomial_v(input, n):
    """The Chebyshev polynomial of the third kind of degree n."""
    return _chebyshev(input, n, "v")


@elementwise(promotion="float", namespace="special", refuses=wide_reals("chebyshev_polynomial_w_cpu"))
def chebyshev_polynomial_w(input, n):
    """The Chebyshev polynomial of the fourth kind of degree n."""
    return _chebyshev(input, n, "w")


@elementwise(promotion="float", namespace="special", refuses=wide_reals("shifted_chebyshev_polynomial_t_cpu"))
def shifted_chebyshev_polynomial_t(input, n):
    """The Chebyshev polynomial of the first kind of degree n, shifted to [0, 1]."""
    return _shifted(input, n, "t")


@elementwise(promotion="float", namespace="special", refuses=wide_reals("shifted_chebyshev_polynomial_u_cpu"))
def shifted_chebyshev_polynomial_u(input, n):
    """The Chebyshev polynomial of the second kind of degree n, shifted to [0, 1]."""
    return _shifted(input, n, "u")


@elementwise(promotion="float", namespace="special", refuses=wide_reals("shifted_chebyshev_polynomial_v_cpu"))
def shifted_chebyshev_polynomial_v(input, n):
    """The Chebyshev polynomial of the third kind of degree n, shifted to [0, 1]."""
    return _shifted(input, n, "v")


@elementwise(promotion="float", namespace="special", refuses=wide_reals("shifted_chebyshev_polynomial_w_cpu"))
def shifted_chebyshev_polynomial_w(input, n):
    """The Chebyshev polynomial of the fourth kind of degree n, shifted to [0, 1]."""
    return _shifted(input, n, "w")


for _function in (
    hermite_h_, hermite_he_, laguerre_l_, legendre_p_, chebyshev_polynomial_t, chebyshev_polynomial_u,
    chebyshev_polynomial_v, chebyshev_polynomial_w, shifted_chebyshev_polynomial_t, shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v, shifted_chebyshev_polynomial_w,
):  # fmt: skip
    # PyTorch differentiates none of them.
    _function.backward(lambda grad, *_: (None, None))
