"""The operations of ``torch.ops.quantized``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import webgpu_torch_core as torch
from webgpu_torch import library
from webgpu_torch._holding import Answer
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F

from . import arithmetic
from .answers import joined_scheme
from .arithmetic import require_quantized
from .packed import ConvPackedParams, LinearPackedParams
from .schemes import PerTensor
from .tensor import QuantizedTensor


def _result(numbers: Tensor, scale: float, zero_point: int, kind: torch.dtype, relu: bool = False) -> QuantizedTensor:
    return QuantizedTensor.of(numbers.relu() if relu else numbers, PerTensor(float(scale), int(zero_point)), kind)


# Sums and products


def _binary(compute: Callable[..., QuantizedTensor], scalar: Callable[..., QuantizedTensor], relu: bool) -> Answer:
    def apply(qa: Answer, qb: Answer, scale: Answer = None, zero_point: int = 0) -> QuantizedTensor:
        if scale is None and isinstance(qb, int | float):
            return scalar(qa, qb, relu)
        if scale is None and isinstance(qa, int | float):
            return scalar(qb, qa, relu)
        if isinstance(scale, QuantizedTensor):
            return _written(compute(qa, qb, scale.q_scale(), scale.q_zero_point(), relu), scale)
        return compute(qa, qb, scale, zero_point, relu)

    return apply


def _written(result: QuantizedTensor, out: QuantizedTensor) -> QuantizedTensor:
    out._held.copy_(result._held)
    return out


def add_scalar(qa: Answer, b: float | Tensor, relu: bool = False) -> QuantizedTensor:
    """Return a tensor with a number added: the zero point moves, and where it cannot the scale grows."""
    given, kind = require_quantized("add_scalar", qa), qa.dtype
    scale, zero_point = given.per_tensor
    least, greatest = kind.minimum, kind.maximum
    steps = round(float(b) / scale)
    wanted = zero_point - steps
    zero = min(max(wanted, least), greatest)
    if zero == wanted:
        held = given._held.clamp_min(max(zero, least)) if relu else given._held
        return QuantizedTensor.make(held, PerTensor(scale, zero), kind)
    reach = greatest - wanted if wanted < least else wanted - least
    wider = reach / (greatest - least) * scale
    # The same integers with a zero point that they cannot have are the numbers of the sum.
    moved = QuantizedTensor.make(given._held, PerTensor(scale, wanted), kind)
    return _result(arithmetic.fused_numbers(moved), wider, zero, kind, relu)


def mul_scalar(qa: Answer, b: float | Tensor, relu: bool = False) -> QuantizedTensor:
    """Return a tensor times a number: the scale takes it, and a negative one turns the integers round."""
    given, kind, factor = require_quantized("mul_scalar", qa), qa.dtype, float(b)
    scale, zero_point = given.per_tensor
    held = given._held
    if factor == 0:
        return QuantizedTensor.make(torch.zeros_like(held), PerTensor(0.1, 0), kind)
    if factor < 0:
        both = kind.minimum + kind.maximum
        held, zero_point = (both - held.to(torch.int32)).to(kind.stored), both - zero_point
    held = held.clamp_min(max(zero_point, kind.minimum)) if relu else held
    return QuantizedTensor.make(held, PerTensor(scale * abs(factor), zero_point), kind)


def cat(
    qx: Sequence[Answer], dim: int = 0, scale: float | None = None, zero_point: int | None = None, relu: bool = False
) -> QuantizedTensor:
    """Return tensors put together, with a scale and a zero point of their own or those of the first."""
    first = joined_scheme(qx)
    wanted = PerTensor(first.scale if scale is None else scale, first.zero_point if zero_point is None else zero_point)
    kind = qx[0].dtype
    numbers = [each.dequantize().relu() if relu else each.dequantize() for each in qx]
    return QuantizedTensor.make(
        torch.cat([QuantizedTensor.of(each, wanted, kind)._held for each in numbers], dim), wanted, kind
    )


# Functions of numbers with a scale of their own


def _of_numbers(function: Callable[..., Tensor]) -> Callable[..., QuantizedTensor]:
    def apply(
        qx: Answer, output_scale: float, output_zero_point: int, *args: Answer, **named: Answer
    ) -> QuantizedTensor:
        given = require_quantized(getattr(function, "__name__", "function"), qx)
        return _result(function(given.dequantize(), *args, **named), output_scale, output_zero_point, given.dtype)

    return apply


def elu(
    self: Answer,
    output_scale: float,
    output_zero_point: int,
    alpha: float = 1,
    scale: float = 1,
    input_scale: float = 1,
) -> QuantizedTensor:
    """Return ``scale * x`` above zero, and ``scale * alpha * (exp(input_scale * x) - 1)`` below."""
    numbers = require_quantized("elu", self).dequantize()
    result = torch.where(numbers > 0, numbers, alpha * (numbers * input_scale).expm1()) * scale
    return _result(result, output_scale, output_zero_point, self.dtype)


def leaky_relu(
    qx: Answer, negative_slope: float, inplace: bool, output_scale: float, output_zero_point: int
) -> QuantizedTensor:
    """Return numbers, the negative ones times a slope."""
    numbers = F.leaky_relu(require_quantized("leaky_relu", qx).dequantize(), negative_slope)
    return _result(numbers, output_scale, output_zero_point, qx.dtype)


def batch_norm(
    qx: Answer, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor, eps: float, output_scale: float,
    output_zero_point: int, relu: bool = False,
) -> QuantizedTensor:  # fmt: skip
    """Return numbers normalised by a channel's mean and variance: one factor and one summand for each channel."""
    given = require_quantized("batch_norm", qx)
    factor = (var + eps).rsqrt() * (1.0 if weight is None else weight)
    summand = -mean * factor + (0.0 if bias is None else bias)
    beside = (1, -1, *(1,) * (given.ndim - 2))
    numbers = given.dequantize() * factor.reshape(beside) + summand.reshape(beside)
    return _result(numbers, output_scale, output_zero_point, given.dtype, relu)


