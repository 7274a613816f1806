"""Functions of quantised tensors, as ``torch.ao.nn.quantized.functional``."""

from __future__ import annotations

from collections.abc import Sequence

import webgpu_torch_core as torch
from webgpu_torch._holding import Answer
from webgpu_torch.library import ops
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F

Sizes = int | Sequence[int]

__all__ = [
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d", "celu", "clamp", "conv1d", "conv2d",
    "conv3d", "elu", "hardsigmoid", "hardswish", "hardtanh", "interpolate", "leaky_relu", "linear", "max_pool1d",
    "max_pool2d", "threshold", "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip


def _require(name: str, input: Tensor) -> Answer:
    if not input.is_quantized:
        raise ValueError(f"Input to 'quantized.{name}' must be quantized!")
    return input


def linear(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, scale: float | None = None, zero_point: int | None = None
) -> Tensor:
    """Return ``input @ weight.T + bias``: input ``[..., in]``, weight ``[out, in]``, result ``[..., out]``, with the scale of the argument by default.

    Raises:
        ValueError: the argument is not quantised.
    """
    given = _require("linear", input)
    step = given.q_scale() if scale is None else scale
    zero = given.q_zero_point() if zero_point is None else zero_point
    return ops.quantized.linear(given, ops.quantized.linear_prepack(weight, bias), step, zero)


def _convolution(
    dims: int, input: Tensor, weight: Tensor, bias: Tensor | None, slides: Sequence[Sizes], groups: int, padding_mode: str,
    scale: float, zero_point: int,
) -> Tensor:  # fmt: skip
    if padding_mode != "zeros":
        raise NotImplementedError("Only zero-padding is supported!")
    if input.dtype is not torch.quint8:
        raise NotImplementedError("Only torch.quint8 is supported for activation tensor!")
    if weight.dtype is not torch.qint8:
        raise NotImplementedError("Only torch.qint8 is supported for weight tensor!")
    each = [[one] * dims if isinstance(one, int) else list(one) for one in slides]
    packed = getattr(ops.quantized, f"conv{dims}d_prepack")(weight, bias, *each, groups)
    return getattr(ops.quantized, f"conv{dims}d")(input, packed, scale, zero_point)


def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1,
    padding_mode: str = "zeros", scale: float = 1.0, zero_point: int = 0, dtype: torch.dtype = torch.quint8,
) -> Tensor:  # fmt: skip
    """Return a convolution of ``[n, in, length]`` with ``[out, in / groups, length]`` in integers.

    Raises:
        NotImplementedError: other types than quint8 and qint8, or a padding mode other than zeros.
    """
    return _convolution(1, input, weight, bias, (stride, padding, dilation), groups, padding_mode, scale, zero_point)


def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1,
    padding_mode: str = "zeros", scale: float = 1.0, zero_point: int = 0, dtype: torch.dtype = torch.quint8,
) -> Tensor:  # fmt: skip
    """Return a convolution of ``[n, in, height, width]`` with ``[out, in / groups, height, width]`` in integers.

    Raises:
        NotImplementedError: other types than quint8 and qint8, or a padding mode other than zeros.
    """
    return _convolution(2, input, weight, bias, (stride, padding, dilation), groups, padding_mode, scale, zero_point)


def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1,
    padding_mode: str = "zeros", scale: float = 1.0, zero_point: int = 0, dtype: torch.dtype = torch.quint8,
) -> Tensor:  # fmt: skip
    """Return a convolution of ``[n, in, depth, height, width]`` with ``[out, in / groups, depth, height, width]`` in integers.

    Raises:
        NotImplementedError: other types than quint8 and qint8, or a padding mode other than zeros.
    """
    return _convolution(3, input, weight, bias, (stride, padding, dilation), groups, padding_mode, scale, zero_point)


def avg_pool2d(input: Tensor, *args: Answer, **named: Answer) -> Tensor:
    """Return :func:`torch.nn.functional.avg_pool2d` of a quantised tensor ``[n, c, height, width]``.

    Raises:
        ValueError: it is not quantised.
    """
    return F.avg_pool2d(_require("avg_pool2d", input), *args, **named)


def avg_pool3d(input: Tensor, *args: Answer, **named: Answer) -> Tensor:
    """Return :func:`torch.nn.functional.avg_pool3d` of a quantised tensor ``[n, c, depth, height, width]``.

    Raises:
        ValueError: it is not quantised.
    """
    return F.avg_pool3d(_require("avg_pool3d", input), *args, **named)


