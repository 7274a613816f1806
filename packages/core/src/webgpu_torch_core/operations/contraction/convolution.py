"""Convolution as a contraction with computed loads, in any number of dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.registry import operation
from ...dispatch.titles import retitled
from ...dispatch.type_rules import with_type_rule
from ...ir import expression as ir
from ...ir.dtypes import dtype, int32
from ...ir.kernels import Contraction, Operand, Output, Store
from ...ir.layouts import Layout, contiguous_strides, number_of_elements
from ...notices import warn_once
from ...record.devices import on_host
from ...replay.recipes import of_layers
from ...tensors.tensor import Tensor
from ..common import attach, kernel_cache, needs_gradient, ordered_as, record, with_ordered_gradient
from ..movement.joining import clamped, element_index, flip, place_inside
from .convolution_checks import check_operands, per_dimension, require_rank
from .convolution_remainders import transposed_kernel, weight_by_remainder_kernel
from .matrix_products import _accumulator, _wide_type

# Convolution as an implicit matrix product (Chellapilla et al., 2006): rows are output channels, columns are output
# positions, the summed dimension is the input patch; the patch matrix is never stored.


class Window:
    """Sizes of a convolution over any number of spatial dimensions."""

    __slots__ = ("dilation", "groups", "output", "padding", "stride")

    def __init__(
        self,
        stride: tuple[int, ...],
        padding: tuple[int, ...],
        dilation: tuple[int, ...],
        groups: int,
        output: tuple[int, ...],
    ) -> None:
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.groups = groups
        self.output = output

    def key(self) -> tuple[Any, ...]:
        """Return a hashable form."""
        return self.stride, self.padding, self.dilation, self.groups, self.output


def _patch(
    source: Layout,
    batch: Any,
    channel: Any,
    centers: list[Any],
    taps: list[Any],
    window: Any,
    operand: int,
    kind: dtype,
) -> Any:
    """Return the input element under kernel tap ``taps`` at output position ``centers``, 0 in the padding."""
    stride, padding, dilation, _, _ = window
    inside: Any = None
    coordinates: list[Any] = [batch, channel]
    for axis, (center, tap) in enumerate(zip(centers, taps, strict=True)):
        size = source.shape[2 + axis]
        position = (
            center * stride[axis] + tap * dilation[axis] - padding[axis]
            if padding[axis]
            else center * stride[axis] + tap * dilation[axis]
        )
        if padding[axis]:
            test = ir.constant(0, int32) <= position
            test = test & (position < size)
            inside = test if inside is None else inside & test
            position = clamped(position, size)
        coordinates.append(position)
    element = ir.load_at(operand, element_index(source, coordinates), kind)
    return element if inside is None else ir.select(inside, element, ir.constant(0, kind))


@kernel_cache
def convolution_kernel(
    source: Layout, numel: int, weight: Layout, weight_numel: int, kind: dtype, window: Any, result: dtype
) -> Contraction:
    """Return ``output[n, g, o, positions] = sum over (c, taps) of weight[g, o, c, taps] * patch[n, g, c, positions, taps]``."""
    _, _, _, groups, positions = window
    spatial = len(positions)
    images = source.shape[0]
    out_channels, in_channels = weight.shape[0] // groups, weight.shape[1]
    taps = weight.shape[2:]
    # Dimensions: batch (group), m (output channel), n (image, positions…), k (input channel, taps…).
    first_n, first_k = 2, 3 + spatial
    accumulate = _accumulator(kind)
    weight_strides = (
        weight.strides[0] * out_channels, weight.strides[0], *(0,) * (1 + spatial), weight.strides[1], *weight.strides[2:],
    )  # fmt: skip
    left = ir.load(1, weight.offset, weight_strides, kind)
    channel = ir.coordinate(0) * in_channels + ir.coordinate(first_k) if groups > 1 else ir.coordinate(first_k)
    right = _patch(
        source, ir.coordinate(first_n), channel, [ir.coordinate(first_n + 1 + axis) for axis in range(spatial)],
        [ir.coordinate(first_k + 1 + axis) for axis in range(spatial)], window, 0, kind,
    )  # fmt: skip
    shape = (images, weight.shape[0], *positions)
    dense = contiguous_strides(shape)
    store_strides = (dense[1] * out_channels, dense[1], dense[0], *dense[2:])
    store = Store(0, 0, store_strides, ir.cast(ir.accumulator(accumulate), result))
    return Contraction(
        (Operand(kind, numel), Operand(kind, weight_numel)), (Output(result, number_of_elements(shape), None),), (), "convolution",
        (groups,), (out_channels,), (images, *positions), (in_channels, *taps), ir.cast(left, accumulate), ir.cast(right, accumulate),
        accumulate, (store,),
    )  # fmt: skip


@kernel_cache
def weight_gradient_kernel(
    source: Layout, numel: int, grad: Layout, grad_numel: int, taps: tuple[int, ...], kind: dtype, window: Any
) -> Contraction:
    """Return ``weight_grad[g, o, c, taps] = sum over (n, positions) of grad[n, g, o, positions] * patch[...]``."""
    _, _, _, groups, positions = window
    spatial = len(positions)
    out_channels, in_channels = grad.shape[1] // groups, source.shape[1] // groups
    # Dimensions: batch (group), m (output channel), n (input channel, taps…), k (image, positions…).
    first_n, first_k = 2, 3 + spatial
    accumulate = _accumulator(kind)
    left_strides = (
        grad.strides[1] * out_channels,
        grad.strides[1],
        *(0,) * (1 + spatial),
        grad.strides[0],
        *grad.strides[2:],
    )
    left = ir.load(1, grad.offset, left_strides, kind)
    channel = ir.coordinate(0) * in_channels + ir.coordinate(first_n) if groups > 1 else ir.coordinate(first_n)
    right = _patch(
        source, ir.coordinate(first_k), channel, [ir.coordinate(first_k + 1 + axis) for axis in range(spatial)],
        [ir.coordinate(first_n + 1 + axis) for axis in range(spatial)], window, 0, kind,
    )  # fmt: skip
    shape = (grad.shape[1], in_channels, *taps)
    dense = contiguous_strides(shape)
    store = Store(0, 0, (dense[0] * out_channels, dense[0], *dense[1:]), ir.cast(ir.accumulator(accumulate), kind))
    return Contraction(
        (Operand(kind, numel), Operand(kind, grad_numel)), (Output(kind, number_of_elements(shape), None),), (),
        "convolution_weight_gradient", (groups,), (out_channels,), (in_channels, *taps), (grad.shape[0], *positions),
        ir.cast(left, accumulate), ir.cast(right, accumulate), accumulate, (store,),
    )  # fmt: skip


@with_type_rule("convolution")
def convolve(input: Tensor, weight: Tensor, window: Window, wide: bool = False) -> Tensor:
    """Return the convolution of [n, c, positions…] with [o, c / groups, taps…], differentiable any number of times."""
    kind = input.dtype
    kernel = convolution_kernel(
        input._layout, input._storage.value.numel, weight._layout, weight._storage.value.numel, kind, window.key(),
        _wide_type(kind) if wide else kind,
    )  # fmt: skip
    result = record(kernel, (input, weight), (), ((input.shape[0], weight.shape[0], *window.output),))
    shape, taps = input._layout.shape, weight._layout.shape
    return _attach_product(
        result, "ConvolutionBackward0", (input, weight),
        lambda grad, weight: input_gradient(grad, weight, window, shape),
        lambda grad, input: _weight_gradient(input, grad, taps, window),
    )  # fmt: skip


def _attach_product(
    result: Tensor, title: str, operands: tuple[Tensor, Tensor],
    first: Callable[[Tensor, Tensor], Tensor], second: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:  # fmt: skip
    """Return what is linear in either operand, with the gradient of each: a function of the result's and of the other operand."""
    if needs_gradient(*operands):
        kind = operands[0].dtype
        saved = [each._save() for each in operands]
        needs = [each.requires_grad for each in operands]

        def run_backward(grad: Tensor) -> tuple[Tensor | None, ...]:
            one, other = (each.unpack() for each in saved)
            grad = grad.to(kind)
            return first(grad, other) if needs[0] else None, second(grad, one) if needs[1] else None

        attach(result, title, operands, run_backward)
    return result