def layer_norm(
    input: Answer, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float,
    output_scale: float, output_zero_point: int,
) -> QuantizedTensor:  # fmt: skip
    """Return numbers normalised over the last dimensions."""
    numbers = F.layer_norm(require_quantized("layer_norm", input).dequantize(), normalized_shape, weight, bias, eps)
    return _result(numbers, output_scale, output_zero_point, input.dtype)


def group_norm(
    input: Answer, num_groups: int, weight: Tensor | None, bias: Tensor | None, eps: float, output_scale: float,
    output_zero_point: int,
) -> QuantizedTensor:  # fmt: skip
    """Return numbers normalised over groups of channels."""
    numbers = F.group_norm(require_quantized("group_norm", input).dequantize(), num_groups, weight, bias, eps)
    return _result(numbers, output_scale, output_zero_point, input.dtype)


def instance_norm(
    input: Answer, weight: Tensor | None, bias: Tensor | None, eps: float, output_scale: float, output_zero_point: int
) -> QuantizedTensor:
    """Return numbers normalised over each channel."""
    given = require_quantized("instance_norm", input)
    numbers = F.instance_norm(given.dequantize(), None, None, weight, bias, True, 0.0, eps)
    return _result(numbers, output_scale, output_zero_point, given.dtype)


def softmax(qx: Answer, dim: int, output_scale: float, output_zero_point: int) -> QuantizedTensor:
    """Return the shares of ``exp(x)`` over a dimension."""
    numbers = require_quantized("softmax", qx).dequantize().softmax(dim)
    return _result(numbers, output_scale, output_zero_point, qx.dtype)


def prelu(qx: Answer, weight: Answer, output_scale: float, output_zero_point: int) -> QuantizedTensor:
    """Return numbers, the negative ones times a slope for each channel."""
    slope = weight.dequantize()
    numbers = F.prelu(require_quantized("prelu", qx).dequantize(), slope)
    return _result(numbers, output_scale, output_zero_point, qx.dtype)


def dropout(
    self: Answer, output_scale: float, output_zero_point: int, p: float = 0.5, training: bool = False
) -> QuantizedTensor:
    """Return numbers, in training some of them zero."""
    numbers = F.dropout(require_quantized("dropout", self).dequantize(), p, training)
    return _result(numbers, output_scale, output_zero_point, self.dtype)


# Linear and convolution


def _conv(relu: bool) -> Callable[..., QuantizedTensor]:
    def apply(qx: Answer, packed_weight: ConvPackedParams, *rest: Answer, **named: Answer) -> QuantizedTensor:
        # The older form repeats how the weight slides.
        given = dict(zip(("output_scale", "output_zero_point"), rest[-2:] if len(rest) > 2 else rest), **named)
        return arithmetic.convolution(qx, packed_weight, given["output_scale"], given["output_zero_point"], relu)

    return apply


def conv_add(
    qx: Answer,
    qaccum: Answer,
    packed_weight: ConvPackedParams,
    output_scale: float,
    output_zero_point: int,
    relu: bool = False,
) -> QuantizedTensor:
    """Return a convolution with a tensor added before it is rounded."""
    given = require_quantized("conv2d_add", qx)
    exact = arithmetic.convolution_numbers(given, packed_weight) + qaccum.dequantize()
    return _result(exact, output_scale, output_zero_point, given.dtype, relu)


