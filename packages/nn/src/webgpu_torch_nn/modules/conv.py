"""Convolutions and their transposes."""

from __future__ import annotations

import math
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn import functional as F
from webgpu_torch_nn import init
from webgpu_torch_nn.modules._ranked import _Ranked
from webgpu_torch_nn.modules.utils import _reverse_repeat_tuple
from webgpu_torch_nn.parameter import Parameter

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")
Sizes = int | tuple[int, ...]


class _ConvNd(_Ranked):
    """What all convolutions hold.

    Args:
        in_channels, out_channels: channels of the input [N, C, ...] (or [C, ...]) and of the output.
        kernel_size, stride, dilation: an integer or one per dimension.
        padding: an integer, one per dimension, "valid" (none) or "same" (the output has the input's size; stride 1 only).
        groups: how many independent groups the channels form.
        bias: whether a bias [out_channels] is added.
        padding_mode: "zeros", "reflect", "replicate" or "circular".

    Raises:
        ValueError: an argument is out of range; the message says which.
    """

    __constants__ = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]
    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int
    padding_mode: str

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._check_padding()
        self._reversed_padding_repeated_twice = self._explicit_padding()
        ends = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(torch.empty((*ends, *kernel_size), device=device, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(torch.empty(out_channels, device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def _check_padding(self) -> None:
        if isinstance(self.padding, str):
            if self.padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string '{self.padding}', should be one of {{'valid', 'same'}}")
            if self.padding == "same" and any(stride != 1 for stride in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if self.padding_mode not in PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {list(PADDING_MODES)}, but got padding_mode='{self.padding_mode}'"
            )

    def _explicit_padding(self) -> list[int]:
        """Return the padding as F.pad takes it: last dimension first, (before, after) for each."""
        if not isinstance(self.padding, str):
            return list(_reverse_repeat_tuple(self.padding, 2))
        amounts: list[int] = []
        for taps, dilation in zip(reversed(self.kernel_size), reversed(self.dilation), strict=True):
            total = dilation * (taps - 1) if self.padding == "same" else 0
            amounts += [total // 2, total - total // 2]
        return amounts

    def reset_parameters(self) -> None:
        """Draw new starting values, uniform over ±1 / sqrt(fan_in), the weight's first."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _padded(self, input: Tensor) -> tuple[Tensor, Any]:
        """Return the input, padded if the mode is not zeros, and the padding that is left to the convolution."""
        if self.padding_mode == "zeros":
            return input, self.padding
        amounts = self._reversed_padding_repeated_twice
        return F.pad(input, amounts, mode=self.padding_mode), (0,) * len(self.kernel_size)

    def extra_repr(self) -> str:
        none = (0,) * len(self.kernel_size)
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != none:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * len(self.dilation):
            text += f", dilation={self.dilation}"
        if self.output_padding != none:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _Conv(_ConvNd):
    """The cross-correlations, for their ranks."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: str | Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = self._sizes
        super().__init__(
            in_channels, out_channels, sizes(kernel_size), sizes(stride), sizes(padding), sizes(dilation), False, sizes(0),
            groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        input, padding = self._padded(input)
        return self._function("conv")(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """One-dimensional cross-correlation; the weight is [out_channels, in_channels / groups, length]."""


class Conv2d(_Conv):
    """Two-dimensional cross-correlation; the weight is [out_channels, in_channels / groups, height, width]."""


class Conv3d(_Conv):
    """Three-dimensional cross-correlation; the weight is [out_channels, in_channels / groups, depth, height, width]."""
