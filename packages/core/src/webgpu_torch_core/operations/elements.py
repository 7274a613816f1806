"""Single elements at positions of Python's numbers, as ``x[3, 5]``: the position is a parameter of one kernel for all of them."""

from __future__ import annotations

from functools import lru_cache

from ..ir import expression as ir
from ..ir.dtypes import dtype, int32, int64
from ..ir.kernels import Operand, Output, Pointwise, Scatter, Store
from ..ir.layouts import Layout
from ..ir.layouts import layout as make_layout
from ..record.tape import Value
from ..tensors.tensor import MetaValue, Tensor


def is_taken(tensor: Tensor) -> bool:
    """Return whether a tensor shows one element behind the first of its memory, by itself: no complex number, which is two."""
    layout = tensor._layout
    return (
        layout.numel == 1
        and layout.offset > 0
        and not tensor.dtype.is_complex
        and tensor._storage.value.__class__ is not MetaValue
    )


def at_start(layout: Layout) -> Layout:
    """Return the layout of an element that was taken out of its memory."""
    return make_layout(layout.shape, layout.strides)


def taken(value: Value, layout: Layout, kind: dtype) -> Value:
    """Record that an element of a value, of a type without complex numbers, is taken out, and return the value that holds it alone."""
    return value.engine.record(taking(kind, value.numel, kind), [value], (layout.offset,))[0]


@lru_cache(maxsize=4096)
def taking(kind: dtype, numel: int, result: dtype) -> Pointwise:
    """Return the kernel that takes the element at the position of its parameter out of memory, and converts it."""
    value = ir.cast(ir.load_at(0, _place(numel), kind), result)
    name, store = "copy" if kind is result else "cast", Store(0, 0, (), value)
    return Pointwise((Operand(kind, numel),), (Output(result, 1, None),), (_position(numel),), name, (), (store,))


@lru_cache(maxsize=4096)
def putting(kind: dtype, numel: int, result: dtype) -> Scatter:
    """Return the kernel that stores an element of a type at the position of its parameter in memory: operand 1 in operand 0."""
    operands = Operand(result, numel), Operand(kind, 1)
    value = ir.cast(ir.load(1, 0, (), kind), result)
    return Scatter(
        operands, (Output(result, numel, 0),), (_position(numel),), "copy", (), (), _place(numel), value, None
    )


def _position(numel: int) -> dtype:
    return int32 if numel < 1 << 31 else int64


def _place(numel: int) -> ir.Expression:
    return ir.parameter(0, _position(numel))
