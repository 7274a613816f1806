"""Divergences of all pairs that PyTorch registers, and exponential families, beside PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import webgpu_torch as ours
from distribution_oracle import array

Make = Callable[[Any, Any], Any]
FACTOR = [[1.5, 0.0], [0.4, 0.8]]

#: name of a class -> two of its distributions
FAMILIES: dict[str, tuple[Make, Make]] = {
    "Bernoulli": (lambda t, d: d.Bernoulli(t.tensor([0.2, 0.7])), lambda t, d: d.Bernoulli(t.tensor([0.4, 0.9]))),
    "Beta": (lambda t, d: d.Beta(t.tensor([0.5, 3.0]), 1.5), lambda t, d: d.Beta(t.tensor([2.0, 0.7]), 1.2)),
    "Binomial": (lambda t, d: d.Binomial(t.tensor([5.0, 3.0]), 0.4), lambda t, d: d.Binomial(t.tensor([5.0, 2.0]), 0.7)),
    "Categorical": (lambda t, d: d.Categorical(t.tensor([0.2, 0.8])), lambda t, d: d.Categorical(t.tensor([0.6, 0.4]))),
    "Cauchy": (lambda t, d: d.Cauchy(t.tensor([0.5, 3.0]), 1.5), lambda t, d: d.Cauchy(0.7, 1.2)),
    "ContinuousBernoulli": (
        lambda t, d: d.ContinuousBernoulli(t.tensor([0.2, 0.7])), lambda t, d: d.ContinuousBernoulli(t.tensor([0.4, 0.9]))
    ),
    "Dirichlet": (lambda t, d: d.Dirichlet(t.tensor([0.5, 3.0])), lambda t, d: d.Dirichlet(t.tensor([2.0, 0.7]))),
    "Exponential": (lambda t, d: d.Exponential(t.tensor([0.5, 3.0])), lambda t, d: d.Exponential(t.tensor([2.0, 0.7]))),
    "Gamma": (lambda t, d: d.Gamma(t.tensor([0.5, 3.0]), 1.5), lambda t, d: d.Gamma(t.tensor([2.0, 0.7]), 1.2)),
    "Geometric": (lambda t, d: d.Geometric(t.tensor([0.2, 0.7])), lambda t, d: d.Geometric(t.tensor([0.4, 0.9]))),
    "Gumbel": (lambda t, d: d.Gumbel(t.tensor([0.5, 3.0]), 1.5), lambda t, d: d.Gumbel(t.tensor([2.0, 0.7]), 1.2)),
    "HalfNormal": (lambda t, d: d.HalfNormal(t.tensor([0.5, 3.0])), lambda t, d: d.HalfNormal(t.tensor([2.0, 0.7]))),
    "Independent": (
        lambda t, d: d.Independent(d.Gamma(t.tensor([0.5, 3.0]), 1.5), 1),
        lambda t, d: d.Independent(d.Exponential(t.tensor([2.0, 0.7])), 1),
    ),
    "Laplace": (lambda t, d: d.Laplace(t.tensor([0.5, 3.0]), 1.5), lambda t, d: d.Laplace(t.tensor([2.0, 0.7]), 1.2)),
    "LowRankMultivariateNormal": (
        lambda t, d: d.LowRankMultivariateNormal(t.tensor([0.5, 3.0]), t.tensor([[1.0], [0.5]]), t.tensor([0.5, 2.0])),
        lambda t, d: d.LowRankMultivariateNormal(t.zeros(3, 2), t.tensor([[0.3], [-0.5]]), t.tensor([1.5, 1.0])),
    ),
    "MultivariateNormal": (
        lambda t, d: d.MultivariateNormal(t.tensor([[0.5, 3.0]]), scale_tril=t.tensor(FACTOR)),
        lambda t, d: d.MultivariateNormal(t.tensor([0.5, 3.0]), t.eye(2) * 2),
    ),
    "Normal": (lambda t, d: d.Normal(t.tensor([0.5, 3.0]), 1.5), lambda t, d: d.Normal(t.tensor([2.0, 0.7]), 1.2)),
    "OneHotCategorical": (
        lambda t, d: d.OneHotCategorical(t.tensor([0.2, 0.8])), lambda t, d: d.OneHotCategorical(t.tensor([0.6, 0.4]))
    ),
    "Pareto": (lambda t, d: d.Pareto(t.tensor([0.5, 3.0]), 2.5), lambda t, d: d.Pareto(t.tensor([0.2, 4.0]), 0.8)),
    "Poisson": (lambda t, d: d.Poisson(t.tensor([0.5, 3.0])), lambda t, d: d.Poisson(t.tensor([2.0, 0.7]))),
    "TransformedDistribution": (
        lambda t, d: d.TransformedDistribution(d.Normal(t.tensor([0.5, 3.0]), 1.5), [d.AffineTransform(0.5, 2.0)]),
        lambda t, d: d.TransformedDistribution(d.Normal(t.tensor([2.0, 0.7]), 1.2), [d.AffineTransform(0.5, 2.0)]),
    ),
    "Uniform": (
        lambda t, d: d.Uniform(t.tensor([0.25, -0.5]), t.tensor([0.75, 2.0])),
        lambda t, d: d.Uniform(t.tensor([-1.0, 0.25]), t.tensor([2.0, 0.5])),
    ),
}  # fmt: skip
PAIRS = sorted((one.__name__, other.__name__) for one, other in torch.distributions.kl._KL_REGISTRY)


@pytest.mark.parametrize(("one", "other"), [pair for pair in PAIRS if pair[0] in FAMILIES and pair[1] in FAMILIES])
def test_divergences(one: str, other: str) -> None:
    """The divergence of every pair that PyTorch has, with gradients of the first's parameters."""
    results = []
    for library in (ours, torch):
        d = library.distributions
        results.append(d.kl_divergence(FAMILIES[one][0](library, d), FAMILIES[other][1](library, d)))
    assert results[0].shape == tuple(results[1].shape)
    np.testing.assert_allclose(array(results[0]), array(results[1]), 1e-4, 2e-5)


