"""The uniform distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Size, Tensor

from . import constraints
from .parametric import Parametric
from .utils import broadcast_all


class Uniform(Parametric):
    """Numbers of the half-open interval from ``low`` to ``high``, all equally likely.

    Args:
        low: lower bound, a number or a tensor.
        high: upper bound, which is not drawn.
        validate_args: see :class:`Distribution`.

    Raises:
        ValueError: a lower bound is not below its upper bound.
    """

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @property
    def arg_constraints(self) -> Any:  # type: ignore[override]
        """Each bound's set depends on the other bound."""
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The interval."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        """The middle of the interval."""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        """NaN: no value is likelier than another."""
        return torch.full_like(self.high, float("nan"))

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return (self.high - self.low).pow(2) / 12

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return (self.high - self.low) / 12**0.5

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Return random values that are differentiable functions of the bounds."""
        shape = self._extended_shape(sample_shape)
        drawn = torch.rand(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        inside = self.low.le(value).type_as(self.low) * self.high.gt(value).type_as(self.low)
        return torch.log(inside) - torch.log(self.high - self.low)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to one."""
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value up to which the probability is a given one."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return torch.log(self.high - self.low)
