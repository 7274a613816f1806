"""Resampling to other sizes."""

from __future__ import annotations

from typing import Any

from webgpu_torch_core import Tensor

from webgpu_torch_nn import functional as F
from webgpu_torch_nn.modules.module import Module


class Upsample(Module):
    """Resamples [N, C, ...] to another size.

    Args:
        size: the output's sizes; or
        scale_factor: by how much each size grows.
        mode: "nearest", "linear", "bilinear", "bicubic" or "trilinear".
        align_corners: whether the corner elements keep their places in the linear and cubic modes.
        recompute_scale_factor: whether the factor is computed again from the rounded sizes.
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("recompute_scale_factor", True)
        super().__setstate__(state)  # type: ignore[misc]

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Resamples [N, C, height, width] by taking the nearest element."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Resamples [N, C, height, width] by bilinear interpolation that keeps the corners."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
