"""Products, sums and convolutions of quantised tensors in integers: sums are exact, and rounded once where they are scaled.

Source: Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", 2018, with
the scale of a result in float32, as PyTorch's kernels have it.
"""

from __future__ import annotations

import webgpu_torch_core as torch
from webgpu_torch._holding import Answer
from webgpu_torch_core import Tensor
from webgpu_torch_core.api import functional as F

from .choosing import choose_parameters
from .packed import ConvPackedParams, LinearPackedParams, weight_scales
from .schemes import PerTensor, fused
from .tensor import QuantizedTensor

_CONVOLUTIONS = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}
_TRANSPOSED = {3: F.conv_transpose1d, 4: F.conv_transpose2d, 5: F.conv_transpose3d}


def centred(input: QuantizedTensor) -> Tensor:
    """Return integers minus their zero point, as int32."""
    return input._held.to(torch.int32) - input._scheme.standing(input._held)[1]


def require_quantized(name: str, input: Answer) -> QuantizedTensor:
    """Return a quantised tensor of one scale.

    Raises:
        NotImplementedError: it is not quantised.
        RuntimeError: it has a scale for each position of a dimension.
    """
    if not isinstance(input, QuantizedTensor):
        raise NotImplementedError(f"quantized::{name} takes quantized tensors: torch.quantize_per_tensor makes one")
    _ = input.per_tensor
    return input


def rounded(places: Tensor, scale: float, zero_point: int, kind: torch.dtype, relu: bool = False) -> QuantizedTensor:
    """Return what has integers nearest to ``places``, ties to even: clamped, with ``relu`` to what stands for zero and above."""
    least = max(kind.minimum, zero_point) if relu else kind.minimum
    held = places.round().clamp(least, kind.maximum).to(kind.stored)
    return QuantizedTensor.make(held, PerTensor(float(scale), int(zero_point)), kind)


def _requantized(
    sums: Tensor, input: QuantizedTensor, packed: LinearPackedParams, scale: float, zero_point: int, relu: bool,
    axis: int = 0, behind: int = 0,
) -> QuantizedTensor:  # fmt: skip
    """Return exact sums of products, plus the bias, as a quantised tensor; ``behind``: the dimensions after the outputs'."""
    beside = (-1, *(1,) * behind)
    steps = weight_scales(packed.weight, axis)[0] * input._scheme.standing(input._held)[0]
    wide = sums.to(torch.float32)
    scaled = steps / torch.tensor(scale, dtype=torch.float32, device=sums.device)
    if packed.bias is not None:
        wide = wide + (packed.bias.detach().to(torch.float32) / steps).reshape(beside)
    scaled = scaled.reshape(beside) if scaled.ndim else scaled
    return rounded((wide * scaled).round() + zero_point, scale, zero_point, input.dtype, relu)


def _weight(packed: LinearPackedParams, axis: int = 0) -> Tensor:
    zero = weight_scales(packed.weight, axis)[1]
    count = packed.weight.ndim
    shaped = zero.reshape([-1 if dim == axis else 1 for dim in range(count)]) if zero.ndim else zero
    return packed.weight._held.to(torch.int32) - shaped


def linear(
    input: Answer, packed: LinearPackedParams, scale: float, zero_point: int, relu: bool = False
) -> QuantizedTensor:
    """Return ``input @ weight.T + bias`` with a scale and a zero point of its own: input [..., in], result [..., out]."""
    given = require_quantized("linear", input)
    sums = centred(given) @ _weight(packed).t()
    return _requantized(sums, given, packed, scale, zero_point, relu)


def linear_numbers(input: QuantizedTensor, packed: LinearPackedParams) -> Tensor:
    """Return ``input @ weight.T + bias`` as float32: exact sums, scaled."""
    return _numbers(centred(input) @ _weight(packed).t(), input._scheme.standing(input._held)[0], packed)


def linear_dynamic(input: Tensor, packed: LinearPackedParams, reduce_range: bool = False, relu: bool = False) -> Tensor:
    """Return ``input @ weight.T + bias`` in float32 of an input that is quantised for it: its least and greatest number decide."""
    given = _quantized_for(input, reduce_range)
    result = linear_numbers(given, packed)
    return result.relu() if relu else result


def _quantized_for(input: Tensor, reduce_range: bool) -> QuantizedTensor:
    return QuantizedTensor.of(input.detach(), choose_parameters(input, 0, 255, reduce_range), torch.quint8)


