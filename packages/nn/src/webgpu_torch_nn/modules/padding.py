"""Padding at the ends of the last dimensions."""

from __future__ import annotations

from typing import Any

from webgpu_torch_core import Tensor

from webgpu_torch_nn import functional as F
from webgpu_torch_nn.modules.module import Module
from webgpu_torch_nn.modules.utils import _ntuple, _pair, _quadruple

Amounts = int | tuple[int, ...]
_sextuple = _ntuple(6)


class _PadNd(Module):
    """What all paddings hold.

    Args:
        padding: how much is added: an integer for every side, or (before, after) of the last dimension, then of the one
            before it, and so on; negative amounts cut off.
    """

    padding: tuple[int, ...]

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    """Padding with one value."""

    value: float

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pads the last dimension with a value."""

    def __init__(self, padding: Amounts, value: float) -> None:
        super().__init__()
        self.padding = _pair(padding)
        self.value = value


class ConstantPad2d(_ConstantPadNd):
    """Pads the last two dimensions with a value."""

    def __init__(self, padding: Amounts, value: float) -> None:
        super().__init__()
        self.padding = _quadruple(padding)
        self.value = value


class ConstantPad3d(_ConstantPadNd):
    """Pads the last three dimensions with a value."""

    def __init__(self, padding: Amounts, value: float) -> None:
        super().__init__()
        self.padding = _sextuple(padding)
        self.value = value


class ZeroPad1d(ConstantPad1d):
    """Pads the last dimension with zeros."""

    def __init__(self, padding: Amounts) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Pads the last two dimensions with zeros."""

    def __init__(self, padding: Amounts) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Pads the last three dimensions with zeros."""

    def __init__(self, padding: Amounts) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _CircularPadNd(_PadNd):
    """Padding with the other end's elements."""

    rank: int

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self.rank)(padding)

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (self.rank + 1, self.rank + 2):
            raise ValueError(f"expected {self.rank + 1}D or {self.rank + 2}D input (got {input.dim()}D input)")
        return F.pad(input, self.padding, "circular")


class CircularPad1d(_CircularPadNd):
    """Pads the last dimension with the elements of its other end."""

    rank = 1


class CircularPad2d(_CircularPadNd):
    """Pads the last two dimensions with the elements of their other ends."""

    rank = 2


class CircularPad3d(_CircularPadNd):
    """Pads the last three dimensions with the elements of their other ends."""

    rank = 3


class _ReflectionPadNd(_PadNd):
    """Padding with the elements next to the end, mirrored without the end itself."""

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "reflect")


class ReflectionPad1d(_ReflectionPadNd):
    """Pads the last dimension with its mirror image."""

    def __init__(self, padding: Amounts) -> None:
        super().__init__()
        self.padding = _pair(padding)


class ReflectionPad2d(_ReflectionPadNd):
    """Pads the last two dimensions with their mirror images."""

    def __init__(self, padding: Amounts) -> None:
        super().__init__()
        self.padding = _quadruple(padding)


class ReflectionPad3d(_ReflectionPadNd):
    """Pads the last three dimensions with their mirror images."""

    def __init__(self, padding: Amounts) -> None:
        super().__init__()
        self.padding = _sextuple(padding)


class _ReplicationPadNd(_PadNd):
    """Padding with the end's own element."""

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "replicate")


class ReplicationPad1d(_ReplicationPadNd):
    """Pads the last dimension with its first and last elements."""

    def __init__(self, padding: Amounts) -> None:
        super().__init__()
        self.padding = _pair(padding)


class ReplicationPad2d(_ReplicationPadNd):
    """Pads the last two dimensions with their first and last elements."""

    def __init__(self, padding: Amounts) -> None:
        super().__init__()
        self.padding = _quadruple(padding)


class ReplicationPad3d(_ReplicationPadNd):
    """Pads the last three dimensions with their first and last elements."""

    def __init__(self, padding: Amounts) -> None:
        super().__init__()
        self.padding = _sextuple(padding)
