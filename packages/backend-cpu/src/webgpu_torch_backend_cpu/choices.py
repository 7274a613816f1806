"""Choices between numbers, and numbers between bounds, without a branch at each element."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

Array = Any

#: elements from which on several passes over words are quicker than NumPy's one that branches at each element
MANY = 1 << 12
_WORDS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def select(test: Array, a: Array, b: Array, views: bool = True, out: Array | None = None) -> Array:
    """Return the first value where a test holds, else the second, both of one type; a copy where they may be ``views`` of operands.

    Many tests choose by masks over bits: ``numpy.where`` branches, which processors guess wrong at random tests. The result is
    written into ``out`` in one go, which may be the memory of an operand.
    """
    if not test.ndim:
        # A copy: what it is a view of may be overwritten before it is stored.
        return _filled(a if test else b, True, out)
    is_short = max(test.size, a.size, b.size) < MANY or a.dtype != b.dtype
    if not is_short:
        count = np.count_nonzero(test)
        if count in (0, test.size):
            return _filled(a if count else b, views, out, test, a, b)
    if is_short or test.size < MANY:
        found = np.where(test, a, b)
        return found if out is None else _filled(found, False, out)
    kind = _WORDS[a.dtype.itemsize]
    mask, one, other = test.view(np.int8), a.view(kind), b.view(kind)
    target = None if out is None else out.view(kind)
    if kind in (np.int16, np.int32):
        found = _times(mask, one, other, target)
    else:
        found = _masked(mask.astype(kind), one, other, target)
    return found.view(a.dtype) if out is None else out


def _times(mask: Array, one: Array, other: Array, target: Array | None) -> Array:
    """Return one number's bits where a mask is 1, another's where it is 0: products with ones and zeros, widened on the way."""
    if not other.ndim and not other:
        return np.multiply(one, mask, out=target)
    if not one.ndim and not one:
        return np.multiply(other, 1 - mask, out=target)
    free = target is not None and not np.may_share_memory(target, other)
    # The product with a difference of bits is this difference or none.
    chosen = np.bitwise_xor(one, other, out=target if free else None)
    chosen = np.multiply(chosen, mask, out=chosen if chosen.shape == mask.shape else None)
    return np.bitwise_xor(chosen, other, out=target)


def _masked(mask: Array, one: Array, other: Array, target: Array | None) -> Array:
    """Return the same of words as wide as the mask's, by masks of all bits."""
    if not one.ndim and not one:
        mask -= mask.dtype.type(1)
        return np.bitwise_and(mask, other, out=target)
    np.negative(mask, out=mask)
    if not other.ndim and not other:
        return np.bitwise_and(mask, one, out=target)
    return np.bitwise_xor(np.bitwise_xor(one, other) & mask, other, out=target)


def _filled(chosen: Array, views: bool, out: Array | None, *others: Array) -> Array:
    """Return an array in the shape that it has together with others."""
    if out is not None:
        out[...] = chosen
        return out
    shape = np.broadcast(chosen, *others).shape
    if shape == np.shape(chosen) and not views:
        return chosen
    result = np.empty(shape, chosen.dtype)
    result[...] = chosen
    return result


def clip(a: Array, least: Array, most: Array, out: Array | None = None) -> Array:
    """Return the numbers between two bounds, those that equal one as they are (zeros keep their signs): many in one pass."""
    if np.size(a) < MANY:
        # Of equal numbers NumPy returns the second.
        return np.minimum(most, np.maximum(least, a), out=out)
    return a.clip(least, most, out=out)


def repeated(number: Array, like: Array) -> Array:
    """Return a number as often as there are elements in a long array, else the number: NumPy's extrema are quicker of two arrays."""
    if like.size < MANY or not like.flags.c_contiguous:
        return number
    return _repeated(number.tobytes(), number.dtype, like.shape)


@lru_cache(maxsize=16)
def _repeated(data: bytes, kind: np.dtype, shape: tuple[int, ...]) -> Array:
    found = np.full(shape, np.frombuffer(data, kind)[0])
    found.flags.writeable = False
    return found
