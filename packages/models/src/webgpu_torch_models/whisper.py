"""Whisper (Radford et al., 2022): an encoder of sound, and a decoder that writes what was said.

Parameter names are those of Hugging Face's checkpoints. In comments B is the batch, T tokens or frames, S tokens attended to,
H heads, D elements of a head, E the width, M bands of frequency.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Conv1d, Embedding, LayerNorm, Linear, Module, ModuleList, init
from webgpu_torch_nn import functional as F

from webgpu_torch_models.cache import CacheStep, KeyValueCache
from webgpu_torch_models.config import ModelConfig
from webgpu_torch_models.joined import products
from webgpu_torch_models.language import activation, check_heads, classification_loss, kept_positions, sinusoids
from webgpu_torch_models.output import Seq2SeqOutput
from webgpu_torch_models.seq2seq import Seq2SeqModel


@dataclasses.dataclass
class WhisperConfig(ModelConfig):
    """Sizes and options, named as in config.json; the defaults are Whisper-tiny's."""

    model_type: ClassVar[str] = "whisper"

    vocab_size: int = 51865
    num_mel_bins: int = 80
    d_model: int = 384
    encoder_layers: int = 4
    encoder_attention_heads: int = 6
    encoder_ffn_dim: int = 1536
    decoder_layers: int = 4
    decoder_attention_heads: int = 6
    decoder_ffn_dim: int = 1536
    activation_function: str = "gelu"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    init_std: float = 0.02
    scale_embedding: bool = False
    max_source_positions: int = 1500
    max_target_positions: int = 448
    decoder_start_token_id: int = 50257
    pad_token_id: int = 50256
    bos_token_id: int | None = 50256
    eos_token_id: int | list[int] | None = 50256
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        check_heads(d_model=self.d_model, encoder_attention_heads=self.encoder_attention_heads)
        check_heads(d_model=self.d_model, decoder_attention_heads=self.decoder_attention_heads)
        activation(self.activation_function)

    @property
    def start_token_id(self) -> int:
        """The token that a written sequence starts with."""
        return self.decoder_start_token_id


class WhisperAttention(Module):
    """Attention with several heads; keys have no bias."""

    joined_maps: ClassVar[tuple[str, ...]] = ("q_proj", "k_proj", "v_proj")

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.k_proj = Linear(width, width, bias=False)
        self.v_proj, self.q_proj, self.out_proj = Linear(width, width), Linear(width, width), Linear(width, width)

    def _split(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2)  # (B, H, T, D)

    def keys_and_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of states [batch, tokens, width], each [batch, heads, tokens, head_dim]."""
        key, value = products(x, (self.k_proj,), (self.v_proj,))
        return self._split(key), self._split(value)

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of states [batch, tokens, width], each [batch, heads, tokens, head_dim]."""
        query, key, value = products(x, (self.q_proj,), (self.k_proj,), (self.v_proj,))
        return self._split(query), self._split(key), self._split(value)

    def forward(
        self,
        x: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        is_causal: bool = False,
        query: Tensor | None = None,
    ) -> Tensor:
        attended = F.scaled_dot_product_attention(
            self._split(self.q_proj(x)) if query is None else query, key, value, attn_mask=mask, is_causal=is_causal,
            dropout_p=self.dropout if self.training else 0.0,
        )  # fmt: skip
        return self.out_proj(attended.transpose(1, 2).reshape(x.shape))


class WhisperLayer(Module):
    """Attention, in the decoder also to the encoder's result, and the MLP, each on the normalised input and added to it."""

    def __init__(self, config: WhisperConfig, number: int, is_decoder: bool) -> None:
        super().__init__()
        kind = "decoder" if is_decoder else "encoder"
        heads, inner = getattr(config, f"{kind}_attention_heads"), getattr(config, f"{kind}_ffn_dim")
        self.number, self.is_decoder = number, is_decoder
        self.self_attn = WhisperAttention(config.d_model, heads, config.attention_dropout)
        self.self_attn_layer_norm = LayerNorm(config.d_model)
        if is_decoder:
            self.encoder_attn = WhisperAttention(config.d_model, heads, config.attention_dropout)
            self.encoder_attn_layer_norm = LayerNorm(config.d_model)
        self.fc1, self.fc2 = Linear(config.d_model, inner), Linear(inner, config.d_model)
        self.final_layer_norm = LayerNorm(config.d_model)
        self.activation = activation(config.activation_function)
        self.dropout, self.inner_dropout = config.dropout, config.activation_dropout

    def forward(
        self, x: Tensor, mask: Tensor | None = None, cache: CacheStep | None = None, context: Any = None
    ) -> Tensor:
        normal = self.self_attn_layer_norm(x)
        query, key, value = self.self_attn.parts(normal)
        if cache is not None:
            key, value = cache.update(self.number, key, value)
        x = x + self._drop(self.self_attn(normal, key, value, mask, self.is_decoder and mask is None, query))
        if context is not None:
            x = x + self._drop(self.encoder_attn(self.encoder_attn_layer_norm(x), *context, None))
        inner = self.activation(self.fc1(self.final_layer_norm(x)))
        return x + self._drop(self.fc2(F.dropout(inner, self.inner_dropout, self.training)))

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)


