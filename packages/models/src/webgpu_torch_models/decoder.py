"""Decoders of Llama's kind: Llama, Mistral, Qwen2, Qwen3, Gemma, Phi-3, SmolLM, OLMo-2 are options of one network.

Parameter names are those of Hugging Face's checkpoints. In comments B is the batch, T tokens, S tokens attended to,
H heads, K heads of keys and values, D elements of a head, E the width of the residual stream.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Embedding, Linear, Module, ModuleList, Parameter
from webgpu_torch_nn import functional as F

from webgpu_torch_models.cache import CacheStep
from webgpu_torch_models.causal import CausalLM
from webgpu_torch_models.config import ModelConfig
from webgpu_torch_models.joined import products
from webgpu_torch_models.language import activation, check_heads, mask_of
from webgpu_torch_models.rotary import RotaryEmbedding, rope_parameters, rotate

FULL, SLIDING = "full_attention", "sliding_attention"


@dataclasses.dataclass
class DecoderConfig(ModelConfig):
    """Sizes and options, named as in config.json; families differ in defaults and in what their class says.

    Class attributes:
        bias_of_queries: queries, keys and values have a bias whatever ``attention_bias`` says.
        query_key_norm: "head" normalises each head's queries and keys, "projection" all heads together; "" neither.
        norms: where the residual branches are normalised: "before", "after" or "both".
        norm_offset: added to the weights of norms.
        scaled_embedding: multiply embeddings by the square root of the width.
        fused_projections: one matrix gives queries, keys and values, one the gate and the up projection.
        default_theta: the base of the rotary frequencies.
    """

    bias_of_queries: ClassVar[bool] = False
    query_key_norm: ClassVar[str] = ""
    norms: ClassVar[str] = "before"
    norm_offset: ClassVar[float] = 0.0
    scaled_embedding: ClassVar[bool] = False
    fused_projections: ClassVar[bool] = False
    default_theta: ClassVar[float] = 10000.0

    vocab_size: int = 32000
    hidden_size: int = 4096
    intermediate_size: int = 11008
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    hidden_act: str = "silu"
    hidden_activation: str | None = None
    max_position_embeddings: int = 2048
    initializer_range: float = 0.02
    rms_norm_eps: float = 1e-6
    attention_bias: bool = False
    mlp_bias: bool = False
    attention_dropout: float = 0.0
    rope_parameters: dict[str, Any] | None = None
    sliding_window: int | None = None
    layer_types: list[str] | None = None
    query_pre_attn_scalar: float | None = None
    attn_logit_softcapping: float | None = None
    final_logit_softcapping: float | None = None
    tie_word_embeddings: bool = False
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    pad_token_id: int | None = None

    def __post_init__(self) -> None:
        if self.num_key_value_heads is None:
            self.num_key_value_heads = self.num_attention_heads
        if self.head_dim is None:
            self.head_dim = self.hidden_size // self.num_attention_heads
        check_heads(num_attention_heads=self.num_attention_heads, num_key_value_heads=self.num_key_value_heads)
        activation(self.hidden_activation or self.hidden_act)
        if self.layer_types is None:
            self.layer_types = [self.default_layer_type(layer) for layer in range(self.num_hidden_layers)]
        if len(self.layer_types) != self.num_hidden_layers:
            raise ValueError(f"layer_types has {len(self.layer_types)} entries for {self.num_hidden_layers} layers")
        for kind in set(self.layer_types):
            RotaryEmbedding(self.rope(kind), self.head_dim)

    def default_layer_type(self, layer: int) -> str:
        """Return "full_attention" or "sliding_attention" for a layer of a configuration that does not list them."""
        return FULL if self.sliding_window is None else SLIDING

    def window_of(self, layer: int) -> int | None:
        """Return how many tokens a layer's attention sees; None is all."""
        assert self.layer_types is not None
        return self.sliding_window if self.layer_types[layer] == SLIDING else None

    def rope(self, layer_type: str) -> dict[str, Any]:
        """Return the rotary options of a kind of layer."""
        values = {**self.extra, "rope_parameters": self.rope_parameters}
        return rope_parameters(values, self.default_theta, self.max_position_embeddings)

    @property
    def scale(self) -> float:
        """What scores are multiplied by."""
        return 1 / math.sqrt(self.query_pre_attn_scalar or self.head_dim or 1)


