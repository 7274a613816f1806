"""Sliding windows over the trailing dimensions of [n, c, sizes…]: what pooling, unfold and fold are made of.

Every linear map here comes with its adjoint, each a kernel that gathers; so gradients of any order cost what the forward
pass costs, and no patch matrix is stored on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.type_rules import with_type_rule
from ...ir import expression as ir
from ...ir.dtypes import compute_dtype, dtype, int32, int64
from ...ir.kernels import Operand, Output, Pointwise, Reduction, RowProgram, Store
from ...ir.layouts import Layout, contiguous_strides, number_of_elements
from ...ir.monoids import monoid
from ...record.devices import on_host
from ...tensors.tensor import Tensor
from ..common import attach, kernel_cache, needs_gradient, record
from ..indexing.gathering import scatter_elements
from ..movement.joining import clamped, element_index

#: most taps that are written out one after another; more become the inner dimensions of a row program
UNROLLED = 16

Position = Any


class Window:
    """Where a window reads: position ``p`` and tap ``t`` meet at ``p * stride + t * dilation - padding`` per dimension.

    Attributes:
        taps, stride, padding, dilation: per spatial dimension; positions outside of the input read a fill value.
        output: how many positions there are per dimension.
    """

    __slots__ = ("dilation", "output", "padding", "stride", "taps")

    def __init__(
        self, taps: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
        output: Sequence[int],
    ) -> None:  # fmt: skip
        self.taps = tuple(taps)
        self.stride = tuple(stride)
        self.padding = tuple(padding)
        self.dilation = tuple(dilation)
        self.output = tuple(output)

    def _key(self) -> tuple[Any, ...]:
        return self.taps, self.stride, self.padding, self.dilation, self.output

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Window) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def read(
        self, sizes: Sequence[int], centers: Sequence[Position], taps: Sequence[Position]
    ) -> tuple[list[Any], Any]:
        """Return the coordinates that taps read at positions (kept in range) and whether they lie inside (None: always)."""
        coordinates: list[Any] = []
        inside: Any = None
        for axis, size in enumerate(sizes):
            step, padding, spread = self.stride[axis], self.padding[axis], self.dilation[axis]
            position = centers[axis] * step if step != 1 else centers[axis]
            shift = taps[axis] * spread - padding
            if not (isinstance(shift, int) and shift == 0):
                position = position + shift
            reach = (self.output[axis] - 1) * step + (self.taps[axis] - 1) * spread - padding
            tests = []
            if padding > 0:
                tests.append(ir.constant(0, int32) <= position)
            if reach >= size:
                tests.append(position < size)
            for test in tests:
                inside = test if inside is None else inside & test
            coordinates.append(clamped(position, size) if tests else position)
        return coordinates, inside

    def apart(self, sizes: Sequence[int]) -> tuple[Window, Window] | None:
        """Return a window along the last dimension and one across the others that give the same one after the other.

        None where the window has few taps, or all of them along one of both.
        """
        others, count = len(self.taps) - 1, math.prod(self.taps)
        if count <= UNROLLED or self.taps[-1] in (1, count):
            return None
        one, none = (1,) * others, (0,) * others
        along = Window(
            (*one, self.taps[-1]), (*one, self.stride[-1]), (*none, self.padding[-1]), (*one, self.dilation[-1]),
            (*sizes[:-1], self.output[-1]),
        )  # fmt: skip
        across = Window(
            (*self.taps[:-1], 1), (*self.stride[:-1], 1), (*self.padding[:-1], 0), (*self.dilation[:-1], 1), self.output
        )
        return along, across

    def misses(self, sizes: Sequence[int]) -> bool:
        """Return whether the window reads nothing at some position."""
        for axis, size in enumerate(sizes):
            step, padding, spread = self.stride[axis], self.padding[axis], self.dilation[axis]
            count, reach = self.output[axis], (self.taps[axis] - 1) * spread - padding
            # Between these ends all taps read.
            low, high = min(-(-padding // step), count), max((size - reach + step - 1) // step, 0)
            for place in (*range(low), *range(max(low, high), count)):
                if all(not 0 <= place * step + tap * spread - padding < size for tap in range(self.taps[axis])):
                    return True
        return False

    def find(self, targets: Sequence[Position], taps: Sequence[Position]) -> tuple[list[Any], Any]:
        """Return the positions whose taps read given coordinates (kept in range), and whether there are such."""
        coordinates: list[Any] = []
        inside: Any = None
        for axis, size in enumerate(self.output):
            step = self.stride[axis]
            position = targets[axis] + (self.padding[axis] - taps[axis] * self.dilation[axis])
            tests = [ir.constant(0, int32) <= position, position <= step * (size - 1)]
            if step > 1:
                tests.append(ir.binary("equal", position % step, 0))
                position = position // step
            for test in tests:
                inside = test if inside is None else inside & test
            coordinates.append(clamped(position, size))
        return coordinates, inside


def _coordinates(first: int, count: int) -> list[Any]:
    return [ir.coordinate(first + index) for index in range(count)]


def summing_kernel(
    name: str, operands: tuple[Operand, ...], result: dtype, outer: tuple[int, ...], inner: tuple[int, ...],
    term: Callable[[list[Any], list[Any]], Any], scaled: bool = False, from_zero: bool = False,
) -> Pointwise | RowProgram:  # fmt: skip
    """Return the kernel storing, for every coordinate of ``outer``, the sum of ``term(coordinates, taps)`` over ``inner``.

    ``scaled`` multiplies the sum by a run-time number. ``from_zero``: the sum begins with 0, so that one of -0 is 0.
    """
    compute = compute_dtype(result)
    parameters = (compute,) if scaled else ()
    outputs = (Output(result, number_of_elements(outer), None),)
    strides = contiguous_strides(outer)
    places = _coordinates(0, len(outer))
    if number_of_elements(inner) <= UNROLLED:
        total: Any = ir.constant(0, compute) if from_zero and compute.category == 2 else None
        for tap in _all_taps(inner):
            value = ir.cast(term(places, list(tap)), compute)
            total = value if total is None else total + value
        total = ir.constant(0, compute) if total is None else total
        total = total * ir.parameter(0, compute) if scaled else total
        return Pointwise(operands, outputs, parameters, name, outer, (Store(0, 0, strides, ir.cast(total, result)),))
    value = ir.cast(term(places, _coordinates(len(outer), len(inner))), compute)
    sums: Any = ir.reduced(0, compute)
    sums = sums * ir.parameter(0, compute) if scaled else sums
    store = Store(0, 0, strides, ir.cast(sums, result))
    return RowProgram(
        operands, outputs, parameters, name, outer, inner, (Reduction(monoid("sum", compute), value),), (store,), ()
    )


def _all_taps(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for size in sizes:
        found = [(*each, tap) for each in found for tap in range(size)]
    return found


def _guarded(inside: Any, element: Any, kind: dtype) -> Any:
    return element if inside is None else ir.select(inside, element, ir.constant(0, kind))


def nothing(input: Tensor, shape: Sequence[int]) -> Tensor:
    """Return zeros of a shape for an input that reaches none of them, with a gradient of zeros."""
    result = input.new_zeros(tuple(shape))
    original = tuple(input._layout.shape)
    return attach(result, "EmptyBackward0", (input,), lambda grad: grad.new_zeros(original))


# Patches and their overlapping sum


@kernel_cache
def _patches_kernel(source: Layout, numel: int, kind: dtype, window: Window) -> Pointwise:
    spatial = len(window.taps)
    shape = (*source.shape[:2], *window.taps, *window.output)
    places, inside = window.read(source.shape[2:], _coordinates(2 + spatial, spatial), _coordinates(2, spatial))
    element = ir.load_at(0, element_index(source, [*_coordinates(0, 2), *places]), kind)
    store = Store(0, 0, contiguous_strides(shape), _guarded(inside, element, kind))
    return Pointwise(
        (Operand(kind, numel),), (Output(kind, number_of_elements(shape), None),), (), "patches", shape, (store,)
    )


@kernel_cache
def _overlap_kernel(source: Layout, numel: int, kind: dtype, window: Window, sizes: tuple[int, ...]) -> Any:
    def term(places: list[Any], taps: list[Any]) -> Any:
        positions, inside = window.find(places[2:], taps)
        element = ir.load_at(0, element_index(source, [*places[:2], *taps, *positions]), kind)
        return _guarded(inside, element, kind)

    outer = (*source.shape[:2], *sizes)
    return summing_kernel("overlapping_sum", (Operand(kind, numel),), kind, outer, window.taps, term, from_zero=True)


@with_type_rule("patches")
def patches(input: Tensor, window: Window) -> Tensor:
    """Return [n, c, taps…, positions…]: what every tap reads at every position of [n, c, sizes…], 0 outside."""
    shape = (*input._layout.shape[:2], *window.taps, *window.output)
    if not input.numel():
        return nothing(input, shape)
    kernel = _patches_kernel(input._layout, input._storage.value.numel, input.dtype, window)
    result = record(kernel, (input,), (), (shape,))
    sizes = tuple(input._layout.shape[2:])
    return attach(result, "Im2ColBackward0", (input,), lambda grad: overlapping_sum(grad, window, sizes))


@with_type_rule("overlapping_sum")
def overlapping_sum(input: Tensor, window: Window, sizes: tuple[int, ...]) -> Tensor:
    """Return [n, c, sizes…]: the sum of patches [n, c, taps…, positions…] at the places they were read from."""
    shape = (*input._layout.shape[:2], *sizes)
    if not input.numel():
        return nothing(input, shape)
    kernel = _overlap_kernel(input._layout, input._storage.value.numel, input.dtype, window, sizes)
    result = record(kernel, (input,), (), (shape,))
    return attach(result, "Col2ImBackward0", (input,), lambda grad: patches(grad, window))


# Sums of windows


@kernel_cache
def _window_sum_kernel(source: Layout, numel: int, kind: dtype, window: Window, scaled: bool) -> Any:
    def term(places: list[Any], taps: list[Any]) -> Any:
        positions, inside = window.read(source.shape[2:], places[2:], taps)
        element = ir.load_at(0, element_index(source, [*places[:2], *positions]), kind)
        return _guarded(inside, element, kind)

    outer = (*source.shape[:2], *window.output)
    return summing_kernel("window_sum", (Operand(kind, numel),), kind, outer, window.taps, term, scaled, True)


def window_sum(input: Tensor, window: Window, scale: float | None = None) -> Tensor:
    """Return [n, c, positions…]: the sum of what the window reads at every position of [n, c, sizes…], times a number."""
    shape = (*input._layout.shape[:2], *window.output)
    if not input.numel():
        return nothing(input, shape)
    apart = window.apart(input._layout.shape[2:])
    # What is rounded only at the end is summed at once.
    if apart is not None and compute_dtype(input.dtype) is input.dtype:
        return window_sum(window_sum(input, apart[0]), apart[1], scale)
    kernel = _window_sum_kernel(input._layout, input._storage.value.numel, input.dtype, window, scale is not None)
    result = record(kernel, (input,), () if scale is None else (scale,), (shape,))
    sizes, spatial = tuple(input._layout.shape[2:]), len(window.taps)

    def run_backward(grad: Tensor) -> Tensor:
        spread = (grad if scale is None else grad * scale).reshape((*shape[:2], *(1,) * spatial, *window.output))
        return overlapping_sum(spread.expand((*shape[:2], *window.taps, *window.output)), window, sizes)

    return attach(result, "AvgPoolBackward0", (input,), run_backward)


# Maxima of windows


def _unrolled_tap(source: Layout, kind: dtype, window: Window) -> Any:
    """Return the number of the first greatest element's tap; NaN is greatest, and the last NaN wins, as in PyTorch."""
    spatial = len(window.taps)
    best: Any = None
    chosen: Any = ir.constant(-1, int32)
    for number, tap in enumerate(_all_taps(window.taps)):
        positions, inside = window.read(source.shape[2:], _coordinates(2, spatial), tap)
        element: Any = ir.load_at(0, element_index(source, [*_coordinates(0, 2), *positions]), kind)
        element = ir.cast(element, compute_dtype(kind))
        if best is None:
            best, better = element, inside
            if inside is None:
                chosen = ir.constant(0, int32)
                continue
        else:
            better = (best < element) | (chosen < 0)
            if kind.category == 2:
                better = better | ir.apply("is_nan", element)
            better = better if inside is None else better & inside
        best = ir.select(better, element, best)
        chosen = ir.select(better, number, chosen)
    return ir.apply("maximum", chosen, 0)


