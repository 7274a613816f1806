"""Chains whose steps write over operands, and blocks over two dimensions, against PyTorch."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
import webgpu_torch as ours
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from webgpu_torch_backend_cpu.compiler import source_of
from webgpu_torch_backend_cpu.memory import Registers, Step, write_over
from webgpu_torch_core.ir.dtypes import float32, float64, int32
from webgpu_torch_core.record.devices import engine_for

UNARY = ("relu", "abs", "neg", "sin", "tanh", "floor", "erf", "sigmoid", "sqrt", "round")
BINARY = ("add", "sub", "mul", "maximum", "minimum", "hypot")
SHAPES = [
    (5000,),
    (3, 2500),
    (2, 3, 4000),
    (2, 1, 40_000),
    (70_001,),
    (3, 5, 41, 130),
    (1, 2, 3, 33_000),
    (3, 90_001),
    (300, 333),
]


@st.composite
def programs(draw):
    """Draw a shape, operands that are whole, rows or turned, and steps over what was computed before."""
    shape = draw(st.sampled_from(SHAPES))
    kinds = draw(st.lists(st.sampled_from(("whole", "row", "number", "turned")), min_size=1, max_size=3))
    kinds = ["whole", *kinds]
    steps, count = [], len(kinds)
    for _ in range(draw(st.integers(2, 12))):
        places = st.integers(max(count - 4, 0), count - 1)
        if draw(st.booleans()):
            steps.append((draw(st.sampled_from(UNARY)), (draw(places),)))
        else:
            steps.append((draw(st.sampled_from(BINARY)), (draw(places), draw(places))))
        count += 1
    return shape, kinds, steps, draw(st.integers(0, 99))


def operands(library, shape, kinds, seed):
    numbers = np.random.default_rng(seed)
    for kind in kinds:
        sizes = {"number": (), "row": shape[-1:], "turned": shape[::-1]}.get(kind, shape)
        values = library.tensor(np.asarray(numbers.normal(size=sizes), np.float32))
        yield values.permute(*reversed(range(len(shape)))) if kind == "turned" else values


def results(library, program, rounded=lambda value: value):
    shape, kinds, steps, seed = program
    values = list(operands(library, shape, kinds, seed))
    for name, places in steps:
        values.append(rounded(getattr(library, name)(*(values[place] for place in places))))
    # Two of them are kept, so that a kernel has several results.
    return values[-1] + values[0], values[-2]


def rounded_otherwise(value, sign):
    """Return numbers of which each is one step beside, or a zero of the other sign, as others may compute it."""
    choices = sign * (1 - 2 * torch.randint(0, 2, value.shape, generator=torch.Generator().manual_seed(value.numel())))
    return value * torch.where(value == 0, choices, 1 + choices * 2.0**-23)


@settings(max_examples=25, deadline=None)
@given(programs())
def test_drawn_chains(program) -> None:
    wanted = results(torch, program)
    # A chain that makes much of how a step is rounded, up or down, such as floor(tanh(x)), has no one result.
    for sign in (-1, 1):
        for one, other in zip(wanted, results(torch, program, partial(rounded_otherwise, sign=sign)), strict=True):
            assume(torch.allclose(one, other, rtol=1.3e-6, atol=1e-5, equal_nan=True))
    with ours.device("cpu"):
        found = results(ours, program)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(torch.from_numpy(one.numpy()), other, equal_nan=True)


def test_what_may_be_written_over() -> None:
    lines = [
        "t0 = v0[block]", "t1 = t0 * p0", "t2 = t1 + p1", "t3 = r.select(t9, t2, t0, False)", "t4 = t0 + t0", "t5 = n.exp(t4)",
        "t6 = t4 - t5", "v1[block] = t6",
    ]  # fmt: skip
    steps = {
        "t1": Step(float32, "n.multiply(t0, p0", ("t0", "p0")), "t2": Step(float32, "n.add(t1, p1", ("t1", "p1")),
        "t4": Step(float32, "n.add(t0, t0", ("t0", "t0")), "t5": Step(float64, "n.exp(t4", ("t4",)),
        "t6": Step(float32, "n.subtract(t4, t5", ("t4", "t5")), "t9": Step(int32, None, ()),
    }  # fmt: skip
    write_over(lines, steps)
    assert lines[1] == "t1 = t0 * p0", "a view of an operand is never written over"
    assert lines[2] == "t2 = n.add(t1, p1, out=t1)"
    assert lines[4:7] == ["t4 = t0 + t0", "t5 = n.exp(t4)", "t6 = n.subtract(t4, t5, out=t4)"]


def test_steps_share_registers() -> None:
    lines = [
        "for start in range(0, 9, 3):", "    t0 = v0[block]", "    t1 = t0 * p0", "    t2 = t0 * t0", "    t3 = t1 + t2", "    t4 = n.sign(t3)",
        "    t5 = t0 - t0", "    t6 = t0 / t0", "    v1[block] = t6", "    t7 = t5 + t4",
    ]  # fmt: skip
    turned = Step(float32, "n.divide(t0, t0", ("t0", "t0"))
    steps = {
        "t1": Step(float32, "n.multiply(t0, p0", ("t0", "p0"), True), "t2": Step(float32, "n.multiply(t0, t0", ("t0", "t0"), True),
        "t3": Step(float32, "n.add(t1, t2", ("t1", "t2"), True), "t4": Step(float32, None, ("t3",), True),
        "t5": Step(float32, "n.subtract(t0, t0", ("t0", "t0"), True), "t6": turned,
        "t7": Step(float32, "n.add(t5, t4", ("t5", "t4"), True),
    }  # fmt: skip
    registers = Registers(4)
    write_over(lines, steps, registers)
    assert lines[2].endswith("t1 = n.multiply(t0, p0, out=s4)") and lines[3].endswith("t2 = n.multiply(t0, t0, out=s5)")
    assert lines[4].endswith("t3 = n.add(t1, t2, out=t1)"), "an operand that nothing reads any more gives its memory"
    assert lines[6].endswith("t5 = n.subtract(t0, t0, out=s4)"), (
        "what nothing reads any more is free, that given back last first"
    )
    assert lines[7].endswith("t6 = t0 / t0"), "what lies in another order keeps it"
    assert lines[9].endswith("t7 = n.add(t5, t4, out=t5)")
    assert registers.kinds == [float32, float32]


def test_rows_write_into_registers() -> None:
    """Steps between the reductions of rows take memory that is kept, and a block at the end that is shorter takes a part of it."""
    for count in (64, 200, 301):
        x = torch.randn(count, 1024, generator=torch.Generator().manual_seed(count))
        with ours.device("cpu"):
            mine = ours.tensor(x.numpy())
            found = ours.nn.functional.layer_norm(mine, (1024,)) + mine.softmax(1) * 3
            kernels = [each for each in engine_for(found.device).kernels if each.name == "standardize"]
            result = torch.from_numpy(found.numpy())
        torch.testing.assert_close(result, torch.nn.functional.layer_norm(x, (1024,)) + x.softmax(1) * 3)
        source = source_of(kernels[-1])
        assert ", out=s0)" in source and "pool.take_registers" in source
