"""Products of windows over one channel with whole lines of it: what lies outside of a line needs no place in memory.

A short line times a matrix that holds the taps on its diagonals, cut off where they would leave the line, is the sum over the last taps
at all places of the line: lines that follow each other are the rows of a matrix for BLAS, and are not padded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .moving import move
from .pool import empty, give_registers, take_registers
from .sliding import blocks
from .windows import Affine, Axis, Window, patches

Array = Any

#: places of a line at most, and elements that they are read from
LONGEST = 28
LONGEST_SOURCE = 2 * LONGEST
#: bytes of lines laid out at a time: they stay in the second-level cache until BLAS has read them
LINE_BYTES = 1 << 18


class Lines(NamedTuple):
    """A window by its lines: the axes of the domain that number places and taps along them, and what it reads but for these.

    The place x and the tap t of a line are element ``across * x + along * t + start`` of ``size`` elements.
    """

    place: int
    tap: int
    across: int
    along: int
    start: int
    size: int
    rest: Window

    def diagonals(self, domain: tuple[int, ...], matrix: Array) -> Iterator[tuple[int, slice, Array]]:
        """Yield each tap, the places where it is inside of the line, and its part of matrices ``[…, element, place]``."""
        *outer, row, column = matrix.strides
        for tap in range(domain[self.tap]):
            first = self.along * tap + self.start
            low = max(-(first // self.across), 0)
            high = min((self.size - 1 - first) // self.across + 1, domain[self.place])
            if low < high:
                corner = matrix[..., first + self.across * low :, low:]
                shape, strides = (*matrix.shape[:-2], high - low), (*outer, self.across * row + column)
                yield tap, slice(low, high), np.lib.stride_tricks.as_strided(corner, shape, strides)


@lru_cache(maxsize=512)
def _lines_of(window: Window, domain: tuple[int, ...], places: range, taps: range) -> Lines | None:
    """Return a window's lines along its last axis, None where they are long or no lines."""
    if not window.axes:
        return None
    *others, axis = window.axes
    factors = dict(axis.position.factors)
    place, tap = (next((each for each in group if each in factors), None) for group in (places, taps))
    if place is None or tap is None or len(factors) > 2 or axis.stride != 1 or factors[place] < 1:
        return None
    elsewhere = (window.rest, *(each.position for each in others))
    if any(each in (place, tap) for part in elsewhere for each, _ in part.factors):
        return None
    if domain[place] > LONGEST or axis.size > LONGEST_SOURCE:
        return None
    whole = Axis(axis.size, 1, Affine(((tap, 1),), 0))
    return Lines(
        place,
        tap,
        factors[place],
        factors[tap],
        axis.position.constant,
        axis.size,
        window._replace(axes=(*others, whole)),
    )


def contract(
    left: Array,
    flat: Array,
    window: Window,
    domain: tuple[int, ...],
    counts: tuple[int, int, int],
    kind: type[np.generic],
) -> Array | None:
    """Return the sums of ``left[channel, 1…, k…]`` times what a window reads at ``[channel, 1…, n…, k…]`` as an array [channel, n…].

    None where its lines are no good for that, or where a number is not finite: times 0 it would reach all of its line.
    """
    first = 1 + counts[1]
    n, k = range(first, first + counts[2]), range(first + counts[2], len(domain))
    forward = math.prod(domain[axis] for axis in k) <= math.prod(domain[axis] for axis in n)
    places, taps = (n, k) if forward else (k, n)
    line = _lines_of(window, domain, places, taps)
    # Places that follow each other are a run, which takes fewer multiplications by 0.
    if line is None or (forward and line.across == 1 and domain[line.tap] > 1):
        return None
    cut = list(domain)
    cut[line.place], cut[line.tap] = 1, line.size
    source, memory = patches(flat, line.rest, tuple(cut), kind)
    order = ([axis for axis in places if axis != line.place], [axis for axis in taps if axis != line.tap])
    source = source.transpose((0, *range(1, first), line.place, *order[0], *order[1], line.tap))[
        (slice(None), *(0,) * first)
    ]
    left = left.reshape((len(left), *left.shape[first + len(n) :]))
    left = np.moveaxis(left, 1 + (line.tap if forward else line.place) - k.start, -1)
    whole = (
        _sums(left, source, line, domain, len(order[0]))
        if forward
        else _gradient(left, source, line, domain, len(order[0]))
    )
    if memory is not None:
        give_registers(memory)
    if not np.isfinite(np.add.reduce(whole, axis=None)):
        return None
    return np.moveaxis(whole, -1, 1 + (line.place if forward else line.tap) - n.start)


def _matrices(source: Array, count: int) -> Iterator[tuple[slice, Array]]:
    """Yield channels and their lines laid out as rows of a matrix, the first ``count`` axes numbering these."""
    depth = math.prod(source.shape[1 + count :])
    each = math.prod(source.shape[1:]) * source.itemsize
    memory = take_registers(max(LINE_BYTES, each))
    for block in blocks(len(source), each, LINE_BYTES):
        part = source[block]
        rows = np.ndarray(part.shape, source.dtype, memory)
        move(rows, part)
        yield block, rows.reshape(len(part), -1, depth)
    give_registers(memory)


def _sums(left: Array, source: Array, line: Lines, domain: tuple[int, ...], count: int) -> Array:
    """Return the sums over taps of ``left[channel, taps…]`` times lines [channel, places…, taps…, element]."""
    width = domain[line.place]
    matrix = np.zeros((*left.shape[:-1], line.size, width), left.dtype)
    for tap, _, part in line.diagonals(domain, matrix):
        part[...] = left[..., tap, None]
    matrix = matrix.reshape(len(left), -1, width)
    found = empty((*source.shape[: 1 + count], width), left.dtype)
    for block, rows in _matrices(source, count):
        np.matmul(rows, matrix[block], out=found[block].reshape(len(rows), -1, width))
    return found


def _gradient(left: Array, source: Array, line: Lines, domain: tuple[int, ...], count: int) -> Array:
    """Return the sums over places of ``left[channel, places…]`` times lines [channel, places…, taps…, element]."""
    found = np.zeros((*source.shape[:1], *source.shape[1 + count : -1], domain[line.tap]), left.dtype)
    left = left.reshape(len(left), -1, left.shape[-1])
    for block, rows in _matrices(source, count):
        products = np.matmul(rows.swapaxes(-1, -2), left[block])
        products = products.reshape((len(rows), *found.shape[1:-1], line.size, -1))
        for tap, _, part in line.diagonals(domain, products):
            found[block][..., tap] = part.sum(-1)
    return found
