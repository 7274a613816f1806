"""Convolution."""

from __future__ import annotations

import math
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn import functional as F
from webgpu_torch_nn import init
from webgpu_torch_nn.modules.module import Module
from webgpu_torch_nn.parameter import Parameter

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def _pair(value: Any) -> tuple[int, int]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value, value)


class Conv2d(Module):
    """Two-dimensional cross-correlation.

    Args:
        in_channels, out_channels: channels of the input [N, C, H, W] (or [C, H, W]) and of the output.
        kernel_size, stride, dilation: an integer or a pair (height, width).
        padding: an integer, a pair, "valid" (none) or "same" (the output has the input's size; stride 1 only).
        groups: how many independent groups the channels form.
        bias: whether a bias [out_channels] is added.
        padding_mode: "zeros", "reflect", "replicate" or "circular".

    The weight is [out_channels, in_channels / groups, *kernel_size]; both start uniform over ±1 / sqrt(fan_in).

    Raises:
        ValueError: an argument is out of range; the message says which.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: str | int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
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
        self.kernel_size = _pair(kernel_size)
        self.stride = _pair(stride)
        self.padding = padding if isinstance(padding, str) else _pair(padding)
        self.dilation = _pair(dilation)
        self.transposed = False
        self.output_padding = (0, 0)
        self.groups = groups
        self.padding_mode = padding_mode
        self._check_padding()
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(torch.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(torch.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _check_padding(self) -> None:
        if isinstance(self.padding, str):
            if self.padding not in ("same", "valid"):
                raise ValueError(
                    f"Invalid padding string '{self.padding}', should be one of {{'valid', 'same'}}, "
                    "or an int / tuple of int(s)."
                )
            if self.padding == "same" and any(stride != 1 for stride in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if self.padding_mode not in PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {list(PADDING_MODES)}, but got padding_mode='{self.padding_mode}'"
            )

    def reset_parameters(self) -> None:
        """Draw new starting values, the weight's first."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _explicit_padding(self) -> list[int]:
        """Return the padding as F.pad takes it: last dimension first, (before, after) for each."""
        if self.padding == "valid":
            return [0, 0, 0, 0]
        amounts: list[int] = []
        for axis in (1, 0):
            if isinstance(self.padding, str):
                total = self.dilation[axis] * (self.kernel_size[axis] - 1)
                amounts += [total // 2, total - total // 2]
            else:
                amounts += [self.padding[axis], self.padding[axis]]
        return amounts

    def forward(self, input: Tensor) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._explicit_padding(), mode=self.padding_mode)
            padding = (0, 0)
        return F.conv2d(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0, 0):
            text += f", padding={self.padding}"
        if self.dilation != (1, 1):
            text += f", dilation={self.dilation}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text
