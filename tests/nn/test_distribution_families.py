"""Distributions made of others and of gamma numbers: densities, moments, divergences, beside PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import webgpu_torch as ours

Make = Callable[[Any, Any], Any]

#: name -> a distribution of a library (t) and its distributions (d), and values to ask about
CASES: dict[str, tuple[Make, Any]] = {
    "laplace": (lambda t, d: d.Laplace(t.tensor([0.5, -1.0]), t.tensor([1.0, 2.0])), [0.2, 3.0]),
    "cauchy": (lambda t, d: d.Cauchy(t.tensor([0.5, -1.0]), 2.0), [0.2, 3.0]),
    "exponential": (lambda t, d: d.Exponential(t.tensor([0.5, 2.0])), [0.2, 3.0]),
    "gamma": (lambda t, d: d.Gamma(t.tensor([0.5, 3.0]), t.tensor([1.0, 2.0])), [0.2, 3.0]),
    "chi2": (lambda t, d: d.Chi2(t.tensor([1.0, 5.0])), [0.2, 3.0]),
    "beta": (lambda t, d: d.Beta(t.tensor([0.5, 3.0]), t.tensor([1.5, 2.0])), [0.2, 0.7]),
    "dirichlet": (lambda t, d: d.Dirichlet(t.tensor([[0.5, 1.0, 2.0], [3.0, 1.0, 1.0]])), [[0.2, 0.3, 0.5]] * 2),
    "student-t": (lambda t, d: d.StudentT(t.tensor([3.0, 0.5, 1.5]), 0.5, t.tensor([1.0, 2.0, 1.0])), [0.2, 3.0, -1.0]),
    "geometric": (lambda t, d: d.Geometric(t.tensor([0.3, 0.9])), [0.0, 3.0]),
    "poisson": (lambda t, d: d.Poisson(t.tensor([0.3, 4.0])), [0.0, 3.0]),
    "negative binomial": (lambda t, d: d.NegativeBinomial(t.tensor([3.0, 1.5]), logits=t.tensor([0.3, -1.0])), [0.0, 4.0]),
    "binomial": (lambda t, d: d.Binomial(t.tensor([3.0, 5.0]), t.tensor([0.3, 0.8])), [0.0, 4.0]),
    "one hot": (lambda t, d: d.OneHotCategorical(logits=t.tensor([[0.1, 2.0, -1.0]])), [[0.0, 1.0, 0.0]]),
    "log normal": (lambda t, d: d.LogNormal(t.tensor([0.5, -1.0]), 0.7), [0.2, 3.0]),
    "affine": (
        lambda t, d: d.TransformedDistribution(
            d.Normal(t.tensor([0.0, 1.0]), 2.0), [d.AffineTransform(t.tensor([1.0, 2.0]), t.tensor([3.0, -0.5]))]
        ),
        [0.2, 3.0],
    ),
    "affine of vectors": (
        lambda t, d: d.TransformedDistribution(
            d.Independent(d.StudentT(t.tensor([[3.0, 4.0]])), 1), [d.AffineTransform(0.5, 2.0, event_dim=1)]
        ),
        [[0.2, 3.0]],
    ),
    "tanh of exp": (
        lambda t, d: d.TransformedDistribution(d.Normal(t.zeros(2), 1.0), [d.AffineTransform(0.1, 0.5), d.TanhTransform()]),
        [0.2, -0.7],
    ),
    "relaxed bernoulli": (lambda t, d: d.RelaxedBernoulli(t.tensor(0.7), logits=t.tensor([0.3, -1.0])), [0.2, 0.9]),
    "relaxed classes": (
        lambda t, d: d.RelaxedOneHotCategorical(t.tensor(0.7), logits=t.tensor([[0.3, -1.0, 2.0]])), [[0.2, 0.3, 0.5]]
    ),
    "mixture": (
        lambda t, d: d.MixtureSameFamily(
            d.Categorical(t.tensor([0.3, 0.7])), d.Normal(t.tensor([0.0, 2.0]), t.tensor([1.0, 0.5]))
        ),
        [0.2, 3.0],
    ),
}  # fmt: skip
ASKED = ("mean", "mode", "variance", "entropy")


def _numbers(value: Any) -> np.ndarray:
    return value.detach().cpu().numpy()


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    """Densities, distribution functions, quantiles and moments: those that PyTorch has, all of them."""
    make, given = CASES[name]
    found, wanted = make(ours, ours.distributions), make(torch, torch.distributions)
    assert (found.batch_shape, found.event_shape) == (tuple(wanted.batch_shape), tuple(wanted.event_shape))
    value, other = ours.tensor(given), torch.tensor(given)
    np.testing.assert_allclose(_numbers(found.log_prob(value)), _numbers(wanted.log_prob(other)), 2e-5, 2e-5)
    for each in (*ASKED, "cdf", "icdf"):
        try:
            expected = getattr(wanted, each)
            if callable(expected):
                share = [] if each == "entropy" else [torch.full_like(other, 0.3) if each == "icdf" else other]
                expected = expected(*share)
        except NotImplementedError:
            continue
        mine = getattr(found, each)
        if callable(mine):
            mine = mine(*([] if each == "entropy" else [ours.full_like(value, 0.3) if each == "icdf" else value]))
        np.testing.assert_allclose(_numbers(mine), _numbers(expected), 1e-4, 1e-5, err_msg=each)


@pytest.mark.parametrize("name", CASES)
def test_samples(name: str) -> None:
    """Samples on the CPU."""
    _check_samples(name, "cpu")


@pytest.mark.parametrize("name", ["gamma", "relaxed classes"])
def test_samples_on_devices(name: str, device: str) -> None:
    """Samples of one that draws until all are accepted, and of one that draws once, on every device."""
    _check_samples(name, device)


def _check_samples(name: str, device: str) -> None:
    """Samples have their shape, lie in the support, and their mean is the distribution's."""
    ours.manual_seed(0)
    with ours.device(device):
        found = CASES[name][0](ours, ours.distributions)
        sample = found.sample((600,))
    assert sample.shape == (600, *found.batch_shape, *found.event_shape) and not sample.requires_grad
    assert sample.device.type == device
    if not ours.distributions.constraints.is_dependent(found.support):
        assert found.support.check(sample).all()
    try:
        mean, deviation = _numbers(found.mean), _numbers(found.stddev)
    except NotImplementedError:
        return
    finite = np.isfinite(mean) & np.isfinite(deviation)
    # Five standard deviations of a mean of 600.
    bound = (5 * deviation / np.sqrt(600) + 1e-6)[finite]
    assert (np.abs(_numbers(sample).mean(0) - mean)[finite] <= bound).all()


