"""GPT-2 (Radford et al., 2019), with the parameter names of Hugging Face's checkpoints."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

from webgpu_torch_core import Tensor
from webgpu_torch_nn import Dropout, Embedding, LayerNorm, Linear, Module, ModuleList, init
from webgpu_torch_nn import functional as F

from webgpu_torch_models.cache import CacheStep
from webgpu_torch_models.causal import CausalLM
from webgpu_torch_models.config import ModelConfig
from webgpu_torch_models.language import activation, check_heads, mask_of
from webgpu_torch_models.linear import Conv1D


@dataclasses.dataclass
class GPT2Config(ModelConfig):
    """The sizes and options of a GPT-2, named as in config.json; the defaults are the 124-million-parameter model."""

    model_type: ClassVar[str] = "gpt2"

    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None
    activation_function: str = "gelu_new"
    resid_pdrop: float = 0.1
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-5
    initializer_range: float = 0.02
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    tie_word_embeddings: bool = True
    bos_token_id: int | None = 50256
    eos_token_id: int | list[int] | None = 50256
    pad_token_id: int | None = None

    def __post_init__(self) -> None:
        check_heads(n_embd=self.n_embd, n_head=self.n_head)
        activation(self.activation_function)


class GPT2Attention(Module):
    """Causal self-attention with several heads."""

    def __init__(self, config: GPT2Config, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.n_head = config.n_head
        self.dropout = config.attn_pdrop
        self.scale = 1 / math.sqrt(config.n_embd // config.n_head) if config.scale_attn_weights else 1.0
        if config.scale_attn_by_inverse_layer_idx:
            self.scale /= layer + 1
        self.c_attn = Conv1D(3 * config.n_embd, config.n_embd)
        self.c_proj = Conv1D(config.n_embd, config.n_embd)
        self.resid_dropout = Dropout(config.resid_pdrop)

    def forward(self, x: Tensor, mask: Tensor | None, cache: CacheStep | None) -> Tensor:
        batch, tokens, width = x.shape
        query, both = (
            part.reshape(batch, tokens, -1, width // self.n_head).transpose(1, 2)  # (B, H, T, D), (B, 2 H, T, D)
            for part in self.c_attn(x).split((width, 2 * width), dim=2)
        )
        # Keys and values stay beside each other: what computes them stores them in the cache.
        key, value = both.chunk(2, dim=1) if cache is None else cache.update_both(self.layer, both)
        attended = F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=mask is None,
            scale=self.scale,
        )
        return self.resid_dropout(self.c_proj(attended.transpose(1, 2).reshape(batch, tokens, width)))


class GPT2MLP(Module):
    """Two linear maps with an activation between them."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        inner = 4 * config.n_embd if config.n_inner is None else config.n_inner
        self.c_fc = Conv1D(inner, config.n_embd)
        self.c_proj = Conv1D(config.n_embd, inner)
        self.activation = activation(config.activation_function)
        self.dropout = Dropout(config.resid_pdrop)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.c_proj(self.activation(self.c_fc(x))))


class GPT2Block(Module):
    """Attention and then the MLP, each on the normalised input and added to it."""

    def __init__(self, config: GPT2Config, layer: int) -> None:
        super().__init__()
        self.ln_1 = LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.attn = GPT2Attention(config, layer)
        self.ln_2 = LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.mlp = GPT2MLP(config)

    def forward(self, x: Tensor, mask: Tensor | None, cache: CacheStep | None) -> Tensor:
        x = x + self.attn(self.ln_1(x), mask, cache)
        return x + self.mlp(self.ln_2(x))


class GPT2Model(Module):
    """Embeddings, the blocks, and the last normalisation."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.wte = Embedding(config.vocab_size, config.n_embd)
        self.wpe = Embedding(config.n_positions, config.n_embd)
        self.drop = Dropout(config.embd_pdrop)
        self.h = ModuleList([GPT2Block(config, layer) for layer in range(config.n_layer)])
        self.ln_f = LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)

    def forward(
        self, input_ids: Tensor, position_ids: Tensor, mask: Tensor | None = None, cache: CacheStep | None = None
    ) -> Tensor:
        x = self.drop(self.wte(input_ids) + self.wpe(position_ids))
        for block in self.h:
            x = block(x, mask, cache)
        return self.ln_f(x)


class GPT2LMHeadModel(CausalLM):
    """GPT-2 with a language-modelling head, which is the token embedding again."""

    config: GPT2Config
    config_class = GPT2Config
    base_model_prefix = "transformer"
    tied_weights: ClassVar[dict[str, str]] = {"lm_head.weight": "transformer.wte.weight"}
    # Causal masks that older checkpoints carry along.
    ignored_keys = (r"\.attn\.(bias|masked_bias)$",)

    def __init__(self, config: GPT2Config) -> None:
        super().__init__(config)
        self.transformer = GPT2Model(config)
        self.lm_head = Linear(config.n_embd, config.vocab_size, bias=False)
        self.reset_parameters()
        self.tie_weights()

    def reset_parameters(self) -> None:
        """Draw new weights: normal, with the projections onto the residual stream scaled down by its length."""
        deviation = self.config.initializer_range
        for name, parameter in self.named_parameters():
            if name.endswith("c_proj.weight"):
                init.normal_(parameter, std=deviation / math.sqrt(2 * self.config.n_layer))
            elif name.endswith(".weight") and parameter.ndim == 2:
                init.normal_(parameter, std=deviation)

    def cache_sizes(self) -> tuple[int, int, int]:
        return self.config.n_layer, self.config.n_head, self.config.n_embd // self.config.n_head

    def default_positions(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Return int64 [1, tokens], counted from the start: learned positions of padding are as good as any."""
        return super().default_positions(input_ids, None)

    def hidden(
        self, input_ids: Tensor, position_ids: Tensor, attention_mask: Tensor | None, step: CacheStep | None
    ) -> Tensor:
        count = input_ids.shape[1] if step is None else step.length
        if count > self.config.n_positions:
            raise ValueError(f"{count} tokens are more than the model's n_positions={self.config.n_positions}")
        mask = mask_of(input_ids, attention_mask, step)
        return self.transformer(input_ids, position_ids, mask, step)
