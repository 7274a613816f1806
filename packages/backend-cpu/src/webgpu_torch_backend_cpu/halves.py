"""Conversions between float32 and the types of 16 bits in steps over integers: NumPy makes halves of one number after another."""

from __future__ import annotations

from typing import Any

import numpy as np

from .choices import MANY, repeated
from .pool import give_registers, take_registers

Array = Any

#: between the exponents of both types
_SCALE, _INVERSE = np.float32(2.0**112), np.float32(2.0**-112)
#: of a half whose sign fills the upper bits, 13 further up: the sign, and what is not
_KEPT = np.uint32(0x8FFFE000).view(np.int32)
#: what numbers of the greatest exponent, infinities and what is no number, come to
_BEYOND = np.float32(65536.0)
#: the bits of a float32 number that say its exponent, and of the upper half of one the one that says its sign
_EXPONENT, _SIGN = np.uint32(0x7F800000), np.uint16(0x8000)
#: from powers of two on the least of halves with all places, and what one times this lets, added and subtracted again, round to a half's
_NORMAL, _PLACES = np.float32(2.0**-14), np.float32(1.5 * 2.0**13)
_HALF, _LAST, _BELOW_HALF = np.uint32(16), np.uint32(1), np.uint32(0x7FFF)
_greatest = np.maximum.reduce
#: numbers converted at a time: what they are on their way stays in the second-level cache
BLOCK = 1 << 15


def from_half(values: Array, out: Array | None = None) -> Array:
    """Return float16 numbers as float32, written into ``out``."""
    values = np.asarray(values)
    if values.size < MANY:
        return values.astype(np.float32) if out is None else _written(values, out)
    found = np.empty_like(values, np.float32) if out is None else out
    if not (values.flags.c_contiguous and found.flags.c_contiguous):
        _widen(values, found)
        return found
    flat, target = values.reshape(-1), found.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        _widen(flat[start : start + BLOCK], target[start : start + BLOCK])
    return found


def _widen(values: Array, found: Array) -> None:
    """Write float16 numbers as float32."""
    bits = found.view(np.int32)
    np.copyto(bits, values.view(np.int16))
    bits <<= 13
    bits &= _KEPT
    found *= _SCALE
    # Those of the greatest exponent, infinities and what is no number.
    if _greatest(values.view(np.int16), axis=None) >= 0x7C00 or _greatest(values.view(np.uint16), axis=None) >= 0xFC00:
        beyond = np.abs(found) >= _BEYOND
        found[beyond] = values[beyond]


def _written(values: Array, out: Array) -> Array:
    out[...] = values
    return out


def to_half(values: Array, out: Array | None = None) -> Array:
    """Return numbers as float16, written into ``out``: nearest, ties to even."""
    values = np.asarray(values)
    found = np.empty(values.shape, np.float16) if out is None else out
    apart = not (values.flags.c_contiguous and found.flags.c_contiguous)
    if values.dtype != np.float32 or values.size < MANY or apart:
        return _written(values, found)
    flat, target = values.reshape(-1), found.reshape(-1)
    memory = take_registers(8 * min(flat.size, BLOCK))
    for start in range(0, flat.size, BLOCK):
        part = slice(start, start + BLOCK)
        _narrow(flat[part], target[part], memory)
    give_registers(memory)
    return found


def _narrow(values: Array, found: Array, memory: Array) -> None:
    """Write float32 numbers as float16, on the way in memory of twice their size.

    A number and a power of two that is so much greater have, as a sum, no more places than the number has as a half; what is below the
    normal ones has those that they have. Times 2^-112 its bits are, but for the sign, those of the half, 13 further up.
    """
    power = np.ndarray(values.shape, np.float32, memory)
    rounded = np.ndarray(values.shape, np.float32, memory, power.nbytes)
    np.bitwise_and(values.view(np.uint32), _EXPONENT, out=power.view(np.uint32))
    others = None
    if not _greatest(power) < _BEYOND:
        # Infinities, what becomes one, and what is no number.
        others = (power >= _BEYOND).nonzero()
        if len(others[0]) > len(values) // 16:
            found[...] = values
            return
    np.maximum(power, repeated(_NORMAL, power), out=power)
    power *= _PLACES
    np.add(values, power, out=rounded)
    rounded -= power
    rounded *= _INVERSE
    bits, words = rounded.view(np.uint32), found.view(np.uint16)
    bits >>= np.uint32(13)
    np.copyto(words, bits, casting="unsafe")
    signs = power.view(np.uint32)
    np.right_shift(values.view(np.uint32), _HALF, out=signs)
    sign = np.ndarray(values.shape, np.uint16, memory, power.nbytes)
    np.copyto(sign, signs, casting="unsafe")
    sign &= _SIGN
    words |= sign
    if others is not None:
        found[others] = values[others]


def from_bfloat16(bits: Array, out: Array | None = None) -> Array:
    """Return bfloat16 bits as float32, written into ``out``."""
    if out is None:
        return np.left_shift(np.asarray(bits, np.uint32), 16).view(np.float32)
    wide = out.view(np.uint32)
    np.copyto(wide, bits)
    wide <<= _HALF
    return out


def to_bfloat16(values: Array, out: Array | None = None) -> Array:
    """Return float32 values as bfloat16 bits, written into ``out``: nearest, ties to even, NaN kept."""
    values = np.asarray(values, np.float32)
    found = np.empty(values.shape, np.uint16) if out is None else out
    if values.size < MANY or not (values.flags.c_contiguous and found.flags.c_contiguous):
        _round(values, found, np.empty(values.shape, np.uint32))
        return found
    flat, target = values.reshape(-1), found.reshape(-1)
    memory = take_registers(4 * min(flat.size, BLOCK))
    for start in range(0, flat.size, BLOCK):
        part = flat[start : start + BLOCK]
        _round(part, target[start : start + BLOCK], np.ndarray(part.shape, np.uint32, memory))
    give_registers(memory)
    return found


def _round(values: Array, found: Array, rounded: Array) -> None:
    """Write float32 numbers as bfloat16 bits, on the way in an array of words."""
    bits = values.view(np.uint32)
    np.right_shift(bits, _HALF, out=rounded)
    rounded &= _LAST
    rounded += _BELOW_HALF
    rounded += bits
    rounded >>= _HALF
    np.copyto(found, rounded, casting="unsafe")
    # What is no number is the greatest, too.
    if values.size and np.isnan(_greatest(values, axis=None)):
        np.copyto(found, np.uint16(0x7FC0), where=np.isnan(values))


def negated_bits(values: Array, out: Array | None = None) -> Array:
    """Return numbers of 16 bits with the other sign, written into ``out``."""
    return _by_bits(np.bitwise_xor, 0x8000, values, out)


def absolute_bits(values: Array, out: Array | None = None) -> Array:
    """Return the magnitudes of numbers of 16 bits, written into ``out``."""
    return _by_bits(np.bitwise_and, 0x7FFF, values, out)


def _by_bits(function: np.ufunc, mask: int, values: Array, out: Array | None) -> Array:
    values = np.asarray(values)
    found = function(values.view(np.uint16), np.uint16(mask), out=None if out is None else out.view(np.uint16))
    return found.view(values.dtype) if out is None else out
