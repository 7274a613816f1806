"""Windows of an array that contractions read: convolutions and their gradients, without gathering.

What a kernel reads at computed positions is a window where every position is a sum of coordinates times numbers, kept inside
of some axes, with zero outside: then one padded copy and a strided view of it hold every patch.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from webgpu_torch_core.ir.expression import Expression
from webgpu_torch_core.ir.kernels import Contraction
from webgpu_torch_core.ir.layouts import Shape, contiguous_strides

from .moving import move
from .pool import take_registers

Array = Any
Numbers = tuple[int, ...]


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

    def has_axis(self, axis: int) -> bool:
        """Return whether an axis of the domain is one of the source, and no part of a position along another."""
        inside = any(axis == each for of in self.axes for each, _ in of.position.factors)
        return not inside and any(axis == each for each, _ in self.rest.factors)


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


class Padded(NamedTuple):
    """The source of a window, and its place in a copy with zeros beside it.

    Fields:
        source: the elements that are copied.
        whole, inside: the copy's shape, and where in it the source is.
        start, steps: where in the copy the window begins, and from coordinate to coordinate of its domain how many elements it is.
    """

    source: Array
    whole: tuple[int, ...]
    inside: tuple[slice, ...]
    start: int
    steps: tuple[int, ...]

    def empty(self, kind: type[np.generic], channels: int | None = None) -> tuple[Array, Array]:
        """Return a copy that has only zeros where it has no source, of so many channels at most, and its memory."""
        whole = self.whole if channels is None else (channels, *self.whole[1:])
        # Memory that is mapped already: mapping it would take longer than the copy.
        memory = take_registers(math.prod(whole) * np.dtype(kind).itemsize)
        padded = np.ndarray(whole, kind, memory)
        if self.whole != self.source.shape:
            padded.fill(0)
        return padded, memory

    def fill(self, padded: Array, first: int = 0) -> None:
        """Write the source, from a channel on, into a copy of so many channels at most."""
        part, lead = self.source[first : first + len(padded)], self.inside[0].start
        move(padded[(slice(lead, lead + len(part)), *self.inside[1:])], part)

    def window(self, padded: Array, domain: tuple[int, ...]) -> Array:
        """Return what the window reads of a copy."""
        steps = tuple(step * padded.itemsize for step in self.steps)
        return np.lib.stride_tricks.as_strided(padded.reshape(-1)[self.start :], domain, steps)


def padded(flat: Array, window: Window, domain: tuple[int, ...], near: range = range(0)) -> Padded:
    """Return how the source of a window that has axes is copied: the axes that number some places ``near`` those of its last one."""
    (shape, steps), whole, inside, start, strides = _padded(window, domain, near)
    steps = tuple(step * flat.itemsize for step in steps)
    source = np.lib.stride_tricks.as_strided(flat[window.rest.constant :], shape, steps)
    return Padded(source, whole, inside, start, strides)


@lru_cache(maxsize=512)
def _padded(
    window: Window, domain: Numbers, near: range
) -> tuple[tuple[Numbers, Numbers], Numbers, tuple[slice, ...], int, Numbers]:
    """Return the shape of :func:`padded`'s source with the elements from one to the next, and the other fields."""
    kept = [
        (axis, Axis(domain[axis], factor, Affine(((axis, 1),), 0)))
        for axis, factor in window.rest.factors
        if domain[axis] > 1
    ]
    between = [each for axis, each in kept if axis in near]
    axes = (*(each for axis, each in kept if axis not in near), *window.axes[:-1], *between, window.axes[-1])
    reaches = [axis.position.extremes(domain) for axis in axes]
    before = [max(-low, 0) for low, _ in reaches]
    whole = tuple(lead + max(axis.size, high + 1) for lead, axis, (_, high) in zip(before, axes, reaches, strict=True))
    inside = tuple(slice(lead, lead + axis.size) for lead, axis in zip(before, axes, strict=True))
    strides, start = [0] * len(domain), 0
    for step, lead, each in zip(contiguous_strides(whole), before, axes, strict=True):
        start += step * (lead + each.position.constant)
        for axis, factor in each.position.factors:
            strides[axis] += factor * step
    places = tuple(axis.size for axis in axes), tuple(axis.stride for axis in axes)
    return places, whole, inside, start, tuple(strides)


def patches(flat: Array, window: Window, domain: tuple[int, ...], kind: type[np.generic]) -> tuple[Array, Array | None]:
    """Return what a window reads at every coordinate of a domain, as a view of its source or of a padded copy.

    The memory of a copy comes with it, which :func:`pool.give_registers` takes back.
    """
    if not window.axes:
        strides = [0] * len(domain)
        for axis, factor in window.rest.factors:
            strides[axis] = factor * flat.itemsize
        found = np.lib.stride_tricks.as_strided(flat[window.rest.constant :], domain, strides)
        return found if found.dtype == kind else found.astype(kind), None
    copied = padded(flat, window, domain)
    copy, memory = copied.empty(kind)
    copied.fill(copy)
    return copied.window(copy, domain), memory


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
