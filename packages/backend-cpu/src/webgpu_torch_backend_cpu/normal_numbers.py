"""PyTorch's normal numbers of float32 on CPUs: the Box-Muller transform of :mod:`webgpu_torch_core.random_streams.box_muller`, in blocks.

A fused multiply-add is a product and a sum in double precision, rounded once. Steps are as few as give the same bits for all 2^24
numbers that a word stands for: multiplying everything by a power of two changes no rounding, and a number whose exponent is known is
rounded to float32 by adding and subtracting one so great that the digits to be kept are its last. All steps write into blocks that
stay in cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from webgpu_torch_core.random_streams import box_muller as scalar

from .pool import LINE, give_registers, take_registers
from .uniform_numbers import LOW_24

Array = np.ndarray

#: words that are made into numbers at a time
RUN = 1 << 16

#: the upper bits of a word that make its lower 24, as an integer with a sign, less by 2^24
_ABOVE = np.uint32(0xFF000000)


def _bits(value: float) -> np.int32:
    return np.float32(value).view(np.int32)


#: what ``u - 1`` times 2^24 is compared with, so that its mantissa lies between the roots of 1/2 and 2, and what that is halved
_LEAST, _MANTISSA = _bits(-scalar._SQRT_HALF * 2.0**24), np.int32(0x7FFFFF)
_HALF_LEAST = _bits(-scalar._SQRT_HALF / 2)
#: what is computed is minus a half of the logarithm, of minus a half of what the mantissa is beyond 1
_LOG = tuple(
    4.0 * each * (-2.0) ** power for power, each in zip(range(8, -1, -1), scalar._LOG_COEFFICIENTS, strict=True)
)
_LOW, _HIGH = np.float32(-scalar._LOG_TWO_LOW / 2), np.float32(-scalar._LOG_TWO_HIGH / 2)
#: an angle per word, and a quarter of a turn, from which it is counted
_ANGLE, _QUARTER = np.float32(scalar._TWO_PI * 2.0**-24), 2.0 * sum(scalar._QUARTER_PI_PARTS)
_EIGHTH, _BITS_OF_QUARTER = np.int32(1 << 21), np.int32(22)
_SIGN, _TURN = np.int32(-(1 << 31)), np.int32(1 << 30)


class _Polynomial(NamedTuple):
    """Coefficients of sine or cosine, times 2, the later two with what rounds a sum with them to float32."""

    first: float
    second: float
    second_rounder: float
    third: float
    third_rounder: float


def _polynomial(first: float, second: float, third: float) -> _Polynomial:
    rounders = [1.5 * 2.0 ** (np.frexp(2.0 * each)[1] + 28) for each in (second, third)]
    return _Polynomial(2.0 * first, 2.0 * second + rounders[0], rounders[0], 2.0 * third + rounders[1], rounders[1])


_SINE, _COSINE = _polynomial(*scalar._SINE_COEFFICIENTS), _polynomial(*scalar._COSINE_COEFFICIENTS)


class _Blocks:
    """Memory for the steps of so many pairs of numbers."""

    def __init__(self, memory: Array, count: int) -> None:
        #: where the next block begins
        self._start, self._memory = 0, memory
        #: what is made of the first and of the second halves of rows
        self.halves = self._take((2, count), np.float32)
        self.singles = [self._take((count,), np.float32) for _ in range(5)]
        self.doubles = [self._take((count,), np.float64) for _ in range(2)]
        numbers = np.arange(count // 4)
        #: the places of the first and the second halves, and of both after they are sorted so
        self.first, self.second = numbers[::2].copy(), numbers[1::2].copy()
        self.mixed = numbers.reshape(2, -1).T.reshape(-1)

    def _take(self, shape: tuple[int, ...], kind: type[np.floating]) -> Array:
        found = np.ndarray(shape, kind, self._memory, self._start)
        self._start += -(-found.nbytes // LINE) * LINE
        return found

    @staticmethod
    def nbytes(count: int) -> int:
        """Return how much memory so many pairs need at most."""
        return 44 * count + 8 * LINE


def normal_singles(words: Array, mean: float, std: float, into: Array) -> None:
    """Write what :func:`box_muller.normal_float32` returns of some words, whole blocks of 16."""
    memory = take_registers(_Blocks.nbytes(RUN // 2))
    blocks: dict[int, _Blocks] = {}
    for start in range(0, words.size, RUN):
        part, target = (each[start : start + RUN].reshape(-1, 8) for each in (words, into))
        of = blocks.get(part.size) or blocks.setdefault(part.size, _Blocks(memory, part.size // 2))
        radius = _radius(part, of)
        sine, cosine = _sine_cosine(part, of)
        for values, half in zip((cosine, sine), of.halves, strict=True):
            np.multiply(values, radius, out=half)
            if std != 1.0 or mean != 0.0:
                wide = of.doubles[0]
                np.copyto(wide, half)
                wide *= np.float64(np.float32(std))
                wide += np.float64(np.float32(mean))
                np.copyto(half, wide, casting="same_kind")
        if not radius.min():
            # Adding 0 turns -0 into 0, as adding the mean does.
            of.halves += np.float32(0.0)
        of.halves.reshape(-1, 8).take(of.mixed, axis=0, out=target, mode="clip")
    give_registers(memory)


def _taken(words: Array, places: Array, into: Array) -> None:
    """Write rows of words."""
    # Without a test of each place that it is inside, what is taken needs no copy on its way.
    words.take(places, axis=0, out=into.reshape(-1, 8), mode="clip")


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


def _radius(words: Array, of: _Blocks) -> Array:
    """Return halves of ``sqrt(-2 log(1 - u))`` of first halves; the logarithm is the Cephes library's polynomial of a mantissa between the roots of 1/2 and 2."""
    x, y, square, exponent, spare = of.halves[0], *of.singles[:4]
    wide, result = of.doubles
    bits, shift = spare.view(np.int32), exponent.view(np.int32)
    _taken(words, of.first, bits.view(np.uint32))
    # As an integer with a sign it is 2^24 (u - 1).
    np.bitwise_or(bits.view(np.uint32), _ABOVE, out=bits.view(np.uint32))
    np.copyto(x, bits, casting="unsafe")
    np.subtract(x.view(np.int32), _LEAST, out=shift)
    mantissa = x.view(np.int32)
    np.bitwise_and(shift, _MANTISSA, out=mantissa)
    mantissa += _HALF_LEAST
    x += np.float32(0.5)
    shift >>= 23
    np.copyto(exponent, shift, casting="unsafe")
    np.multiply(x, x, out=square)
    np.copyto(wide, x)
    _horner(_LOG, wide, y, result)
    y *= x
    np.copyto(result, y)
    np.copyto(wide, square)
    result *= wide
    np.multiply(exponent, _LOW, out=spare)
    np.copyto(wide, spare)
    result += wide
    np.copyto(y, result, casting="same_kind")
    y += square
    x += y
    # The product has no more digits than a float32 number.
    exponent *= _HIGH
    x += exponent
    np.sqrt(x, out=y)
    return y


