"""Contractions over windows of an array: convolutions and their gradients, without gathering and without dense products.

What a kernel reads at computed positions is a window where every position is a sum of coordinates times numbers, kept inside
of some axes, with zero outside: then one padded copy and a strided view of it hold every patch. Patches are laid out for
BLAS a cache-sized block at a time (Chellapilla et al., 2006, a piece at a time); groups of one channel, where a product
would have one row, are products of tiles of lines with banded matrices, or shifted multiply-adds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from webgpu_torch_core.ir.expression import Expression
from webgpu_torch_core.ir.kernels import Contraction
from webgpu_torch_core.ir.layouts import Shape, contiguous_strides

from .sliding import are_together, factors_of, slid_products, slide_of

Array = Any

#: bytes of patches laid out at a time: they stay in the second-level cache until BLAS has read them
PATCH_BYTES = 1 << 20
#: bytes of the sums of shifted multiply-adds that are added up at a time
SHIFTED_BYTES = 1 << 17
#: bytes of tiles laid out at a time, the widest tile, and the longest line that is cut into tiles where positions are neighbours
TILE_BYTES = 1 << 18
WIDEST_TILE, LONGEST_BANDED = 28, 64
#: places of an image from which on it is worth a product of its own
LEAST_PLACES = 256
#: taps up to which shifted multiply-adds along lines of at least so many places are quicker than tiles
FEW_TAPS, LONG_LINE = 9, 32


class Affine(NamedTuple):
    """``constant + sum(factor * coordinate)``."""

    factors: tuple[tuple[int, int], ...]
    constant: int

    def extremes(self, domain: tuple[int, ...]) -> tuple[int, int]:
        """Return the least and the greatest value over a domain."""
        ends = [factor * (domain[axis] - 1) for axis, factor in self.factors]
        return self.constant + sum(min(each, 0) for each in ends), self.constant + sum(max(each, 0) for each in ends)


class Axis(NamedTuple):
    """An axis of the source that positions may leave: its size, its stride in elements, and the position along it."""

    size: int
    stride: int
    position: Affine


class Window(NamedTuple):
    """Element ``rest + sum(stride * position)`` of an operand, 0 where a position is outside of its axis."""

    operand: int
    rest: Affine
    axes: tuple[Axis, ...]


def window_of(value: Expression) -> Window | None:
    """Return the window that a value reads, casts apart, or None if it is anything else."""
    while value.step == "cast":
        value = value.arguments[0]
    test: Expression | None = None
    if value.step == "select":
        test, value, other = value.arguments
        if other.step != "constant" or other.payload != 0:
            return None
        while value.step == "cast":
            value = value.arguments[0]
    if value.step != "load_at":
        return None
    clamps: list[tuple[int, int, Affine]] = []
    rest = _affine(value.arguments[0], 1, clamps)
    if rest is None or len({position for _, _, position in clamps}) != len(clamps):
        return None
    axes = tuple(Axis(size, stride, position) for size, stride, position in clamps)
    tested = set() if test is None else _tests(test)
    if tested != {
        bound for axis in axes for bound in (("from", axis.position, 0), ("below", axis.position, axis.size))
    }:
        return None
    return Window(value.payload, rest, axes)


def _number(node: Expression) -> int | None:
    while node.step == "cast":
        node = node.arguments[0]
    return int(node.payload) if node.step == "constant" and node.dtype.category == 1 else None


def _affine(node: Expression, scale: int, clamps: list[tuple[int, int, Affine]]) -> Affine | None:
    """Return ``scale * node`` as an affine function; what is kept inside of an axis goes to ``clamps`` instead."""
    step, arguments = node.step, node.arguments
    if step == "cast" and node.dtype.category == 1:
        return _affine(arguments[0], scale, clamps)
    if step == "coordinate":
        return Affine(((node.payload, scale),), 0)
    if step == "constant":
        return Affine((), scale * int(node.payload))
    if step == "multiply":
        for one, other in (arguments, arguments[::-1]):
            number = _number(other)
            if number is not None:
                return _affine(one, scale * number, clamps)
        return None
    if step == "minimum":
        low, top = arguments[0], _number(arguments[1])
        if top is None or low.step != "maximum" or _number(low.arguments[1]) != 0:
            return None
        position = _affine(low.arguments[0], 1, [])
        if position is None:
            return None
        clamps.append((top + 1, scale, position))
        return Affine((), 0)
    if step not in ("add", "subtract"):
        return None
    left = _affine(arguments[0], scale, clamps)
    right = _affine(arguments[1], scale if step == "add" else -scale, clamps)
    return None if left is None or right is None else _sum(left, right)


def _sum(left: Affine, right: Affine) -> Affine:
    factors = dict(left.factors)
    for axis, factor in right.factors:
        factors[axis] = factors.get(axis, 0) + factor
    return Affine(tuple(sorted((axis, each) for axis, each in factors.items() if each)), left.constant + right.constant)


def _tests(node: Expression) -> set[Any]:
    """Return the bounds that a conjunction of comparisons tests; something else stands for itself."""
    if node.step == "bitwise_and":
        return _tests(node.arguments[0]) | _tests(node.arguments[1])
    one, other = node.arguments if len(node.arguments) == 2 else (node, node)
    if node.step == "less_equal" and _number(one) == 0:
        position = _affine(other, 1, [])
        return {("from", None if position is None else _sum(position, Affine((), 0)), 0)}
    if node.step == "less" and _number(other) is not None:
        position = _affine(one, 1, [])
        return {("below", None if position is None else _sum(position, Affine((), 0)), _number(other))}
    return {("other", node, 0)}


def patches(flat: Array, window: Window, domain: tuple[int, ...], kind: Any) -> Array:
    """Return what a window reads at every coordinate of a domain, as a view of its source or of a padded copy."""
    size = flat.itemsize
    strides = [0] * len(domain)
    if not window.axes:
        for axis, factor in window.rest.factors:
            strides[axis] = factor * size
        found = np.lib.stride_tricks.as_strided(flat[window.rest.constant :], domain, strides)
        return found if found.dtype == kind else found.astype(kind)
    kept = [(axis, factor) for axis, factor in window.rest.factors if domain[axis] > 1]
    shape = (*(domain[axis] for axis, _ in kept), *(axis.size for axis in window.axes))
    steps = (*(factor * size for _, factor in kept), *(axis.stride * size for axis in window.axes))
    source = np.lib.stride_tricks.as_strided(flat[window.rest.constant :], shape, steps)
    reaches = [axis.position.extremes(domain) for axis in window.axes]
    before = [max(-low, 0) for low, _ in reaches]
    sizes = [
        lead + max(axis.size, high + 1) for lead, axis, (_, high) in zip(before, window.axes, reaches, strict=True)
    ]
    padded = np.zeros((*shape[: len(kept)], *sizes), kind)
    inside = tuple(slice(lead, lead + axis.size) for lead, axis in zip(before, window.axes, strict=True))
    padded[(..., *inside)] = source
    start = [0] * len(kept)
    for number, (axis, _) in enumerate(kept):
        strides[axis] += padded.strides[number]
    for number, each in enumerate(window.axes):
        step = padded.strides[len(kept) + number]
        start.append(before[number] + each.position.constant)
        for axis, factor in each.position.factors:
            strides[axis] += factor * step
    return np.lib.stride_tricks.as_strided(padded[tuple(slice(each, None) for each in start)], domain, strides)


def stored_whole(kernel: Contraction, shape: Shape) -> bool:
    """Return whether products are all that is stored, one after another, so that BLAS may write them where they belong."""
    (first, *others), of = kernel.stores, kernel.outputs[0]
    if others or first.value.step != "accumulator" or of.initial is not None or of.dtype is not kernel.dtype:
        return False
    return of.dtype.category == 2 and not first.offset and first.strides == contiguous_strides(shape)


def in_order_of_memory(kernel: Contraction) -> Contraction:
    """Return the same products with the sides exchanged if the rows of the result then lie as what is stored does."""
    batch, m, n, k = (len(each) for each in (kernel.batch, kernel.m, kernel.n, kernel.k))
    if not m or not n:
        return kernel
    strides = [(each.strides[batch + m - 1], each.strides[batch + m + n - 1]) for each in kernel.stores]
    if not all(0 < rows < columns for rows, columns in strides):
        return kernel
    ends = batch, batch + m, batch + m + n, batch + m + n + k
    order = (*range(batch), *range(ends[1], ends[2]), *range(ends[0], ends[1]), *range(ends[2], ends[3]))
    terms = tuple(((axis, 1),) for axis in order)
    turned = kernel.reindexed((kernel.batch, kernel.n, kernel.m, kernel.k), terms)
    return turned.replace(left=turned.right, right=turned.left)


def stored_alone(kernel: Contraction) -> bool:
    """Return whether sums are all that is stored, each once and as it is."""
    (first, *others), of = kernel.stores, kernel.outputs[0]
    return not others and first.value.step == "accumulator" and of.initial is None and of.dtype is kernel.dtype


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
        one = left.reshape((*lead, *k))
        found = _alone(one, right, batch, columns)
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
        into[...] = found.reshape(into.shape)
    return into


def _run(array: Array, axis: int) -> float:
    """Return how many elements along an axis lie close together."""
    return array.shape[axis] * array.itemsize / max(abs(array.strides[axis]), 1)


def _alone(left: Array, right: Array, batch: int, columns: int) -> Array:
    """Return the sums over k of ``left[batch, k] * right[batch, n, k]``: a window over one channel, or such a window's gradient."""
    n, k = range(batch, batch + columns), range(batch + columns, right.ndim)
    forward = math.prod(left.shape[batch:]) <= math.prod(right.shape[axis] for axis in n)
    places, taps = (n, k) if forward else (k, n)
    few = forward and math.prod(left.shape[batch:]) <= FEW_TAPS and right.shape[batch + columns - 1] >= LONG_LINE
    if batch == 1 and places and taps and not few:
        if right.strides[taps[-1]] < 0:
            right = np.flip(right, taps[-1])
            if not forward:
                return np.flip(_alone(left, right, batch, columns), taps[-1])
            left = np.flip(left, -1)
        bands = _bands(right, tuple(places), tuple(taps))
        if bands is not None:
            found = _banded(left, bands) if forward else _banded_gradient(left, bands)
            # A number that is not finite reaches, times 0, all of its tile: then only what a window covers may count.
            if np.isfinite(found).all():
                return found
    return _shifted(left, right, batch) if forward else _correlated(left, right, batch, columns)


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
        for block in _blocks(len(self.tiles), math.prod(self.tiles.shape[1:]) * self.tiles.itemsize, TILE_BYTES):
            part = self.tiles[block]
            yield block, part.reshape(len(part), -1, depth)

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


