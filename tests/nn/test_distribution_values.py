"""Distributions: values, gradients, samples from the same seed, and what is refused, beside PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import webgpu_torch as ours
from distribution_oracle import made, refused_alike, same

Build = Callable[..., Any]

LOWER = [[1.5, 0.0, 0.0], [0.4, 0.8, 0.0], [-0.3, 0.2, 1.1]]
COVARIANCE = (np.array(LOWER) @ np.array(LOWER).T).tolist()

#: name -> distribution of parameter tensors, the parameters, values to ask about
CASES: dict[str, tuple[Build, tuple[Any, ...], Any]] = {
    "normal": (
        lambda d, a, b: d.Normal(a, b),
        ([[0.5], [-1.0]], [0.5, 1.0, 2.0]),
        [[0.1, -2.0, 3.0], [1.0, 0.0, -1.0]],
    ),
    "uniform": (lambda d, a, b: d.Uniform(a, b), ([-1.0, 0.0, 2.0], [1.0, 0.5, 4.0]), [0.5, 0.25, 2.0]),
    "gumbel": (lambda d, a, b: d.Gumbel(a, b), ([0.5, -1.0], [0.5, 2.0]), [0.1, -2.0]),
    "bernoulli": (lambda d, a: d.Bernoulli(a), ([0.2, 0.5, 0.9, 1.0],), [0.0, 1.0, 1.0, 1.0]),
    "bernoulli-logits": (lambda d, a: d.Bernoulli(logits=a), ([-2.0, 0.0, 3.0],), [0.0, 1.0, 1.0]),
    "categorical": (lambda d, a: d.Categorical(a), ([[0.2, 0.3, 0.5], [4.0, 0.0, 1.0]],), [2.0, 0.0]),
    "categorical-logits": (lambda d, a: d.Categorical(logits=a), ([[0.2, -0.3, 0.5], [4.0, 0.0, 1.0]],), [2.0, 0.0]),
    "multivariate": (
        lambda d, a, b: d.MultivariateNormal(a, scale_tril=b),
        ([[0.5, 1.0, -1.0], [0.0, 0.0, 2.0]], LOWER),
        [[0.1, 0.2, 0.3], [1.0, 0.0, -1.0]],
    ),
    "multivariate-covariance": (
        lambda d, a, b: d.MultivariateNormal(a, b),
        ([0.5, 1.0, -1.0], COVARIANCE),
        [0.1, 0.2, 0.3],
    ),
    "multivariate-precision": (
        lambda d, a, b: d.MultivariateNormal(a, precision_matrix=b),
        ([0.5, 1.0, -1.0], COVARIANCE),
        [0.1, 0.2, 0.3],
    ),
    "independent": (
        lambda d, a, b: d.Independent(d.Normal(a, b), 1),
        ([[0.5, 1.0], [-1.0, 0.0]], [[0.5, 1.0], [2.0, 0.1]]),
        [[0.1, -2.0], [3.0, 1.0]],
    ),
}
# Factorisations have no kernels of their own on WebGPU.
pytestmark = pytest.mark.filterwarnings("ignore:.*has no kernel on webgpu")
MOMENTS = ("mean", "mode", "variance", "stddev")


def _same(found: Any, wanted: Any, where: str, tolerance: float = 2e-5) -> None:
    same(found, wanted, where, tolerance)


def _made(library: Any, name: str, device: str = "cpu") -> tuple[Any, list[Any], Any]:
    return made(CASES[name], library, device)


@pytest.mark.parametrize("name", CASES)
def test_values(name: str, device: str) -> None:
    (found, _, value), (wanted, _, theirs) = _made(ours, name, device), _made(torch, name)
    assert found.batch_shape == wanted.batch_shape and found.event_shape == wanted.event_shape
    assert found.has_rsample == wanted.has_rsample and found.has_enumerate_support == wanted.has_enumerate_support
    _same(found.log_prob(value), wanted.log_prob(theirs), "log_prob")
    _same(found.entropy(), wanted.entropy(), "entropy")
    _same(found.perplexity(), wanted.perplexity(), "perplexity", 1e-4)
    for each in MOMENTS:
        _same(getattr(found, each), getattr(wanted, each), each)
    if "cdf" in vars(type(found)):
        _same(found.cdf(value), wanted.cdf(theirs), "cdf")
        _same(found.icdf(ours.full_like(value, 0.3)), wanted.icdf(torch.full_like(theirs, 0.3)), "icdf")
    if wanted.has_enumerate_support:
        for expand in (True, False):
            _same(found.enumerate_support(expand), wanted.enumerate_support(expand), "enumerate_support")
    assert repr(found).partition("(")[0] == repr(wanted).partition("(")[0]


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str, device: str) -> None:
    (found, given, value), (wanted, theirs, other) = _made(ours, name, device), _made(torch, name)
    (found.log_prob(value).sum() + found.entropy().sum()).backward()
    (wanted.log_prob(other).sum() + wanted.entropy().sum()).backward()
    for one, two in zip(given, theirs, strict=True):
        assert (one.grad is None) == (two.grad is None)
        if one.grad is not None:
            _same(one.grad, two.grad, "gradient", 1e-4)


@pytest.mark.parametrize("name", CASES)
def test_samples_are_pytorchs(name: str) -> None:
    (found, given, _), (wanted, theirs, _) = _made(ours, name), _made(torch, name)
    for shape in ((), (4,), (2, 3)):
        ours.manual_seed(3), torch.manual_seed(3)
        _same(found.sample(shape), wanted.sample(shape), f"sample{shape}")
        assert not found.sample(shape).requires_grad
    if not wanted.has_rsample:
        return
    ours.manual_seed(3), torch.manual_seed(3)
    found.rsample((3,)).pow(2).sum().backward(), wanted.rsample((3,)).pow(2).sum().backward()
    for one, two in zip(given, theirs, strict=True):
        _same(one.grad, two.grad, "gradient of samples", 1e-4)


@pytest.mark.parametrize("name", CASES)
def test_expanded(name: str) -> None:
    (found, _, value), (wanted, _, other) = _made(ours, name), _made(torch, name)
    found, wanted = found.expand((4, *found.batch_shape)), wanted.expand((4, *wanted.batch_shape))
    assert found.batch_shape == wanted.batch_shape and found.event_shape == wanted.event_shape
    _same(found.log_prob(value), wanted.log_prob(other), "log_prob")
    ours.manual_seed(3), torch.manual_seed(3)
    _same(found.sample((2,)), wanted.sample((2,)), "sample")


PAIRS = {
    "normal": lambda t, d: (d.Normal(t.tensor([0.0, 1.0]), 1.0), d.Normal(0.5, t.tensor([2.0, 0.5]))),
    "uniform": lambda t, d: (d.Uniform(t.tensor([0.0, -1.0]), 1.0), d.Uniform(0.0, 2.0)),
    "bernoulli": lambda t, d: (d.Bernoulli(t.tensor([0.2, 0.0, 1.0])), d.Bernoulli(t.tensor([0.7, 0.5, 0.0]))),
    "categorical": lambda t, d: (d.Categorical(t.tensor([0.2, 0.8, 0.0])), d.Categorical(t.tensor([0.5, 0.2, 0.3]))),
    "multivariate": lambda t, d: (
        d.MultivariateNormal(t.zeros(3), scale_tril=t.tensor(LOWER)),
        d.MultivariateNormal(t.ones(2, 3), t.eye(3) * 2),
    ),
    "independent": lambda t, d: (
        d.Independent(d.Normal(t.zeros(2, 3), 1.0), 1),
        d.Independent(d.Normal(t.ones(2, 3), 2.0), 1),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_divergences(name: str) -> None:
    found = ours.distributions.kl_divergence(*PAIRS[name](ours, ours.distributions))
    _same(found, torch.distributions.kl_divergence(*PAIRS[name](torch, torch.distributions)), name)


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "negative scale": lambda t, d: d.Normal(0.0, -1.0),
    "NaN": lambda t, d: d.Normal(float("nan"), 1.0),
    "empty interval": lambda t, d: d.Uniform(1.0, 1.0),
    "probability": lambda t, d: d.Bernoulli(1.5),
    "both": lambda t, d: d.Bernoulli(0.5, 0.5),
    "neither": lambda t, d: d.Categorical(),
    "0-d": lambda t, d: d.Categorical(t.tensor(0.5)),
    "asymmetric": lambda t, d: d.MultivariateNormal(t.zeros(2), t.tensor([[1.0, 0.5], [0.0, 1.0]])),
    "indefinite": lambda t, d: d.MultivariateNormal(t.zeros(2), t.tensor([[1.0, 2.0], [2.0, 1.0]])),
    "scalar mean": lambda t, d: d.MultivariateNormal(t.tensor(0.0), t.eye(1)),
    "outside": lambda t, d: d.Uniform(0.0, 1.0).log_prob(t.tensor(2.0)),
    "no class": lambda t, d: d.Categorical(t.ones(3)).log_prob(t.tensor(3)),
    "shape": lambda t, d: d.Normal(t.zeros(3), 1.0).log_prob(t.zeros(2)),
    "event": lambda t, d: d.MultivariateNormal(t.zeros(2), t.eye(2)).log_prob(t.zeros(3)),
    "too many": lambda t, d: d.Independent(d.Normal(t.zeros(2), 1.0), 2),
    "no divergence": lambda t, d: d.kl_divergence(d.Uniform(0.0, 1.0), d.Categorical(t.ones(2))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    refused_alike(REFUSED[name], 60)


def test_unchecked() -> None:
    assert ours.distributions.Normal(0.0, -1.0, validate_args=False).scale.item() == -1.0
    ours.distributions.Distribution.set_default_validate_args(False)
    try:
        assert ours.distributions.Bernoulli(1.5).probs.item() == 1.5
    finally:
        ours.distributions.Distribution.set_default_validate_args(True)


CHECKED = {
    "real": [0.0, float("nan"), float("inf")],
    "positive": [0.0, 1.0, -1.0],
    "nonnegative": [0.0, 1.0, -1.0],
    "unit_interval": [0.0, 1.0, 1.5],
    "nonnegative_integer": [0.0, 1.0, 0.5, -1.0],
    "positive_integer": [0.0, 1.0, 2.5],
    "boolean": [0.0, 1.0, 0.5],
    "simplex": [[0.5, 0.5], [0.5, 0.6], [1.5, -0.5]],
    "one_hot": [[1.0, 0.0], [1.0, 1.0], [0.5, 0.5]],
    "real_vector": [[1.0, 0.0], [float("nan"), 1.0]],
    "lower_triangular": [LOWER, COVARIANCE],
    "lower_cholesky": [LOWER, COVARIANCE],
    "symmetric": [LOWER, COVARIANCE],
    "positive_definite": [COVARIANCE, np.negative(COVARIANCE).tolist()],
    "positive_semidefinite": [COVARIANCE, np.negative(COVARIANCE).tolist()],
}


@pytest.mark.parametrize("name", CHECKED)
def test_constraints(name: str) -> None:
    one, two = (getattr(each.distributions.constraints, name) for each in (ours, torch))
    assert one.check(ours.tensor(CHECKED[name])).tolist() == two.check(torch.tensor(CHECKED[name])).tolist()
    assert (one.is_discrete, one.event_dim) == (two.is_discrete, two.event_dim)
