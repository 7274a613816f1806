"""Contractions over windows: convolutions and their gradients without dense products.

Patches are laid out for BLAS a cache-sized block at a time (Chellapilla et al., 2006, a piece at a time); groups of one channel,
where a product would have one row, are computed otherwise (:mod:`.channels`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from . import channels, lines, rows
from .moving import move, together
from .pool import give_registers
from .sliding import are_together, blocks, factors_of, slid_products, slide_of
from .windows import Window, padded, patches

Array = Any

#: bytes of patches laid out at a time: they stay in the second-level cache until BLAS has read them
PATCH_BYTES = 1 << 20
#: bytes of channels that are padded at a time
PADDED_BYTES = 1 << 18
#: places of an image from which on it is worth a product of its own
LEAST_PLACES = 256


def contract_window(
    left: Array,
    flat: Array,
    window: Window,
    domain: tuple[int, ...],
    counts: tuple[int, int, int],
    kind: type[np.generic],
    into: Array | None = None,
) -> Array:
    """Return the sums of :func:`contract` of what a window reads of an operand; ``domain``: with the axes of m of size 1."""
    batch, m, _ = counts
    if batch == 1 < domain[0] and math.prod(left.shape[1 : 1 + m]) == 1:
        found = lines.contract(left, flat, window, domain, counts, kind)
        if found is None:
            found = _by_rows(left, flat, window, domain, counts, kind, into)
        if found is not None:
            if into is None or found is into:
                return found
            move(into, found.reshape(into.shape))
            return into
    read, memory = patches(flat, window, domain, kind)
    found = contract(left, read, counts, into)
    if memory is not None:
        give_registers(memory)
    return found


def _by_rows(
    left: Array,
    flat: Array,
    window: Window,
    domain: tuple[int, ...],
    counts: tuple[int, int, int],
    kind: type[np.generic],
    into: Array | None,
) -> Array | None:
    """Return the sums of :func:`contract_window` for windows of one channel each by rows; None where they are no good for that."""
    first = 1 + counts[1]
    n = range(first, first + counts[2])
    left = left.reshape((domain[0], *domain[n.stop :]))
    target = None if into is None else into[(slice(None), *(0,) * counts[1])]
    load: Callable[[int], None] | None = None
    if window.axes and window.has_axis(0):
        place, size = padded(flat, window, domain, n), np.dtype(kind).itemsize
        if rows.rows_of(domain[first:], tuple(step * size for step in place.steps[first:]), counts[2], size) is None:
            return None
        per_channel = math.prod(place.whole[1:]) * size
        channels = len(range(domain[0])[next(blocks(domain[0], per_channel, PADDED_BYTES))])
        copy, memory = place.empty(kind, channels)
        right, load = place.window(copy, (channels, *domain[1:])), partial(place.fill, copy)
    else:
        right, memory = patches(flat, window, domain, kind)
    right = right[(slice(None), *(0,) * counts[1])]
    found = rows.contract(left, right, target, load)
    if memory is not None:
        give_registers(memory)
    return into if found is target and into is not None else found


def contract(left: Array, right: Array, counts: tuple[int, int, int], into: Array | None = None) -> Array:
    """Return the sums over k of ``left[batch, m, 1…, k] * right[batch, 1…, n, k]`` as an array [batch, m, n].

    ``counts``: how many axes are batch, m and n; all others are k. ``into``: where to write them.
    """
    batch, rows, columns = counts
    lead, n, k = right.shape[:batch], right.shape[batch + rows : sum(counts)], right.shape[sum(counts) :]
    m = left.shape[batch : batch + rows]
    left = left.reshape((*lead, math.prod(m), *k))
    right = right[(slice(None),) * batch + (0,) * rows]
    if math.prod(m) == 1 and math.prod(lead) > 1:
        target = None if into is None else into[(slice(None),) * batch + (0,) * rows]
        found = channels.alone(left.reshape((*lead, *k)), right, batch, columns, target)
        if into is not None and found is target:
            return into
    elif columns and _run(right, batch + columns - 1) >= _run(right, right.ndim - 1):
        found = into
        if found is None or rows != 1 or not are_together(found, batch + 1 + (columns > 1)):
            found = np.empty((*lead, math.prod(m), *n), right.dtype)
        _products(left, right, batch, found)
    else:
        found = _sums(left, right, batch, columns)
    if into is None:
        return found.reshape((*lead, *m, *n))
    if found is not into:
        move(into, found.reshape(into.shape))
    return into


def _run(array: Array, axis: int) -> float:
    """Return how many elements along an axis lie close together."""
    return array.shape[axis] * array.itemsize / max(abs(array.strides[axis]), 1)


def _products(left: Array, right: Array, batch: int, into: Array) -> None:
    """Write the products of left [batch, m, k…] with patches [batch, n…, k…] into an array [batch, m, n…]."""
    columns = into.ndim - batch - 1
    taps = range(batch + columns, right.ndim)
    slide = slide_of(right, batch, batch, taps, left.shape[batch])
    if slide is not None:
        slid_products(factors_of(left, right, batch, slide), right, batch, slide, into)
        return
    alone = columns > 1 and math.prod(right.shape[batch + 1 : batch + columns]) >= LEAST_PLACES
    slide = slide_of(right, batch, batch + 1, taps, left.shape[batch]) if alone else None
    if slide is not None:
        # The first axis is one of images.
        factors = factors_of(left, right, batch, slide)
        slide = slide._replace(tap=slide.tap - 1)
        for image in range(right.shape[batch]):
            part = into[(slice(None),) * (batch + 1) + (image,)]
            slid_products(factors, right[(slice(None),) * batch + (image,)], batch, slide, part)
        return
    n = right.shape[batch : batch + columns]
    depth = math.prod(left.shape[batch + 1 :])
    nbytes = depth * right.itemsize * math.prod(left.shape[:batch]) * math.prod(n[1:])
    turned = right.transpose((*range(batch), *range(batch + columns, right.ndim), *range(batch, batch + columns)))
    first = right.ndim - columns
    left = left.reshape((*left.shape[: batch + 1], depth))
    if are_together(turned, batch, first) and are_together(turned, first) and are_together(into, batch + 1):
        # A matrix already.
        patch, target = turned.reshape((*left.shape[:batch], depth, -1)), into.reshape((*left.shape[:-1], -1))
        np.matmul(left, patch, out=target)
        return
    each_alone = are_together(turned, batch, first) and are_together(turned, first + 1)
    if columns > 1 and (nbytes > PATCH_BYTES or (alone and each_alone)):
        # Image by image.
        factors = left.reshape((*left.shape[:-1], *right.shape[batch + columns :]))
        for image in range(n[0]):
            part = into[(slice(None),) * (batch + 1) + (image,)]
            _products(factors, right[(slice(None),) * batch + (image,)], batch, part)
        return
    for block in blocks(n[0], nbytes, PATCH_BYTES):
        part = turned[(slice(None),) * first + (block,)]
        is_matrix = are_together(part, batch, first) and are_together(part, first)
        part = (part if is_matrix else together(part)).reshape((*left.shape[:batch], depth, -1))
        place = into[(slice(None),) * (batch + 1) + (block,)]
        if are_together(place, batch + 1):
            np.matmul(left, part, out=place.reshape((*left.shape[:-1], -1)))
        else:
            move(place, np.matmul(left, part).reshape(place.shape))


def _sums(left: Array, right: Array, batch: int, columns: int) -> Array:
    """Return the products of left [batch, m, k…] with patches that lie along k, added up over some of k at a time."""
    lead, n, k = right.shape[:batch], right.shape[batch : batch + columns], right.shape[batch + columns :]
    result: Any = None
    nbytes = math.prod(lead) * math.prod(n) * math.prod(k[1:]) * right.itemsize
    for block in blocks(k[0], nbytes, PATCH_BYTES) if k else [...]:
        rest = (slice(None),) * (len(k) - 1)
        one = left[(..., block, *rest)] if k else left
        two = right[(..., block, *rest)] if k else right
        term = np.matmul(
            one.reshape((*lead, left.shape[batch], -1)), two.reshape((*lead, math.prod(n), -1)).swapaxes(-1, -2)
        )
        result = term if result is None else result + term
    return result
