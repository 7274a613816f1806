"""T5 (Raffel et al., 2020): an encoder, and a decoder that reads its result. Version 1.1 and Flan-T5 are options.

Parameter names are those of Hugging Face's checkpoints. In comments B is the batch, T tokens, S tokens attended to, H heads,
D elements of a head, E the width.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Dropout, Embedding, Linear, Module, ModuleList, init
from webgpu_torch_nn import functional as F

from webgpu_torch_models.cache import CacheStep, KeyValueCache
from webgpu_torch_models.config import ModelConfig
from webgpu_torch_models.decoder import RMSNorm
from webgpu_torch_models.joined import products
from webgpu_torch_models.language import activation, classification_loss, kept_positions
from webgpu_torch_models.output import EncoderOutput, Seq2SeqOutput
from webgpu_torch_models.seq2seq import Seq2SeqModel


@dataclasses.dataclass
class T5Config(ModelConfig):
    """Sizes and options, named as in config.json; the defaults are T5-small's."""

    model_type: ClassVar[str] = "t5"

    vocab_size: int = 32128
    d_model: int = 512
    d_kv: int = 64
    d_ff: int = 2048
    num_layers: int = 6
    num_decoder_layers: int | None = None
    num_heads: int = 8
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    dropout_rate: float = 0.1
    layer_norm_epsilon: float = 1e-6
    initializer_factor: float = 1.0
    feed_forward_proj: str = "relu"
    pad_token_id: int = 0
    eos_token_id: int | list[int] | None = 1
    decoder_start_token_id: int | None = None
    # Version 1.1 writes false, and has a head of its own.
    tie_word_embeddings: bool = True
    scale_decoder_outputs: bool | None = None

    def __post_init__(self) -> None:
        if self.num_decoder_layers is None:
            self.num_decoder_layers = self.num_layers
        if self.scale_decoder_outputs is None:
            self.scale_decoder_outputs = self.tie_word_embeddings
        parts = self.feed_forward_proj.split("-")
        if len(parts) > 2 or (len(parts) == 2 and parts[0] != "gated"):
            raise ValueError(
                f'feed_forward_proj "{self.feed_forward_proj}" is unknown: give an activation, such as "relu", or "gated-gelu"'
            )
        activation(self.activation_name)

    @property
    def is_gated(self) -> bool:
        """Whether the MLP has a gate."""
        return self.feed_forward_proj.startswith("gated-")

    @property
    def activation_name(self) -> str:
        """The MLP's activation."""
        return "gelu_new" if self.feed_forward_proj == "gated-gelu" else self.feed_forward_proj.split("-")[-1]

    @property
    def start_token_id(self) -> int:
        """The token that a written sequence starts with."""
        return self.pad_token_id if self.decoder_start_token_id is None else self.decoder_start_token_id


class T5FeedForward(Module):
    """The MLP, with a gate where the configuration says so."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.gated = config.is_gated
        if config.is_gated:
            self.wi_0 = Linear(config.d_model, config.d_ff, bias=False)
            self.wi_1 = Linear(config.d_model, config.d_ff, bias=False)
        else:
            self.wi = Linear(config.d_model, config.d_ff, bias=False)
        self.wo = Linear(config.d_ff, config.d_model, bias=False)
        self.dropout = Dropout(config.dropout_rate)
        self.activation = activation(config.activation_name)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.activation(self.wi_0(x)) * self.wi_1(x) if self.gated else self.activation(self.wi(x))
        return self.wo(self.dropout(inner))


class T5Attention(Module):
    """Attention whose scores are not scaled, and have a learned bias by distance."""

    joined_maps: ClassVar[tuple[str, ...]] = ("q", "k", "v")

    def __init__(self, config: T5Config, has_bias: bool, is_decoder: bool) -> None:
        super().__init__()
        self.heads, self.dropout, self.is_decoder = config.num_heads, config.dropout_rate, is_decoder
        inner = config.num_heads * config.d_kv
        self.q = Linear(config.d_model, inner, bias=False)
        self.k = Linear(config.d_model, inner, bias=False)
        self.v = Linear(config.d_model, inner, bias=False)
        self.o = Linear(inner, config.d_model, bias=False)
        self.buckets, self.distance = config.relative_attention_num_buckets, config.relative_attention_max_distance
        if has_bias:
            self.relative_attention_bias = Embedding(self.buckets, config.num_heads)

    def keys_and_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of states [batch, tokens, width], each [batch, heads, tokens, head_dim]."""
        key, value = products(x, (self.k,), (self.v,))
        return self._split(key), self._split(value)

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of states [batch, tokens, width], each [batch, heads, tokens, head_dim]."""
        query, key, value = products(x, (self.q,), (self.k,), (self.v,))
        return self._split(query), self._split(key), self._split(value)

    def bias(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return what is added to scores, [1, heads, rows, columns], for int64 positions."""
        distance = columns.unsqueeze(0) - rows.unsqueeze(1)  # (T, S)
        found = self.relative_attention_bias(self._bucket(distance))  # (T, S, H)
        return found.permute(2, 0, 1).unsqueeze(0)

    def _bucket(self, distance: Tensor) -> Tensor:
        """Near distances have a bucket each, far ones share by their logarithm."""
        count, base = self.buckets, torch.zeros_like(distance)
        if self.is_decoder:
            distance = (-distance).clamp(min=0)
        else:
            count //= 2
            base, distance = (distance > 0).long() * count, distance.abs()
        exact = count // 2
        ratio = torch.log(distance.clamp(min=1).float() / exact) / math.log(self.distance / exact)
        far = (exact + (ratio * (count - exact)).long()).clamp(max=count - 1)
        return base + torch.where(distance < exact, distance, far)

    def _split(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2)  # (B, H, T, D)

    def forward(
        self, x: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, query: Tensor | None = None
    ) -> Tensor:
        attended = F.scaled_dot_product_attention(
            self._split(self.q(x)) if query is None else query,
            key,
            value,
            attn_mask=bias,
            dropout_p=self.dropout if self.training else 0.0,
            scale=1.0,
        )
        return self.o(attended.transpose(1, 2).reshape(*x.shape[:2], -1))


