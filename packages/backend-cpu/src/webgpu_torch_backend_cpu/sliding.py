"""Products with patches of which one tap after the other is a part of the same memory.

Where the next tap along an axis reads what a later place reads, as in convolutions, patches need no copy of their own for each tap
along it: they are laid out for the other taps only, with as many more places as there are taps, and each tap along the axis is a
product with a part of them. Where a window moves several places at a time, taps are of as many kinds, each laid out by itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .moving import move

Array = Any

#: bytes of patches and of their products that are worked on at a time
BLOCK_BYTES = 3 << 20
#: products of fewer terms cost more than the copies that they save
LEAST_DEPTH = 16
#: how many times as long it takes to copy numbers that lie apart as to copy or add up those of patches
APART = 3


class Slide(NamedTuple):
    """The axis of taps along which a window slides over an axis of places.

    Fields:
        tap: the axis.
        parts: kinds of taps: how many there are from one place to the next.
        step: how many places there are from one tap of a kind to the next.
    """

    tap: int
    parts: int
    step: int

    def shifts(self, count: int, part: int = 0) -> int:
        """Return how many of so many taps are of a kind."""
        return len(range(part, count, self.parts))


def are_together(array: Array, first: int, end: int | None = None) -> bool:
    """Return whether axes from one on lie as one axis would, so that they become one without a copy."""
    axes = [axis for axis in range(first, array.ndim if end is None else end) if array.shape[axis] > 1]
    pairs = itertools.pairwise(axes)
    return all(array.strides[one] == array.strides[other] * array.shape[other] for one, other in pairs)


def blocks(count: int, nbytes: int, limit: int) -> Iterator[slice]:
    """Yield slices of an axis whose entries take so many bytes each, all as long as that allows and of one length."""
    step = max(limit // max(nbytes, 1), 1)
    step = math.ceil(count / math.ceil(count / step)) if count else 1
    return (slice(start, start + step) for start in range(0, count, step))


def slide_of(right: Array, batch: int, place: int, taps: range, rows: int) -> Slide | None:
    """Return along which of some axes of taps a window slides over an axis of places; None where there is nothing to save.

    A slide saves copies of patches. It pays with sums of products, of which there are ``rows`` for each place, and a copy of the other
    side, whose elements lie apart.
    """
    depth, across = math.prod(right.shape[axis] for axis in taps), right.strides[place]
    places = math.prod(right.shape[batch : taps.start])
    found: list[tuple[float, Slide]] = []
    for axis in taps:
        along = right.strides[axis]
        if along > 0 and across > 0 and (along % across == 0 or across % along == 0):
            slide = Slide(axis, max(across // along, 1), max(along // across, 1))
            more = slide.shifts(right.shape[axis]) - 1
            saved = depth * places * more / (more + 1) - rows * (places * more + APART * depth)
            if saved > 0 and depth // (more + 1) >= LEAST_DEPTH and right.shape[place] > slide.step * more:
                found.append((saved, slide))
    return max(found, default=(0, None))[1]


def slid_products(factors: list[Array], right: Array, batch: int, slide: Slide, into: Array) -> None:
    """Write the products of :func:`factors_of` something with right [batch…, places…, taps…] into an array [batch…, m, places…]."""
    lead, m, width = into.shape[:batch], into.shape[batch], math.prod(into.shape[batch + 2 :])
    rows = _rows(right, batch, slide, 2 * m * width)
    spare = np.empty((*lead, m, rows * width), right.dtype)
    for start, stop, patches in _strips(right, batch, into.ndim - batch - 1, slide, rows):
        place = into[(slice(None),) * (batch + 1) + (slice(start, stop),)]
        # Where its places lie apart, there is no matrix to write into.
        is_matrix = are_together(place, batch + 1)
        target = place.reshape((*lead, m, -1)) if is_matrix else np.empty((*lead, m, patches[0].shape[-1]), right.dtype)
        for number, (factor, patch) in enumerate(zip(factors, patches, strict=True)):
            out = spare[..., : patch.shape[-1]] if number else target
            np.matmul(factor, patch, out=out)
            if number:
                target += out
        if not is_matrix:
            move(place, target.reshape(place.shape))


def factors_of(left: Array, right: Array, batch: int, slide: Slide) -> list[Array]:
    """Return the matrices [batch…, m, taps] of the taps of each shift that left [batch…, m, taps…] is multiplied as."""
    moved = np.moveaxis(left, left.ndim - right.ndim + slide.tap, batch + 1)
    head = (slice(None),) * (batch + 1)
    return [
        moved[(*head, slice(start, start + slide.parts))].reshape((*left.shape[: batch + 1], -1))
        for start in range(0, moved.shape[batch + 1], slide.parts)
    ]


def _rows(right: Array, batch: int, slide: Slide, more: int) -> int:
    """Return how many places are worked on at a time, given how many numbers there are for each beside its patch."""
    more_places = slide.step * (slide.shifts(right.shape[slide.tap]) - 1)
    each = right.itemsize * math.prod(right.shape) // (right.shape[batch] * slide.shifts(right.shape[slide.tap]))
    each += more * right.itemsize * math.prod(right.shape[:batch])
    most, size = max(BLOCK_BYTES // max(each, 1), 2 * more_places, 1), right.shape[batch]
    # As many in each block: a short last one would be a slow product.
    return math.ceil(size / math.ceil(size / most))


def _strips(right: Array, batch: int, columns: int, slide: Slide, rows: int) -> Iterator[tuple[int, int, list[Array]]]:
    """Yield ranges of places and, for each shift, the matrix [batch…, taps, places] of patches there."""
    lead, size, inner = right.shape[:batch], right.shape[batch], right.shape[batch + 1 : batch + columns]
    taps = [axis for axis in range(batch + columns, right.ndim) if axis != slide.tap]
    count, number = right.shape[slide.tap], len(taps)
    order = (slide.tap, *range(batch), *taps, *range(batch, batch + columns))
    turned = right.transpose(order)
    shifts, others = slide.shifts(count), tuple(right.shape[axis] for axis in taps)
    memory = np.empty((*lead, slide.parts, *others, rows + slide.step * (shifts - 1), *inner), right.dtype)
    head, middle = (slice(None),) * batch, (slice(None),) * number
    for start in range(0, size, rows):
        stop = min(start + rows, size)
        for part in range(min(slide.parts, count)):
            # All that the taps of a kind read lies in a row: from one tap to the next it is so many places further.
            extent = stop - start + slide.step * (slide.shifts(count, part) - 1)
            first = turned[(part, *head, *middle, slice(start, None))]
            shape = (*lead, *others, extent, *inner)
            source = np.lib.stride_tricks.as_strided(first, shape, first.strides, writeable=False)
            move(memory[(*head, part, *middle, slice(0, extent))], source)
        patches: list[Array] = []
        for shift in range(shifts):
            kinds = min(slide.parts, count - shift * slide.parts)
            places = slice(shift * slide.step, shift * slide.step + stop - start)
            patch = memory[(*head, slice(0, kinds), *middle, places)]
            patches.append(patch.reshape((*lead, kinds * math.prod(others), -1)))
        yield start, stop, patches
