"""Primitive steps on plain Python numbers, with IEEE 754 results where Python would raise."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

from .dtypes import bfloat16, dtype, float16, float32
from .threefry import threefry4x32

INFINITY = math.inf
NAN = math.nan


class Real(float):
    """A float whose arithmetic follows IEEE 754: division by zero gives an infinity or NaN, overflow an infinity."""

    __slots__ = ()

    def __add__(self, other: Any) -> Real:
        return Real(float(self) + other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Real:
        return Real(float(self) - other)

    def __rsub__(self, other: Any) -> Real:
        return Real(other - float(self))

    def __mul__(self, other: Any) -> Real:
        return Real(float(self) * other)

    __rmul__ = __mul__

    def __neg__(self) -> Real:
        return Real(-float(self))

    def __abs__(self) -> Real:
        return Real(abs(float(self)))

    def __truediv__(self, other: Any) -> Real:
        return Real(divide(float(self), other))

    def __rtruediv__(self, other: Any) -> Real:
        return Real(divide(other, float(self)))

    def __floordiv__(self, other: Any) -> Real:
        return Real(floor_divide(float(self), float(other)))

    def __mod__(self, other: Any) -> Real:
        return Real(remainder(float(self), float(other)))


def _guarded(function: Callable[..., float], overflow: Callable[..., float] | float = NAN) -> Callable[..., Any]:
    """Return the function with NaN for a domain error and ``overflow`` for a range error."""

    def guarded(*values: float) -> Real:
        try:
            return Real(function(*values))
        except ValueError:
            return Real(NAN)
        except OverflowError:
            return Real(overflow(*values) if callable(overflow) else overflow)

    return guarded


def _signed_infinity(value: float, *_: float) -> float:
    return math.copysign(INFINITY, value)


def divide(a: Any, b: Any) -> Real:
    """Return ``a / b``."""
    a, b = float(a), float(b)
    if b == 0.0:
        if a == 0.0 or a != a:
            return Real(NAN)
        return Real(math.copysign(INFINITY, a) * math.copysign(1.0, b))
    try:
        return Real(a / b)
    except OverflowError:
        return Real(math.copysign(INFINITY, a) * math.copysign(1.0, b))


def floor_divide(a: Any, b: Any) -> Any:
    """Return the quotient rounded down; 0 for integers with b = 0, which an operation refuses.

    Of floats it is PyTorch's, made from the exact remainder rather than from the rounded quotient: ``floor_divide(1, 0.1)``
    is 9 (``floor(1 / 0.1)`` would be 10), ``floor_divide(1, -inf)`` is -1, an infinite or NaN ``a`` gives NaN, and a
    divisor of zero gives ``a / 0``.
    """
    if isinstance(a, int) and isinstance(b, int):
        if b == 0:
            return 0
        return a // b
    if b == 0 or math.isinf(a) or math.isnan(a) or math.isnan(b):
        return divide(a, b) if b == 0 else Real(NAN)
    if math.isinf(b):
        sign = math.copysign(1.0, a) * math.copysign(1.0, b)
        return Real(math.copysign(0.0, sign) if a == 0 or sign > 0 else -1.0)
    remainder_ = math.fmod(a, b)
    quotient = (a - remainder_) / b
    if remainder_ != 0 and (b < 0) != (remainder_ < 0):
        quotient -= 1.0
    if quotient == 0:
        return Real(math.copysign(0.0, a / b))
    if math.isinf(quotient):
        return Real(quotient)
    floored = math.floor(quotient)
    return Real(floored + 1.0 if quotient - floored > 0.5 else floored)


def truncate_divide(a: Any, b: Any) -> Any:
    """Return ``a / b`` rounded towards zero; 0 for integers with b = 0, which an operation refuses."""
    if isinstance(a, int) and isinstance(b, int):
        if b == 0:
            return 0
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    return truncate(divide(a, b))


def remainder(a: Any, b: Any) -> Any:
    """Return the remainder with the sign of ``b``."""
    if isinstance(a, int) and isinstance(b, int):
        if b == 0:
            return 0
        return a % b
    result = fmod(a, b)
    return Real(result + b) if result != 0 and (result < 0) != (b < 0) else result


def fmod(a: Any, b: Any) -> Any:
    """Return the remainder with the sign of ``a``."""
    if isinstance(a, int) and isinstance(b, int):
        if b == 0:
            return 0
        return a - b * truncate_divide(a, b)
    try:
        return Real(math.fmod(a, b))
    except ValueError:
        return Real(NAN)


def sign(a: Any) -> Any:
    """Return -1, 0 or 1; NaN gives 0, as PyTorch."""
    result = (a > 0) - (a < 0)
    return Real(result) if isinstance(a, float) else result


def minimum(a: Any, b: Any) -> Any:
    """Return the smaller, or NaN if either is NaN."""
    return a if a != a or (b == b and a < b) else b


def maximum(a: Any, b: Any) -> Any:
    """Return the larger, or NaN if either is NaN."""
    return a if a != a or (b == b and a > b) else b


def _rounding(function: Callable[[float], int]) -> Callable[[Any], Any]:
    def rounded(a: Any) -> Any:
        if not isinstance(a, float):
            return a
        if math.isinf(a) or math.isnan(a) or abs(a) >= 4503599627370496.0:
            return Real(a)
        return Real(math.copysign(float(function(float(a))), a))

    return rounded


def _floor_number(a: float) -> Any:
    return Real(a) if math.isinf(a) or math.isnan(a) or a == 0 else Real(math.floor(a))


floor = lambda a: _floor_number(a) if isinstance(a, float) else a  # noqa: E731 - one row of a table
ceil = _rounding(math.ceil)
truncate = _rounding(math.trunc)
round_half_even = _rounding(round)

exp = _guarded(math.exp, INFINITY)
exp2 = _guarded(lambda a: math.pow(2.0, a), INFINITY)
expm1 = _guarded(math.expm1, INFINITY)


def _logarithm(function: Callable[[float], float], pole: float) -> Callable[[Any], Real]:
    guarded = _guarded(function)
    return lambda a: Real(-INFINITY) if a == pole else guarded(a)


log = _logarithm(math.log, 0.0)
log2 = _logarithm(math.log2, 0.0)
log10 = _logarithm(math.log10, 0.0)
log1p = _logarithm(math.log1p, -1.0)
sqrt = _guarded(math.sqrt)


def reciprocal_sqrt(a: Any) -> Real:
    """Return ``1 / sqrt(a)``."""
    return divide(1.0, sqrt(a))


def power(a: Any, b: Any) -> Any:
    """Return ``a ** b`` as C's pow; integer powers of integers stay integers (negative exponents truncate)."""
    if isinstance(a, int) and isinstance(b, int):
        if b >= 0:
            # Masked to 64 bits: wider digits cannot survive the wrap-around on conversion.
            return pow(int(a), b, 1 << 64)
        return 1 if a == 1 else (-1 if b % 2 else 1) if a == -1 else 0
    try:
        return Real(math.pow(a, b))
    except ValueError:
        odd = float(b).is_integer() and math.fmod(b, 2.0) != 0.0
        return Real(math.copysign(INFINITY, a) if odd else INFINITY) if a == 0 else Real(NAN)
    except OverflowError:
        return Real(-INFINITY if a < 0 and math.fmod(b, 2.0) != 0.0 else INFINITY)


