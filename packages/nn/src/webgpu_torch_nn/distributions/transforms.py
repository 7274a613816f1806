"""Invertible functions of random values, as ``torch.distributions.transforms``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Size, Tensor

from webgpu_torch_nn import functional

from . import constraints


def sum_rightmost(value: Tensor, count: int) -> Tensor:
    """Return the sum over the last ``count`` dimensions."""
    return value if count == 0 else value.reshape(value.shape[:-count] + (-1,)).sum(-1)


class Transform:
    """An invertible function with a known derivative.

    Args:
        cache_size: 1 to remember the last pair of argument and value.
    """

    bijective = False
    domain: constraints.Constraint = constraints.real
    codomain: constraints.Constraint = constraints.real
    event_dim = 0

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._cached: tuple[Any, Any] = (None, None)

    def __call__(self, x: Tensor) -> Tensor:
        if self._cache_size and x is self._cached[0]:
            return self._cached[1]
        y = self._call(x)
        self._cached = (x, y) if self._cache_size else (None, None)
        return y

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    @property
    def inv(self) -> Transform:
        """The inverse function."""
        return InverseTransform(self)

    def invert(self, y: Tensor) -> Tensor:
        """Return what the function takes to a value."""
        if self._cache_size and y is self._cached[1]:
            return self._cached[0]
        return self._inverse(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the logarithm of the derivative's absolute value."""
        raise NotImplementedError

    def forward_shape(self, shape: Sequence[int]) -> Size:
        """Return the shape of values, given the arguments'."""
        return Size(shape)

    inverse_shape = forward_shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class InverseTransform(Transform):
    """The inverse of a transform."""

    bijective = True

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._forward = transform
        self.domain, self.codomain = transform.codomain, transform.domain

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """As the transform's."""
        return self._forward.event_dim

    @property
    def inv(self) -> Transform:
        """The transform."""
        return self._forward

    def _call(self, x: Tensor) -> Tensor:
        return self._forward.invert(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._forward(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the negative of the transform's."""
        return -self._forward.log_abs_det_jacobian(y, x)


class AffineTransform(Transform):
    """``loc + scale * x``; ``event_dim`` trailing dimensions make one value."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim
        if event_dim:
            self.domain = self.codomain = constraints.real_vector

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """How many trailing dimensions make one value."""
        return self._event_dim

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
        return sum_rightmost(result.expand(x.shape), self._event_dim)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        """Return the shape broadcast with the parameters'."""
        others = [getattr(each, "shape", ()) for each in (self.loc, self.scale)]
        return Size(torch.broadcast_shapes(tuple(shape), *others))

    inverse_shape = forward_shape


class ExpTransform(Transform):
    """``exp(x)``."""

    bijective = True
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``x``."""
        return x


class SigmoidTransform(Transform):
    """``1 / (1 + exp(-x))``."""

    bijective = True
    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        limits = torch.finfo(x.dtype)
        return torch.sigmoid(x).clamp(limits.tiny, 1.0 - limits.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        limits = torch.finfo(y.dtype)
        y = y.clamp(limits.tiny, 1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``log(y (1 - y))``."""
        return -functional.softplus(-x) - functional.softplus(x)


class TanhTransform(Transform):
    """``tanh(x)``."""

    bijective = True
    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return torch.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``log(1 - tanh(x)^2)``, computed so that it does not cancel."""
        return 2.0 * (math.log(2.0) - x - functional.softplus(-2.0 * x))


class SoftplusTransform(Transform):
    """``log(1 + exp(x))``."""

    bijective = True
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return functional.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``-softplus(-x)``."""
        return -functional.softplus(-x)


class ComposeTransform(Transform):
    """Several transforms, the first applied first."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = list(parts)
        if self.parts:
            self.domain, self.codomain = self.parts[0].domain, self.parts[-1].codomain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all are."""
        return all(each.bijective for each in self.parts)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """The most of any part."""
        return max((each.event_dim for each in self.parts), default=0)

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part.invert(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the sum of the parts'."""
        del y
        total: Any = 0.0
        for part in self.parts:
            value = part(x)
            total = total + sum_rightmost(part.log_abs_det_jacobian(x, value), self.event_dim - part.event_dim)
            x = value
        return total if self.parts else torch.zeros_like(x)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        """Return the shape after all parts."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return Size(shape)


identity_transform = ComposeTransform([])
