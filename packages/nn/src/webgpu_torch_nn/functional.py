"""Functions of neural networks: what core computes, under PyTorch's names, and what is composed from it here."""

from __future__ import annotations

import warnings

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.functional import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from webgpu_torch_core.functional import conv2d as conv2d
from webgpu_torch_core.functional import cross_entropy as cross_entropy
from webgpu_torch_core.functional import dropout as dropout
from webgpu_torch_core.functional import elu as elu
from webgpu_torch_core.functional import embedding as embedding
from webgpu_torch_core.functional import gelu as gelu
from webgpu_torch_core.functional import l1_loss as l1_loss
from webgpu_torch_core.functional import layer_norm as layer_norm
from webgpu_torch_core.functional import leaky_relu as _leaky_relu
from webgpu_torch_core.functional import linear as linear
from webgpu_torch_core.functional import log_softmax as log_softmax
from webgpu_torch_core.functional import logsigmoid as logsigmoid
from webgpu_torch_core.functional import mse_loss as mse_loss
from webgpu_torch_core.functional import nll_loss as nll_loss
from webgpu_torch_core.functional import normalize as normalize
from webgpu_torch_core.functional import one_hot as one_hot
from webgpu_torch_core.functional import pad as pad
from webgpu_torch_core.functional import rms_norm as rms_norm
from webgpu_torch_core.functional import scaled_dot_product_attention as scaled_dot_product_attention
from webgpu_torch_core.functional import silu as _silu
from webgpu_torch_core.functional import softmax as softmax
from webgpu_torch_core.functional import softmin as softmin
from webgpu_torch_core.functional import softplus as softplus


def _written(input: Tensor, result: Tensor, inplace: bool) -> Tensor:
    return input.copy_(result) if inplace else result


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"{reduction} is not a valid value for reduction")