def _numbers(sums: Tensor, scale: Tensor, packed: LinearPackedParams, axis: int = 0, behind: int = 0) -> Tensor:
    beside = (-1, *(1,) * behind)
    steps = weight_scales(packed.weight, axis)[0] * scale
    result = sums.to(torch.float32) * (steps.reshape(beside) if steps.ndim else steps)
    return result if packed.bias is None else result + packed.bias.detach().reshape(beside)


def _slid(packed: ConvPackedParams, whole: Tensor, axis: int) -> Tensor:
    weight = _weight(packed, axis)
    if packed.transpose():
        return _TRANSPOSED[whole.ndim](
            whole, weight, None, packed.stride(), packed.padding(), packed.output_padding(), packed.groups(),
            packed.dilation(),
        )  # fmt: skip
    return _CONVOLUTIONS[whole.ndim](
        whole, weight, None, packed.stride(), packed.padding(), packed.dilation(), packed.groups()
    )


def convolution(
    input: Answer, packed: ConvPackedParams, scale: float, zero_point: int, relu: bool = False
) -> QuantizedTensor:
    """Return a convolution plus bias with a scale and a zero point of its own: input [n, in, ...], result [n, out, ...]."""
    given = require_quantized("conv", input)
    axis = 1 if packed.transpose() else 0
    if given.ndim != packed.weight.ndim:
        raise RuntimeError(f"input has {given.ndim} dimensions, for a weight of {packed.weight.ndim} it takes as many")
    sums = _slid(packed, centred(given), axis)
    return _requantized(sums, given, packed, scale, zero_point, relu, axis, given.ndim - 2)


def convolution_numbers(input: QuantizedTensor, packed: ConvPackedParams) -> Tensor:
    """Return a convolution plus bias as float32: exact sums, scaled."""
    axis = 1 if packed.transpose() else 0
    scale = input._scheme.standing(input._held)[0]
    return _numbers(_slid(packed, centred(input), axis), scale, packed, axis, input.ndim - 2)


def convolution_dynamic(input: Tensor, packed: ConvPackedParams, reduce_range: bool = False) -> Tensor:
    """Return a convolution plus bias in float32 of an input that is quantised for it."""
    return convolution_numbers(_quantized_for(input, reduce_range), packed)


def fused_numbers(input: QuantizedTensor) -> Tensor:
    """Return numbers as kernels compute them before they go on: ``integer * scale - zero_point * scale``, rounded once."""
    scale, zero = input._scheme.standing(input._held)
    return fused(input._held.to(torch.float32), scale, -zero.to(torch.float32) * scale)


def add(first: Answer, second: Answer, scale: float, zero_point: int, relu: bool = False) -> QuantizedTensor:
    """Return the sum of two quantised tensors with a scale and a zero point of its own."""
    one, other = require_quantized("add", first), require_quantized("add", second)
    if one.dtype is not other.dtype:
        raise RuntimeError("Add operands should have same data type.")
    total = fused_numbers(one) + fused_numbers(other)
    return QuantizedTensor.of(total.relu() if relu else total, PerTensor(float(scale), int(zero_point)), one.dtype)


def mul(first: Answer, second: Answer, scale: float, zero_point: int, relu: bool = False) -> QuantizedTensor:
    """Return the product of two quantised tensors, element by element, with a scale and a zero point of its own."""
    one, other = require_quantized("mul", first), require_quantized("mul", second)
    if one.dtype is not other.dtype:
        raise RuntimeError("Mul operands should have same data type.")
    product = (centred(one) * centred(other)).to(torch.float32)
    steps = one._scheme.standing(product)[0] * other._scheme.standing(product)[0]
    step = steps / torch.tensor(scale, dtype=torch.float32, device=product.device)
    return rounded((product * step).round() + zero_point, scale, zero_point, one.dtype, relu)


def matmul(first: Answer, second: Answer, scale: float, zero_point: int) -> QuantizedTensor:
    """Return the product of matrices of quantised tensors with a scale and a zero point of its own."""
    one, other = require_quantized("matmul", first), require_quantized("matmul", second)
    product = (centred(one) @ centred(other)).to(torch.float32)
    steps = one._scheme.standing(product)[0] * other._scheme.standing(product)[0]
    step = steps / torch.tensor(scale, dtype=torch.float32, device=product.device)
    return rounded((product * step).round() + zero_point, scale, zero_point, one.dtype)
