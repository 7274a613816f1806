"""PyTorch's Poisson counts on CPUs, many at once: NumPy's sampler, given the words that PyTorch's would read.

How many numbers of the stream a count takes is known only when it has taken them, so counts cannot be computed side by side. For
rates below 10 NumPy's ``RandomState``, whose streams are fixed for good, multiplies uniform numbers exactly as PyTorch does (D.
Knuth, "The Art of Computer Programming", volume 2). Its numbers come from a generator that keeps words of 64 bits in a buffer and
makes new ones when it has handed them all out: with a long buffer in place of its own it reads what PyTorch reads.
"""

from __future__ import annotations

import ctypes
import math
import threading
from functools import lru_cache
from typing import Any

import numpy as np
from webgpu_torch_core.random_streams.streams import MersenneTwister

from .uniform_numbers import words

Array = Any

#: rates up to which counts are made by products of uniform numbers
PRODUCTS_BELOW = 10.0
#: counts from which on handing words over is quicker than taking one after the other
MANY_COUNTS = 1 << 9
#: uniform numbers that are drawn ahead at a time
_AHEAD = 1 << 16
#: deviations by which there are more numbers than counts take on average
_MARGIN = 6


class _State(ctypes.Structure):
    """The state of NumPy's Philox."""

    _fields_ = (
        ("counter", ctypes.c_void_p),
        ("key", ctypes.c_void_p),
        ("place", ctypes.c_int),
        ("buffer", ctypes.c_uint64 * 4),
        ("has_uint32", ctypes.c_int),
        ("uinteger", ctypes.c_uint32),
    )


#: words that what comes before the buffer takes
_HEAD = math.ceil(_State.buffer.offset / 8)


class _Sampler:
    """NumPy's sampler over numbers that it is given.

    Raises:
        RuntimeError: the state is not what is expected here, or counts are not made as they are here.
    """

    def __init__(self) -> None:
        #: what the pointers of the state point into
        self.bits = bits = np.random.Philox(0)
        bits.state = {**bits.state, "buffer": np.arange(11, 15, dtype=np.uint64), "buffer_pos": 3}
        address: int = bits.ctypes.state_address
        own = _State.from_address(address)
        if own.place != 3 or [*own.buffer] != [11, 12, 13, 14]:
            raise RuntimeError(f"NumPy {np.__version__} keeps the words of Philox in an order that is not known")
        # Words before the state are words before its buffer: their places are negative.
        self.memory = np.zeros(_AHEAD + _HEAD + ctypes.sizeof(_State) // 8, np.uint64)
        start = self.memory[_AHEAD + _HEAD :].ctypes.data - _State.buffer.offset
        ctypes.memmove(start, address, ctypes.sizeof(_State))
        self.state = _State.from_address(start)
        # A sampler copies the structure that begins with the address of the state.
        of = ctypes.c_void_p.from_address(bits.ctypes.bit_generator.value)
        of.value = start
        self.sampler = np.random.RandomState(bits)
        of.value = address
        self.lock = threading.Lock()
        self._check()

    def _check(self) -> None:
        drawn = np.arange(1, 65, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(11)
        numbers, expected = iter((drawn * 2.0**-53).tolist()), []
        for _ in range(8):
            product, count = next(numbers), 0
            while product > math.exp(-2.0):
                product, count = product * next(numbers), count + 1
            expected.append(count)
        found = np.empty(8)
        used = self.counts(np.full(8, 2.0), drawn, found)
        if found.tolist() != expected or used != sum(expected) + 8:
            raise RuntimeError(f"NumPy {np.__version__} makes Poisson counts otherwise than expected")

    def counts(self, rates: Array, drawn: Array, into: Array) -> int | None:
        """Write counts of rates, made from the first of some words; return how many are used, None where they are not enough."""
        count = len(drawn)
        with self.lock:
            # Of the 64 bits PyTorch takes the lower 53, NumPy the upper ones.
            np.left_shift(drawn, np.uint64(11), out=self.memory[_AHEAD - count : _AHEAD])
            self.state.place = -_HEAD - count
            into[:] = self.sampler.poisson(rates)
            used = self.state.place + _HEAD + count
        return used if used <= count else None


@lru_cache(maxsize=1)
def _sampler() -> _Sampler | None:
    try:
        return _Sampler()
    except RuntimeError:
        return None


def poisson(stream: MersenneTwister, rates: Array) -> Array | None:
    """Return one count per rate in double precision, or None where some are not in [0, 10), they are few, or NumPy is unknown."""
    if rates.size < MANY_COUNTS or not (rates.min() >= 0 and rates.max() < PRODUCTS_BELOW):
        return None
    sampler = _sampler()
    if sampler is None:
        return None
    # How many numbers counts take on average.
    taken = np.cumsum(rates + 1)
    result, done, before, most, margin = np.empty(rates.size), 0, 0.0, _AHEAD, _MARGIN
    # Numbers that are drawn and not used, and where they begin: so many words behind a place of the stream.
    left, origin, offset = np.empty(0, np.uint64), stream.position(), 0
    while done < rates.size:
        here, kept = stream.position(), len(left)
        end = int(np.searchsorted(taken, before + most - margin * math.sqrt(most) - 1, "right"))
        end = max(end, done + 1)
        likely = taken[end - 1] - before
        wanted = min(int(likely + margin * math.sqrt(likely)) + 1, _AHEAD)
        drawn = np.concatenate((left, words(stream, wanted - kept, np.uint64))) if wanted > kept else left
        used = sampler.counts(rates[done:end], drawn, result[done:end])
        if used is None:
            used, most, margin = 0, max(most // 2, 1), 2 * margin + 1
        else:
            done, before = end, float(taken[end - 1])
        origin, offset = (here, used - kept) if used >= kept else (origin, offset + used)
        left = drawn[used:]
    if len(left):
        stream.move_to(*origin)
        words(stream, offset, np.uint64)
    return result
