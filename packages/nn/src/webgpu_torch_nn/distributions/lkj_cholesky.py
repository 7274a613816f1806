"""Random correlation matrices, by their Cholesky factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from . import constraints
from .gamma import Beta
from .parametric import Parametric
from .utils import broadcast_all


class LKJCholesky(Parametric):
    """Lower Cholesky factors of correlation matrices of density proportional to their determinant's power.

    D. Lewandowski, D. Kurowicka, H. Joe, "Generating random correlation matrices based on vines and extended onion
    method", 2009.

    Args:
        dim: rows of the matrices, at least 2.
        concentration: the power plus 1; all matrices are equally likely at 1.
        validate_args: see :class:`Distribution`.

    Raises:
        ValueError: fewer than 2 rows.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return factors, by the onion method: each row points anywhere, by a length of a beta distribution."""
        with torch.no_grad():
            options: dict[str, Any] = {"dtype": self.concentration.dtype, "device": self.concentration.device}
            before = torch.arange(-1, self.dim - 1, **options).clamp(min=0)
            others = (self.concentration + 0.5 * (self.dim - 2)).unsqueeze(-1) - 0.5 * before
            length = Beta(before + 0.5, others, validate_args=False).sample(sample_shape).unsqueeze(-1)
            normal = torch.randn(self._extended_shape(sample_shape), **options).tril(-1)
            norm = normal.pow(2).sum(-1, keepdim=True).sqrt()
            # The first row has nothing below the diagonal, no direction.
            rows = length.sqrt() * torch.where(norm > 0, normal / norm, 0.0)
            rest = (1 - rows.pow(2).sum(-1)).clamp(min=torch.finfo(rows.dtype).tiny)
            return rows + rest.sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._validate_sample(value)
        below, half = self.dim - 1, 0.5 * (self.dim - 1)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        # Powers of the diagonal: the determinant's, and those of the factor's derivative by the matrix.
        rows = torch.arange(2, self.dim + 1, dtype=diagonal.dtype, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - rows
        alpha = self.concentration + half
        norm = half * math.log(math.pi) + torch.mvlgamma(alpha - 0.5, below) - torch.lgamma(alpha) * below
        return (order * diagonal.log()).sum(-1) - norm


__all__ = ["LKJCholesky"]
