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
    "prod": lambda t, x: x.prod(),
    "prod of columns": lambda t, x: x.prod(1),
    "prod of rows": lambda t, x: x.prod(-1, keepdim=True),
    "cumprod": lambda t, x: x.cumprod(1),
    "cut": lambda t, x: t.nn.functional.pad(x, (-1, 0, 0, -1)),
    "padded": lambda t, x: t.nn.functional.pad(x, (0, 1, 2, 0)),
    "padded by nothing": lambda t, x: t.nn.functional.pad(x, (0, 0)),
}


def _gradient(library: Any, name: str, sizes: list[int], order: tuple[int, ...]) -> tuple[Any, list[Any]]:
    count = math.prod(sizes)
    stored = library.tensor([math.sin(1.7 * each + 1) for each in range(count)]).reshape(
        [sizes[each] for each in order]
    )
    x = stored.permute([order.index(each) for each in range(3)]).requires_grad_()
    result = FUNCTIONS[name](library, x)
    (gradient,) = library.autograd.grad(result, x, library.ones_like(result))
    return (result.stride(), gradient.stride()), gradient.tolist()


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


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(*(st.sampled_from([(0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3), (0, 1, 3, 2)]) for _ in range(3))),
    st.sampled_from(["alone", "causal", "truth", "numbers", "grouped"]),
    st.booleans(),
)
def test_attention(orders: tuple[tuple[int, ...], ...], form: str, recorded: bool) -> None:
    def strides(library: Any) -> tuple[Any, ...]:
        sizes = [(2, 4, 3, 5), *[(2, 2 if form == "grouped" else 4, 6, 5)] * 2]
        given = []
        for shape, order in zip(sizes, orders, strict=True):
            stored = library.arange(math.prod(shape), dtype=library.float32).sin()
            x = stored.reshape([shape[each] for each in order]).permute([order.index(each) for each in range(4)])
            given.append(x.requires_grad_(recorded))
        mask = {"truth": library.ones(3, 6).tril(2) > 0, "numbers": library.zeros(3, 6)}.get(form)
        options = {"is_causal": form == "causal", "enable_gqa": form == "grouped"}
        result = library.nn.functional.scaled_dot_product_attention(*given, mask, **options)
        gradients = library.autograd.grad(result, given, library.ones_like(result)) if recorded else ()
        return result.stride(), [each.stride() for each in gradients]

    assert strides(ours) == strides(torch)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]),
    st.lists(st.integers(2, 5), min_size=3, max_size=3),
    st.sampled_from(sorted(permutations(range(3)))),
    st.sampled_from([None, 0, 1, 2, (0, 1), (1, 2), (2, 0), (1,), (2, 1, 0)]),
    st.booleans(),
)
def test_transforms(name: str, sizes: list[int], order: tuple[int, ...], dim: Any, resized: bool) -> None:
    def strides(library: Any) -> tuple[Any, ...]:
        count = math.prod(sizes)
        stored = library.tensor([math.sin(1.7 * each) for each in range(count)]).reshape([sizes[e] for e in order])
        stored = stored if name in ("rfft", "ihfft") else stored.to(library.complex64)
        x = stored.permute([order.index(each) for each in range(3)]).requires_grad_()
        if isinstance(dim, tuple):
            result = getattr(library.fft, f"{name}n")(x, (3,) * len(dim) if resized else None, dim)
        else:
            result = getattr(library.fft, name)(x, 3 if resized else None, -1 if dim is None else dim)
        (gradient,) = library.autograd.grad(result, x, library.ones_like(result))
        return result.stride(), gradient.stride()

    assert strides(ours) == strides(torch)


def test_means_have_one_node() -> None:
    for library in (torch, ours):
        x = library.ones(2, 3, requires_grad=True)
        (edge,) = x.mean().grad_fn.next_functions
        assert edge[0].name() == "torch::autograd::AccumulateGrad"
