"""Exponential families: entropies and divergences from the normaliser alone."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from .distribution import Distribution


class ExponentialFamily(Distribution):
    """A distribution of density ``exp(<t(x), theta> - F(theta) + k(x))``.

    Its entropy, and its divergence from another of its kind, are Bregman divergences of the normaliser F (F. Nielsen,
    R. Nock, "Entropies and cross-entropies of exponential families", 2010), whose gradient is the mean of t.
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        """The parameters theta."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        """Return F."""
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        """The mean of k."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return ``F - <theta, grad F> - E k``."""
        carrier = self._mean_carrier_measure
        with torch.enable_grad():
            parameters, normalizer, gradients = _bregman(self)
        result: Any = normalizer - carrier
        for parameter, gradient in zip(parameters, gradients, strict=True):
            result = result - (parameter * gradient).reshape((*self._batch_shape, -1)).sum(-1)
        return result


def _bregman(p: ExponentialFamily) -> tuple[list[Tensor], Tensor, Any]:
    """Return the natural parameters, as leaves, the normaliser of them, and its gradients."""
    parameters = [each.detach().requires_grad_() for each in p._natural_params]
    normalizer = p._log_normalizer(*parameters)
    return parameters, normalizer, torch.autograd.grad(normalizer.sum(), parameters, create_graph=True)


__all__ = ["ExponentialFamily"]
