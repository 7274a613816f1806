"""How random values of gamma distributions change with the concentration at the same random choice.

A value x with the distribution function F(x; a) moves by ``-(dF/da) / (dF/dx)`` (M. Figurnov, S. Mohamed, A. Mnih,
"Implicit reparameterization gradients", 2018). dF/da is an integral of the density times the score, whose own integral
over everything is nothing: of the parts below and above x the one is taken in which the score keeps its sign, so that
nothing cancels, divided by the density under the integral, over the logarithm of values, in which
the density is log-concave, and computed by Gauss's quadrature.
"""

# Definitions are traced on expressions and run on numbers: their operands have no one type.
# pyright: basic
from __future__ import annotations

from ...ir.dtypes import float32
from ...ir.expression import Expression
from ...ir.scalar import digamma as _digamma
from ...ir.scalar import exp as _exp
from ...ir.scalar import expm1 as _expm1
from ...ir.scalar import less, less_equal, maximum, minimum, where
from ...ir.scalar import log as _log
from ...ir.scalar import sqrt as _sqrt
from .approximations import FEWER_NODES, FEWER_WEIGHTS, NODES, WEIGHTS
from .call import elementwise

#: below it the series is taken for values that are not above the mean
_SMALL = 8.0
_TINY = 1.1754943508222875e-38


def _is_wide(x):
    return not (isinstance(x, Expression) and x.dtype is float32)


def _nodes(wide):
    """Return nodes between 0 and 1, their weights, and how many nepers down the integral may end."""
    nodes, weights = (NODES, WEIGHTS) if wide else (FEWER_NODES, FEWER_WEIGHTS)
    pairs = []
    for node, weight in zip(nodes, weights, strict=True):
        pairs += [(0.5 + 0.5 * node, 0.5 * weight), (0.5 - 0.5 * node, 0.5 * weight)]
    return pairs, 36.0 if wide else 18.0


def _gamma_series(a, x):
    """By the derivative of ``F = x f(x) sum(x**k / (a (a + 1) … (a + k)))``; good below the mean."""
    term = total = 1.0
    falling = harmonic = 0.0
    for index in range(1, 48 if _is_wide(x) else 24):
        inverse = 1.0 / (a + float(index))
        term = term * (x * inverse)
        harmonic = harmonic + inverse
        total = total + term
        falling = falling - term * harmonic
    return -(x / a) * ((_log(x) - _digamma(a + 1.0)) * total + falling)


def _gamma_integral(a, x):
    """By quadrature over the logarithm of values, away from x."""
    pairs, depth = _nodes(_is_wide(x))
    score = _log(x) - _digamma(a)
    side = where(less_equal(0.0, score), 1.0, -1.0)
    # The integrand's logarithm falls by ``x (exp(v) - 1) - a v``, at first about as ``away |v| + x v**2 / 2``; Newton's
    # method, from there, finds where it has fallen far enough.
    away = side * (x - a)
    end = 2.0 * depth / (away + _sqrt(away * away + 2.0 * depth * x))
    for _ in range(3):
        signed = side * end
        fallen = x * _expm1(signed) - a * signed
        slope = side * (x * _exp(signed) - a)
        nearer = end - (fallen - depth) / slope
        end = where(less(0.0, slope) & less(0.0, nearer), nearer, end)
    total = 0.0
    for node, weight in pairs:
        at = end * node
        signed = side * at
        total = total + weight * _exp(a * signed - x * _expm1(signed)) * (side * score + at)
    return x * end * total


@elementwise(promotion="float", tensors=2, namespace="internal", method=False)
def gamma_sensitivity_(input, other):
    """The change of a gamma value ``other`` of rate 1 with its concentration ``input``."""
    x = maximum(other, _TINY)
    series = less(input, _SMALL) & less(x, input + 0.5)
    near = where(series, x, input)
    far = where(series, maximum(input, 1.0) + 1.0, x)
    return where(series, _gamma_series(minimum(input, _SMALL), near), _gamma_integral(input, far))
