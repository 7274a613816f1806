"""Zeta and polygamma functions, incomplete gamma functions."""

# Definitions are traced on expressions and run on numbers: their operands have no one type.
# pyright: basic
from __future__ import annotations

import math

from ...ir.dtypes import float32
from ...ir.expression import Expression
from ...ir.scalar import absolute as _absolute
from ...ir.scalar import digamma as _digamma
from ...ir.scalar import equal, is_infinite, less, less_equal, maximum, minimum, not_equal, power, trigamma, where
from ...ir.scalar import exp as _exp
from ...ir.scalar import floor as _floor
from ...ir.scalar import lgamma as _lgamma
from ...ir.scalar import log as _log
from ...ir.scalar import log1p as _log1p
from ...ir.scalar import sqrt as _sqrt
from .approximations import FEWER_NODES, FEWER_WEIGHTS, NODES, WEIGHTS
from .call import elementwise
from .refusals import floats_only, wide_reals

# The Hurwitz zeta function

#: ``B(2k) / (2k)!`` for k = 1 to 12, of the Euler-Maclaurin formula
_BERNOULLI = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000, 43867 / 5109094217170944000, -174611 / 802857662698291200000,
    77683 / 14101100039391805440000, -236364091 / 1693824136731743669452800000,
)  # fmt: skip

_TERMS = 9
#: further terms for negative arguments, which must be shifted beyond the poles
_SHIFTS = 20


def _zeta(x, q, negative_power):
    """Sum ``(q + k)**-x``: nine terms or up to 9, then the Euler-Maclaurin formula (DLMF 25.11.5)."""
    total = negative_power(q)
    at, term = q, total
    for index in range(_TERMS + _SHIFTS):
        more = less_equal(at, float(_TERMS)) if index >= _TERMS else None
        following = at + 1.0
        added = negative_power(following)
        at = following if more is None else where(more, following, at)
        term = added if more is None else where(more, added, term)
        total = total + (added if more is None else where(more, added, 0.0))
    rest = term * at / (x - 1.0) - 0.5 * term
    inverse = 1.0 / at
    factor = x * term * inverse
    for index, coefficient in enumerate(_BERNOULLI):
        rest = rest + factor * coefficient
        factor = factor * ((x + (2.0 * index + 1.0)) * inverse) * ((x + (2.0 * index + 2.0)) * inverse)
    # Where the terms have vanished there is nothing to add; the formula's factors may overflow there.
    total = where(less(_absolute(term), _absolute(total) * 1e-17), total, total + rest)
    return where(less(at, float(_TERMS) - 1.0), math.nan, total)


def _hurwitz(x, q):
    total = _zeta(x, q, lambda base: power(base, -x))
    at_pole = less_equal(q, 0.0) & equal(q, _floor(q))
    undefined = less(q, 0.0) & not_equal(x, _floor(x))
    value = where(at_pole, math.inf, where(undefined, math.nan, total))
    return where(equal(x, 1.0), math.inf, where(less(x, 1.0), math.nan, value))


@elementwise(promotion="float", namespace="special", title="SpecialZetaBackward0", refuses=wide_reals("zeta_cpu"))
def zeta(input, other):
    """The Hurwitz zeta function ``sum((k + other)**-input for k = 0, 1, …)``; NaN for ``other`` below -20."""
    return _hurwitz(input, other)


@zeta.backward
def _(grad, input, other):
    return None, -grad * input * _hurwitz(input + 1.0, other)


zeta.operation.refused = {0: NotImplementedError("the derivative for 'zeta' is not implemented.")}


def _polygamma(x, order):
    if order == 0:
        return _digamma(x)
    if order == 1:
        return trigamma(x)
    pole = less_equal(x, 0.0) & equal(x, _floor(x))
    total = _zeta(float(order + 1), x, lambda base: _integer_power(1.0 / base, order + 1))
    return where(pole, math.inf, total) * (math.factorial(order) * (1.0 if order % 2 else -1.0))


def _integer_power(x, exponent):
    result = None
    while exponent:
        if exponent % 2:
            result = x if result is None else result * x
        x = x * x
        exponent //= 2
    return result


@elementwise(promotion="float", namespace="internal", method=False)
def polygamma_(input, *, order=(0,)):
    """The derivative of digamma of an order, by which the kernel is specialised."""
    return _polygamma(input, order[0])


@polygamma_.backward
def _(grad, input, order):
    return grad * _polygamma(input, order[0] + 1)


# Incomplete gamma functions

#: where the density is integrated instead
_LARGE = 100.0
#: enough terms of the series and of the continued fraction below it: for float32, and for more precise numbers
_GAMMA_TERMS = (64, 90)


