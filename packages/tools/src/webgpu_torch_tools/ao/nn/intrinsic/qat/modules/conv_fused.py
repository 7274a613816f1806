"""Convolutions that are trained together with the batch normalisation and the ReLU behind them.

The weight is rounded with the normalisation's factor in it, as it will be when both are one convolution; the normalisation sees
what the convolution alone would give.

Source: Krishnamoorthi, "Quantizing deep convolutional networks for efficient inference", 2018.
"""

from __future__ import annotations

from typing import ClassVar

import webgpu_torch_nn as nn
from webgpu_torch._holding import Answer
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F
from webgpu_torch_nn.modules.conv import _Conv
from webgpu_torch_nn.utils.fusion import fuse_conv_bn_weights

from ....qat.modules import conv as trained
from ...modules import fused


class _ConvBnNd(_Conv):
    """A convolution and a batch normalisation.

    Args:
        args, named: those of the convolution; ``eps`` and ``momentum`` are the normalisation's.
        freeze_bn: let the normalisation's averages stay.
        qconfig: the configuration.

    Raises:
        AssertionError: there is none.
    """

    _version = 2
    _FLOAT_MODULE: ClassVar[Answer]
    _norm: ClassVar[Answer]
    _plain: ClassVar[Answer]
    _relu: ClassVar[bool] = False
    _without_norm: ClassVar[Answer] = None

    def __init__(
        self, *args: Answer, eps: float = 1e-05, momentum: float = 0.1, freeze_bn: bool = False, qconfig: Answer = None,
        **named: Answer,
    ) -> None:  # fmt: skip
        super().__init__(*args, **named)
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self.qconfig = qconfig
        self.freeze_bn = freeze_bn if self.training else True
        self.bn = self._norm(self.out_channels, eps, momentum)
        self.weight_fake_quant: Answer = qconfig.weight()
        if self.training:
            self.freeze_bn_stats() if freeze_bn else self.update_bn_stats()
        else:
            self.freeze_bn_stats()

    def update_bn_stats(self) -> _ConvBnNd:
        """Let the normalisation's averages follow from now on."""
        self.freeze_bn, self.bn.training = False, True
        return self

    def freeze_bn_stats(self) -> _ConvBnNd:
        """Let the normalisation's averages stay from now on."""
        self.freeze_bn, self.bn.training = True, False
        return self

    def train(self, mode: bool = True) -> _ConvBnNd:
        """Set training mode; averages that are to stay, stay."""
        self.training = mode
        for each in () if self.freeze_bn else self.children():
            each.train(mode)
        return self

    def reset_running_stats(self) -> None:
        """Begin the normalisation's averages anew."""
        self.bn.reset_running_stats()

    def forward(self, input: Tensor) -> Tensor:
        """Return what the convolution and what follows it give: ``[n, out, ...]``."""
        shape = (1, -1, *(1,) * (self.weight.ndim - 2))
        factor = self.bn.weight / (self.bn.running_var + self.bn.eps).sqrt()
        scaled = self.weight_fake_quant(self.weight * factor.reshape(-1, *(1,) * (self.weight.ndim - 1)))
        original = self._conv_forward(input, scaled, None) / factor.reshape(shape)
        if self.bias is not None:
            original = original + self.bias.reshape(shape)
        result = self.bn(original)
        return F.relu(result) if self._relu else result

    def fused_weight_and_bias(self) -> tuple[Answer, Answer]:
        """Return the weight ``[out, in / groups, ...]`` and the bias ``[out]`` of the one convolution that does both."""
        bn = self.bn
        return fuse_conv_bn_weights(self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)

    @classmethod
    def from_float(cls, mod: Answer, use_precomputed_fake_quant: bool = False) -> Answer:
        """Return the module for a fused one, which shares its weights and its configuration.

        Raises:
            AssertionError: the module is no such one, or has no configuration.
        """
        if type(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(f"qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}")
        qconfig = getattr(mod, "qconfig", None)
        if not qconfig:
            raise AssertionError("Input float module must have a valid config")
        conv, bn = mod[0], mod[1]
        made: Answer = cls(
            conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, conv.dilation, conv.groups,
            conv.bias is not None, conv.padding_mode, eps=bn.eps, momentum=bn.momentum, qconfig=qconfig,
        )  # fmt: skip
        made.weight, made.bias = conv.weight, conv.bias
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(made.bn, name, getattr(bn, name))
        return made

    def to_float(self) -> Answer:
        """Return one convolution of ``torch.nn`` that does both, fused with the ReLU if there is one."""
        made: Answer = self._plain(
            self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding, self.dilation, self.groups,
            True, self.padding_mode,
        )  # fmt: skip
        made.weight, made.bias = self.fused_weight_and_bias()
        return self._without_norm(made, nn.ReLU()) if self._relu else made


class ConvBn1d(_ConvBnNd, nn.Conv1d):
    """A :class:`torch.nn.Conv1d`, ``[n, in, length]``, and a batch normalisation, for training."""

    _FLOAT_MODULE, _norm, _plain = fused.ConvBn1d, nn.BatchNorm1d, nn.Conv1d


class ConvBnReLU1d(ConvBn1d):
    """A :class:`torch.nn.Conv1d`, ``[n, in, length]``, a batch normalisation and a ReLU, for training."""

    _FLOAT_MODULE, _relu, _without_norm = fused.ConvBnReLU1d, True, fused.ConvReLU1d


class ConvBn2d(_ConvBnNd, nn.Conv2d):
    """A :class:`torch.nn.Conv2d`, ``[n, in, height, width]``, and a batch normalisation, for training."""

    _FLOAT_MODULE, _norm, _plain = fused.ConvBn2d, nn.BatchNorm2d, nn.Conv2d


class ConvBnReLU2d(ConvBn2d):
    """A :class:`torch.nn.Conv2d`, ``[n, in, height, width]``, a batch normalisation and a ReLU, for training."""

    _FLOAT_MODULE, _relu, _without_norm = fused.ConvBnReLU2d, True, fused.ConvReLU2d


class ConvBn3d(_ConvBnNd, nn.Conv3d):
    """A :class:`torch.nn.Conv3d`, ``[n, in, depth, height, width]``, and a batch normalisation, for training."""

    _FLOAT_MODULE, _norm, _plain = fused.ConvBn3d, nn.BatchNorm3d, nn.Conv3d


class ConvBnReLU3d(ConvBn3d):
    """A :class:`torch.nn.Conv3d`, ``[n, in, depth, height, width]``, a batch normalisation and a ReLU, for training."""

    _FLOAT_MODULE, _relu, _without_norm = fused.ConvBnReLU3d, True, fused.ConvReLU3d


class _Rectified:
    """What computes a convolution with a rounded weight, and a ReLU."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the ReLU of the convolution: ``[n, out, ...]``."""
        return F.relu(super().forward(input))  # type: ignore[misc]


class ConvReLU1d(_Rectified, trained.Conv1d):
    """A :class:`torch.nn.Conv1d`, ``[n, in, length]``, and a ReLU, for training."""

    _FLOAT_MODULE, _FUSED = fused.ConvReLU1d, fused.ConvReLU1d


class ConvReLU2d(_Rectified, trained.Conv2d):
    """A :class:`torch.nn.Conv2d`, ``[n, in, height, width]``, and a ReLU, for training."""

    _FLOAT_MODULE, _FUSED = fused.ConvReLU2d, fused.ConvReLU2d


class ConvReLU3d(_Rectified, trained.Conv3d):
    """A :class:`torch.nn.Conv3d`, ``[n, in, depth, height, width]``, and a ReLU, for training."""

    _FLOAT_MODULE, _FUSED = fused.ConvReLU3d, fused.ConvReLU3d


def update_bn_stats(mod: nn.Module) -> None:
    """Let a normalisation's averages follow from now on; for ``model.apply``."""
    if isinstance(mod, _ConvBnNd):
        mod.update_bn_stats()


def freeze_bn_stats(mod: nn.Module) -> None:
    """Let a normalisation's averages stay from now on; for ``model.apply``."""
    if isinstance(mod, _ConvBnNd):
        mod.freeze_bn_stats()


__all__ = [
    "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d", "ConvReLU1d", "ConvReLU2d",
    "ConvReLU3d", "freeze_bn_stats", "update_bn_stats",
]  # fmt: skip
