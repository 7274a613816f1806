"""Kullback-Leibler divergences, as ``torch.distributions.kl``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from .bernoulli import Bernoulli
from .categorical import Categorical
from .continuous import Exponential, Laplace
from .discrete import Geometric, OneHotCategorical, Poisson
from .distribution import Distribution
from .gamma import Beta, Dirichlet, Gamma
from .independent import Independent
from .multivariate_normal import MultivariateNormal
from .normal import Normal
from .transformed import LogNormal
from .transforms import sum_rightmost
from .uniform import Uniform

_FORMULAS: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Register a function of two distributions as their divergence.

    Raises:
        TypeError: no classes of distributions.
    """
    if not (isinstance(type_p, type) and issubclass(type_p, Distribution)):
        raise TypeError(f"Expected type_p to be a Distribution subclass but got {type_p}")
    if not (isinstance(type_q, type) and issubclass(type_q, Distribution)):
        raise TypeError(f"Expected type_q to be a Distribution subclass but got {type_q}")

    def decorate(function: Any) -> Any:
        _FORMULAS[type_p, type_q] = function
        return function

    return decorate


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return ``E_p[log p(x) - log q(x)]``, by the formula of the nearest pair of classes.

    Raises:
        NotImplementedError: none is registered.
    """
    pairs = ((one, other) for one in type(p).__mro__ for other in type(q).__mro__)
    formula = next((_FORMULAS[pair] for pair in pairs if pair in _FORMULAS), None)
    if formula is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return formula(p, q)


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
def _log_normal(p: LogNormal, q: LogNormal) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    size = p.event_shape[0]
    batch = torch.broadcast_shapes(p.batch_shape, q.batch_shape)
    factor = q.scale_tril.expand((*batch, size, size))
    mixed = torch.linalg.solve_triangular(factor, p.scale_tril.expand((*batch, size, size)), upper=False)
    away = (q.loc - p.loc).expand((*batch, size)).unsqueeze(-1)
    distance = torch.linalg.solve_triangular(factor, away, upper=False)
    spread = mixed.pow(2).sum((-1, -2)) + distance.pow(2).sum((-1, -2)) - size
    logs = [each.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1) for each in (q, p)]
    return logs[0] - logs[1] + 0.5 * spread


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    def part(one: Tensor, other: Tensor) -> Tensor:
        ratio = torch.where(one == 0, 0.0, one * (one / other).log())
        return torch.where((other == 0) & (one != 0), float("inf"), ratio)

    return part(p.probs, q.probs) + part(1 - p.probs, 1 - q.probs)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = torch.where(q.probs == 0, float("inf"), terms)
    return torch.where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    return (
        q.concentration * (p.rate / q.rate).log()
        + torch.lgamma(q.concentration)
        - torch.lgamma(p.concentration)
        + (p.concentration - q.concentration) * torch.digamma(p.concentration)
        + (q.rate - p.rate) * (p.concentration / p.rate)
    )


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    away = torch.digamma(a) - torch.digamma(a.sum(-1, True))
    return (
        torch.lgamma(a.sum(-1))
        - torch.lgamma(b.sum(-1))
        - (torch.lgamma(a) - torch.lgamma(b)).sum(-1)
        + ((a - b) * away).sum(-1)
    )


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet(p._dirichlet(), q._dirichlet())


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * torch.exp(-away / p.scale) - 1


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    outside = (q.low > p.low) | (q.high < p.high)
    return torch.where(outside, float("inf"), ((q.high - q.low) / (p.high - p.low)).log())


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("Independent distributions of different event dimensions")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
