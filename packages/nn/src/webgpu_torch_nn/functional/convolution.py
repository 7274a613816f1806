"""Convolutions and their transposes."""

from __future__ import annotations

from webgpu_torch_core import Tensor
from webgpu_torch_core import conv1d as conv1d
from webgpu_torch_core import conv2d as conv2d
from webgpu_torch_core import conv3d as conv3d
from webgpu_torch_core import conv_transpose1d as conv_transpose1d
from webgpu_torch_core import conv_transpose2d as conv_transpose2d
from webgpu_torch_core import conv_transpose3d as conv_transpose3d


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """:func:`conv1d` of sequences [time, batch, in] with weight [kernel, in, out] and bias [out].

    Raises:
        RuntimeError: a rank is wrong, or sizes do not fit.
    """
    for tensor, rank, title in ((input, 3, "Input"), (weight, 3, "Weight"), (bias, 1, "Bias")):
        if tensor.ndim != rank:
            places = "time, batch, channel" if title == "Input" else "kernel width, input channels, output channels"
            raise RuntimeError("Bias must be 1-D" if title == "Bias" else f"{title} must have 3 dims: {places}.")
    if input.shape[2] != weight.shape[1]:
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if weight.shape[2] != bias.shape[0]:
        raise RuntimeError("Bias size must equal dim 2 in the weight tensor (output channels).")
    return conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)
