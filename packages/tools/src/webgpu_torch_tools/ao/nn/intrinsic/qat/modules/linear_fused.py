"""Linear layers that are trained together with the batch normalisation behind them."""

from __future__ import annotations

import webgpu_torch_nn as nn
from webgpu_torch._holding import Answer
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F
from webgpu_torch_nn.utils.fusion import fuse_linear_bn_weights

from ...modules import fused


class LinearBn1d(nn.Linear):
    """A :class:`torch.nn.Linear`, ``[n, in_features]``, and a batch normalisation, for training.

    Args:
        in_features, out_features, bias: the layer's.
        eps, momentum: the normalisation's.
        freeze_bn: let the normalisation's averages stay.
        qconfig: the configuration.

    Raises:
        AssertionError: there is none.
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, eps: float = 1e-05, momentum: float = 0.1,
        freeze_bn: bool = False, qconfig: Answer = None, device: Answer = None, dtype: Answer = None,
    ) -> None:  # fmt: skip
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self.qconfig, self.freeze_bn = qconfig, freeze_bn
        self.bn: Answer = nn.BatchNorm1d(out_features, eps, momentum, True, True)
        self.weight_fake_quant: Answer = qconfig.weight()
        self.freeze_bn_stats() if freeze_bn else self.update_bn_stats()

    def update_bn_stats(self) -> LinearBn1d:
        """Let the normalisation's averages follow from now on."""
        self.freeze_bn, self.bn.training = False, True
        return self

    def freeze_bn_stats(self) -> LinearBn1d:
        """Let the normalisation's averages stay from now on."""
        self.freeze_bn, self.bn.training = True, False
        return self

    def train(self, mode: bool = True) -> LinearBn1d:
        """Set training mode; averages that are to stay, stay."""
        self.training = mode
        for each in () if self.freeze_bn else self.children():
            each.train(mode)
        return self

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised result: ``[n, out_features]``."""
        factor = self.bn.weight / (self.bn.running_var + self.bn.eps).sqrt()
        scaled = self.weight_fake_quant(self.weight * factor.reshape(-1, 1))
        original = F.linear(input, scaled) / factor
        return self.bn(original if self.bias is None else original + self.bias)

    def fused_weight_and_bias(self) -> tuple[Answer, Answer]:
        """Return the weight ``[out_features, in_features]`` and the bias ``[out_features]`` of the one layer that does both."""
        bn = self.bn
        return fuse_linear_bn_weights(
            self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
        )

    @classmethod
    def from_float(cls, mod: Answer, use_precomputed_fake_quant: bool = False) -> Answer:
        """Return the module for a fused one, which shares its weights and its configuration.

        Raises:
            AssertionError: the module is no such one, or has no configuration.
        """
        qconfig = getattr(mod, "qconfig", None)
        if type(mod) is not fused.LinearBn1d or not qconfig:
            raise AssertionError("qat.LinearBn1d.from_float only works for LinearBn1d with a configuration")
        linear, bn = mod[0], mod[1]
        made = cls(
            linear.in_features, linear.out_features, linear.bias is not None, bn.eps, bn.momentum, False, qconfig
        )
        made.weight, made.bias = linear.weight, linear.bias
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(made.bn, name, getattr(bn, name))
        return made

    def to_float(self) -> Answer:
        """Return one layer of ``torch.nn`` that does both."""
        made: Answer = nn.Linear(self.in_features, self.out_features)
        made.weight, made.bias = self.fused_weight_and_bias()
        return made
