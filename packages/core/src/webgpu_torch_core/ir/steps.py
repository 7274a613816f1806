"""The table of primitive steps: what each computes on plain numbers, and its gradient.

A backend prints each step from a table of its own with the same keys; a step missing there is reported by name.
"""

# The gradients' operands are expressions or numbers.
# pyright: basic
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from . import scalar_math as numbers
from .dtypes import dtype
from .expression import Expression, Operand, apply, binary, cast, constant, select, topological

Gradient = Callable[..., "tuple[Operand | None, ...]"]


class Step:
    """A primitive step: its name, its meaning on numbers and its vector-Jacobian product.

    ``gradient(grad, result, *arguments)`` returns the contribution to each argument, None where there is none.
    """

    __slots__ = ("evaluate", "gradient", "name")

    def __init__(self, name: str, evaluate: Callable[..., Any], gradient: Gradient | None) -> None:
        self.name = name
        self.evaluate = evaluate
        self.gradient = gradient


STEPS: dict[str, Step] = {}


def step(name: str, evaluate: Callable[..., Any], gradient: Gradient | None = None) -> None:
    """Add a row to the table; without a gradient the step is piecewise constant."""
    STEPS[name] = Step(name, evaluate, gradient)


def _call(name: str, *values: Operand) -> Expression:
    return apply(name, *values)


TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)

# Arithmetic
step("add", lambda a, b: a + b, lambda g, r, a, b: (g, g))
step("subtract", lambda a, b: a - b, lambda g, r, a, b: (g, -g))
step("multiply", lambda a, b: a * b, lambda g, r, a, b: (g * b, g * a))
step("divide", numbers.divide, lambda g, r, a, b: (g / b, -g * r / b))
step("floor_divide", numbers.floor_divide)
step("truncate_divide", numbers.truncate_divide)
step("remainder", numbers.remainder, lambda g, r, a, b: (g, -g * binary("floor_divide", a, b)))
step("fmod", numbers.fmod, lambda g, r, a, b: (g, -g * _call("truncate", a / b)))
step("negate", lambda a: -a, lambda g, r, a: (-g,))
step("absolute", abs, lambda g, r, a: (g * _call("sign", a),))
step("sign", numbers.sign)
step("minimum", numbers.minimum, lambda g, r, a, b: _extremum_gradient(g, a, b, binary("less", a, b)))
step("maximum", numbers.maximum, lambda g, r, a, b: _extremum_gradient(g, a, b, binary("less", b, a)))
step("fused_multiply_add", numbers.fused_multiply_add, lambda g, r, a, b, c: (g * b, g * a, g))

# Rounding
step("floor", numbers.floor)
step("ceil", numbers.ceil)
step("truncate", numbers.truncate)
step("round", numbers.round_half_even)

# Exponentials and logarithms
step("exp", numbers.exp, lambda g, r, a: (g * r,))
step("exp2", numbers.exp2, lambda g, r, a: (g * r * math.log(2.0),))
step("expm1", numbers.expm1, lambda g, r, a: (g * (r + 1.0),))
step("log", numbers.log, lambda g, r, a: (g / a,))
step("log2", numbers.log2, lambda g, r, a: (g / (a * math.log(2.0)),))
step("log10", numbers.log10, lambda g, r, a: (g / (a * math.log(10.0)),))
step("log1p", numbers.log1p, lambda g, r, a: (g / (a + 1.0),))
step("sqrt", numbers.sqrt, lambda g, r, a: (g / (r * 2.0),))
step("reciprocal_sqrt", numbers.reciprocal_sqrt, lambda g, r, a: (g * -0.5 * r * r * r,))
step(
    "power",
    numbers.power,
    lambda g, r, a, b: (
        select(binary("equal", b, 0), 0.0, g * b * _call("power", a, b - 1.0)),
        g * select(binary("equal", a, 0) & binary("less_equal", 0, b), 0.0, r * _call("log", a)),
    ),
)

# Trigonometry
step("sin", numbers.sin, lambda g, r, a: (g * _call("cos", a),))
step("cos", numbers.cos, lambda g, r, a: (-g * _call("sin", a),))
step("tan", numbers.tan, lambda g, r, a: (g * (r * r + 1.0),))
step("asin", numbers.asin, lambda g, r, a: (g * _call("reciprocal_sqrt", 1.0 - a * a),))
step("acos", numbers.acos, lambda g, r, a: (-g * _call("reciprocal_sqrt", 1.0 - a * a),))
step("atan", numbers.atan, lambda g, r, a: (g / (a * a + 1.0),))
step("atan2", numbers.atan2, lambda g, r, a, b: _atan2_gradient(g, a, b))
step("sinh", numbers.sinh, lambda g, r, a: (g * _call("cosh", a),))
step("cosh", numbers.cosh, lambda g, r, a: (g * _call("sinh", a),))
step("tanh", numbers.tanh, lambda g, r, a: (g * (1.0 - r * r),))
step("asinh", numbers.asinh, lambda g, r, a: (g * _call("reciprocal_sqrt", a * a + 1.0),))
step("acosh", numbers.acosh, lambda g, r, a: (g * _call("reciprocal_sqrt", a * a - 1.0),))
step("atanh", numbers.atanh, lambda g, r, a: (g / (1.0 - a * a),))
step("hypot", numbers.hypot, lambda g, r, a, b: (g * (a / r), g * (b / r)))