sin, cos, tan = _guarded(math.sin), _guarded(math.cos), _guarded(math.tan)
asin, acos, atan = _guarded(math.asin), _guarded(math.acos), _guarded(math.atan)
atan2 = _guarded(math.atan2)
sinh = _guarded(math.sinh, _signed_infinity)
cosh = _guarded(math.cosh, INFINITY)
tanh, asinh, acosh = _guarded(math.tanh), _guarded(math.asinh), _guarded(math.acosh)
hypot = _guarded(math.hypot, INFINITY)
erf, erfc = _guarded(math.erf), _guarded(math.erfc)


def atanh(a: Any) -> Real:
    """Return the inverse hyperbolic tangent; ±1 gives an infinity."""
    if abs(a) == 1.0:
        return Real(math.copysign(INFINITY, a))
    return _guarded(math.atanh)(a)


def lgamma(a: Any) -> Real:
    """Return ``log(abs(gamma(a)))``; poles give infinity."""
    try:
        return Real(math.lgamma(a))
    except (ValueError, OverflowError):
        return Real(INFINITY)


def digamma(a: Any) -> Real:
    """Return the logarithmic derivative of gamma.

    Reflection below zero, recurrence up to 10, then the asymptotic series (Abramowitz & Stegun 6.3.5, 6.3.7, 6.3.18).
    """
    a = float(a)
    if a == 0.0:
        return Real(math.copysign(INFINITY, -a))
    if math.isnan(a) or a == -INFINITY or (a < 0 and a == math.floor(a)):
        return Real(NAN)
    if a == INFINITY:
        return Real(a)
    result = 0.0
    if a < 0:
        # The distance to the nearest integer, not the one below: that would lose all digits just below zero.
        result = -math.pi / math.tan(math.pi * (a - round(a)))
        a = 1.0 - a
    while a < 10.0:
        result -= 1.0 / a
        a += 1.0
    z = 1.0 / (a * a)
    series = z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * (691 / 32760 - z / 12))))))
    return Real(result + math.log(a) - 0.5 / a - series)


