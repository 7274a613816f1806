"""Linear layers that are trained together with the ReLU behind them."""

from __future__ import annotations

import webgpu_torch_nn as nn
from webgpu_torch._holding import Answer
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F

from ....qat.modules.linear import Linear
from ...modules import fused


class LinearReLU(Linear):
    """A :class:`torch.nn.Linear`, ``[..., in_features]``, and a ReLU, for training."""

    _FLOAT_MODULE = fused.LinearReLU

    def forward(self, input: Tensor) -> Tensor:
        """Return the ReLU of the layer's result: ``[..., out_features]``."""
        return F.relu(super().forward(input))

    def to_float(self) -> Answer:
        """Return the fused module of ``torch.nn`` with this weight."""
        return fused.LinearReLU(super().to_float(), nn.ReLU())
