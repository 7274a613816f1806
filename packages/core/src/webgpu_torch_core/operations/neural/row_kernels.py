"""Softmax, log-softmax, its values at chosen places and standardisation as one row program each, recorded in one step.

Each is what fusion would make of the same text written with separate operations; recording it at once saves the host's
time. Accumulated in the operand's compute type.
"""

from __future__ import annotations

from typing import Any

from ...ir import expression as ir
from ...ir.dtypes import compute_dtype, dtype, int64
from ...ir.kernels import Operand, Output, Reduction, RowProgram, Store
from ...ir.layouts import Layout, contiguous_layout, contiguous_strides, number_of_elements
from ...ir.monoids import monoid
from ...ir.scalar import exp, log, reciprocal_sqrt
from ...tensors.tensor import Tensor
from ..common import kernel_cache, record, reduced_shape
from ..movement.joining import element_index


class Rows:
    """A row program over some dimensions of one operand, under construction."""

    def __init__(self, source: Layout, numel: int, kind: dtype, dims: tuple[int, ...]) -> None:
        kept = [index for index in range(source.ndim) if index not in dims]
        order = (*kept, *dims)
        self.outer = tuple(source.shape[index] for index in kept)
        self.inner = tuple(source.shape[index] for index in dims)
        self.operand = Operand(kind, numel)
        self.kind = kind
        self.compute = compute_dtype(kind)
        self.numel = source.numel
        leaf = ir.load(0, source.offset, tuple(source.strides[index] for index in order), kind)
        self.element: Any = ir.cast(leaf, self.compute)
        dense = contiguous_strides(source.shape)
        self.order = order
        self.strides = tuple(dense[index] for index in order)
        self.reductions: list[Reduction] = []

    def reduce(self, kind: str, value: Any) -> Any:
        """Add a reduction and return its result, for the expressions that follow."""
        self.reductions.append(Reduction(monoid(kind, self.compute), value))
        return ir.reduced(len(self.reductions) - 1, self.compute)

    def lay_out(self, target: Layout) -> None:
        """Store elements in the dense layout of a target, where they are row-major otherwise."""
        self.strides = tuple(target.strides[index] for index in self.order)

    def kernel(self, name: str, value: Any, parameters: tuple[dtype, ...] = (), per_row: Any = None) -> RowProgram:
        """Return the kernel that stores ``value`` per element and, where given, ``per_row`` per row as output 1."""
        outputs = [Output(self.kind, self.numel, None)]
        row_stores: tuple[Store, ...] = ()
        if per_row is not None:
            outputs.append(Output(self.compute, number_of_elements(self.outer), None))
            row_stores = (Store(1, 0, contiguous_strides(self.outer), per_row),)
        store = Store(0, 0, self.strides, ir.cast(value, self.kind))
        return RowProgram(
            (self.operand,),
            tuple(outputs),
            parameters,
            name,
            self.outer,
            self.inner,
            tuple(self.reductions),
            row_stores,
            (store,),
        )


@kernel_cache
def _softmax_kernel(source: Layout, numel: int, kind: dtype, dim: int, logarithm: bool) -> RowProgram:
    rows = Rows(source, numel, kind, (dim,))
    shifted = rows.element - rows.reduce("maximum", rows.element)
    total = rows.reduce("sum", exp(shifted))
    if logarithm:
        return rows.kernel("log_softmax", shifted - log(total))
    return rows.kernel("softmax", exp(shifted) / total)


def softmax_values(source: Tensor, dim: int, logarithm: bool = False) -> Tensor:
    """Return ``softmax`` (or its logarithm) along a non-negative dimension, without gradient."""
    kernel = _softmax_kernel(source._layout, source._storage.value.numel, source.dtype, dim, logarithm)
    return record(kernel, (source,), (), (source._layout.shape,))


@kernel_cache
def _log_softmax_at_kernel(
    source: Layout, numel: int, kind: dtype, dim: int, index: Layout, index_numel: int
) -> RowProgram:
    rows = Rows(source, numel, kind, (dim,))
    top = rows.reduce("maximum", rows.element)
    total = rows.reduce("sum", exp(rows.element - top))
    position = ir.load(1, index.offset, index.strides, int64)
    coordinates: list[Any] = [ir.coordinate(each) for each in range(index.ndim)]
    coordinates.insert(dim, position)
    chosen = ir.cast(ir.load_at(0, element_index(source, coordinates), kind), rows.compute)
    store = Store(0, 0, contiguous_strides(rows.outer), ir.cast(chosen - top - log(total), kind))
    return RowProgram(
        (rows.operand, Operand(int64, index_numel)), (Output(kind, number_of_elements(rows.outer), None),), (),
        "log_softmax_at", rows.outer, rows.inner, tuple(rows.reductions), (store,), (),
    )  # fmt: skip


def log_softmax_at(source: Tensor, dim: int, index: Tensor) -> Tensor:
    """Return the log-softmax along a non-negative dimension at one int64 position of each row, without gradient.

    The index has the source's shape without the dimension; positions are inside of it. No other value is stored.
    """
    kernel = _log_softmax_at_kernel(
        source._layout, source._storage.value.numel, source.dtype, dim, index._layout, index._storage.value.numel
    )
    return record(kernel, (source, index), (), (index._layout.shape,))


@kernel_cache
def _standardize_kernel(
    source: Layout, numel: int, kind: dtype, dims: tuple[int, ...], with_scale: bool, target: Layout
) -> RowProgram:
    rows = Rows(source, numel, kind, dims)
    rows.lay_out(target)
    count = float(max(number_of_elements(rows.inner), 1))
    centered = rows.element - rows.reduce("sum", rows.element) / count
    variance = rows.reduce("sum", centered * centered) / count
    scale = reciprocal_sqrt(variance + ir.parameter(0, rows.compute))
    return rows.kernel("standardize", centered * scale, (rows.compute,), scale if with_scale else None)


def standardize(
    source: Tensor, dims: tuple[int, ...], eps: float, with_scale: bool, target: Layout | None = None
) -> tuple[Tensor, Tensor | None]:
    """Return ``(x - mean) / sqrt(var + eps)`` over dimensions and, if asked, ``1 / sqrt(var + eps)`` with them kept.

    The first is row-major, unless it is to have a dense ``target`` layout.
    """
    target = contiguous_layout(source._layout.shape) if target is None else target
    kernel = _standardize_kernel(source._layout, source._storage.value.numel, source.dtype, dims, with_scale, target)
    shapes: list[Any] = [target]
    if with_scale:
        shapes.append(reduced_shape(source._layout.shape, dims, True))
    found = record(kernel, (source,), (float(eps),), shapes)
    return found if with_scale else (found, None)