def erfinv(a: Any) -> Real:
    """Return x with ``erf(x) = a``: Giles' approximation (GPU Computing Gems, 2010), refined by Newton steps."""
    a = float(a)
    if math.isnan(a) or abs(a) > 1.0:
        return Real(NAN)
    if abs(a) == 1.0:
        return Real(math.copysign(INFINITY, a))
    if a == 0.0:
        return Real(a)
    w = -math.log((1.0 - a) * (1.0 + a))
    x = math.copysign(math.sqrt(max(w, 0.0)), a) if w > 5.0 else a * (0.8862269254527579 + 0.23 * a * a)
    for _ in range(60):
        error = math.erf(x) - a if abs(x) < 1.0 else math.copysign(1.0 - abs(a) - math.erfc(abs(x)), a)
        change = error / (1.1283791670955126 * math.exp(-x * x))
        # Halley's correction keeps the iteration monotone in the tails.
        change /= 1.0 + x * change
        x -= change
        if abs(change) <= 1e-16 * abs(x):
            break
    return Real(x)


def copysign(a: Any, b: Any) -> Real:
    """Return the magnitude of ``a`` with the sign of ``b``."""
    return Real(math.copysign(a, b))


def sign_bit(a: Any) -> bool:
    """Return whether the sign bit is set."""
    return math.copysign(1.0, a) < 0 if isinstance(a, float) else a < 0


def is_nan(a: Any) -> bool:
    """Return whether a number is NaN."""
    return a != a


def is_infinite(a: Any) -> bool:
    """Return whether a number is plus or minus infinity."""
    return a in (INFINITY, -INFINITY)


def next_after(a: Any, b: Any) -> Real:
    """Return the next float32 after ``a`` towards ``b``."""
    a, b = float(a), float(b)
    if a != a or b != b:
        return Real(NAN)
    if a == b:
        return Real(b)
    if a == 0.0:
        return Real(math.copysign(1.401298464324817e-45, b))
    (bits,) = struct.unpack("<i", struct.pack("<f", a))
    bits += 1 if (b > a) == (a > 0) else -1
    (result,) = struct.unpack("<f", struct.pack("<i", bits))
    return Real(result)


def bitwise_not(a: Any) -> Any:
    """Return the complement: logical for booleans."""
    return not a if isinstance(a, bool) else ~a


def greatest_common_divisor(a: int, b: int) -> int:
    """Return the greatest common divisor, 0 for two zeros."""
    return math.gcd(int(a), int(b))


def shift_left(a: int, b: int) -> int:
    """Return ``a << b``; counts outside 0..63 give 0."""
    return a << b if 0 <= b < 64 else 0


