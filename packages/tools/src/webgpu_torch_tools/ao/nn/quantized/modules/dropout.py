"""Dropout of quantised tensors, which drops nothing: they are not trained."""

from __future__ import annotations

import webgpu_torch_nn as nn
from webgpu_torch_core import Tensor


class Dropout(nn.Dropout):
    """:class:`torch.nn.Dropout` of a quantised tensor."""

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of any shape as it is."""
        return input

    def _get_name(self) -> str:
        return "QuantizedDropout"

    @classmethod
    def from_float(cls, mod: nn.Dropout, use_precomputed_fake_quant: bool = False) -> Dropout:
        """Return the module for one of floating-point numbers."""
        return cls(mod.p, mod.inplace)

    @classmethod
    def from_reference(cls, mod: nn.Dropout, scale: float, zero_point: int) -> Dropout:
        """Return the module for one of floating-point numbers."""
        return cls(mod.p, mod.inplace)
