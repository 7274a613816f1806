"""Transforms of single numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Size, Tensor

from webgpu_torch_nn import functional

from . import constraints
from .transform_base import Plain, Transform, sum_rightmost
from .utils import broadcast_all


class _Rising(Plain):
    bijective = True
    sign: Any = 1


class ExpTransform(_Rising):
    """``exp(x)``."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``x``."""
        return x


def clipped_sigmoid(x: Tensor) -> Tensor:
    """Return the sigmoid, less than 1 and more than 0."""
    limits = torch.finfo(x.dtype)
    return torch.sigmoid(x).clamp(limits.tiny, 1.0 - limits.eps)


class SigmoidTransform(_Rising):
    """``1 / (1 + exp(-x))``."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        limits = torch.finfo(y.dtype)
        y = y.clamp(limits.tiny, 1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``log(y (1 - y))``."""
        return -functional.softplus(-x) - functional.softplus(x)


class TanhTransform(_Rising):
    """``tanh(x)``."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return torch.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``log(1 - tanh(x)^2)``, computed so that it does not cancel."""
        return 2.0 * (math.log(2.0) - x - functional.softplus(-2.0 * x))


class SoftplusTransform(_Rising):
    """``log(1 + exp(x))``."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return functional.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``-softplus(-x)``."""
        return -functional.softplus(-x)


class AbsTransform(Plain):
    """``|x|``; the positive one of both arguments is taken for its inverse."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


def _equal(one: Any, other: Any) -> bool:
    same = one == other
    return bool(same.all()) if isinstance(same, Tensor) else bool(same)


class _OfParameters(Transform):
    """A transform with the shape of its parameters, too."""

    bijective = True
    _names: tuple[str, ...] = ()

    def forward_shape(self, shape: Sequence[int]) -> Size:
        """Return the shape broadcast with the parameters'."""
        others = [getattr(getattr(self, each), "shape", ()) for each in self._names]
        return Size(torch.broadcast_shapes(tuple(shape), *others))

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        """Return the shape broadcast with the parameters'."""
        return self.forward_shape(shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return False
        return all(_equal(getattr(self, each), getattr(other, each)) for each in self._names)

    def __hash__(self) -> int:
        return hash(type(self))


class PowerTransform(_OfParameters):
    """``x ** exponent`` of positive numbers."""

    domain = constraints.positive
    codomain = constraints.positive
    _names = ("exponent",)

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @property
    def sign(self) -> Tensor:
        """The exponent's."""
        return self.exponent.sign()

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``log |exponent y / x|``."""
        return (self.exponent * y / x).abs().log()


class AffineTransform(_OfParameters):
    """``loc + scale * x``; ``event_dim`` trailing dimensions make one value."""

    _names = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        """How many trailing dimensions make one value."""
        return self._event_dim

    @property
    def domain(self) -> Any:  # type: ignore[override]
        """Real numbers, or blocks of them."""
        return constraints.independent(constraints.real, self._event_dim) if self._event_dim else constraints.real

    @property
    def codomain(self) -> Any:  # type: ignore[override]
        """As the domain."""
        return self.domain

    @property
    def sign(self) -> Any:
        """The scale's."""
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return int(self.scale > 0) - int(self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``log |scale|``, summed over the value's dimensions."""
        if isinstance(self.scale, Tensor):
            result = self.scale.abs().log()
        else:
            result = torch.full_like(x, math.log(abs(self.scale)))
        if not self._event_dim:
            return result.expand(torch.broadcast_shapes(result.shape, x.shape))
        return sum_rightmost(result.expand(x.shape), self._event_dim)


class CumulativeDistributionTransform(Transform):
    """A distribution's probability of at most ``x``."""

    bijective = True
    codomain = constraints.unit_interval
    sign: Any = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:  # type: ignore[override]
        """The distribution's values."""
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        return self.distribution.log_prob(x)
