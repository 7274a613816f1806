"""Conversions between float16 and float32 in steps over integers, which NumPy makes of one number after another."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from .choices import MANY
from .pool import give_registers, take_registers

Array = Any

#: between the exponents of both types
_SCALE, _INVERSE = np.float32(2.0**112), np.float32(2.0**-112)
#: of a half whose sign fills the upper bits, 13 further up: the sign, and what is not
_KEPT = np.uint32(0x8FFFE000).view(np.int32)
#: what numbers of the greatest exponent, infinities and what is no number, come to
_BEYOND = np.float32(65536.0)
#: magnitudes of float32 numbers: the first that a half has all places of, and the first that becomes infinite
_NORMAL, _INFINITE = np.float32(2.0**-14), np.float32(65520.0)
#: numbers converted at a time: what they are on their way stays in the second-level cache
BLOCK = 1 << 15


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
    # Those of the greatest exponent, infinities and what is no number.
    if values.view(np.int16).max() >= 0x7C00 or values.view(np.uint16).max() >= 0xFC00:
        beyond = np.abs(found) >= _BEYOND
        found[beyond] = values[beyond]
    return found


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
    """Write float32 numbers as float16, on the way in memory of twice their size."""
    scaled = np.ndarray(values.shape, np.float32, memory)
    # What has fewer places as a half would be rounded twice.
    if _underflows(values, scaled) or not (
        scaled.max() < _INFINITE * _INVERSE and scaled.min() > -_INFINITE * _INVERSE
    ):
        magnitudes = np.abs(values)
        others = (~(magnitudes < _INFINITE) | (magnitudes < _NORMAL) & (values != 0)).nonzero()
        if len(others[0]) > len(values) // 16:
            found[...] = values
            return
    else:
        others = None
    rounded = np.ndarray(values.shape, np.uint32, memory, scaled.nbytes)
    bits = scaled.view(np.uint32)
    np.right_shift(bits, np.uint32(13), out=rounded)
    rounded &= np.uint32(1)
    rounded += bits
    rounded += np.uint32(0xFFF)
    rounded >>= np.uint32(13)
    # Between the sign and the exponent there are three bits of zero.
    np.right_shift(rounded, np.uint32(3), out=bits)
    bits &= np.uint32(0x8000)
    rounded |= bits
    np.copyto(found.view(np.uint16), rounded, casting="unsafe")
    if others is not None:
        found[others] = values[others]


def _underflows(values: Array, scaled: Array) -> bool:
    """Write products with what makes halves' exponents of numbers'; return whether one has fewer places than it needs, or may have."""
    try:
        with np.errstate(under="raise"):
            np.multiply(values, _INVERSE, out=scaled)
    except FloatingPointError:
        return True
    return not _is_told()


@lru_cache(maxsize=1)
def _is_told() -> bool:
    """Return whether NumPy learns here of products that have too few places."""
    try:
        with np.errstate(under="raise"):
            np.multiply(np.full(MANY, 1e-6, np.float32), _INVERSE)
    except FloatingPointError:
        return True
    return False
