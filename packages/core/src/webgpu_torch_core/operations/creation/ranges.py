"""Evenly spaced numbers and the identity matrix."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...ir import expression as ir
from ...ir.dtypes import bool_, compute_dtype, dtype, float64
from ...ir.host_bytes import check_number
from ...ir.kernels import Output, Pointwise, Store
from ...ir.layouts import contiguous_layout
from ...record.devices import engine_for
from ...tensors.tensor import Tensor
from ..common import kernel_cache, record_on, require_layout
from ..elementwise.call import default_float
from ..outputs import into
from .factories import asked, tensor

if TYPE_CHECKING:
    from ...tensors.type_aliases import DeviceLike, Number


@kernel_cache
def linspace_kernel(count: int, kind: dtype) -> Pointwise:
    """Return the kernel that steps from both ends to the middle, as PyTorch does for symmetry."""
    compute = compute_dtype(kind)
    work = compute if compute.category == 2 else float64
    position = ir.coordinate(0)
    low = ir.parameter(0, work) + ir.cast(position, work) * ir.parameter(2, work)
    high = ir.parameter(1, work) - ir.cast((count - 1) - position, work) * ir.parameter(2, work)
    value = ir.cast(ir.select(position < (count // 2), low, high), kind)
    return Pointwise(
        (), (Output(kind, count, None),), (work, work, work), "linspace", (count,), (Store(0, 0, (1,), value),)
    )


def wrapped(value: int, kind: dtype) -> int:
    """Return what a type of integers, or of truth values, keeps of a number."""
    if kind is bool_:
        return int(bool(value))
    span = int(kind.maximum) - int(kind.minimum) + 1
    return (value - int(kind.minimum)) % span + int(kind.minimum)


@operation("creation", method=False)
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
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    if not steps:
        start = end = step = 0
    if kind.category < 2:
        # The ends are truncated and wrapped to the type first, as PyTorch does.
        start, end = (wrapped(int(each), kind) for each in (start, end if steps > 1 else start))
        step = (end - start) / (steps - 1) if steps > 1 else 0.0
        values = [int(start + step * i) if i < steps // 2 else int(end - step * (steps - 1 - i)) for i in range(steps)]
        values = [int(start)] if steps == 1 else values
        result = tensor(values, dtype=kind, device=place)
    else:
        parameters = (float(start), float(end if steps != 1 else start), float(step))
        result = record_on(
            engine_for(place), place, linspace_kernel(steps, kind), (), parameters, (contiguous_layout((steps,)),)
        )
    if out is not None:
        return into(result, out)
    return result.requires_grad_() if requires_grad else result


@kernel_cache
def eye_kernel(rows: int, columns: int, kind: dtype) -> Pointwise:
    """Return the kernel with ones where both coordinates agree."""
    one = ir.select(ir.binary("equal", ir.coordinate(0), ir.coordinate(1)), 1, 0)
    layout = contiguous_layout((rows, columns))
    store = Store(0, 0, layout.strides, ir.cast(one, kind))
    return Pointwise((), (Output(kind, layout.numel, None),), (), "eye", (rows, columns), (store,))


@operation("creation", method=False)
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
    if n < 0 or columns < 0:
        raise RuntimeError(f"n must be greater or equal to 0, got {min(n, columns)}")
    kind, place = asked(dtype, device, out, default_float[0])
    kernel = eye_kernel(n, columns, kind)
    result = record_on(engine_for(place), place, kernel, (), (), (contiguous_layout((n, columns)),))
    if out is not None:
        return into(result, out)
    return result.requires_grad_() if requires_grad else result