@kernel_cache
def _tap_kernel(source: Layout, numel: int, kind: dtype, window: Window) -> Any:
    spatial = len(window.taps)
    shape = (*source.shape[:2], *window.output)
    operands, outputs = (Operand(kind, numel),), (Output(int32, number_of_elements(shape), None),)
    strides = contiguous_strides(shape)
    if number_of_elements(window.taps) <= UNROLLED:
        store = Store(0, 0, strides, _unrolled_tap(source, kind, window))
        return Pointwise(operands, outputs, (), "max_pool", shape, (store,))
    compute = compute_dtype(kind)
    positions, inside = window.read(source.shape[2:], _coordinates(2, spatial), _coordinates(2 + spatial, spatial))
    element: Any = ir.cast(ir.load_at(0, element_index(source, [*_coordinates(0, 2), *positions]), kind), compute)
    if inside is not None:
        element = ir.select(inside, element, ir.cast(ir.parameter(0, compute), compute))
    store = Store(0, 0, strides, ir.cast(ir.reduced(0, int64), int32))
    parameters = () if inside is None else (compute,)
    reduction = Reduction(monoid("argmaximum", compute), element)
    return RowProgram(operands, outputs, parameters, "max_pool", shape, window.taps, (reduction,), (store,), ())


def greatest_taps(input: Tensor, window: Window) -> Tensor:
    """Return [n, c, positions…]: the number (row-major, int32) of the tap that reads the greatest element."""
    apart = window.apart(input._layout.shape[2:])
    if apart is not None:
        along, across = apart
        first = greatest_taps(input, along)
        second = greatest_taps(_pick(input, first, along, False), across)
        return second * window.taps[-1] + _pick(first, second, across, False)
    kernel = _tap_kernel(input._layout, input._storage.value.numel, input.dtype, window)
    lowest = -math.inf if input.dtype.category == 2 else input.dtype.minimum
    return record(kernel, (input,), (lowest,) * len(kernel.parameters), ((*input._layout.shape[:2], *window.output),))


