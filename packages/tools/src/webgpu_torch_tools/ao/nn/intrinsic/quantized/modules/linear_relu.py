"""Linear layers in integers with the activation behind them."""

from __future__ import annotations

import webgpu_torch_core as torch
from webgpu_torch._holding import Answer
from webgpu_torch.library import ops
from webgpu_torch_core import Tensor

from ....quantized.modules import linear
from ...modules import fused


class LinearReLU(linear.Linear):
    """A linear layer in integers, ``[..., in_features]``, and a ReLU."""

    _FLOAT_MODULE = fused.LinearReLU

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result: ``[..., out_features]``."""
        return ops.quantized.linear_relu(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedLinearReLU"


class LinearLeakyReLU(linear.Linear):
    """A linear layer in integers, ``[..., in_features]``, and a leaky ReLU.

    Args:
        in_features, out_features, bias, dtype: the layer's.
        negative_slope: what negative numbers are multiplied with.
    """

    _FLOAT_MODULE = fused.LinearLeakyReLU

    def __init__(
        self,
        in_features: int,
        out_features: int,
        negative_slope: float,
        bias: bool = True,
        dtype: Answer = torch.qint8,
    ) -> None:
        super().__init__(in_features, out_features, bias, dtype)
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result: ``[..., out_features]``."""
        return ops.quantized.linear_leaky_relu(
            x, self._packed_params._packed_params, self.scale, self.zero_point, self.negative_slope
        )

    def _get_name(self) -> str:
        return "QuantizedLinearLeakyReLU"

    @classmethod
    def from_float(cls, mod: Answer, use_precomputed_fake_quant: bool = False) -> Answer:
        """Return the layer for a fused one that observed what it gave."""
        return _with_activation(cls, mod, mod[1].negative_slope)


class LinearTanh(linear.Linear):
    """A linear layer in integers, ``[..., in_features]``, and a hyperbolic tangent."""

    _FLOAT_MODULE = fused.LinearTanh

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result: ``[..., out_features]``."""
        return ops.quantized.linear_tanh(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedLinearTanh"

    @classmethod
    def from_float(cls, mod: Answer, use_precomputed_fake_quant: bool = False) -> Answer:
        """Return the layer for a fused one that observed what it gave."""
        return _with_activation(cls, mod)


def _with_activation(cls: Answer, mod: Answer, *more: float) -> Answer:
    """Return a layer with an activation for a fused one."""
    inner = mod[0]
    inner.qconfig, inner.activation_post_process = mod.qconfig, mod.activation_post_process
    plain = linear.Linear.from_float(inner)
    made = cls(inner.in_features, inner.out_features, *more)
    made.set_weight_bias(*plain._weight_bias())
    made.scale, made.zero_point = plain.scale, plain.zero_point
    return made
