"""Contractions over windows of one channel: products of tiles with banded matrices, or shifted multiply-adds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .moving import move, together
from .pool import give_registers, take_registers
from .rows import run_of
from .sliding import blocks

Array = Any

#: bytes of the sums of shifted multiply-adds that are added up at a time
SHIFTED_BYTES = 1 << 21
#: bytes of tiles laid out at a time, the widest tile, and the longest line that is cut into tiles where positions are neighbours
TILE_BYTES = 1 << 18
WIDEST_TILE, LONGEST_BANDED = 28, 64
#: taps up to which shifted multiply-adds along lines of at least so many places are quicker than tiles
FEW_TAPS, LONG_LINE = 9, 32


def alone(left: Array, right: Array, batch: int, columns: int, into: Array | None = None) -> Array:
    """Return the sums over k of ``left[batch, k] * right[batch, n, k]``: a window over one channel, or such a window's gradient.

    They may be written ``into`` an array.
    """
    n, k = range(batch, batch + columns), range(batch + columns, right.ndim)
    forward = math.prod(left.shape[batch:]) <= math.prod(right.shape[axis] for axis in n)
    places, taps = (n, k) if forward else (k, n)
    few = forward and math.prod(left.shape[batch:]) <= FEW_TAPS and right.shape[batch + columns - 1] >= LONG_LINE
    if batch == 1 and places and taps and not few:
        if right.strides[taps[-1]] < 0:
            right = np.flip(right, taps[-1])
            if not forward:
                return np.flip(alone(left, right, batch, columns), taps[-1])
            left = np.flip(left, -1)
        bands = _bands(right, tuple(places), tuple(taps))
        if bands is not None:
            found = _banded(left, bands) if forward else _banded_gradient(left, bands)
            # A number that is not finite reaches, times 0, all of its tile: then only what a window covers may count.
            if np.isfinite(found).all():
                return found
    return _shifted(left, right, batch, into) if forward else _correlated(left, right, batch, columns)


class Bands(NamedTuple):
    """A window whose last axis is cut into tiles: ``tiles[channel, places…, tile, taps…, position]``.

    Every tile reads a run of positions, and the product of its run with a matrix that holds the taps on diagonals is the sum over
    the last taps for all of the tile: a few multiplications by 0 buy products of matrices for BLAS.
    """

    tiles: Array
    places: tuple[int, ...]
    taps: tuple[int, ...]
    width: int
    steps: tuple[int, int]

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield channels and their tiles laid out as rows of a matrix, as many as stay in cache."""
        depth = math.prod(self.taps[:-1]) * self.tiles.shape[-1]
        for block in blocks(len(self.tiles), math.prod(self.tiles.shape[1:]) * self.tiles.itemsize, TILE_BYTES):
            part = self.tiles[block]
            yield block, together(part).reshape(len(part), -1, depth)

    def diagonals(self, matrix: Array) -> Array:
        """Return the elements ``[channel, taps…, place in its tile]`` of matrices ``[channel, taps…, position, place]``."""
        across, along = self.steps
        *outer, row, column = matrix.strides
        strides = (*outer, along * row, across * row + column)
        return np.lib.stride_tricks.as_strided(matrix, (len(matrix), *self.taps, self.width), strides)