def _shifted(left: Array, right: Array, batch: int) -> Array:
    """Return the sum over k of ``left[batch, k] * right[batch, n, k]``: shifted inputs times a number each, added up.

    Where the n axes lie one within the other with little between them, the whole run of memory is multiplied, gaps and all:
    one long loop instead of many short ones.
    """
    taps, columns = left.shape[batch:], right.ndim - left.ndim
    lead, n, size = right.shape[:batch], right.shape[batch : batch + columns], right.itemsize
    steps = right.strides[batch : batch + columns]
    span = 1 + sum((count - 1) * step for count, step in zip(n, steps, strict=True)) // size
    if columns and min(steps) > 0 and span <= 2 * math.prod(n):
        strides = (*right.strides[:batch], size, *right.strides[batch + columns :])
        runs = np.lib.stride_tricks.as_strided(right, (*lead, span, *taps), strides)
    else:
        runs, span = right, 0
    result = np.empty((*lead, *n), right.dtype)
    width = math.prod(runs.shape[1 : runs.ndim - len(taps)])
    spread = (..., *(None,) * (runs.ndim - left.ndim))
    for block in _blocks(lead[0], width * size, SHIFTED_BYTES):
        part, factors = runs[block], left[block]
        total = np.empty(part.shape[: part.ndim - len(taps)], right.dtype)
        term = np.empty_like(total)
        for number, tap in enumerate(np.ndindex(*taps)):
            np.multiply(part[(..., *tap)], factors[(..., *tap)][spread], out=term if number else total)
            if number:
                total += term
        if span:
            kept = (*total.shape[:-1], *n)
            total = np.lib.stride_tricks.as_strided(total, kept, (*total.strides[:-1], *steps))
        result[block] = total
    return result


