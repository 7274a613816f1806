"""Wishart's distribution, of sums of squares of normal vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Size, Tensor, linalg
from webgpu_torch_core.notices import warn

from . import constraints
from .exp_family import ExponentialFamily
from .gamma import Chi2
from .multivariate_normal import FORMS, factored
from .parametric import Parametric
from .utils import lazy_property

#: how often singular samples are drawn anew
_TRIES = 10


class Wishart(Parametric, ExponentialFamily):
    """Positive definite matrices: sums of ``df`` outer products of normal vectors with a covariance.

    Args:
        df: how many, more than a matrix has rows less one.
        covariance_matrix: covariance, positive definite.
        precision_matrix: or its inverse.
        scale_tril: or its lower Cholesky factor.
        validate_args: see :class:`Distribution`.

    Raises:
        AssertionError: not exactly one of the three is given.
        ValueError: it is no matrix, or ``df`` is too small.
    """

    support: Any = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure: Any = 0

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        matrices = dict(zip(FORMS, (covariance_matrix, precision_matrix, scale_tril), strict=True))
        given = [(name, each) for name, each in matrices.items() if each is not None]
        if len(given) != 1:
            raise AssertionError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        name, matrix = given[0]
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        if not isinstance(df, Tensor):
            df = torch.tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch_shape = torch.broadcast_shapes(matrix.shape[:-2], df.shape)
        size = matrix.shape[-1]
        self.df = df.expand(batch_shape)
        if (self.df <= size - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {size - 1}.")
        self.__dict__[name] = matrix.expand((*batch_shape, -1, -1))
        if (self.df < size).any():
            warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
            )
        super().__init__(batch_shape, matrix.shape[-2:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = factored(name, matrix)

    @property
    def arg_constraints(self) -> Any:  # type: ignore[override]
        """The matrices' sets, and the bound of the degrees of freedom."""
        return {**FORMS, "df": constraints.greater_than(self._event_shape[-1] - 1)}

    def _whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *self._event_shape))

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self._whole(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self._whole(torch.cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def mean(self) -> Tensor:
        """``df`` times the covariance."""
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """The likeliest matrix; NaN where there are too few degrees of freedom."""
        factor = self.df - self._event_shape[-1] - 1
        return torch.where(factor > 0, factor, math.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """The variances of the single numbers."""
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        return self.df[..., None, None] * (covariance.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _drawn(self, sample_shape: Sequence[int]) -> Tensor:
        """Return samples by Bartlett's decomposition (1933): chi numbers on the diagonal, normal ones below."""
        size = self._event_shape[-1]
        counts = torch.arange(size, dtype=self.df.dtype, device=self.df.device)
        squares = Chi2(self.df.unsqueeze(-1) - counts, validate_args=False).rsample(sample_shape)
        diagonal = squares.sqrt().clamp(min=torch.finfo(squares.dtype).eps)
        shape = (*sample_shape, *self._batch_shape, size * (size - 1) // 2)
        noise = diagonal.diag_embed()
        rows, columns = torch.tril_indices(size, size, -1, device=self.df.device)
        noise[..., rows, columns] = torch.randn(shape, dtype=self.df.dtype, device=self.df.device)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def _sound(self, sample: Tensor) -> Tensor:
        """Return for each sample whether all of its batch, or any, can be told from singular matrices."""
        return self.support.check(sample).reshape(sample.shape[: sample.dim() - 2 - len(self._batch_shape)] + (-1,))

    def rsample(self, sample_shape: Sequence[int] = Size(), max_try_correction: int | None = None) -> Tensor:
        """Return matrices with gradients of all parameters; singular ones are drawn anew some times."""
        sample = self._drawn(sample_shape)
        # PyTorch draws anew what is not singular (it tests the opposite of what it means): its samples are second draws.
        anew = self._sound(sample).any(-1)
        for attempt in range(_TRIES if max_try_correction is None else max_try_correction):
            if not anew.any():
                break
            if attempt == 1:
                warn("Singular sample detected.")
            drawn = self._drawn((int(anew.sum()),))
            sample = sample.clone()
            sample[anew] = drawn
            anew = ~self._sound(sample).all(-1)
        return sample

    def _half_log_determinant(self) -> Tensor:
        """Return that of twice the covariance."""
        size = self._event_shape[-1]
        return 0.5 * size * math.log(2) + self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._validate_sample(value)
        size = self._event_shape[-1]
        shape = torch.broadcast_shapes(value.shape, self._unbroadcasted_scale_tril.shape)
        solved = torch.cholesky_solve(value.expand(shape), self._unbroadcasted_scale_tril.expand(shape))
        return (
            -self.df * self._half_log_determinant()
            - torch.mvlgamma(self.df / 2, size)
            + (self.df - size - 1) / 2 * linalg.slogdet(value).logabsdet
            - solved.diagonal(dim1=-2, dim2=-1).sum(-1) / 2
        )

    def entropy(self) -> Tensor:
        """Return the entropy."""
        size, half = self._event_shape[-1], self.df / 2
        steps = torch.arange(size, dtype=half.dtype, device=half.device) / 2
        digamma = torch.digamma(half.unsqueeze(-1) - steps).sum(-1)
        return (
            (size + 1) * self._half_log_determinant()
            + torch.mvlgamma(half, size)
            - (self.df - size - 1) / 2 * digamma
            + self.df * size / 2
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        matrix, power = natural_params
        size = self._event_shape[-1]
        half = power + (size + 1) / 2
        return half * (size * math.log(2) - linalg.slogdet(-2 * matrix).logabsdet) + torch.mvlgamma(half, size)


__all__ = ["Wishart"]
