"""Padding at the ends of the last dimensions."""

from __future__ import annotations

from typing import ClassVar

from webgpu_torch_core import Tensor

from webgpu_torch_nn import functional as F
from webgpu_torch_nn.modules._ranked import _Ranked
from webgpu_torch_nn.modules.utils import _ntuple

Amounts = int | tuple[int, ...]


class _PadNd(_Ranked):
    """What all paddings hold.

    Args:
        padding: how much is added: an integer for every side, or (before, after) of the last dimension, then of the one
            before it, and so on; negative amounts cut off.
    """

    _mode: ClassVar[str]

    def __init__(self, padding: Amounts) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._spatial)(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    """Padding with one value."""

    def __init__(self, padding: Amounts, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pads the last dimension with a value."""


class ConstantPad2d(_ConstantPadNd):
    """Pads the last two dimensions with a value."""


class ConstantPad3d(_ConstantPadNd):
    """Pads the last three dimensions with a value."""


class _ZeroPadNd(_ConstantPadNd):
    """Padding with zeros."""

    def __init__(self, padding: Amounts) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPadNd, ConstantPad1d):
    """Pads the last dimension with zeros."""


class ZeroPad2d(_ZeroPadNd, ConstantPad2d):
    """Pads the last two dimensions with zeros."""


class ZeroPad3d(_ZeroPadNd, ConstantPad3d):
    """Pads the last three dimensions with zeros."""


class _CircularPadNd(_PadNd):
    """Padding with the other end's elements."""

    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        rank = self._spatial
        if input.dim() not in (rank + 1, rank + 2):
            raise ValueError(f"expected {rank + 1}D or {rank + 2}D input (got {input.dim()}D input)")
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """Pads the last dimension with the elements of its other end."""


class CircularPad2d(_CircularPadNd):
    """Pads the last two dimensions with the elements of their other ends."""


class CircularPad3d(_CircularPadNd):
    """Pads the last three dimensions with the elements of their other ends."""


class _ReflectionPadNd(_PadNd):
    """Padding with the elements next to the end, mirrored without the end itself."""

    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Pads the last dimension with its mirror image."""


class ReflectionPad2d(_ReflectionPadNd):
    """Pads the last two dimensions with their mirror images."""


class ReflectionPad3d(_ReflectionPadNd):
    """Pads the last three dimensions with their mirror images."""


class _ReplicationPadNd(_PadNd):
    """Padding with the end's own element."""

    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Pads the last dimension with its first and last elements."""


class ReplicationPad2d(_ReplicationPadNd):
    """Pads the last two dimensions with their first and last elements."""


class ReplicationPad3d(_ReplicationPadNd):
    """Pads the last three dimensions with their first and last elements."""