def shift_right(a: int, b: int) -> int:
    """Return ``a >> b`` with sign fill; counts outside 0..63 give the fill."""
    return a >> b if 0 <= b < 64 else (-1 if a < 0 else 0)


def threefry_word(*values: int) -> int:
    """Return word ``values[8]`` of Threefry4x32-13 for counter ``values[:4]`` and key ``values[4:8]``."""
    c0, c1, c2, c3, k0, k1, k2, k3, word = values
    return threefry4x32((c0, c1, c2, c3), (k0, k1, k2, k3))[word]


def round_to_float16(value: float) -> float:
    """Return the float16 nearest to the nearest float32 (ties to even both times, as in PyTorch), infinity past its range."""
    value = round_to_float32(value)
    if math.isnan(value) or math.isinf(value):
        return value
    try:
        return struct.unpack("<e", struct.pack("<e", value))[0]
    except OverflowError:
        return math.copysign(INFINITY, value)


def round_to_float32(value: float) -> float:
    """Return the nearest float32 (ties to even), infinity past its range."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(INFINITY, value)


def float_to_bfloat16_bits(value: float) -> int:
    """Return the bits of the nearest bfloat16 (ties to even)."""
    if value != value:
        return 0x7FC0
    (bits,) = struct.unpack("<I", struct.pack("<f", round_to_float32(value)))
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


def bfloat16_bits_to_float(bits: int) -> float:
    """Return the value of bfloat16 bits."""
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def convert(value: Any, to: dtype) -> Any:
    """Return a number converted to a type: floats rounded, integers wrapped, fractions truncated."""
    if to.category == 0:
        return bool(value)
    if to.category == 2:
        value = float(value)
        if to is float32:
            return Real(round_to_float32(value))
        if to is float16:
            return Real(round_to_float16(value))
        if to is bfloat16:
            return Real(bfloat16_bits_to_float(float_to_bfloat16_bits(value)))
        return Real(value)
    if isinstance(value, float):
        # What has no integer becomes the smallest, of 32 bits or 64, as on x86.
        bits = 32 if to.is_signed and to.bits <= 32 else 64
        finite = math.isfinite(value) and -(1 << bits - 1) <= int(value) < 1 << bits - 1
        value = int(value) if finite else -(1 << bits - 1)
    value &= (1 << to.bits) - 1
    return value - (1 << to.bits) if to.is_signed and value >> (to.bits - 1) else int(value)


def fused_multiply_add(left: float, right: float, addend: float) -> float:
    """Return ``left * right + addend``, in double precision rounded once.

    Rounding to odd makes the last sum right (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums:
    proved algorithms using rounding to odd", 2008).
    """
    product = left * right
    if addend == 0 or not isinstance(product, float) or not 1e-200 < abs(product) < 1e200 or not abs(addend) < 1e200:
        # Nothing to round twice, or magnitudes beyond what the splitting below can hold.
        return product + addend
    product_error = _product_error(left, right, product)
    low, low_error = _two_sum(addend, product_error)
    high, high_error = _two_sum(product, low)
    odd, remainder = _two_sum(low_error, high_error)
    if remainder and math.frexp(odd)[0] * 2.0**53 % 2.0 == 0.0:
        odd = math.nextafter(odd, math.inf if remainder > 0 else -math.inf)
    return high + odd


def halves(value: float) -> tuple[float, float]:
    """Return two numbers of half the bits whose sum is a double (Dekker's splitting)."""
    scaled = value * 134217729.0
    high = scaled - (scaled - value)
    return high, value - high


def _two_sum(a: float, b: float) -> tuple[float, float]:
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def _product_error(a: float, b: float, product: float) -> float:
    if abs(a) > 1e150 or abs(b) > 1e150:
        scale_a, scale_b = math.frexp(a), math.frexp(b)
        error = _product_error(scale_a[0], scale_b[0], scale_a[0] * scale_b[0])
        return math.ldexp(error, scale_a[1] + scale_b[1])
    (high_a, low_a), (high_b, low_b) = halves(a), halves(b)
    return ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