class T5Sublayer(Module):
    """A branch of a block: normalised before, added after."""

    def __init__(self, config: T5Config, name: str, inner: Module) -> None:
        super().__init__()
        self.inner_name = name
        self.add_module(name, inner)
        self.layer_norm = RMSNorm(config.d_model, config.layer_norm_epsilon)
        self.dropout = Dropout(config.dropout_rate)

    @property
    def inner(self) -> Any:
        """The attention or MLP."""
        return getattr(self, self.inner_name)


class T5Block(Module):
    """Attention to itself, in a decoder to the encoder's result, and the MLP."""

    def __init__(self, config: T5Config, number: int, is_decoder: bool) -> None:
        super().__init__()
        self.number, self.is_decoder = number, is_decoder
        layers = [T5Sublayer(config, "SelfAttention", T5Attention(config, number == 0, is_decoder))]
        if is_decoder:
            layers.append(T5Sublayer(config, "EncDecAttention", T5Attention(config, False, is_decoder)))
        self.layer = ModuleList([*layers, T5Sublayer(config, "DenseReluDense", T5FeedForward(config))])

    def forward(
        self, x: Tensor, bias: Tensor, cache: CacheStep | None, context: tuple[Tensor, Tensor, Tensor | None] | None
    ) -> Tensor:
        own, feed = self.layer[0], self.layer[-1]
        normal = own.layer_norm(x)
        query, key, value = own.inner.parts(normal)
        if cache is not None:
            key, value = cache.update(self.number, key, value)
        x = self._bounded(x + own.dropout(own.inner(normal, key, value, bias, query)))
        if context is not None:
            other = self.layer[1]
            x = self._bounded(x + other.dropout(other.inner(other.layer_norm(x), *context)))
        return self._bounded(x + feed.dropout(feed.inner(feed.layer_norm(x))))

    @staticmethod
    def _bounded(x: Tensor) -> Tensor:
        """Keep halves finite: this network's states outgrow them."""
        if x.dtype != torch.float16:
            return x
        limit = torch.finfo(torch.float16).max - 1000
        return x.clamp(-limit, limit)


class T5Stack(Module):
    """The blocks of the encoder or of the decoder."""

    def __init__(self, config: T5Config, is_decoder: bool) -> None:
        super().__init__()
        self.is_decoder = is_decoder
        count = (config.num_decoder_layers or 0) if is_decoder else config.num_layers
        self.embed_tokens = Embedding(config.vocab_size, config.d_model)
        self.block = ModuleList([T5Block(config, number, is_decoder) for number in range(count)])
        self.final_layer_norm = RMSNorm(config.d_model, config.layer_norm_epsilon)
        self.dropout = Dropout(config.dropout_rate)

    def forward(self, input_ids: Tensor, mask: Tensor | None, cache: CacheStep | None, context: list[Any]) -> Tensor:
        x = self.dropout(self.embed_tokens(input_ids))  # (B, T, E)
        bias = self._bias(input_ids, mask, cache)  # (1 or B, H, T, S)
        for block, each in zip(self.block, context or [None] * len(self.block), strict=True):
            x = block(x, bias, cache, each)
        return self.dropout(self.final_layer_norm(x))

    def _bias(self, input_ids: Tensor, mask: Tensor | None, cache: CacheStep | None) -> Tensor:
        """Return the bias by distance, and -inf where a token does not see another."""
        device, tokens = input_ids.device, input_ids.shape[1]
        if cache is None or cache.is_causal:
            rows = columns = torch.arange(tokens, device=device)
        else:
            rows, columns = cache.positions, torch.arange(cache.window, device=device)
        bias = self.block[0].layer[0].inner.bias(rows, columns)
        seen = (columns <= rows.unsqueeze(1))[None, None] if self.is_decoder else None
        if mask is not None:
            padding = (mask != 0)[:, None, None]
            seen = padding if seen is None else seen & padding
        return bias if seen is None else bias.masked_fill(~seen, -float("inf"))


