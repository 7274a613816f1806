"""Transposed convolution by remainders: output positions of one remainder by the stride see every stride-th tap.

Each remainder is a convolution of its own, without the zeros between strides (W. Shi et al., "Is the deconvolution layer the
same as a convolutional layer?", 2016); one kernel computes all of them.
"""

from __future__ import annotations

from typing import Any

from ...ir import expression as ir
from ...ir.dtypes import dtype, int32
from ...ir.kernels import Contraction, Operand, Output, Pointwise, Store
from ...ir.layouts import Layout, contiguous_strides, number_of_elements
from ..common import kernel_cache
from ..movement.joining import clamped, element_index
from .matrix_products import _accumulator

#: stride, padding, dilation, groups and the output's sizes
WindowKey = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int, tuple[int, ...]]


@kernel_cache
def weight_by_remainder_kernel(
    weight: Layout, numel: int, kind: dtype, window: WindowKey, shape: tuple[int, ...]
) -> Pointwise:
    """Return ``[g, remainders…, o, c, steps…]`` of a weight: the taps that positions of each remainder by the stride see."""
    stride, padding, _, groups, _ = window
    spatial, taps = len(stride), weight.shape[2:]
    channel = ir.coordinate(0) * (weight.shape[0] // groups) + ir.coordinate(2 + spatial)
    places: list[Any] = [channel, ir.coordinate(1 + spatial)]
    inside: Any = None
    for axis, (step, pad, size) in enumerate(zip(stride, padding, taps, strict=True)):
        tap = (ir.coordinate(1 + axis) + pad % step) % step + ir.coordinate(3 + spatial + axis) * step
        if size % step:
            inside = tap < size if inside is None else inside & (tap < size)
        places.append(clamped(tap, size) if size % step else tap)
    element = ir.load_at(0, element_index(weight, places), kind)
    value = element if inside is None else ir.select(inside, element, ir.constant(0, kind))
    count = number_of_elements(shape)
    return Pointwise(
        (Operand(kind, numel),), (Output(kind, count, None),), (), "convolution_weight", shape,
        (Store(0, 0, contiguous_strides(shape), value),),
    )  # fmt: skip


@kernel_cache
def transposed_kernel(
    source: Layout,
    numel: int,
    weight: tuple[int, ...],
    kind: dtype,
    window: WindowKey,
    shape: tuple[int, ...],
    result: dtype,
) -> Contraction:
    """Return the transposed convolution of [n, c, positions…], given its weight by remainder, into a whole number of strides.

    Output ``stride * j + r`` is a sum over taps of input positions ``j + (r + padding) // stride - step``: remainders by
    the stride are convolutions of their own, without the zeros between strides.
    """
    stride, padding, _, _, _ = window
    spatial = len(stride)
    outputs, channels = weight[1 + spatial], weight[2 + spatial]
    counts = tuple(size // step for size, step in zip(shape[2:], stride, strict=True))
    # Dimensions: batch (group, remainders…), m (output channel), n (image, positions…), k (channel, steps…).
    first_n, first_k = 2 + spatial, 3 + 2 * spatial
    weights = contiguous_strides(weight)
    gap = (0,) * (1 + spatial)
    left = ir.load(1, 0, (*weights[: 2 + spatial], *gap, *weights[2 + spatial :]), kind)
    places: list[Any] = [ir.coordinate(first_n), ir.coordinate(0) * channels + ir.coordinate(first_k)]
    inside: Any = None
    for axis, size in enumerate(source.shape[2:]):
        moved = _quotient(ir.coordinate(1 + axis), padding[axis], stride[axis])
        place = ir.coordinate(first_n + 1 + axis) + moved - ir.coordinate(first_k + 1 + axis)
        test = (ir.constant(0, int32) <= place) & (place < size)
        inside = test if inside is None else inside & test
        places.append(clamped(place, size))
    right = ir.select(inside, ir.load_at(0, element_index(source, places), kind), ir.constant(0, kind))
    accumulate, dense = _accumulator(kind), contiguous_strides(shape)
    stored = (
        dense[1] * outputs, *dense[2:], dense[1], dense[0], *(each * step for each, step in zip(dense[2:], stride, strict=True)),
    )  # fmt: skip
    operands = Operand(kind, numel), Operand(kind, number_of_elements(weight))
    return Contraction(
        operands, (Output(result, number_of_elements(shape), None),), (), "convolution", weight[: 1 + spatial], (outputs,),
        (shape[0], *counts), weight[2 + spatial :], ir.cast(left, accumulate), ir.cast(right, accumulate), accumulate,
        (Store(0, 0, stored, ir.cast(ir.accumulator(accumulate), result)),),
    )  # fmt: skip


def _quotient(remainder: ir.Expression, padding: int, stride: int) -> ir.Expression:
    """Return ``(remainder + padding) // stride``, as a sum where it is one."""
    whole, rest = divmod(padding, stride)
    if not rest:
        return ir.constant(whole, int32)
    return (remainder if stride == 2 else (remainder + rest) // stride) + whole