def _split_tap(number: Any, taps: Sequence[int]) -> list[Any]:
    parts: list[Any] = []
    for index, size in enumerate(taps):
        rest = math.prod(taps[index + 1 :])
        part = number // rest if rest != 1 else number
        parts.append(part % size if index else part)
    return parts


@kernel_cache
def _pick_kernel(
    source: Layout, numel: int, kind: dtype, taps: Layout, taps_numel: int, window: Window, indices: bool
) -> Pointwise:
    spatial = len(window.taps)
    number = ir.load(1, taps.offset, taps.strides, int32)
    positions, inside = window.read(source.shape[2:], _coordinates(2, spatial), _split_tap(number, window.taps))
    positions = [clamped(each, size) for each, size in zip(positions, source.shape[2:], strict=True)]
    if indices:
        value: Any = ir.constant(0, int32)
        for position, stride in zip(positions, contiguous_strides(source.shape[2:]), strict=True):
            value = value + position * stride
        result = int64
    else:
        value = ir.load_at(0, element_index(source, [*_coordinates(0, 2), *positions]), kind)
        if window.misses(source.shape[2:]):
            lowest = -math.inf if kind.category == 2 else kind.minimum
            value = value if inside is None else ir.select(inside, value, ir.constant(lowest, kind))
        result = kind
    store = Store(0, 0, contiguous_strides(taps.shape), ir.cast(value, result))
    operands = (Operand(kind, numel), Operand(int32, taps_numel))
    return Pointwise(operands, (Output(result, taps.numel, None),), (), "pick_taps", taps.shape, (store,))


