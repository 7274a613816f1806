"""Batch normalisations of quantised tensors with the ReLU behind them."""

from __future__ import annotations

from ....quantized.modules import batchnorm


class BNReLU2d(batchnorm.BatchNorm2d):
    """A batch normalisation of a quantised tensor ``[n, c, height, width]``, and a ReLU."""

    _relu = True


class BNReLU3d(batchnorm.BatchNorm3d):
    """A batch normalisation of a quantised tensor ``[n, c, depth, height, width]``, and a ReLU."""

    _relu = True
