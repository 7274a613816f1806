"""Expressions in steps for which NumPy has quicker ones."""

from __future__ import annotations

import math
from functools import lru_cache

from webgpu_torch_core.ir.dtypes import bfloat16, bool_, dtype, float16, float32, float64
from webgpu_torch_core.ir.expression import Expression, constant, make, rewrite, topological

from .special import ERF_ANGLE, ERFC_END, ERFC_EXPONENT, ERFC_MIDDLE, SPLIT

NUMBERS = ("constant", "parameter")
#: what may be another test, or another choice
_REWRITTEN = ("cast", "minimum", "not_equal", "select")

_PACKED = (float16, bfloat16)
#: steps over integers whose last bits the operands' last bits decide
_WRAPPING = frozenset(
    ("add", "subtract", "multiply", "negate", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not")
)
#: steps that the operands themselves decide
_CHOOSING = frozenset(("absolute", "minimum", "maximum"))
#: steps that change a number's sign alone, and the same over the bits of one
_SIGNS = {"negate": "negated_bits", "absolute": "absolute_bits"}

#: atanh(2 p - 1) / x of the share p of normal numbers below x, as (A + C / ((s + F)^2 + D)) (s + B) of s = x x. Fitted to the least
#: greatest error of x p, 2.3e-7, by iterated reweighting (C. Lawson, 1961).
_NORMAL = {"A": 0.0184792021, "B": 62.6402106, "C": -1.81962991, "D": 208.777066, "F": 10.3989960}


@lru_cache(maxsize=1024)
def quicker(root: Expression, many: bool) -> Expression:
    """Return an expression in quicker steps; of ``many`` elements calls of a function that would need new memory are written out."""
    steps = {node.step for node in topological(root)}
    if not steps.isdisjoint(_REWRITTEN):
        root = rewrite(root, _tests_and_bounds, _REWRITTEN)
    if many and "erf" in steps:
        root = rewrite(rewrite(root, _normal_share, ("multiply",)), _error_function, ("erf",))
    if many and "erfc" in steps:
        root = rewrite(root, _complement, ("erfc",))
    return root


def _tests_and_bounds(node: Expression, arguments: tuple[Expression, ...]) -> Expression | None:
    """Return the test of which another step asks whether it is not 0 as a number, and both bounds of a number as one step."""
    if node.step == "minimum" and node.dtype in (float32, float64):
        most, inner = arguments if arguments[0].step in NUMBERS else arguments[::-1]
        if most.step in NUMBERS and inner.step == "maximum":
            least, value = inner.arguments if inner.arguments[0].step in NUMBERS else inner.arguments[::-1]
            return make("clip", (value, least, most), None, node.dtype) if least.step in NUMBERS else None
    if node.step == "select":
        greater = _greater_part(node, arguments)
        return _converted_test(node, arguments) if greater is None else greater
    if node.step == "cast":
        (inner,) = arguments
        if node.dtype in _PACKED and inner.dtype in _PACKED and node.dtype is not inner.dtype:
            return make("cast", (make("cast", (inner,), None, float32),), None, node.dtype)
        if inner.step in _SIGNS and node.dtype in _PACKED:
            # Of numbers of 16 bits only the sign changes.
            (wide,) = inner.arguments
            narrow = wide.arguments[0] if wide.step == "cast" else wide
            return make(_SIGNS[inner.step], (narrow,), None, node.dtype) if narrow.dtype is node.dtype else None
        if inner.step in _WRAPPING or inner.step in _CHOOSING:
            return _narrowed(inner, node.dtype)
        if inner.step != "cast" or inner.arguments[0].dtype is not bool_:
            return None
        return inner.arguments[0] if node.dtype is bool_ else make("cast", inner.arguments, None, node.dtype)
    if node.step != "not_equal" or arguments[0].step != "cast" or arguments[1].step != "constant":
        return None
    (test,) = arguments[0].arguments
    return test if test.dtype is bool_ and not arguments[1].payload else None


def _narrowed(node: Expression, kind: dtype) -> Expression | None:
    """Return the last bits of a step over integers as a step over last bits, None where they are not at hand."""
    # Integers of 32 bits may be positions, which have more where there are very many elements.
    if node.dtype.category != 1 or kind.category != 1 or kind.bits >= min(node.dtype.bits, 32):
        return None
    arguments = [_last_bits(each, kind, node.step in _CHOOSING) for each in node.arguments]
    found = [each for each in arguments if each is not None]
    return make(node.step, tuple(found), None, kind) if len(found) == len(arguments) else None


def _last_bits(node: Expression, kind: dtype, whole: bool) -> Expression | None:
    """Return an integer's last bits, None where they are not at hand or, of what has to be ``whole``, not all of it."""
    if node.step == "cast" and node.arguments[0].dtype is kind:
        return node.arguments[0]
    if node.step == "constant":
        bits = int(node.payload) & ((1 << kind.bits) - 1)
        value = bits - (1 << kind.bits) if kind.is_signed and bits >> kind.bits - 1 else bits
        return None if whole and value != node.payload else constant(value, kind)
    if whole:
        return None
    if node.step == "parameter":
        return make("cast", (node,), None, kind)
    return _narrowed(node, kind) if node.step in _WRAPPING else None


def _greater_part(node: Expression, arguments: tuple[Expression, ...]) -> Expression | None:
    """Return a number where it is positive, and a part of it elsewhere, as the greater one of both."""
    test, x, part = arguments
    if (
        node.dtype not in (float32, float64)
        or test.step != "less"
        or test.arguments[1] is not x
        or part.step != "multiply"
    ):
        return None
    zero, factors = test.arguments[0], part.arguments
    if zero.step != "constant" or zero.payload or x not in factors:
        return None
    factor = factors[0] if factors[1] is x else factors[1]
    is_part = factor.step == "constant" and 0 < factor.payload <= 1
    return make("maximum", (x, part), None, node.dtype) if is_part else None


def _converted_test(node: Expression, arguments: tuple[Expression, ...]) -> Expression | None:
    """Return 1 where a test holds and 0 elsewhere as the test in another type."""
    test, one, other = arguments
    plain = one.step == other.step == "constant" and node.dtype not in (bool_, float16, bfloat16)
    found = plain and one.payload == 1 and other.payload == 0
    return make("cast", (test,), None, node.dtype) if found and math.copysign(1, other.payload) > 0 else None


def _normal_share(node: Expression, arguments: tuple[Expression, ...]) -> Expression | None:
    """Return ``x / 2 * (1 + erf(x / sqrt(2)))`` of float32 numbers by a fraction and a hyperbolic tangent.

    It is the quickest of NumPy's functions of that shape: on processors of AMD's family 26, exp2 takes 3.5 times as long in some processes.
    """
    if node.step != "multiply" or node.dtype is not float32:
        return None
    half, share = arguments
    one, error = share.arguments if share.step == "add" else (half, half)
    x = half.arguments[0] if half.step == "multiply" else half
    if error.step != "erf" or not (
        _is(one, 1.0) and _is_times(half, x, 0.5) and _is_times(error.arguments[0], x, math.sqrt(0.5))
    ):
        return None
    square = _two("multiply", x, x)
    shifted = _two("add", square, _NORMAL["F"])
    fraction = _two("divide", _NORMAL["C"], _two("add", _two("multiply", shifted, shifted), _NORMAL["D"]))
    ratio = _two("multiply", _two("add", fraction, _NORMAL["A"]), _two("add", square, _NORMAL["B"]))
    angle = make("tanh", (_two("multiply", ratio, x),), None, float32)
    return _two("multiply", _two("multiply", _two("add", angle, 1.0), x), 0.5)


def _is(node: Expression, value: float) -> bool:
    """Return whether an expression is a number, as near as float32 is."""
    return node.step == "constant" and math.isclose(node.payload, value, rel_tol=1e-7)


def _is_times(node: Expression, x: Expression, factor: float) -> bool:
    """Return whether an expression is another one times a number."""
    return node.step == "multiply" and node.arguments[0] is x and _is(node.arguments[1], factor)


def _two(step: str, left: Expression | float, right: Expression | float) -> Expression:
    """Return a step of two float32 numbers."""
    operands = (each if isinstance(each, Expression) else constant(each, float32) for each in (left, right))
    return make(step, tuple(operands), None, float32)


def _error_function(node: Expression, arguments: tuple[Expression, ...]) -> Expression | None:
    """Return the error function of float32 numbers in the steps of :func:`special.erf`."""
    if node.step != "erf" or node.dtype is not float32:
        return None
    (x,) = arguments
    first, *inner, last = map(float, ERF_ANGLE)
    square = _two("multiply", x, x)
    angle = _two("multiply", square, first)
    for each in inner:
        angle = _two("multiply", _two("add", angle, each), square)
    return make("tanh", (_two("multiply", _two("add", angle, last), x),), None, float32)


def _complement(node: Expression, arguments: tuple[Expression, ...]) -> Expression | None:
    """Return 1 less the error function of float32 numbers in the steps of :func:`special.erfc`."""
    if node.dtype is not float32:
        return None
    (x,) = arguments
    size = _two("minimum", make("absolute", (x,), None, float32), float(ERFC_END))
    turn = _two("divide", 3.0, _two("add", size, 3.0))
    shifted = _two("subtract", turn, float(ERFC_MIDDLE))
    first, *inner, last = map(float, ERFC_EXPONENT)
    exponent = _two("multiply", shifted, first)
    for each in inner:
        exponent = _two("multiply", _two("add", exponent, each), shifted)
    scaled = _two("multiply", size, float(SPLIT))
    high = _two("subtract", scaled, _two("subtract", scaled, size))
    low = _two("multiply", _two("subtract", size, high), _two("add", size, high))
    power = make("exp", (_two("subtract", _two("add", exponent, last), low),), None, float32)
    square = make("exp", (make("negate", (_two("multiply", high, high),), None, float32),), None, float32)
    found = _two("multiply", _two("multiply", power, turn), square)
    negative = make("less", (x, constant(0.0, float32)), None, bool_)
    return make("select", (negative, _two("subtract", 2.0, found), found), None, float32)
