"""The families of decoders: what each one's configuration says, and its model's name."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from webgpu_torch_models.decoder import FULL, SLIDING, DecoderConfig, DecoderForCausalLM
from webgpu_torch_models.rotary import rope_parameters


@dataclasses.dataclass
class LlamaConfig(DecoderConfig):
    """Llama 1 to 3 (Touvron et al., 2023; Dubey et al., 2024), SmolLM and others of the same shape."""

    model_type: ClassVar[str] = "llama"


@dataclasses.dataclass
class MistralConfig(DecoderConfig):
    """Mistral (Jiang et al., 2023): attention within a window, in all layers."""

    model_type: ClassVar[str] = "mistral"

    intermediate_size: int = 14336
    num_key_value_heads: int | None = 8
    max_position_embeddings: int = 131072
    sliding_window: int | None = 4096


@dataclasses.dataclass
class Qwen2Config(DecoderConfig):
    """Qwen2 and Qwen2.5 (Yang et al., 2024): a bias in queries, keys and values."""

    model_type: ClassVar[str] = "qwen2"
    bias_of_queries: ClassVar[bool] = True

    vocab_size: int = 151936
    intermediate_size: int = 22016
    max_position_embeddings: int = 32768
    use_sliding_window: bool = False
    sliding_window: int | None = 4096
    max_window_layers: int = 28
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None

    def __post_init__(self) -> None:
        if not self.use_sliding_window:
            self.sliding_window = None
        super().__post_init__()

    def default_layer_type(self, layer: int) -> str:
        """Layers from ``max_window_layers`` on see a window."""
        return SLIDING if self.sliding_window is not None and layer >= self.max_window_layers else FULL


@dataclasses.dataclass
class Qwen3Config(Qwen2Config):
    """Qwen3 (Yang et al., 2025): queries and keys normalised per head, no bias."""

    model_type: ClassVar[str] = "qwen3"
    bias_of_queries: ClassVar[bool] = False
    query_key_norm: ClassVar[str] = "head"

    num_key_value_heads: int | None = 32
    head_dim: int | None = 128


@dataclasses.dataclass
class GemmaConfig(DecoderConfig):
    """Gemma (Gemma Team, 2024): wide heads, scaled embeddings, norms around one."""

    model_type: ClassVar[str] = "gemma"
    norm_offset: ClassVar[float] = 1.0
    scaled_embedding: ClassVar[bool] = True

    vocab_size: int = 256000
    hidden_size: int = 3072
    intermediate_size: int = 24576
    num_hidden_layers: int = 28
    num_attention_heads: int = 16
    num_key_value_heads: int | None = 16
    head_dim: int | None = 256
    hidden_act: str = "gelu_pytorch_tanh"
    max_position_embeddings: int = 8192
    tie_word_embeddings: bool = True
    bos_token_id: int | None = 2
    eos_token_id: int | list[int] | None = 1
    pad_token_id: int | None = 0

    def __post_init__(self) -> None:
        # The first checkpoints say "gelu" in hidden_act and mean the approximation, as Hugging Face's library does.
        self.hidden_act = "gelu_pytorch_tanh" if self.hidden_act == "gelu" else self.hidden_act
        super().__post_init__()


@dataclasses.dataclass
class Gemma2Config(GemmaConfig):
    """Gemma 2: norms before and after, capped scores and logits, a window in every other layer."""

    model_type: ClassVar[str] = "gemma2"
    norms: ClassVar[str] = "both"

    hidden_size: int = 2304
    intermediate_size: int = 9216
    num_hidden_layers: int = 26
    num_attention_heads: int = 8
    num_key_value_heads: int | None = 4
    hidden_activation: str | None = "gelu_pytorch_tanh"
    query_pre_attn_scalar: float | None = 256
    sliding_window: int | None = 4096
    final_logit_softcapping: float | None = 30.0
    attn_logit_softcapping: float | None = 50.0

    def default_layer_type(self, layer: int) -> str:
        """Every other layer sees a window."""
        return FULL if (layer + 1) % 2 == 0 else SLIDING


@dataclasses.dataclass
class Gemma3TextConfig(Gemma2Config):
    """Gemma 3, its language part: queries and keys normalised per head; five of six layers see a window."""

    model_type: ClassVar[str] = "gemma3_text"
    query_key_norm: ClassVar[str] = "head"

    vocab_size: int = 262208
    max_position_embeddings: int = 131072
    sliding_window_pattern: int = 6
    rope_theta: float = 1000000.0
    rope_local_base_freq: float = 10000.0
    rope_scaling: dict[str, Any] | None = None
    final_logit_softcapping: float | None = None
    attn_logit_softcapping: float | None = None

    def default_layer_type(self, layer: int) -> str:
        """Every ``sliding_window_pattern``-th layer sees everything."""
        return FULL if (layer + 1) % self.sliding_window_pattern == 0 else SLIDING

    def rope(self, layer_type: str) -> dict[str, Any]:
        """Layers with a window have a base of their own and are never stretched."""
        given = (self.rope_parameters or {}).get(layer_type) or {}
        base = self.rope_theta if layer_type == FULL else self.rope_local_base_freq
        if layer_type == FULL and not given and self.rope_scaling:
            given = dict(self.rope_scaling)
        return rope_parameters({"rope_parameters": given}, base, self.max_position_embeddings)


@dataclasses.dataclass
class Phi3Config(DecoderConfig):
    """Phi-3 and Phi-4-mini (Abdin et al., 2024): fused projections."""

    model_type: ClassVar[str] = "phi3"
    fused_projections: ClassVar[bool] = True

    vocab_size: int = 32064
    hidden_size: int = 3072
    intermediate_size: int = 8192
    max_position_embeddings: int = 4096
    original_max_position_embeddings: int | None = None
    partial_rotary_factor: float = 1.0
    rms_norm_eps: float = 1e-5
    eos_token_id: int | list[int] | None = 32000
    pad_token_id: int | None = 32000

    def rope(self, layer_type: str) -> dict[str, Any]:
        """What Phi calls "yarn" is LongRoPE, too."""
        own = {
            "rope_parameters": self.rope_parameters,
            "partial_rotary_factor": self.partial_rotary_factor,
            "original_max_position_embeddings": self.original_max_position_embeddings,
        }
        result = rope_parameters({**self.extra, **own}, self.default_theta, self.max_position_embeddings)
        result["rope_type"] = {"yarn": "longrope"}.get(result["rope_type"], result["rope_type"])
        return result


@dataclasses.dataclass
class Olmo2Config(DecoderConfig):
    """OLMo 2 (OLMo Team, 2024): norms after the branches, queries and keys normalised over all heads."""

    model_type: ClassVar[str] = "olmo2"
    norms: ClassVar[str] = "after"
    query_key_norm: ClassVar[str] = "projection"

    vocab_size: int = 50304
    rms_norm_eps: float = 1e-5
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = 50279
    pad_token_id: int | None = 1


class LlamaForCausalLM(DecoderForCausalLM):
    """Llama with a language-modelling head."""

    config_class = LlamaConfig


class MistralForCausalLM(DecoderForCausalLM):
    """Mistral with a language-modelling head."""

    config_class = MistralConfig


class Qwen2ForCausalLM(DecoderForCausalLM):
    """Qwen2 with a language-modelling head."""

    config_class = Qwen2Config


class Qwen3ForCausalLM(DecoderForCausalLM):
    """Qwen3 with a language-modelling head."""

    config_class = Qwen3Config


class GemmaForCausalLM(DecoderForCausalLM):
    """Gemma with a language-modelling head."""

    config_class = GemmaConfig


class Gemma2ForCausalLM(DecoderForCausalLM):
    """Gemma 2 with a language-modelling head."""

    config_class = Gemma2Config


class Gemma3ForCausalLM(DecoderForCausalLM):
    """Gemma 3's language part with a language-modelling head."""

    config_class = Gemma3TextConfig


class Phi3ForCausalLM(DecoderForCausalLM):
    """Phi-3 with a language-modelling head."""

    config_class = Phi3Config


class Olmo2ForCausalLM(DecoderForCausalLM):
    """OLMo 2 with a language-modelling head."""

    config_class = Olmo2Config
