"""Shuffled numbers: exchanges of places, many at a time."""

from __future__ import annotations

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
MOST, OF_ROOT, LEAST = 1 << 13, 16, 1 << 13


def permutation(stream: MersenneTwister, count: int) -> Array:
    """Return what :func:`~webgpu_torch_core.random_streams.distributions.fill_permutation` returns."""
    kind = np.uint32 if count < 0xFFFFFFFF // 20 else np.uint64
    found = compiled_draws.permutation(stream, count, kind)
    if found is not None:
        return found
    shuffled = _Shuffled(count)
    start = 0
    for run in runs_of_words(stream, count - 1, kind, CHUNK):
        others = _rests(run, count - start)
        others += np.arange(start, start + len(run))
        first, start = start, start + len(run)
        at = first
        while at < start and count - at > LEAST:
            stop = min(at + MOST, at + OF_ROOT * math.isqrt(count - at), start)
            shuffled.exchange(at, others[at - first : stop - first])
            at = stop
        _exchange_in_order(shuffled.numbers, at, others[at - first :])
    return shuffled.finished()


def _rests(drawn: Array, first: int) -> Array:
    """Return remainders of words by the numbers from one on downwards, as positions."""
    by = np.arange(first, first - len(drawn), -1, dtype=drawn.dtype)
    if drawn.dtype != np.uint32:
        return (drawn % by).view(np.int64)
    # In double precision no quotient of words is rounded to the next whole number, and there are vector instructions for it.
    return (drawn - (drawn.astype(np.float64) / by).astype(np.uint32) * by).astype(np.int64)


class _Shuffled:
    """Numbers whose places are exchanged in turn, each with one that is not before it, many at a time.

    An exchange leaves a place as it stays, with what its other place held. That is what was there before, or what an exchange of the
    same turn with the same other place brought there last: those few are noted and written at the end.
    """

    def __init__(self, count: int) -> None:
        self.numbers = np.arange(count)
        self.marks = np.empty(count if count > LEAST else 0, np.int32)
        self.order = np.arange(MOST, dtype=np.int32)
        #: of exchanges whose other place a later one of the turn has, too: theirs, the last one's with that place, and what they bring
        self.noted: list[tuple[Array, Array, Array]] = []

    def exchange(self, start: int, others: Array) -> None:
        """Exchange the places from ``start`` on with others."""
        numbers, marks, stop = self.numbers, self.marks, start + len(others)
        order, own = self.order[: len(others)], numbers[start:stop].copy()
        # The exchange of a place within this turn brings, when it comes to it, what an earlier one left there.
        within = np.flatnonzero(others < stop)
        left = others[within] - start
        places, targets = within.tolist(), left.tolist()
        if set(places).isdisjoint(targets):
            own[left] = own[within]
        else:
            for place, target in zip(places, targets, strict=True):
                own[target] = own[place]
        # Of exchanges with one place the last one's number is left there.
        marks[others] = order
        last = marks.take(others, mode="clip")
        early = np.flatnonzero(last != order)
        self.noted.append((early + start, last[early] + start, own[early]))
        taken = numbers.take(others, mode="clip")
        numbers[others] = own
        numbers[start:stop] = taken

    def finished(self) -> Array:
        """Return the numbers as they stay."""
        if self.noted:
            early, last, brought = map(np.concatenate, zip(*self.noted, strict=True))
            order = np.argsort(last, kind="stable")
            early, last = early[order], last[order]
            same = np.flatnonzero(last[1:] == last[:-1])
            last[same] = early[same + 1]
            self.numbers[last] = brought[order]
        return self.numbers


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
