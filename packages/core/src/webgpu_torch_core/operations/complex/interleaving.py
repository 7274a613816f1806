"""Between complex tensors and their parts: the real view, and the kernel that interleaves two real tensors."""

from __future__ import annotations

from typing import Any

from ...ir import expression as ir
from ...ir.dtypes import compute_dtype, dtype
from ...ir.kernels import Operand, Output, Pointwise, Store
from ...ir.layouts import (
    Layout,
    broadcast_shapes,
    broadcast_strides,
    complex_layout,
    part_layout,
    real_layout,
)
from ...record.devices import engine_for
from ...tensors.tensor import Tensor
from ..common import attach, kernel_cache, record_on, result_layout

#: a part that is zero everywhere
ZERO = None


def real_alias(value: Tensor) -> Tensor:
    """Return the floats of a complex tensor, sharing its storage, without gradient and not as a view."""
    return Tensor._from_storage(value._storage, real_layout(value._layout), value.dtype.to_real(), value.device)


def part_alias(value: Tensor, part: int) -> Tensor:
    """Return the real (0) or imaginary (1) parts, sharing the storage, without gradient and not as a view."""
    return Tensor._from_storage(value._storage, part_layout(value._layout, part), value.dtype.to_real(), value.device)


def complex_alias(value: Tensor) -> Tensor:
    """Return floats as complex numbers, sharing their storage, without gradient and not as a view."""
    return Tensor._from_storage(value._storage, complex_layout(value._layout), value.dtype.to_complex(), value.device)


@kernel_cache
def interleave_kernel(parts: tuple[Any, Any], target: Layout, kind: dtype) -> Pointwise:
    """Return the kernel that stores two parts of a real type alternately.

    Each part is (layout, elements of its storage), ``float`` for a run-time number, or None for zero.
    """
    number = compute_dtype(kind)
    operands: list[Operand] = []
    leaves: list[Any] = []
    parameters = 0
    for each in parts:
        if each is ZERO:
            leaves.append(0.0)
        elif each is float:
            leaves.append(ir.parameter(parameters, number))
            parameters += 1
        else:
            source, numel = each
            leaves.append(ir.load(len(operands), source.offset, (*broadcast_strides(source, target.shape), 0), kind))
            operands.append(Operand(kind, numel))
    is_real = ir.binary("equal", ir.coordinate(target.ndim), 0)
    value = ir.cast(ir.select(is_real, *leaves), kind)
    floats = real_layout(target)
    store = Store(0, 0, floats.strides, value)
    output = Output(kind, floats.numel, None)
    return Pointwise(tuple(operands), (output,), (number,) * parameters, "complex", floats.shape, (store,))


def join(
    real: Any,
    imag: Any,
    target: Layout | None = None,
    place: Any = None,
    title: str = "ComplexBackward0",
    kind: dtype | None = None,
) -> Tensor:
    """Return the complex tensor of two parts, each a tensor, a number or None for zero, broadcast to each other.

    ``target`` is the dense layout of the result (dimensions in the order of the parts' by default); ``place`` and ``kind``, the
    type of the parts, are asked for where no part is a tensor. Two tensors have one type.
    """
    tensors = [each for each in (real, imag) if isinstance(each, Tensor)]
    if target is None:
        target = result_layout(tuple(tensors), broadcast_shapes(*(each._layout.shape for each in tensors)))
    described = tuple(
        (each._layout, each._storage.value.numel) if isinstance(each, Tensor) else None if each is ZERO else float
        for each in (real, imag)
    )
    engine = tensors[0]._engine if tensors else engine_for(place)
    numbers = [float(each) for each in (real, imag) if each is not ZERO and not isinstance(each, Tensor)]
    values = [each._storage.value for each in tensors]
    kernel = interleave_kernel(described, target, tensors[0].dtype if kind is None else kind)
    floats = record_on(engine, tensors[0].device if tensors else place, kernel, values, numbers, (real_layout(target),))
    result = complex_alias(floats)
    shapes = [each._layout.shape if isinstance(each, Tensor) else None for each in (real, imag)]

    def run_backward(grad: Tensor) -> tuple[Any, Any]:
        # A circle: that module imports this one.
        from ..reduction.reductions import sum_to_size

        # A circle: that module imports this one.
        from .views import part

        first, second = (
            None if shape is None else sum_to_size(part(grad, number), shape) for number, shape in enumerate(shapes)
        )
        return first, second

    return attach(result, title, (real, imag), run_backward)


def copy_real(input: Tensor, kind: dtype, target: Layout) -> Tensor:
    """Return a real tensor in a complex type with a dense layout, without gradient."""
    return join(input.detach().to(kind.to_real()), ZERO, target)