# Activations.


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(x, 0)``."""
    return _written(input, torch.relu(input), inplace)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * sigmoid(x)`` (Hendrycks and Gimpel, 2016)."""
    return _written(input, _silu(input), inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``x`` where positive, ``negative_slope * x`` elsewhere."""
    return _written(input, _leaky_relu(input, negative_slope=negative_slope), inplace)


def sigmoid(input: Tensor) -> Tensor:
    """``1 / (1 + exp(-x))``, elementwise."""
    return input.sigmoid()


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent, elementwise."""
    return input.tanh()


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """``x`` where positive, ``weight * x`` elsewhere; ``weight`` has one element or one per channel (dimension 1)."""
    if weight.numel() != 1:
        if input.ndim < 2 or input.shape[1] != weight.numel():
            channels = input.shape[1] if input.ndim > 1 else 1
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.numel()} and channel size = {channels}."
            )
        weight = weight.reshape(1, -1, *(1 for _ in input.shape[2:]))
    return torch.where(input > 0, input, input * weight)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``min(max(x, 0), 6)``."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` limited to [min_val, max_val]."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _written(input, input.clamp(min_val, max_val), inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``relu6(x + 3) / 6``."""
    return _written(input, (input + 3).clamp(0, 6) / 6, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * relu6(x + 3) / 6``."""
    return _written(input, input * (input + 3).clamp(0, 6) / 6, inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    negative = torch.expm1((input / alpha).clamp(max=0)) * alpha
    return _written(input, torch.where(input > 0, input, negative), inplace)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """``scale * elu(x, alpha)`` with the constants of Klambauer et al. (2017)."""
    scale, alpha = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
    return _written(input, elu(input, alpha) * scale, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * tanh(softplus(x))`` (Misra, 2019)."""
    return _written(input, input * softplus(input).tanh(), inplace)


def softsign(input: Tensor) -> Tensor:
    """``x / (1 + |x|)``."""
    return input / (input.abs() + 1)


def tanhshrink(input: Tensor) -> Tensor:
    """``x - tanh(x)``."""
    return input - input.tanh()


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``x`` moved towards zero by ``lambd``, and zero within that distance."""
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return input - input.clamp(-lambd, lambd)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``x``, and zero where ``|x| <= lambd``."""
    return torch.where(input.abs() <= lambd, torch.zeros_like(input), input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """``x`` where above ``threshold``, ``value`` elsewhere."""
    return _written(input, torch.where(input > threshold, input, torch.full_like(input, value)), inplace)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """``a * sigmoid(b)`` for the two halves of ``dim`` (Dauphin et al., 2016)."""
    if input.ndim == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    if input.shape[dim] % 2 != 0:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim % input.ndim} is size {input.shape[dim]}"
        )
    left, right = input.chunk(2, dim)
    return left * right.sigmoid()


# Normalisation and linear maps.


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """``x1 · x2 / (max(|x1|, eps) max(|x2|, eps))`` along ``dim``."""
    first = x1 / x1.norm(2, dim, keepdim=True).clamp(min=eps)
    second = x2 / x2.norm(2, dim, keepdim=True).clamp(min=eps)
    return (first * second).sum(dim)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``y_k = x1ᵀ W_k x2 + b_k``; inputs [*, in1] and [*, in2], weight [out, in1, in2], bias [out]."""
    out_features, in1_features, in2_features = weight.shape
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: got {list(input1.shape)} and {list(input2.shape)}"
        )
    if input1.shape[-1] != in1_features or input2.shape[-1] != in2_features:
        raise RuntimeError(
            f"bilinear(): input sizes do not match weight size: got {input1.shape[-1]} and {input2.shape[-1]} "
            f"but expected {in1_features} and {in2_features}"
        )
    flat1, flat2 = input1.reshape(-1, in1_features), input2.reshape(-1, in2_features)
    # [n, in1] · [in1, out · in2] gives W x1 for every output; the second contraction is with x2.
    rows = (flat1 @ weight.permute(1, 0, 2).reshape(in1_features, -1)).reshape(-1, out_features, in2_features)
    result = (rows * flat2.unsqueeze(1)).sum(-1).reshape(*input1.shape[:-1], out_features)
    return result if bias is None else result + bias


# Losses.


def _warn_if_broadcast(input: Tensor, target: Tensor) -> None:
    if target.shape != input.shape:
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). "
            "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )


def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """``(x - y)² / (2 beta)`` where ``|x - y| < beta``, ``|x - y| - beta / 2`` elsewhere, reduced."""
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    _warn_if_broadcast(input, target)
    difference = (input - target).abs()
    loss = torch.where(difference < beta, difference * difference * (0.5 / beta), difference - 0.5 * beta)
    return _reduced(loss, reduction)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """``(x - y)² / 2`` where ``|x - y| < delta``, ``delta (|x - y| - delta / 2)`` elsewhere, reduced."""
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    _warn_if_broadcast(input, target)
    difference = (input - target).abs()
    loss = torch.where(difference < delta, difference * difference * 0.5, (difference - 0.5 * delta) * delta)
    return _reduced(loss, reduction)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """``-(y log x + (1 - y) log(1 - x))``, logarithms limited to -100, reduced; probabilities in, same shapes."""
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is "
            "deprecated. Please ensure they have the same size."
        )
    loss = (target - 1) * torch.log1p(-input).clamp(min=-100) - target * input.log().clamp(min=-100)
    return _reduced(loss if weight is None else loss * weight, reduction)


def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """``y (log y - x)`` for log-probabilities ``x``, reduced (also by "batchmean": sum over the first dimension)."""
    if log_target:
        loss = target.exp() * (target - input)
    else:
        # log 1 stands in where the target is zero: the term is zero there, and so must its gradient be.
        log_of_target = torch.where(target > 0, target, torch.ones_like(target)).log()
        loss = target * (log_of_target - input)
    if reduction == "batchmean":
        return loss.sum() / input.shape[0]
    return _reduced(loss, reduction)
