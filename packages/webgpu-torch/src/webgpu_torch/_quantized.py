"""Quantised tensors, which are made and computed with by webgpu-torch-tools: loaded when the first one is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from webgpu_torch_core import Tensor, dtype
from webgpu_torch_core.files.permissions import add_rebuilder

from ._holding import Answer
from ._parts import part

if TYPE_CHECKING:
    from webgpu_torch_tools._quantized import QuantizedTensor


def _making() -> Answer:
    return part("webgpu_torch_tools._quantized", "tools")


def quantize_per_tensor(
    input: Tensor | Sequence[Tensor], scale: float | Tensor, zero_point: int | Tensor, dtype: dtype
) -> QuantizedTensor:
    """Return integers ``clamp(round(input / scale) + zero_point)`` that stand for a tensor's numbers, as a quantised tensor.

    Args:
        input: float32, of any shape; several tensors give as many, with a scale and a zero point each.
        scale: the step between numbers.
        zero_point: the integer that stands for zero.
        dtype: ``torch.quint8``, ``torch.qint8`` or ``torch.qint32``.

    Raises:
        RuntimeError: numbers that are not float32, another type, or a zero point outside of it.
    """
    return _making().quantize_per_tensor(input, scale, zero_point, dtype)


def quantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: dtype
) -> QuantizedTensor:
    """Return what :func:`quantize_per_tensor` does with a scale ``[n]`` and a zero point ``[n]`` for each position of dimension ``axis``.

    Raises:
        RuntimeError: numbers that are not float32, another type, a zero point outside of it, or as many scales as the dimension has
            not positions.
    """
    return _making().quantize_per_channel(input, scales, zero_points, axis, dtype)


def quantize_per_tensor_dynamic(input: Tensor, dtype: dtype, reduce_range: bool) -> QuantizedTensor:
    """Return what :func:`quantize_per_tensor` does with the scale and zero point that cover the least and the greatest number.

    Args:
        input: float32, of any shape.
        dtype: ``torch.quint8`` or ``torch.qint8``.
        reduce_range: leave the integers' highest bit unused.

    Raises:
        RuntimeError: numbers that are not float32, or another type.
    """
    return _making().quantize_per_tensor_dynamic(input, dtype, reduce_range)


def dequantize(input: Tensor | Sequence[Tensor]) -> Answer:
    """Return the numbers of a quantised tensor as float32, ``(integer - zero_point) * scale``; of several tensors, of each."""
    return tuple(each.dequantize() for each in input) if isinstance(input, list | tuple) else input.dequantize()  # type: ignore[union-attr]


def int_repr(input: Tensor) -> Tensor:
    """Return a quantised tensor's integers, of the same shape.

    Raises:
        NotImplementedError: the tensor is not quantised.
    """
    return input.int_repr()


def q_scale(input: Tensor) -> float:
    """Return a quantised tensor's scale.

    Raises:
        NotImplementedError: the tensor is not quantised.
        RuntimeError: it has a scale for each position of a dimension.
    """
    return input.q_scale()


def q_zero_point(input: Tensor) -> int:
    """Return a quantised tensor's zero point.

    Raises:
        NotImplementedError: the tensor is not quantised.
        RuntimeError: it has a zero point for each position of a dimension.
    """
    return input.q_zero_point()


def q_per_channel_scales(input: Tensor) -> Tensor:
    """Return a quantised tensor's scales ``[n]``.

    Raises:
        NotImplementedError: the tensor is not quantised.
        RuntimeError: it has one scale.
    """
    return input.q_per_channel_scales()


def q_per_channel_zero_points(input: Tensor) -> Tensor:
    """Return a quantised tensor's zero points ``[n]``.

    Raises:
        NotImplementedError: the tensor is not quantised.
        RuntimeError: it has one zero point.
    """
    return input.q_per_channel_zero_points()


def q_per_channel_axis(input: Tensor) -> int:
    """Return the dimension of a quantised tensor for each of whose positions there is a scale.

    Raises:
        NotImplementedError: the tensor is not quantised.
        RuntimeError: it has one scale.
    """
    return input.q_per_channel_axis()


def empty_quantized(size: Sequence[int], qtensor: Tensor, **options: Answer) -> QuantizedTensor:
    """Return a quantised tensor of a size with any integers, of the type, scale and zero point of another one.

    Raises:
        RuntimeError: the other one has a scale for each position of a dimension.
    """
    scheme = _making().PerTensor(qtensor.q_scale(), qtensor.q_zero_point())
    return _making().empty(size, scheme, options.get("dtype") or qtensor.dtype, device=qtensor.device)


def _empty_affine_quantized(
    *size: Answer,
    scale: float = 1.0,
    zero_point: int = 0,
    dtype: dtype | None = None,
    device: Answer = None,
    **_: Answer,
) -> QuantizedTensor:
    """Return a quantised tensor of a size with any integers."""
    return _making().empty(size, _making().PerTensor(float(scale), int(zero_point)), dtype, device=device)


def _empty_per_channel_affine_quantized(
    *size: Answer,
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    dtype: dtype | None = None,
    device: Answer = None,
    **_: Answer,
) -> QuantizedTensor:
    """Return a quantised tensor of a size with any integers and a scale for each position of a dimension."""
    return _making().empty(size, _making().channels(scales, zero_points, axis), dtype, device=device)


def _make_per_tensor_quantized_tensor(input: Tensor, scale: float, zero_point: int) -> QuantizedTensor:
    """Return a quantised tensor that holds integers: uint8, int8 or int32."""
    return _making().of_integers(input, _making().PerTensor(float(scale), int(zero_point)))


def _make_per_channel_quantized_tensor(input: Tensor, scale: Tensor, zero_point: Tensor, axis: int) -> QuantizedTensor:
    """Return a quantised tensor that holds integers, with a scale for each position of a dimension."""
    return _making().of_integers(input, _making().channels(scale, zero_point, axis))


def rebuild(
    storage: Answer, storage_offset: int, size: Sequence[int], stride: Sequence[int], quantizer_params: Answer,
    requires_grad: bool = False, backward_hooks: object = None,
) -> QuantizedTensor:  # fmt: skip
    """Return the quantised tensor that a file of ``torch.save`` holds."""
    return _making().rebuild(storage, storage_offset, size, stride, quantizer_params)


add_rebuilder("torch._utils._rebuild_qtensor", rebuild)
