"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn import functional

from . import constraints
from .continuous import uniform
from .exp_family import ExponentialFamily
from .parametric import ByProbability
from .utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs


class ContinuousBernoulli(ByProbability, ExponentialFamily):
    """Numbers of [0, 1] of density ``C p^x (1 - p)^(1 - x)`` (G. Loaiza-Ganem, J. Cunningham, NeurIPS 2019).

    Args:
        probs: the parameters p.
        logits: or the logarithms of their odds.
        lims: between them, where the formulas cancel, Taylor series about 1/2 are taken.
        validate_args: see :class:`Distribution`.

    Raises:
        ValueError: not exactly one of the two is given, or it is no probability.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure: Any = 0

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        (given,) = self._take(probs, logits)
        if probs is not None:
            if validate_args is not None and not constraints.unit_interval.check(given).all():
                raise ValueError("The parameter probs has invalid values")
            self.__dict__["probs"] = clamp_probs(given)
        self._lims = lims
        super().__init__(given.shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        """The parameters, neither 0 nor 1."""
        return clamp_probs(logits_to_probs(self.logits, True))

    def _outside_unstable_region(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return where the formulas hold, parameters there and others elsewhere, their log odds, distances from 1/2."""
        outside = self._outside_unstable_region()
        probs = torch.where(outside, self.probs, self._lims[0])
        return outside, probs, probs.log() - torch.log1p(-probs), self.probs - 0.5

    def _cont_bern_log_norm(self) -> Tensor:
        """Return ``log C``, where ``C = log(p / (1 - p)) / (2 p - 1)``."""
        outside, probs, odds, away = self._parts()
        square = away.pow(2)
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * square) * square
        return torch.where(outside, odds.abs().log() - (2.0 * probs - 1.0).abs().log(), series)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        outside, probs, odds, away = self._parts()
        series = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * away.pow(2)) * away
        return torch.where(outside, probs / (2.0 * probs - 1.0) - 1.0 / odds, series)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        outside, probs, odds, away = self._parts()
        square = away.pow(2)
        series = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * square) * square
        exact = probs * (probs - 1.0) / (1.0 - 2.0 * probs).pow(2) + 1.0 / odds.pow(2)
        return torch.where(outside, exact, series)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return quantiles of uniform numbers."""
        return self.icdf(uniform(self.probs, self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        fitting = -functional.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return fitting + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most a value."""
        self._validate_sample(value)
        outside, probs, _, _ = self._parts()
        below = (probs.pow(value) * (1.0 - probs).pow(1.0 - value) + probs - 1.0) / (2.0 * probs - 1.0)
        found = torch.where(outside, below, value)
        return torch.where(value <= 0.0, 0.0, torch.where(value >= 1.0, 1.0, found))

    def icdf(self, value: Tensor) -> Tensor:
        """Return quantiles."""
        outside, probs, odds, _ = self._parts()
        exact = (torch.log1p(-probs + value * (2.0 * probs - 1.0)) - torch.log1p(-probs)) / odds
        return torch.where(outside, exact, value)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        failure, success = torch.log1p(-self.probs), self.probs.log()
        return self.mean * (failure - success) - self._cont_bern_log_norm() - failure

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x,) = natural_params
        low, high = (each - 0.5 for each in self._lims)
        outside = (x <= low) | (x > high)
        safe = torch.where(outside, x, low)
        series = 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0
        return torch.where(outside, safe.expm1().abs().log() - safe.abs().log(), series)


__all__ = ["ContinuousBernoulli"]
