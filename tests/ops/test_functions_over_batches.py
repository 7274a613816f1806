"""Gradients and tangents of custom functions with ``generate_vmap_rule``, inside and outside of ``vmap``, beside PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from numpy.testing import assert_allclose


def function(t: Any, outputs: int) -> Any:
    class Product(t.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return (x * y, x - y)[:outputs] if outputs > 1 else x * y

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: Any, one: Any, other: Any = 0) -> Any:
            x, y = ctx.saved_tensors
            # Three times the derivative, so that it is seen whether this is taken.
            return one * y * 3 + other, one * x * 3 - other

        @staticmethod
        def jvp(ctx: Any, one: Any, other: Any) -> Any:
            x, y = ctx.saved_tensors
            found = one * y * 3 + other * x * 3
            return (found, one - other) if outputs > 1 else found

    def call(x: Any, y: Any) -> Any:
        found = Product.apply(x, y)
        return found if outputs == 1 else found[0] * 2 + found[1]

    return call


PROGRAMS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "gradients of examples": lambda t, f, x, y: t.vmap(t.func.grad(lambda a, b: f(a, b).sum(), argnums=(0, 1)))(x, y),
    "beside what is shared": lambda t, f, x, y: t.vmap(t.func.grad(lambda a, b: f(a, b).sum()), (0, None))(x, y[0]),
    "twice the same": lambda t, f, x, y: t.vmap(t.func.grad(lambda a: f(a, a).sum()))(x),
    "batches of batches": lambda t, f, x, y: t.vmap(t.vmap(t.func.grad(f)))(x, y),
    "jacobians of examples": lambda t, f, x, y: t.vmap(t.func.jacrev(f))(x, y),
    "tangents of examples": lambda t, f, x, y: t.vmap(lambda a, b: t.func.jvp(lambda c: f(c, b), (a,), (b,)))(x, y),
    "gradients of a batch": lambda t, f, x, y: t.func.grad(lambda a: t.vmap(f)(a, y).sum())(x),
    "no transform around": lambda t, f, x, y: t.autograd.grad(t.vmap(f)(x.requires_grad_(), y).sum(), x),
    "nothing differentiates": lambda t, f, x, y: t.vmap(f)(x, y),
    "no examples": lambda t, f, x, y: t.vmap(f)(x[:0], y[:0]),
}


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_functions_over_batches(name: str, outputs: int) -> None:
    found: list[Any] = []
    for t in (torch, ours):
        x = t.arange(6.0).reshape(2, 3) + 1
        result = PROGRAMS[name](t, function(t, outputs), x, x.flip(0) * 0.5)
        found.append(result if isinstance(result, tuple) else (result,))
    for theirs, mine in zip(*found, strict=True):
        assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize("order", [(2, 1), (0, 0), (-3, 0), (0,), (-1, -2)])
def test_orders_of_dimensions_that_there_are_not(order: tuple[int, ...]) -> None:
    def run(library: Any) -> Any:
        x = library.arange(24.0).reshape(2, 3, 4)
        try:
            return library.func.vmap(lambda each: each.permute(*order))(x).tolist()
        except (IndexError, RuntimeError) as error:
            return type(error).__name__

    assert run(ours) == run(torch)
