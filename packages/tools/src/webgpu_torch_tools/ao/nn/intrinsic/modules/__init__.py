"""Modules that quantisation takes together."""

from __future__ import annotations

from webgpu_torch_nn._exports import public_names as _public_names

from .fused import *
from .fused import _FusedModule as _FusedModule

__all__ = _public_names(globals())
