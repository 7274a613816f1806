"""Attention and encoder layers in one call, for modules that only evaluate; and whether modules make such calls."""

from __future__ import annotations

import sys
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.api.functional import gelu, layer_norm, linear, relu, scaled_dot_product_attention
from webgpu_torch_core.dispatch.overrides import has_torch_function

_enabled = True
#: the module in which programs see the functions below, and may replace them: modules look them up there
home: Any = sys.modules[__name__]


def get_fastpath_enabled() -> bool:
    """Return whether modules that evaluate compute attention in one call, where they can."""
    return _enabled


def set_fastpath_enabled(value: bool) -> None:
    """Set whether modules that evaluate compute attention in one call, where they can."""
    global _enabled
    _enabled = value


def why_not_at_all(training: bool, input: Tensor) -> str:
    """Return why no module takes the fast path with an input, in PyTorch's words; nothing if some may."""
    if not get_fastpath_enabled():
        return "torch.backends.mha.get_fastpath_enabled() was not True"
    if input.dim() != 3:
        return f"input not batched; expected query.dim() of 3 but got {input.dim()}"
    if training:
        return "training is enabled"
    return "autocast is enabled" if torch.is_autocast_enabled(input.device.type) else ""


def why_not(*given: object) -> str:
    """Return why an input and weights cannot take the fast path, in PyTorch's words; nothing if they can."""
    if not all(isinstance(each, Tensor) for each in given):
        return "some weight is not a Tensor"
    if has_torch_function(given):
        return "some Tensor argument has_torch_function"
    if any(each.device.type == "meta" for each in given if isinstance(each, Tensor)):
        return "some Tensor argument's device is meta"
    if torch.is_grad_enabled() and any(each.requires_grad for each in given if isinstance(each, Tensor)):
        return (
            "grad is enabled and at least one of query or the input/output projection weights or biases requires_grad"
        )
    return ""


def _split(input: Tensor, heads: int) -> Tensor:
    """Return [n, l, heads * e] as [n, heads, l, e]."""
    return input.unflatten(-1, (heads, -1)).transpose(1, 2)


def _added(mask: Tensor | None, mask_type: int | None, kind: torch.dtype) -> Tensor | None:
    """Return a mask to add to scores [n, heads, l, s]: of kind 0 it is [l, s], of kind 1 [n, s], of kind 2 whole."""
    if mask is None:
        return None
    if mask.dtype is torch.bool:
        mask = torch.zeros(mask.shape, dtype=kind, device=mask.device).masked_fill(mask, float("-inf"))
    return mask[:, None, None, :] if mask_type == 1 else mask


def _projected(query: Tensor, key: Tensor, value: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
    """Return queries, keys and values of one weight [3 * e, e]."""
    if query is key and key is value:
        return tuple(linear(query, weight, bias).chunk(3, -1))
    parts = zip((query, key, value), weight.chunk(3), bias.chunk(3), strict=True)
    return tuple(linear(*each) for each in parts)


def _native_multi_head_attention(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_head: int, qkv_weight: Tensor, qkv_bias: Tensor,
    proj_weight: Tensor, proj_bias: Tensor, mask: Tensor | None = None, need_weights: bool = True,
    average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention of several heads between projections, [n, l, e], dense or nested; and the weights, where needed, of padded scores.

    mask excludes where True, or is added: [l, s] with ``mask_type`` 0, [n, s] with 1, [n, heads, l, s] with 2.

    Raises:
        RuntimeError: features that do not fit, or a mask beside nested tensors.
    """
    if query.dim() != 3 or query.size(-1) != embed_dim or embed_dim % num_head:
        raise RuntimeError(f"expected a query [n, l, {embed_dim}] and {num_head} heads that share its features")
    if query.is_nested and mask is not None:
        raise RuntimeError("NestedTensor with mask is not supported yet")
    parts = [_split(each, num_head) for each in _projected(query, key, value, qkv_weight, qkv_bias)]
    mask = _added(mask, mask_type, query.dtype)
    weights = None
    if need_weights:
        size = embed_dim // num_head
        scores = torch.matmul(parts[0] * size**-0.5, parts[1].transpose(-2, -1))
        shares = torch.softmax(scores if mask is None else scores + mask, -1)
        output = torch.matmul(shares, parts[2])
        weights = shares.to_padded_tensor(0.0) if shares.is_nested else shares  # type: ignore[attr-defined]
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        output = scaled_dot_product_attention(parts[0], parts[1], parts[2], mask)
    return linear(output.transpose(1, 2).flatten(-2), proj_weight, proj_bias), weights


def _transformer_encoder_layer_fwd(
    src: Tensor, embed_dim: int, num_heads: int, qkv_weight: Tensor, qkv_bias: Tensor, proj_weight: Tensor, proj_bias: Tensor,
    use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Tensor, norm_bias_1: Tensor, norm_weight_2: Tensor,
    norm_bias_2: Tensor, ffn_weight_1: Tensor, ffn_bias_1: Tensor, ffn_weight_2: Tensor, ffn_bias_2: Tensor,
    mask: Tensor | None = None, mask_type: int | None = None,
) -> Tensor:  # fmt: skip
    """The output of an encoder's layer that does not train, [n, l, e], dense or nested; masks as those of attention."""

    def first(x: Tensor) -> Tensor:
        return layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x: Tensor) -> Tensor:
        return layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    def attention(x: Tensor) -> Tensor:
        return home._native_multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type
        )[0]

    def feed_forward(x: Tensor) -> Tensor:
        return linear((gelu if use_gelu else relu)(linear(x, ffn_weight_1, ffn_bias_1)), ffn_weight_2, ffn_bias_2)

    if norm_first:
        src = src + attention(first(src))
        return src + feed_forward(second(src))
    src = first(src + attention(src))
    return second(src + feed_forward(src))
