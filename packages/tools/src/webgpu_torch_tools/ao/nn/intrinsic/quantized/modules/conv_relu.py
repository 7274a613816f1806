"""Convolutions in integers with the ReLU behind them."""

from __future__ import annotations

from ....quantized.modules import conv
from ...modules import fused


class ConvReLU1d(conv.Conv1d):
    """A convolution of ``[n, in, length]`` in integers, and a ReLU."""

    _relu, _FLOAT_MODULE = True, fused.ConvReLU1d


class ConvReLU2d(conv.Conv2d):
    """A convolution of ``[n, in, height, width]`` in integers, and a ReLU."""

    _relu, _FLOAT_MODULE = True, fused.ConvReLU2d


class ConvReLU3d(conv.Conv3d):
    """A convolution of ``[n, in, depth, height, width]`` in integers, and a ReLU."""

    _relu, _FLOAT_MODULE = True, fused.ConvReLU3d
