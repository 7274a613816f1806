"""Comparisons, selection, logic and bits. Each operation is one definition; gradients derive from it unless a better one is declared."""

# Definitions are traced on expressions and run on numbers: their operands have no one type.
# pyright: basic
from __future__ import annotations

from ...ir.scalar import bitwise_and as _bitwise_and
from ...ir.scalar import bitwise_not as _bitwise_not
from ...ir.scalar import bitwise_or as _bitwise_or
from ...ir.scalar import bitwise_xor as _bitwise_xor
from ...ir.scalar import equal, is_infinite, is_nan, less, less_equal, not_equal, shift_left, shift_right, where
from ...ir.scalar import maximum as _maximum
from ...ir.scalar import minimum as _minimum
from ...ir.scalar import not_equal as _not_equal
from ...tensors.tensor import Tensor
from .call import elementwise
from .operand_kinds import is_integer as _is_integer
from .refusals import no_booleans

# Comparisons and selection


@elementwise(promotion="bool", tensors=1, rounds_numbers=True)
def eq(input, other):
    """``input == other``."""
    return equal(input, other)


@elementwise(promotion="bool", aliases=("not_equal",), tensors=1, rounds_numbers=True)
def ne(input, other):
    """``input != other``."""
    return _not_equal(input, other)


@elementwise(promotion="bool", aliases=("less",), tensors=1, rounds_numbers=True)
def lt(input, other):
    """``input < other``."""
    return less(input, other)


@elementwise(promotion="bool", aliases=("less_equal",), tensors=1, rounds_numbers=True)
def le(input, other):
    """``input <= other``."""
    return less_equal(input, other)


@elementwise(promotion="bool", aliases=("greater",), tensors=1, rounds_numbers=True)
def gt(input, other):
    """``input > other``."""
    return less(other, input)


@elementwise(promotion="bool", aliases=("greater_equal",), tensors=1, rounds_numbers=True)
def ge(input, other):
    """``input >= other``."""
    return less_equal(other, input)


@elementwise(promotion="bool", in_place=False)
def isnan(input):
    """Whether an element is NaN."""
    return not_equal(input, input) if _is_integer(input) else is_nan(input)


@elementwise(promotion="bool", in_place=False, like_nothing=(0, 1), in_two_steps=True)
def isinf(input):
    """Whether an element is infinite."""
    return not_equal(input, input) if _is_integer(input) else is_infinite(input)


@elementwise(promotion="bool", in_place=False, like_nothing=(0, 1))
def isfinite(input):
    """Whether an element is neither NaN nor infinite."""
    return equal(input, input) if _is_integer(input) else _bitwise_not(is_nan(input) | is_infinite(input))


@elementwise(tensors=2, gradients_decided=(1, 1))
def maximum(input, other):
    """The larger; NaN if either is."""
    return _maximum(input, other)


def _halved(grad, input, other):
    """Return what each of two operands gets where they are not unequal the wrong way: half where they are equal."""
    return where(equal(input, other), grad * 0.5, grad)


@maximum.backward
def _(grad, input, other):
    # Neither is the smaller where one is NaN: both get the gradient, as in PyTorch.
    part = _halved(grad, input, other)
    return where(less(input, other), 0.0, part), where(less(other, input), 0.0, part)


@elementwise(tensors=2, gradients_decided=(1, 1))
def minimum(input, other):
    """The smaller; NaN if either is."""
    return _minimum(input, other)


@minimum.backward
def _(grad, input, other):
    part = _halved(grad, input, other)
    return where(less(other, input), 0.0, part), where(less(input, other), 0.0, part)


@elementwise(tensors=2, gradients_decided=(1, 1))
def fmax(input, other):
    """The larger; a number wins over NaN."""
    if _is_integer(input):
        return _maximum(input, other)
    return where(is_nan(input), other, where(is_nan(other), input, _maximum(input, other)))


@fmax.backward
def _(grad, input, other):
    # Equal elements count as the first one's, as in PyTorch.
    first = less_equal(other, input) | is_nan(other)
    return where(first, grad, 0.0), where(first, 0.0, grad)


