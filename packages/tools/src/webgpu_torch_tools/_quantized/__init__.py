"""Quantised tensors: integers that stand for numbers, their arithmetic, and the operations of ``torch.ops.quantized``."""

from __future__ import annotations

from .making import (
    channels,
    empty,
    of_integers,
    quantize_per_channel,
    quantize_per_tensor,
    quantize_per_tensor_dynamic,
    rebuild,
)
from .schemes import PerTensor
from .tensor import QuantizedTensor

__all__ = [
    "PerTensor", "QuantizedTensor", "channels", "empty", "of_integers", "quantize_per_channel", "quantize_per_tensor",
    "quantize_per_tensor_dynamic", "rebuild",
]  # fmt: skip
