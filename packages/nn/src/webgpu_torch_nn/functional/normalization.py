"""Normalisation over batches, instances, groups, layers and neighbouring channels."""

from __future__ import annotations

import math
from typing import cast

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.api.functional import layer_norm as layer_norm
from webgpu_torch_core.api.functional import normalize as normalize
from webgpu_torch_core.api.functional import rms_norm as rms_norm
from webgpu_torch_core.dispatch.titles import titled
from webgpu_torch_core.ir.layouts import contiguous_layout
from webgpu_torch_core.operations.common import (
    image_order,
    in_order,
    refuse_halves,
    require_parameter_types,
    with_ordered_gradient,
)
from webgpu_torch_core.operations.in_place.writing import replaced
from webgpu_torch_core.operations.neural.layers import standardized
from webgpu_torch_core.operations.spatial.sliding_windows import Window, window_sum
from webgpu_torch_core.operations.without_derivatives import refuse_gradients
from webgpu_torch_core.replay.recipes import of_layers, remembered, saves_arguments
from webgpu_torch_core.tensors.memory_formats import dense_layout, memory_format

from ._arguments import require_kind, wide


def _per_channel(values: Tensor | None, spatial: int) -> Tensor | None:
    return None if values is None else values.reshape(1, -1, *(1,) * spatial)


def _image_order(input: Tensor) -> memory_format:
    """Return the order in memory of a normalised input: PyTorch's kernels write row-major, or channels last."""
    return torch.contiguous_format if input.is_contiguous() else image_order(input)


def _scaled(normal: Tensor, weight: Tensor | None, bias: Tensor | None, spatial: int, kind: torch.dtype) -> Tensor:
    weight, bias = _per_channel(weight, spatial), _per_channel(bias, spatial)
    result = normal if weight is None else normal * weight
    return (result if bias is None else result + bias).to(kind)


def _check_channels(name: str, values: Tensor | None, channels: int) -> None:
    if values is not None and values.numel() != channels:
        raise RuntimeError(f"{name} should contain {channels} elements not {values.numel()}")


def _update(running: Tensor | None, current: Tensor, momentum: float) -> None:
    if running is not None:
        replaced(running, _moved(running, current, momentum))


@remembered
def _moved(running: Tensor, current: Tensor, momentum: float) -> Tensor:
    """Return a running statistic that moved towards the batch's."""
    return running * (1 - momentum) + current.to(running.dtype) * momentum


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """``(x - mean) / sqrt(var + eps) * weight + bias`` per channel of [n, c, …] (Ioffe and Szegedy, 2015).

    In training mean and variance are the batch's, and the running ones move towards them (the variance unbiased) by
    ``momentum``; else they are the running ones.

    Raises:
        ValueError: one value per channel in training, an ``eps`` that is not positive there, or one running statistic alone.
        RuntimeError: running statistics missing outside of training, or of another size than the channels.
    """
    if not training:
        return _in_evaluation(input, running_mean, running_var, weight, bias, eps)
    result, *moved = _in_training(input, running_mean, running_var, weight, bias, momentum, eps)
    if moved:
        with torch.no_grad():
            for running, made in zip((running_mean, running_var), moved, strict=True):
                replaced(cast(Tensor, running), made)
    return result


def _channels(input: Tensor) -> int:
    if input.ndim < 2:
        raise RuntimeError(f"batch_norm: expected at least 2 dimensions, got {input.ndim}")
    return input.shape[1]


def _check(
    input: Tensor, mean: Tensor | None, variance: Tensor | None, weight: Tensor | None, bias: Tensor | None
) -> None:
    channels = _channels(input)
    named = (("running_mean", mean), ("running_var", variance), ("weight", weight), ("bias", bias))
    for name, values in named:
        _check_channels(name, values, channels)


