"""Conversions between float16 and float32 in steps over integers, which NumPy makes of one number after another."""

from __future__ import annotations

from typing import Any

import numpy as np

from .choices import MANY

Array = Any

#: between the exponents of both types
_SCALE, _INVERSE = np.float32(2.0**112), np.float32(2.0**-112)
#: of a half whose sign fills the upper bits, 13 further up: the sign, and what is not
_KEPT = np.uint32(0x8FFFE000).view(np.int32)
#: what numbers of the greatest exponent, infinities and what is no number, come to
_BEYOND = np.float32(65536.0)
#: magnitudes of float32 numbers as integers: the first that a half has in full, and the first that becomes infinite
_NORMAL, _INFINITE = np.uint32(0x38800000), np.uint32(0x477FF000)


def from_half(values: Array, out: Array | None = None) -> Array:
    """Return float16 numbers as float32, written into ``out``."""
    values = np.asarray(values)
    if values.size < MANY:
        return values.astype(np.float32) if out is None else _written(values, out)
    found = np.empty_like(values, np.float32) if out is None else out
    bits = found.view(np.int32)
    np.copyto(bits, values.view(np.int16))
    bits <<= 13
    bits &= _KEPT
    found *= _SCALE
    if found.max() >= _BEYOND or found.min() <= -_BEYOND:
        beyond = np.abs(found) >= _BEYOND
        found[beyond] = values[beyond]
    return found


def _written(values: Array, out: Array) -> Array:
    out[...] = values
    return out


def to_half(values: Array) -> Array:
    """Return numbers as float16: nearest, ties to even."""
    values = np.asarray(values)
    if values.dtype != np.float32 or values.size < MANY:
        return values.astype(np.float16)
    magnitude = values.view(np.uint32) & np.uint32(0x7FFFFFFF)
    beyond = magnitude.max() >= _INFINITE
    # Zero comes to the greatest integer.
    small = (magnitude - np.uint32(1)) < _NORMAL - np.uint32(1)
    count = np.count_nonzero(small)
    if count > values.size // 16:
        return values.astype(np.float16)
    bits = (values * _INVERSE).view(np.uint32)
    found = bits >> np.uint32(13)
    found &= np.uint32(1)
    found += bits
    found += np.uint32(0xFFF)
    found >>= np.uint32(13)
    sign = found >> np.uint32(3)
    sign &= np.uint32(0x8000)
    found &= np.uint32(0x7FFF)
    found |= sign
    result = found.astype(np.uint16).view(np.float16)
    if beyond or count:
        # Few of them, mostly: their places are quicker to go through than a mask.
        others = (small | (magnitude >= _INFINITE) if beyond else small).nonzero()
        result[others] = values[others]
    return result
