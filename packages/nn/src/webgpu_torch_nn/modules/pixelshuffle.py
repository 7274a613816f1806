"""Channels to pixels and back."""

from __future__ import annotations

from webgpu_torch_core import Tensor

from webgpu_torch_nn import functional as F
from webgpu_torch_nn.modules.module import Module


class PixelShuffle(Module):
    """[..., C·r², H, W] to [..., C, H·r, W·r] (Shi et al., "Real-Time Single Image and Video Super-Resolution", 2016)."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """[..., C, H·r, W·r] to [..., C·r², H, W]."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"
