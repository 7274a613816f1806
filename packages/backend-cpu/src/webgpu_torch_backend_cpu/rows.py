"""Sums over windows of one channel by rows of places: a few rows are a product of taps on diagonals with the rows that they read.

Rows are laid out once for each tap along them. What the taps from row to row read are other rows of these: they take no copies and no
sums of their own, but make the product deeper.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from webgpu_torch_core.ir.layouts import contiguous_strides

from .moving import move
from .pool import give_registers, take_registers
from .sliding import blocks

Array = Any
Numbers = tuple[int, ...]

#: bytes of lines and of their sums that are worked on at a time
LINE_BYTES = 3 << 18
#: rows of the result in a product: of more, more would be multiplied by zeros
MOST_ROWS = 4


class _Rows(NamedTuple):
    """How a window is read by rows.

    Fields:
        forwards: what turns taps so that they lie forwards.
        taps: the axes of taps, those from row to row first.
        places: the axes of the result, that of rows first.
        along, apart: how many taps there are from row to row, and how many rows from one to the next.
        shape, strides: of what is read, as ``[row, taps…, places…]``.
        first: which of these axes is the first of places but rows: what lies between these is read as well if they are a run of memory.
        height, sizes, steps: of the sums, how many rows there are, and how many places along each axis, so many elements apart.
    """

    forwards: tuple[slice, ...]
    taps: Numbers
    places: Numbers
    along: int
    apart: int
    shape: Numbers
    strides: Numbers
    first: int
    height: int
    sizes: Numbers
    steps: Numbers


def run_of(n: Numbers, steps: Numbers, size: int) -> int:
    """Return how many elements lie from the first place to the last; 0 where there is too much between them."""
    span = 1 + sum((count - 1) * step for count, step in zip(n, steps, strict=True)) // size
    return span if n and min(steps) > 0 and span <= 2 * math.prod(n) else 0


@lru_cache(maxsize=512)
def rows_of(shape: Numbers, strides: Numbers, columns: int, size: int) -> _Rows | None:
    """Return the rows of a window [n, k]; None where neighbouring places are no neighbours in memory, or where taps are many, or one.

    Rows are along the places where most taps meet others, but not along those that are neighbours. Without such places there is one.
    """
    places, taps = range(columns), range(columns, len(shape))
    steps = (*strides[:columns], *map(abs, strides[columns:]))
    many = [axis for axis in places if shape[axis] > 1]
    near = min(many, key=steps.__getitem__, default=-1)
    if near < 0 or steps[near] != size or not 1 < math.prod(shape[columns:]) <= math.prod(shape[:columns]):
        return None
    pairs = [
        (shape[tap], steps[place], place, tap)
        for place in many
        for tap in taps
        if place != near and shape[tap] > 1 and steps[tap] >= steps[place] > 0 == steps[tap] % steps[place]
    ]
    along, step, place, tap = max(pairs, default=(1, size, -1, -1))
    apart, height = (steps[tap] // step, shape[place]) if pairs else (1, 1)
    wide, others = ([axis for axis in group if axis not in (place, tap)] for group in (places, taps))
    sizes, between = (tuple(each[axis] for axis in wide) for each in (shape, steps))
    span = run_of(sizes, between, size)
    read = height + apart * (along - 1), *(shape[axis] for axis in others), *((span,) if span else sizes)
    return _Rows(
        tuple(slice(None, None, -1 if strides[axis] < 0 else 1) for axis in taps),
        tuple(1 + axis - columns for axis in ([tap] if pairs else []) + others),
        tuple(1 + axis for axis in ([place] if pairs else []) + wide),
        along, apart, read,
        (step, *(steps[axis] for axis in others), *((size,) if span else between)),
        1 + len(others), height, sizes,
        tuple(each // size for each in between) if span else contiguous_strides(sizes),
    )  # fmt: skip


def _at_once(height: int) -> int:
    """Return how many rows of the result a product has: few rows in one, others so that none is left over if that is possible."""
    return height if height < 2 * MOST_ROWS else MOST_ROWS // 2 if height % MOST_ROWS == MOST_ROWS // 2 else MOST_ROWS


def contract(
    left: Array, right: Array, into: Array | None = None, load: Callable[[int], object] | None = None
) -> Array | None:
    """Return the sum over k of ``left[channel, k] * right[channel, n, k]``, which may be written ``into`` an array.

    The window may be of a few channels only: of those from one on once ``load`` was called with its number. None where it is no good for
    rows, or where a number is not finite: times 0 it would reach other rows.
    """
    columns, channels = right.ndim - left.ndim, len(right)
    window = rows_of(right.shape[1:], right.strides[1:], columns, right.itemsize)
    if window is None:
        return None
    result = np.empty((len(left), *right.shape[1 : 1 + columns]), right.dtype) if into is None else into
    target = result.transpose((0, *window.places))
    if len(window.places) < 1 + len(window.sizes):
        target = target[:, None]
    left = left[(slice(None), *window.forwards)].transpose((0, *window.taps)).reshape((len(left), window.along, -1))
    matrices = _on_diagonals(left, _at_once(window.height), window.apart)
    first = right[(slice(None), *(slice(None),) * columns, *window.forwards)]
    source = as_strided(first, (channels, *window.shape), (right.strides[0], *window.strides))
    work = _Work.of(window, channels, right.dtype, matrices.shape[2:])
    number, finite = len(work.lines), True
    for start in range(0, len(left), channels):
        if load is not None:
            load(start)
        end = min(start + channels, len(left))
        for at in range(start, end, number):
            block = slice(at, min(at + number, end))
            finite = finite and work.add_up(source[at - start : block.stop - start], matrices[block])
            move(target[block], work.found[: block.stop - at])
    give_registers(work.memory)
    return result if finite else None


class _Work(NamedTuple):
    """Memory for lines and sums of as many channels and places as are worked on at a time.

    Fields:
        lines, total, found: rows of places for each tap along them, sums of rows with what lies between places, and without.
        products: the rows that each product reads, as ``[channel, product, row, place]``, and those that it writes.
        rows: of each product.
        pieces: the places worked on at a time, along the first of their axes, and which one of the lines' that is.
    """

    memory: Array
    lines: Array
    total: Array
    found: Array
    products: list[tuple[Array, Array]]
    rows: int
    pieces: list[range]
    axis: int

    @classmethod
    def of(cls, window: _Rows, channels: int, kind: np.dtype, matrix: Numbers) -> _Work:
        """Return memory for rows of so many channels at most. ``matrix``: how many rows each product has, and how many it reads."""
        (rows, depth), size, height = matrix, kind.itemsize, window.height
        (extent, *taps), sizes = window.shape[: window.first], window.shape[window.first :]
        count, width = math.prod(taps), math.prod(sizes)
        # As many channels, and places, as have their lines and sums in cache.
        each = (extent * count + height) * width * size
        number = min(channels, next(blocks(channels, each, LINE_BYTES)).stop)
        pieces = [range(sizes[0])[piece] for piece in blocks(sizes[0], number * each // sizes[0], LINE_BYTES)]
        memory = take_registers(number * each)
        total = np.ndarray((number, height, width), kind, memory)
        long = len(pieces[0]) * width // sizes[0]
        lines = np.ndarray((number, extent, *taps, len(pieces[0]), *sizes[1:]), kind, memory, total.nbytes)
        products = []
        for row, tiles in ((0, height // rows), (height - rows, 1 if height % rows else 0)):
            if tiles:
                tall, deep = width * size, long * count * size
                strides = extent * deep, rows * deep, long * size, size
                start = total.nbytes + row * deep
                read = np.ndarray((number, tiles, depth, long), kind, memory, start, strides)
                strides = height * tall, rows * tall, tall, size
                products.append((read, np.ndarray((number, tiles, rows, width), kind, memory, row * tall, strides)))
        strides = (*total.strides[:2], *(step * size for step in window.steps))
        found = np.ndarray((number, height, *window.sizes), kind, memory, 0, strides)
        return cls(memory, lines, total, found, products, rows, pieces, 1 + window.first)

    def add_up(self, part: Array, matrices: Array) -> bool:
        """Compute the sums of a part of the source; return whether they are those of the rows that each has."""
        here, axes = slice(len(part)), (slice(None),) * (self.axis - 1)
        rest = self.total.shape[-1] // part.shape[self.axis]
        for piece in self.pieces:
            move(self.lines[(here, *axes, slice(len(piece)))], part[(here, *axes, slice(piece.start, piece.stop))])
            for read, written in self.products:
                out = written[here, ..., piece.start * rest : piece.stop * rest]
                np.matmul(matrices, read[here, ..., : len(piece) * rest], out=out)
        # What is not finite reaches all rows of a product. BLAS is the quickest to tell.
        sums = self.total[here].reshape(-1)
        return self.rows == 1 or math.isfinite(np.dot(sums, sums))


def _on_diagonals(left: Array, rows: int, apart: int) -> Array:
    """Return the matrices [channel, 1, row, depth] of taps [channel, tap, others] that are so many rows apart."""
    number, along, others = left.shape
    matrices = np.zeros((number, 1, rows, (rows + apart * (along - 1)) * others), left.dtype)
    whole, _, row, size = matrices.strides
    strides = (whole, row + others * size, apart * others * size, size)
    as_strided(matrices, (number, rows, along, others), strides)[...] = left[:, None]
    return matrices