@kernel_cache
def _spread_kernel(
    source: Layout, numel: int, kind: dtype, taps: Layout, taps_numel: int, window: Window, sizes: tuple[int, ...]
) -> Any:
    order = contiguous_strides(window.taps)

    def term(places: list[Any], tap: list[Any]) -> Any:
        positions, inside = window.find(places[2:], tap)
        number: Any = 0
        for part, stride in zip(tap, order, strict=True):
            number = part * stride + number
        chosen = ir.load_at(1, element_index(taps, [*places[:2], *positions]), int32)
        element = ir.load_at(0, element_index(source, [*places[:2], *positions]), kind)
        return ir.select(inside & ir.binary("equal", chosen, number), element, ir.constant(0, kind))

    operands = (Operand(kind, numel), Operand(int32, taps_numel))
    return summing_kernel("spread_taps", operands, kind, (*source.shape[:2], *sizes), window.taps, term)


def _pick(input: Tensor, taps: Tensor, window: Window, indices: bool) -> Tensor:
    kernel = _pick_kernel(
        input._layout, input._storage.value.numel, input.dtype, taps._layout, taps._storage.value.numel, window, indices
    )  # fmt: skip
    return record(kernel, (input, taps), (), (taps._layout.shape,))


def picked(input: Tensor, taps: Tensor, window: Window, indices: Tensor | None = None) -> Tensor:
    """Return [n, c, positions…]: the element that the tap of a given number reads at every position, the lowest if none does.

    ``indices`` are what a caller gets beside the result and may not change before the backward pass.
    """
    result = _pick(input, taps, window, False)
    if needs_gradient(input):
        saved, sizes = taps._save(), tuple(input._layout.shape[2:])
        shown = None if indices is None else indices._save()

        def run_backward(grad: Tensor) -> Tensor:
            if shown is not None:
                shown.unpack()
            return _spread(grad, saved.unpack(), window, sizes)

        attach(result, "MaxPoolBackward0", (input,), run_backward)
    return result


