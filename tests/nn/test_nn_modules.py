"""Modules compute what PyTorch's compute, and print and start as they do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch_core as ours
import webgpu_torch_nn as nn
from nn_oracle import close, copy_weights, to_ours, to_torch

CASES: list[tuple[str, tuple, dict, tuple[int, ...]]] = [
    ("Identity", (), {}, (3, 4)),
    ("Linear", (5, 3), {}, (2, 4, 5)),
    ("Linear", (5, 3), {"bias": False}, (4, 5)),
    ("LayerNorm", (6,), {}, (2, 3, 6)),
    ("LayerNorm", ((3, 6),), {"eps": 1e-3, "bias": False}, (2, 3, 6)),
    ("LayerNorm", (6,), {"elementwise_affine": False}, (2, 6)),
    ("RMSNorm", (6,), {}, (2, 3, 6)),
    ("RMSNorm", ((3, 6),), {"eps": 1e-3, "elementwise_affine": False}, (2, 3, 6)),
    ("Conv2d", (3, 4, 3), {}, (2, 3, 7, 6)),
    ("Conv2d", (4, 6, (3, 2)), {"stride": 2, "padding": (1, 2), "dilation": (1, 2), "groups": 2}, (1, 4, 7, 8)),
    ("Conv2d", (2, 2, 3), {"padding": "same", "bias": False}, (1, 2, 5, 5)),
    ("Conv2d", (2, 2, 3), {"padding": 1, "padding_mode": "reflect"}, (1, 2, 5, 5)),
    ("Flatten", (), {}, (2, 3, 4)),
    ("Unflatten", (1, (2, 3)), {}, (2, 6)),
    ("ReLU", (), {}, (3, 4)),
    ("GELU", (), {}, (3, 4)),
    ("GELU", (), {"approximate": "tanh"}, (3, 4)),
    ("SiLU", (), {}, (3, 4)),
    ("Mish", (), {}, (3, 4)),
    ("Sigmoid", (), {}, (3, 4)),
    ("Tanh", (), {}, (3, 4)),
    ("LeakyReLU", (0.2,), {}, (3, 4)),
    ("PReLU", (4,), {}, (3, 4)),
    ("ReLU6", (), {}, (3, 4)),
    ("Hardtanh", (-0.5, 0.7), {}, (3, 4)),
    ("Hardswish", (), {}, (3, 4)),
    ("Hardsigmoid", (), {}, (3, 4)),
    ("ELU", (0.7,), {}, (3, 4)),
    ("CELU", (0.7,), {}, (3, 4)),
    ("SELU", (), {}, (3, 4)),
    ("Softplus", (2.0, 1.0), {}, (3, 4)),
    ("Softsign", (), {}, (3, 4)),
    ("Softshrink", (0.4,), {}, (3, 4)),
    ("Hardshrink", (0.4,), {}, (3, 4)),
    ("Tanhshrink", (), {}, (3, 4)),
    ("LogSigmoid", (), {}, (3, 4)),
    ("Threshold", (0.1, 20.0), {}, (3, 4)),
    ("GLU", (), {"dim": 1}, (3, 4)),
    ("Softmax", (), {"dim": -1}, (3, 4)),
    ("Softmin", (), {"dim": 0}, (3, 4)),
    ("LogSoftmax", (), {"dim": 1}, (3, 4)),
]


def identity(case: Any) -> str:
    return f"{case[0]}-{case[1]}-{case[2]}"


@pytest.mark.parametrize("case", CASES, ids=identity)
def test_forward_and_gradients(case: Any, device: str) -> None:
    name, args, options, shape = case
    torch.manual_seed(0)
    expected = getattr(torch.nn, name)(*args, **options)
    actual = getattr(nn, name)(*args, **options, **({"device": device} if _has_weights(expected) else {}))
    copy_weights(expected, actual, device)
    assert repr(actual) == repr(expected)
    x = torch.randn(shape) * 2
    y = to_ours(x, device).requires_grad_()
    x.requires_grad_()
    left, right = actual(y), expected(x)
    close(left, right, rtol=1e-4, atol=1e-5)
    slope = torch.randn(right.shape)
    (left * to_ours(slope, device)).sum().backward()
    (right * slope).sum().backward()
    close(y.grad, x.grad, rtol=1e-4, atol=1e-4)
    for (key, a), (_, b) in zip(actual.named_parameters(), expected.named_parameters(), strict=True):
        assert a.grad is not None, key
        close(a.grad, b.grad, rtol=1e-4, atol=1e-4)


def _has_weights(module: torch.nn.Module) -> bool:
    return any(True for _ in module.parameters())


def test_bilinear(device: str) -> None:
    expected = torch.nn.Bilinear(3, 4, 2)
    actual = nn.Bilinear(3, 4, 2, device=device)
    copy_weights(expected, actual, device)
    x, y = torch.randn(5, 2, 3), torch.randn(5, 2, 4)
    close(actual(to_ours(x, device), to_ours(y, device)), expected(x, y))
    assert repr(actual) == repr(expected)


def test_embedding(device: str) -> None:
    expected = torch.nn.Embedding(7, 4, padding_idx=2)
    actual = nn.Embedding(7, 4, padding_idx=2, device=device)
    copy_weights(expected, actual, device)
    index = torch.tensor([[1, 2, 6], [6, 0, 2]])
    left, right = actual(to_ours(index, device)), expected(index)
    close(left, right)
    left.sum().backward()
    right.sum().backward()
    close(actual.weight.grad, expected.weight.grad)
    assert repr(actual) == repr(expected)
    with pytest.raises(AssertionError, match="Padding_idx must be within num_embeddings"):
        nn.Embedding(3, 2, padding_idx=3)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("L1Loss", {}),
        ("MSELoss", {"reduction": "sum"}),
        ("SmoothL1Loss", {"beta": 0.5}),
        ("HuberLoss", {"delta": 0.5, "reduction": "none"}),
        ("BCEWithLogitsLoss", {}),
        ("BCEWithLogitsLoss", {"reduction": "none"}),
    ],
)
def test_elementwise_losses(name: str, options: dict, device: str) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(4, 5), torch.rand(4, 5)
    ours_x = to_ours(x, device).requires_grad_()
    x.requires_grad_()
    left = getattr(nn, name)(**options)(ours_x, to_ours(y, device))
    right = getattr(torch.nn, name)(**options)(x, y)
    close(left, right)
    left.sum().backward()
    right.sum().backward()
    close(ours_x.grad, x.grad)


@pytest.mark.parametrize("options", [{}, {"ignore_index": 1}, {"label_smoothing": 0.1}, {"reduction": "sum"}])
def test_cross_entropy(options: dict, device: str) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(6, 5), torch.tensor([0, 1, 4, 2, 1, 3])
    ours_x = to_ours(x, device).requires_grad_()
    x.requires_grad_()
    left = nn.CrossEntropyLoss(**options)(ours_x, to_ours(y, device))
    right = torch.nn.CrossEntropyLoss(**options)(x, y)
    close(left, right)
    left.backward()
    right.backward()
    close(ours_x.grad, x.grad)


def test_bce_and_kl_div() -> None:
    torch.manual_seed(0)
    p, y = torch.rand(4, 3), torch.rand(4, 3)
    close(nn.BCELoss()(to_ours(p), to_ours(y)), torch.nn.BCELoss()(p, y))
    y[0, 0] = 0
    for reduction in ("batchmean", "sum", "none"):
        close(
            nn.KLDivLoss(reduction=reduction)(to_ours(p.log()), to_ours(y)),
            torch.nn.KLDivLoss(reduction=reduction)(p.log(), y),
        )
    with pytest.raises(ValueError, match="must be the same as input size"):
        nn.BCEWithLogitsLoss()(to_ours(p), to_ours(y[:1]))


def test_dropout() -> None:
    layer = nn.Dropout(0.5)
    x = ours.ones(1000)
    kept = to_torch(layer(x))
    assert set(kept.tolist()) == {0.0, 2.0}
    assert 350 < int((kept == 0).sum()) < 650
    assert bool((to_torch(layer.eval()(x)) == 1).all())
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got 1.5"):
        nn.Dropout(1.5)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("Linear", (7, 5)),
        ("Bilinear", (3, 4, 5)),
        ("Embedding", (9, 4)),
        ("Conv2d", (3, 8, 3)),
        ("LayerNorm", (5,)),
    ],
)
def test_the_same_seed_gives_the_same_weights(name: str, args: tuple) -> None:
    torch.manual_seed(3)
    expected = getattr(torch.nn, name)(*args)
    ours.manual_seed(3)
    actual = getattr(nn, name)(*args)
    for key, value in expected.state_dict().items():
        torch.testing.assert_close(to_torch(actual.state_dict()[key]), value, rtol=0, atol=3e-7)


def test_conv2d_argument_errors() -> None:
    for options, message in (
        ({"groups": 2}, "in_channels must be divisible by groups"),
        ({"padding": "same", "stride": 2}, "padding='same' is not supported for strided convolutions"),
        ({"padding": "full"}, "Invalid padding string 'full'"),
        ({"padding_mode": "mirror"}, "padding_mode must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            nn.Conv2d(3, 4, 3, **options)
