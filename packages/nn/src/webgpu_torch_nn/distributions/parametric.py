"""What distributions share whose parameters are all tensors of the batch's shape, and their values' behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from webgpu_torch_core import Size

from .distribution import Distribution


class Parametric(Distribution):
    """A distribution whose parameters are named by its ``arg_constraints``."""

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution with its parameters expanded to another batch shape."""
        new = self._copied(_instance)
        shape, before = Size(batch_shape), len(self._batch_shape)
        for name in self.arg_constraints:
            if name in self.__dict__:
                value = self.__dict__[name]
                new.__dict__[name] = value.expand(shape + value.shape[before:])
        new._batch_shape = shape
        return new

    def _copied(self, instance: Any = None) -> Any:
        new = type(self).__new__(type(self)) if instance is None else instance
        new.__dict__.update(self.__dict__)
        return new
