"""Rules of element-wise arithmetic, comparison and selection on complex operands, written over real parts."""

# Definitions of parts are traced on expressions: their operands have no one type.
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...ir.layouts import broadcast_shapes
from ...ir.scalar import absolute, atan2, hypot, less, where
from ...ir.scalar import equal as equal_
from ...tensors.tensor import Tensor
from .. import elementwise as e
from ..common import attach, needs_gradient
from ..elementwise.call import Elementwise, default_float
from ..outputs import finish_out
from ..reduction.reductions import sum_to_size
from .interleaving import ZERO, join, part_alias
from .views import as_complex, complex_view, conj, number_parts, part, view_as_real


def split(value: Any) -> tuple[Any, Any]:
    """Return an operand's parts as real tensors or numbers; None for a zero imaginary part."""
    if not isinstance(value, Tensor):
        return number_parts(value)
    if value.dtype.is_complex:
        return part(value, 0), part(value, 1)
    return value, ZERO


def full_parts(value: Any) -> tuple[Any, Any]:
    """Return both parts of an operand without gradient, the imaginary one 0.0 where there is none."""
    if isinstance(value, Tensor) and value.dtype.is_complex:
        return part_alias(value, 0), part_alias(value, 1)
    real, imag = split(value.detach() if isinstance(value, Tensor) else value)
    return real, 0.0 if imag is ZERO else imag


def kernel(name: str, definition: Callable[..., Any], promotion: str = "default") -> Callable[..., Tensor]:
    """Return the element-wise function of a definition over real parts."""
    operation = Elementwise(name, definition, promotion)
    return lambda *operands: operation.call(operands)


def holomorphic(
    title: str,
    real: Callable[..., Tensor],
    imag: Callable[..., Tensor],
    derivative: Callable[[Tensor], Tensor],
    input: Tensor,
    divides: bool = False,
) -> Tensor:
    """Return a function of one complex tensor given its parts and derivative; the gradient is ``grad * conj(f')``.

    ``divides``: what is given is the derivative's inverse. Where that is 0 the gradient is infinite.
    """
    a, b = full_parts(input)
    result = join(real(a, b), imag(a, b))
    if needs_gradient(input):
        saved = input._save()

        def run_backward(grad: Tensor) -> Tensor:
            factor = conj(derivative(saved.unpack()))
            return grad / factor if divides else grad * factor

        attach(result, title, (input,), run_backward)
    return result


def shape_of(*operands: Any) -> tuple[int, ...]:
    """Return the shape operands broadcast to."""
    return broadcast_shapes(*(each._layout.shape for each in operands if isinstance(each, Tensor)))


# Sums


def _sum(function: Any, input: Any, other: Any, alpha: Any) -> Tensor:
    if isinstance(alpha, complex):
        other, alpha = mul_rule(e.mul, other, alpha) if isinstance(other, Tensor) else other * alpha, 1
    both = isinstance(input, Tensor) and isinstance(other, Tensor)
    if both and input.dtype.is_complex and other.dtype.is_complex and input.ndim == other.ndim:
        return complex_view(function(view_as_real(input), view_as_real(other), alpha=alpha))
    a, b = split(input)
    c, d = split(other)
    first = _added(function, a, c, alpha)
    second = d if b is ZERO and function is e.add and alpha == 1 else b if d is ZERO else None
    if second is None and (b is not ZERO or d is not ZERO):
        second = _added(function, 0.0 if b is ZERO else b, d, alpha)
    return _expanded(first, second, shape_of(input, other))


def _added(function: Any, left: Any, right: Any, alpha: Any) -> Any:
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return function(left, right, alpha=alpha)
    return left + alpha * right if function is e.add else left - alpha * right


def _expanded(first: Any, second: Any, shape: tuple[int, ...]) -> Tensor:
    """Join parts that may have fewer dimensions than the result, or be numbers."""
    first, second = (each.expand(shape) if isinstance(each, Tensor) else each for each in (first, second))
    return join(first, second)


def add_rule(function: Any, input: Any, other: Any, alpha: Any = 1) -> Tensor:
    return _sum(e.add, input, other, alpha)


def sub_rule(function: Any, input: Any, other: Any, alpha: Any = 1) -> Tensor:
    return _sum(e.sub, input, other, alpha)


def neg_rule(function: Any, input: Tensor) -> Tensor:
    return complex_view(e.neg(view_as_real(input)))


# Products and quotients

product_real = kernel("complexproduct_real", lambda a, b, c, d: a * c - b * d)
product_imag = kernel("complexproduct_imag", lambda a, b, c, d: a * d + b * c)


def mul_rule(function: Any, input: Any, other: Any) -> Tensor:
    # A real factor has an imaginary part of zero, as in PyTorch: zero times infinity is NaN.
    a, b, c, d = (0.0 if each is ZERO else each for each in (*split(input), *split(other)))
    return join(product_real(a, b, c, d), product_imag(a, b, c, d))


