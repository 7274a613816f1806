"""Tensors of given strides, single numbers as tensors, logarithmic ranges, and what PyTorch's internals are called by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...ir.dtypes import bool_, dtype, float32, float64
from ...ir.host_bytes import check_number
from ...ir.layouts import layout, storage_extent
from ...ir.scalar_math import convert
from ...record.devices import on_host
from ...tensors.tensor import Tensor
from ..common import as_leaf, require_layout
from ..elementwise.call import default_float
from ..movement.splitting import resize_
from ..neural.composites import pad
from ..outputs import into_as_many
from .factories import as_dtype, asked, empty, filled, place_of
from .ranges import evenly_spaced, wrapped

if TYPE_CHECKING:
    from ...tensors.memory_formats import memory_format
    from ...tensors.type_aliases import DeviceLike, Number


@operation("creation", method=False)
def empty_strided(
    size: Sequence[int], stride: Sequence[int], *, dtype: dtype | None = None, layout: Any = None, device: DeviceLike = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Undefined contents with given sizes and strides.

    Raises:
        RuntimeError: as many strides as sizes are needed, none negative.
    """
    require_layout(layout, pin_memory)
    result = _strided(tuple(size), tuple(stride), as_dtype(dtype) or default_float[0], device)
    return as_leaf(result, requires_grad)


def _strided(size: tuple[int, ...], stride: tuple[int, ...], kind: dtype, device: Any) -> Tensor:
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})"
        )
    if any(each < 0 for each in stride):
        raise RuntimeError(f"empty_strided: negative strides are not supported, got strides: {list(stride)}")
    target = layout(size, stride)
    return empty(storage_extent(target), dtype=kind, device=device).as_strided(size, stride).detach()


@operation("creation", namespace="method")
def new_empty_strided(
    self: Tensor, size: Sequence[int], stride: Sequence[int], dtype: dtype | None = None, layout: Any = None,
    device: DeviceLike = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """:func:`empty_strided` with this tensor's type and device."""
    require_layout(layout, pin_memory)
    place = self.device if device is None else device
    result = _strided(tuple(size), tuple(stride), as_dtype(dtype) or self.dtype, place)
    return as_leaf(result, requires_grad)


@operation("creation", method=False)
def empty_permuted(
    size: Sequence[int], physical_layout: Sequence[int], *, dtype: dtype | None = None, layout: Any = None,
    device: DeviceLike = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Undefined contents whose dimensions lie in memory in the given order, outermost first."""
    require_layout(layout, pin_memory)
    order = list(physical_layout)
    if sorted(order) != list(range(len(size))):
        raise RuntimeError(
            f"Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {len(size)} is not "
            f"equal to len(physical_layout) = {len(order)}"
            if len(order) != len(size)
            else f"Dimension out of range or duplicate dim not allowed in physical_layout {order}"
        )
    stored = empty(tuple(size[each] for each in order), dtype=dtype, device=device)
    result = stored.permute([order.index(each) for each in range(len(order))]).detach()
    return as_leaf(result, requires_grad)


@operation("creation", method=False)
def scalar_tensor(
    s: Number, *, dtype: dtype | None = None, layout: Any = None, device: DeviceLike = None, pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A number as a tensor of no dimensions."""
    require_layout(layout, pin_memory)
    value = s.item() if isinstance(s, Tensor) else s
    result = filled((), value, as_dtype(dtype) or default_float[0], place_of(device))
    return as_leaf(result, requires_grad)


@operation("creation", method=False)
def logspace(
    start: Tensor | Number, end: Tensor | Number, steps: int, base: Number = 10.0, *, out: Tensor | None = None,
    dtype: dtype | None = None, layout: Any = None, device: DeviceLike = None, pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``base`` to the powers evenly spaced from ``start`` to ``end``, both included.

    Raises:
        RuntimeError: a negative number of steps, or an end that the type does not hold.
        NotImplementedError: truth values.
    """
    require_layout(layout, pin_memory)
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    kind, place = asked(dtype, device, out, default_float[0])
    given = [each.item() if isinstance(each, Tensor) else each for each in (start, end)]
    first, last = map(float, given)
    if kind is bool_ and steps > 1:
        raise NotImplementedError("\"logspace_cpu\" not implemented for 'Bool'")
    for each in given if steps > 1 else _powers(float(base), [first] * steps, float64):
        check_number(each, kind)
    if kind.category < 2 or steps < 2:
        # A single power is rounded once.
        exponents = [first] * min(steps, 1)
        if steps > 1:
            # The ends are truncated and wrapped to the type first, as PyTorch does.
            low, high = (wrapped(int(each), kind) for each in given)
            step = (high - low) / (steps - 1)
            exponents = [low + step * i if i < steps // 2 else high - step * (steps - 1 - i) for i in range(steps)]
        result = empty(0, dtype=kind, device=place).new_tensor(_powers(float(base), exponents, kind), dtype=kind)
    else:
        # Double precision keeps the powers' last digits; that of the result decides which exponents are whole.
        wide = kind if kind.itemsize > 2 else float32
        exponents = evenly_spaced(convert(first, kind), convert(last, kind), steps, wide, place, fused=False)
        exponents = exponents.to(float64) if on_host(place) else exponents
        result = (float(base) ** exponents).to(kind)
    if out is not None:
        return into_as_many(result, out)
    return as_leaf(result, requires_grad)


def _powers(base: float, exponents: list[float], kind: dtype) -> list[Any]:
    found: list[Any] = []
    for each in exponents:
        try:
            value: Any = base**each
        except (ZeroDivisionError, OverflowError):
            value = float("inf")
        value = float("nan") if isinstance(value, complex) else value
        found.append(_truncated(value, kind) if kind.category < 2 else value)
    return found


def _truncated(value: float, kind: dtype) -> int:
    """Return what a type of integers keeps of a number as processors convert it: the least integer of what they cannot."""
    if kind is bool_:
        return int(bool(value))
    bits = 64 if kind.itemsize == 8 else 32
    lowest = -(1 << (bits - 1))
    whole = int(value) if math.isfinite(value) else lowest
    return wrapped(whole if lowest <= whole < -lowest else lowest, kind)


@operation("composite", method=False)
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Number = 0) -> Tensor:
    """As :func:`torch.nn.functional.pad` with a constant."""
    return _pad(input, pad, "constant", value)


_pad = pad


@operation("view")
def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: memory_format | None = None) -> Tensor:
    """Change to another tensor's shape in place, with contiguous strides or those of a memory format."""
    return resize_(self, the_template.shape, memory_format=memory_format)
