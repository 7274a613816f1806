"""Dropout: elements or whole channels zeroed at random (Hinton et al., 2012; alpha dropout: Klambauer et al., 2017)."""

from __future__ import annotations

import math

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.api.functional import dropout as dropout
from webgpu_torch_core.notices import warn
from webgpu_torch_core.operations.common import require_tensor
from webgpu_torch_core.operations.neural.layers import dropout_mask

from ._arguments import before, written


def _check(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _drop_features(input: Tensor, p: float, training: bool, inplace: bool, alpha: bool) -> Tensor:
    """Drop whole channels of [n, c, …]."""
    require_tensor("feature_dropout", "input", 1, input)
    if not training or p == 0.0 or input.numel() == 0:
        return input
    if input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return _drop(input, (*input.shape[:2], *(1,) * (input.ndim - 2)), p, inplace, alpha)


def _drop(input: Tensor, shape: tuple[int, ...] | None, p: float, inplace: bool, alpha: bool) -> Tensor:
    """Drop by a mask of a shape that broadcasts, or of the input's own."""
    target, input = input, before(input, inplace)
    if p == 1.0:
        return written(target, input * torch.zeros((), dtype=input.dtype, device=input.device), inplace)
    if shape is None:
        kept = dropout_mask(input, 1.0 - p)
    else:
        kept = torch.empty(shape, dtype=input.dtype, device=input.device).bernoulli_(1.0 - p)
    if not alpha:
        return written(target, input * (kept / (1.0 - p)), inplace)
    # Dropped elements take the negative saturation of selu; a and b keep mean and variance.
    saturation = 1.7580993408473766
    scale = 1.0 / math.sqrt((saturation * saturation * p + 1.0) * (1.0 - p))
    shift = (kept - 1.0) * (saturation * scale) + saturation * scale * p
    return written(target, input * (kept * scale) + shift, inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean and variance of selu's outputs."""
    _check(p)
    require_tensor("alpha_dropout", "input", 1, input)
    if not training or p == 0.0 or input.numel() == 0:
        return input
    return _drop(input, None, p, inplace, True)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of [n, c, length] or [c, length] zeroed with probability ``p``, the others scaled."""
    _check(p)
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. Note that dropout1d exists to provide "
            "channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch dimension "
            "(i.e. 2D or 3D inputs)."
        )
    if input.ndim == 2:
        source = before(input, inplace)
        return written(input, _drop_features(source.unsqueeze(0), p, training, False, False).squeeze(0), inplace)
    return _drop_features(input, p, training, inplace, False)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of [n, c, height, width] zeroed with probability ``p``, the others scaled."""
    _check(p)
    if input.ndim not in (3, 4):
        warn(
            f"dropout2d: Received a {input.ndim}-D input to dropout2d, which is deprecated and will result in an error in a "
            "future release. To retain the behavior and silence this warning, please use dropout instead. Note that dropout2d "
            "exists to provide channel-wise dropout on inputs with 2 spatial dimensions, a channel dimension, and an optional "
            "batch dimension (i.e. 3D or 4D inputs)."
        )
    if input.ndim == 3:
        warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired - input "
            "is interpreted as shape (N, C, L), where C is the channel dim. Use dropout1d to silence this warning."
        )
    return _drop_features(input, p, training, inplace, False)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of [n, c, depth, height, width] or [c, depth, height, width] zeroed with probability ``p``."""
    _check(p)
    if input.ndim not in (4, 5):
        warn(
            f"dropout3d: Received a {input.ndim}-D input to dropout3d, which is deprecated and will result in an error in a "
            "future release. To retain the behavior and silence this warning, please use dropout instead."
        )
    if input.ndim == 4:
        source = before(input, inplace)
        return written(input, _drop_features(source.unsqueeze(0), p, training, False, False).squeeze(0), inplace)
    return _drop_features(input, p, training, inplace, False)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Alpha dropout of whole channels of [n, c, …]."""
    _check(p)
    return _drop_features(input, p, training, inplace, True)