class T5EncoderModel(Seq2SeqModel):
    """The encoder alone: what Stable Diffusion 3 and Flux read texts with."""

    config: T5Config
    config_class = T5Config
    tied_weights: ClassVar[dict[str, str]] = {"encoder.embed_tokens.weight": "shared.weight"}
    ignored_keys = (r"^decoder\.", r"^lm_head\.")

    def __init__(self, config: T5Config) -> None:
        super().__init__(config)
        self.shared = Embedding(config.vocab_size, config.d_model)
        self.encoder = T5Stack(config, is_decoder=False)
        self.reset_parameters()
        self.tie_weights()

    def active_ties(self) -> dict[str, str]:
        """Embeddings are shared whatever ``tie_word_embeddings`` says, which is about the head."""
        return {name: source for name, source in self.tied_weights.items() if name != "lm_head.weight"}

    def reset_parameters(self) -> None:
        """Draw new weights, normal with the deviations of Mesh TensorFlow's T5."""
        config = self.config
        for name, parameter in self.named_parameters():
            if parameter.ndim < 2:
                continue
            deviation = parameter.shape[1] ** -0.5
            if name.endswith((".q.weight",)):
                deviation = (config.d_model * config.d_kv) ** -0.5
            elif "relative_attention_bias" in name:
                deviation = config.d_model**-0.5
            elif name == "shared.weight" or name.startswith("lm_head"):
                deviation = 1.0
            init.normal_(parameter, std=config.initializer_factor * deviation)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> EncoderOutput:
        """Compute each token's state; ``input_ids`` int64 [batch, tokens], ``attention_mask`` 0 at padding."""
        return EncoderOutput(self.encoder(input_ids, attention_mask, None, []))


class T5ForConditionalGeneration(T5EncoderModel):
    """T5 that writes a text for a text."""

    tied_weights: ClassVar[dict[str, str]] = {
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
        "lm_head.weight": "shared.weight",
    }
    ignored_keys = (r"^decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias",)

    def __init__(self, config: T5Config) -> None:
        Seq2SeqModel.__init__(self, config)
        self.shared = Embedding(config.vocab_size, config.d_model)
        self.encoder = T5Stack(config, is_decoder=False)
        self.decoder = T5Stack(config, is_decoder=True)
        self.lm_head = Linear(config.d_model, config.vocab_size, bias=False)
        self.reset_parameters()
        self.tie_weights()

    def active_ties(self) -> dict[str, str]:
        """The head is the embedding unless ``tie_word_embeddings`` is false."""
        return self.tied_weights if self.config.tie_word_embeddings else super().active_ties()

    def cache_sizes(self) -> tuple[int, int, int]:
        return self.config.num_decoder_layers or 0, self.config.num_heads, self.config.d_kv

    def encode(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return self.encoder(input_ids, attention_mask, None, [])

    def context_of(self, states: Tensor, attention_mask: Tensor | None = None) -> list[Tensor]:
        parts = [each for block in self.decoder.block for each in block.layer[1].inner.keys_and_values(states)]
        return parts if attention_mask is None else [*parts, attention_mask]

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        labels: Tensor | None = None,
        cache: KeyValueCache | CacheStep | None = None,
        logits_to_keep: int | Tensor = 0,
    ) -> Seq2SeqOutput:
        """Compute the logits of the next token at every position of the written text.

        Args:
            input_ids: int64 [batch, tokens], the text that is read; with a cache, the text that is written.
            attention_mask: [batch, tokens], 0 at padding of the text that is read.
            decoder_input_ids: int64 [batch, tokens], what is written; ``labels`` moved by one where there are any.
            labels: int64 [batch, tokens], -100 where nothing is asked.
            cache: holds what was read, and what was written before.
            logits_to_keep: compute the logits of only that many last positions (0 is all), or of those that int64
                [positions] names.
        """
        step, written, states, context = self.parts(input_ids, attention_mask, decoder_input_ids, labels, cache)
        count = 2 * len(self.decoder.block)
        mask = (context[count] != 0)[:, None, None] if len(context) > count else None
        pairs = [(context[number], context[number + 1], mask) for number in range(0, count, 2)]
        x = self.decoder(written, None, step, pairs)
        x = kept_positions(x, logits_to_keep)
        logits = self.lm_head(x * self.config.d_model**-0.5 if self.config.scale_decoder_outputs else x)
        return Seq2SeqOutput(logits, states, classification_loss(logits, labels), cache)
