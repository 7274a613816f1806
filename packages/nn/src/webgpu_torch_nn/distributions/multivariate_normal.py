"""The normal distribution of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Size, Tensor, linalg

from . import constraints
from .parametric import Located
from .utils import lazy_property, standard_normal

#: the parameters of which one is given, with the sets that they belong to
FORMS = {
    "covariance_matrix": constraints.positive_definite,
    "precision_matrix": constraints.positive_definite,
    "scale_tril": constraints.lower_cholesky,
}


def factored(name: str, matrix: Tensor) -> Tensor:
    """Return the lower Cholesky factor of the covariance of which a matrix is one of the forms."""
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return linalg.cholesky(matrix)
    # Reversed, the factor of the precision is upper; its inverse, transposed, is the factor of the covariance.
    reversed_factor = linalg.cholesky(torch.flip(matrix, (-2, -1)))
    upper = torch.flip(reversed_factor, (-2, -1)).mT
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return linalg.solve_triangular(upper, identity, upper=False)


class MultivariateNormal(Located):
    """Vectors of mean ``loc`` whose numbers depend on each other.

    Args:
        loc: mean, of at least one dimension.
        covariance_matrix: covariance, positive definite.
        precision_matrix: or its inverse.
        scale_tril: or its lower Cholesky factor.
        validate_args: see :class:`Distribution`.

    Raises:
        ValueError: not exactly one of the three is given, or one has too few dimensions.
    """

    arg_constraints: Any = {"loc": constraints.real_vector, **FORMS}
    support: Any = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        matrices = dict(zip(FORMS, (covariance_matrix, precision_matrix, scale_tril), strict=True))
        given = [(name, each) for name, each in matrices.items() if each is not None]
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        name, matrix = given[0]
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand((*batch_shape, -1))
        self.__dict__[name] = matrix.expand((*batch_shape, -1, -1))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = factored(name, matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return (self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT).expand(
            (*self._batch_shape, *self._event_shape, *self._event_shape)
        )

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return torch.cholesky_inverse(self._unbroadcasted_scale_tril).expand(
            (*self._batch_shape, *self._event_shape, *self._event_shape)
        )

    @property
    def variance(self) -> Tensor:
        """The variances of the single numbers."""
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand((*self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Return random vectors that are differentiable functions of the parameters."""
        drawn = standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ drawn.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        distance = (value - self.loc).unsqueeze(-1)
        shape = torch.broadcast_shapes(self._unbroadcasted_scale_tril.shape[:-2], distance.shape[:-2])
        factor = self._unbroadcasted_scale_tril.expand((*shape, *self._unbroadcasted_scale_tril.shape[-2:]))
        solved = linalg.solve_triangular(factor, distance.expand((*shape, *distance.shape[-2:])), upper=False)
        squared = solved.squeeze(-1).pow(2).sum(-1)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + squared) - self._half_log_determinant()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        each = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (each + self._half_log_determinant()).expand(self._batch_shape)

    def _half_log_determinant(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
