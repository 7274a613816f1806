"""Batch normalisation of quantised tensors, with averages that stay."""

from __future__ import annotations

from typing import ClassVar

import webgpu_torch_core as torch
from webgpu_torch._holding import Answer
from webgpu_torch.library import ops
from webgpu_torch_core import Tensor
from webgpu_torch_nn.modules.batchnorm import _BatchNorm as _FloatBatchNorm

from ...intrinsic.modules import fused


class _BatchNorm(_FloatBatchNorm):
    """What both are.

    Args:
        num_features: channels.
        eps, momentum: the normalisation's.
    """

    _dims: ClassVar[int]
    _relu: ClassVar[bool] = False
    scale: Tensor
    zero_point: Tensor
    weight: Answer
    bias: Answer

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, device: Answer = None, dtype: Answer = None
    ) -> None:
        super().__init__(num_features, eps, momentum, True, True, device=device, dtype=dtype)
        self.register_buffer("scale", torch.tensor(1.0, device=device))
        self.register_buffer("zero_point", torch.tensor(0, device=device))

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised numbers: of the argument's shape."""
        name = f"batch_norm{self._dims}d{'_relu' if self._relu else ''}"
        return getattr(ops.quantized, name)(
            input, self.weight.detach(), self.bias.detach(), self.running_mean, self.running_var, self.eps, float(self.scale),
            int(self.zero_point),
        )  # fmt: skip

    def _get_name(self) -> str:
        return f"Quantized{'BNReLU' if self._relu else 'BatchNorm'}{self._dims}d"

    @classmethod
    def from_float(cls, mod: Answer, use_precomputed_fake_quant: bool = False) -> Answer:
        """Return the normalisation for one that observed what it gave."""
        activation = mod.activation_post_process
        mod = mod[0] if isinstance(mod, fused.BNReLU2d | fused.BNReLU3d) else mod
        scale, zero_point = activation.calculate_qparams()
        made: Answer = cls(mod.num_features, mod.eps)
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(made, name, getattr(mod, name))
        made.scale, made.zero_point = scale, zero_point
        return made


class BatchNorm2d(_BatchNorm):
    """:class:`torch.nn.BatchNorm2d` of a quantised tensor ``[n, c, height, width]``."""

    _dims = 2


class BatchNorm3d(_BatchNorm):
    """:class:`torch.nn.BatchNorm3d` of a quantised tensor ``[n, c, depth, height, width]``."""

    _dims = 3
