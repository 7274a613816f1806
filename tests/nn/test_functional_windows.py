"""Pooling, unfold and fold, local response normalisation: everything made of sliding windows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch_core as ours
import webgpu_torch_nn.functional as functional
from functional_oracle import check, tensor
from nn_oracle import to_ours, to_torch

CASES: list[tuple[str, tuple[int, ...], tuple[Any, ...], dict[str, Any]]] = [
    ("avg_pool1d", (2, 3, 9), (3,), {"stride": 2, "padding": 1}),
    ("avg_pool1d", (3, 9), (4,), {"ceil_mode": True}),
    ("avg_pool2d", (2, 3, 8, 7), (2,), {}),
    ("avg_pool2d", (1, 2, 7, 9), ((3, 2),), {"stride": (2, 3), "padding": (1, 1), "count_include_pad": False}),
    ("avg_pool2d", (1, 2, 7, 9), (3,), {"stride": 2, "ceil_mode": True, "divisor_override": 5}),
    ("avg_pool2d", (1, 2, 9, 9), (5,), {"stride": 1, "padding": 2}),
    ("avg_pool3d", (1, 2, 5, 6, 4), (2,), {"stride": 1, "padding": 1, "count_include_pad": False, "ceil_mode": True}),
    ("lp_pool1d", (1, 2, 9), (3.0, 3), {}),
    ("lp_pool2d", (1, 2, 6, 6), (2.0, 2), {"stride": 1}),
    ("max_pool1d", (2, 3, 9), (3,), {"stride": 2, "padding": 1}),
    ("max_pool2d", (2, 3, 8, 7), (2,), {}),
    ("max_pool2d", (2, 8, 7), (3,), {"stride": 2, "padding": 1, "dilation": (1, 2)}),
    ("max_pool2d", (1, 2, 9, 9), (5,), {"stride": 1, "padding": 2}),
    ("max_pool2d", (1, 2, 8, 7), (3,), {"stride": 2, "ceil_mode": True, "return_indices": True}),
    ("max_pool3d", (1, 2, 5, 6, 4), (2,), {"return_indices": True}),
    ("adaptive_avg_pool1d", (2, 3, 10), (4,), {}),
    ("adaptive_avg_pool2d", (1, 2, 7, 9), ((3, None),), {}),
    ("adaptive_avg_pool2d", (2, 2, 8, 6), (1,), {}),
    ("adaptive_avg_pool2d", (1, 2, 8, 6), ((4, 3),), {}),
    ("adaptive_avg_pool3d", (1, 2, 5, 6, 7), (3,), {}),
    ("adaptive_max_pool1d", (2, 3, 10), (4,), {"return_indices": True}),
    ("adaptive_max_pool2d", (1, 2, 7, 9), ((3, 4),), {"return_indices": True}),
    ("adaptive_max_pool3d", (1, 2, 4, 6, 5), ((2, 3, 5),), {}),
    ("unfold", (2, 3, 6, 7), ((2, 3),), {"padding": (1, 0), "stride": (2, 1), "dilation": (1, 2)}),
    ("fold", (2, 12, 20), ((5, 6), 2), {}),
    ("fold", (8, 12), ((5, 6), 2), {"stride": 2, "padding": 1, "dilation": (2, 1)}),
    ("local_response_norm", (2, 7, 3, 4), (4,), {"alpha": 0.5}),
    ("local_response_norm", (2, 7, 5), (3,), {"alpha": 0.5, "beta": 0.6, "k": 2.0}),
]


@pytest.mark.parametrize(("name", "shape", "arguments", "options"), CASES)
def test_windows(device: str, name: str, shape: tuple[int, ...], arguments: tuple[Any, ...], options: Any) -> None:
    check(device, name, tensor(*shape, low=0.1 if "lp_pool" in name else -2.0), *arguments, **options)


def test_maxima_of_special_values(device: str) -> None:
    nan, inf = float("nan"), float("inf")
    values = torch.tensor([[[1.0, nan, 2.0, -inf, -inf, -inf, nan, nan, 3.0]]])
    want, positions = torch.nn.functional.max_pool1d(values, 3, 2, 1, return_indices=True)
    have, mine = functional.max_pool1d(to_ours(values, device), 3, 2, 1, return_indices=True)
    torch.testing.assert_close(to_torch(have), want, equal_nan=True)
    assert mine.tolist() == positions.tolist()


def test_unpooling_returns_maxima_to_their_places(device: str) -> None:
    values = tensor(2, 3, 8, 6)
    pooled, places = torch.nn.functional.max_pool2d(values, 2, return_indices=True)
    check(device, "max_unpool2d", pooled.detach().requires_grad_(), places, 2)
    check(device, "max_unpool2d", pooled.detach().requires_grad_(), places, 2, output_size=(9, 7))


@pytest.mark.parametrize("spatial", [2, 3])
def test_fractional_pooling_with_given_samples(device: str, spatial: int) -> None:
    samples = torch.rand(2, 3, spatial, generator=torch.Generator().manual_seed(1))
    name = f"fractional_max_pool{spatial}d"
    source = tensor(2, 3, *(9, 8, 7)[:spatial])
    check(device, name, source, 2, output_size=(4,) * spatial, return_indices=True, _random_samples=samples)


def test_pooling_of_integers_truncates(device: str) -> None:
    values = torch.arange(-8, 8).reshape(1, 1, 4, 4)
    want = torch.nn.functional.avg_pool2d(values, 2)
    assert functional.avg_pool2d(to_ours(values, device), 2).tolist() == want.tolist()


@pytest.mark.parametrize(
    ("name", "shape", "arguments"),
    [
        ("max_pool2d", (1, 2, 4, 4), (2, 2, 2)),
        ("avg_pool2d", (1, 2, 4, 4), (7,)),
        ("max_pool2d", (4, 4), (2,)),
        ("unfold", (1, 2, 3, 3), (5,)),
        ("adaptive_avg_pool2d", (1, 2, 3, 3), (-1,)),
    ],
)
def test_sizes_that_do_not_fit_are_refused(name: str, shape: tuple[int, ...], arguments: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError):
        getattr(torch.nn.functional, name)(torch.zeros(shape), *arguments)
    with pytest.raises(RuntimeError):
        getattr(functional, name)(ours.zeros(shape), *arguments)