def _quotient(part: int) -> Callable[..., Any]:
    def definition(a: Any, b: Any, c: Any, d: Any) -> Any:
        # Smith, "Algorithm 116: Complex division", 1962: divide by the larger part first, against overflow.
        larger = less(absolute(d), absolute(c)) | equal_(absolute(d), absolute(c))
        bottom, top = where(larger, c, d), where(larger, d, c)
        ratio = top / bottom
        scale = 1.0 / (bottom + top * ratio)
        if part == 0:
            quotient = where(larger, a + b * ratio, a * ratio + b) * scale
        else:
            quotient = where(larger, b - a * ratio, b * ratio - a) * scale
        # By zero, each part is divided by itself, as in NumPy and PyTorch.
        nothing = equal_(c, 0.0) & equal_(d, 0.0)
        return where(nothing, (b if part else a) / absolute(bottom), quotient)

    return definition


_quotient_real = kernel("complex_quotient_real", _quotient(0))
_quotient_imag = kernel("complex_quotient_imag", _quotient(1))


def true_divide__rule(function: Any, input: Any, other: Any) -> Tensor:
    parts = (*full_parts(input), *full_parts(other))
    result = join(_quotient_real(*parts), _quotient_imag(*parts))
    return _attach_quotient(result, input, other)


def _attach_quotient(result: Tensor, input: Any, other: Any) -> Tensor:
    if not needs_gradient(input, other):
        return result
    second_needed = isinstance(other, Tensor) and other.requires_grad
    saved = input._save() if second_needed and isinstance(input, Tensor) else None
    divisor = other._save() if isinstance(other, Tensor) else None

    def run_backward(grad: Tensor) -> tuple[Any, Any]:
        if divisor is None:
            return reduce_gradient(grad / complex(other).conjugate(), input), None
        bottom, second = divisor.unpack(), None
        first = grad / conj(bottom)
        if second_needed:
            second = -(first * conj((input if saved is None else saved.unpack()) / bottom))
        return reduce_gradient(first, input), reduce_gradient(second, other)

    return attach(result, "DivBackward0", (input, other), run_backward)


def reduce_gradient(grad: Any, operand: Any) -> Any:
    """Return a complex gradient summed to an operand's shape and, for a real operand, its real part."""
    if grad is None or not isinstance(operand, Tensor) or not operand.requires_grad:
        return None
    summed = sum_to_size(grad, operand._layout.shape)
    if operand.dtype.is_complex:
        return summed
    return part(summed, 0).to(operand.dtype)


def reciprocal_rule(function: Any, input: Tensor) -> Tensor:
    return true_divide__rule(e.true_divide_, 1.0, input)


def square_rule(function: Any, input: Tensor) -> Tensor:
    return mul_rule(e.mul, input, input)


def lerp_tensor__rule(function: Any, input: Any, end: Any, weight: Any) -> Tensor:
    parts = [0.0 if each is ZERO else each for operand in (input, end, weight) for each in split(operand)]
    return join(_between_real(*parts), _between_imag(*parts))


def _between(part: int) -> Callable[..., Any]:
    def definition(a: Any, b: Any, c: Any, d: Any, w: Any, v: Any) -> Any:
        near, x, y = less(hypot(w, v), 0.5), c - a, d - b
        # From the nearer end.
        one, other = where(near, w, 1.0 - w), where(near, v, -v)
        step = one * y + other * x if part else one * x - other * y
        return where(near, b + step, d - step) if part else where(near, a + step, c - step)

    return definition


_between_real = kernel("complex_lerp_real", _between(0))
_between_imag = kernel("complex_lerp_imag", _between(1))


