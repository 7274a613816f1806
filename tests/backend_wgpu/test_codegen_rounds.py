"""Pointwise kernels whose threads compute several groups of elements, for adapters whose work the host does."""

from __future__ import annotations

import codegen_harness
import pytest
import torch
from codegen_harness import TORCH, harness
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from webgpu_torch_backend_wgpu.codegen import choose
from webgpu_torch_backend_wgpu.codegen.pointwise import MANY, generate_grouped, lanes_of
from webgpu_torch_core.ir.dtypes import bfloat16, dtype, float32, int32, uint8
from webgpu_torch_core.ir.expression import apply, load
from webgpu_torch_core.ir.kernels import Operand, Output, Pointwise, Store
from webgpu_torch_core.ir.layouts import contiguous_strides

pytestmark = pytest.mark.usefixtures("webgpu")
TYPES = st.sampled_from([float32, int32, uint8, bfloat16])


def sum_of(shape: tuple[int, ...], kind: dtype, across: bool) -> Pointwise:
    """Return the kernel that adds a row to every row of a matrix, or the numbers of a vector to themselves."""
    strides = contiguous_strides(shape)
    count = torch.Size(shape).numel()
    other = load(1, 0, (0,) * (len(shape) - 1) + (1,), kind) if across else load(0, 0, strides, kind)
    operands = (Operand(kind, count), Operand(kind, shape[-1]))
    value = apply("add", load(0, 0, strides, kind), other)
    return Pointwise(operands, (Output(kind, count, None),), (), "sum", shape, (Store(0, 0, strides, value),))


@given(
    rows=st.integers(1, 5), columns=st.integers(1, 700), kind=TYPES, across=st.booleans(), rounds=st.integers(1, 5),
    emulate=st.booleans(),
)  # fmt: skip
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_element_is_computed_once(
    rows: int, columns: int, kind: dtype, across: bool, rounds: int, emulate: bool
) -> None:
    shape = (rows, 4 * columns) if across else (4 * rows * columns,)
    kernel = sum_of(shape, kind, across)
    generator = torch.Generator().manual_seed(columns)
    x, row = (torch.randint(0, 50, (each.numel,), generator=generator).to(TORCH[kind.name]) for each in kernel.operands)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codegen_harness, "generate", lambda k, c: generate_grouped(k, c, max(lanes_of(k, c), 1), rounds))
        (got,) = harness().run(kernel, [x, row], (), emulate)
    wanted = x.view(rows, -1) + row if across else x + x
    assert torch.equal(got, wanted.flatten())


def test_several_groups_are_the_hosts_with_many_elements() -> None:
    graphics = harness().native.replace(software=False)
    host = graphics.replace(software=True)
    for count, capabilities, rounds in ((MANY, host, 4), (MANY // 2, host, 1), (MANY, graphics, 1)):
        variant, plan = choose(sum_of((count,), float32, False), capabilities)
        assert variant.name == "several neighbours per thread" and plan == (4, rounds)
