"""Modules whose weights are rounded as integers would be."""

from __future__ import annotations

from .conv import Conv1d, Conv2d, Conv3d
from .linear import Linear

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Linear"]