def _sine_cosine(words: Array, of: _Blocks) -> tuple[Array, Array]:
    """Return doubles of sine and cosine of the angles that second halves stand for, by the Cephes library's polynomials within octants."""
    x, (square, sine, cosine, turns) = of.halves[1], of.singles[1:]
    wide, result = of.doubles
    quarters = turns.view(np.int32)
    _taken(words, of.second, turns.view(np.uint32))
    quarters &= np.int32(LOW_24)
    np.copyto(x, quarters, casting="unsafe")
    x *= _ANGLE
    quarters += _EIGHTH
    quarters >>= _BITS_OF_QUARTER
    np.copyto(wide, quarters)
    wide *= _QUARTER
    np.copyto(result, x)
    wide += result
    np.copyto(x, wide, casting="same_kind")
    np.multiply(x, x, out=square)
    np.copyto(wide, square)
    # cos: z (y z - 1 / 2) + 1, sin: x (y z + 1), of the square z and polynomials y, each times 2.
    for polynomial, single, addend in ((_COSINE, cosine, -1.0), (_SINE, sine, 2.0)):
        np.multiply(wide, polynomial.first, out=result)
        result += polynomial.second
        result -= polynomial.second_rounder
        result *= wide
        result += polynomial.third
        result -= polynomial.third_rounder
        np.copyto(single, result, casting="same_kind")
        single *= square
        np.copyto(result, single)
        result += addend
        if single is sine:
            np.copyto(wide, x)
        result *= wide
        np.copyto(single, result, casting="same_kind")
    cosine += np.float32(2.0)
    return _turned(quarters, sine, cosine, x.view(np.int32), square.view(np.int32))


def _turned(quarters: Array, sine: Array, cosine: Array, spare: Array, different: Array) -> tuple[Array, Array]:
    """Return sine and cosine exchanged and negated as their quarter says, on their bits: no branch depends on a random number."""
    sines, cosines = sine.view(np.int32), cosine.view(np.int32)
    np.bitwise_xor(sines, cosines, out=different)
    np.left_shift(quarters, 31, out=spare)
    spare >>= 31
    different &= spare
    sines ^= different
    cosines ^= different
    quarters <<= 30
    np.bitwise_and(quarters, _SIGN, out=spare)
    sines ^= spare
    # A quarter further the other one is negative.
    quarters += _TURN
    quarters &= _SIGN
    cosines ^= quarters
    return sine, cosine
