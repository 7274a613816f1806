"""The normal distribution of vectors whose covariance has few dimensions beside its diagonal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Size, Tensor, linalg

from . import constraints
from .parametric import Located
from .utils import standard_normal


def _with_identity(matrix: Tensor) -> Tensor:
    return matrix + torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


def _solve_lower(factor: Tensor, right: Tensor) -> Tensor:
    """Return ``factor^-1 right`` of lower triangles and matrices of different batch shapes."""
    shape = torch.broadcast_shapes(factor.shape[:-2], right.shape[:-2])
    factor, right = factor.expand((*shape, *factor.shape[-2:])), right.expand((*shape, *right.shape[-2:]))
    return linalg.solve_triangular(factor, right, upper=False)


class LowRankMultivariateNormal(Located):
    """Vectors of mean ``loc`` and covariance ``W W^T + diag(D)``.

    Determinant and inverse are those of the small matrix ``I + W^T D^-1 W`` (the matrix determinant lemma and Woodbury's
    identity).

    Args:
        loc: mean, of at least one dimension.
        cov_factor: W, of the mean's shape and one more dimension.
        cov_diag: D, of the mean's shape, positive.
        validate_args: see :class:`Distribution`.

    Raises:
        ValueError: the shapes do not fit.
    """

    arg_constraints: Any = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support: Any = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if cov_diag.shape[-1:] != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
        try:
            batch = Size(torch.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]))
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc, self.cov_diag = loc.expand((*batch, -1)), cov_diag.expand((*batch, -1))
        self.cov_factor = cov_factor.expand((*batch, -1, -1))
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = linalg.cholesky(_with_identity(self._whitened() @ cov_factor))
        super().__init__(batch, event, validate_args=validate_args)

    def _whitened(self) -> Tensor:
        """Return ``W^T D^-1``."""
        return self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)

    def _reduced(self) -> Tensor:
        """Return A, where the inverse of the covariance is ``D^-1 - A^T A``."""
        return _solve_lower(self._capacitance_tril, self._whitened())

    def _log_determinant(self) -> Tensor:
        return 2 * self._capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(
            -1
        ) + self._unbroadcasted_cov_diag.log().sum(-1)

    def _squared_distance(self, away: Tensor) -> Tensor:
        """Return the square of Mahalanobis's distance of vectors from the mean."""
        reduced = (self._reduced() @ away.unsqueeze(-1)).squeeze(-1)
        return (away.pow(2) / self._unbroadcasted_cov_diag).sum(-1) - reduced.pow(2).sum(-1)

    def _whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    @property
    def variance(self) -> Tensor:
        """The variances of the single numbers."""
        found = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return found.expand((*self._batch_shape, *self._event_shape))

    @property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance, that of ``I + D^-1/2 W W^T D^-1/2`` times ``D^1/2``."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        return self._whole(root * linalg.cholesky(_with_identity(scaled @ scaled.mT)))

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self._whole(
            self._unbroadcasted_cov_factor @ self._unbroadcasted_cov_factor.mT
            + self._unbroadcasted_cov_diag.diag_embed()
        )

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        reduced = self._reduced()
        return self._whole(self._unbroadcasted_cov_diag.reciprocal().diag_embed() - reduced.mT @ reduced)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Return random vectors that are differentiable functions of the parameters."""
        shape = self._extended_shape(sample_shape)
        dtype, device = self.loc.dtype, self.loc.device
        few = standard_normal((*shape[:-1], self.cov_factor.shape[-1]), dtype, device)
        many = standard_normal(shape, dtype, device)
        return (
            self.loc
            + (self._unbroadcasted_cov_factor @ few.unsqueeze(-1)).squeeze(-1)
            + self._unbroadcasted_cov_diag.sqrt() * many
        )

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._validate_sample(value)
        distance = self._squared_distance(value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_determinant() + distance)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        each = self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (0.5 * (each + self._log_determinant())).expand(self._batch_shape)


__all__ = ["LowRankMultivariateNormal"]