def input_gradient(grad: Tensor, weight: Tensor, window: Window, shape: tuple[int, ...], wide: bool = False) -> Tensor:
    """Return the transposed convolution: the gradient spread by the stride, convolved with the flipped weight.

    ``wide`` keeps what was accumulated in at least float32.
    """
    host = on_host(grad.device)
    if max(window.stride) > 1 and max(window.dilation) == 1:
        # The host's product of all remainders at once is faster, and where steps exceed taps most products would be with zeros.
        dense = all(size >= step for size, step in zip(weight.shape[2:], window.stride, strict=True))
        if dense and not host and not grad.is_complex():
            return _gradient_by_remainder(grad, weight, window, shape, wide)
        return _interleaved_gradient(grad, weight, window, shape, wide)

    spatial = len(shape) - 2
    taps = weight._layout.shape[2:]
    reach = [window.dilation[axis] * (taps[axis] - 1) for axis in range(spatial)]
    sizes = [shape[2 + axis] + reach[axis] for axis in range(spatial)]
    starts = [reach[axis] - window.padding[axis] for axis in range(spatial)]
    # What padding cuts off is placed first and left out after: a spread box must hold all of its elements.
    cuts = [max(-start, 0) if window.stride[axis] > 1 else 0 for axis, start in enumerate(starts)]
    whole = list(sizes)
    for axis, count in enumerate(grad._layout.shape[2:]):
        if window.stride[axis] > 1:
            whole[axis] = max(
                sizes[axis] + cuts[axis], starts[axis] + cuts[axis] + window.stride[axis] * (count - 1) + 1
            )
    # Without strides, zeros around the gradient are the padding of the convolution, but a copy is what the host reads faster.
    around = tuple(starts) if max(window.stride) == 1 and min(starts) >= 0 and not host else (0,) * spatial
    before = (0, 0, *(start + cut for start, cut in zip(starts, cuts, strict=True)))
    spread = grad
    if not any(around):
        spread = place_inside(grad, before, (*grad._layout.shape[:2], *whole), 0, (1, 1, *window.stride))
    for axis, cut in enumerate(cuts):
        if whole[axis] != sizes[axis]:
            spread = spread.narrow(2 + axis, cut, sizes[axis])
    flipped = flip(weight, list(range(2, 2 + spatial))) if math.prod(taps) > 1 else weight
    groups = window.groups
    out_channels, in_channels = weight._layout.shape[:2]
    grouped = flipped.reshape((groups, out_channels // groups, in_channels, *taps)).transpose(1, 2)
    turned = grouped.reshape((groups * in_channels, out_channels // groups, *taps))
    plain = Window((1,) * spatial, around, window.dilation, groups, shape[2:])
    return convolve(spread, turned, plain, wide)


def _gradient_by_remainder(grad: Tensor, weight: Tensor, window: Window, shape: tuple[int, ...], wide: bool) -> Tensor:
    """Return the transposed convolution by a kernel in which the remainders by the stride are convolutions of their own."""
    kind, key, stride = grad.dtype, window.key(), window.stride
    channels, outputs = weight.shape[0] // window.groups, weight.shape[1]
    steps = tuple(-(-size // step) for size, step in zip(weight.shape[2:], stride, strict=True))
    order = (window.groups, *stride, outputs, channels, *steps)
    whole = (*shape[:2], *(-(-size // step) * step for size, step in zip(shape[2:], stride, strict=True)))
    sorting = weight_by_remainder_kernel(weight._layout, weight._storage.value.numel, kind, key, order)
    turned = record(sorting, (weight,), (), (order,))
    kernel = transposed_kernel(
        grad._layout, grad._storage.value.numel, order, kind, key, whole, _wide_type(kind) if wide else kind
    )
    result = record(kernel, (grad, turned), (), (whole,))
    if whole != shape:
        result = place_inside(result, (0,) * len(shape), shape)
    taps = weight._layout.shape
    return _attach_product(
        result, "ConvolutionBackward0", (grad, weight),
        lambda second, weight: convolve(second, weight, window),
        lambda second, grad: _weight_gradient(second, grad, taps, window),
    )  # fmt: skip


def _interleaved_gradient(grad: Tensor, weight: Tensor, window: Window, shape: tuple[int, ...], wide: bool) -> Tensor:
    """Return the transposed convolution without multiplying by the zeros between strides.

    Output positions of one remainder by the stride see every stride-th tap: one plain convolution computes all remainders
    as channels, which are then interleaved (the sub-pixel convolution of Shi et al., 2016).
    """
    spatial, groups, stride = len(shape) - 2, window.groups, window.stride
    out_channels, in_channels = weight._layout.shape[:2]
    taps = tuple(weight._layout.shape[2:])
    steps = tuple(-(-size // step) for size, step in zip(taps, stride, strict=True))
    # One step holds no more remainders than there are taps.
    parts = tuple(
        min(size, step) if count == 1 else step for size, step, count in zip(taps, stride, steps, strict=True)
    )
    whole = tuple(count * part for count, part in zip(steps, parts, strict=True))
    if whole != taps:
        weight = place_inside(weight, (0,) * (2 + spatial), (out_channels, in_channels, *whole))
    split = [number for pair in zip(steps, parts, strict=True) for number in pair]
    pieces = weight.reshape((groups, out_channels // groups, in_channels, *split))
    order = (0, 2, *range(4, 4 + 2 * spatial, 2), 1, *range(3, 3 + 2 * spatial, 2))
    turned = pieces.permute(order).reshape((groups * in_channels * math.prod(parts), out_channels // groups, *steps))
    if max(steps) > 1:
        turned = flip(turned, list(range(2, 2 + spatial)))
    counts = tuple(size + count - 1 for size, count in zip(grad._layout.shape[2:], steps, strict=True))
    plain = Window((1,) * spatial, tuple(count - 1 for count in steps), (1,) * spatial, groups, counts)
    product = convolve(grad, turned, plain, wide).reshape((shape[0], groups * in_channels, *parts, *counts))
    order = (0, 1, *(axis for index in range(spatial) for axis in (2 + spatial + index, 2 + index)))
    cells = product.permute(order)
    if parts != stride:
        lead = cells._layout.shape[:2]
        cells = place_inside(
            cells, (0,) * cells.ndim, (*lead, *(n for pair in zip(counts, stride, strict=True) for n in pair))
        )
    full = cells.reshape((*shape[:2], *(count * step for count, step in zip(counts, stride, strict=True))))
    return place_inside(full, (0, 0, *(-each for each in window.padding)), shape)


def _weight_gradient(source: Tensor, grad: Tensor, shape: tuple[int, ...], window: Window) -> Tensor:
    kernel = weight_gradient_kernel(
        source._layout,
        source._storage.value.numel,
        grad._layout,
        grad._storage.value.numel,
        shape[2:],
        source.dtype,
        window.key(),
    )
    result = record(kernel, (source, grad), (), (shape,))
    sizes = source._layout.shape
    return _attach_product(
        result, "ConvolutionBackwardBackward0", (source, grad),
        lambda second, grad: input_gradient(grad, second, window, sizes),
        lambda second, source: convolve(source, second, window),
    )  # fmt: skip


def _same_padding(taps: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    pairs = []
    for size, spread in zip(taps, dilation, strict=True):
        total = spread * (size - 1)
        pairs.append((total // 2, total - total // 2))
    return tuple(pairs)


def _convolution(
    input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int, spatial: int
) -> Tensor:
    name = f"conv{spatial}d"
    if input.ndim == spatial + 1:
        return _convolution(input.unsqueeze(0), weight, bias, stride, padding, dilation, groups, spatial).squeeze(0)
    if input.ndim != spatial + 2:
        raise RuntimeError(
            f"Expected {spatial + 1}D (unbatched) or {spatial + 2}D (batched) input to {name}, but got input of size: {list(input.shape)}"
        )
    steps, spreads = per_dimension(stride, spatial, "stride"), per_dimension(dilation, spatial, "dilation")
    require_rank(weight, steps)
    plain = (0,) * spatial if isinstance(padding, str) else per_dimension(padding, spatial, "padding")
    check_operands(input, weight, bias, (steps, plain, spreads), groups, spatial)
    if padding == "same" and max(steps) != 1:
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    if isinstance(padding, str) and padding not in ("same", "valid"):
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    taps = tuple(weight._layout.shape[2:])
    if padding == "same":
        pairs = _same_padding(taps, spreads)
        if any(low != high for low, high in pairs):
            warn_once(
                "Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy of the input be created"
            )
        before = (0, 0, *(low for low, _ in pairs))
        input = place_inside(
            input,
            before,
            (*input.shape[:2], *(size + low + high for size, (low, high) in zip(input.shape[2:], pairs, strict=True))),
            ordered=True,
        )
        padding = 0
    pads = per_dimension(0 if padding == "valid" else padding, spatial, "padding")
    output = tuple(
        (input.shape[2 + axis] + 2 * pads[axis] - spreads[axis] * (taps[axis] - 1) - 1) // steps[axis] + 1
        for axis in range(spatial)
    )
    if any(size <= 0 for size in output):
        padded = [input.shape[2 + axis] + 2 * pads[axis] for axis in range(spatial)]
        raise RuntimeError(
            f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). Kernel size: "
            f"({' x '.join(map(str, taps))}). Kernel size can't be greater than actual input size"
        )
    told = ordering(input, weight)
    one, other = (with_ordered_gradient(each, *told, rows=True) for each in (input, weight))
    result = convolve(one, other, Window(steps, pads, spreads, groups, output), wide=bias is not None)
    return finished(result, input, weight, bias)


def ordering(input: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    """Return the operands whose order in memory decides the result's: lines ``[n, c, length]`` that are not in rows are copied before, as in PyTorch."""
    return (weight,) if input.ndim == 3 and not input._layout.is_contiguous else (input, weight)


def finished(product: Tensor, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return a convolution's result ``[n, c, sizes…]``: the product and the bias, with channels last in memory if an operand has them so."""
    if bias is not None:
        product = (product + bias.reshape((-1,) + (1,) * (input.ndim - 2))).to(input.dtype)
    return retitled(ordered_as(product, *ordering(input, weight), rows=True), "ConvolutionBackward0")


@operation("contraction", method=False)
@of_layers(1)
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """1-d convolution of [n, c, length] with [o, c / groups, taps]."""
    return _convolution(input, weight, bias, stride, padding, dilation, groups, 1)


@operation("contraction", method=False)
@of_layers(1)
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """2-d convolution of [n, c, height, width] with [o, c / groups, taps, taps]."""
    return _convolution(input, weight, bias, stride, padding, dilation, groups, 2)


@operation("contraction", method=False)
@of_layers(1)
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """3-d convolution of [n, c, depth, height, width] with [o, c / groups, taps, taps, taps]."""
    return _convolution(input, weight, bias, stride, padding, dilation, groups, 3)
