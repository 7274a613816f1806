"""Modules of quantised networks, and of those that are prepared for it."""

from __future__ import annotations

from . import intrinsic as intrinsic
from . import qat as qat
from . import quantized as quantized

__all__ = ["intrinsic", "qat", "quantized"]
