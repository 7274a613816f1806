"""Divergences of distributions of different kinds: what one's mean of the other's logarithm is, less its entropy.

Each is ``-H(p) - E_p[log q(x)]``: what a second distribution needs of the first are a few means, of which each first one
has its own formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from .bernoulli import Bernoulli
from .continuous import Exponential, Laplace
from .continuous_bernoulli import ContinuousBernoulli
from .discrete import Binomial, Poisson
from .gamma import Beta, Gamma
from .gumbel import EULER, Gumbel
from .kl import register_kl
from .normal import Normal
from .powers import Pareto
from .uniform import Uniform

Mean = Callable[..., Tensor]


def _of_x_log_x(low: Tensor, high: Tensor) -> Tensor:
    """Return the mean of the logarithm of what is uniform between two numbers."""
    return (torch.xlogy(high, high) - torch.xlogy(low, low)) / (high - low) - 1


#: the mean of ``log x``
_LOGARITHM: dict[type, Mean] = {
    Beta: lambda p: torch.digamma(p.concentration1) - torch.digamma(p.concentration1 + p.concentration0),
    Exponential: lambda p: -EULER - p.rate.log(),
    Gamma: lambda p: torch.digamma(p.concentration) - p.rate.log(),
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: lambda p: _of_x_log_x(p.low, p.high),
}
#: the mean of ``exp((loc - x) / scale)``
_EXPONENTIAL: dict[type, Mean] = {
    Exponential: lambda p, loc, scale: torch.exp(loc / scale) * (p.rate * scale / (p.rate * scale + 1)),
    Gamma: lambda p, loc, scale: torch.exp(loc / scale) * (1 + 1 / (p.rate * scale)).pow(-p.concentration),
    Normal: lambda p, loc, scale: torch.exp((loc - p.loc) / scale + 0.5 * (p.scale / scale).pow(2)),
    Uniform: lambda p, loc, scale: (
        (torch.exp((loc - p.low) / scale) - torch.exp((loc - p.high) / scale)) * scale / (p.high - p.low)
    ),
}


def _of_exponential(kind: type, p: Any, q: Exponential) -> Tensor:
    return q.rate * p.mean - q.rate.log()


def _of_gamma(kind: type, p: Any, q: Gamma) -> Tensor:
    norm = torch.lgamma(q.concentration) - q.concentration * q.rate.log()
    return norm - (q.concentration - 1) * _LOGARITHM[kind](p) + q.rate * p.mean


def _of_normal(kind: type, p: Any, q: Normal) -> Tensor:
    square = p.variance + (p.mean - q.loc).pow(2)
    return 0.5 * math.log(2 * math.pi) + q.scale.log() + square / (2 * q.scale.pow(2))


def _of_uniform(kind: type, p: Any, q: Uniform) -> Tensor:
    return (q.high - q.low).log() + torch.zeros_like(p.mean)


def _of_gumbel(kind: type, p: Any, q: Gumbel) -> Tensor:
    return q.scale.log() + (p.mean - q.loc) / q.scale + _EXPONENTIAL[kind](p, q.loc, q.scale)


def _of_laplace(kind: type, p: Normal, q: Laplace) -> Tensor:
    away = p.loc - q.loc
    scaled = away / (p.scale * math.sqrt(2))
    distance = math.sqrt(2 / math.pi) * p.scale * torch.exp(-scaled.pow(2)) + away * torch.erf(scaled)
    return (2 * q.scale).log() + distance / q.scale


def _of_beta(kind: type, p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    norm = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
    return norm - (a - 1) * _LOGARITHM[kind](p) - (b - 1) * _of_x_log_x(1 - p.high, 1 - p.low)


def _of_continuous_bernoulli(kind: type, p: Any, q: ContinuousBernoulli) -> Tensor:
    return -p.mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm()


def _of_pareto(kind: type, p: Any, q: Pareto) -> Tensor:
    return (q.alpha + 1) * _LOGARITHM[kind](p) - q.alpha.log() - q.alpha * q.scale.log()


def _of_poisson(kind: type, p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - p.probs * q.rate.log()


#: ``-E_p[log q(x)]``
_CROSS: dict[type, Callable[..., Tensor]] = {
    Beta: _of_beta, ContinuousBernoulli: _of_continuous_bernoulli, Exponential: _of_exponential, Gamma: _of_gamma,
    Gumbel: _of_gumbel, Laplace: _of_laplace, Normal: _of_normal, Pareto: _of_pareto, Poisson: _of_poisson,
    Uniform: _of_uniform,
}  # fmt: skip

#: pairs with a formula, and when the first distribution has values that the second has not, or the mean is infinite. With
#: a continuous Bernoulli distribution touching a uniform one's bounds counts, as in PyTorch.
_FINITE: dict[tuple[type, type], Callable[[Any, Any], Tensor] | None] = {
    (Bernoulli, Poisson): None,
    (Beta, ContinuousBernoulli): None,
    (Beta, Exponential): None,
    (Beta, Gamma): None,
    (Beta, Normal): None,
    (Beta, Uniform): lambda p, q: (q.low > 0) | (q.high < 1),
    (ContinuousBernoulli, Exponential): None,
    (ContinuousBernoulli, Normal): None,
    (ContinuousBernoulli, Uniform): lambda p, q: (q.low >= 0) | (q.high <= 1),
    (Exponential, Gamma): None,
    (Exponential, Gumbel): None,
    (Exponential, Normal): None,
    (Gamma, Exponential): None,
    (Gamma, Gumbel): None,
    (Gamma, Normal): None,
    (Gumbel, Normal): None,
    (Laplace, Normal): None,
    (Normal, Gumbel): None,
    (Normal, Laplace): None,
    (Pareto, Exponential): lambda p, q: p.alpha <= 1,
    (Pareto, Gamma): lambda p, q: p.alpha <= 1,
    (Pareto, Normal): lambda p, q: p.alpha <= 2,
    (Uniform, Beta): lambda p, q: (p.high > 1) | (p.low < 0),
    (Uniform, ContinuousBernoulli): lambda p, q: (p.high >= 1) | (p.low <= 0),
    (Uniform, Exponential): lambda p, q: p.low < 0,
    (Uniform, Gamma): lambda p, q: p.low < 0,
    (Uniform, Gumbel): None,
    (Uniform, Normal): None,
    (Uniform, Pareto): lambda p, q: p.low < q.scale,
}
_UNBOUNDED = (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)
#: first distributions, each with the second ones that lack some of its values
_INFINITE: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: _UNBOUNDED,
    Laplace: _UNBOUNDED,
    Normal: _UNBOUNDED,
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def _formula(first: type, second: type, outside: Callable[[Any, Any], Tensor] | None) -> Callable[[Any, Any], Tensor]:
    def divergence(p: Any, q: Any) -> Tensor:
        found = _CROSS[second](first, p, q) - p.entropy()
        return found if outside is None else torch.where(outside(p, q), math.inf, found)

    return divergence


def _infinite(p: Any, q: Any) -> Tensor:
    return torch.full_like(p.mean, math.inf)


for (_first, _second), _outside in _FINITE.items():
    register_kl(_first, _second)(_formula(_first, _second, _outside))
for _first, _seconds in _INFINITE.items():
    for _second in _seconds:
        register_kl(_first, _second)(_infinite)
