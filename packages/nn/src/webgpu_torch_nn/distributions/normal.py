"""The normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Size, Tensor

from . import constraints
from .exp_family import ExponentialFamily
from .parametric import Located
from .utils import broadcast_all, standard_normal


class Normal(Located, ExponentialFamily):
    """Numbers of mean ``loc`` and standard deviation ``scale``.

    Args:
        loc: mean, a number or a tensor.
        scale: standard deviation, positive.
        validate_args: see :class:`Distribution`.
    """

    arg_constraints: Any = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real
    has_rsample = True
    _mean_carrier_measure: Any = 0

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def stddev(self) -> Tensor:
        """The standard deviation, ``scale``."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.scale.pow(2)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Return random values without gradients."""
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Return random values that are differentiable functions of the parameters."""
        drawn = standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + drawn * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        distance = (value - self.loc) ** 2 / (2 * self.scale**2)
        return -distance - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to one."""
        if self._validate_args:
            self._validate_sample(value)
        return 0.5 * (1 + torch.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value up to which the probability is a given one."""
        return self.loc + self.scale * torch.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + torch.log(self.scale)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        variance = self.scale.pow(2)
        return self.loc / variance, -0.5 * variance.reciprocal()

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        first, second = natural_params
        return -0.25 * first.pow(2) / second + 0.5 * torch.log(-math.pi / second)
