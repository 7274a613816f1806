"""The Gumbel distribution, of largest values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Size, Tensor

from . import constraints
from .parametric import Parametric
from .utils import broadcast_all

EULER = 0.57721566490153286060


class Gumbel(Parametric):
    """Numbers of density ``exp(-(z + exp(-z))) / scale``, where ``z = (x - loc) / scale``.

    Args:
        loc: most likely value, a number or a tensor.
        scale: width, positive.
        validate_args: see :class:`Distribution`.
    """

    arg_constraints: Any = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.loc + self.scale * EULER

    @property
    def mode(self) -> Tensor:
        """The most likely value, ``loc``."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.stddev.pow(2)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Return random values that are differentiable functions of the parameters."""
        kind = torch.finfo(self.loc.dtype)
        drawn = torch.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        # Neither 0 nor 1, whose logarithms would be infinite.
        drawn = kind.tiny + drawn * (1 - kind.eps - kind.tiny)
        return self.loc - self.scale * (-drawn.log()).log()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        distance = (self.loc - value) / self.scale
        return (distance - distance.exp()) - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to one."""
        if self._validate_args:
            self._validate_sample(value)
        return torch.exp(-torch.exp((self.loc - value) / self.scale))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value up to which the probability is a given one."""
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self.scale.log() + (1 + EULER)