def flat_indices(input: Tensor, taps: Tensor, window: Window) -> Tensor:
    """Return [n, c, positions…]: where :func:`picked` reads, counted in row-major order over the sizes (int64)."""
    return _pick(input.detach(), taps, window, True)


def _scattered(input: Tensor, taps: Tensor, window: Window, sizes: tuple[int, ...]) -> Tensor:
    """Return the elements of every position added to where the tap of a given number reads."""
    lanes, entries = taps._layout.shape[:2], taps._layout.shape[2:]
    places, spots = _coordinates(0, 2), _coordinates(2, len(sizes))
    number = ir.load(1, taps._layout.offset, taps._layout.strides, int32)
    positions, inside = window.read(sizes, spots, _split_tap(number, window.taps))
    positions = [clamped(each, size) for each, size in zip(positions, sizes, strict=True)]
    value = ir.load(2, input._layout.offset, input._layout.strides, input.dtype)
    value = value if inside is None else ir.select(inside, value, ir.constant(0, input.dtype))
    target = input.new_zeros((*lanes, *sizes))
    index = element_index(target._layout, [*places, *positions])
    return scatter_elements(target, lanes, entries, index, value, "sum", (taps, input), "spread_taps")


def _spread(input: Tensor, taps: Tensor, window: Window, sizes: tuple[int, ...]) -> Tensor:
    if math.prod(window.taps) > UNROLLED and on_host(input.device):
        # One thread adds what it comes across, while many at once had to wait for each other.
        result = _scattered(input.detach(), taps, window, sizes)
    else:
        kernel = _spread_kernel(
            input._layout, input._storage.value.numel, input.dtype, taps._layout, taps._storage.value.numel, window, sizes
        )  # fmt: skip
        result = record(kernel, (input, taps), (), ((*input._layout.shape[:2], *sizes),))
    if needs_gradient(input):
        saved = taps._save()
        attach(result, "MaxPoolBackwardBackward0", (input,), lambda grad: picked(grad, saved.unpack(), window))
    return result
