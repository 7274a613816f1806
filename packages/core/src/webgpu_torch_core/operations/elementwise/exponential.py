"""Exponentials, logarithms and trigonometry. Each operation is one definition; gradients derive from it unless a better one is declared."""

# Definitions are traced on expressions and run on numbers: their operands have no one type.
# pyright: basic
from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...dispatch.titles import by_numbers
from ...ir.scalar import absolute as _absolute
from ...ir.scalar import acos as _acos
from ...ir.scalar import acosh as _acosh
from ...ir.scalar import asin as _asin
from ...ir.scalar import asinh as _asinh
from ...ir.scalar import atan as _atan
from ...ir.scalar import atan2 as _atan2
from ...ir.scalar import atanh as _atanh
from ...ir.scalar import cos as _cos
from ...ir.scalar import cosh as _cosh
from ...ir.scalar import equal, is_infinite, is_nan, less, less_equal, where
from ...ir.scalar import exp as _exp
from ...ir.scalar import exp2 as _exp2
from ...ir.scalar import expm1 as _expm1
from ...ir.scalar import log as _log
from ...ir.scalar import log1p as _log1p
from ...ir.scalar import log2 as _log2
from ...ir.scalar import log10 as _log10
from ...ir.scalar import maximum as _maximum
from ...ir.scalar import minimum as _minimum
from ...ir.scalar import sin as _sin
from ...ir.scalar import sinh as _sinh
from ...ir.scalar import tan as _tan
from ...ir.scalar import tanh as _tanh
from .call import elementwise
from .refusals import floats_only

if TYPE_CHECKING:
    from ...ir.expression import Expression

DEGREE = math.pi / 180.0
LOG2 = math.log(2.0)

# Exponentials and logarithms


@elementwise(promotion="float", saves_result=True)
def exp(input):
    """``e ** input``."""
    return _exp(input)


@elementwise(promotion="float", aliases=("special_exp2",), saves_result=True)
def exp2(input):
    """``2 ** input``."""
    return _exp2(input)


@elementwise(promotion="float", saves_result=True)
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


@elementwise(promotion="float", title="Log1PBackward0")
def log1p(input):
    """``log(1 + input)``, accurate near 0."""
    return _log1p(input)


@elementwise(promotion="float", tensors=2, refuses=floats_only("logaddexp_cpu"))
def logaddexp(input, other):
    """``log(exp(input) + exp(other))`` without overflow."""
    high, low = _maximum(input, other), _minimum(input, other)
    same = is_infinite(input) & equal(input, other)
    return where(same, input, high + _log1p(_exp(low - high)))


@logaddexp.backward
def _(grad, input, other):
    return grad / (1.0 + _exp(other - input)), grad / (1.0 + _exp(input - other))


@elementwise(promotion="float", tensors=2, refuses=floats_only("logaddexp2_cpu"))
def logaddexp2(input, other):
    """``log2(2**input + 2**other)`` without overflow."""
    high, low = _maximum(input, other), _minimum(input, other)
    same = is_infinite(input) & equal(input, other)
    return where(same, input, high + _log1p(_exp2(low - high)) * (1.0 / LOG2))


@logaddexp2.backward
def _(grad, input, other):
    return grad / (1.0 + _exp2(other - input)), grad / (1.0 + _exp2(input - other))


@elementwise(
    promotion="float",
    aliases=("special_xlogy",),
    rounds_numbers=True,
    gradients_decided=(1,),
    title=by_numbers("Xlogy"),
)
def xlogy(input, other):
    """``input * log(other)``, 0 where input is 0 and other is not NaN."""
    return where(is_nan(other), other, where(equal(input, 0.0), 0.0, input * _log(other)))


@xlogy.backward
def _(grad, input, other):
    # PyTorch's is xlogy of the gradient: none is none, wherever it comes from.
    zero = (equal(input, 0.0) & less_equal(other, 0.0)) | equal(grad, 0.0)
    return where(zero, 0.0, grad * _log(other)), grad * input / other


@elementwise(promotion="float", saves_result=True)
def sigmoid(input):
    """``1 / (1 + exp(-input))``."""
    return 1.0 / (1.0 + _exp(-input))


@sigmoid.backward
def _(grad, input):
    result = 1.0 / (1.0 + _exp(-input))
    return grad * result * (1.0 - result)


@elementwise(promotion="float", method=False, namespace="internal", title="LogitBackward0")
def logit_(input):
    """``log(input / (1 - input))``."""
    return _log(input / (1.0 - input))


@logit_.backward
def _(grad, input):
    inside = less_equal(0.0, input) & less_equal(input, 1.0)
    return where(inside, grad / _absolute(input * (1.0 - input)), math.nan)


@elementwise(promotion="float", method=False, namespace="internal", title="LogitBackward0")
def limited_logit_(input: Expression, *, low: float = 0.0, high: float = 1.0) -> Expression:
    """``log(kept / (1 - kept))`` of the input kept in ``[low, high]``; where the limits cross, ``low`` comes first."""
    kept = where(less(input, low), low, where(less(high, input), high, input))
    return _log(kept / (1.0 - kept))


@limited_logit_.backward
def _(grad: Expression, input: Expression, low: float, high: float) -> Expression:
    # The magnitude: both zeros are one end of the interval, whatever their signs. NaN is beyond no limit.
    return where(less(input, low) | less(high, input), 0.0, grad / _absolute(input * (1.0 - input)))


# Trigonometry


@elementwise(promotion="float")
def sin(input):
    """The sine of radians."""
    return _sin(input)


@elementwise(promotion="float")
def cos(input):
    """The cosine of radians."""
    return _cos(input)


@elementwise(promotion="float", saves_result=True)
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


@elementwise(promotion="float", aliases=("arctan2",), tensors=2)
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


@elementwise(promotion="float", saves_result=True)
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


@elementwise(promotion="float", gradients_decided=(1,))
def sinc(input):
    """``sin(pi * input) / (pi * input)``, 1 at 0."""
    angle = input * math.pi
    return where(equal(input, 0.0), 1.0, _sin(angle) / angle)


@sinc.backward
def _(grad, input):
    angle = input * math.pi
    square = angle * input
    return where(equal(square, 0.0), 0.0, grad * ((angle * _cos(angle) - _sin(angle)) / square))


@elementwise(promotion="float", title="Deg2RadBackward0", like_nothing=(0, 1, 2))
def deg2rad(input):
    """Degrees in radians."""
    return input * DEGREE


@elementwise(promotion="float", title="Rad2DegBackward0", like_nothing=(0, 1, 2))
def rad2deg(input):
    """Radians in degrees."""
    return input * (1.0 / DEGREE)
