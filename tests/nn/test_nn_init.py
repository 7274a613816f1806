"""Initialisers fill as PyTorch's do, from the same draws."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch_core as ours
from nn_oracle import to_torch
from webgpu_torch_nn import init

CASES: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("uniform_", {"a": -2.0, "b": 3.0}, (5, 7)),
    ("normal_", {"mean": 1.0, "std": 2.0}, (5, 7)),
    ("trunc_normal_", {}, (9, 7)),
    ("trunc_normal_", {"a": 1.8, "b": 2.0}, (9, 7)),
    ("constant_", {"val": 0.3}, (2, 3)),
    ("ones_", {}, (2, 3)),
    ("zeros_", {}, (2, 3)),
    ("eye_", {}, (3, 5)),
    ("dirac_", {"groups": 2}, (4, 3, 3, 3)),
    ("xavier_uniform_", {"gain": 1.5}, (4, 3, 3, 3)),
    ("xavier_normal_", {}, (6, 5)),
    ("kaiming_uniform_", {"a": 0.1}, (6, 5)),
    ("kaiming_normal_", {"mode": "fan_out", "nonlinearity": "relu"}, (4, 3, 3, 3)),
    ("orthogonal_", {"gain": 2.0}, (4, 6)),
    ("orthogonal_", {}, (6, 2, 2)),
    ("sparse_", {"sparsity": 0.4}, (10, 3)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_values(case: Any) -> None:
    name, options, shape = case
    torch.manual_seed(11)
    expected = getattr(torch.nn.init, name)(torch.empty(shape), **options)
    ours.manual_seed(11)
    tensor = ours.empty(shape)
    assert getattr(init, name)(tensor, **options) is tensor
    torch.testing.assert_close(to_torch(tensor), expected, rtol=1e-5, atol=2e-6)


def test_gains() -> None:
    for nonlinearity in ("linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"):
        assert init.calculate_gain(nonlinearity) == torch.nn.init.calculate_gain(nonlinearity)
    assert init.calculate_gain("leaky_relu", 0.3) == torch.nn.init.calculate_gain("leaky_relu", 0.3)
    with pytest.raises(ValueError, match="Unsupported nonlinearity swish"):
        init.calculate_gain("swish")
    with pytest.raises(ValueError, match="Fan in and fan out can not be computed"):
        init.kaiming_uniform_(ours.empty(3))
