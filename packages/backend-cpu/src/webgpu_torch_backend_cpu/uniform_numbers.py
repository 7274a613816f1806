"""PyTorch's uniform numbers on CPUs, many at once: the core's words, from NumPy's Mersenne Twister."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from webgpu_torch_core.random_streams.streams import MersenneTwister

from .pool import empty

Array = Any

#: elements transformed at a time: their intermediate values stay in cache
CHUNK = 1 << 15

#: words from which on moving the state to NumPy and back costs less than it saves
BULK = 3 << 13
#: NumPy's generators that nobody uses now
_idle: list[np.random.Generator] = []

#: the bits of a word that make a number of either precision
LOW_24, LOW_53 = np.uint32(0xFFFFFF), np.uint64((1 << 53) - 1)
UNIT_24, UNIT_53 = np.float32(2.0**-24), 2.0**-53


def words(stream: MersenneTwister, count: int, kind: type[np.integer]) -> np.ndarray:
    """Return the stream's next words of 32 or 64 bits, as :meth:`MersenneTwister.words` and ``words64``."""
    (found,) = runs_of_words(stream, count, kind, max(count, 1))
    return found


def runs_of_words(stream: MersenneTwister, count: int, kind: type[np.integer], length: int) -> Iterator[np.ndarray]:
    """Yield the stream's next words in runs of so many, which are still in cache when the next one is asked for; at least one run.

    The stream goes on behind them once all have been taken.
    """
    if count < BULK:
        drawn = np.frombuffer(stream.words(count) if kind is np.uint32 else stream.words64(count), kind)
        yield from (drawn[start : start + length] for start in range(0, max(count, 1), length))
        return
    state, used = stream.position()
    try:
        # One atomic step takes it: other threads may draw from streams of theirs.
        generator = _idle.pop()
    except IndexError:
        generator = np.random.Generator(np.random.MT19937(0))
    bits: Any = generator.bit_generator
    bits.state = {"bit_generator": "MT19937", "state": {"key": np.array(state, np.uint32), "pos": used}}
    for start in range(0, count, length):
        # Over the whole range of the type NumPy takes the words as they are, of two halves the high one first.
        yield generator.integers(0, np.iinfo(kind).max, min(length, count - start), kind, endpoint=True)
    after = bits.state["state"]
    stream.move_to(after["key"].tolist(), int(after["pos"]))
    _idle.append(generator)


def doubles(stream: Any, count: int) -> Array:
    """Return the stream's next numbers from [0, 1) in double precision."""
    return unit_doubles(words(stream, count, np.uint64))


def unit_doubles(drawn: Array) -> Array:
    """Return words of 64 bits as numbers from [0, 1) of 53 bits."""
    return _scaled(drawn, LOW_53, np.int64, np.float64, UNIT_53)


def unit_singles(drawn: Array) -> Array:
    """Return words of 32 bits as float32 numbers from [0, 1) of 24 bits."""
    return _scaled(drawn, LOW_24, np.int32, np.float32, UNIT_24)


def _scaled(drawn: Array, mask: Any, signed: Any, kind: Any, unit: Any) -> Array:
    """Return the low bits of words as numbers below 1, a piece in cache at a time."""
    result = empty(drawn.shape, kind)
    rows = max(CHUNK // math.prod(drawn.shape[1:]), 1)
    for start in range(0, len(drawn), rows):
        part = result[start : start + rows]
        # Signed integers become floats in one instruction, unsigned ones do not.
        part[...] = (drawn[start : start + rows] & mask).view(signed)
        part *= unit
    return result
