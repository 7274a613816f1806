"""Gradients of tensors whose parts were written in place are PyTorch's, wherever the gradient that arrives lies in its storage."""

from __future__ import annotations

from typing import Any

import torch
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st

ROWS, COLUMNS = 3, 4
#: parts of a matrix, and what is written into them
REGIONS = st.tuples(st.integers(0, ROWS - 1), st.integers(0, COLUMNS - 1), st.integers(1, 3), st.integers(1, 2))
WRITES = st.lists(st.tuples(REGIONS, st.sampled_from(["mul_", "add_", "copy_", "custom"])), min_size=1, max_size=3)
USES = ("alone", "cat before", "cat behind", "stacked", "transposed")


def written(t: Any, base: Any, factor: Any, writes: Any) -> Any:
    class Scaled(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2).add_(y)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2, grad.sum()

    result = base * 1
    for (row, column, step, across), name in writes:
        part = result[row::step, column::across]
        if name == "custom":
            Scaled.apply(part, factor)
        else:
            getattr(part, name)(factor)
    return result


@settings(max_examples=60, deadline=None)
@given(WRITES, st.sampled_from(USES), st.booleans(), st.integers(0, ROWS - 1))
def test_gradients(writes: Any, use: str, twice: bool, which: int) -> None:
    def found(t: Any) -> Any:
        base = t.linspace(-1, 2, ROWS * COLUMNS, dtype=t.float64).reshape(ROWS, COLUMNS).requires_grad_()
        factor = t.tensor(1.5, dtype=t.float64, requires_grad=True)
        result, other = written(t, base, factor, writes), base * 3
        if use == "stacked":
            result = t.stack([other, result, other])
        elif use == "transposed":
            result = t.cat([other, result], 1).t()
        elif use != "alone":
            result = t.cat([other, result] if use == "cat behind" else [result, other])
        many = t.arange(float(2 * result.numel()), dtype=t.float64).reshape(2, *result.shape)
        seeds = [many[1], many[which % 2]] if twice else [many[1]]
        return [
            each.tolist() for seed in seeds for each in t.autograd.grad(result, (base, factor), seed, retain_graph=True)
        ]

    for actual, expected in zip(found(webgpu_torch), found(torch), strict=True):
        torch.testing.assert_close(torch.tensor(actual), torch.tensor(expected))