EDGES: dict[str, Make] = {
    "beta in uniform": lambda t, d: (d.Beta(t.tensor([2.0]), 3.0), d.Uniform(t.tensor([0.0]), 1.0)),
    "continuous bernoulli in uniform": lambda t, d: (d.ContinuousBernoulli(t.tensor([0.3])), d.Uniform(t.tensor([0.0]), 1.0)),
    "uniform in beta": lambda t, d: (d.Uniform(t.tensor([0.0]), 1.0), d.Beta(t.tensor([2.0]), 3.0)),
    "uniform in gamma": lambda t, d: (d.Uniform(t.tensor([0.0, 1.0]), 2.0), d.Gamma(t.tensor([2.0, 1.5]), 3.0)),
    "uniform in pareto": lambda t, d: (d.Uniform(t.tensor([1.0, 0.1]), 2.0), d.Pareto(t.tensor([0.5, 0.5]), 3.0)),
    "pareto of no variance": lambda t, d: (d.Pareto(t.tensor([0.5, 0.5]), t.tensor([2.0, 1.0])), d.Normal(t.zeros(2), 1.0)),
    "pareto of no mean": lambda t, d: (d.Pareto(t.tensor([0.5, 0.5]), t.tensor([2.0, 1.0])), d.Exponential(t.ones(2))),
    "chi-squared": lambda t, d: (d.Chi2(t.tensor([3.0])), d.Gamma(t.tensor([1.0]), 2.0)),
    "log normal": lambda t, d: (d.LogNormal(t.tensor([3.0]), 1.0), d.LogNormal(t.tensor([1.0]), 2.0)),
    "wishart": lambda t, d: (d.Wishart(t.tensor(4.0), t.eye(2)), d.Wishart(t.tensor(5.0), scale_tril=t.tensor(FACTOR))),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_edges(name: str) -> None:
    """Supports that touch, means that are infinite, subclasses, and a pair by the normaliser."""
    found, wanted = (each.distributions.kl_divergence(*EDGES[name](each, each.distributions)) for each in (ours, torch))
    np.testing.assert_allclose(array(found), array(wanted), 1e-4, 2e-5)


def test_gradients(device: str) -> None:
    """Those of a divergence of two kinds, by the parameters of both."""
    grads = []
    for library, place in ((ours, device), (torch, "cpu")):
        given = [
            library.tensor(each, requires_grad=True, device=place) for each in ([0.5, 3.0], [1.5, 0.7], [2.0, 0.3])
        ]
        d = library.distributions
        d.kl_divergence(d.Gamma(given[0], given[1]), d.Gumbel(0.5, given[2])).sum().backward()
        grads.append([array(each.grad) for each in given])
    np.testing.assert_allclose(grads[0], grads[1], 1e-4)


def test_all_pairs_are_registered() -> None:
    """Every pair of classes that PyTorch registers is registered."""
    mine = {(one.__name__, other.__name__) for one, other in ours.distributions.kl._FORMULAS}
    assert set(PAIRS) <= mine
    assert {name for pair in PAIRS for name in pair} - set(FAMILIES) == {"ExponentialFamily"}


NORMALIZED = ["Bernoulli", "Exponential", "Gamma", "Normal", "ContinuousBernoulli"]


@pytest.mark.parametrize("name", NORMALIZED)
def test_exponential_families(name: str) -> None:
    """Entropies and divergences by the normaliser are those of the formulas."""
    family = ours.distributions.ExponentialFamily
    p, q = (each(ours, ours.distributions) for each in FAMILIES[name])
    assert isinstance(p, family)
    np.testing.assert_allclose(array(family.entropy(p)), array(p.entropy()), 1e-4, 1e-5)
    bregman = ours.distributions.kl._FORMULAS[family, family](p, q)
    np.testing.assert_allclose(array(bregman), array(ours.distributions.kl_divergence(p, q)), 1e-4, 1e-5)


def test_registering() -> None:
    """A class of one's own finds the nearest pair; where two are as near, there is a warning."""
    d = ours.distributions

    class Mine(d.Normal):
        pass

    class Other(d.Normal):
        pass

    assert d.kl_divergence(Mine(0.0, 1.0), Other(0.0, 1.0)).item() == 0.0
    try:
        d.register_kl(Mine, d.Normal)(lambda p, q: 1)
        assert d.kl_divergence(Mine(0.0, 1.0), Other(0.0, 1.0)) == 1
        d.register_kl(d.Normal, Other)(lambda p, q: 2)
        with pytest.warns(RuntimeWarning, match="Ambiguous kl_divergence.Mine, Other."):
            assert d.kl_divergence(Mine(0.0, 1.0), Other(0.0, 1.0)) == 1
    finally:
        for pair in ((Mine, d.Normal), (d.Normal, Other)):
            d.kl._FORMULAS.pop(pair, None)
    with pytest.raises(NotImplementedError, match="The cross KL-divergence between different exponential families"):
        d.kl_divergence(d.Gamma(1.0, 1.0), d.Bernoulli(0.5))
