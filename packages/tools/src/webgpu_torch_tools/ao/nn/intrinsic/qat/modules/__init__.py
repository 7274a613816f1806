"""Fused modules whose weights are rounded as integers would be."""

from __future__ import annotations

from webgpu_torch_nn._exports import public_names as _public_names

from .conv_fused import *
from .linear_fused import *
from .linear_relu import *

__all__ = _public_names(globals())
