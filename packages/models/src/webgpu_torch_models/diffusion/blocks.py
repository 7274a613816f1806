"""What the U-Net and the autoencoder share: residual blocks of convolutions, and changes of size."""

from __future__ import annotations

from webgpu_torch_core import Tensor
from webgpu_torch_nn import Conv2d, GroupNorm, Linear, Module
from webgpu_torch_nn import functional as F


class ResnetBlock(Module):
    """Two convolutions, each on the normalised and activated input, added to it.

    Args:
        inputs, outputs: channels.
        groups, epsilon: of the norms.
        time: width of the embedding of time that is added between; None where there is none.
    """

    def __init__(self, inputs: int, outputs: int, groups: int, epsilon: float, time: int | None = None) -> None:
        super().__init__()
        self.norm1 = GroupNorm(groups, inputs, eps=epsilon)
        self.conv1 = Conv2d(inputs, outputs, 3, padding=1)
        if time is not None:
            self.time_emb_proj = Linear(time, outputs)
        self.norm2 = GroupNorm(groups, outputs, eps=epsilon)
        self.conv2 = Conv2d(outputs, outputs, 3, padding=1)
        self.conv_shortcut = Conv2d(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x: Tensor, time: Tensor | None = None) -> Tensor:
        inner = self.conv1(F.silu(self.norm1(x)))
        if time is not None:
            inner = inner + self.time_emb_proj(F.silu(time))[:, :, None, None]
        inner = self.conv2(F.silu(self.norm2(inner)))
        return (x if self.conv_shortcut is None else self.conv_shortcut(x)) + inner


class Downsample(Module):
    """Half the size, by a convolution; padding 0 pads below and on the right, as autoencoders do."""

    def __init__(self, channels: int, padding: int) -> None:
        super().__init__()
        self.conv = Conv2d(channels, channels, 3, stride=2, padding=padding)
        self.padding = padding

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x if self.padding else F.pad(x, (0, 1, 0, 1)))


class Upsample(Module):
    """Twice the size (or a given one), by repetition and a convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor, size: tuple[int, int] | None = None) -> Tensor:
        if size is None:
            size = (2 * x.shape[2], 2 * x.shape[3])
        return self.conv(F.interpolate(x, size=size, mode="nearest"))


class TimestepEmbedding(Module):
    """Two linear maps with SiLU between them."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.linear_1, self.linear_2 = Linear(inputs, width), Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_2(F.silu(self.linear_1(x)))
