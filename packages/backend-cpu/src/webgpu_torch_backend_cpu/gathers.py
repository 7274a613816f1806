"""Weighted sums of rows at computed positions, such as images sampled on a grid: all neighbours of a block taken at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from webgpu_torch_core.ir.dtypes import bool_
from webgpu_torch_core.ir.expression import Expression, make, topological

from .choices import select
from .pool import give_registers, take_registers

Array = Any

#: elements taken at a time at most: with their sums they stay in the second-level cache
GATHERED = 1 << 17


def with_gathered_sums(root: Expression) -> Expression:
    """Return an expression whose value, if it is a sum of weighted rows of one operand, is a single step.

    The step ``gathered_rows`` has the first elements of the rows as its arguments, then whether they are read, then their weights. Each
    term reads rows where a test holds, times what does not vary along a row, and is 0 elsewhere.
    """
    terms = [_term(each) for each in _summands(root)]
    found = [each for each in terms if each is not None]
    if len(found) < 2 or len(found) < len(terms) or len({rows.payload for rows, *_ in found}) > 1:
        return root
    firsts = (rows.arguments[0] for rows, *_ in found)
    arguments = (*firsts, *(test for _, test, _ in found), *(weight for *_, weight in found))
    return make("gathered_rows", arguments, found[0][0].payload, root.dtype)


def _summands(root: Expression) -> list[Expression]:
    """Return what is added up, in the order in which it is."""
    after: list[Expression] = []
    while root.step == "add":
        root, last = root.arguments
        after.append(last)
    return [root, *after[::-1]]


def _term(node: Expression) -> tuple[Expression, Expression, Expression] | None:
    """Return the rows of a term, whether they are read, and their weight."""
    if node.step != "select" or node.arguments[2].step != "constant" or node.arguments[2].payload:
        return None
    test, product, _ = node.arguments
    if product.step != "multiply" or product.arguments[0].step != "load_rows" or test.dtype is not bool_:
        return None
    rows, weight = product.arguments
    along = {axis for axis, stride in enumerate(rows.payload[1]) if stride}
    return None if _varies(test, along) or _varies(weight, along) else (rows, test, weight)


def _varies(root: Expression, axes: set[int]) -> bool:
    """Return whether an expression may vary along some axes."""
    for node in topological(root):
        if node.step == "coordinate" and node.payload in axes:
            return True
        if node.step in ("load", "load_rows") and any(node.payload[-1][axis] for axis in axes):
            return True
        if node.step in ("reduced", "accumulator"):
            return True
    return False


def gathered_rows(source: Array, row: tuple[int, ...], count: int, *arguments: Array) -> Array:
    """Return the sum of rows of a source times weights where tests hold, in an array of ``count`` axes of which ``row`` are the rows'.

    ``arguments``: the first elements of the rows, then the tests, then the weights, of as many axes. What is not read is 0, whatever
    lies there and whatever its weight is.
    """
    axes = [axis for axis in range(count) if axis not in row]
    number = len(arguments) // 3
    shape = np.broadcast_shapes(*(np.shape(each) for each in arguments))
    shape = tuple(shape[axis] for axis in axes)
    firsts, tests, weights = (
        _stacked(arguments[start * number : (start + 1) * number], axes, shape, kind)
        for start, kind in enumerate((np.intp, np.bool_, source.dtype))
    )
    if not tests.all():
        outside = ~tests
        np.copyto(firsts, -1, where=outside)
        np.copyto(weights, 0, where=outside)
    places = math.prod(shape[1:])
    depth = math.prod(source.shape[1:])
    found = np.empty((*source.shape[1:], shape[0], places), source.dtype)
    step = max(GATHERED // (number * depth), 1)
    # Memory that is mapped already: mapping it for each image would take as long as gathering does.
    memory = take_registers(depth * number * min(step, places) * source.itemsize)
    for image in range(shape[0]):
        for start in range(0, places, step):
            taken = image, slice(start, start + step)
            _take(source, firsts[(slice(None), *taken)], weights[(slice(None), *taken)], found[(..., *taken)], memory)
    give_registers(memory)
    order = (*row, *axes)
    return found.reshape((*source.shape[1:], *shape)).transpose([order.index(axis) for axis in range(count)])


def _take(source: Array, firsts: Array, weights: Array, into: Array, memory: Array) -> None:
    """Write the sum over k of the rows that begin at ``firsts[k, p]`` times ``weights[k, p]`` into an array [row…, p]; none at -1."""
    # As a number without a sign, -1 is the greatest.
    unsigned, stop = firsts.view(np.uintp), int(firsts.max()) + 1
    low = min(int(unsigned.min()), stop)
    if source.strides[-1] == source.itemsize or stop - low > 4 * firsts.size:
        found = np.moveaxis(source[firsts], (0, 1), (-2, -1))
        found = select(firsts >= 0, found, np.zeros((), source.dtype))
    else:
        # What is not read is the zero behind the source.
        table = np.empty((*source.shape[1:], stop - low + 1), source.dtype)
        table[..., -1] = 0
        table[..., :-1] = source[low:stop].transpose((*range(1, source.ndim), 0))
        places = np.minimum(unsigned - np.uintp(low), np.uintp(stop - low)).view(np.intp)
        found = np.ndarray((*source.shape[1:], *places.shape), source.dtype, memory)
        table.take(places, axis=-1, mode="clip", out=found)
    np.einsum("...kp,kp->...p", found, weights, out=into)


def _stacked(arrays: Sequence[Array], axes: list[int], shape: tuple[int, ...], kind: type | np.dtype) -> Array:
    """Return arrays over some of their axes, one after another in memory of their own, the axes after the first as one."""
    result = np.empty((len(arrays), *shape), kind)
    for target, each in zip(result, arrays, strict=True):
        each = np.asarray(each)
        target[...] = each.reshape([each.shape[axis] for axis in axes]) if each.ndim else each
    return result.reshape((len(arrays), shape[0], -1))
