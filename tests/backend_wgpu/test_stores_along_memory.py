"""Pointwise kernels whose stores lie in another order than their dimensions, of all types: as their definition says."""

from __future__ import annotations

import pytest
from codegen_harness import CORE, TORCH
from contraction_cases import draw
from hypothesis import strategies as st
from test_codegen import STORAGE, check, operand, values
from webgpu_torch_backend_wgpu.codegen.variants import oriented
from webgpu_torch_core.ir.dtypes import dtype
from webgpu_torch_core.ir.expression import binary, load
from webgpu_torch_core.ir.kernels import Output, Pointwise, Store
from webgpu_torch_core.ir.layouts import contiguous_strides, number_of_elements

pytestmark = pytest.mark.usefixtures("webgpu")


def permuted(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    """Return strides of a dense array whose dimensions lie in memory in an order, the outermost first."""
    dense = contiguous_strides(tuple(shape[each] for each in order))
    return tuple(dense[order.index(place)] for place in range(len(shape)))


def copy_of(kind: dtype, shape: tuple[int, ...], source: tuple[int, ...], target: tuple[int, ...]) -> Pointwise:
    numel, value = number_of_elements(shape), load(0, 0, permuted(shape, source), kind)
    if kind.category:
        value = binary("add", value, value)
    return Pointwise(
        (operand(kind, numel),), (Output(kind, numel, None),), (), "copy", shape,
        (Store(0, 0, permuted(shape, target), value),),
    )  # fmt: skip


def test_they_are_stored_as_the_definition_says() -> None:
    def run(data: st.DataObject) -> None:
        kind = CORE[TORCH[data.draw(st.sampled_from(STORAGE))]]
        shape = tuple(data.draw(st.lists(st.sampled_from((1, 2, 3, 5, 8, 33)), min_size=2, max_size=4)))
        source, target = (tuple(data.draw(st.permutations(range(len(shape))))) for _ in range(2))
        kernel = copy_of(kind, shape, source, target)
        check(kernel, [values(kind, number_of_elements(shape), 1)], (), data.draw(st.booleans()))

    draw(25, run)


def test_the_last_dimension_is_the_one_that_they_lie_along() -> None:
    kernel = oriented(copy_of(CORE[TORCH["float32"]], (4, 1, 6, 7), (0, 1, 2, 3), (0, 2, 3, 1)))
    assert isinstance(kernel, Pointwise)
    assert kernel.stores[0].strides[-1] == 1
    nhwc = oriented(copy_of(CORE[TORCH["float32"]], (4, 5, 6, 7), (0, 1, 2, 3), (0, 2, 3, 1)))
    assert isinstance(nhwc, Pointwise)
    assert nhwc.shape == (4, 6, 7, 5)
