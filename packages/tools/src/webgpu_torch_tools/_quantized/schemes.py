"""What makes numbers of a tensor's integers: a scale and a zero point, for all of it or for each position of a dimension."""

from __future__ import annotations

import struct
from typing import NamedTuple, TypeAlias

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.ir.dtypes import QUANTIZED
from webgpu_torch_core.record.devices import has_float64

#: the largest float32 below 2 ** 31: what is beyond it is no int32
_LARGEST = 2147483520.0


def single(value: float) -> float:
    """Return the float32 number nearest to one."""
    return struct.unpack("f", struct.pack("f", value))[0]


class PerTensor(NamedTuple):
    """One scale and one zero point."""

    scale: float
    zero_point: int

    qscheme = torch.per_tensor_affine
    axis = -1

    def standing(self, held: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scale as float32 and the zero point as they stand beside integers."""
        return _scalar(self.scale, torch.float32, held.device), _scalar(self.zero_point, torch.int32, held.device)

    def inverse(self, values: Tensor) -> Tensor:
        """Return what numbers are multiplied with: ``1 / scale`` in float32."""
        # Divided here: a device's own division need not be exact.
        return _scalar(single(1.0 / single(self.scale)), torch.float32, values.device)

    def moved(self, device: torch.device) -> PerTensor:
        """Return the same for integers on a device."""
        return self

    def same(self, other: Scheme) -> bool:
        """Return whether equal integers stand for equal numbers."""
        return self == other


class PerChannel:
    """A scale and a zero point for each position of a dimension.

    Args:
        scales: ``[n]``, float64; float32 with floating-point zero points.
        zero_points: ``[n]``, int64 or float32.
        axis: the dimension.
    """

    def __init__(self, scales: Tensor, zero_points: Tensor, axis: int) -> None:
        self.scales, self.zero_points, self.axis = scales, zero_points, axis
        floating = zero_points.is_floating_point()
        self.qscheme = torch.per_channel_affine_float_qparams if floating else torch.per_channel_affine

    def _beside(self, each: Tensor, count: int) -> Tensor:
        return each.reshape([-1 if dim == self.axis else 1 for dim in range(count)])

    def standing(self, held: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scales as float32 and the zero points as they stand beside integers."""
        kind = torch.float32 if self.zero_points.is_floating_point() else torch.int32
        pair = (self.scales.to(torch.float32), self.zero_points.to(kind))
        scale, zero = (self._beside(each.to(held.device), held.ndim) for each in pair)
        return scale, zero

    def inverse(self, values: Tensor) -> Tensor:
        """Return what numbers are multiplied with: ``1 / scale`` in float32, beside them."""
        inverse = [single(1.0 / single(each)) for each in self.scales.tolist()]
        made = torch.tensor(inverse, dtype=torch.float32, device=values.device)
        return self._beside(made, values.ndim)

    def moved(self, device: torch.device) -> PerChannel:
        """Return the same: scales stay on the CPU, where they have all their digits."""
        return self

    def at(self, axis: int) -> PerChannel:
        """Return the same of another dimension."""
        return PerChannel(self.scales, self.zero_points, axis)

    def same(self, other: Scheme) -> bool:
        """Return whether equal integers stand for equal numbers."""
        return (
            isinstance(other, PerChannel)
            and self.axis == other.axis
            and torch.equal(self.scales, other.scales)
            and torch.equal(self.zero_points, other.zero_points)
        )


Scheme: TypeAlias = PerTensor | PerChannel


def _scalar(value: float, kind: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(value, dtype=kind, device=device)


def quantized_type(name: str, kind: object) -> torch.dtype:
    """Return an element type of quantised tensors.

    Raises:
        RuntimeError: another type.
    """
    if kind not in QUANTIZED:
        title = getattr(kind, "title", kind)
        raise RuntimeError(
            f"{name}: ScalarType {title} is not supported in new_qtensor; torch.quint8, qint8 and qint32 are"
        )
    return kind  # type: ignore[return-value]


def fused(values: Tensor, factor: Tensor, summand: Tensor) -> Tensor:
    """Return ``values * factor + summand`` in float32, rounded once, as PyTorch's kernels compute it.

    A device without float64 rounds the product, too: integers then differ by one where a number is halfway between two.
    """
    if not has_float64(values.device):
        return values * factor + summand
    wide = values.to(torch.float64) * factor.to(torch.float64) + summand.to(torch.float64)
    return wide.to(torch.float32)


def to_integers(values: Tensor, scheme: Scheme, kind: torch.dtype) -> Tensor:
    """Return the integers that come nearest to numbers (ties to even), those that are out of reach clamped."""
    given, factor, zero = values.to(torch.float32), scheme.inverse(values), scheme.standing(values)[1]
    if kind is torch.qint32:
        # These have no kernel for vectors: the product is rounded, too.
        places = given * factor + zero
    else:
        places = fused(given, factor, zero)
    # What PyTorch makes of NaN: the instruction that converts it gives the least int32, and where integers are narrower, zero added
    # to that goes round to the greatest.
    wide = kind is torch.qint32
    whole = places.round().nan_to_num(kind.minimum if wide else kind.maximum, float("inf"), float("-inf"))
    held = whole.clamp(kind.minimum, min(kind.maximum, _LARGEST)).to(kind.stored)
    return held.masked_fill(whole > _LARGEST, kind.maximum) if wide else held


def to_numbers(held: Tensor, scheme: Scheme) -> Tensor:
    """Return ``(integer - zero point) * scale`` as float32."""
    scale, zero = scheme.standing(held)
    if zero.is_floating_point():
        return (held.to(torch.float32) - zero) * scale
    return (held.to(torch.int32) - zero).to(torch.float32) * scale
