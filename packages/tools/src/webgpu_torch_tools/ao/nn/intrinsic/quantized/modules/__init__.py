"""Fused modules in integers."""

from __future__ import annotations

from .bn_relu import BNReLU2d, BNReLU3d
from .conv_relu import ConvReLU1d, ConvReLU2d, ConvReLU3d
from .linear_relu import LinearLeakyReLU, LinearReLU, LinearTanh

__all__ = [
    "BNReLU2d", "BNReLU3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearLeakyReLU", "LinearReLU", "LinearTanh",
]  # fmt: skip
