"""GPT-NeoX (Black et al., 2022) and Pythia, with the parameter names of Hugging Face's checkpoints.

In comments B is the batch, T tokens, H heads, D elements of a head.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from webgpu_torch_core import Tensor
from webgpu_torch_nn import Dropout, Embedding, LayerNorm, Linear, Module, ModuleList
from webgpu_torch_nn import functional as F

from webgpu_torch_models.cache import CacheStep
from webgpu_torch_models.causal import CausalLM
from webgpu_torch_models.config import ModelConfig
from webgpu_torch_models.language import activation, check_heads, mask_of
from webgpu_torch_models.rotary import RotaryEmbedding, rope_parameters, rotate


@dataclasses.dataclass
class GPTNeoXConfig(ModelConfig):
    """Sizes and options, named as in config.json; the defaults are GPT-NeoX-20B's."""

    model_type: ClassVar[str] = "gpt_neox"

    vocab_size: int = 50432
    hidden_size: int = 6144
    num_hidden_layers: int = 44
    num_attention_heads: int = 64
    intermediate_size: int = 24576
    hidden_act: str = "gelu"
    attention_dropout: float = 0.0
    hidden_dropout: float = 0.0
    max_position_embeddings: int = 2048
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-5
    use_parallel_residual: bool = True
    attention_bias: bool = True
    rope_parameters: dict[str, Any] | None = None
    rotary_pct: float = 0.25
    rotary_emb_base: float = 10000.0
    tie_word_embeddings: bool = False
    bos_token_id: int | None = 0
    eos_token_id: int | list[int] | None = 2
    pad_token_id: int | None = None

    def __post_init__(self) -> None:
        check_heads(hidden_size=self.hidden_size, num_attention_heads=self.num_attention_heads)
        activation(self.hidden_act)
        self.rotary()

    @property
    def head_dim(self) -> int:
        """Elements of a head."""
        return self.hidden_size // self.num_attention_heads

    def rotary(self) -> RotaryEmbedding:
        """Return the angles of positions, which rotate a part of each head."""
        own = {"rope_parameters": self.rope_parameters, "partial_rotary_factor": self.rotary_pct}
        parameters = rope_parameters({**self.extra, **own}, self.rotary_emb_base, self.max_position_embeddings)
        return RotaryEmbedding(parameters, self.head_dim)


class GPTNeoXAttention(Module):
    """Causal self-attention; one matrix gives each head's query, key and value in turn."""

    def __init__(self, config: GPTNeoXConfig, layer: int) -> None:
        super().__init__()
        self.layer, self.heads, self.dropout = layer, config.num_attention_heads, config.attention_dropout
        self.query_key_value = Linear(config.hidden_size, 3 * config.hidden_size, bias=config.attention_bias)
        self.dense = Linear(config.hidden_size, config.hidden_size, bias=config.attention_bias)

    def forward(self, x: Tensor, angles: tuple[Tensor, Tensor], mask: Tensor | None, cache: CacheStep | None) -> Tensor:
        batch, tokens, width = x.shape
        fused = self.query_key_value(x).reshape(batch, tokens, self.heads, -1).transpose(1, 2)  # (B, H, T, 3 D)
        query, key, value = fused.chunk(3, dim=-1)
        query, key = rotate(query, *angles), rotate(key, *angles)
        if cache is not None:
            key, value = cache.update(self.layer, key, value)
        attended = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0, is_causal=mask is None
        )
        return self.dense(attended.transpose(1, 2).reshape(batch, tokens, width))


class GPTNeoXMLP(Module):
    """Two linear maps with an activation between them."""

    def __init__(self, config: GPTNeoXConfig) -> None:
        super().__init__()
        self.dense_h_to_4h = Linear(config.hidden_size, config.intermediate_size)
        self.dense_4h_to_h = Linear(config.intermediate_size, config.hidden_size)
        self.activation = activation(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        return self.dense_4h_to_h(self.activation(self.dense_h_to_4h(x)))


class GPTNeoXLayer(Module):
    """Attention and the MLP, each on the normalised input: beside each other, or one after the other."""

    def __init__(self, config: GPTNeoXConfig, layer: int) -> None:
        super().__init__()
        self.parallel = config.use_parallel_residual
        self.input_layernorm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.post_attention_layernorm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.attention, self.mlp = GPTNeoXAttention(config, layer), GPTNeoXMLP(config)
        self.dropout = Dropout(config.hidden_dropout)

    def forward(self, x: Tensor, angles: tuple[Tensor, Tensor], mask: Tensor | None, cache: CacheStep | None) -> Tensor:
        attended = x + self.dropout(self.attention(self.input_layernorm(x), angles, mask, cache))
        inner = self.mlp(self.post_attention_layernorm(x if self.parallel else attended))
        return attended + self.dropout(inner)


class GPTNeoXModel(Module):
    """The embedding, the layers, and the last normalisation."""

    def __init__(self, config: GPTNeoXConfig) -> None:
        super().__init__()
        self.rotary = config.rotary()
        self.embed_in = Embedding(config.vocab_size, config.hidden_size)
        self.emb_dropout = Dropout(config.hidden_dropout)
        self.layers = ModuleList([GPTNeoXLayer(config, layer) for layer in range(config.num_hidden_layers)])
        self.final_layer_norm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, input_ids: Tensor, position_ids: Tensor, mask: Tensor | None, cache: CacheStep | None) -> Tensor:
        x = self.emb_dropout(self.embed_in(input_ids))
        angles = self.rotary(position_ids, x.dtype, input_ids.shape[1] if cache is None else cache.length)
        for layer in self.layers:
            x = layer(x, angles, mask, cache)
        return self.final_layer_norm(x)


class GPTNeoXForCausalLM(CausalLM):
    """GPT-NeoX with a language-modelling head."""

    config: GPTNeoXConfig
    config_class = GPTNeoXConfig
    base_model_prefix = "gpt_neox"
    head = "embed_out"
    tied_weights: ClassVar[dict[str, str]] = {"embed_out.weight": "gpt_neox.embed_in.weight"}
    # Causal masks and tables that older checkpoints carry along.
    ignored_keys = (r"\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)$",)

    def __init__(self, config: GPTNeoXConfig) -> None:
        super().__init__(config)
        self.gpt_neox = GPTNeoXModel(config)
        self.embed_out = Linear(config.hidden_size, config.vocab_size, bias=False)
        self.reset_parameters()
        self.tie_weights()

    def cache_sizes(self) -> tuple[int, int, int]:
        return self.config.num_hidden_layers, self.config.num_attention_heads, self.config.head_dim

    def step_variant(self, length: int) -> int:
        """Return what must be equal for two decoding steps, after which ``length`` tokens are seen, to be the same."""
        return self.gpt_neox.rotary.variant(length)

    def hidden(
        self, input_ids: Tensor, position_ids: Tensor, attention_mask: Tensor | None, step: CacheStep | None
    ) -> Tensor:
        mask = mask_of(input_ids, attention_mask, step)
        return self.gpt_neox(input_ids, position_ids, mask, step)
