"""transformers' attention by one kernel: ``attn_implementation="webgpu_torch"``."""

from __future__ import annotations

from typing import Any

from webgpu_torch.nn import functional
from webgpu_torch_core import Tensor


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Return the heads' outputs as [batch, tokens, heads, size]; keys and values are never repeated for groups of heads.

    Raises:
        ValueError: a model that caps its scores; use ``eager``.
    """
    if options.get("softcap") is not None:
        raise ValueError('attn_implementation="webgpu_torch" has no soft caps of scores; use "eager" for this model')
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    if attention_mask is not None and attention_mask.shape[-1] > key.shape[-2]:
        attention_mask = attention_mask[..., : key.shape[-2]]
    causal = bool(is_causal) and query.shape[2] > 1 and attention_mask is None
    if position_bias is not None:
        attention_mask, causal = _biased(position_bias, attention_mask, causal, query, key), False
    result = functional.scaled_dot_product_attention(
        query, key, value, attention_mask, dropout, causal, scale=scaling, enable_gqa=query.shape[1] != key.shape[1]
    )
    return result.transpose(1, 2).contiguous(), None


def _biased(bias: Tensor, mask: Tensor | None, causal: bool, query: Tensor, key: Tensor) -> Tensor:
    """Return a bias of scores with what may not be seen taken out."""
    import webgpu_torch as torch

    if causal:
        mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=key.device).tril()
    if mask is None:
        return bias
    if mask.dtype is torch.bool:
        return bias.masked_fill(~mask, torch.finfo(key.dtype).min)
    return bias + mask
