"""What networks for images share."""

from __future__ import annotations

import math

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F


def interpolated_positions(positions: Tensor, grid: tuple[int, int], leading: int) -> Tensor:
    """Return learned positions for an image of another size than the network was made for, by bicubic interpolation.

    Args:
        positions: [1, leading + patches, width], of a square of patches.
        grid: how many patches the image has, down and across.
        leading: how many tokens stand before the patches.
    """
    count = positions.shape[1] - leading
    side = math.isqrt(count)
    if grid == (side, side):
        return positions
    square = positions[:, leading:].reshape(1, side, side, -1).permute(0, 3, 1, 2).float()
    patches = F.interpolate(square, size=grid, mode="bicubic", align_corners=False).to(positions.dtype)
    patches = patches.permute(0, 2, 3, 1).reshape(1, grid[0] * grid[1], -1)
    return torch.cat([positions[:, :leading], patches], dim=1)
