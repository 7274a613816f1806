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
#: the words of the generator's state: two pointers, which word of its buffer is the next one, and the buffer
_POINTERS, _PLACE, _BUFFER = 2, 2, 3
_STATE = 12


class _Sampler:
    """NumPy's sampler over numbers that it is given."""

    def __init__(self) -> None:
        #: what the pointers of the state point into
        self.bits = bits = np.random.Philox(0)
        bits.state = {**bits.state, "buffer": np.arange(11, 15, dtype=np.uint64), "buffer_pos": 3}
        address: int = bits.ctypes.state_address
        state = np.frombuffer(memoryview((ctypes.c_uint64 * (_BUFFER + 4)).from_address(address)), np.uint64)
        if state[_PLACE:].view(np.int32)[0] != 3 or state[_BUFFER:].tolist() != [11, 12, 13, 14]:
            raise RuntimeError(
                f"the generator Philox of NumPy {np.__version__} keeps its words in an order that is not known"
            )
        # Words before the state are words before its buffer: their places are negative.
        self.memory = np.zeros(_AHEAD + _STATE, np.uint64)
        self.memory[_AHEAD : _AHEAD + _POINTERS] = state[:_POINTERS]
        self.place = self.memory[_AHEAD + _PLACE :].view(np.int32)
        # A sampler copies the structure that begins with the address of the state.
        of = ctypes.c_void_p.from_address(bits.ctypes.bit_generator.value)
        of.value = self.memory[_AHEAD:].ctypes.data
        self.sampler = np.random.RandomState(bits)
        of.value = address
        self.lock = threading.Lock()

    def counts(self, rates: Array, drawn: Array, into: Array) -> int | None:
        """Write counts of rates, made from the first of some words; return how many are used, None where they are not enough."""
        with self.lock:
            first = _AHEAD - len(drawn)
            # Of the 64 bits PyTorch takes the lower 53, NumPy the upper ones.
            np.left_shift(drawn, np.uint64(11), out=self.memory[first:_AHEAD])
            self.place[0] = first - _AHEAD - _BUFFER
            into[:] = self.sampler.poisson(rates)
            used = int(self.place[0]) + _AHEAD + _BUFFER - first
        return used if used <= len(drawn) else None


@lru_cache(maxsize=1)
def _sampler() -> _Sampler:
    return _Sampler()


def poisson(stream: MersenneTwister, rates: Array) -> Array | None:
    """Return one count per rate in double precision, or None where some are not in [0, 10) or they are few."""
    if rates.size < MANY_COUNTS or not (rates.min() >= 0 and rates.max() < PRODUCTS_BELOW):
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
        used = _sampler().counts(rates[done:end], drawn, result[done:end])
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