@elementwise(tensors=2, gradients_decided=(1, 1))
def fmin(input, other):
    """The smaller; a number wins over NaN."""
    if _is_integer(input):
        return _minimum(input, other)
    return where(is_nan(input), other, where(is_nan(other), input, _minimum(input, other)))


@fmin.backward
def _(grad, input, other):
    first = less_equal(input, other) | is_nan(other)
    return where(first, grad, 0.0), where(first, 0.0, grad)


def _limited_title(operands):
    return f"ClampBackward{int(not any(isinstance(each, Tensor) for each in operands[1:]))}"


@elementwise(
    method=False,
    namespace="internal",
    rounds_numbers=True,
    numbers_apart=True,
    title=_limited_title,
    refuses=no_booleans("clamp_cpu"),
    gradients_decided=(1, 1, 1),
)
def clamp_both(input, min, max):
    """``min(max(input, min), max)``."""
    # Of equal zeros the second is returned: the input, as in PyTorch.
    return _minimum(max, _maximum(min, input))


@clamp_both.backward
def _(grad, input, min, max):
    inside = less_equal(min, input) & less_equal(input, max)
    low = less(input, min) & less_equal(min, max)
    return where(inside, grad, 0.0), where(low, grad, 0.0), where(less(max, input) | less(max, min), grad, 0.0)


@elementwise(
    method=False,
    namespace="internal",
    rounds_numbers=True,
    numbers_apart=True,
    title=_limited_title,
    gradients_decided=(1, 1),
)
def clamp_low(input, min):
    """``max(input, min)``."""
    return _maximum(min, input)


@clamp_low.backward
def _(grad, input, min):
    return where(less_equal(min, input), grad, 0.0), where(less(input, min), grad, 0.0)


@elementwise(
    method=False,
    namespace="internal",
    rounds_numbers=True,
    numbers_apart=True,
    title=_limited_title,
    gradients_decided=(1, 1),
)
def clamp_high(input, max):
    """``min(input, max)``."""
    return _minimum(max, input)


@clamp_high.backward
def _(grad, input, max):
    return where(less_equal(input, max), grad, 0.0), where(less(max, input), grad, 0.0)


@elementwise(method=False, namespace="internal", title="WhereBackward0", decides=2, gradients_decided=(3, 3))
def select_(input, other, condition):
    """``input`` where the condition holds, else ``other``."""
    return where(not_equal(condition, 0), input, other)


# Logic and bits


@elementwise(promotion="bool")
def logical_not(input):
    """Whether an element is zero."""
    return equal(input, 0)


@elementwise(promotion="bool", tensors=2)
def logical_and(input, other):
    """Whether both are non-zero."""
    return _not_equal(input, 0) & _not_equal(other, 0)


@elementwise(promotion="bool", tensors=2)
def logical_or(input, other):
    """Whether either is non-zero."""
    return _not_equal(input, 0) | _not_equal(other, 0)


@elementwise(promotion="bool", tensors=2)
def logical_xor(input, other):
    """Whether exactly one is non-zero."""
    return _not_equal(input, 0) ^ _not_equal(other, 0)


@elementwise(whole=True)
def bitwise_and(input, other):
    """``input & other``."""
    return _bitwise_and(input, other)


@elementwise(whole=True)
def bitwise_or(input, other):
    """``input | other``."""
    return _bitwise_or(input, other)


@elementwise(whole=True)
def bitwise_xor(input, other):
    """``input ^ other``."""
    return _bitwise_xor(input, other)


@elementwise(whole=True, exact_out=True)
def bitwise_not(input):
    """``~input``."""
    return _bitwise_not(input)


@elementwise(whole=True, refuses=no_booleans("lshift_cpu"))
def bitwise_left_shift(input, other):
    """``input << other``."""
    return shift_left(input, other)


@elementwise(whole=True, refuses=no_booleans("rshift_cpu"))
def bitwise_right_shift(input, other):
    """``input >> other``."""
    return shift_right(input, other)
