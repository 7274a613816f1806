"""Distributions of powers and exponentials of simple random numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from . import constraints
from .continuous import Exponential, uniform
from .gamma import Gamma
from .gumbel import EULER
from .normal import Normal
from .parametric import Parametric, property_of
from .transformed import TransformedDistribution
from .transforms import AffineTransform, ExpTransform, PowerTransform, StickBreakingTransform
from .uniform import Uniform
from .utils import broadcast_all


class Pareto(TransformedDistribution):
    """Numbers above ``scale``, above x with probability ``(scale / x)^alpha``."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """Numbers from the scale on."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        """``alpha scale / (alpha - 1)``, infinite up to 1."""
        alpha = self.alpha.clamp(min=1)
        return alpha * self.scale / (alpha - 1)

    @property
    def mode(self) -> Tensor:
        """The scale."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance, infinite up to an alpha of 2."""
        alpha = self.alpha.clamp(min=2)
        return self.scale.pow(2) * alpha / ((alpha - 1).pow(2) * (alpha - 2))

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()


class Weibull(TransformedDistribution):
    """Positive numbers, above x with probability ``exp(-(x / scale)^concentration)``."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support: Any = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(torch.ones_like(self.scale), validate_args=validate_args)
        transforms = [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]
        super().__init__(base, transforms, validate_args)

    @property
    def concentration_reciprocal(self) -> Tensor:
        """``1 / concentration``."""
        return self.concentration.reciprocal()

    def _moment(self, order: int) -> Tensor:
        return torch.lgamma(1 + order * self.concentration_reciprocal).exp()

    @property
    def mean(self) -> Tensor:
        """``scale gamma(1 + 1 / concentration)``."""
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration_reciprocal

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.scale.pow(2) * (self._moment(2) - self._moment(1).pow(2))

    def entropy(self) -> Tensor:
        """Return the entropy."""
        inverse = self.concentration_reciprocal
        return EULER * (1 - inverse) + torch.log(self.scale * inverse) + 1


class Kumaraswamy(TransformedDistribution):
    """Numbers of [0, 1], below x with probability ``1 - (1 - x^a)^b``; a is ``concentration1``, b ``concentration0``."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support: Any = constraints.unit_interval
    has_rsample: Any = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = a, b = broadcast_all(concentration1, concentration0)
        base = Uniform(torch.zeros_like(b), torch.ones_like(b), validate_args=validate_args)
        transforms = [PowerTransform(b.reciprocal()), AffineTransform(1.0, -1.0), PowerTransform(a.reciprocal())]
        super().__init__(base, transforms, validate_args)

    def _moment(self, order: int) -> Tensor:
        """Return ``b B(1 + order / a, b)``."""
        first, b = 1 + order / self.concentration1, self.concentration0
        return b * torch.exp(torch.lgamma(first) + torch.lgamma(b) - torch.lgamma(first + b))

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """``((a - 1) / (a b - 1))^(1 / a)`` as PyTorch computes it: NaN where a concentration is below 1."""
        a, b = self.concentration1, self.concentration0
        logarithm = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return torch.where((a < 1) | (b < 1), math.nan, logarithm).exp()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        a, b = self.concentration1, self.concentration0
        harmonic = torch.digamma(b + 1) + EULER
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


class InverseGamma(TransformedDistribution):
    """One over a gamma number."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support: Any = constraints.positive
    has_rsample: Any = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-torch.ones_like(base.rate[(0,) * base.rate.dim()])), validate_args)

    concentration = property_of("base_dist.concentration", "The base's concentration.")
    rate = property_of("base_dist.rate", "The base's rate.")

    @property
    def mean(self) -> Tensor:
        """``rate / (concentration - 1)``, infinite up to a concentration of 1."""
        a = self.concentration
        return torch.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        """``rate / (concentration + 1)``."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """The variance, infinite up to a concentration of 2."""
        a = self.concentration
        return torch.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        a = self.concentration
        return a + self.rate.log() + torch.lgamma(a) - (1 + a) * torch.digamma(a)


class LogisticNormal(TransformedDistribution):
    """Shares that :class:`StickBreakingTransform` makes of independent normal numbers."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.simplex
    has_rsample: Any = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base if base.batch_shape else base.expand([1]), StickBreakingTransform(), validate_args)

    loc = property_of("base_dist.base_dist.loc", "The normal numbers' means.")
    scale = property_of("base_dist.base_dist.scale", "The normal numbers' standard deviations.")


class GeneralizedPareto(Parametric):
    """Excesses over ``loc``: above x with probability ``(1 + k (x - loc) / scale)^(-1 / k)``, k the concentration.

    Where the concentration is 0, excesses are exponential.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """Numbers from the location on; up to ``loc - scale / concentration`` if the concentration is negative."""
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, torch.where(self.concentration < 0, end, math.inf))

    def _shape(self) -> tuple[Tensor, Tensor]:
        """Return where the concentration is as good as 0, and one to divide by."""
        nothing = torch.isclose(self.concentration, torch.zeros_like(self.concentration))
        return nothing, torch.where(nothing, 1.0, self.concentration)

    def _excess(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return (value - self.loc) / self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        excess = self._excess(value)
        nothing, divisor = self._shape()
        factor = 1 / divisor + torch.ones_like(excess)
        powered = torch.where(factor == 0, factor, factor * torch.log1p(divisor * excess))
        return -self.scale.log() - torch.where(nothing, excess, powered)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of more than a value."""
        excess = self._excess(value)
        nothing, divisor = self._shape()
        return torch.where(nothing, -excess, -torch.log1p(divisor * excess) / divisor)

    def log_cdf(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of at most a value."""
        return torch.log1p(-torch.exp(self.log_survival_function(value)))

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most a value."""
        return torch.exp(self.log_cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """Return quantiles."""
        nothing, divisor = self._shape()
        logarithm = torch.log1p(-value)
        powered = self.loc + self.scale / divisor * torch.expm1(-divisor * logarithm)
        return torch.where(nothing, self.loc - self.scale * logarithm, powered)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return quantiles of uniform numbers."""
        return self.icdf(uniform(self.loc, self._extended_shape(sample_shape)))

    @property
    def mean(self) -> Tensor:
        """``loc + scale / (1 - concentration)``; NaN from 1 on."""
        found = self.loc + self.scale / (1 - self.concentration)
        return torch.where(self.concentration < 1, found, math.nan)

    @property
    def mode(self) -> Tensor:
        """The location."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance; NaN from a concentration of 1/2 on."""
        k = self.concentration
        return torch.where(k < 0.5, self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k)), math.nan)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return (self.scale.log() + self.concentration + 1).expand(self._batch_shape)


__all__ = ["GeneralizedPareto", "InverseGamma", "Kumaraswamy", "LogisticNormal", "Pareto", "Weibull"]
