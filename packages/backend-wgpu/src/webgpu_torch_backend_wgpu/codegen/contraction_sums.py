"""Contractions of a few long sums, such as the product of two vectors: rows of products, which are summed as any rows are."""

from __future__ import annotations

from webgpu_torch_core.ir.dtypes import float32
from webgpu_torch_core.ir.expression import Expression, binary, cast, reduced, rewrite
from webgpu_torch_core.ir.kernels import Contraction, Reduction, RowProgram
from webgpu_torch_core.ir.layouts import number_of_elements
from webgpu_torch_core.ir.monoids import monoid

from ..program import Capabilities

#: most results, for each of which both of its rows are read, and products of a sum from which on workgroups should share it
_RESULTS, _LONG = 64, 1 << 15


def sums_of(kernel: Contraction, capabilities: Capabilities) -> RowProgram | None:
    """Return the rows of products whose sums a contraction's few results are; None where they are many, or their sums short."""
    results = number_of_elements(kernel.batch + kernel.m + kernel.n)
    long = number_of_elements(kernel.k) >= _LONG and kernel.dtype is float32 and not capabilities.software
    if results > _RESULTS or not long:
        return None
    product = binary("multiply", cast(kernel.left, float32), cast(kernel.right, float32))
    rows = RowProgram(
        kernel.operands, kernel.outputs, kernel.parameters, kernel.name, kernel.batch + kernel.m + kernel.n, kernel.k,
        (Reduction(monoid("sum", float32), product),), kernel.stores, (),
    )  # fmt: skip
    return rows.map_expressions(lambda each: rewrite(each, _of_rows, ("accumulator",)))


def _of_rows(node: Expression, arguments: tuple[Expression, ...]) -> Expression:
    return reduced(0, float32)
