"""Scales and zero points of the least and the greatest number, one pair or many.

Source: Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", 2018.
"""

from __future__ import annotations

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor


def parameters(
    low: Tensor, high: Tensor, least: int, greatest: int, eps: Tensor, qscheme: torch.qscheme, middle: int
) -> tuple[Tensor, Tensor]:
    """Return the scales and zero points with which integers from ``least`` to ``greatest`` cover numbers: ``[1]`` for ``[]``."""
    below, above = torch.clamp(low, max=0), torch.clamp(high, min=0)
    floor = eps.to(low.device)
    if qscheme in (torch.per_tensor_symmetric, torch.per_channel_symmetric):
        reach = torch.maximum(-below, above)
        scale = torch.maximum(reach / ((greatest - least) / 2), floor)
        zero = torch.full(low.shape, middle, dtype=torch.int64, device=low.device)
    elif qscheme is torch.per_channel_affine_float_qparams:
        scale = (high - low) / (greatest - least)
        scale = torch.where(scale > floor, scale, torch.ones_like(scale))
        zero = -1 * low / scale
    else:
        scale = torch.maximum((above - below) / (greatest - least), floor)
        zero = (least - torch.round(below / scale).to(torch.int32)).clamp(least, greatest)
    return (scale.reshape(-1), zero.reshape(-1)) if low.ndim == 0 else (scale, zero)


def average_into(kept_low: Tensor, kept_high: Tensor, low: Tensor, high: Tensor, share: float) -> None:
    """Add a share of new bounds to kept ones of the same shape, in place; the first ones are kept as they are."""
    fresh = kept_low.numel() == 1 and kept_low.item() == float("inf")
    kept_low.copy_(low if fresh else kept_low + share * (low - kept_low))
    kept_high.copy_(high if fresh else kept_high + share * (high - kept_high))
