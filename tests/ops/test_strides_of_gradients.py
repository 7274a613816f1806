"""Gradients of means, deviations and norms lie in memory as PyTorch's do, whatever the order of the input's dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations
from typing import Any

import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "mean": lambda t, x: x.mean(),
    "mean of rows": lambda t, x: x.mean(-1),
    "mean of two": lambda t, x: x.mean((0, 2), keepdim=True),
    "var": lambda t, x: x.var(),
    "var of columns": lambda t, x: x.var(1),
    "std": lambda t, x: x.std(1, keepdim=True),
    "var_mean": lambda t, x: t.var_mean(x, 1)[0],
    "norm": lambda t, x: x.norm(),
    "norm of columns": lambda t, x: x.norm(dim=1),
    "normalize": lambda t, x: t.nn.functional.normalize(x),
    "pooled": lambda t, x: t.nn.functional.adaptive_avg_pool2d(x.unsqueeze(0), 1),
    "loss": lambda t, x: t.nn.functional.mse_loss(x, x.detach() + 1),
}


def _gradient(library: Any, name: str, sizes: list[int], order: tuple[int, ...]) -> tuple[tuple[int, ...], list[Any]]:
    count = math.prod(sizes)
    stored = library.tensor([math.sin(1.7 * each) for each in range(count)]).reshape([sizes[each] for each in order])
    x = stored.permute([order.index(each) for each in range(3)]).requires_grad_()
    result = FUNCTIONS[name](library, x)
    (gradient,) = library.autograd.grad(result, x, library.ones_like(result))
    return gradient.stride(), gradient.tolist()


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(sorted(FUNCTIONS)),
    st.lists(st.integers(2, 5), min_size=3, max_size=3),
    st.sampled_from(sorted(permutations(range(3)))),
)
def test_gradients_of_permuted_tensors(name: str, sizes: list[int], order: tuple[int, ...]) -> None:
    wanted, found = _gradient(torch, name, sizes, order), _gradient(ours, name, sizes, order)
    assert found[0] == wanted[0], f"{name} of {sizes} in the order {order}"
    torch.testing.assert_close(torch.tensor(found[1]), torch.tensor(wanted[1]))


def test_means_have_one_node() -> None:
    for library in (torch, ours):
        x = library.ones(2, 3, requires_grad=True)
        (edge,) = x.mean().grad_fn.next_functions
        assert edge[0].name() == "torch::autograd::AccumulateGrad"
