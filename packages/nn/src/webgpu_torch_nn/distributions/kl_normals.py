"""Divergences of normal distributions of vectors from each other."""

from __future__ import annotations

from webgpu_torch_core import Tensor

from .kl import register_kl
from .lowrank_multivariate_normal import LowRankMultivariateNormal, _solve_lower
from .multivariate_normal import MultivariateNormal


def _check(
    p: MultivariateNormal | LowRankMultivariateNormal, q: MultivariateNormal | LowRankMultivariateNormal
) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )


def _square(value: Tensor) -> Tensor:
    """Return the sum of the squares of matrices' numbers."""
    return value.pow(2).sum((-1, -2))


@register_kl(MultivariateNormal, MultivariateNormal)
def _normal_normal(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    _check(p, q)
    spread = _square(_solve_lower(q._unbroadcasted_scale_tril, p._unbroadcasted_scale_tril)) + _square(
        _solve_lower(q._unbroadcasted_scale_tril, (q.loc - p.loc).unsqueeze(-1))
    )
    return q._half_log_determinant() - p._half_log_determinant() + 0.5 * (spread - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_normal(p: LowRankMultivariateNormal, q: MultivariateNormal) -> Tensor:
    _check(p, q)
    spread = _square(_solve_lower(q._unbroadcasted_scale_tril, (q.loc - p.loc).unsqueeze(-1)))
    for part in (p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()):
        spread = spread + _square(_solve_lower(q._unbroadcasted_scale_tril, part))
    return q._half_log_determinant() + 0.5 * (spread - p._log_determinant() - p.event_shape[0])


def _spread(q: LowRankMultivariateNormal, part: Tensor) -> Tensor:
    """Return the trace of ``part part^T`` with the inverse of the covariance, which is ``D^-1 - A^T A``."""
    return _square(part * q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1)) - _square(q._reduced() @ part)


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _normal_low_rank(p: MultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    _check(p, q)
    spread = _spread(q, p._unbroadcasted_scale_tril) + q._squared_distance(q.loc - p.loc)
    return 0.5 * (q._log_determinant() + spread - p.event_shape[0]) - p._half_log_determinant()


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank_low_rank(p: LowRankMultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    _check(p, q)
    diagonal = (p._unbroadcasted_cov_diag / q._unbroadcasted_cov_diag).sum(-1) - _square(
        q._reduced() * p._unbroadcasted_cov_diag.sqrt().unsqueeze(-2)
    )
    spread = diagonal + _spread(q, p._unbroadcasted_cov_factor) + q._squared_distance(q.loc - p.loc)
    return 0.5 * (q._log_determinant() - p._log_determinant() + spread - p.event_shape[0])
