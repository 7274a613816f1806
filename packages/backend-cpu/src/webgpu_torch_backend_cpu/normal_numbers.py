"""PyTorch's normal numbers of float32 on CPUs: the Box-Muller transform of :mod:`webgpu_torch_core.random_streams.box_muller`, in blocks.

A fused multiply-add is a product and a sum in double precision, rounded once. Where the product of two float32 numbers has no more
digits than one of them, it is an ordinary product and an ordinary sum. All steps write into blocks that stay in cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from webgpu_torch_core.random_streams import box_muller as scalar

from .pool import empty
from .uniform_numbers import LOW_24, UNIT_24

Array = Any

#: pairs of numbers that are made at a time
PAIRS = 1 << 14

_SIGN = np.int32(-(1 << 31))
_SQRT_HALF_BITS = np.float32(scalar._SQRT_HALF).view(np.int32)
_LOW, _HIGH = np.float32(scalar._LOG_TWO_LOW), np.float32(scalar._LOG_TWO_HIGH)
#: the parts of a quarter of pi whose products with an octant are float32 numbers, and the last
*_SHORT_PARTS, _LAST_PART = (np.float32(part) for part in scalar._QUARTER_PI_PARTS)


class _Blocks:
    """Memory for the steps of so many pairs."""

    def __init__(self, count: int) -> None:
        #: what is made of the first and of the second halves of rows
        self.halves = empty((2, count), np.float32)
        self.singles = [empty((count,), np.float32) for _ in range(5)]
        self.doubles = [empty((count,), np.float64) for _ in range(2)]
        numbers = np.arange(count // 4)
        #: the places of halves before they are sorted so, and those of sorted ones after it
        self.sorted, self.mixed = numbers.reshape(-1, 2).T.reshape(-1), numbers.reshape(2, -1).T.reshape(-1)


def normal_singles(words: Array, mean: float, std: float) -> Array:
    """Return what :func:`box_muller.normal_float32` returns, from rows of 16 words."""
    result = empty(words.shape, np.float32)
    rows = PAIRS // 8
    blocks: dict[int, _Blocks] = {}
    for start in range(0, len(words), rows):
        part, target = words[start : start + rows], result[start : start + rows]
        of = blocks.get(len(part)) or blocks.setdefault(len(part), _Blocks(part.size // 2))
        _units(part, of)
        radius = _radius(of)
        sine, cosine = _sine_cosine(of)
        for values, half in zip((cosine, sine), of.halves, strict=True):
            np.multiply(values, radius, out=half)
            if std != 1.0 or mean != 0.0:
                _fused(half, np.float64(np.float32(std)), np.float64(np.float32(mean)), of)
            # Adding 0 turns -0 into 0, as adding the mean does.
            half += np.float32(0.0)
        of.halves.reshape(-1, 8).take(of.mixed, axis=0, out=target.reshape(-1, 8), mode="clip")
    return result.reshape(-1)


def _units(words: Array, of: _Blocks) -> None:
    """Make the numbers from [0, 1) that the halves of rows of words stand for."""
    units, bits = of.halves, of.halves.view(np.uint32)
    # Without a test of each place that it is inside, what is taken needs no copy on its way.
    words.reshape(-1, 8).take(of.sorted, axis=0, out=bits.reshape(-1, 8), mode="clip")
    bits &= LOW_24
    # Signed integers become floats in one instruction, unsigned ones do not.
    np.copyto(units, units.view(np.int32), casting="unsafe")
    units *= UNIT_24


def _horner(coefficients: tuple[float, ...], x: Array, single: Array, result: Array) -> None:
    """Write a polynomial of float32 numbers ``x`` held as doubles into ``single``, rounded to float32 at each fused step."""
    np.multiply(x, coefficients[0], out=result)
    for coefficient in coefficients[1:-1]:
        result += coefficient
        np.copyto(single, result, casting="same_kind")
        np.copyto(result, single)
        result *= x
    result += coefficients[-1]
    np.copyto(single, result, casting="same_kind")


def _fused(values: Array, factor: Array, addend: Array, of: _Blocks) -> None:
    """Multiply float32 numbers by something in double precision, add something, and round once."""
    wide = of.doubles[1]
    np.copyto(wide, values)
    wide *= factor
    wide += addend
    np.copyto(values, wide, casting="same_kind")


def _radius(of: _Blocks) -> Array:
    """Return ``sqrt(-2 log(1 - u))`` of first halves; the logarithm is the Cephes library's polynomial of a mantissa between the roots of 1/2 and 2."""
    x = of.halves[0]
    y, square, exponent, spare = of.singles[:4]
    wide = of.doubles[0]
    np.subtract(np.float32(1.0), x, out=x)
    bits, shift = x.view(np.int32), exponent.view(np.int32)
    np.subtract(bits, _SQRT_HALF_BITS, out=shift)
    shift &= ~np.int32(0x7FFFFF)
    bits -= shift
    x -= np.float32(1.0)
    shift >>= 23
    np.copyto(exponent, shift, casting="unsafe")
    np.multiply(x, x, out=square)
    np.copyto(wide, x)
    _horner(scalar._LOG_COEFFICIENTS, wide, y, of.doubles[1])
    y *= x
    np.multiply(exponent, _LOW, out=spare)
    _fused(y, square, spare, of)
    square *= np.float32(0.5)
    y -= square
    x += y
    # The product has no more digits than a float32 number.
    exponent *= _HIGH
    x += exponent
    x *= np.float32(-2.0)
    np.sqrt(x, out=y)
    return y


