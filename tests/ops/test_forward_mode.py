"""Tangents through functions beside PyTorch's forward mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours

#: PyTorch imports its decompositions when its forward mode is first used
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")

CASES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "dual itself": lambda t, x, y: x,
    "arithmetic": lambda t, x, y: x * y - y / (x + 3),
    "functions": lambda t, x, y: x.sin().exp() + y.tanh(),
    "product": lambda t, x, y: (x @ y.mT).softmax(-1),
    "reductions": lambda t, x, y: x.var(0) * y.logsumexp(0),
    "movement": lambda t, x, y: t.cat([x[1:], y.flip(0)], 0).cumsum(1),
    "solve": lambda t, x, y: t.linalg.solve(x @ x.mT + t.eye(3, dtype=x.dtype), y),
    "complex": lambda t, x, y: t.complex(x, y).exp(),
    "network": lambda t, x, y: t.nn.functional.layer_norm(t.nn.functional.gelu(x), (4,)) * y,
    "constant": lambda t, x, y: t.ones(2) * 3,
    "of one": lambda t, x, y: x.pow(3),
}


def tangents(t: Any, name: str, both: bool) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(1)
    numbers = [torch.randn(3, 4, generator=generator, dtype=torch.float64) for _ in range(4)]
    x, y, u, v = (each if t is torch else ours.tensor(each.numpy()) for each in numbers)
    with t.autograd.forward_ad.dual_level():
        dual = t.autograd.forward_ad.make_dual
        return t.autograd.forward_ad.unpack_dual(CASES[name](t, dual(x, u), dual(y, v) if both else y))


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_as_pytorch(name: str, both: bool) -> None:
    mine, theirs = tangents(ours, name, both), tangents(torch, name, both)
    assert (mine[1] is None) == (theirs[1] is None)
    for one, other in zip(mine, theirs, strict=True):
        if other is not None:
            assert not one.requires_grad
            torch.testing.assert_close(torch.tensor(one.numpy()), other.resolve_conj(), rtol=1e-9, atol=1e-9)


def test_gradients_of_tangents() -> None:
    x = ours.tensor([0.5, 2.0], requires_grad=True)
    with ours.autograd.forward_ad.dual_level():
        _, tangent = ours.autograd.forward_ad.unpack_dual(ours.autograd.forward_ad.make_dual(x, ours.ones(2)) ** 3)
    assert tangent is not None
    tangent.sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]


def test_refusals() -> None:
    for t in (ours, torch):
        forward = t.autograd.forward_ad
        with pytest.raises(RuntimeError, match="no level exists"):
            forward.make_dual(t.ones(2), t.ones(2))
        with forward.dual_level():
            with pytest.raises(RuntimeError, match="Nested"):
                forward.enter_dual_level()
            with pytest.raises(ValueError, match="floating point or complex"):
                forward.make_dual(t.ones(2, dtype=t.int64), t.ones(2))
            with pytest.raises(RuntimeError):
                forward.make_dual(t.ones(2), t.ones(3))
            assert forward.unpack_dual(t.ones(2)).tangent is None
