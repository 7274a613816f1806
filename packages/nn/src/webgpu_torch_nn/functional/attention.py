"""Attention (Vaswani et al., 2017)."""

from __future__ import annotations

import math

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.api.functional import linear
from webgpu_torch_core.api.functional import scaled_dot_product_attention as scaled_dot_product_attention
from webgpu_torch_core.notices import warn

from .activation import softmax
from .dropout import dropout
from .padding import pad


def _is_batched(
    query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None, num_heads: int
) -> bool:
    """Return whether the query has a batch dimension, having checked that everything else agrees."""
    if query.ndim not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor"
        )
    batched = query.ndim == 3
    title = "batched (3-D)" if batched else "unbatched (2-D)"
    if key.ndim != query.ndim or value.ndim != query.ndim:
        raise AssertionError(
            f"For {title} `query`, expected `key` and `value` to be {query.ndim}-D but found {key.ndim}-D and "
            f"{value.ndim}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.ndim != query.ndim - 1:
        raise AssertionError(
            f"For {title} `query`, expected `key_padding_mask` to be `None` or {query.ndim - 1}-D but found "
            f"{key_padding_mask.ndim}-D tensor instead"
        )
    if attn_mask is not None and attn_mask.ndim not in (2, 3):
        raise AssertionError(
            f"For {title} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.ndim}-D tensor instead"
        )
    if not batched and attn_mask is not None and attn_mask.ndim == 3:
        expected = (num_heads, query.shape[0], key.shape[0])
        if tuple(attn_mask.shape) != expected:
            raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}")
    return batched


def _none_or_dtype(input: Tensor | None) -> torch.dtype | None:
    return None if input is None else input.dtype