def _bands(right: Array, places: tuple[int, ...], taps: tuple[int, ...]) -> Bands | None:
    """Return a window cut into tiles, or None where its shape is no good for that."""
    size, length = right.itemsize, right.shape[places[-1]]
    across, along = (right.strides[axis[-1]] // size for axis in (places, taps))
    count = right.shape[taps[-1]]
    width = next((each for each in range(min(length, WIDEST_TILE), 5, -1) if length % each == 0), 0)
    if not width or across < 1 or along < 1 or count < 2 or (across == 1 and length > LONGEST_BANDED):
        return None
    run = (width - 1) * across + (count - 1) * along + 1
    outer, inner = places[:-1], taps[:-1]
    shape = (
        len(right),
        *(right.shape[axis] for axis in outer),
        length // width,
        *(right.shape[axis] for axis in inner),
        run,
    )
    strides = (
        right.strides[0], *(right.strides[axis] for axis in outer), width * across * size,
        *(right.strides[axis] for axis in inner), size,
    )  # fmt: skip
    tiles = np.lib.stride_tricks.as_strided(right, shape, strides)
    lengths, counts = (tuple(right.shape[axis] for axis in group) for group in (places, taps))
    return Bands(tiles, lengths, counts, width, (across, along))


def _banded(left: Array, bands: Bands) -> Array:
    """Return the sums over taps of ``left[channel, taps…]`` times a window."""
    tiles, width = bands.tiles, bands.width
    result = np.empty((len(tiles), *bands.places), tiles.dtype)
    for block, rows in bands.blocks():
        matrix = np.zeros((len(rows), *bands.taps[:-1], tiles.shape[-1], width), tiles.dtype)
        bands.diagonals(matrix)[...] = left[block][..., None]
        matrix = matrix.reshape(len(rows), -1, width)
        np.matmul(rows, matrix, out=result[block].reshape(len(rows), -1, width))
    return result


def _banded_gradient(left: Array, bands: Bands) -> Array:
    """Return the sums over places of ``left[channel, places…]`` times a window."""
    result = np.empty((len(left), *bands.taps), left.dtype)
    left = left.reshape(len(left), -1, bands.width)
    for block, rows in bands.blocks():
        products = np.matmul(rows.swapaxes(-1, -2), left[block])
        products = products.reshape(len(rows), *bands.taps[:-1], -1, bands.width)
        result[block] = bands.diagonals(products).sum(-1)
    return result


def _shifted(left: Array, right: Array, batch: int, into: Array | None) -> Array:
    """Return the sum over k of ``left[batch, k] * right[batch, n, k]``: shifted inputs times a number each, added up.

    Where the n axes lie one within the other with little between them, the whole run of memory is multiplied, gaps and all:
    one long loop instead of many short ones. The sum may be written ``into`` an array.
    """
    taps, columns = left.shape[batch:], right.ndim - left.ndim
    lead, n, size = right.shape[:batch], right.shape[batch : batch + columns], right.itemsize
    steps = right.strides[batch : batch + columns]
    span = run_of(n, steps, size)
    runs = right
    if span:
        strides = (*right.strides[:batch], size, *right.strides[batch + columns :])
        runs = np.lib.stride_tricks.as_strided(right, (*lead, span, *taps), strides)
    result = np.empty((*lead, *n), right.dtype) if into is None else into
    width = math.prod(runs.shape[1 : runs.ndim - len(taps)])
    first, spread = runs.ndim - len(taps), (..., *(None,) * (runs.ndim - left.ndim))
    # The taps of an axis whose neighbours lie farther apart than those of places are added up in one go.
    together = len(taps) > 1 and runs.strides[first] > runs.strides[first - 1]
    axes, by = list(range(first + 1)), [*range(batch), first]
    memory = take_registers(2 * min(max(SHIFTED_BYTES, width * size), lead[0] * width * size))
    for block in blocks(lead[0], width * size, SHIFTED_BYTES):
        part, factors = runs[block], left[block]
        total, term = np.ndarray((2, *part.shape[:first]), right.dtype, memory)
        for number, tap in enumerate(np.ndindex(*taps[together:])):
            target, one, factor = term if number else total, part[(..., *tap)], factors[(..., *tap)]
            if together:
                np.einsum(one, axes, factor, by, axes[:-1], out=target)
            else:
                np.multiply(one, factor[spread], out=target)
            if number:
                total += term
        if span:
            kept = (*total.shape[:-1], *n)
            total = np.lib.stride_tricks.as_strided(total, kept, (*total.strides[:-1], *steps))
        move(result[block], total)
    give_registers(memory)
    return result


def _correlated(left: Array, right: Array, batch: int, columns: int) -> Array:
    """Return the sum over k of ``left[batch, k] * right[batch, n, k]`` where k is long and n is short."""
    result = np.empty(right.shape[: batch + columns], right.dtype)
    axes = list(range(left.ndim))
    for place in np.ndindex(*result.shape[batch:]):
        part = right[(slice(None),) * batch + place]
        result[(..., *place)] = np.einsum(left, axes, part, axes, axes[:batch])
    return result