PAIRS: dict[str, Make] = {
    "laplace": lambda t, d: (d.Laplace(0.0, t.tensor([1.0, 2.0])), d.Laplace(0.5, 3.0)),
    "gamma": lambda t, d: (d.Gamma(t.tensor([1.0, 2.0]), 2.0), d.Gamma(0.5, 3.0)),
    "beta": lambda t, d: (d.Beta(t.tensor([1.0, 2.0]), 2.0), d.Beta(0.5, 3.0)),
    "dirichlet": lambda t, d: (d.Dirichlet(t.tensor([1.0, 2.0])), d.Dirichlet(t.tensor([3.0, 0.5]))),
    "exponential": lambda t, d: (d.Exponential(t.tensor([1.0, 2.0])), d.Exponential(0.5)),
    "poisson": lambda t, d: (d.Poisson(t.tensor([1.0, 2.0])), d.Poisson(0.5)),
    "geometric": lambda t, d: (d.Geometric(t.tensor([0.1, 0.7])), d.Geometric(0.5)),
    "one hot": lambda t, d: (d.OneHotCategorical(t.tensor([0.1, 0.9])), d.OneHotCategorical(t.tensor([0.5, 0.5]))),
    "log normal": lambda t, d: (d.LogNormal(0.0, t.tensor([1.0, 2.0])), d.LogNormal(1.0, 1.5)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_divergences(name: str) -> None:
    """The divergence of two of a kind."""
    found = ours.distributions.kl_divergence(*PAIRS[name](ours, ours.distributions))
    wanted = torch.distributions.kl_divergence(*PAIRS[name](torch, torch.distributions))
    np.testing.assert_allclose(_numbers(found), _numbers(wanted), 1e-5, 1e-6)


def test_losses_of_time_series() -> None:
    """The negative log likelihoods that transformers trains time series on, with gradients of the parameters."""
    for library, results in ((ours, []), (torch, [])):
        d = library.distributions
        found = []
        for make in (
            lambda a, b, c: d.StudentT(2.0 + a.exp(), b, c.exp()),
            lambda a, b, c: d.NegativeBinomial(a.exp(), logits=b + c),
            lambda a, b, c: d.TransformedDistribution(d.Normal(a, b.exp()), [d.AffineTransform(c, 1.5)]),
        ):
            given = [library.tensor([0.3, -0.7, 1.1][i:] + [0.2] * i, requires_grad=True) for i in range(3)]
            (-make(*given).log_prob(library.tensor([0.0, 2.0, 5.0]))).mean().backward()
            found.append([each.grad.tolist() for each in given])
        results.append(found)
        if library is ours:
            mine = found
    np.testing.assert_allclose(np.array(mine), np.array(found), 1e-4, 1e-6)