def _canonical_mask(
    mask: Tensor | None, mask_name: str, other_type: torch.dtype | None, other_name: str, target_type: torch.dtype,
    check_other: bool = True,
) -> Tensor | None:  # fmt: skip
    """Return a mask to add to scores: a boolean one excludes where True.

    Raises:
        AssertionError: a mask of whole numbers.
    """
    if mask is None:
        return None
    if mask.dtype is not torch.bool and not mask.dtype.is_floating_point:
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype is not other_type:
        warn(f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.")
    if mask.dtype.is_floating_point:
        return mask
    return torch.zeros(mask.shape, dtype=target_type, device=mask.device).masked_fill(mask, -math.inf)


def _projections(
    query: Tensor, key: Tensor, value: Tensor, weights: tuple[Tensor, Tensor, Tensor], bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    parts = (None, None, None) if bias is None else bias.chunk(3)
    found = [linear(each, weight, part) for each, weight, part in zip((query, key, value), weights, parts, strict=True)]
    return found[0], found[1], found[2]


def _weights(
    packed: Tensor | None, separate: bool, parts: tuple[Tensor | None, Tensor | None, Tensor | None]
) -> tuple[Tensor, Tensor, Tensor]:
    if separate:
        for name, each in zip("qkv", parts, strict=True):
            if each is None:
                raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
        return parts  # type: ignore[return-value]
    if packed is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    chunks = packed.chunk(3)
    return chunks[0], chunks[1], chunks[2]


def _extended(
    keys: Tensor, values: Tensor, more: tuple[Tensor, Tensor], dim: int, masks: tuple[Tensor | None, Tensor | None]
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Append one position to keys and values, which no mask excludes."""
    keys, values = torch.cat([keys, more[0]], dim), torch.cat([values, more[1]], dim)
    padded = [None if each is None else pad(each, (0, 1)) for each in masks]
    return keys, values, padded[0], padded[1]


def _checked_mask(mask: Tensor | None, target: int, source: int, rows: int) -> Tensor | None:
    """Return the attention mask as [1 or n * heads, l, s]."""
    if mask is None:
        return None
    if mask.ndim == 2:
        if tuple(mask.shape) != (target, source):
            raise RuntimeError(f"The shape of the 2D attn_mask is {mask.shape}, but should be {(target, source)}.")
        return mask.unsqueeze(0)
    if tuple(mask.shape) != (rows, target, source):
        raise RuntimeError(f"The shape of the 3D attn_mask is {mask.shape}, but should be {(rows, target, source)}.")
    return mask


def _attended(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, dropout_p: float
) -> tuple[Tensor, Tensor]:
    """Return outputs [n * heads, l, e] and weights [n * heads, l, s]."""
    scores = (queries * math.sqrt(1.0 / queries.shape[-1])) @ keys.transpose(-2, -1)
    weights = softmax(scores if mask is None else scores + mask, -1)
    if dropout_p > 0.0:
        weights = dropout(weights, dropout_p)
    return weights @ values, weights


def _check_width(width: int, expected: int, heads: int) -> None:
    if width != expected:
        raise AssertionError(f"was expecting embedding dimension of {expected}, but got {width}")
    if width % heads:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {heads}")


def _check_pair(key: Tensor, value: Tensor, separate: bool) -> None:
    if separate and key.shape[:2] != value.shape[:2]:
        raise AssertionError(f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}")
    if not separate and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")


def _check_hint(is_causal: bool, mask: Tensor | None) -> None:
    if is_causal and mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )


def _check_biases(keys: Tensor | None, values: Tensor | None, static_k: Tensor | None, static_v: Tensor | None) -> None:
    if (keys is None) != (values is None):
        raise AssertionError(
            "bias_k is set but bias_v is None" if values is None else "bias_v is set but bias_k is None"
        )
    if keys is not None and (static_k is not None or static_v is not None):
        raise AssertionError(f"bias cannot be added to static {'key' if static_k is not None else 'value'}.")


def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float,
    out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: object = True, key_padding_mask: Tensor | None = None,
    need_weights: bool = True, attn_mask: Tensor | None = None, use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None, static_v: Tensor | None = None, average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention of several heads between projections: [l, n, e] (or [l, e]) and, where needed, the weights.

    query [l, n, e], key and value [s, n, e]; key_padding_mask [n, s] and attn_mask [l, s] or [n * heads, l, s] exclude where
    True, or are added. ``is_causal`` says that attn_mask is causal, so that it need not be read.

    Raises:
        AssertionError: shapes that do not fit.
    """
    batched = _is_batched(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    target, count, width = query.shape
    _check_width(width, embed_dim_to_check, num_heads)
    _check_pair(key, value, use_separate_proj_weight)
    _check_hint(is_causal, attn_mask)
    padding = _canonical_mask(key_padding_mask, "key_padding_mask", _none_or_dtype(attn_mask), "attn_mask", query.dtype)
    if is_causal and padding is None and not need_weights:
        attn_mask = None
    else:
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        is_causal = is_causal and padding is None
    weights = _weights(in_proj_weight, use_separate_proj_weight, (q_proj_weight, k_proj_weight, v_proj_weight))
    queries, keys, values = _projections(query, key, value, weights, in_proj_bias)
    rows, size = count * num_heads, width // num_heads
    mask = _checked_mask(attn_mask, target, key.shape[0], rows)
    _check_biases(bias_k, bias_v, static_k, static_v)
    if bias_k is not None and bias_v is not None:
        more = bias_k.repeat(1, count, 1), bias_v.repeat(1, count, 1)
        keys, values, mask, padding = _extended(keys, values, more, 0, (mask, padding))
    queries, keys, values = (
        each.reshape(each.shape[0], rows, size).transpose(0, 1) for each in (queries, keys, values)
    )
    keys, values = static_k if static_k is not None else keys, static_v if static_v is not None else values
    if add_zero_attn:
        zeros = keys.new_zeros((rows, 1, size))
        keys, values, mask, padding = _extended(keys, values, (zeros, zeros), 1, (mask, padding))
    mask = _merged(mask, padding, count, num_heads, keys.shape[1])
    output, attention = _heads(
        queries, keys, values, mask, dropout_p if training else 0.0, is_causal and mask is None, need_weights, num_heads
    )  # fmt: skip
    output = output.transpose(0, 1).reshape(target * count, width)
    output = linear(output, out_proj_weight, out_proj_bias).reshape(target, count, out_proj_weight.shape[0])
    if attention is not None:
        attention = attention.reshape(count, num_heads, target, keys.shape[1])
        attention = attention.mean(1) if average_attn_weights else attention
        attention = attention if batched else attention.squeeze(0)
    return output if batched else output.squeeze(1), attention


def _merged(mask: Tensor | None, padding: Tensor | None, count: int, heads: int, source: int) -> Tensor | None:
    if padding is None:
        return mask
    for dim, expected in enumerate((count, source)):
        if padding.shape[dim] != expected:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{dim}] to be {expected}, but got {padding.shape[dim]}"
            )
    spread = padding.reshape(count, 1, 1, source).expand(count, heads, 1, source).reshape(count * heads, 1, source)
    return spread if mask is None else mask + spread


def _heads(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, dropout_p: float, is_causal: bool,
    need_weights: bool, heads: int,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Return outputs [n * heads, l, e] and, where needed, weights."""
    if need_weights:
        return _attended(queries, keys, values, mask, dropout_p)
    parts = [each.reshape(each.shape[0] // heads, heads, *each.shape[1:]) for each in (queries, keys, values)]
    if mask is not None:
        mask = mask.unsqueeze(0) if mask.shape[0] == 1 else mask.reshape(mask.shape[0] // heads, heads, *mask.shape[1:])
    result = scaled_dot_product_attention(parts[0], parts[1], parts[2], mask, dropout_p, is_causal)
    return result.reshape(queries.shape[0], *result.shape[2:]), None