def _is_wide(x):
    return not (isinstance(x, Expression) and x.dtype is float32)


def _prefix(a, x):
    """``x**a exp(-x) / gamma(a)``; for large a by Stirling's formula, whose logarithm does not cancel."""
    small = _exp(a * _log(x) - x - _lgamma(minimum(a, 8.0)))
    base = maximum(a, 8.0)
    offset = (x - base) / base
    inverse = 1.0 / base
    square = inverse * inverse
    correction = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680))))
    logarithm = where(less(offset, -0.9), _log(x / base), _log1p(offset))
    large = _sqrt(base * (0.5 / math.pi)) * _exp(-base * (offset - logarithm) - correction)
    return where(less(a, 8.0), small, large)


def _series(a, x):
    """The lower function without its prefix: ``sum(x**k / (a (a + 1) … (a + k)))`` (DLMF 8.11.4)."""
    term = 1.0 / a
    total = term
    for index in range(1, _GAMMA_TERMS[_is_wide(x)]):
        term = term * (x / (a + float(index)))
        total = total + term
    return total


def _fraction(a, x):
    """The upper function without its prefix, by Legendre's continued fraction (DLMF 8.9.2) from its end."""
    terms = _GAMMA_TERMS[_is_wide(x)]
    value = x + (2.0 * terms + 1.0) - a
    for index in range(terms, 0, -1):
        value = x + (2.0 * index - 1.0) - a - float(index) * (float(index) - a) / value
    return 1.0 / value


def _quadrature(a, x):
    """The density's integral from x outwards, for large a: it has ended so many standard deviations from its peak."""
    nodes, weights, deviations = (NODES, WEIGHTS, 12.0) if _is_wide(a) else (FEWER_NODES, FEWER_WEIGHTS, 7.0)
    width = _sqrt(a) * deviations + 20.0
    above = less(a - 1.0, x)
    end = where(above, maximum(a, x) + width, maximum(minimum(a, x) - width, 0.0))
    half, middle = (end - x) * 0.5, (end + x) * 0.5
    inverse = 1.0 / a
    total = 0.0
    for node, weight in zip(nodes, weights, strict=True):
        for t in (middle + half * node, middle - half * node):
            # Above the logarithm's pole, where rounding may put a t that is nothing beside a.
            offset = maximum((t - a) * inverse, -0.9999999)
            logarithm = _log1p(offset)
            total = total + weight * _exp(-a * (offset - logarithm) - logarithm)
    square = inverse * inverse
    correction = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260)))
    return above, _absolute(half) * total * _exp(-correction) * inverse * _sqrt(a * (0.5 / math.pi))


def _incomplete(a, x, upper):
    """The regularised upper or lower function."""
    prefix = _prefix(a, x)
    small = minimum(a, _LARGE)
    border = maximum(small, 1.0)
    below = less_equal(x, border)
    first = prefix * _series(small, minimum(x, border))
    second = prefix * _fraction(small, maximum(x, border))
    above, tail = _quadrature(maximum(a, _LARGE), x)
    if upper:
        value = where(below, 1.0 - first, second)
        far = where(above, tail, 1.0 - tail)
    else:
        value = where(below, first, 1.0 - second)
        far = where(above, 1.0 - tail, tail)
    value = where(less(_LARGE, a), far, value)
    start, end = (1.0, 0.0) if upper else (0.0, 1.0)
    value = where(is_infinite(x), end, value)
    value = where(is_infinite(a), where(is_infinite(x), math.nan, start), value)
    value = where(equal(x, 0.0), start, value)
    value = where(equal(a, 0.0), where(less(0.0, x), end, math.nan), value)
    return where(less(x, 0.0) | less(a, 0.0), math.nan, value)


def _density(grad, a, x):
    return grad * _exp((a - 1.0) * _log(x) - x - _lgamma(a))


@elementwise(promotion="float", tensors=2, refuses=floats_only("igamma_cpu"))
def igamma(input, other):
    """The regularised lower incomplete gamma function ``P(input, other)``."""
    return _incomplete(input, other, False)


@igamma.backward
def _(grad, input, other):
    return None, _density(grad, input, other)


igamma.operation.refused = {0: NotImplementedError("the derivative for 'igamma: input' is not implemented.")}


@elementwise(promotion="float", tensors=2, refuses=floats_only("igammac_cpu"))
def igammac(input, other):
    """The regularised upper incomplete gamma function ``Q(input, other)``."""
    return _incomplete(input, other, True)


@igammac.backward
def _(grad, input, other):
    return None, -_density(grad, input, other)


igammac.operation.refused = {0: NotImplementedError("the derivative for 'igammac: input' is not implemented.")}
