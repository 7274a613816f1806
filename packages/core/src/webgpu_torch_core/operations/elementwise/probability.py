"""The normal distribution, its logarithm and quantiles, the scaled error function, entropy."""

# Definitions are traced on expressions and run on numbers: their operands have no one type.
# pyright: basic
from __future__ import annotations

import math

from ...dispatch.titles import by_numbers
from ...ir.scalar import absolute as _absolute
from ...ir.scalar import equal, is_nan, less, maximum, where
from ...ir.scalar import erf as _erf
from ...ir.scalar import erfc as _erfc
from ...ir.scalar import erfinv as _erfinv
from ...ir.scalar import exp as _exp
from ...ir.scalar import log as _log
from ...ir.scalar import log1p as _log1p
from ...ir.scalar import sqrt as _sqrt
from . import approximations as series
from .approximations import chebyshev
from .call import elementwise
from .refusals import wide_reals

_ROOT_HALF = math.sqrt(0.5)


def _erfcx(x):
    magnitude = _absolute(x)
    positive = chebyshev(1.0 - 8.0 / (magnitude + 4.0), series.ERFCX) / (1.0 + 2.0 * magnitude)
    return where(less(x, 0.0), 2.0 * _exp(x * x) - positive, positive)


@elementwise(
    promotion="float",
    namespace="special",
    gradients_decided=(1,),
    title="SpecialErfcxBackward0",
    refuses=wide_reals("erfcx_cpu"),
)
def erfcx(input):
    """``exp(input**2) erfc(input)``."""
    return _erfcx(input)


@erfcx.backward
def _(grad, input):
    return grad * (2.0 * input * _erfcx(input) - 2.0 / math.sqrt(math.pi))


@elementwise(promotion="float", namespace="special", gradients_decided=(1,), title="MulBackward1")
def ndtr(input):
    """The standard normal distribution function."""
    t = input * _ROOT_HALF
    tail = 0.5 * _erfc(_absolute(t))
    return where(less(_absolute(t), 1.0), 0.5 + 0.5 * _erf(t), where(less(0.0, t), 1.0 - tail, tail))


@ndtr.backward
def _(grad, input):
    return grad * _exp(input * input * -0.5) * (1.0 / math.sqrt(2.0 * math.pi))


def _log_ndtr(x):
    t = x * _ROOT_HALF
    # Beyond -1 the scaled function keeps what the distribution function would lose to underflow.
    tail = _log(_erfcx(maximum(-t, 0.0)) * 0.5) - t * t
    return where(less(x, -1.0), tail, _log1p(_erfc(t) * -0.5))


@elementwise(
    promotion="float", namespace="special", title="SpecialLogNdtrBackward0", refuses=wide_reals("log_ndtr_cpu")
)
def log_ndtr(input):
    """The logarithm of the standard normal distribution function."""
    return _log_ndtr(input)


@log_ndtr.backward
def _(grad, input):
    return grad * _exp(-(_log_ndtr(input) + input * input * 0.5)) * (1.0 / math.sqrt(2.0 * math.pi))


def _ndtri(p):
    """The normal quantile: by erfinv in the middle, in the tails y - log(y) / y and a series, y = sqrt(-2 log(p))."""
    border = math.exp(-2.0)
    upper = less(1.0 - border, p)
    tail = where(upper, 1.0 - p, p)
    y = maximum(_sqrt(_log(tail) * -2.0), 2.0)
    outer = y - _log(y) / y + chebyshev((80.0 / y - 21.0) * (1.0 / 19.0), series.NDTRI)
    middle = _erfinv(2.0 * p - 1.0) * math.sqrt(2.0)
    value = where(less(tail, border), where(upper, outer, -outer), middle)
    value = where(equal(p, 0.0), -math.inf, where(equal(p, 1.0), math.inf, value))
    return where(less(p, 0.0) | less(1.0, p), math.nan, value)


@elementwise(promotion="float", namespace="special", title="SpecialNdtriBackward0", refuses=wide_reals("ndtri_cpu"))
def ndtri(input):
    """The quantile function of the standard normal distribution."""
    return _ndtri(input)


@ndtri.backward
def _(grad, input):
    quantile = _ndtri(input)
    return grad * _exp(quantile * quantile * 0.5) * math.sqrt(2.0 * math.pi)


@elementwise(promotion="float", namespace="special", title="SpecialEntrBackward0")
def entr(input):
    """``-input log(input)``, 0 at 0 and minus infinity below."""
    value = where(less(0.0, input), -input * _log(input), where(equal(input, 0.0), 0.0, -math.inf))
    return where(is_nan(input), input, value)


@entr.backward
def _(grad, input):
    return grad * (-_log(input) - 1.0)


@elementwise(promotion="float", namespace="special", gradients_decided=(1,), title=by_numbers("SpecialXlog1Py"))
def xlog1py(input, other):
    """``input log1p(other)``, 0 where ``input`` is 0 and ``other`` is not NaN."""
    value = where(equal(input, 0.0), 0.0, input * _log1p(other))
    return where(is_nan(other), other, value)


@xlog1py.backward
def _(grad, input, other):
    # PyTorch's is xlog1py of the gradient: none is none, wherever it comes from.
    nothing = (equal(input, 0.0) & (less(other, -1.0) | equal(other, -1.0))) | equal(grad, 0.0)
    return grad * where(nothing, 0.0, _log1p(other)), grad * input / (other + 1.0)
