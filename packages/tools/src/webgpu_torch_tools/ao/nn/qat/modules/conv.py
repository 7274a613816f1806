"""Convolutions whose weights are rounded as integers would be, for training with it."""

from __future__ import annotations

from typing import ClassVar

import webgpu_torch_nn as nn
from webgpu_torch._holding import Answer
from webgpu_torch_core import Tensor
from webgpu_torch_nn.modules.conv import _Conv


class _ConvNd(_Conv):
    """What these convolutions hold beside those of ``torch.nn``: a configuration, and what rounds the weight.

    Raises:
        AssertionError: there is no configuration.
    """

    _FLOAT_MODULE: ClassVar[Answer]
    _FUSED: ClassVar[Answer] = None
    weight_fake_quant: Answer

    def __init__(self, *args: Answer, qconfig: Answer = None, **named: Answer) -> None:
        super().__init__(*args, **named)
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight()

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution with the rounded weight: ``[n, out, ...]``."""
        return self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod: Answer, use_precomputed_fake_quant: bool = False) -> Answer:
        """Return the convolution for one of ``torch.nn``, which shares its weight and its configuration.

        Raises:
            AssertionError: the module is no such convolution, or has no configuration.
        """
        qconfig = getattr(mod, "qconfig", None)
        if type(mod) not in (cls._FLOAT_MODULE, cls._FUSED):
            raise AssertionError(f"qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}")
        if not qconfig:
            raise AssertionError("Input float module must have a valid qconfig")
        mod = mod[0] if isinstance(mod, nn.Sequential) else mod
        made: Answer = cls(
            mod.in_channels, mod.out_channels, mod.kernel_size, mod.stride, mod.padding, mod.dilation, mod.groups,
            mod.bias is not None, mod.padding_mode, qconfig=qconfig,
        )  # fmt: skip
        made.weight, made.bias = mod.weight, mod.bias
        return made

    def to_float(self) -> Answer:
        """Return the module of ``torch.nn`` with this weight."""
        made: Answer = self._plain(
            self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding, self.dilation, self.groups,
            self.bias is not None, self.padding_mode,
        )  # fmt: skip
        made.weight = nn.Parameter(self.weight.detach())
        if self.bias is not None:
            made.bias = nn.Parameter(self.bias.detach())
        return (
            made if self._FUSED is None or type(self)._FLOAT_MODULE is not self._FUSED else self._FUSED(made, nn.ReLU())
        )

    _plain: ClassVar[Answer]


class Conv1d(_ConvNd, nn.Conv1d):
    """:class:`torch.nn.Conv1d`, ``[n, in, length]``, with a weight that is rounded as integers would be."""

    _FLOAT_MODULE, _plain = nn.Conv1d, nn.Conv1d


class Conv2d(_ConvNd, nn.Conv2d):
    """:class:`torch.nn.Conv2d`, ``[n, in, height, width]``, with a weight that is rounded as integers would be."""

    _FLOAT_MODULE, _plain = nn.Conv2d, nn.Conv2d


class Conv3d(_ConvNd, nn.Conv3d):
    """:class:`torch.nn.Conv3d`, ``[n, in, depth, height, width]``, with a weight that is rounded as integers would be."""

    _FLOAT_MODULE, _plain = nn.Conv3d, nn.Conv3d


__all__ = ["Conv1d", "Conv2d", "Conv3d"]