class WhisperEncoder(Module):
    """Two convolutions over time and the layers."""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        self.bands, self.limit = config.num_mel_bins, config.max_source_positions
        self.conv1 = Conv1d(config.num_mel_bins, config.d_model, kernel_size=3, padding=1)
        self.conv2 = Conv1d(config.d_model, config.d_model, kernel_size=3, stride=2, padding=1)
        self.embed_positions = Embedding(config.max_source_positions, config.d_model)
        self.embed_positions.requires_grad_(False)
        self.layers = ModuleList([WhisperLayer(config, number, False) for number in range(config.encoder_layers)])
        self.layer_norm = LayerNorm(config.d_model)
        self.dropout = config.dropout

    def forward(self, input_features: Tensor) -> Tensor:
        """Return states [batch, frames / 2, width] of logarithmic spectrograms [batch, bands, frames]."""
        if input_features.ndim != 3 or tuple(input_features.shape[1:]) != (self.bands, 2 * self.limit):
            raise ValueError(
                f"input_features must be [batch, {self.bands}, {2 * self.limit}], padded with silence to that length, "
                f"got {list(input_features.shape)}"
            )
        x = F.gelu(self.conv2(F.gelu(self.conv1(input_features))))  # (B, E, T)
        # All layers add to it: a position's features are to lie side by side.
        x = x.transpose(1, 2).contiguous() + self.embed_positions.weight  # (B, T, E)
        x = F.dropout(x, self.dropout, self.training)
        for layer in self.layers:
            x = layer(x)
        return self.layer_norm(x)


class WhisperDecoder(Module):
    """Tokens, positions and the layers."""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        self.embed_tokens = Embedding(config.vocab_size, config.d_model, padding_idx=config.pad_token_id)
        self.embed_positions = Embedding(config.max_target_positions, config.d_model)
        self.layers = ModuleList([WhisperLayer(config, number, True) for number in range(config.decoder_layers)])
        self.layer_norm = LayerNorm(config.d_model)
        self.scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        self.dropout = config.dropout

    def forward(self, input_ids: Tensor, cache: CacheStep | None, context: list[Any]) -> Tensor:
        tokens, limit = input_ids.shape[1], self.embed_positions.num_embeddings
        if (tokens if cache is None else cache.length) > limit:
            raise ValueError(f"more tokens than the model's max_target_positions={limit}")
        positions = torch.arange(tokens, device=input_ids.device) if cache is None else cache.position_ids
        x = self.embed_tokens(input_ids) * self.scale + self.embed_positions(positions)  # (B, T, E)
        x = F.dropout(x, self.dropout, self.training)
        mask = None if cache is None else cache.mask_within()
        for layer, each in zip(self.layers, context, strict=True):
            x = layer(x, mask, cache, each)
        return self.layer_norm(x)


class WhisperModel(Module):
    """Encoder and decoder."""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        self.encoder = WhisperEncoder(config)
        self.decoder = WhisperDecoder(config)


class WhisperForConditionalGeneration(Seq2SeqModel):
    """Whisper that writes what was said."""

    config: WhisperConfig
    config_class = WhisperConfig
    base_model_prefix = "model"
    main_input_name = "input_features"
    tied_weights: ClassVar[dict[str, str]] = {"proj_out.weight": "model.decoder.embed_tokens.weight"}

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__(config)
        self.model = WhisperModel(config)
        self.proj_out = Linear(config.d_model, config.vocab_size, bias=False)
        self.reset_parameters()
        self.tie_weights()

    def reset_parameters(self) -> None:
        """Draw new weights, normal with ``init_std``; the encoder's positions are sines and cosines."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.normal_(parameter, std=self.config.init_std)
        positions = self.model.encoder.embed_positions.weight
        with torch.no_grad():
            numbers = torch.arange(positions.shape[0], device=positions.device)
            positions.copy_(sinusoids(numbers, positions.shape[1]))

    def cache_sizes(self) -> tuple[int, int, int]:
        config = self.config
        heads = config.decoder_attention_heads
        return config.decoder_layers, heads, config.d_model // heads

    def encode(self, input_features: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return self.model.encoder(input_features)

    def context_of(self, states: Tensor, attention_mask: Tensor | None = None) -> list[Tensor]:
        return [each for layer in self.model.decoder.layers for each in layer.encoder_attn.keys_and_values(states)]

    def forward(
        self,
        input_features: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        labels: Tensor | None = None,
        cache: KeyValueCache | CacheStep | None = None,
        logits_to_keep: int | Tensor = 0,
    ) -> Seq2SeqOutput:
        """Compute the logits of the next token at every position of the written text.

        Args:
            input_features: [batch, bands, frames], logarithmic spectrograms; with a cache, int64 [batch, tokens], what is
                written.
            decoder_input_ids: int64 [batch, tokens], what is written; ``labels`` moved by one where there are any.
            labels: int64 [batch, tokens], -100 where nothing is asked.
            cache: holds what was heard, and what was written before.
            logits_to_keep: compute the logits of only that many last positions (0 is all), or of those that int64
                [positions] names.

        Raises:
            ValueError: features of another length than the model's, too many tokens, or nothing to read.
        """
        step, written, states, context = self.parts(input_features, None, decoder_input_ids, labels, cache)
        pairs = list(zip(context[::2], context[1::2], strict=True))
        x = self.model.decoder(written, step, pairs)
        logits = self.proj_out(kept_positions(x, logits_to_keep))
        return Seq2SeqOutput(logits, states, classification_loss(logits, labels), cache)