class RMSNorm(Module):
    """``x / rms(x) * (weight + offset)`` over the last dimension, in float32."""

    def __init__(self, size: int, eps: float, offset: float = 0.0) -> None:
        super().__init__()
        self.eps, self.offset = eps, offset
        self.weight = Parameter(torch.full((size,), 1.0 - offset))

    def forward(self, x: Tensor) -> Tensor:
        normal = F.rms_norm(x.float(), x.shape[-1:], eps=self.eps)
        if self.offset:
            return (normal * self.factors()).to(x.dtype)
        return normal.to(x.dtype) * self.weight

    def factors(self) -> Tensor:
        """Return what normalised elements are multiplied by, [size]: in float32 if there is an offset."""
        return self.weight.float() + self.offset if self.offset else self.weight


class DecoderAttention(Module):
    """Causal self-attention with rotary positions, and fewer heads of keys and values than of queries."""

    joined_maps: ClassVar[tuple[str, ...]] = ("q_proj", "k_proj", "v_proj")

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__()
        self.layer, self.scale, self.softcap = layer, config.scale, config.attn_logit_softcapping
        self.dropout = config.attention_dropout
        dim = self.head_dim = config.head_dim or 0
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads or 0
        self.query_key_norm = config.query_key_norm
        self.fused = config.fused_projections
        widths = self.widths = (self.heads * dim, self.kv_heads * dim, self.kv_heads * dim)
        bias = config.attention_bias or config.bias_of_queries
        if self.fused:
            self.qkv_proj = Linear(config.hidden_size, sum(widths), bias=bias)
        else:
            self.q_proj = Linear(config.hidden_size, widths[0], bias=bias)
            self.k_proj = Linear(config.hidden_size, widths[1], bias=bias)
            self.v_proj = Linear(config.hidden_size, widths[2], bias=bias)
        self.o_proj = Linear(widths[0], config.hidden_size, bias=config.attention_bias)
        if config.query_key_norm:
            sizes = (dim, dim) if config.query_key_norm == "head" else widths[:2]
            self.q_norm = RMSNorm(sizes[0], config.rms_norm_eps, config.norm_offset)
            self.k_norm = RMSNorm(sizes[1], config.rms_norm_eps, config.norm_offset)

    def forward(self, x: Tensor, angles: tuple[Tensor, Tensor], mask: Tensor | None, cache: CacheStep | None) -> Tensor:
        batch, tokens, _ = x.shape
        # Queries and keys together, as one kernel normalises and rotates both; it stores them, too, where they and the values go
        # to a computed place.
        cached = cache is not None and not cache.is_causal
        kept = self.kv_heads if cached else 0
        turned, value = self._projected(x, cached)
        # (B, H + K, T, D), or 2 K with the values
        turned = turned.reshape(batch, tokens, self.heads + self.kv_heads + kept, -1).transpose(1, 2)
        factor = weight = None
        if self.query_key_norm == "head":
            factor = torch.rsqrt(turned.float().square().mean(-1, keepdim=True) + self.q_norm.eps)  # (B, H + K, T, 1)
            weight = self.q_norm.factors(), self.k_norm.factors(), self.heads
        query, key = rotate(turned, *angles, factor, weight, kept).split((self.heads, self.kv_heads + kept), dim=1)
        if value is None:
            assert cache is not None
            key, value = cache.update_both(self.layer, key)
        else:
            value = value.reshape(batch, tokens, self.kv_heads, -1).transpose(1, 2)  # (B, K, T, D)
            if cache is not None:
                key, value = cache.update(self.layer, key, value)
        attended = self._attend(query, key, value, mask)  # (B, H, T, D)
        return self.o_proj(attended.transpose(1, 2).reshape(batch, tokens, -1))

    def _projected(self, x: Tensor, together: bool) -> tuple[Tensor, Tensor | None]:
        """Return queries and keys, [batch, tokens, both], and the values, or None: these are behind the keys then (``together``)."""
        if together and self.query_key_norm != "projection":
            whole = self.qkv_proj(x) if self.fused else products(x, (self.q_proj, self.k_proj, self.v_proj))[0]
            return whole, None
        if self.fused:
            turned, value = self.qkv_proj(x).split((sum(self.widths[:2]), self.widths[2]), dim=-1)
        else:
            turned, value = products(x, (self.q_proj, self.k_proj), (self.v_proj,))
        if self.query_key_norm == "projection":
            query, key = turned.split(self.widths[:2], dim=-1)
            turned = torch.cat((self.q_norm(query), self.k_norm(key)), dim=-1)
        return (torch.cat((turned, value), dim=-1), None) if together else (turned, value)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        if self.softcap is None:
            return F.scaled_dot_product_attention(
                query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=mask is None, scale=self.scale,
                enable_gqa=self.heads != self.kv_heads,
            )  # fmt: skip
        batch, _, tokens, dim = query.shape
        grouped = query.reshape(batch, self.kv_heads, -1, tokens, dim)  # (B, K, H / K, T, D)
        scores = grouped @ key.unsqueeze(2).transpose(-1, -2) * self.scale  # (B, K, H / K, T, S)
        scores = torch.tanh(scores / self.softcap) * self.softcap
        if mask is None:
            mask = torch.ones(tokens, tokens, dtype=torch.bool, device=query.device).tril()[None, None]
        scores = scores.masked_fill(~mask.unsqueeze(2), -float("inf"))
        weights = F.dropout(F.softmax(scores.float(), dim=-1).to(query.dtype), dropout)
        return (weights @ value.unsqueeze(2)).reshape(batch, -1, tokens, dim)  # (B, H, T, D)


