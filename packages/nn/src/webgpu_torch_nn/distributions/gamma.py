"""The gamma distribution and those made of it: beta, Dirichlet, chi-squared, Student's t."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Size, Tensor
from webgpu_torch_core.dispatch.overrides import public
from webgpu_torch_core.operations.random.gamma import gamma_shares, standard_gamma

from . import constraints
from .exp_family import ExponentialFamily
from .parametric import Parametric
from .sensitivities import DifferentiableDirichlet, DifferentiableGamma
from .utils import broadcast_all


def _standard_gamma(concentration: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Return gamma variates of rate 1 with gradients of the concentration."""
    drawn = standard_gamma(concentration, generator)
    if not (torch.is_grad_enabled() and concentration.requires_grad):
        return drawn
    return DifferentiableGamma.apply(concentration, drawn)


def _sample_dirichlet(concentration: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Return Dirichlet's probabilities along the last dimension with gradients of the concentrations."""
    drawn = gamma_shares(concentration, generator)
    if not (torch.is_grad_enabled() and concentration.requires_grad):
        return drawn
    return DifferentiableDirichlet.apply(concentration, drawn)


# Calls of theirs are seen by transforms, as those of other functions that draw.
differentiable_gamma = public(_standard_gamma, "torch._standard_gamma")
differentiable_shares = public(_sample_dirichlet, "torch._sample_dirichlet")


class Gamma(Parametric, ExponentialFamily):
    """The distribution ``rate^a x^(a - 1) exp(-rate x) / Gamma(a)`` with ``a`` the concentration."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure: Any = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """``concentration / rate``."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """``(concentration - 1) / rate``, at least 0."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """``concentration / rate^2``."""
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return values with gradients of the concentration and the rate."""
        drawn = differentiable_gamma(self.concentration.expand(self._extended_shape(sample_shape))) / self.rate
        # The density may be 0 at 0, and its logarithm infinite. Gradients are those of what was drawn.
        drawn.detach().clamp_(min=torch.finfo(drawn.dtype).tiny)
        return drawn

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        value = torch.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        self._validate_sample(value)
        return (
            torch.xlogy(self.concentration, self.rate)
            + torch.xlogy(self.concentration - 1, value)
            - self.rate * value
            - torch.lgamma(self.concentration)
        )

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most a value."""
        return torch.special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        a = self.concentration
        return a - self.rate.log() + torch.lgamma(a) + (1 - a) * torch.digamma(a)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        first, second = natural_params
        return torch.lgamma(first + 1) - (first + 1) * torch.log(-second)


class Chi2(Gamma):
    """The sum of the squares of ``df`` standard normal numbers."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (df,) = broadcast_all(df)
        super().__init__(0.5 * df, torch.full_like(df, 0.5), validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution with another batch shape."""
        new = super().expand(batch_shape, _instance)
        new.concentration, new.rate = self.concentration.expand(batch_shape), self.rate.expand(batch_shape)
        return new

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2


class Dirichlet(Parametric, ExponentialFamily):
    """The distribution ``prod x_i^(a_i - 1) / B(a)`` of probabilities that sum to 1."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        """The concentrations' shares."""
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        """The likeliest probabilities; if no concentration reaches 1, the first corner, one of several."""
        above = (self.concentration - 1).clamp(min=0.0)
        corner = torch.zeros_like(above)
        corner[..., 0] = 1
        nowhere = (self.concentration < 1).all(-1, keepdim=True)
        return torch.where(nowhere, corner, above / above.sum(-1, True))

    @property
    def variance(self) -> Tensor:
        """The variances."""
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return values with gradients of the concentrations."""
        return differentiable_shares(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._validate_sample(value)
        a = self.concentration
        return torch.xlogy(a - 1, value).sum(-1) + torch.lgamma(a.sum(-1)) - torch.lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        a, count = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        return (
            torch.lgamma(a).sum(-1)
            - torch.lgamma(total)
            - (count - total) * torch.digamma(total)
            - ((a - 1) * torch.digamma(a)).sum(-1)
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (a,) = natural_params
        return torch.lgamma(a).sum(-1) - torch.lgamma(a.sum(-1))


class Beta(Parametric, ExponentialFamily):
    """The distribution ``x^(a - 1) (1 - x)^(b - 1) / B(a, b)`` on [0, 1], a being ``concentration1`` and b ``concentration0``."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    def _dirichlet(self) -> Dirichlet:
        return Dirichlet(torch.stack((self.concentration1, self.concentration0), -1), validate_args=False)

    @property
    def mean(self) -> Tensor:
        """``a / (a + b)``."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        """The likeliest value; if both concentrations are below 1, one end of two."""
        return self._dirichlet().mode.select(-1, 0)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return values with gradients of the concentrations."""
        return self._dirichlet().rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._validate_sample(value)
        return self._dirichlet().log_prob(torch.stack((value, 1.0 - value), -1))

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self._dirichlet().entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        first, second = natural_params
        return torch.lgamma(first) + torch.lgamma(second) - torch.lgamma(first + second)


class StudentT(Parametric):
    """Student's t distribution of ``df`` degrees of freedom, moved and scaled."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The location; NaN up to one degree of freedom."""
        return torch.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        """The location."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance: infinite up to two degrees of freedom, NaN up to one."""
        finite = self.scale.pow(2) * self.df / (self.df - 2)
        return torch.where(self.df > 2, finite, torch.where(self.df > 1, math.inf, math.nan).to(finite.dtype))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return values with gradients of all parameters."""
        shape: Size = self._extended_shape(sample_shape)
        normal = torch.randn(shape, dtype=self.df.dtype, device=self.df.device)
        squares = 2 * differentiable_gamma((0.5 * self.df).expand(shape))
        return self.loc + self.scale * normal * torch.rsqrt(squares / self.df)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._validate_sample(value)
        scaled = (value - self.loc) / self.scale
        norm = (
            self.scale.log()
            + 0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + torch.lgamma(0.5 * self.df)
            - torch.lgamma(0.5 * (self.df + 1))
        )
        return -0.5 * (self.df + 1) * torch.log1p(scaled**2 / self.df) - norm

    def entropy(self) -> Tensor:
        """Return the entropy."""
        half = 0.5 * self.df
        beta = torch.lgamma(half) + math.lgamma(0.5) - torch.lgamma(half + 0.5)
        return (
            self.scale.log()
            + (half + 0.5) * (torch.digamma(half + 0.5) - torch.digamma(half))
            + (0.5 * self.df.log() + beta)
        )