def adaptive_avg_pool2d(input: Tensor, output_size: Answer) -> Tensor:
    """Return :func:`torch.nn.functional.adaptive_avg_pool2d` of a quantised tensor ``[n, c, height, width]``.

    Raises:
        ValueError: it is not quantised.
    """
    return F.adaptive_avg_pool2d(_require("functional.adaptive_avg_pool2d", input), output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: Answer) -> Tensor:
    """Return :func:`torch.nn.functional.adaptive_avg_pool3d` of a quantised tensor ``[n, c, depth, height, width]``.

    Raises:
        ValueError: it is not quantised.
    """
    return F.adaptive_avg_pool3d(_require("functional.adaptive_avg_pool3d", input), output_size)


def max_pool1d(input: Tensor, *args: Answer, **named: Answer) -> Answer:
    """Return :func:`torch.nn.functional.max_pool1d` of a quantised tensor ``[n, c, length]``."""
    return F.max_pool1d(input, *args, **named)


def max_pool2d(input: Tensor, *args: Answer, **named: Answer) -> Answer:
    """Return :func:`torch.nn.functional.max_pool2d` of a quantised tensor ``[n, c, height, width]``."""
    return F.max_pool2d(input, *args, **named)


def interpolate(input: Tensor, *args: Answer, **named: Answer) -> Tensor:
    """Return :func:`torch.nn.functional.interpolate` of a quantised tensor ``[n, c, ...]``.

    Raises:
        ValueError: it is not quantised.
    """
    return F.interpolate(_require("interpolate", input), *args, **named)


def upsample(
    input: Tensor,
    size: Answer = None,
    scale_factor: Answer = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Return :func:`interpolate`, of a quantised tensor ``[n, c, ...]``."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Answer = None, scale_factor: Answer = None) -> Tensor:
    """Return :func:`interpolate` by nearest neighbours, of a quantised tensor ``[n, c, ...]``."""
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Answer = None, scale_factor: Answer = None) -> Tensor:
    """Return :func:`interpolate` between neighbours, of a quantised tensor ``[n, c, height, width]``."""
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def hardswish(input: Tensor, scale: float, zero_point: int) -> Tensor:
    """Return :func:`torch.nn.functional.hardswish` of a quantised tensor of any shape, with a scale of its own.

    Raises:
        ValueError: it is not quantised.
    """
    return ops.quantized.hardswish(_require("hardswish", input), scale, zero_point)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return :func:`torch.nn.functional.hardsigmoid` of a quantised tensor of any shape.

    Raises:
        ValueError: it is not quantised.
    """
    return F.hardsigmoid(_require("hardsigmoid", input), inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Return :func:`torch.nn.functional.hardtanh` of a quantised tensor of any shape.

    Raises:
        ValueError: it is not quantised.
    """
    return F.hardtanh(_require("hardtanh", input), min_val, max_val, inplace)


def clamp(input: Tensor, min_: float, max_: float) -> Tensor:
    """Return the numbers between two bounds, of a quantised tensor of any shape.

    Raises:
        ValueError: it is not quantised.
    """
    return torch.clamp(_require("clamp", input), min_, max_)


def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """Return the numbers above a bound, and a value for the others, of a quantised tensor of any shape.

    Raises:
        ValueError: it is not quantised.
    """
    return F.threshold(_require("threshold", input), threshold, value)


def elu(input: Tensor, scale: float, zero_point: int, alpha: float = 1.0) -> Tensor:
    """Return :func:`torch.nn.functional.elu` of a quantised tensor of any shape, with a scale of its own.

    Raises:
        ValueError: it is not quantised.
    """
    return ops.quantized.elu(_require("elu", input), scale, zero_point, alpha)


def celu(input: Tensor, scale: float, zero_point: int, alpha: float = 1.0) -> Tensor:
    """Return :func:`torch.nn.functional.celu` of a quantised tensor of any shape, with a scale of its own.

    Raises:
        ValueError: it is not quantised.
    """
    return ops.quantized.celu(_require("celu", input), scale, zero_point, alpha)


def leaky_relu(
    input: Tensor,
    negative_slope: float = 0.01,
    inplace: bool = False,
    scale: float | None = None,
    zero_point: int | None = None,
) -> Tensor:
    """Return :func:`torch.nn.functional.leaky_relu` of a quantised tensor of any shape, with a scale of its own if one is given.

    Raises:
        AssertionError: a scale without a zero point.
    """
    if scale is None:
        return F.leaky_relu(input, negative_slope, inplace)
    if zero_point is None:
        raise AssertionError("zero_point must not be None when scale is provided")
    return ops.quantized.leaky_relu(input, negative_slope, inplace, scale, zero_point)
