"""Linear layers with weights in integers with the ReLU behind them."""

from __future__ import annotations

from .....quantized.dynamic.modules import linear
from ....modules import fused


class LinearReLU(linear.Linear):
    """A linear layer, ``[..., in_features]``, for numbers that are quantised when they come, and a ReLU."""

    _relu, _FLOAT_MODULE = True, fused.LinearReLU

    def _get_name(self) -> str:
        return "DynamicQuantizedLinearReLU"
