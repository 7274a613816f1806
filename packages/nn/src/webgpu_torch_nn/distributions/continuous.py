"""Distributions of real numbers with a location and a scale, and the uniform and exponential ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Size, Tensor

from . import constraints
from .exp_family import ExponentialFamily
from .parametric import Located, Parametric
from .utils import broadcast_all


class LocationScale(Located):
    """A distribution ``loc + scale * standard``."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _standard(self, shape: Size) -> Tensor:
        raise NotImplementedError

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return ``loc + scale * standard``."""
        return self.loc + self.scale * self._standard(self._extended_shape(sample_shape))

    def _scaled(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return (value - self.loc) / self.scale


def uniform(like: Tensor, shape: Size) -> Tensor:
    """Return numbers from [0, 1) of a tensor's type and device."""
    return torch.rand(shape, dtype=like.dtype, device=like.device)


def open_uniform(like: Tensor, shape: Size) -> Tensor:
    """Return numbers from (0, 1), whose logarithms are finite."""
    limits = torch.finfo(like.dtype)
    return uniform(like, shape).clamp(limits.tiny, 1 - limits.eps)


class Laplace(LocationScale):
    """The double exponential distribution ``exp(-|x - loc| / scale) / (2 scale)``."""

    def _standard(self, shape: Size) -> Tensor:
        symmetric = 2 * open_uniform(self.loc, shape) - 1
        return -symmetric.sign() * torch.log1p(-symmetric.abs().clamp(max=1 - torch.finfo(self.loc.dtype).eps))

    @property
    def variance(self) -> Tensor:
        """``2 scale^2``."""
        return 2 * self.scale * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        return -self._scaled(value).abs() - torch.log(2 * self.scale)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most a value."""
        scaled = self._scaled(value)
        return 0.5 - 0.5 * scaled.sign() * torch.expm1(-scaled.abs())

    def icdf(self, value: Tensor) -> Tensor:
        """Return quantiles."""
        term = value - 0.5
        return self.loc - self.scale * term.sign() * torch.log1p(-2 * term.abs())

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return 1 + torch.log(2 * self.scale)


class Cauchy(LocationScale):
    """The distribution ``1 / (pi scale (1 + ((x - loc) / scale)^2))``, which has no mean."""

    def _standard(self, shape: Size) -> Tensor:
        return torch.empty(shape, dtype=self.loc.dtype, device=self.loc.device).cauchy_()

    @property
    def mean(self) -> Tensor:
        """NaN."""
        return torch.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        """Infinity."""
        return torch.full_like(self.loc, math.inf)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        return -math.log(math.pi) - self.scale.log() - torch.log1p(self._scaled(value) ** 2)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most a value."""
        return torch.atan(self._scaled(value)) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """Return quantiles."""
        return torch.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return math.log(4 * math.pi) + self.scale.log()


class Exponential(Parametric, ExponentialFamily):
    """The distribution ``rate exp(-rate x)`` of positive numbers."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure: Any = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """``1 / rate``."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        """0."""
        return torch.zeros_like(self.rate)

    @property
    def variance(self) -> Tensor:
        """``1 / rate^2``."""
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return values."""
        shape = self._extended_shape(sample_shape)
        return torch.empty(shape, dtype=self.rate.dtype, device=self.rate.device).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most a value."""
        return 1 - torch.exp(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        """Return quantiles."""
        return -torch.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return 1.0 - torch.log(self.rate)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return -torch.log(-natural_params[0])
