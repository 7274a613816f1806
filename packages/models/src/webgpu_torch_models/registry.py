"""Which architecture is written where: a new one is one file and one row here."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from webgpu_torch_models.config import ModelConfig
    from webgpu_torch_models.pretrained import PreTrainedModel


class Architecture(NamedTuple):
    """Where an architecture is; its module is imported when it is first asked for."""

    module: str
    config: str
    causal_lm: str

    def config_class(self) -> type[ModelConfig]:
        """Return the configuration's class."""
        return getattr(importlib.import_module(self.module), self.config)

    def causal_lm_class(self) -> type[PreTrainedModel]:
        """Return the class of the model with a language-modelling head."""
        return getattr(importlib.import_module(self.module), self.causal_lm)


ARCHITECTURES: dict[str, Architecture] = {
    "gpt2": Architecture("webgpu_torch_models.gpt2", "GPT2Config", "GPT2LMHeadModel"),
    "gemma": Architecture("webgpu_torch_models.decoder_families", "GemmaConfig", "GemmaForCausalLM"),
    "gemma2": Architecture("webgpu_torch_models.decoder_families", "Gemma2Config", "Gemma2ForCausalLM"),
    "gemma3_text": Architecture("webgpu_torch_models.decoder_families", "Gemma3TextConfig", "Gemma3ForCausalLM"),
    "llama": Architecture("webgpu_torch_models.decoder_families", "LlamaConfig", "LlamaForCausalLM"),
    "mistral": Architecture("webgpu_torch_models.decoder_families", "MistralConfig", "MistralForCausalLM"),
    "mixtral": Architecture("webgpu_torch_models.experts", "MixtralConfig", "MixtralForCausalLM"),
    "olmo2": Architecture("webgpu_torch_models.decoder_families", "Olmo2Config", "Olmo2ForCausalLM"),
    "phi3": Architecture("webgpu_torch_models.decoder_families", "Phi3Config", "Phi3ForCausalLM"),
    "qwen2": Architecture("webgpu_torch_models.decoder_families", "Qwen2Config", "Qwen2ForCausalLM"),
    "qwen3": Architecture("webgpu_torch_models.decoder_families", "Qwen3Config", "Qwen3ForCausalLM"),
    "qwen3_moe": Architecture("webgpu_torch_models.experts", "Qwen3MoeConfig", "Qwen3MoeForCausalLM"),
}


def architecture(model_type: str | None, source: object) -> Architecture:
    """Return the architecture that config.json calls ``model_type``.

    Raises:
        ValueError: it is not among those supported.
    """
    if model_type not in ARCHITECTURES:
        supported = ", ".join(sorted(ARCHITECTURES))
        raise ValueError(f'{source}: model_type is "{model_type}"; supported are: {supported}')
    return ARCHITECTURES[model_type]