# Special functions
step("erf", numbers.erf, lambda g, r, a: (g * (_call("exp", -(a * a)) * TWO_OVER_SQRT_PI),))
step("erfc", numbers.erfc, lambda g, r, a: (g * (_call("exp", -(a * a)) * -TWO_OVER_SQRT_PI),))
step("erfinv", numbers.erfinv, lambda g, r, a: (g * (_call("exp", r * r) / TWO_OVER_SQRT_PI),))
step("lgamma", numbers.lgamma, lambda g, r, a: (g * _call("digamma", a),))
step("digamma", numbers.digamma)

# Signs, classes and bits
step(
    "copysign",
    numbers.copysign,
    lambda g, r, a, b: (
        g * select(binary("equal", a, 0), 0.0, r / a),
        None,
    ),
)
step("sign_bit", numbers.sign_bit)
step("is_nan", numbers.is_nan)
step("is_infinite", numbers.is_infinite)
step("nextafter", numbers.next_after)
step("equal", lambda a, b: a == b)
step("not_equal", lambda a, b: a != b)
step("less", lambda a, b: a < b)
step("less_equal", lambda a, b: a <= b)
step("bitwise_and", lambda a, b: a & b)
step("bitwise_or", lambda a, b: a | b)
step("bitwise_xor", lambda a, b: a ^ b)
step("bitwise_not", numbers.bitwise_not)
step("greatest_common_divisor", numbers.greatest_common_divisor)
step("shift_left", numbers.shift_left)
step("shift_right", numbers.shift_right)
step("select", lambda c, a, b: a if c else b, lambda g, r, c, a, b: (None, select(c, g, 0.0), select(c, 0.0, g)))

# One of the four words of Threefry4x32-13 (Salmon et al., SC'11): threefry(counter0..3, key0..3, word), all uint32.
step("threefry", numbers.threefry_word)


def _extremum_gradient(
    grad: Expression, a: Expression, b: Expression, first: Expression
) -> tuple[Expression, Expression]:
    # PyTorch splits the gradient evenly where both are equal.
    tie = binary("equal", a, b)
    half = grad * 0.5
    return select(tie, half, select(first, grad, 0.0)), select(tie, half, select(first, 0.0, grad))


def _atan2_gradient(grad: Expression, a: Expression, b: Expression) -> tuple[Expression, Expression]:
    length = a * a + b * b
    inverse = select(binary("equal", length, 0), 0.0, 1.0 / length)
    return grad * b * inverse, grad * -a * inverse


def differentiate(expression: Expression, grad: Expression) -> dict[int, Expression]:
    """Return the gradient of a definition's expression with respect to each of its floating-point arguments.

    Reverse accumulation over the DAG, seeded with ``grad``; arguments without influence are absent. A gradient that a
    selection sets to zero stays zero, whatever it would be multiplied with (infinity where the other branch overflows).
    """
    adjoint: dict[Expression, Expression] = {expression: grad}
    result: dict[int, Expression] = {}
    for node in reversed(topological(expression)):
        seed = adjoint.get(node)
        if seed is None:
            continue
        if node.step == "argument":
            result[node.payload] = cast(seed, node.dtype)
            continue
        conditions, seed = _unguarded(seed)
        for child, part in zip(node.arguments, _contributions(node, seed), strict=False):
            if part is None or not child.dtype.is_floating_point:
                continue
            part = cast(part, child.dtype)
            for condition, chosen in conditions:
                part = select(condition, part, 0.0) if chosen else select(condition, 0.0, part)
            if not (part.step == "constant" and part.payload == 0):
                adjoint[child] = adjoint[child] + part if child in adjoint else part
    return result


def _unguarded(seed: Expression) -> tuple[list[tuple[Expression, bool]], Expression]:
    """Return the conditions under which a gradient is not zero by selection, the innermost first, and the gradient there."""
    conditions: list[tuple[Expression, bool]] = []
    while seed.step == "select":
        condition, first, second = seed.arguments
        if _is_zero(second):
            conditions.append((condition, True))
            seed = first
        elif _is_zero(first):
            conditions.append((condition, False))
            seed = second
        else:
            break
    return conditions[::-1], seed


def _is_zero(value: Expression) -> bool:
    return value.step == "constant" and value.payload == 0


def _contributions(node: Expression, seed: Expression) -> tuple[Operand | None, ...]:
    if node.step == "cast":
        return (seed if node.dtype.is_floating_point else None,)
    row = STEPS.get(node.step)
    if row is None or row.gradient is None:
        return (None,) * len(node.arguments)
    return row.gradient(seed, node, *node.arguments)


def zero(of: dtype) -> Expression:
    """Return the additive identity of a type."""
    return constant(0, of)