def _of_nothing(input: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Return what an input without elements becomes."""
    result = input.clone() if weight is None else input * weight[0]
    return result if bias is None else result + bias[0]


@remembered
@titled("NativeBatchNormBackward0")
@saves_arguments
def _in_training(
    input: Tensor, mean: Tensor | None, variance: Tensor | None, weight: Tensor | None, bias: Tensor | None,
    momentum: float, eps: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the normalised input and, where there are running statistics, what becomes of them."""
    if not input.numel():
        return (_of_nothing(input, weight, bias),)
    count = input.numel() // _channels(input)
    if count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.size()}")
    if (mean is None) is not (variance is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    _check(input, mean, variance, weight, bias)
    refuse_gradients("native_batch_norm", running_mean=mean, running_var=variance)
    require_kind(input, False, "batch_norm")
    require_parameter_types(input, weight, bias, mean, variance)
    if eps <= 0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    dims = (0, *range(2, input.ndim))
    moved: tuple[Tensor, ...] = ()
    if mean is not None and variance is not None:
        with torch.no_grad():
            spread, center = torch.var_mean(wide(input.detach()), dims, correction=0)
            unbiased = spread * (count / max(count - 1, 1))
            moved = _moved(mean, center, momentum), _moved(variance, unbiased, momentum)
    target = dense_layout(contiguous_layout(input.shape), _image_order(input))
    normal = standardized(wide(with_ordered_gradient(input)), dims, eps, target)
    return _scaled(normal, weight, bias, input.ndim - 2, input.dtype), *moved


@of_layers(1)
@titled("NativeBatchNormBackward0")
@saves_arguments
def _in_evaluation(
    input: Tensor, mean: Tensor | None, variance: Tensor | None, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """Return ``(x - mean) / sqrt(variance + eps) * weight + bias`` per channel of [n, c, …]."""
    if not input.numel():
        return _of_nothing(input, weight, bias)
    _check(input, mean, variance, weight, bias)
    if mean is None or variance is None:
        raise RuntimeError(f"{'running_mean' if mean is None else 'running_var'} must be defined in evaluation mode")
    refuse_gradients("native_batch_norm", running_mean=mean, running_var=variance)
    require_kind(input, False, "batch_norm")
    require_parameter_types(input, weight, bias, mean, variance)
    spatial = input.ndim - 2
    center = _per_channel(wide(mean), spatial)
    scale = _per_channel((wide(variance) + eps).rsqrt(), spatial)
    source = wide(with_ordered_gradient(input))
    return in_order(_scaled((source - center) * scale, weight, bias, spatial, input.dtype), _image_order(input))


@titled("ViewBackward0")
def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None,
    bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """:func:`batch_norm` with statistics of every instance's own channels (Ulyanov et al., 2016).

    Raises:
        ValueError: one spatial element with ``use_input_stats``, or one running statistic without the other.
        RuntimeError: weights of another size than the channels.
    """
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
        return batch_norm(input.contiguous(), running_mean, running_var, weight, bias, False, momentum, eps)
    count = math.prod(input.shape[2:])
    if count == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.size()}")
    for name, values in (("weight", weight), ("bias", bias)):
        _check_channels(name, values, input.shape[1])
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    refuse_gradients("native_batch_norm", running_mean=running_mean, running_var=running_var)
    require_kind(input, False, "batch_norm")
    require_parameter_types(input, weight, bias, running_mean, running_var)
    dims = tuple(range(2, input.ndim))
    if running_mean is not None and running_var is not None:
        with torch.no_grad():
            variance, mean = torch.var_mean(wide(input.detach()), dims, correction=0)
            _update(running_mean, mean.mean(0), momentum)
            _update(running_var, (variance * (count / max(count - 1, 1))).mean(0), momentum)
    return _scaled(standardized(wide(input), dims, eps), weight, bias, input.ndim - 2, input.dtype)


@of_layers(2)
@titled("NativeGroupNormBackward0")
@saves_arguments
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over groups of channels of [n, c, …] (Wu and He, 2018).

    Raises:
        RuntimeError: channels that the groups do not divide, or weights of another size.
    """
    if input.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    count, channels, *rest = input.shape
    if channels % num_groups:
        raise RuntimeError(
            f"Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.shape)} and num_groups={num_groups}"
        )
    for name, values in (("weight", weight), ("bias", bias)):
        if values is not None and (values.ndim != 1 or values.numel() != channels):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of shape "
                f"{list(values.shape)} and input of shape {list(input.shape)}"
            )
    require_parameter_types(input, weight, bias)
    require_kind(input, False, "GroupNormKernelImpl")
    if not input.numel():
        return _scaled(wide(input.clone()), weight, bias, len(rest), input.dtype)
    order = image_order(input)
    if order is torch.contiguous_format:
        normal = standardized(wide(input).reshape(count, num_groups, -1), (2,), eps).reshape(input.shape)
        return _scaled(normal, weight, bias, len(rest), input.dtype)
    groups = (count, num_groups, channels // num_groups, *rest)
    last = in_order(wide(with_ordered_gradient(input)), order).view(groups)
    normal = standardized(last, tuple(range(2, last.ndim)), eps, last._layout).reshape(input.shape)
    return in_order(_scaled(normal, weight, bias, len(rest), input.dtype), order)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """``x / (k + alpha * mean of x² over size neighbouring channels) ** beta`` (Krizhevsky et al., 2012).

    Raises:
        ValueError: fewer than 3 dimensions.
    """
    if input.ndim < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality                          input (got {input.ndim} dimensions)"
        )
    if not input.numel():
        return input
    # PyTorch averages lines as images of one row, and all else as volumes.
    kernel = "avg_pool2d" if input.ndim == 3 else "avg_pool3d_out_frame"
    require_kind(input, input.dtype is torch.int64, kernel)
    if input.ndim > 3:
        refuse_halves(kernel, input)
    if input.dtype.is_floating_point:
        means = _neighbours(input * input, size, size // 2, 1.0 / size)
    else:  # PyTorch's averages of integers are integers
        means = _neighbours(input * input, size, size // 2, 1.0).div(size, rounding_mode="trunc")
    return input / (means * alpha + k).pow(beta)


def _neighbours(values: Tensor, size: int, before: int, scale: float) -> Tensor:
    """Return sums over ``size`` channels from ``before`` channels back, times ``scale``; channels outside are zero."""
    count, channels = values.shape[:2]
    flat = values.reshape(count, 1, channels, -1)
    window = Window((size, 1), (1, 1), (before, 0), (1, 1), (channels, flat.shape[3]))
    return window_sum(flat, window, scale).reshape(values.shape)


def _cross_map_response_norm(input: Tensor, size: int, alpha: float, beta: float, k: float) -> Tensor:
    """:func:`local_response_norm` of [n, c, h, w] as PyTorch's ``CrossMapLRN2d`` computes it.

    Its window has ``2 * ((size + 1) // 2) - 1`` channels, and the first channel stays in the sum after the window has
    passed it. The gradient is that of these values (PyTorch's own belongs to another window).
    """
    if input.ndim != 4:
        raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.ndim}D instead.")
    squares, reach = input * input, (size + 1) // 2
    means = _neighbours(squares, 2 * reach - 1, reach - 1, 1.0 / size)
    passed = torch.arange(input.shape[1], device=input.device).reshape(-1, 1, 1) >= reach
    means = means + torch.where(passed, squares[:, :1] / size, torch.zeros_like(squares[:, :1].detach()))
    return input * (means * alpha + k).pow(-beta)