def _sine_cosine(of: _Blocks) -> tuple[Array, Array]:
    """Return sine and cosine of the angles that second halves stand for, by the Cephes library's polynomials within octants."""
    x = of.halves[1]
    square, sine, cosine, spare = of.singles[1:]
    double = of.doubles[0]
    x *= np.float32(scalar._TWO_PI)
    np.multiply(x, np.float32(scalar._FOUR_OVER_PI), out=spare)
    octants = square.view(np.int32)
    np.copyto(octants, spare, casting="unsafe")
    octants += 1
    octants &= ~1
    np.copyto(spare, octants, casting="unsafe")
    for part in _SHORT_PARTS:
        np.multiply(spare, part, out=sine)
        x += sine
    np.multiply(spare, np.float64(_LAST_PART), out=double)
    double += x
    np.copyto(x, double, casting="same_kind")
    octants = spare.view(np.int32)
    np.copyto(octants, square.view(np.int32))
    np.multiply(x, x, out=square)
    np.copyto(double, square)
    _horner(scalar._COSINE_COEFFICIENTS, double, cosine, of.doubles[1])
    cosine *= square
    np.multiply(square, np.float32(-0.5), out=sine)
    _fused(cosine, double, sine, of)
    cosine += np.float32(1.0)
    _horner(scalar._SINE_COEFFICIENTS, double, sine, of.doubles[1])
    sine *= square
    _fused(sine, x, x, of)
    return _turned(octants, sine, cosine, x.view(np.int32))


def _turned(octants: Array, sine: Array, cosine: Array, spare: Array) -> tuple[Array, Array]:
    """Return sine and cosine exchanged and negated as their octant says, on their bits: no branch depends on a random number."""
    sines, cosines = sine.view(np.int32), cosine.view(np.int32)
    different = sines ^ cosines
    np.left_shift(octants, 30, out=spare)
    spare >>= 31
    different &= spare
    sines ^= different
    cosines ^= different
    octants <<= 29
    np.bitwise_and(octants, _SIGN, out=spare)
    sines ^= spare
    # Two octants further the other one is negative.
    octants -= np.int32(1 << 30)
    np.invert(octants, out=octants)
    octants &= _SIGN
    cosines ^= octants
    return sine, cosine
