"""Shuffled numbers: exchanges of places, many at a time."""

from __future__ import annotations

import itertools
import math
from array import array
from typing import Any

import numpy as np
from webgpu_torch_core.random_streams.streams import MersenneTwister

from . import compiled_draws
from .uniform_numbers import CHUNK, runs_of_words

Array = Any

#: exchanges that are made at a time at most, how many for the root of the number of places that they are among, and places down to
#: which that is quicker than one after the other: of that many few share a place
MOST, OF_ROOT, LEAST = 1 << 12, 4, 1 << 13


def permutation(stream: MersenneTwister, count: int) -> Array:
    """Return what :func:`~webgpu_torch_core.random_streams.distributions.fill_permutation` returns."""
    kind = np.uint32 if count < 0xFFFFFFFF // 20 else np.uint64
    found = compiled_draws.permutation(stream, count, kind)
    if found is not None:
        return found
    result, marks = np.arange(count), np.empty(count if count > LEAST else 0, np.int32)
    start = 0
    for run in runs_of_words(stream, count - 1, kind, CHUNK):
        others = _rests(run, count - start)
        others += np.arange(start, start + len(run))
        first, start = start, start + len(run)
        at = first
        while at < start and count - at > LEAST:
            stop = min(at + MOST, at + OF_ROOT * math.isqrt(count - at), start)
            _exchange(result, at, others[at - first : stop - first], marks)
            at = stop
        _exchange_in_order(result, at, others[at - first :])
    return result


def _rests(drawn: Array, first: int) -> Array:
    """Return remainders of words by the numbers from one on downwards, as positions."""
    by = np.arange(first, first - len(drawn), -1, dtype=drawn.dtype)
    if drawn.dtype != np.uint32:
        return (drawn % by).view(np.int64)
    # In double precision no quotient of words is rounded to the next whole number, and there are vector instructions for it.
    return (drawn - (drawn.astype(np.float64) / by).astype(np.uint32) * by).astype(np.int64)


def _exchange(result: Array, start: int, others: Array, marks: Array) -> None:
    """Exchange the places from ``start`` on with others behind them, one after the other.

    Exchanges that share no place with another one may be made at once; the few that do are made again, one by one.
    """
    stop, numbers = start + len(others), np.arange(len(others), dtype=np.int32)
    # Of exchanges with one place the last one's number is left there.
    marks[others] = numbers
    lost = np.flatnonzero(marks.take(others, mode="clip") != numbers)
    within = np.flatnonzero(others < stop)
    found = (lost, marks[others[lost]], within, others[within] - start)
    shared = sorted({*itertools.chain.from_iterable(each.tolist() for each in found)})
    ones, theirs = [start + each for each in shared], others[shared].tolist()
    values = dict(zip(places := ones + theirs, result[places].tolist(), strict=True))
    taken = result.take(others, mode="clip")
    result[others] = result[start:stop]
    result[start:stop] = taken
    for one, other in zip(ones, theirs, strict=True):
        values[one], values[other] = values[other], values[one]
    result[list(values)] = list(values.values())


def _exchange_in_order(result: Array, start: int, others: Array) -> None:
    """Do the same one after the other."""
    if len(others):
        values: list[int] = result[start:].tolist()
        taken: list[int] = []
        take = taken.append
        # What an exchange leaves in a place before its turn is found there when it comes.
        for own, other in zip(values, (others - start).tolist(), strict=False):
            take(values[other])
            values[other] = own
        result[start:] = array("q", taken + values[len(taken) :])
