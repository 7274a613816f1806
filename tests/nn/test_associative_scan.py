"""``torch._higher_order_ops.associative_scan`` against the recurrence written out, with gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import webgpu_torch
from webgpu_torch._higher_order_ops.associative_scan import associative_scan


def _combine(left, right):
    return {"decay": left["decay"] * right["decay"], "state": right["decay"] * left["state"] + right["state"]}


@pytest.mark.parametrize("size", [1, 2, 7, 16])
@pytest.mark.parametrize("reverse", [False, True])
def test_recurrence(size: int, reverse: bool) -> None:
    generator = np.random.default_rng(size)
    decay, state = (generator.standard_normal((2, size, 3)).astype(np.float32) for _ in range(2))
    ours = [webgpu_torch.tensor(each, requires_grad=True) for each in (decay, state)]
    found = associative_scan(_combine, {"decay": ours[0], "state": ours[1]}, 1, reverse, combine_mode="generic")
    theirs = [torch.tensor(each, requires_grad=True) for each in (decay, state)]
    order = range(size - 1, -1, -1) if reverse else range(size)
    states: list[torch.Tensor] = []
    for index in order:
        before = states[-1] if states else torch.zeros(2, 3)
        states.append(theirs[0][:, index] * before + theirs[1][:, index])
    wanted = torch.stack(states[::-1] if reverse else states, 1)
    assert np.allclose(found["state"].detach().numpy(), wanted.detach().numpy(), atol=1e-5)
    found["state"].square().sum().backward()
    wanted.square().sum().backward()
    for mine, expected in zip(ours, theirs, strict=True):
        slope = np.zeros_like(decay) if expected.grad is None else expected.grad.numpy()
        assert np.allclose(mine.grad.numpy() if mine.grad is not None else 0, slope, rtol=1e-4, atol=1e-4)


def test_refusals() -> None:
    tensor = webgpu_torch.ones(2, 3)
    with pytest.raises(ValueError, match="Combine_mode"):
        associative_scan(lambda left, right: left + right, tensor, 0, combine_mode="other")
    with pytest.raises(ValueError, match="at least 1"):
        associative_scan(lambda left, right: left + right, [], 0)
    with pytest.raises(ValueError, match="same size"):
        associative_scan(lambda left, right: left, [tensor, webgpu_torch.ones(3, 3)], 0)
