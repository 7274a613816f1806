"""Absolute values of normal and of Cauchy numbers."""

from __future__ import annotations

import math
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from . import constraints
from .continuous import Cauchy
from .normal import Normal
from .parametric import property_of
from .transformed import TransformedDistribution
from .transforms import AbsTransform


class _Folded(TransformedDistribution):
    """The absolute value of a number whose distribution is symmetric about 0."""

    arg_constraints = {"scale": constraints.positive}
    support: Any = constraints.nonnegative
    has_rsample: Any = True
    _whole: Any = Normal

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._whole(0, scale, validate_args=False), AbsTransform(), validate_args)

    scale = property_of("base_dist.scale", "The base's scale.")

    @property
    def mode(self) -> Tensor:
        """0."""
        return torch.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of twice the base's density."""
        self._validate_sample(value)
        value = torch.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        return torch.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most a value."""
        self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        """Return quantiles."""
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        """Return the base's entropy less the sign's."""
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Folded):
    """The absolute value of a normal number of mean 0."""

    @property
    def mean(self) -> Tensor:
        """``scale sqrt(2 / pi)``."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        """``scale^2 (1 - 2 / pi)``."""
        return self.scale.pow(2) * (1 - 2 / math.pi)


class HalfCauchy(_Folded):
    """The absolute value of a Cauchy number of location 0."""

    _whole = Cauchy

    @property
    def mean(self) -> Tensor:
        """Infinity."""
        return torch.full_like(self.scale, math.inf)

    variance = property_of("base_dist.variance", "Infinity.")


__all__ = ["HalfCauchy", "HalfNormal"]
