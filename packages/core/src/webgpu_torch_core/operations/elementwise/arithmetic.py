"""Arithmetic on elements. Each operation is one definition; gradients derive from it unless a better one is declared."""

# Definitions are traced on expressions and run on numbers: their operands have no one type.
# pyright: basic
from __future__ import annotations

from ...dispatch.titles import by_second
from ...ir.dtypes import bool_, int64
from ...ir.expression import Expression
from ...ir.scalar import absolute as _absolute
from ...ir.scalar import bitwise_and as _bitwise_and
from ...ir.scalar import floor_divide as _floor_divide
from ...ir.scalar import fmod as _fmod
from ...ir.scalar import hypot as _hypot
from ...ir.scalar import less, power, reciprocal_sqrt, truncate, where
from ...ir.scalar import remainder as _remainder
from ...ir.scalar import sqrt as _sqrt
from ...ir.scalar import truncate_divide as scalar_truncate_divide
from ...tensors.tensor import Tensor
from .call import elementwise
from .operand_kinds import is_integer as _is_integer
from .refusals import floats_only, no_booleans

# Arithmetic


def _times(other, alpha, input):
    """Return ``alpha * other`` for a sum with ``input``."""
    if alpha.__class__ is bool and not all(_is_flag(each) for each in (input, other)):
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    return other * alpha


def _is_flag(each):
    return each.__class__ is bool or getattr(each, "dtype", None) is bool_


@elementwise(takes_numbers=True, rounds_numbers=True)
def add(input, other, *, alpha=1):
    """``input + alpha * other``."""
    return input + other if alpha.__class__ is int and alpha == 1 else input + _times(other, alpha, input)


_MASK = "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."


def _subtraction(operands, promoted):
    flags = list(map(_is_flag, operands))
    if all(flags):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator "
            "instead."
        )
    if any(flags):
        raise RuntimeError(f"Subtraction, the `-` operator, with a bool tensor is not supported. {_MASK}")


def _difference_title(operands):
    return "SubBackward0" if isinstance(operands[0], Tensor) else "RsubBackward1"


@elementwise(
    aliases=("subtract",), takes_numbers=True, rounds_numbers=True, title=_difference_title, refuses=_subtraction
)
def sub(input, other, *, alpha=1):
    """``input - alpha * other``."""
    return input - other if alpha.__class__ is int and alpha == 1 else input - _times(other, alpha, input)


@elementwise(aliases=("multiply",), takes_numbers=True, wide_second=True)
def mul(input, other):
    """``input * other``."""
    return _bitwise_and(input, other) if isinstance(input, Expression) and input.dtype is bool_ else input * other


@elementwise(
    promotion="float", method=False, namespace="internal", takes_numbers=True, wide_second=True, title="DivBackward0"
)
def true_divide_(input, other):
    """``input / other``."""
    return input / other


@elementwise(
    method=False, namespace="internal", takes_numbers=True, wide_second=True, refuses=no_booleans("div_floor_cpu"),
    divides=True, title="DivBackward2",
)  # fmt: skip
def divide_floor(input, other):
    """``floor(input / other)``."""
    return _floor_divide(input, other)


@elementwise(
    method=False, namespace="internal", takes_numbers=True, wide_second=True, refuses=no_booleans("div_trunc_cpu"),
    divides=True, title="DivBackward2",
)  # fmt: skip
def divide_trunc(input, other):
    """``trunc(input / other)``."""
    return scalar_truncate_divide(input, other) if _is_integer(input) else truncate(input / other)


@elementwise(
    takes_numbers=True, wide_second=True, refuses=no_booleans("div_floor_cpu"), divides=True,
    title="NotImplemented",
)  # fmt: skip
def floor_divide(input, other):
    """``floor(input / other)``, in the promoted type."""
    return _floor_divide(input, other)


floor_divide.operation.refused = dict.fromkeys(
    (0, 1), RuntimeError("derivative for aten::floor_divide is not implemented")
)


@elementwise(rounds_numbers=True, refuses=no_booleans("remainder_cpu"), divides=True, title=by_second("Remainder"))
def remainder(input, other):
    """The remainder of division with the sign of ``other``."""
    return _remainder(input, other)


