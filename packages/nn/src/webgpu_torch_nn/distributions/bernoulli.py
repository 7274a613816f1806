"""The distribution of one of two outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Size, Tensor

from webgpu_torch_nn import functional

from . import constraints
from .exp_family import ExponentialFamily
from .parametric import ByProbability
from .utils import broadcast_all


class Bernoulli(ByProbability, ExponentialFamily):
    """1 with a probability, else 0.

    Args:
        probs: probability of 1, a number or a tensor.
        logits: or the logarithm of its odds.
        validate_args: see :class:`Distribution`.

    Raises:
        ValueError: not exactly one of the two is given.
    """

    arg_constraints: Any = {"probs": constraints.unit_interval, "logits": constraints.real}
    support: Any = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure: Any = 0

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        (given,) = self._take(probs, logits)
        super().__init__(given.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean, which is the probability of 1."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The likelier outcome; NaN where both are equally likely."""
        likelier = (self.probs >= 0.5).to(self.probs)
        return torch.where(self.probs == 0.5, torch.full_like(likelier, float("nan")), likelier)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Return random outcomes."""
        with torch.no_grad():
            return torch.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithms of the probabilities of outcomes."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -functional.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return functional.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return 0 and 1 along a new first dimension."""
        values = torch.arange(2, dtype=self._given.dtype, device=self._given.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return functional.softplus(natural_params[0])
