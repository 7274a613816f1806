"""Weighted sums of rows at computed positions, such as images sampled on a grid: all neighbours of a block taken at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from webgpu_torch_core.ir.expression import Expression, make, topological
from webgpu_torch_core.ir.layouts import Shape

from .choices import clip, select
from .pool import give_registers, take_registers

Array = Any

#: elements taken at a time at most: with their sums they stay in the second-level cache
GATHERED = 1 << 17


#: places at least for which neighbours are taken at once: fewer are added row by row
LEAST_PLACES = 512

_UNSIGNED = {4: np.uint32, 8: np.uint64}


def with_gathered_sums(root: Expression, shape: Shape) -> Expression:
    """Return an expression over a domain whose value, if it is a sum of weighted rows of one operand, is a single step.

    The step ``gathered_rows`` has as its arguments the element from which rows are counted, how far behind it each begins, and their
    weights. Each term reads a row that begins no earlier than that element, times what does not vary along a row, and is 0 where it
    would begin earlier.
    """
    terms = [_term(each, shape) for each in _summands(root)]
    found = [each for each in terms if each is not None]
    if len(found) < 2 or len(found) < len(terms) or len({(rows.payload, base) for rows, base, *_ in found}) > 1:
        return root
    rows, base = found[0][:2]
    arguments = (base, *(place for _, _, place, _ in found), *(weight for *_, weight in found))
    return make("gathered_rows", arguments, rows.payload, root.dtype)


def _summands(root: Expression) -> list[Expression]:
    """Return what is added up, in the order in which it is."""
    after: list[Expression] = []
    while root.step == "add":
        root, last = root.arguments
        after.append(last)
    return [root, *after[::-1]]


def _term(node: Expression, shape: Shape) -> tuple[Expression, ...] | None:
    """Return the rows of a term, from where and how far behind they begin, and their weight."""
    if node.step != "select" or not _is_zero(node.arguments[2]) or node.arguments[0].step != "less_equal":
        return None
    (zero, place), product = node.arguments[0].arguments, node.arguments[1]
    if not _is_zero(zero) or product.step != "multiply" or product.arguments[0].step != "load_rows":
        return None
    rows, weight = product.arguments
    (first,) = rows.arguments
    if first.step != "add":
        return None
    base, behind = first.arguments
    start, *factor = behind.arguments if behind.step == "multiply" else (behind,)
    if start.step != "maximum" or start.arguments not in ((place, zero), (zero, place)):
        return None
    if factor:
        if factor[0].step != "constant" or factor[0].payload <= 0:
            return None
        # What is negative stays negative.
        place = make("multiply", (place, *factor), None, place.dtype)
    strides = rows.payload[1]
    along = {axis for axis, stride in enumerate(strides) if stride}
    places = math.prod(size for axis, size in enumerate(shape) if axis not in along)
    if places < LEAST_PLACES or 1 in strides:
        # Rows whose elements are neighbours in memory are read as they are.
        return None
    apart = next((axis for axis in range(len(strides)) if axis not in along), 0)
    if varies(place, along) or varies(weight, along) or varies(base, {*range(len(strides))} - {apart}):
        return None
    return rows, base, place, weight


def _is_zero(node: Expression) -> bool:
    return node.step == "constant" and not node.payload


def varies(root: Expression, axes: set[int]) -> bool:
    """Return whether an expression may vary along some axes."""
    for node in topological(root):
        if node.step == "coordinate" and node.payload in axes:
            return True
        if node.step in ("load", "load_rows") and any(node.payload[-1][axis] for axis in axes):
            return True
        if node.step in ("reduced", "accumulator"):
            return True
    return False


def gathered_rows(
    source: Array, row: tuple[int, ...], count: int, base: Array, *arguments: Array, out: Array | None = None
) -> Array:
    """Return the sum of rows of a source times weights, in an array of ``count`` axes of which ``row`` are the rows'.

    Rows are counted from ``base``, which may differ along the first of the other axes. ``arguments``: how far behind it rows begin,
    then their weights, of as many axes. What begins before it is 0, whatever its weight is. The sum is written into ``out``.
    """
    axes = [axis for axis in range(count) if axis not in row]
    number = len(arguments) // 2
    whole = np.broadcast_shapes(*map(np.shape, (base, *arguments))) if out is None else out.shape
    shape = tuple(whole[axis] for axis in axes)
    # Counted in the type that they have: half as wide as what the elements are taken by.
    places = _stacked(arguments[:number], axes, shape, np.result_type(*arguments[:number]))
    weights = _stacked(arguments[number:], axes, shape, source.dtype)
    if not np.isfinite(np.vdot(weights, weights)):
        np.copyto(weights, 0, where=places < 0)
    firsts = base.ravel().tolist()
    firsts *= shape[0] // len(firsts)
    order, sizes = (*row, *axes), (*source.shape[1:], shape[0], places.shape[-1])
    if out is not None and len(axes) == 2:
        _gather(source, firsts, places, weights, out.transpose(order))
        return out
    found = np.empty(sizes, source.dtype)
    _gather(source, firsts, places, weights, found)
    found = found.reshape((*source.shape[1:], *shape)).transpose([order.index(axis) for axis in range(count)])
    if out is not None:
        out[...] = found
    return found


def _gather(source: Array, firsts: list[int], places: Array, weights: Array, found: Array) -> None:
    """Write, for each image i, the sum over k of the rows that begin at ``firsts[i] + places[i, k, p]`` times ``weights[i, k, p]``."""
    depth, number = math.prod(source.shape[1:]), places.shape[1]
    # As a number without a sign, what is negative is beyond all others.
    unsigned, stop = places.view(_UNSIGNED[places.itemsize]), max(int(np.maximum.reduce(places, axis=None)) + 1, 0)
    low = min(int(np.minimum.reduce(unsigned, axis=None)), stop) if stop * len(firsts) > places.size else 0
    far = (stop - low) * len(firsts) > 4 * places.size
    step = max(GATHERED // (number * depth), 1)
    # Memory that is mapped already: mapping it for each image would take as long as gathering does.
    length = 0 if far else stop - low + 1
    memory = take_registers((depth * length + depth * number * min(step, places.shape[-1])) * source.itemsize)
    table = np.ndarray((*source.shape[1:], length), source.dtype, memory)
    if not far:
        # What is not read is the zero behind the source.
        table[..., -1] = 0
        if low:
            unsigned -= unsigned.dtype.type(low)
        least, most = np.array((0, stop - low), unsigned.dtype)
        places = clip(unsigned, least, most, out=unsigned).astype(np.intp)
    for image, first in enumerate(firsts):
        if not far:
            table[..., :-1] = source[first + low : first + stop].transpose((*range(1, source.ndim), 0))
        for start in range(0, places.shape[-1], step):
            part = slice(start, start + step)
            taken = places[image, :, part]
            if far:
                rows = np.moveaxis(source[first + np.maximum(taken, 0)], (0, 1), (-2, -1))
                rows = select(taken >= 0, rows, np.zeros((), source.dtype))
            else:
                rows = np.ndarray((*source.shape[1:], *taken.shape), source.dtype, memory, table.nbytes)
                table.take(taken, axis=-1, mode="wrap", out=rows)
            np.einsum("...kp,kp->...p", rows, weights[image, :, part], out=found[..., image, part])
    give_registers(memory)


def _stacked(arrays: Sequence[Array], axes: list[int], shape: tuple[int, ...], kind: type | np.dtype) -> Array:
    """Return arrays over some of their axes in memory of their own: one after another along the second, the others but the first as one."""
    parts = []
    for each in map(np.asarray, arrays):
        if each.size != math.prod(shape):
            each = np.broadcast_to(each.reshape([each.shape[axis] for axis in axes]) if each.ndim else each, shape)
        parts.append(each.reshape((shape[0], 1, -1)))
    return np.concatenate(parts, 1, dtype=kind, casting="unsafe")
