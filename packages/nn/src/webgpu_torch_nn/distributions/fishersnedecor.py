"""Fisher's and Snedecor's distribution, of ratios of variances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from . import constraints
from .gamma import Gamma
from .parametric import Parametric
from .utils import broadcast_all


class FisherSnedecor(Parametric):
    """The ratio of two chi-squared numbers, each divided by its degrees of freedom, ``df1`` and ``df2``."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """``df2 / (df2 - 2)``; NaN up to 2."""
        return torch.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        """The likeliest value; NaN up to a ``df1`` of 2."""
        found = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return torch.where(self.df1 > 2, found, math.nan)

    @property
    def variance(self) -> Tensor:
        """The variance; NaN up to a ``df2`` of 4."""
        one, two = self.df1, self.df2
        found = 2 * two.pow(2) * (one + two - 2) / (one * (two - 2).pow(2) * (two - 4))
        return torch.where(two > 4, found, math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return ratios of gamma numbers."""
        tiny = torch.finfo(self.df1.dtype).tiny
        above, below = (
            Gamma(0.5 * each, each, validate_args=False).rsample(sample_shape) for each in (self.df1, self.df2)
        )
        return (above / below.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._validate_sample(value)
        one, two, ratio = 0.5 * self.df1, 0.5 * self.df2, self.df1 / self.df2
        norm = torch.lgamma(one + two) - torch.lgamma(one) - torch.lgamma(two)
        return norm + one * ratio.log() + (one - 1) * value.log() - (one + two) * torch.log1p(ratio * value)


__all__ = ["FisherSnedecor"]
