"""Rounding, signs and special functions. Each operation is one definition; gradients derive from it unless a better one is declared."""

# Definitions are traced on expressions and run on numbers: their operands have no one type.
# pyright: basic
from __future__ import annotations

from ...ir.dtypes import bool_
from ...ir.expression import Expression
from ...ir.scalar import ceil as _ceil
from ...ir.scalar import copysign as _copysign
from ...ir.scalar import digamma as _digamma
from ...ir.scalar import equal, less, round_half_even, sign_bit, trigamma, truncate, where
from ...ir.scalar import erf as _erf
from ...ir.scalar import erfc as _erfc
from ...ir.scalar import erfinv as _erfinv
from ...ir.scalar import floor as _floor
from ...ir.scalar import fused_multiply_add as _fused
from ...ir.scalar import lgamma as _lgamma
from ...ir.scalar import next_after as _next_after
from ...ir.scalar import sign as _sign
from ...tensors.tensor import Tensor
from .call import elementwise
from .operand_kinds import is_integer as _is_integer
from .refusals import floats_only, no_booleans

# Rounding and signs


@elementwise(refuses=no_booleans("ceil_vml_cpu"), exact_out=True)
def ceil(input):
    """The least integer not below."""
    return input if _is_integer(input) else _ceil(input)


@elementwise(refuses=no_booleans("floor_vml_cpu"), exact_out=True)
def floor(input):
    """The greatest integer not above."""
    return input if _is_integer(input) else _floor(input)


@elementwise(aliases=("fix",), refuses=no_booleans("trunc_vml_cpu"), exact_out=True)
def trunc(input):
    """The integer part, towards zero."""
    return input if _is_integer(input) else truncate(input)


@elementwise(refuses=floats_only("frac_cpu"), exact_out=True)
def frac(input):
    """``input - trunc(input)``."""
    return input - truncate(input)


@frac.backward
def _(grad, input):
    return grad


@elementwise(promotion="float", namespace="internal", method=False)
def lost_position_(
    coordinate: Expression, position: Expression, *, scale: float = 1.0, offset: float = 0.0
) -> Expression:
    """``(coordinate + 1) * scale + offset - position``: what rounding took from a position of about that value.

    Counted from the middle, the left or the right end, whichever is near, where the sums are exact. (The errors of a sum and a product
    can be computed in fewer steps, but drivers take ``(x + y) - x`` for ``y``.)
    """
    middle = _fused(coordinate, scale, (scale + offset) - position)
    left = _fused(1.0 + coordinate, scale, -position) + offset
    right = _fused(1.0 - coordinate, -scale, (scale + scale + offset) - position)
    return where(less(coordinate, -0.5), left, where(less(0.5, coordinate), right, middle))


@elementwise(method=False, namespace="internal", refuses=no_booleans("round_vml_cpu"))
def round_(input):
    """The nearest integer, ties to even."""
    return input if _is_integer(input) else round_half_even(input)


@elementwise(method=False, namespace="internal", refuses=floats_only("round_cpu"), title="RoundBackward1")
def round_decimals_(input, *, scale=1.0):
    """The nearest multiple of ``1 / scale``, ties to even."""
    return round_half_even(input * scale) / scale


@elementwise(exact_out=True)
def sign(input):
    """-1, 0 or 1."""
    return input if isinstance(input, Expression) and input.dtype is bool_ else _sign(input)


@elementwise(promotion="bool", in_place=False, exact_out=True)
def signbit(input):
    """Whether the sign bit is set."""
    return less(input, 0) if _is_integer(input) else sign_bit(input)


def _copysign_title(operands: tuple[object, ...]) -> str:
    return f"CopysignBackward{int(not isinstance(operands[1], Tensor))}"


@elementwise(promotion="float", tensors=1, title=_copysign_title)
def copysign(input, other):
    """The magnitude of input with the sign of other."""
    return _copysign(input, other)


@elementwise(promotion="float", method=False, namespace="internal", refuses=floats_only("nextafter_cpu"))
def nextafter_(input, other):
    """The next float after input towards other."""
    return _next_after(input, other)


@nextafter_.backward
def _(grad, input, other):
    # The direction has no gradient, nor has a number that stays, as in PyTorch.
    return where(equal(input, other), 0.0, grad), where(equal(grad, grad), 0.0, 0.0)


# Special functions


@elementwise(promotion="float", gradients_decided=(1,))
def erf(input):
    """The error function."""
    return _erf(input)


@elementwise(promotion="float", gradients_decided=(1,))
def erfc(input):
    """``1 - erf(input)``."""
    return _erfc(input)


@elementwise(promotion="float", gradients_decided=(1,))
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
    return grad * trigamma(input)
