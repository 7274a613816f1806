"""Modules of quantised networks."""

from __future__ import annotations

import webgpu_torch_core as torch
import webgpu_torch_nn as nn
from webgpu_torch import quantize_per_tensor
from webgpu_torch._holding import Answer
from webgpu_torch_core import Tensor
from webgpu_torch_nn import MaxPool2d

from .activation import ELU, Hardswish, LeakyReLU, PReLU, ReLU6, Sigmoid, Softmax
from .batchnorm import BatchNorm2d, BatchNorm3d
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .dropout import Dropout
from .embedding_ops import Embedding
from .functional_modules import FloatFunctional, FXFloatFunctional, QFunctional
from .linear import Linear
from .normalization import GroupNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, LayerNorm

__all__ = [
    "ELU", "BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "DeQuantize", "Dropout", "Embedding", "FXFloatFunctional", "FloatFunctional", "GroupNorm",
    "Hardswish", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "LeakyReLU", "Linear", "MaxPool2d",
    "PReLU", "QFunctional", "Quantize", "ReLU6", "Sigmoid", "Softmax",
]  # fmt: skip


class Quantize(nn.Module):
    """Quantises a tensor.

    Args:
        scale, zero_point, dtype: as :func:`torch.quantize_per_tensor` has them.
        factory_kwargs: where the buffers are to be.
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, scale: Answer, zero_point: Answer, dtype: torch.dtype, factory_kwargs: dict[str, Answer] | None = None
    ) -> None:
        super().__init__()
        named = factory_kwargs or {}
        self.register_buffer("scale", torch.tensor([float(scale)], **named))
        self.register_buffer("zero_point", torch.tensor([int(zero_point)], dtype=torch.long, **named))
        self.dtype = dtype

    def forward(self, X: Tensor) -> Tensor:
        """Return a tensor of any shape, quantised."""
        return quantize_per_tensor(X, float(self.scale), int(self.zero_point), self.dtype)

    @staticmethod
    def from_float(mod: Answer, use_precomputed_fake_quant: bool = False) -> Quantize:
        """Return the module for a stub that observed what it was given.

        Raises:
            AssertionError: it observed nothing.
        """
        if not hasattr(mod, "activation_post_process"):
            raise AssertionError("mod must have an activation_post_process observer attached")
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        return Quantize(scale.float().item(), zero_point.long().item(), mod.activation_post_process.dtype)

    def extra_repr(self) -> str:
        """Return what the text of the module says."""
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(nn.Module):
    """Returns the numbers of a quantised tensor."""

    def forward(self, Xq: Tensor) -> Tensor:
        """Return the numbers of a tensor of any shape as float32."""
        return Xq.dequantize()

    @staticmethod
    def from_float(mod: nn.Module, use_precomputed_fake_quant: bool = False) -> DeQuantize:
        """Return the module for a stub."""
        return DeQuantize()