class GatedMLP(Module):
    """``down(activation(gate(x)) * up(x))``."""

    joined_maps: ClassVar[tuple[str, ...]] = ("gate_proj", "up_proj")

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        inner = config.intermediate_size
        self.fused = config.fused_projections
        if self.fused:
            self.gate_up_proj = Linear(config.hidden_size, 2 * inner, bias=config.mlp_bias)
        else:
            self.gate_proj = Linear(config.hidden_size, inner, bias=config.mlp_bias)
            self.up_proj = Linear(config.hidden_size, inner, bias=config.mlp_bias)
        self.down_proj = Linear(inner, config.hidden_size, bias=config.mlp_bias)
        self.activation = activation(config.hidden_activation or config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = (
            self.gate_up_proj(x).chunk(2, dim=-1) if self.fused else products(x, (self.gate_proj,), (self.up_proj,))
        )
        return self.down_proj(self.activation(gate) * up)


class DecoderLayer(Module):
    """Attention and then the MLP, each normalised before, after or both, and added to the residual stream."""

    def __init__(self, config: DecoderConfig, layer: int, mlp: Module | None = None) -> None:
        super().__init__()
        self.norms = config.norms

        def norm() -> RMSNorm:
            return RMSNorm(config.hidden_size, config.rms_norm_eps, config.norm_offset)

        self.self_attn = DecoderAttention(config, layer)
        self.mlp = GatedMLP(config) if mlp is None else mlp
        if config.norms != "after":
            self.input_layernorm = norm()
        # In networks with norms before only, this one stands before the MLP.
        self.post_attention_layernorm = norm()
        if config.norms == "both":
            self.pre_feedforward_layernorm = norm()
        if config.norms != "before":
            self.post_feedforward_layernorm = norm()

    def forward(self, x: Tensor, angles: tuple[Tensor, Tensor], mask: Tensor | None, cache: CacheStep | None) -> Tensor:
        if self.norms == "before":
            x = x + self.self_attn(self.input_layernorm(x), angles, mask, cache)
            return x + self.mlp(self.post_attention_layernorm(x))
        inside = self.input_layernorm(x) if self.norms == "both" else x
        x = x + self.post_attention_layernorm(self.self_attn(inside, angles, mask, cache))
        inside = self.pre_feedforward_layernorm(x) if self.norms == "both" else x
        return x + self.post_feedforward_layernorm(self.mlp(inside))


class DecoderModel(Module):
    """The embedding, the layers, and the last normalisation."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = Embedding(config.vocab_size, config.hidden_size)
        self.layers = ModuleList([self.make_layer(config, layer) for layer in range(config.num_hidden_layers)])
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps, config.norm_offset)
        assert config.layer_types is not None
        self.rotary = {
            kind: RotaryEmbedding(config.rope(kind), config.head_dim or 0) for kind in set(config.layer_types)
        }

    def make_layer(self, config: Any, layer: int) -> Module:
        """Return one of the layers."""
        return DecoderLayer(config, layer)

    def forward(
        self, input_ids: Tensor, position_ids: Tensor, attention_mask: Tensor | None, cache: CacheStep | None
    ) -> Tensor:
        config = self.config
        x = self.embed_tokens(input_ids)  # (B, T, E)
        if config.scaled_embedding:
            # The factor has the embedding's precision, as in the checkpoint's own library.
            x = x * torch.tensor(math.sqrt(config.hidden_size), dtype=x.dtype, device=x.device)
        length = input_ids.shape[1] if cache is None else cache.length
        angles = {kind: rotary(position_ids, x.dtype, length) for kind, rotary in self.rotary.items()}
        masks = {window: mask_of(input_ids, attention_mask, cache, window) for window in self.windows()}
        for number, layer in enumerate(self.layers):
            kind = config.layer_types[number]  # type: ignore[index]
            x = layer(x, angles[kind], masks[config.window_of(number)], cache)
        return self.norm(x)

    def windows(self) -> set[int | None]:
        """Return the different windows of the layers."""
        return {self.config.window_of(layer) for layer in range(self.config.num_hidden_layers)}


class DecoderForCausalLM(CausalLM):
    """A decoder with a language-modelling head."""

    config: DecoderConfig
    config_class = DecoderConfig
    model_class: ClassVar[type[DecoderModel]] = DecoderModel
    base_model_prefix = "model"
    tied_weights: ClassVar[dict[str, str]] = {"lm_head.weight": "model.embed_tokens.weight"}
    # Tables that old checkpoints carry along.
    ignored_keys = (r"rotary_emb\.inv_freq$",)

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config)
        self.model = self.model_class(config)
        # LongRoPE has two sets of frequencies, and keys rotated by one do not fit queries rotated by the other.
        self.starts_anew_with_variant = any(each.has_two_sets for each in self.model.rotary.values())
        self.lm_head = Linear(config.hidden_size, config.vocab_size, bias=False)
        self.softcap = config.final_logit_softcapping
        self.reset_parameters()
        self.tie_weights()

    def cache_sizes(self) -> tuple[int, int, int]:
        config = self.config
        return config.num_hidden_layers, config.num_key_value_heads or 0, config.head_dim or 0

    def step_variant(self, length: int) -> tuple[int, ...]:
        """Return what must be equal for two decoding steps, after which ``length`` tokens are seen, to be the same."""
        return tuple(rotary.variant(length) for rotary in self.model.rotary.values())

    def hidden(
        self, input_ids: Tensor, position_ids: Tensor, attention_mask: Tensor | None, step: CacheStep | None
    ) -> Tensor:
        return self.model(input_ids, position_ids, attention_mask, step)
