"""Numbers rounded as quantising and dequantising would, for training with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dispatch.registry import operation
from ...ir.dtypes import float16, float32, int32
from ...ir.layouts import wrap_dimension
from ...tensors.tensor import Tensor
from ..common import attach, type_title
from ..creation.factories import tensor

if TYPE_CHECKING:
    from ...tensors.type_aliases import Number


def _rounded(
    input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, what: str, title: str
) -> Tensor:
    if quant_min > quant_max:
        raise RuntimeError("`quant_min` should be less than or equal to `quant_max`.")
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"{what}\" not implemented for '{type_title(input)}'")
    values, inverse = input.detach().to(float32), 1.0 / scale.to(float32)
    if zero_point.dtype.is_floating_point:
        whole = (values * inverse + zero_point).round()
    else:
        whole = (values * inverse).round() + zero_point
    held = whole.clamp(quant_min, quant_max).where(whole == whole, float(quant_min))
    result = ((held - zero_point) * scale.to(float32)).to(input.dtype)
    inside = (whole >= quant_min) & (whole <= quant_max)
    return attach(result, title, (input,), lambda grad: grad * inside)


def _check_zero_point(zero_point: Tensor, quant_min: int, quant_max: int) -> None:
    if zero_point.numel() and not bool(((zero_point >= quant_min) & (zero_point <= quant_max)).all()):
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")


@operation("composite", method=False)
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Tensor | Number, zero_point: Tensor | int, quant_min: int, quant_max: int
) -> Tensor:
    """``(clamp(round(input / scale) + zero_point, quant_min, quant_max) - zero_point) * scale``, element by element; the gradient passes where nothing is clamped.

    Raises:
        NotImplementedError: elements that are no floating-point numbers.
        RuntimeError: an empty range, or a zero point given as a number outside of it.
    """
    step = scale if isinstance(scale, Tensor) else tensor(float(scale), dtype=float32, device=input.device)
    given = zero_point if isinstance(zero_point, Tensor) else tensor(int(zero_point), dtype=int32, device=input.device)
    if not isinstance(zero_point, Tensor) and quant_min <= quant_max and not quant_min <= zero_point <= quant_max:
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    return _rounded(
        input, step, given, quant_min, quant_max, "fake_quantize_tensor_cachemask_kernel_type_handling",
        "FakeQuantizePerTensorAffineCachemaskBackward0",
    )  # fmt: skip


@operation("composite", method=False)
def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """:func:`fake_quantize_per_tensor_affine` with a scale and a zero point for each position of a dimension.

    Raises:
        NotImplementedError: elements that are no floating-point numbers.
        RuntimeError: an empty range, zero points outside of it or of another type than int32, float32 and float16, or as many as the
            dimension has not.
    """
    if zero_point.dtype not in (int32, float32, float16):
        raise RuntimeError(f"Zero-point must be Int32, Float or Half, found {type_title(zero_point)}")
    if axis < 0:
        raise RuntimeError("`axis` must be between 0 and number of dimensions of input")
    dim = wrap_dimension(axis, input.ndim)
    if scale.ndim != 1 or zero_point.ndim != 1:
        raise RuntimeError("scale and zero point should be 1-D tensors")
    if scale.numel() != zero_point.numel():
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    if scale.numel() != input.shape[dim]:
        raise RuntimeError("dimensions of scale and zero-point are not consistent with input tensor")
    if not zero_point.dtype.is_floating_point:
        _check_zero_point(zero_point, quant_min, quant_max)
    shape = [-1 if each == dim else 1 for each in range(input.ndim)]
    return _rounded(
        input, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max,
        "fake_quantize_channel_cachemask_cpu_type_handling", "FakeQuantizePerChannelAffineCachemaskBackward0",
    )  # fmt: skip
