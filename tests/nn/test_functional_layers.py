"""Activations, dropout, embeddings and attention as functions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch_core as ours
import webgpu_torch_nn.functional as functional
from functional_oracle import check, classes, tensor
from nn_oracle import close, to_ours

ACTIVATIONS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("relu", (), {}), ("relu6", (), {}), ("elu", (0.7,), {}), ("celu", (1.3,), {}), ("selu", (), {}), ("silu", (), {}),
    ("mish", (), {}), ("gelu", (), {"approximate": "tanh"}), ("leaky_relu", (0.2,), {}), ("hardtanh", (-0.5, 0.7), {}),
    ("hardswish", (), {}), ("hardsigmoid", (), {}), ("softplus", (2.0, 1.5), {}), ("softsign", (), {}),
    ("softshrink", (0.4,), {}), ("hardshrink", (0.4,), {}), ("tanhshrink", (), {}), ("threshold", (0.1, 3.0), {}),
    ("logsigmoid", (), {}), ("glu", (1,), {}), ("softmin", (1,), {}), ("rrelu", (), {}), ("sigmoid", (), {}),
    ("tanh", (), {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "options"), ACTIVATIONS)
def test_activations(device: str, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    check(device, name, tensor(3, 6), *arguments, twice=name != "hardsigmoid", **options)


@pytest.mark.parametrize("name", ["relu_", "elu_", "celu_", "selu_", "leaky_relu_", "hardtanh_"])
def test_forms_in_place(device: str, name: str) -> None:
    source = tensor(3, 4).detach()
    mine = to_ours(source, device)
    assert getattr(functional, name)(mine) is mine
    close(mine, getattr(torch.nn.functional, name)(source.clone()), rtol=1e-5, atol=1e-6)


RANDOM: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("dropout", (5, 7), {"p": 0.3}),
    ("dropout1d", (2, 6, 3), {"p": 0.4}),
    ("dropout2d", (2, 6, 3, 2), {}),
    ("dropout3d", (6, 3, 2, 2), {}),
    ("alpha_dropout", (5, 7), {"training": True}),
    ("feature_alpha_dropout", (2, 6, 3), {"p": 0.3, "training": True}),
    ("rrelu", (5, 7), {"training": True}),
    ("gumbel_softmax", (5, 7), {"tau": 0.7}),
    ("gumbel_softmax", (5, 7), {"hard": True}),
]


@pytest.mark.parametrize(("name", "shape", "options"), RANDOM)
def test_random_functions_draw_what_pytorch_draws(name: str, shape: tuple[int, ...], options: Any) -> None:
    source = tensor(*shape).detach()
    torch.manual_seed(5)
    want = getattr(torch.nn.functional, name)(source, **options)
    ours.manual_seed(5)
    close(getattr(functional, name)(to_ours(source), **options), want, rtol=1e-5, atol=1e-6)


def test_a_mask_follows_the_order_of_memory() -> None:
    torch.manual_seed(5)
    want = torch.nn.functional.dropout(torch.ones(4, 6).t(), 0.5)
    ours.manual_seed(5)
    assert functional.dropout(ours.ones(4, 6).t(), 0.5).tolist() == want.tolist()


def test_dropped_gradients_are_zero(device: str) -> None:
    source = ours.ones(64, 64, device=device).requires_grad_()
    result = functional.dropout(source, 0.25)
    result.sum().backward()
    assert source.grad is not None
    assert ours.equal(source.grad, result.detach())
    kept = (result != 0).to(ours.float32).mean().item()
    assert 0.65 < kept < 0.85


def test_embedding_gradients_by_frequency(device: str) -> None:
    index = torch.tensor([[0, 2, 2], [1, 2, 0]])
    check(device, "embedding", index, tensor(4, 3), scale_grad_by_freq=True, twice=False)
    check(device, "embedding", index, tensor(4, 3), padding_idx=-2, twice=False)


BAGS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((classes(3, 4, count=6), tensor(6, 5)), {"mode": "sum"}),
    ((classes(3, 4, count=6), tensor(6, 5)), {"mode": "mean", "padding_idx": 2}),
    ((classes(3, 4, count=6), tensor(6, 5)), {"mode": "max"}),
    ((classes(7, count=6), tensor(6, 5), torch.tensor([0, 3, 3, 5])), {"mode": "mean"}),
    ((classes(7, count=6), tensor(6, 5), torch.tensor([0, 3, 3, 5, 7])), {"mode": "max", "include_last_offset": True}),
    (
        (classes(7, count=6), tensor(6, 5), torch.tensor([0, 3, 3, 5])),
        {"mode": "sum", "per_sample_weights": tensor(7)},
    ),
]


@pytest.mark.parametrize(("arguments", "options"), BAGS)
def test_embedding_bags(device: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    check(device, "embedding_bag", *arguments, twice=False, **options)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}, {"enable_gqa": True}])
def test_scaled_dot_product_attention(device: str, options: dict[str, Any]) -> None:
    heads = 2 if options.get("enable_gqa") else 4
    key, value = tensor(2, heads, 5, 3, seed=1), tensor(2, heads, 5, 3, seed=2)
    check(device, "scaled_dot_product_attention", tensor(2, 4, 5, 3), key, value, atol=1e-4, twice=False, **options)


@pytest.mark.slow_on("webgpu-False-True")
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_multi_head_attention(device: str, batched: bool, need_weights: bool) -> None:
    shape = (3, 2, 4) if batched else (3, 4)
    query, memory = tensor(*shape), tensor(5, *shape[1:])
    padding = torch.zeros(2, 5) if batched else torch.zeros(5)
    padding[..., 3] = -float("inf")
    check(
        device, "multi_head_attention_forward", query, memory, memory, 4, 2, tensor(12, 4), tensor(12), tensor(1, 1, 4),
        tensor(1, 1, 4, seed=1), True, 0.0, tensor(4, 4), tensor(4), key_padding_mask=padding,
        attn_mask=torch.zeros(3, 5), need_weights=need_weights, twice=False, atol=1e-4,
    )  # fmt: skip


def test_bilinear(device: str) -> None:
    check(device, "bilinear", tensor(3, 4), tensor(3, 5), tensor(2, 4, 5), tensor(2))


@pytest.mark.parametrize("boolean", [False, True])
def test_rows_that_attend_to_nothing_are_zero(device: str, boolean: bool) -> None:
    mask = torch.tensor([[True, False, True], [False, False, False]])
    if not boolean:
        mask = torch.zeros(2, 3).masked_fill(~mask, float("-inf"))
    query, key, value = tensor(1, 2, 2, 4), tensor(1, 2, 3, 4, seed=1), tensor(1, 2, 3, 4, seed=2)
    check(device, "scaled_dot_product_attention", query, key, value, mask, twice=False)
