"""The Gumbel distribution, of largest values."""

from __future__ import annotations

import math
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from . import constraints
from .transformed import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .uniform import Uniform
from .utils import broadcast_all

EULER = 0.57721566490153286060


class Gumbel(TransformedDistribution):
    """Numbers of density ``exp(-(z + exp(-z))) / scale``, where ``z = (x - loc) / scale``.

    Args:
        loc: most likely value, a number or a tensor.
        scale: width, positive.
        validate_args: see :class:`Distribution`.
    """

    arg_constraints: Any = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        kind = torch.finfo(self.loc.dtype)
        # Neither 0 nor 1, whose logarithms would be infinite.
        ends = [torch.full_like(self.loc, each) for each in (kind.tiny, 1 - kind.eps)]
        logarithm = ExpTransform().inv
        negative = AffineTransform(0, -torch.ones_like(self.scale))
        transforms = [logarithm, negative, logarithm, AffineTransform(loc, -self.scale)]
        super().__init__(Uniform(*ends, validate_args=validate_args), transforms, validate_args)

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

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        distance = (self.loc - value) / self.scale
        return (distance - distance.exp()) - self.scale.log()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self.scale.log() + (1 + EULER)
