"""Making quantised tensors: of numbers, of integers, of what files hold."""

from __future__ import annotations

from collections.abc import Sequence

import webgpu_torch_core as torch
from webgpu_torch._holding import Answer
from webgpu_torch_core import Tensor, TypedStorage
from webgpu_torch_core.ir.dtypes import QUANTIZED
from webgpu_torch_core.ir.layouts import layout

from .choosing import choose_parameters
from .schemes import PerChannel, PerTensor, quantized_type
from .tensor import QuantizedTensor


def _check_zero_point(name: str, zero_point: int, kind: torch.dtype) -> None:
    if zero_point > kind.maximum:
        raise RuntimeError(f"{name} zero_point {zero_point} is above upper bound.")
    if zero_point < kind.minimum:
        raise RuntimeError(f"{name} zero_point {zero_point} is below lower bound.")


def quantize_per_tensor(
    input: Tensor | Sequence[Tensor], scale: float | Tensor, zero_point: int | Tensor, dtype: torch.dtype
) -> Answer:
    """Return ``clamp(round(input / scale) + zero_point)`` as a quantised tensor; of several tensors, one for each."""
    if isinstance(input, Sequence):
        steps, zeros = torch.as_tensor(scale).tolist(), torch.as_tensor(zero_point).tolist()
        return tuple(
            quantize_per_tensor(each, step, zero, dtype) for each, step, zero in zip(input, steps, zeros, strict=True)
        )
    step = scale.item() if isinstance(scale, Tensor) else float(scale)
    zero = int(zero_point.item() if isinstance(zero_point, Tensor) else zero_point)
    if input.dtype is not torch.float32:
        raise RuntimeError(f"Quantize only works on Float Tensor, got {input.dtype.title}")
    kind = quantized_type("quantize_per_tensor", dtype)
    _check_zero_point("quantize_tensor_per_tensor_affine", zero, kind)
    return QuantizedTensor.of(input.detach(), PerTensor(step, zero), kind)


def quantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: torch.dtype
) -> QuantizedTensor:
    """Return a quantised tensor with a scale and a zero point for each position of a dimension."""
    kind = quantized_type("quantize_per_channel", dtype)
    if input.dtype is not torch.float32:
        raise RuntimeError(f"quantize_tensor_per_channel_affine expects a Float Tensor, got {input.dtype.title}")
    scheme = channels(scales, zero_points, axis)
    if not 0 <= axis < input.ndim:
        raise RuntimeError(
            f"Channel axis out of range in per channel affine quantization. Got: {axis}Expected: [0, {input.ndim})"
        )
    if len(scales) != input.shape[axis]:
        raise RuntimeError(f"length of scales must equal to channel, expected {input.shape[axis]} got, {len(scales)}")
    if not scheme.zero_points.is_floating_point():
        for each in scheme.zero_points.tolist():
            _check_zero_point("quantize_tensor_per_channel_affine", each, kind)
    return QuantizedTensor.of(input.detach(), scheme, kind)


def channels(scales: Tensor, zero_points: Tensor, axis: int) -> PerChannel:
    """Return scales and zero points as tensors keep them.

    Raises:
        RuntimeError: they are not as many.
    """
    if scales.ndim != 1:
        raise RuntimeError("scale tensor must have dimension 1")
    if zero_points.ndim != 1:
        raise RuntimeError("zero_points tensor must have dimension 1")
    if len(scales) != len(zero_points):
        raise RuntimeError("number of elements in scales and zero_points must match")
    steps, zeros = scales.detach().cpu(), zero_points.detach().cpu()
    if zeros.is_floating_point():
        return PerChannel(steps.to(torch.float32), zeros.to(torch.float32), axis)
    return PerChannel(steps.to(torch.float64), zeros.to(torch.int64), axis)


def quantize_per_tensor_dynamic(input: Tensor, dtype: torch.dtype, reduce_range: bool) -> QuantizedTensor:
    """Return a quantised tensor whose scale and zero point cover the least and the greatest number."""
    if input.dtype is not torch.float32:
        raise RuntimeError(f"Quantize only works on Float Tensor, got {input.dtype.title}")
    if dtype not in (torch.quint8, torch.qint8):
        raise RuntimeError(f"dtype {getattr(dtype, 'title', dtype)} not supported")
    scheme = choose_parameters(input, int(dtype.minimum), int(dtype.maximum), reduce_range)
    return QuantizedTensor.of(input.detach(), scheme, dtype)


_QUANTIZED = {kind.stored: kind for kind in QUANTIZED}


def of_integers(integers: Tensor, scheme: PerTensor | PerChannel) -> QuantizedTensor:
    """Return a quantised tensor that holds a copy of integers.

    Raises:
        RuntimeError: their type is none that quantised tensors hold.
    """
    if integers.dtype not in _QUANTIZED:
        raise RuntimeError(f"integers of {integers.dtype} stand for no numbers: int8, uint8 and int32 do")
    return QuantizedTensor.make(integers.clone(), scheme, _QUANTIZED[integers.dtype])


def empty(size: Sequence[int], scheme: PerTensor | PerChannel, dtype: object, **named: Answer) -> QuantizedTensor:
    """Return a quantised tensor of any integers."""
    kind = quantized_type("empty_affine_quantized", dtype)
    return QuantizedTensor.make(torch.empty(*size, dtype=kind.stored, **named), scheme, kind)


def rebuild(
    storage: TypedStorage, storage_offset: int, size: Sequence[int], stride: Sequence[int], quantizer_params: Answer
) -> QuantizedTensor:
    """Return the tensor that a file of ``torch.save`` holds.

    Raises:
        RuntimeError: it reaches beyond its storage, or its parts are of no quantised tensor.
    """
    if not isinstance(storage, TypedStorage) or not isinstance(quantizer_params, tuple):
        raise RuntimeError("a quantized tensor is made of a storage and of what makes numbers of its integers")
    kind = storage.dtype if storage.dtype in QUANTIZED else _QUANTIZED[storage.dtype]
    flat = storage.untyped().as_elements(kind.stored)
    sizes, steps = tuple(size), tuple(stride)
    reach = storage_offset + 1 + sum((each - 1) * step for each, step in zip(sizes, steps, strict=True))
    if all(sizes) and not (0 <= storage_offset and min(steps, default=0) >= 0 and reach <= flat.numel()):
        raise RuntimeError(f"a quantized tensor of shape {sizes} and strides {steps} reaches beyond its storage")
    held = Tensor._from_storage(flat._storage, layout(sizes, steps, storage_offset), kind.stored, flat.device)
    qscheme, *told = quantizer_params
    if qscheme in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        scale, zero_point = told
        return QuantizedTensor.make(held, PerTensor(float(scale), int(zero_point)), kind)
    scales, zero_points, axis = told
    pair = [each if isinstance(each, Tensor) else torch.tensor(each) for each in (scales, zero_points)]
    return QuantizedTensor.make(held, channels(pair[0], pair[1], int(axis)), kind)
