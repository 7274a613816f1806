"""Short ways to write kernels by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from webgpu_torch_core.ir.dtypes import (
    STORED_DTYPES,
    bfloat16,
    compute_dtype,
    dtype,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from webgpu_torch_core.ir.expression import Expression, cast, load, load_at
from webgpu_torch_core.ir.kernels import Operand, Output, Pointwise, Store
from webgpu_torch_core.ir.layouts import Shape, contiguous_strides, number_of_elements

#: every element type a buffer of ours may have, complex numbers left out
STORAGE = STORED_DTYPES
FLOATS = (float16, bfloat16, float32, float64)
INTEGERS = (uint8, int8, int16, int32, int64, uint16, uint32, uint64)


def read(operand: int, shape: Shape, kind: dtype, strides: Shape | None = None, offset: int = 0) -> Expression:
    """Return a load in the type arithmetic is done in; row-major over ``shape`` unless strides are given."""
    strides = contiguous_strides(shape) if strides is None else strides
    return cast(load(operand, offset, strides, kind), compute_dtype(kind))


def read_at(operand: int, index: Expression, kind: dtype) -> Expression:
    """Return a load at a computed index, in the type arithmetic is done in."""
    return cast(load_at(operand, index, kind), compute_dtype(kind))


def write(
    output: int, shape: Shape, value: Expression, kind: dtype, strides: Shape | None = None, offset: int = 0
) -> Store:
    """Return a store of a value converted to the output's type; row-major over ``shape`` unless strides are given."""
    strides = contiguous_strides(shape) if strides is None else strides
    return Store(output, offset, strides, cast(value, kind))


def operands(*pairs: tuple[dtype, int]) -> tuple[Operand, ...]:
    """Return operands from (type, number of elements)."""
    return tuple(Operand(kind, numel) for kind, numel in pairs)


def outputs(*parts: tuple[Any, ...]) -> tuple[Output, ...]:
    """Return outputs from (type, number of elements) or (type, number of elements, initial)."""
    return tuple(Output(*each, *((None,) if len(each) == 2 else ())) for each in parts)


def elementwise(
    shape: Shape,
    kinds: Sequence[dtype],
    value: Any,
    result: dtype,
    parameters: tuple[dtype, ...] = (),
    name: str = "test",
) -> Pointwise:
    """Return the kernel ``out = value(*loads)`` over row-major operands of one shape."""
    numel = number_of_elements(shape)
    loads = (read(index, shape, kind) for index, kind in enumerate(kinds))
    return Pointwise(
        operands=operands(*((kind, numel) for kind in kinds)),
        outputs=outputs((result, numel)),
        parameters=parameters,
        name=name,
        shape=shape,
        stores=(write(0, shape, value(*loads), result),),
    )
