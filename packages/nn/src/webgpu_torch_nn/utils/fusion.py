"""Layers with the batch normalisation that follows them folded into their weights, for evaluation."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn.parameter import Parameter

if TYPE_CHECKING:
    from webgpu_torch_nn.modules.batchnorm import _BatchNorm
    from webgpu_torch_nn.modules.conv import _ConvNd
    from webgpu_torch_nn.modules.linear import Linear


def _statistics(layer: _ConvNd | Linear, norm: _BatchNorm) -> tuple[Tensor, Tensor]:
    if layer.training or norm.training:
        raise AssertionError("Fusion only for eval!")
    if norm.running_mean is None or norm.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    return norm.running_mean, norm.running_var


def _parameters(weight: Tensor, bias: Tensor, like: Tensor, bias_like: Tensor | None) -> tuple[Parameter, Parameter]:
    # A bias that was not there before is not trained.
    kind, trained = (like.dtype, False) if bias_like is None else (bias_like.dtype, bias_like.requires_grad)
    return Parameter(weight.detach().to(like.dtype), like.requires_grad), Parameter(bias.detach().to(kind), trained)


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None,
    bn_b: Tensor | None, transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Return the weight and bias of one convolution that does what a convolution and a normalisation do.

    ``weight * s`` and ``(bias - mean) * s + shift`` with ``s = scale / sqrt(var + eps)``; with ``transpose`` the
    outputs are the weight's second dimension.
    """
    factor = torch.rsqrt(bn_rv + bn_eps)
    factor = factor if bn_w is None else bn_w * factor
    places = [1] * conv_w.ndim
    places[1 if transpose else 0] = -1
    bias = (-bn_rm if conv_b is None else conv_b - bn_rm) * factor
    bias = bias if bn_b is None else bias + bn_b
    return _parameters(conv_w * factor.reshape(places), bias, conv_w, conv_b)


def fuse_conv_bn_eval(conv: _ConvNd, bn: _BatchNorm, transpose: bool = False) -> _ConvNd:
    """Return a convolution that does what ``bn(conv(x))`` does in evaluation mode.

    Raises:
        AssertionError: one of both is in training mode, or the normalisation keeps no statistics.
    """
    mean, variance = _statistics(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, mean, variance, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Parameter, Parameter]:
    """Return the weight and bias of one linear layer that does what a layer and a normalisation do."""
    factor = bn_w * torch.rsqrt(bn_rv + bn_eps)
    bias = (-bn_rm if linear_b is None else linear_b - bn_rm) * factor + bn_b
    return _parameters(linear_w * factor.unsqueeze(-1), bias, linear_w, linear_b)


def fuse_linear_bn_eval(linear: Linear, bn: _BatchNorm) -> Linear:
    """Return a linear layer that does what ``bn(linear(x))`` does in evaluation mode.

    Raises:
        AssertionError: one of both is in training mode, the normalisation keeps no statistics, or its number of
            features is neither the layer's nor 1.
    """
    if not (linear.training or bn.training) and bn.num_features not in (1, linear.out_features):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, "
            f"got linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    mean, variance = _statistics(linear, bn)
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, mean, variance, bn.eps, bn.weight, bn.bias
    )
    return fused


__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]