remainder.operation.refused = {1: RuntimeError("derivative for aten::remainder is not implemented")}
remainder.operation.refused_beside_numbers = True


@elementwise(
    tensors=1, rounds_numbers=True, refuses=no_booleans("fmod_cpu"), divides=True, title=by_second("Fmod")
)  # fmt: skip
def fmod(input, other):
    """The remainder of division with the sign of ``input``."""
    return _fmod(input, other)


def _negation(operands, promoted):
    if promoted is bool_:
        raise RuntimeError(f"Negation, the `-` operator, on a bool tensor is not supported. {_MASK}")


@elementwise(aliases=("negative",), refuses=_negation, exact_out=True)
def neg(input):
    """``-input``."""
    return -input


@elementwise(aliases=("absolute",), refuses=no_booleans("abs_cpu"), like_nothing=(3,), exact_out=True)
def abs(input):
    """``|input|``."""
    return _absolute(input)


# A boolean's square counts in int64, as its powers do.
@elementwise(
    title="PowBackward0",
    result_dtype=lambda operands: int64 if operands[0].dtype is bool_ else operands[0].dtype,
)
def square(input):
    """``input ** 2``."""
    return input * input


@elementwise(method=False, namespace="internal", title="PowBackward0")
def cube(input):
    """``input ** 3``."""
    return input * input * input


@cube.backward
def _(grad, input):
    return grad * (input * input * 3.0)


@elementwise(promotion="float", saves_result=True)
def reciprocal(input):
    """``1 / input``."""
    return 1.0 / input


@reciprocal.backward
def _(grad, input):
    return -grad / (input * input)


def _power_title(operands):
    base, exponent = operands
    if not isinstance(exponent, Tensor):
        return "PowBackward0"
    return "PowBackward1" if isinstance(base, Tensor) else "PowBackward2"


def _refuse_power_of_flags(operands, promoted):
    if promoted is bool_ and not any(each.__class__ is bool for each in operands):
        raise NotImplementedError("\"pow\" not implemented for 'Bool'")


@elementwise(
    method=False,
    namespace="internal",
    rounds_numbers=True,
    numbers_apart=True,
    title=_power_title,
    refuses=_refuse_power_of_flags,
    gradients_decided=(2,),
)
def power_(input, exponent):
    """``input ** exponent``."""
    return power(input, exponent)


@elementwise(promotion="float", saves_result=True)
def sqrt(input):
    """``sqrt(input)``."""
    return _sqrt(input)


@elementwise(promotion="float", saves_result=True)
def rsqrt(input):
    """``1 / sqrt(input)``."""
    return reciprocal_sqrt(input)


@elementwise(promotion="float", tensors=2, refuses=floats_only("hypot_cpu"))
def hypot(input, other):
    """``sqrt(input**2 + other**2)`` without overflow."""
    return _hypot(input, other)


def _weighted_title(operands):
    return f"LerpBackward{int(isinstance(operands[2], Tensor))}"


@elementwise(method=False, namespace="internal", title=_weighted_title, numbers_apart=True)
def lerp_tensor_(input, end, weight):
    """``input + weight * (end - input)``, computed from the nearer end as PyTorch does."""
    difference = end - input
    return where(less(_absolute(weight), 0.5), input + weight * difference, end - difference * (1.0 - weight))


@lerp_tensor_.backward
def _(grad, input, end, weight):
    return grad * (1.0 - weight), grad * weight, grad * (end - input)


@elementwise(method=True, tensors=3, refuses=no_booleans("addcmul_cpu_out"))
def addcmul(input, tensor1, tensor2, *, value=1):
    """``input + value * tensor1 * tensor2``."""
    return input + tensor1 * tensor2 * value


def _integer_division(operands, promoted):
    if all(each.dtype.category < 2 for each in operands[1:3]):
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported: use (self + value * torch.trunc(tensor1 / tensor2)) "
            f"or (self + value * tensor1 / tensor2) in a floating-point type, not {promoted!r}"
        )


@elementwise(method=True, tensors=3, refuses=_integer_division)
def addcdiv(input, tensor1, tensor2, *, value=1):
    """``input + value * tensor1 / tensor2``."""
    return input + tensor1 / tensor2 * value