def addcmul_rule(function: Any, input: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Tensor:
    return input + as_complex(tensor1) * value * tensor2


def addcdiv_rule(function: Any, input: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Tensor:
    return input + as_complex(tensor1) * value / tensor2


# Magnitude and direction

_modulus = kernel("complex_modulus", lambda a, b: hypot(a, b))


def abs_rule(function: Any, input: Tensor) -> Tensor:
    result = _modulus(*full_parts(input))
    if needs_gradient(input):
        saved = input._save()
        attach(result, "AbsBackward0", (input,), lambda grad: sgn_of(saved.unpack()) * grad)
    return result


def sgn_of(input: Tensor) -> Tensor:
    """Return ``input / |input|``, 0 at 0."""
    size = e.abs(input)
    zero = size == 0
    result = input / e.select_(size.new_ones(()), size, zero)
    # Nor has it a gradient there.
    return result * e.logical_not(zero) if needs_gradient(input) else result


def _angle(a: Any, b: Any) -> Any:
    return atan2(b, a)


_direction = kernel("complex_angle", _angle)


def angle_of(input: Tensor) -> Tensor:
    """Return the angle of complex numbers; of real ones 0, pi where negative, NaN where NaN."""
    if not input.dtype.is_complex:
        floats = input.detach() if input.dtype.category == 2 else input.to(default_float[0])
        turned = e.select_(floats.new_full((), math.pi), floats.new_zeros(()), floats < 0)
        result = e.select_(floats, turned, floats != floats)
        return attach(result, "AngleBackward0", (input,), lambda grad: grad.new_zeros(grad.shape))
    result = _direction(*full_parts(input.detach().contiguous()))
    if needs_gradient(input):
        saved = input._save()

        def run_backward(grad: Tensor) -> Tensor:
            source = saved.unpack()
            a, b = part(source, 0), part(source, 1)
            size = a * a + b * b
            share = grad / e.select_(size.new_ones(()), size, size == 0)
            share = e.select_(size.new_zeros(()), share, size == 0)
            return join(-b * share, a * share)

        attach(result, "AngleBackward0", (input,), run_backward)
    return result


# Powers


def power__rule(function: Any, input: Any, exponent: Any) -> Tensor:
    if isinstance(exponent, complex) and not exponent.imag:
        exponent = exponent.real
    if isinstance(exponent, int | float) and not isinstance(exponent, bool):
        simple = _simple_power(input, exponent)
        if simple is not None:
            return simple
    # A circle: that module imports this one.
    from .functions import power

    return power(input, exponent)


def _simple_power(input: Tensor, exponent: float) -> Tensor | None:
    if exponent == 0:
        return as_complex(input) * 0.0 + 1.0
    if exponent == 1:
        return as_complex(input).clone()
    if exponent == 2:
        return input * input
    if exponent == 3:
        return input * input * input
    if exponent == -1:
        return e.reciprocal(input)
    if exponent == -2:
        return e.reciprocal(input * input)
    if exponent == 0.5:
        saved, result = input._save(), e.sqrt(input.detach())
        # As of any power: at 0 it is undefined, where that of the root itself is infinite.
        return attach(result, "PowBackward0", (input,), lambda grad: grad * conj(e.rsqrt(saved.unpack()) * 0.5))
    if exponent == -0.5:
        return e.rsqrt(input)
    return None


# Comparison and selection


def eq_rule(function: Any, input: Any, other: Any) -> Tensor:
    a, b = full_parts(input)
    c, d = full_parts(other)
    return _same(a, b, c, d)


def ne_rule(function: Any, input: Any, other: Any) -> Tensor:
    return e.logical_not(eq_rule(function, input, other))


_same = kernel("complex_equal", lambda a, b, c, d: equal_(a, c) & equal_(b, d), "bool")


def isnan_rule(function: Any, input: Tensor) -> Tensor:
    a, b = full_parts(input)
    return e.isnan(a) | e.isnan(b)


def isinf_rule(function: Any, input: Tensor) -> Tensor:
    a, b = full_parts(input)
    return e.isinf(a) | e.isinf(b)


def isfinite_rule(function: Any, input: Tensor) -> Tensor:
    a, b = full_parts(input)
    return e.isfinite(a) & e.isfinite(b)


def select__rule(function: Any, input: Any, other: Any, condition: Tensor) -> Tensor:
    first, second = as_complex(input), as_complex(other)
    shape = shape_of(first, second, condition)
    floats = [view_as_real(each.expand(shape)) for each in (first, second)]
    result = e.select_(*floats, condition.expand(shape).unsqueeze(-1))
    return complex_view(result)


def _truth(value: Any) -> Any:
    return value != 0 if isinstance(value, Tensor) else bool(value)


def logical_and_rule(function: Any, input: Any, other: Any) -> Tensor:
    return e.logical_and(_truth(input), _truth(other))


def logical_or_rule(function: Any, input: Any, other: Any) -> Tensor:
    return e.logical_or(_truth(input), _truth(other))


def logical_xor_rule(function: Any, input: Any, other: Any) -> Tensor:
    return e.logical_xor(_truth(input), _truth(other))


def logical_not_rule(function: Any, input: Tensor) -> Tensor:
    return input == 0


def nan_to_num_rule(
    function: Callable[..., Tensor],
    input: Tensor,
    *numbers: float | None,
    out: Tensor | None = None,
    **named: float | None,
) -> Tensor:
    """Both parts of each element, each by itself.

    Raises:
        RuntimeError: a gradient is asked for.
    """
    if needs_gradient(input):
        raise RuntimeError("nan_to_num does not support automatic differentiation for outputs with complex dtype.")
    result = input.clone() if not input.numel() else complex_view(function(view_as_real(input), *numbers, **named))
    return finish_out(result, out, exact=True)