def _correlated(left: Array, right: Array, batch: int, columns: int) -> Array:
    """Return the sum over k of ``left[batch, k] * right[batch, n, k]`` where k is long and n is short."""
    result = np.empty(right.shape[: batch + columns], right.dtype)
    axes = list(range(left.ndim))
    for place in np.ndindex(*result.shape[batch:]):
        part = right[(slice(None),) * batch + place]
        result[(..., *place)] = np.einsum(left, axes, part, axes, axes[:batch])
    return result


def _blocks(count: int, nbytes: int, limit: int = PATCH_BYTES) -> Iterator[slice]:
    """Yield slices of an axis whose entries take so many bytes each, all as long as that allows and of one length."""
    step = max(limit // max(nbytes, 1), 1)
    step = math.ceil(count / math.ceil(count / step)) if count else 1
    return (slice(start, start + step) for start in range(0, count, step))


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
    for block in _blocks(n[0], nbytes):
        part = turned[(slice(None),) * first + (block,)].reshape((*left.shape[:batch], depth, -1))
        place = into[(slice(None),) * (batch + 1) + (block,)]
        if are_together(place, batch + 1):
            np.matmul(left, part, out=place.reshape((*left.shape[:-1], -1)))
        else:
            place[...] = np.matmul(left, part).reshape(place.shape)


def _sums(left: Array, right: Array, batch: int, columns: int) -> Array:
    """Return the products of left [batch, m, k…] with patches that lie along k, added up over some of k at a time."""
    lead, n, k = right.shape[:batch], right.shape[batch : batch + columns], right.shape[batch + columns :]
    result: Any = None
    nbytes = math.prod(lead) * math.prod(n) * math.prod(k[1:]) * right.itemsize
    for block in _blocks(k[0], nbytes) if k else [...]:
        rest = (slice(None),) * (len(k) - 1)
        one = left[(..., block, *rest)] if k else left
        two = right[(..., block, *rest)] if k else right
        term = np.matmul(
            one.reshape((*lead, left.shape[batch], -1)), two.reshape((*lead, math.prod(n), -1)).swapaxes(-1, -2)
        )
        result = term if result is None else result + term
    return result
