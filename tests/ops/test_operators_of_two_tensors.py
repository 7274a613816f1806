"""Operators of two tensors, which take a way of their own, give what their functions give."""

from __future__ import annotations

import operator
from typing import Any

import webgpu_torch as torch
from hypothesis import given
from hypothesis import strategies as st

OPERATORS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "true_divide": operator.truediv, "lt": operator.lt, "eq": operator.eq,
    "floor_divide": operator.floordiv, "remainder": operator.mod,
}  # fmt: skip
TYPES = (torch.float32, torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool, torch.complex64)
SHAPES = ((), (3,), (2, 3), (1, 3), (2, 1), (0, 3))


@st.composite
def operands(draw: Any) -> torch.Tensor:
    shape, kind = draw(st.sampled_from(SHAPES)), draw(st.sampled_from(TYPES))
    place = draw(st.sampled_from(("cpu", "meta"))) if draw(st.booleans()) else "cpu"
    made = torch.arange(1, 25, device=place).to(kind).reshape(4, 2, 3)
    made = made[(draw(st.integers(0, 3)), *(slice(size) if size != 1 else slice(1, 2) for size in (2, 3)))]
    made = made[tuple(slice(size) for size in shape)] if len(shape) == 2 else made[0, :3] if shape else made[1, 1]
    if draw(st.booleans()):
        made = made.t().contiguous().t() if len(shape) == 2 else made.clone()
    return made.requires_grad_(kind.is_floating_point and draw(st.booleans())) if not made._is_view() else made


def outcome(call: Any, *given: Any) -> Any:
    try:
        made = call(*given)
    except Exception as error:
        return type(error), str(error)
    node = made.grad_fn and made.grad_fn.name()
    values = [] if made.device.type == "meta" else [str(each) for each in made.flatten().tolist()]
    return made.shape, made.stride(), made.dtype, made.device, made.requires_grad, node, values


@given(st.sampled_from(sorted(OPERATORS)), operands(), operands(), st.booleans())
def test_operators(name: str, one: torch.Tensor, other: torch.Tensor, same: bool) -> None:
    other = one if same else other
    # The second call finds what the first one has resolved.
    found = [outcome(OPERATORS[name], one, other) for _ in range(2)]
    assert found == [outcome(getattr(torch, name), one, other)] * 2
