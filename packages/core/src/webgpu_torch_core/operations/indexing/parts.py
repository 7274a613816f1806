"""Gradients of parts of a tensor: zeros with the part's gradient inside."""

from __future__ import annotations

from typing import NamedTuple

from ...record.grad_mode import recording
from ...tensors.tensor import Tensor
from ..movement.joining import place_inside


class Place(NamedTuple):
    """Where the elements of a padded gradient lie: ``part`` is from ``start`` on along a dimension, and zeros are elsewhere."""

    part: Tensor
    dim: int
    start: int

    @property
    def stop(self) -> int:
        """The first place behind the part."""
        return self.start + self.part._layout.shape[self.dim]


def embed(grad: Tensor, shape: tuple[int, ...], dim: int, start: int, step: int) -> Tensor:
    """Return zeros of a shape with ``grad`` at positions ``start, start + step, …`` of a dimension."""
    before = tuple(start if index == dim else 0 for index in range(len(shape)))
    steps = tuple(step if index == dim else 1 for index in range(len(shape)))
    result = place_inside(grad, before, tuple(shape), 0, steps)
    if step == 1 and not recording.enabled:
        result.__dict__["_place"] = Place(grad, dim, start), result._storage.version
    return result


def place_of_part(gradient: Tensor) -> Place | None:
    """Return what :func:`embed` made a gradient of, None for any other and for one that was written to since."""
    place, version = getattr(gradient, "_place", (None, 0))
    return place if version == gradient._storage.version else None
