"""What LLVM has no instruction for, as expressions over what it has: loops over them become loops over vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

from webgpu_torch_core.ir.dtypes import dtype, float32, int32
from webgpu_torch_core.ir.expression import (
    Expression,
    apply,
    argument,
    binary,
    cast,
    constant,
    make,
    rewrite,
    select,
    substitute,
)


def bits(value: Expression, kind: dtype) -> Expression:
    """Return the bits of a number as a number of another type of its size."""
    return make("bits", (value,), None, kind)


def _shifted(way: str, a: Expression, by: int) -> Expression:
    return make(f"machine_shift_{way}", (a, constant(by, a.dtype)), None, a.dtype)


def polynomial(x: Expression, coefficients: Sequence[float]) -> Expression:
    """Return a polynomial by Horner's rule, the highest power's coefficient first.

    Its sums and products may be rounded once, as the processor likes. Nowhere else: what a program writes is rounded as it is
    written, so that ``a * b - a * b`` is 0.
    """
    result: Expression = constant(coefficients[0], x.dtype)
    for each in coefficients[1:]:
        result = make("multiply_add", (result, x, constant(each, x.dtype)), None, x.dtype)
    return result


def _nearest(x: Expression) -> tuple[Expression, Expression]:
    """Return the nearest integer of a number of up to 22 bits, as a float32 and as an int32, without converting: NaN gives any."""
    moved = x + 12582912.0
    return moved - 12582912.0, bits(moved, int32) - 0x4B400000


def _power_of_two(exponent: Expression) -> Expression:
    return bits(_shifted("left", exponent + 127, 23), float32)


# The natural logarithm of two in two parts, the first of so few bits that products with exponents are exact.
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4


def exp(x: Expression) -> Expression:
    """Return the exponential of a float32 within 2 units in the last place: Cody and Waite's reduction, then a polynomial.

    The polynomial is that of the Cephes library (S. L. Moshier), file expf.c.
    """
    inside = select(x < -104.0, -104.0, select(89.0 < x, 89.0, x))
    whole, exponent = _nearest(inside * (1.0 / math.log(2.0)))
    rest = inside - whole * _LN2_HIGH - whole * _LN2_LOW
    series = polynomial(
        rest,
        (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1),
    )
    # In two steps: the whole power may leave the range of float32 where the result does not.
    half = _shifted("right", exponent, 1)
    return (series * rest * rest + rest + 1.0) * _power_of_two(half) * _power_of_two(exponent - half)


def log(x: Expression) -> Expression:
    """Return the natural logarithm of a float32 within 2 units in the last place (Cephes library, file logf.c)."""
    tiny = x < 1.17549435e-38
    pattern = bits(select(tiny, x * 8388608.0, x), int32)
    # The mantissa between the roots of 1/2 and 2.
    exponent = _shifted("right", pattern - 0x3F3504F3, 23)
    mantissa = bits(pattern - _shifted("left", exponent, 23), float32) - 1.0
    power = cast(exponent, float32) - select(tiny, 23.0, 0.0)
    square = mantissa * mantissa
    series = polynomial(
        mantissa,
        (
            7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
            2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
        ),
    )  # fmt: skip
    found = mantissa * square * series + power * _LN2_LOW - square * 0.5 + mantissa + power * _LN2_HIGH
    regular = binary("bitwise_and", 0.0 < x, x < math.inf)
    return select(regular, found, select(binary("equal", x, 0.0), -math.inf, select(x < 0.0, math.nan, x)))


def log1p(x: Expression) -> Expression:
    """Return ``log(1 + x)``, the rounding of the sum made good (W. Kahan)."""
    total = x + 1.0
    regular = binary("bitwise_and", binary("not_equal", total, 1.0), total < math.inf)
    return select(regular, log(total) * (x / (total - 1.0)), x)


def expm1(x: Expression) -> Expression:
    """Return ``exp(x) - 1``, the rounding of the exponential made good (W. Kahan)."""
    power = exp(x)
    less = power - 1.0
    found = select(binary("equal", less, -1.0), -1.0, less * (x / log(power)))
    return select(binary("equal", power, 1.0), x, select(binary("equal", power, math.inf), power, found))


def tanh(x: Expression) -> Expression:
    """Return the hyperbolic tangent of a float32 within 2 units in the last place (Cephes library, file tanhf.c)."""
    size, square = apply("absolute", x), x * x
    series = polynomial(
        square,
        (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1),
    )
    far = apply("copysign", 1.0 - 2.0 / (exp(size + size) + 1.0), x)
    return select(size < 0.625, series * square * x + x, far)


# erf(x) / x as a quotient of polynomials of x squared on [0, 3.9192], from where on erf rounds to 1. Fitted to the least greatest
# relative error, 1.9e-8, by iterated reweighting (C. Lawson, 1961) of linearised quotients (Sanathanan and Koerner, 1963).
_ERF_END = 3.9192
_ERF_P = (5.37750438e-02, 7.48650532e00, 9.91543150e01, 1.38692512e03, 5.00935430e03, 2.96568729e04)
_ERF_Q = (1.0, 3.05897161e01, 3.93802053e02, 3.00104591e03, 1.32003154e04, 2.62827198e04)


def erf(x: Expression) -> Expression:
    """Return the error function of a float32 within 7 units in the last place."""
    square = x * x
    found = x * polynomial(square, _ERF_P) / polynomial(square, _ERF_Q)
    return select(x < -_ERF_END, -1.0, select(_ERF_END < x, 1.0, apply("minimum", apply("maximum", found, -1.0), 1.0)))


def _sign(a: Expression) -> Expression:
    return cast(0 < a, a.dtype) - cast(a < 0, a.dtype)


def _differ(a: Expression, b: Expression) -> Expression:
    return binary("not_equal", a < 0, b < 0)


def _safe_divisor(a: Expression, b: Expression) -> Expression:
    """Return a divisor with which a division of integers does not trap."""
    wrong = binary("equal", b, 0)
    if a.dtype.is_signed:
        smallest = binary("equal", a, a.dtype.minimum)
        wrong = wrong | (binary("equal", b, -1) & smallest)
    return select(wrong, constant(1, b.dtype), b)


def _quotient(step: str, a: Expression, b: Expression) -> Expression:
    b = b if b.step == "constant" and b.payload > 0 else _safe_divisor(a, b)
    return make(step, (a, b), None, a.dtype)


def _floor_divide(a: Expression, b: Expression) -> Expression:
    if a.dtype.category == 1:
        quotient = _quotient("whole_quotient", a, b)
        if not a.dtype.is_signed:
            return quotient
        low = binary("not_equal", quotient * b, a) & _differ(a, b)
        return quotient - cast(low, a.dtype)
    rest = apply("fmod", a, b)
    quotient = (a - rest) / b
    quotient = select(binary("not_equal", rest, 0.0) & _differ(b, rest), quotient - 1.0, quotient)
    floored = apply("floor", quotient)
    found = select(0.5 < quotient - floored, floored + 1.0, floored)
    found = select(binary("equal", quotient, 0.0), apply("copysign", constant(0.0, a.dtype), a / b), found)
    return select(binary("equal", b, 0.0), a / b, found)


def _remainder(a: Expression, b: Expression) -> Expression:
    rest = _quotient("whole_rest", a, b) if a.dtype.category == 1 else apply("fmod", a, b)
    if a.dtype.category == 1 and not a.dtype.is_signed:
        return rest
    return select(binary("not_equal", rest, 0) & _differ(rest, b), rest + b, rest)


def _fmod(a: Expression, b: Expression) -> Expression | None:
    return _quotient("whole_rest", a, b) if a.dtype.category == 1 else None


def _truncate_divide(a: Expression, b: Expression) -> Expression:
    return _quotient("whole_quotient", a, b) if a.dtype.category == 1 else apply("truncate", a / b)


def _shift(step: str) -> Callable[[Expression, Expression], Expression]:
    def shift(a: Expression, b: Expression) -> Expression:
        width = a.dtype.bits
        if b.step == "constant" and 0 <= b.payload < width:
            return make(f"machine_{step}", (a, b), None, a.dtype)
        fits = (0 <= b) & (b < width) if b.dtype.is_signed else b < width
        fill = step == "shift_right" and a.dtype.is_signed
        moved = make(
            f"machine_{step}", (a, select(fits, b, constant(width - 1 if fill else 0, b.dtype))), None, a.dtype
        )
        return moved if fill else select(fits, moved, constant(0, a.dtype))

    return shift


def _extremum(step: str) -> Callable[[Expression, Expression], Expression | None]:
    def extremum(a: Expression, b: Expression) -> Expression | None:
        if a.dtype.category != 2:
            return None
        # Of zeros of both signs the second, as NumPy; the machine's own prefers a sign.
        better = binary("less", b, a) if step == "maximum" else binary("less", a, b)
        return select(better | binary("not_equal", a, a), a, b)

    return extremum


def _sign_bit(a: Expression) -> Expression:
    if a.dtype.category != 2:
        return a < 0
    return binary("less", apply("copysign", constant(1.0, a.dtype), a), 0.0)


#: functions of one number, for float32; of float64 those of the mathematical library are called
_FUNCTIONS = {"exp": exp, "log": log, "log1p": log1p, "expm1": expm1, "tanh": tanh, "erf": erf}

#: steps as steps that machines have; None where a machine (or its library of mathematical functions) has it for the type
_LOWERED: dict[str, Callable[..., Expression | None]] = {
    "sign": _sign, "floor_divide": _floor_divide, "remainder": _remainder, "fmod": _fmod, "truncate_divide": _truncate_divide,
    "maximum": _extremum("maximum"), "minimum": _extremum("minimum"),
    "shift_left": _shift("shift_left"), "shift_right": _shift("shift_right"), "sign_bit": _sign_bit,
    "reciprocal_sqrt": lambda a: 1.0 / apply("sqrt", a),
    "is_infinite": lambda a: binary("equal", apply("absolute", a), math.inf),
    **{step: (lambda a: a if a.dtype.category < 2 else None) for step in ("floor", "ceil", "truncate", "round")},
}  # fmt: skip


@lru_cache(maxsize=64)
def _definition(step: str) -> Expression:
    return _FUNCTIONS[step](argument(0, float32))


def lowered(root: Expression) -> Expression:
    """Return an expression over steps that machines have."""

    def replace(node: Expression, arguments: tuple[Expression, ...]) -> Expression | None:
        if node.step in _FUNCTIONS:
            return substitute(_definition(node.step), arguments) if node.dtype is float32 else None
        lower = _LOWERED.get(node.step)
        return lower(*arguments) if lower else None

    return rewrite(root, replace)
