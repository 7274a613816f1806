"""Functions that are written out in steps, against double precision and against themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import webgpu_torch as ours
from webgpu_torch_backend_cpu import special
from webgpu_torch_backend_cpu.compiler import source_of
from webgpu_torch_backend_cpu.quicker import quicker
from webgpu_torch_core.ir import expression as ir
from webgpu_torch_core.ir.dtypes import float32, float64, int32
from webgpu_torch_core.ir.kernels import Operand, Pointwise, Store

NUMBERS = np.concatenate(
    [np.linspace(-14, 14, 200_001), np.linspace(-1e-2, 1e-2, 2001), [0.0, -0.0, np.nan, 1e30, -1e30]]
)


def test_gelu_of_many_numbers_near_that_in_double_precision() -> None:
    x = torch.tensor(NUMBERS, dtype=torch.float32)
    with ours.device("cpu"):
        found = torch.from_numpy(ours.nn.functional.gelu(ours.tensor(x.numpy())).numpy()).double()
    expected = torch.nn.functional.gelu(x.double())
    finite = ~expected.isnan()
    assert torch.equal(found.isnan(), ~finite)
    error = (found - expected)[finite].abs()
    # PyTorch's own is off by twice as much.
    assert error.max() < 7e-7
    positive = (expected > 1e-2)[finite]
    assert (error / expected[finite].abs())[positive].max() < 8e-7


def test_gelu_is_a_fraction_and_one_hyperbolic_tangent() -> None:
    x = ir.load(0, 0, (1,), float32)
    half = ir.apply("multiply", x, 0.5)
    share = ir.apply("add", 1.0, ir.apply("erf", ir.apply("multiply", x, 0.5**0.5)))
    found = quicker(ir.apply("multiply", half, share), many=True)
    assert {"tanh"} == {node.step for node in ir.topological(found)} & {"erf", "tanh"}
    assert [node.step for node in ir.topological(found)].count("divide") == 1
    for other in (
        ir.apply("multiply", ir.apply("multiply", x, 0.25), share),
        ir.apply("multiply", half, ir.apply("add", 2.0, ir.apply("erf", ir.apply("multiply", x, 0.5**0.5)))),
        ir.apply("multiply", half, ir.apply("add", 1.0, ir.apply("erf", ir.apply("multiply", x, 0.7)))),
        ir.apply("multiply", half, ir.apply("add", 1.0, ir.apply("tanh", ir.apply("multiply", x, 0.5**0.5)))),
    ):
        assert "divide" not in {node.step for node in ir.topological(quicker(other, many=True))}
    wide = ir.load(0, 0, (1,), float64)
    share = ir.apply("add", 1.0, ir.apply("erf", ir.apply("multiply", wide, 0.5**0.5)))
    wide = ir.apply("multiply", ir.apply("multiply", wide, 0.5), share)
    assert quicker(wide, many=True) is wide


def test_erf_of_many_numbers_is_that_of_few() -> None:
    x = NUMBERS.astype(np.float32)
    with ours.device("cpu"):
        found = ours.erf(ours.tensor(x)).numpy()
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, special.erf(x))
    for count, written in ((100, False), (100_000, True)):
        value = ir.apply("erf", ir.load(0, 0, (1,), float32))
        operands = (Operand(float32, count),)
        kernel = Pointwise(operands, operands, (), "erf", (count,), (Store(0, 0, (1,), value),))
        assert ("tanh" in source_of(kernel)) is written


def test_a_part_of_what_is_negative_is_the_greater_one() -> None:
    x = torch.tensor([1.5, -1.5, 0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-45, -1e-45] * 2)
    for slope in (0.01, 1.0, 0.0, -0.5, 2.0):
        with ours.device("cpu"):
            found = torch.from_numpy(ours.nn.functional.leaky_relu(ours.tensor(x.numpy()), slope).numpy())
        expected = torch.nn.functional.leaky_relu(x, slope)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(found.signbit(), expected.signbit())
    value, zero = ir.load(0, 0, (1,), float32), ir.constant(0.0, float32)
    for slope, step in ((0.5, "maximum"), (1.5, "select"), (-0.5, "select")):
        root = ir.select(ir.apply("less", zero, value), value, ir.apply("multiply", value, slope))
        assert quicker(root, many=False).step == step


KINDS = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "uint8", "bool")


@pytest.mark.parametrize("count", [3, 50])
@pytest.mark.parametrize("kind", KINDS)
def test_ones_where_a_test_holds(kind: str, count: int) -> None:
    """Few elements and many are written in different ways."""

    def made(library: Any) -> list[Any]:
        of, numbers = getattr(library, kind), library.arange(count)
        chosen = [
            library.where(numbers[:, None] < numbers, library.tensor(one, dtype=of), zero)
            for one, zero in ((1, 0), (1, 1))
        ]
        minus = [library.where(numbers > 1, 1.0, -0.0).to(of), (numbers > 1).to(library.int32).to(of)]
        whole = [
            library.eye(count, dtype=of),
            library.nn.functional.one_hot(numbers, count).to(of),
            library.ones(2, count).to(of).diag_embed(),
        ]
        return [each.to(library.float64) for each in (*chosen, *minus, *whole)]

    with ours.device("cpu"):
        found = [torch.tensor(each.tolist(), dtype=torch.float64) for each in made(ours)]
    for one, other in zip(found, made(torch), strict=True):
        assert torch.equal(one, other)
        assert torch.equal(one.signbit(), other.signbit())


def test_a_choice_between_one_and_zero_is_a_test() -> None:
    x = ir.load(0, 0, (1,), float32)
    test = ir.apply("less", x, 0.5)
    for one, zero, step in ((1.0, 0.0, "cast"), (1.0, -0.0, "select"), (2.0, 0.0, "select"), (0.0, 1.0, "select")):
        root = ir.select(test, ir.constant(one, float32), ir.constant(zero, float32))
        assert quicker(root, many=True).step == step
    twice = ir.cast(ir.select(test, ir.constant(1, int32), ir.constant(0, int32)), float32)
    assert quicker(twice, many=True).arguments == (test,)
