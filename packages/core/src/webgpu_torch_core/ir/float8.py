"""Numbers of eight bits with a sign, an exponent and a fraction: what their bits stand for, and the bits nearest to a number.

Both directions are written with the scalar functions of definitions: traced they are expressions that every backend compiles,
called with numbers they compute.

Sources: OCP 8-bit Floating Point Specification, 2023 (``e4m3fn``, ``e5m2``); Noune et al., "8-bit Numerical Formats for Deep
Neural Networks", 2022 (``fnuz``: finite, no negative zero).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeAlias

from .dtypes import float32, int32
from .scalar import absolute, cast, is_nan, less, minimum, round_half_even, sign_bit, where

#: an expression, or a number
Scalar: TypeAlias = Any


def _power_of_two(exponent: Scalar, bits: int) -> Scalar:
    """Return ``2 ** exponent`` of a non-negative integer exactly: no device's ``exp2`` needs to be."""
    result: Scalar = 1.0
    for bit in range(bits):
        result = result * where(less((exponent >> bit) & 1, 1), 1.0, 2.0 ** (1 << bit))
    return result


class Float8:
    """A format of eight bits.

    Args:
        exponent_bits: how many of the seven bits behind the sign are the exponent's.
        bias: what is subtracted from a normal number's exponent.
        largest: the bits of the largest finite number.
        beyond: the bits that numbers beyond it become.
        not_a_number: the bits that NaN becomes.
        signed_zero: whether there is a negative zero; where there is none, its bits are the only NaN.
    """

    def __init__(
        self, exponent_bits: int, bias: int, largest: int, beyond: int, not_a_number: int, signed_zero: bool
    ) -> None:
        self.exponent_bits, self.bias = exponent_bits, bias
        self.fraction_bits = 7 - exponent_bits
        self.largest, self.beyond, self.not_a_number, self.signed_zero = largest, beyond, not_a_number, signed_zero

    def decode(self, word: Scalar) -> Scalar:
        """Return the float32 number of bits, an int32 between 0 and 255."""
        scale = float(1 << self.fraction_bits)
        sign = where(less(word, 128), 1.0, -1.0)
        exponent = (word >> self.fraction_bits) & ((1 << self.exponent_bits) - 1)
        fraction = cast(word & ((1 << self.fraction_bits) - 1), float32) / scale
        normal = (fraction + 1.0) * _power_of_two(exponent, self.exponent_bits) * 2.0**-self.bias
        finite = sign * where(less(exponent, 1), fraction * 2.0 ** (1 - self.bias), normal)
        magnitude, special = word & 127, float("nan")
        if not self.signed_zero:
            return where(less(word, 128), finite, where(less(128, word), finite, special))
        if self.beyond == self.largest + 1:
            special = where(less(self.beyond, magnitude), special, sign * float("inf"))
        return where(less(self.largest, magnitude), special, finite)

    def encode(self, value: Scalar) -> Scalar:
        """Return the bits nearest to a float32 number (ties to even), an int32 between 0 and 255."""
        # In units of the smallest normal number; what is halved is counted, so that what remains is less than 2.
        rest = minimum(absolute(value), 1.0e9) * 2.0 ** (self.bias - 1)
        exponent: Scalar = 0
        for bit in reversed(range(self.exponent_bits + 1)):
            reached = less(rest, 2.0 ** (1 << bit))
            rest = where(reached, rest, rest * 2.0 ** -(1 << bit))
            exponent = exponent + where(reached, 0, 1 << bit)
        # The leading one of a normal number adds one to its exponent, as does a fraction that is rounded up to a whole.
        fraction = cast(round_half_even(rest * float(1 << self.fraction_bits)), int32)
        bits = minimum(exponent, 1 << self.exponent_bits) * (1 << self.fraction_bits) + fraction
        bits = where(less(self.largest, bits), self.beyond, bits)
        bits = where(is_nan(value), self.not_a_number, bits)
        negative = where(sign_bit(value), bits | 128, bits)
        return negative if self.signed_zero else where(less(0, bits & 127), negative, bits)

    @cached_property
    def numbers(self) -> tuple[float, ...]:
        """The number that each pattern of bits stands for."""
        return tuple(float(self.decode(bits)) for bits in range(256))


#: each format by the name of its element type
FORMATS = {
    "float8_e4m3fn": Float8(4, 7, 0x7E, 0x7E, 0x7F, True),
    "float8_e5m2": Float8(5, 15, 0x7B, 0x7C, 0x7F, True),
    "float8_e4m3fnuz": Float8(4, 8, 0x7F, 0x80, 0x80, False),
    "float8_e5m2fnuz": Float8(5, 16, 0x7F, 0x80, 0x80, False),
}
