"""PyTorch's ``native_`` functions and grid samplers: what its networks' functions call, with the statistics they keep."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.overrides import publish
from webgpu_torch_core.operations.common import attach
from webgpu_torch_core.operations.outputs import into
from webgpu_torch_core.operations.without_derivatives import refuse_gradients

from ._arguments import check_places, require_kind, wide
from .embedding import _bag_parts
from .embedding import embedding_bag as bags_of_rows
from .normalization import _per_channel, _scaled, _update, group_norm, layer_norm
from .pooling import max_pool2d_with_indices
from .sampling import grid_sample

Three = tuple[Tensor, Tensor, Tensor]
_CONVOLUTIONS = (
    (torch.conv1d, torch.conv_transpose1d), (torch.conv2d, torch.conv_transpose2d), (torch.conv3d, torch.conv_transpose3d)
)  # fmt: skip
_BAG_MODES = ("sum", "mean", "max")
_MODES, _PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
    training: bool, momentum: float, eps: float, *, out: Three | None = None,
) -> Three:  # fmt: skip
    """:func:`batch_norm` of [n, c, …] with the batch's mean and ``1 / sqrt(var + eps)`` (empty outside of training).

    Raises:
        RuntimeError: running statistics missing outside of training.
    """
    refuse_gradients("native_batch_norm", running_mean=running_mean, running_var=running_var)
    require_kind(input, False, "batch_norm")
    source, spatial = wide(input), input.ndim - 2
    kept = input.dtype if weight is None else torch.promote_types(input.dtype, weight.dtype)
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError("running_mean and running_var must be defined in evaluation mode")
        mean, scale = wide(running_mean), (wide(running_var) + eps).rsqrt()
        saved = [input.new_empty((0,), dtype=running_mean.dtype) for _ in range(2)]
    else:
        count = input.numel() // max(input.shape[1], 1)
        variance, mean = torch.var_mean(source, (0, *range(2, input.ndim)), correction=0)
        scale = (variance + eps).rsqrt()
        with torch.no_grad():
            _update(running_mean, mean.detach(), momentum)
            _update(running_var, variance.detach() * (count / max(count - 1, 1)), momentum)
        saved = [mean.detach().to(kept), scale.detach().to(kept)]
    centered = source - _per_channel(mean, spatial)
    result = _scaled(centered * _per_channel(scale, spatial), weight, bias, spatial, input.dtype)
    if out is not None and not training:
        # There are no statistics to write.
        return into(result, out[0]), out[1], out[2]
    return _kept((result, *saved), out)


def _kept(results: Any, out: Any) -> Any:
    return results if out is None else tuple(into(each, target) for each, target in zip(results, out, strict=True))


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Three:
    """:func:`layer_norm` with the mean and ``1 / sqrt(var + eps)`` of each layer.

    Raises:
        RuntimeError: the input does not end in ``normalized_shape``.
    """
    result = layer_norm(input, normalized_shape, weight, bias, eps)
    dims = tuple(range(input.ndim - len(tuple(normalized_shape)), input.ndim))
    variance, mean = torch.var_mean(wide(input.detach()), dims, correction=0, keepdim=True)
    return result, mean.to(input.dtype), (variance + eps).rsqrt().to(input.dtype)


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> Three:
    """:func:`group_norm` of [N, C, …] with the mean and ``1 / sqrt(var + eps)`` of each of N × group groups.

    Raises:
        RuntimeError: sizes that the input has not, or that ``group`` does not divide.
    """
    if input.numel() != N * C * HxW:
        raise RuntimeError(f"Expected input of {N} x {C} x {HxW} elements, but got shape {list(input.shape)}")
    result = group_norm(input, group, weight, bias, eps)
    variance, mean = torch.var_mean(wide(input).reshape(N, group, C // group * HxW), 2, correction=0)
    return result, mean.to(input.dtype), (variance + eps).rsqrt().to(input.dtype)


def convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Tensor:  # fmt: skip
    """:func:`conv1d` to :func:`conv3d` of [n, c, sizes…], by the number of sizes; :func:`conv_transpose1d` and so on if ``transposed``.

    Raises:
        RuntimeError: an input of another rank, or sizes that do not fit.
    """
    spatial = input.ndim - 2
    if not 1 <= spatial <= 3:
        raise RuntimeError(f"convolution expects an input of 3 to 5 dimensions, but got sizes {list(input.shape)}")
    if transposed:
        return _CONVOLUTIONS[spatial - 1][1](input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _CONVOLUTIONS[spatial - 1][0](input, weight, bias, stride, padding, dilation, groups)


def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Bags of rows of ``weight`` [bags, features], each position's bag, the bags' sizes and the rows of maxima.

    indices [positions]; offsets [bags], the first position of each; mode: 0 sum, 1 mean, 2 max. See
    :func:`torch.nn.functional.embedding_bag`.

    Raises:
        RuntimeError: an unknown mode, or what does not fit together.
    """
    if not 0 <= mode < len(_BAG_MODES):
        raise RuntimeError(f"embedding_bag: expected mode to be 0 (sum), 1 (mean) or 2 (max), but got {mode}")
    name = _BAG_MODES[mode]
    result = bags_of_rows(
        indices, weight, offsets, mode=name, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse,
        per_sample_weights=per_sample_weights, include_last_offset=include_last_offset, padding_idx=padding_idx,
    )  # fmt: skip
    return (result, *_bag_parts(weight, indices, offsets, name, include_last_offset, padding_idx))


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Elements zeroed with probability ``p``, the others over ``1 - p``, and which were kept."""
    if train is False or not input.numel():
        return input.clone(), torch.ones(input.shape, dtype=torch.bool, device=input.device)
    mask = torch.empty_like(input).bernoulli_(1 - p).bool()
    return input * mask * (0.0 if p == 1 else 1 / (1 - p)), mask


def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """``grad_output * mask * scale``."""
    return grad_output * mask * scale


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """:func:`grid_sample` with modes by number: 0 bilinear, 1 nearest, 2 bicubic; 0 zeros, 1 border, 2 reflection."""
    return grid_sample(input, grid, _MODES[interpolation_mode], _PADDINGS[padding_mode], align_corners)


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """:func:`grid_sampler` of images [n, c, h, w]."""
    check_places(input, grid, (4,))
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """:func:`grid_sampler` of volumes [n, c, d, h, w]."""
    check_places(input, grid, (5,))
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def max_pool2d_with_indices_backward(
    grad_output: Tensor, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
    indices: Tensor,
) -> Tensor:  # fmt: skip
    """The gradient of :func:`max_pool2d`: every window's part added where ``indices`` say that its maximum was.

    Raises:
        RuntimeError: a gradient of another shape than the pooled input.
    """
    with torch.no_grad():
        pooled = max_pool2d_with_indices(input, kernel_size, stride or None, padding, dilation, ceil_mode)[0].shape
    if grad_output.shape != pooled:
        raise RuntimeError(f"Expected grad_output of shape {list(pooled)}, but got {list(grad_output.shape)}")
    *lead, height, width = input.shape
    rows, shape = math.prod(lead), input.shape
    parts = (rows, math.prod(pooled) // max(rows, 1))
    where = indices.reshape(parts)
    flat = grad_output.detach().new_zeros((rows, height * width))
    result = flat.scatter_add(1, where, grad_output.detach().reshape(parts)).reshape(shape)

    def run_backward(grad: Tensor) -> tuple[Tensor, Tensor]:
        # The input only chooses: its gradient is zero.
        return grad.reshape((rows, height * width)).gather(1, where).reshape(pooled), torch.zeros_like(grad)

    return attach(result, "MaxPool2DWithIndicesBackwardBackward0", (grad_output, input), run_backward)


publish(globals(), "torch")
