"""Draws by compiled samplers, where there are some: each function returns None, or False, where NumPy is to draw."""

from __future__ import annotations

from typing import Any

import numpy as np
from webgpu_torch_core.random_streams.streams import MersenneTwister

from .jit.samplers import sampler
from .uniform_numbers import words

Array = Any

#: words drawn ahead at most of numbers that each take as many as they like
AHEAD = 1 << 16


def normal(drawn: np.ndarray, mean: float, std: float, into: np.ndarray) -> bool:
    """Write normal numbers from blocks of 16 words: float32 numbers from words of 32 bits, doubles from words of 64; return whether it can."""
    single = drawn.dtype == np.uint32
    run = sampler("normal_singles" if single else "normal_doubles", drawn.size)
    if run is None:
        return False
    # A pass makes a row of single ones, or a pair of doubles.
    run(0, drawn.size // (16 if single else 2), [drawn, into], (), (std, mean))
    return True


def permutation(stream: MersenneTwister, count: int, kind: type) -> Array | None:
    """Return the numbers below ``count`` shuffled by words of a type."""
    run = sampler(f"permutation_{np.dtype(kind).itemsize * 8}", count)
    if run is None:
        return None
    result = np.arange(count)
    run(0, count - 1, [words(stream, count - 1, kind), result], (count,), ())
    return result


def shares(table: Array, draws: Array) -> Array | None:
    """Return in which share of its row's weights each draw of their type lies."""
    name = table.dtype.name
    run = sampler(f"shares_{name}", table.size + draws.size) if name in ("float32", "float64") else None
    if run is None:
        return None
    result, sums = np.empty(draws.shape, np.int64), np.empty(table.shape[1], table.dtype)
    run(0, len(table), [table, draws, result, sums], (table.shape[1], draws.shape[1]), ())
    return result


def poisson(stream: MersenneTwister, rates: Array) -> Array | None:
    """Return counts of rates in double precision, which are finite and not negative."""
    run = sampler("poisson", rates.size)
    if run is None:
        return None
    result, state, done = np.empty(rates.size), np.zeros(2, np.int64), 0
    left = np.empty(0, np.uint64)
    while True:
        (key, place), kept = stream.position(), len(left)
        drawn = words(stream, min(4 * (rates.size - done) + 64, AHEAD), np.uint64)
        drawn = np.concatenate((left, drawn)) if kept else drawn
        run(done, rates.size, [drawn, rates, result, state], (len(drawn),), ())
        used, done = int(state[0]), int(state[1])
        left = drawn[used:]
        if done == rates.size:
            break
    if len(left):
        stream.move_to(key, place)
        # What was left from before is used up first: a number takes fewer words than are drawn at a time.
        words(stream, used - kept, np.uint64)
    return result
