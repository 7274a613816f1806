"""Attention of several heads (Vaswani et al., 2017)."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn import functional as F
from webgpu_torch_nn import init
from webgpu_torch_nn.functional import fast_attention
from webgpu_torch_nn.functional.attention import _canonical_mask, _none_or_dtype
from webgpu_torch_nn.modules.linear import NonDynamicallyQuantizableLinear
from webgpu_torch_nn.modules.module import Module
from webgpu_torch_nn.parameter import Parameter


class MultiheadAttention(Module):
    """``concat(head_1, …) Wᵒ`` with ``head_i = softmax(q_i k_iᵀ / sqrt(head_dim) + mask) v_i`` of projected inputs.

    Args:
        embed_dim: features of query and output.
        num_heads: heads, which share the features.
        dropout: probability of dropping attention weights, while training.
        bias: whether projections have biases.
        add_bias_kv: whether a learned position is appended to keys and values.
        add_zero_attn: whether a position of zeros is appended to keys and values.
        kdim, vdim: features of key and value, ``embed_dim`` if None.
        batch_first: whether inputs and output are [n, length, features], not [length, n, features].

    Weights: ``in_proj_weight`` [3 * embed_dim, embed_dim], or, where features differ, ``q_proj_weight`` [embed_dim, embed_dim],
    ``k_proj_weight`` [embed_dim, kdim] and ``v_proj_weight`` [embed_dim, vdim] (Glorot-uniform); ``in_proj_bias``
    [3 * embed_dim] and ``out_proj.bias`` (zero); ``bias_k`` and ``bias_v`` [1, 1, embed_dim] (Glorot-normal).
    """

    in_proj_bias: Any
    bias_k: Any
    bias_v: Any

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self._register("in_proj_weight", (3 * embed_dim, embed_dim), self._qkv_same_embed_dim, device, dtype)
        for name, features in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            shape = embed_dim, features
            self._register(f"{name}_proj_weight", shape, not self._qkv_same_embed_dim, device, dtype)
        self._register("in_proj_bias", (3 * embed_dim,), bias, device, dtype)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self._register("bias_k", (1, 1, embed_dim), add_bias_kv, device, dtype)
        self._register("bias_v", (1, 1, embed_dim), add_bias_kv, device, dtype)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _register(self, name: str, shape: tuple[int, ...], exists: bool, device: Any, dtype: Any) -> None:
        value = Parameter(torch.empty(shape, device=device, dtype=dtype)) if exists else None
        self.register_parameter(name, value)

    def _reset_parameters(self) -> None:
        names = ("in_proj_weight",) if self._qkv_same_embed_dim else ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        for name in names:
            init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def __setstate__(self, state: dict) -> None:
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output and, where needed, the weights [n, l, s], or [n, heads, l, s] if not averaged.

        query [l, n, embed_dim], key [s, n, kdim], value [s, n, vdim] (or all without n); key_padding_mask [n, s] and attn_mask
        [l, s] or [n * heads, l, s] exclude where True, or are added. ``is_causal`` says that attn_mask is causal.
        """
        batched = query.dim() == 3
        why_not = self._why_not_fast(query, key, value, key_padding_mask, attn_mask)
        if why_not and (query.is_nested or key.is_nested or value.is_nested):
            raise AssertionError(
                "MultiheadAttention does not support NestedTensor outside of its fast path. "
                f"The fast path was not hit because {why_not}"
            )
        key_padding_mask = _canonical_mask(
            key_padding_mask, "key_padding_mask", _none_or_dtype(attn_mask), "attn_mask", query.dtype
        )
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        if not why_not:
            merged, kind = self.merge_masks(attn_mask, key_padding_mask, query)
            return fast_attention.home._native_multi_head_attention(
                query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.out_proj.weight,
                self.out_proj.bias, merged, need_weights, average_attn_weights, kind,
            )  # fmt: skip
        if self.batch_first and batched:
            query, key, value = query.transpose(1, 0), key.transpose(1, 0), value.transpose(1, 0)
        output, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias, training=self.training,
            key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim, q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight, v_proj_weight=self.v_proj_weight, average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )  # fmt: skip
        return output.transpose(1, 0) if self.batch_first and batched else output, weights

    def _why_not_fast(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None
    ) -> str:
        """Return why attention is not computed in one call, under PyTorch's conditions; nothing if it is."""
        weight, bias = self.in_proj_weight, self.in_proj_bias
        masks = [each for each in (key_padding_mask, attn_mask) if each is not None]
        if reason := fast_attention.why_not_at_all(self.training, query):
            return reason
        if query is not key or key is not value:
            return "non-self attention was used (query, key, and value are not the same Tensor)"
        for name, found, wanted in (
            ("batch_first", self.batch_first, True), ("_qkv_same_embed_dim", self._qkv_same_embed_dim, True),
            ("add_zero_attn", self.add_zero_attn, False), ("self.num_heads % 2", self.num_heads % 2, 0),
            ("self.bias_k is None", self.bias_k is None, True), ("self.bias_v is None", self.bias_v is None, True),
            ("in_proj_weight is None", weight is None, False), ("in_proj_bias is None", bias is None, False),
        ):  # fmt: skip
            if found != wanted:
                return f"{name} was {found}"
        if weight.dtype is not query.dtype or bias.dtype is not query.dtype:
            return f"dtypes of query ({query.dtype}), in_proj_weight ({weight.dtype}) and in_proj_bias ({bias.dtype}) don't match"
        if any(each.dtype.is_floating_point for each in masks):
            return "floating-point masks are not supported for fast path."
        if query.is_nested and masks:
            return "masks are not supported with NestedTensor input"
        return fast_attention.why_not(query, weight, bias, self.out_proj.weight, self.out_proj.bias)

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Return both masks as one, and which there were: 1 the padding's [n, s], 2 any other [n, heads, l, s], else None."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        count, length, _ = query.shape
        if attn_mask.dim() == 3:
            merged = attn_mask.reshape(count, -1, length, length)
        else:
            merged = attn_mask.reshape(1, 1, length, length).expand(count, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.reshape(count, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return merged, 2
