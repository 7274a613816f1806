"""Kullback-Leibler divergences, as ``torch.distributions.kl``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.notices import warn

from .bernoulli import Bernoulli
from .categorical import Categorical
from .continuous import Cauchy, Exponential, Laplace
from .continuous_bernoulli import ContinuousBernoulli
from .discrete import Binomial, Geometric, OneHotCategorical, Poisson
from .distribution import Distribution
from .exp_family import ExponentialFamily, _bregman
from .folded import HalfNormal
from .gamma import Beta, Dirichlet, Gamma
from .gumbel import EULER, Gumbel
from .independent import Independent
from .normal import Normal
from .powers import Pareto
from .transformed import TransformedDistribution
from .transforms import sum_rightmost
from .uniform import Uniform

_FORMULAS: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Register a function of two distributions as their divergence.

    Raises:
        TypeError: no classes; any class will do, as in PyTorch.
    """
    for each in (type_p, type_q):
        if not isinstance(each, type):
            raise TypeError(f"Expected a class of distributions but got {each}")

    def decorate(function: Any) -> Any:
        _FORMULAS[type_p, type_q] = function
        return function

    return decorate


def _nearest(p: type, q: type) -> Callable[[Any, Any], Tensor] | None:
    """Return the formula of the nearest classes, the first's class deciding, with a warning if the second's would differ."""
    ones, others = p.__mro__, q.__mro__
    by_first = ((one, other) for one in ones for other in others)
    by_second = ((one, other) for other in others for one in ones)
    first = next((pair for pair in by_first if pair in _FORMULAS), None)
    second = next((pair for pair in by_second if pair in _FORMULAS), None)
    if first is None or second is None:
        return None
    if _FORMULAS[first] is not _FORMULAS[second]:
        warn(
            f"Ambiguous kl_divergence({p.__name__}, {q.__name__}). "
            f"Please register_kl({first[0].__name__}, {second[1].__name__})",
            RuntimeWarning,
        )
    return _FORMULAS[first]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return ``E_p[log p(x) - log q(x)]``, by the formula of the nearest pair of classes.

    Raises:
        NotImplementedError: none is registered.
    """
    formula = _nearest(type(p), type(q))
    if formula is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return formula(p, q)


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


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
    return _categorical(p._chances, q._chances)


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


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    one = p.probs * (p.logits - q.logits) + torch.log1p(-p.probs) - torch.log1p(-q.probs)
    return torch.where(p.total_count > q.total_count, math.inf, p.total_count * one)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    norms = [each._cont_bern_log_norm() + torch.log1p(-each.probs) for each in (p, q)]
    return p.mean * (p.logits - q.logits) + norms[0] - norms[1]


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, away = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return away - ratio.log() + EULER * ratio + torch.exp(torch.lgamma(1 + ratio) - away) - (1 + EULER)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    found = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return torch.where(p.scale < q.scale, math.inf, found)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    # F. Chyzak, F. Nielsen, "A closed-form formula for the Kullback-Leibler divergence between Cauchy distributions", 2019.
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_families(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman divergences"
        )
    with torch.enable_grad():
        parameters, normalizer, gradients = _bregman(p)
    others = q._natural_params
    result: Any = q._log_normalizer(*others) - normalizer
    events = len(q.event_shape)
    for mine, other, gradient in zip(parameters, others, gradients, strict=True):
        term = (other - mine) * gradient
        result = result - sum_rightmost(term, events if term.dim() >= events + len(q.batch_shape) else 0)
    return result


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("Independent distributions of different event dimensions")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
