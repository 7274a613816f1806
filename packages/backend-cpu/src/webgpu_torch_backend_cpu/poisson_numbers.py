"""PyTorch's Poisson counts on CPUs, many at once: NumPy's sampler, given the words that PyTorch's would read.

How many numbers of the stream a count takes is known only when it has taken them, so counts cannot be computed side by side. For
rates below 10 NumPy's ``RandomState``, whose streams are fixed for good, multiplies uniform numbers exactly as PyTorch does (D.
Knuth, "The Art of Computer Programming", volume 2); only the bits of two words that make a number are others. So a Mersenne Twister
of its own is handed the state from which it reads the numbers that PyTorch reads, as many at a time as its state has.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
from webgpu_torch_core.random_streams.streams import MersenneTwister

from .uniform_numbers import LOW_53, words

Array = Any

#: rates up to which counts are made by products of uniform numbers
PRODUCTS_BELOW = 10.0
#: counts from which on handing words over is quicker than taking one after the other
MANY_COUNTS = 1 << 9
#: words of a state, of which two make a uniform number, and how many numbers counts may take on average: three deviations fewer
_STATE, _LIKELY = 624, 272
#: uniform numbers that are drawn ahead at a time
_AHEAD = 1 << 16


class _Sampler:
    """NumPy's sampler over numbers that it is given."""

    def __init__(self) -> None:
        bits = np.random.MT19937(0)
        self.sampler = np.random.RandomState(bits)
        self.lock = threading.Lock()
        # The words of the state and the number of the next one, where NumPy documents that they are.
        address: int = bits.ctypes.state_address
        self.state = np.frombuffer(memoryview((ctypes.c_uint32 * (_STATE + 1)).from_address(address)), np.uint32)

    def counts(self, rates: Array, numbers: Array, into: Array) -> int:
        """Write counts of rates, made from the first of some uniform numbers, which are given as words of a state.

        Returns how many words are used, or more than there are where they are not enough; there must be two of them at least.
        """
        state, first = self.state, _STATE - len(numbers)
        state[first:_STATE] = numbers
        state[_STATE] = first
        into[:] = self.sampler.poisson(rates)
        # Having used all words, the generator makes all of them anew.
        made = state[first] != numbers[0] or state[first + 1] != numbers[1]
        return _STATE + 1 if made else int(state[_STATE]) - first


_SAMPLER = _Sampler()


def poisson(stream: MersenneTwister, rates: Array) -> Array | None:
    """Return one count per rate in double precision, or None where some are not in [0, 10) or they are few."""
    if rates.size < MANY_COUNTS or not (rates.min() >= 0 and rates.max() < PRODUCTS_BELOW):
        return None
    # How many numbers counts take on average, and which counts are taken together: those that one state is likely to be enough for.
    taken = np.cumsum(rates + 1)
    ends = np.searchsorted(taken, np.arange(1, int(taken[-1]) // _LIKELY + 1) * _LIKELY, "right")
    waiting = [*zip((0, *ends), (*ends, rates.size), strict=True)][::-1]
    waiting = [(int(start), int(end)) for start, end in waiting if end > start]
    result = np.empty(rates.size)
    left = np.empty(0, np.uint64)
    while waiting:
        (key, place), kept, used = stream.position(), len(left), 0
        wanted = int(taken[-1] - taken[waiting[-1][0]]) + _STATE
        drawn = np.concatenate((left, words(stream, min(wanted, _AHEAD), np.uint64)))
        raw = _state_words(drawn)
        with _SAMPLER.lock:
            # The last numbers wait for more, unless nothing is left to do.
            while waiting and len(raw) - used >= _STATE:
                start, end = waiting.pop()
                needed = _SAMPLER.counts(rates[start:end], raw[used : used + _STATE], result[start:end])
                if needed <= _STATE:
                    used += needed
                elif end - start > 1:
                    middle = (start + end) // 2
                    waiting += (middle, end), (start, middle)
                else:
                    raise RuntimeError(f"poisson: a count of rate {rates[start]} takes more than {_STATE // 2} numbers")
        left = drawn[used // 2 :]
    if len(left):
        stream.move_to(key, place)
        # What was left from before is used up first.
        words(stream, used // 2 - kept, np.uint64)
    return result


def _state_words(drawn: Array) -> Array:
    """Return the words of a Mersenne Twister's state from which NumPy reads the numbers of 53 bits that words of 64 bits make."""
    result = np.empty(2 * len(drawn), np.uint32)
    numbers = drawn & LOW_53
    # NumPy takes the upper 27 bits of one word and the upper 26 of the next.
    result[0::2] = numbers >> np.uint64(26) << np.uint64(5)
    numbers &= np.uint64((1 << 26) - 1)
    result[1::2] = numbers << np.uint64(6)
    for start in range(0, len(result), _AHEAD // 4):
        _untemper(result[start : start + _AHEAD // 4])
    return result


def _untemper(y: Array) -> None:
    """Undo what a Mersenne Twister does to a word of its state (Matsumoto and Nishimura, 1998), step by step from the last."""
    y ^= y >> np.uint32(18)
    y ^= (y << np.uint32(15)) & np.uint32(0xEFC60000)
    x = y.copy()
    # Each time seven more bits are right.
    for _ in range(4):
        x <<= np.uint32(7)
        x &= np.uint32(0x9D2C5680)
        x ^= y
    y[...] = x
    y ^= x >> np.uint32(11)
    y ^= x >> np.uint32(22)
