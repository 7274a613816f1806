"""Evenly spaced numbers and the identity matrix."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...ir import expression as ir
from ...ir.dtypes import bfloat16, bool_, compute_dtype, dtype, float32, float64, int64
from ...ir.expression import Expression
from ...ir.host_bytes import check_number
from ...ir.kernels import Output, Pointwise, Store
from ...ir.layouts import contiguous_layout
from ...ir.scalar import fused_multiply_add
from ...ir.scalar_math import convert, halves
from ...record.devices import device, engine_for, has_float64
from ...replay.creations import remembered_creation
from ...tensors.tensor import Tensor
from ..common import as_leaf, kernel_cache, record_on, require_layout
from ..elementwise.call import default_float
from ..outputs import into, into_as_many
from .factories import asked, tensor

if TYPE_CHECKING:
    from ...tensors.type_aliases import DeviceLike, Number


@kernel_cache
def linspace_kernel(count: int, kind: dtype, fused: bool) -> Pointwise:
    """Return the kernel that steps from both ends to the middle, as PyTorch does for symmetry; ``fused``: a step is rounded once."""
    work = compute_dtype(kind)
    position = ir.coordinate(0)
    below = position < (count // 2)
    number = ir.cast(ir.select(below, position, (count - 1) - position), work)
    step = ir.select(below, ir.parameter(2, work), ir.parameter(3, work))
    end = ir.select(below, ir.parameter(0, work), ir.parameter(1, work))
    if kind is work:
        value = fused_multiply_add(number, step, end) if fused else number * step + end
    else:
        # Each operation is rounded to the type; the casts here and back are what rounds.
        product = ir.cast(ir.cast(ir.cast(ir.cast(number, kind), work) * step, kind), work)
        value = ir.cast(product + end, kind)
    return Pointwise((), (Output(kind, count, None),), (work,) * 4, "linspace", (count,), (Store(0, 0, (1,), value),))


def _step(start: float, end: float, steps: int, kind: dtype) -> tuple[float, float, float]:
    """Return the ends and the distance of ``steps`` numbers, each operation rounded to a floating-point type."""
    if kind is not float64:
        # Half precision's numbers have been rounded to single precision first.
        start, end = convert(start, float32), convert(end, float32)
    start, end = convert(start, kind), convert(end, kind)
    distance = convert(end - start, kind) / convert(float(steps - 1), kind) if steps > 1 else 0.0
    return start, end, convert(distance, kind)


def evenly_spaced(start: float, end: float, steps: int, kind: dtype, place: device, fused: bool = True) -> Tensor:
    """Return numbers of a floating-point type from one to another, of shape ``(steps,)``; ``fused`` as of :func:`linspace_kernel`."""
    # A single number is the first one.
    start, end, step = _step(start, end if steps != 1 else start, steps, kind)
    layouts = (contiguous_layout((steps,)),)
    kernel = linspace_kernel(steps, kind, fused)
    return record_on(engine_for(place), place, kernel, (), (start, end, step, -step), layouts)


def wrapped(value: int, kind: dtype) -> int:
    """Return what a type of integers, or of truth values, keeps of a number."""
    if kind is bool_:
        return int(bool(value))
    span = int(kind.maximum) - int(kind.minimum) + 1
    return (value - int(kind.minimum)) % span + int(kind.minimum)


@operation("creation", method=False)
@remembered_creation
def linspace(
    start: Tensor | Number,
    end: Tensor | Number,
    steps: int,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """``steps`` numbers evenly spaced from ``start`` to ``end``, both included.

    Raises:
        RuntimeError: a negative number of steps, or an end that the type does not hold.
        NotImplementedError: truth values.
    """
    require_layout(layout, pin_memory)
    bounds: list[Any] = [each.item() if isinstance(each, Tensor) else each for each in (start, end)]
    start, end = bounds
    steps = int(steps)
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    kind, place = asked(dtype, device, out, default_float[0])
    if kind is bool_ and steps > 1:
        raise NotImplementedError("\"linspace_cpu\" not implemented for 'Bool'")
    for each in bounds[: min(steps, 2)]:
        check_number(each, kind)
    if not steps:
        start = end = 0
    if kind.category < 2:
        # The ends are truncated and wrapped to the type first, as PyTorch does.
        start, end = (wrapped(int(each), kind) for each in (start, end if steps > 1 else start))
        step = (end - start) / (steps - 1) if steps > 1 else 0.0
        values = [int(start + step * i) if i < steps // 2 else int(end - step * (steps - 1 - i)) for i in range(steps)]
        values = [int(start)] if steps == 1 else values
        result = tensor(values, dtype=kind, device=place)
    else:
        result = evenly_spaced(float(start), float(end), steps, kind, place)
    if out is not None:
        return into_as_many(result, out)
    return as_leaf(result, requires_grad)


@kernel_cache
def range_kernel(count: int, kind: dtype) -> Pointwise:
    """Return the kernel computing ``start + step * position``."""
    compute = compute_dtype(kind)
    value = ir.parameter(0, compute) + ir.cast(ir.coordinate(0), compute) * ir.parameter(1, compute)
    store = Store(0, 0, (1,), ir.cast(value, kind))
    return Pointwise((), (Output(kind, count, None),), (compute, compute), "arange", (count,), (store,))


@kernel_cache
def vector_range_kernel(count: int, kind: dtype) -> Pointwise:
    """Return the kernel computing a range of floating-point numbers as PyTorch's CPU does, in vectors of 32 bytes.

    A vector's first number is rounded to the type and the others step from it; the numbers after the last pair of vectors are
    computed one by one.
    """
    start, step = ir.parameter(0, float64), (ir.parameter(1, float64), ir.parameter(2, float64))
    lanes, position = 32 // kind.itemsize, ir.coordinate(0)
    lane = ir.select(position < count // (2 * lanes) * (2 * lanes), position % lanes, 0)
    first = _along(start, position - lane, step, kind)
    if kind is bfloat16:
        # Only these vectors round the product, too.
        product = ir.cast(ir.cast(lane, float64) * (step[0] + step[1]), float32)
        value = ir.cast(ir.cast(first, float32) + product, kind)
    else:
        value = _along(ir.cast(first, float64), lane, step, kind)
    return Pointwise((), (Output(kind, count, None),), (float64,) * 3, "arange", (count,), (Store(0, 0, (1,), value),))


def _along(start: Expression, number: Expression, step: tuple[Expression, Expression], kind: dtype) -> Expression:
    """Return ``start + number * step`` rounded once to a type; the step is the sum of two, of which no multiple is rounded.

    What two sums of doubles round away changes no number of fewer bits, but the sum's own error changes doubles (T. J. Dekker,
    A Floating-Point Technique for Extending the Available Precision, 1971). Half precision is computed in single precision.
    """
    number = ir.cast(number, float64)
    high, low = number * step[0], number * step[1]
    total = start + high
    if kind is float64:
        part = total - start
        return total + (((start - (total - part)) + (high - part)) + low)
    return ir.cast(ir.cast(total + low, float32), kind)


def _range(count: int, start: float, step: float, kind: dtype, place: device) -> Tensor:
    engine, layouts = engine_for(place), (contiguous_layout((count,)),)
    if kind.category != 2 or not has_float64(place) or _is_exact(count, start, step, kind):
        if compute_dtype(kind).category == 1:
            start, step = int(start), int(step)
        return record_on(engine, place, range_kernel(count, kind), (), (start, step), layouts)
    start, step = float(start), float(step)
    if kind.itemsize < 4:
        start, step = convert(start, float32), convert(step, float32)
    high, low = halves(step)
    parts = (high, low) if math.isfinite(high) else (step, 0.0)
    return record_on(engine, place, vector_range_kernel(count, kind), (), (start, *parts), layouts)


def _is_exact(count: int, start: float, step: float, kind: dtype) -> bool:
    """Return whether a range holds whole numbers that its type has all of."""
    most = {2: 1 << 8, 4: 1 << 24, 8: 1 << 53}[kind.itemsize]
    return float(start).is_integer() and float(step).is_integer() and abs(start) + count * abs(step) <= most


@operation("creation", method=False)
@remembered_creation
def arange(
    start: Tensor | Number | None = None,
    end: Tensor | Number | None = None,
    step: Tensor | Number = 1,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers from ``start`` up to but without ``end``.

    Raises:
        RuntimeError: the step is zero or points away from the end, or an end is not finite.
        ValueError: the step of an int64 range is less than one.
    """
    require_layout(layout, pin_memory)
    if end is None:
        start, end = 0, start
    start = 0 if start is None else start
    numbers: list[Any] = [each.item() if isinstance(each, Tensor) else each for each in (start, end, step)]
    if any(isinstance(each, complex) for each in numbers):
        raise RuntimeError("value cannot be converted to type double without overflow")
    first, last, by = numbers
    usual = default_float[0] if any(isinstance(each, float) for each in numbers) else int64
    kind, place = asked(dtype, device, out, usual)
    if kind is bool_ or kind.stored is not kind:
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{kind.title}'")
    if not (math.isfinite(first) and math.isfinite(last)):
        raise RuntimeError(f"unsupported range: {float(first):g} -> {float(last):g}")
    if by == 0:
        raise RuntimeError("step must be nonzero")
    if (last - first) * by < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if kind is int64:
        # PyTorch counts in int64 where that is the type, in double precision where it is another.
        first, last, by = int(first), int(last), int(by)
        if by == 0:
            raise ValueError("step must be nonzero")
    if all(isinstance(each, int) for each in (first, last, by)):
        count = -((first - last) // by)
    else:
        count = math.ceil((last - first) / by)
    result = _range(max(count, 0), first, by, kind, place)
    if out is not None:
        return into_as_many(result, out)
    return as_leaf(result, requires_grad)


@kernel_cache
def eye_kernel(rows: int, columns: int, kind: dtype) -> Pointwise:
    """Return the kernel with ones where both coordinates agree."""
    one = ir.select(ir.binary("equal", ir.coordinate(0), ir.coordinate(1)), 1, 0)
    layout = contiguous_layout((rows, columns))
    store = Store(0, 0, layout.strides, ir.cast(one, kind))
    return Pointwise((), (Output(kind, layout.numel, None),), (), "eye", (rows, columns), (store,))


@operation("creation", method=False)
@remembered_creation
def eye(
    n: int,
    m: int | None = None,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The identity matrix."""
    require_layout(layout, pin_memory)
    n = operator.index(n)
    columns = n if m is None else operator.index(m)
    for name, each in (("n", n), ("m", columns)):
        if each < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {each}")
    kind, place = asked(dtype, device, out, default_float[0])
    kernel = eye_kernel(n, columns, kind)
    result = record_on(engine_for(place), place, kernel, (), (), (contiguous_layout((n, columns)),))
    if out is not None:
        return into(result, out)
    return as_leaf(result, requires_grad)
