"""The class of quantised tensors: 8-bit or 32-bit integers, and what makes numbers of them.

Loaded when the first one is made: from then on calls look for it among their arguments.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NoReturn, Self

import webgpu_torch_core as torch
from webgpu_torch import _quantized
from webgpu_torch._holding import Answer, HoldingTensor
from webgpu_torch_core import Size, Tensor, TypedStorage
from webgpu_torch_core.tensors.printing import format_with

from .schemes import PerChannel, PerTensor, Scheme, to_integers, to_numbers

TITLES = {torch.qint8: "QInt8", torch.quint8: "QUInt8", torch.qint32: "QInt32"}


class QuantizedStorage(TypedStorage):
    """The memory of a quantised tensor: integers that files know by another name.

    Args:
        integers: a tensor of them.
        kind: the quantised tensor's element type.
    """

    def __init__(self, integers: Tensor, kind: torch.dtype) -> None:
        super().__init__(wrap_storage=integers.untyped_storage(), dtype=integers.dtype)
        self._kind = kind

    @property
    def dtype(self) -> torch.dtype:  # type: ignore[override]
        """The element type."""
        return self._kind


class QuantizedTensor(HoldingTensor):
    """A tensor of integers that stand for numbers: ``(integer - zero point) * scale``."""

    _scheme: Scheme
    _kind: torch.dtype

    is_quantized = True

    @classmethod
    def make(cls, integers: Tensor, scheme: Scheme, kind: torch.dtype) -> Self:
        """Return one that holds integers."""
        return cls._made(integers, _scheme=scheme, _kind=kind)

    @classmethod
    def of(cls, values: Tensor, scheme: Scheme, kind: torch.dtype) -> Self:
        """Return the one that comes nearest to numbers."""
        return cls.make(to_integers(values, scheme, kind), scheme, kind)

    def _with(self, values: Tensor, scheme: Scheme | None = None) -> Self:
        return type(self).make(values, self._scheme if scheme is None else scheme, self._kind)

    def like(self, values: Tensor) -> Self:
        """Return numbers quantised as this tensor's are."""
        return type(self).of(values, self._scheme, self._kind)

    # What it is

    @property
    def _sizes(self) -> Size:  # type: ignore[override]
        return self._held.shape

    @property
    def dtype(self) -> torch.dtype:  # type: ignore[override]
        """The element type: ``torch.quint8``, ``qint8`` or ``qint32``."""
        return self._kind

    def is_signed(self) -> NoReturn:
        """Refuse, as PyTorch does.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("isSignedType not supported for quantized types")

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Refuse: integers have no gradients.

        Raises:
            RuntimeError: they are to have some.
        """
        if requires_grad:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        return self

    def qscheme(self) -> torch.qscheme:  # type: ignore[override]
        """Return how integers stand for numbers."""
        return self._scheme.qscheme

    @property
    def per_tensor(self) -> PerTensor:
        """The one scale and zero point.

        Raises:
            RuntimeError: there are several.
        """
        if isinstance(self._scheme, PerTensor):
            return self._scheme
        raise RuntimeError("Expected quantizer->qscheme() == kPerTensorAffine to be true, but got false.")

    @property
    def per_channel(self) -> PerChannel:
        """The scales and zero points.

        Raises:
            RuntimeError: there is one of each.
        """
        if isinstance(self._scheme, PerChannel):
            return self._scheme
        raise RuntimeError("Expected quantizer->qscheme() == kPerChannelAffine || quantizer->qscheme() == "
                           "kPerChannelAffineFloatQParams to be true, but got false.")  # fmt: skip

    def q_scale(self) -> float:  # type: ignore[override]
        """Return the scale."""
        return self.per_tensor.scale

    def q_zero_point(self) -> int:  # type: ignore[override]
        """Return the zero point."""
        return self.per_tensor.zero_point

    def q_per_channel_scales(self) -> Tensor:  # type: ignore[override]
        """Return the scales, ``[n]``."""
        return self.per_channel.scales

    def q_per_channel_zero_points(self) -> Tensor:  # type: ignore[override]
        """Return the zero points, ``[n]``."""
        return self.per_channel.zero_points

    def q_per_channel_axis(self) -> int:  # type: ignore[override]
        """Return the dimension that has a scale for each position."""
        return self.per_channel.axis

    def int_repr(self) -> Tensor:  # type: ignore[override]
        """Return the integers."""
        return self._held.clone()

    def dequantize(self) -> Tensor:
        """Return the numbers as float32."""
        return to_numbers(self._held, self._scheme)

    def type(self, dtype: object = None, **_: object) -> str:  # type: ignore[override]
        """Return the name of the type.

        Raises:
            RuntimeError: another type is asked for.
        """
        if dtype is not None:
            refuse_type()
        return f"torch.quantized.{TITLES[self._kind]}Tensor"

    def storage(self) -> QuantizedStorage:
        """Return the memory."""
        return QuantizedStorage(self._held, self._kind)

    _typed_storage = storage

    def item(self) -> float:
        """Return the only number.

        Raises:
            RuntimeError: there are others.
        """
        return self.dequantize().item()

    def __bool__(self) -> bool:
        return bool(self.dequantize())

    def __float__(self) -> float:
        return float(self.dequantize())

    def __len__(self) -> int:
        return len(self._held)

    # Python

    @staticmethod
    def _answer(func: Callable[..., Answer], path: str, args: Answer, kwargs: Answer) -> Answer:
        # They are made of this class.
        from .answers import answer

        return answer(func, path, args, kwargs)

    def __repr__(self, *, tensor_contents: object = None) -> str:
        ending = [] if self.device.type == "cpu" else [f"device='{self.device}'"]
        ending += [f"size={tuple(self.shape)}", f"dtype={self._kind!r}", f"quantization_scheme={self.qscheme()!r}"]
        if isinstance(self._scheme, PerTensor):
            ending += [f"scale={self._scheme.scale}", f"zero_point={self._scheme.zero_point}"]
        else:
            scales, zero_points, axis = self._scheme.scales, self._scheme.zero_points, self._scheme.axis
            ending += [f"scale={scales!r}", f"zero_point={zero_points!r}", f"axis={axis}"]
        return format_with(self.dequantize().flatten().tolist(), torch.float32, self.shape, ending)

    __str__ = __repr__

    def __format__(self, specification: str) -> str:
        return format(self.item(), specification) if not self.ndim else format(repr(self), specification)

    def __reduce_ex__(self, protocol: object) -> tuple[Answer, ...]:
        scheme: Any = self._scheme
        told = scheme if isinstance(scheme, PerTensor) else (scheme.scales, scheme.zero_points, scheme.axis)
        place = (self.storage(), self.storage_offset(), tuple(self.shape), self.stride())
        return _quantized.rebuild, (*place, (self.qscheme(), *told), False, OrderedDict())

    def __deepcopy__(self, memo: dict[int, Answer]) -> Self:
        made = memo[id(self)] = self._with(copy.deepcopy(self._held, memo))
        return made


def refuse_type() -> NoReturn:
    """Refuse to convert integers to another type.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("Creation of quantized tensor requires quantized dtype like torch.quint8")