def _conv1d_prepack(
    weight: Answer,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> ConvPackedParams:
    return ConvPackedParams(weight, bias, stride, padding, dilation, groups)


def _transposed_prepack(
    weight: Answer, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int], output_padding: Sequence[int],
    dilation: Sequence[int], groups: int,
) -> ConvPackedParams:  # fmt: skip
    return ConvPackedParams(weight, bias, stride, padding, dilation, groups, output_padding, True)


def linear_leaky_relu(
    X: Answer, W_prepack: LinearPackedParams, Y_scale_i: float, Y_zero_point_i: int, negative_slope: float
) -> QuantizedTensor:
    """Return :func:`~.arithmetic.linear`, the negative numbers times a slope."""
    exact = arithmetic.linear_numbers(require_quantized("linear", X), W_prepack)
    return _result(F.leaky_relu(exact, negative_slope), Y_scale_i, Y_zero_point_i, X.dtype)


def linear_tanh(X: Answer, W_prepack: LinearPackedParams, Y_scale_i: float, Y_zero_point_i: int) -> QuantizedTensor:
    """Return ``tanh`` of :func:`~.arithmetic.linear`."""
    exact = arithmetic.linear_numbers(require_quantized("linear", X), W_prepack)
    return _result(exact.tanh(), Y_scale_i, Y_zero_point_i, X.dtype)


def _pooled(function: Callable[..., Answer]) -> Callable[..., Answer]:
    def apply(
        qx: Tensor, kernel_size: Answer, stride: Answer, padding: Answer, dilation: Answer, ceil_mode: bool
    ) -> Answer:
        return function(qx, kernel_size, stride or None, padding, dilation, ceil_mode)

    return apply


_OPERATIONS: dict[str, Callable[..., Answer]] = {
    "add_scalar": add_scalar, "add_scalar_relu": partial(add_scalar, relu=True),
    "mul_scalar": mul_scalar, "mul_scalar_relu": partial(mul_scalar, relu=True),
    "matmul": arithmetic.matmul, "cat": cat, "cat_relu": partial(cat, relu=True),
    **{f"{name}{ending}": _binary(compute, scalar, bool(ending)) for name, compute, scalar in (
        ("add", arithmetic.add, add_scalar), ("mul", arithmetic.mul, mul_scalar),
    ) for ending in ("", "_relu")},
    "sigmoid": _of_numbers(torch.sigmoid), "hardswish": _of_numbers(F.hardswish), "celu": _of_numbers(F.celu), "elu": elu,
    "leaky_relu": leaky_relu, "prelu": prelu, "softmax": softmax, "dropout": dropout,
    "relu6": lambda qx, inplace=False: F.relu6(qx), "clamp": torch.clamp,
    "threshold": lambda qx, threshold, value: F.threshold(qx, threshold, value),
    **{f"batch_norm{kind}{ending}": partial(batch_norm, relu=bool(ending)) for kind in ("", "1d", "2d", "3d") for ending in ("", "_relu")},
    "layer_norm": layer_norm, "group_norm": group_norm, "instance_norm": instance_norm,
    "max_pool1d": _pooled(F.max_pool1d), "max_pool2d": _pooled(F.max_pool2d),
    "linear": arithmetic.linear, "linear_relu": partial(arithmetic.linear, relu=True),
    "linear_dynamic": arithmetic.linear_dynamic, "linear_relu_dynamic": partial(arithmetic.linear_dynamic, relu=True),
    "linear_prepack": LinearPackedParams, "linear_unpack": LinearPackedParams.unpack,
    "linear_leaky_relu": linear_leaky_relu, "linear_tanh": linear_tanh,
    **{f"conv{dims}{ending}": _conv(bool(ending)) for dims in ("1d", "2d", "3d") for ending in ("", "_relu")},
    **{f"conv{dims}_prepack": _conv1d_prepack for dims in ("1d", "2d", "3d")}, "conv_prepack": _conv1d_prepack,
    **{f"conv_transpose{dims}": _conv(False) for dims in ("1d", "2d", "3d")},
    **{f"conv_transpose{dims}_prepack": _transposed_prepack for dims in ("1d", "2d", "3d")},
    "conv2d_add": conv_add, "conv2d_add_relu": partial(conv_add, relu=True),
    **{f"{name}{dims}_{asked}": getattr(ConvPackedParams, asked) for name in ("conv", "conv_transpose") for dims in ("1d", "2d", "3d")
       for asked in ("unpack", "stride", "padding", "dilation", "output_padding", "groups", "transpose")},
    **{f"{name}{dims}_dynamic": arithmetic.convolution_dynamic for name in ("conv", "conv_transpose") for dims in ("1d", "2d", "3d")},
}  # fmt: skip

for _name, _function in _OPERATIONS.items():
    library.define(f"quantized::{_name}", "")
    library.impl(f"quantized::{_name}", "default", _function)
