"""Which architecture is written where: a new one is one file and one row here."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple

from webgpu_torch_core.files.host_tensors import brief

if TYPE_CHECKING:
    from webgpu_torch_models.config import ModelConfig
    from webgpu_torch_models.pretrained import PreTrainedModel


class Architecture(NamedTuple):
    """Where an architecture is; its module is imported when it is first asked for.

    Attributes:
        module: in this package.
        name: what its classes' names start with; the configuration's is ``name`` + "Config" unless ``config`` says another.
        tasks: what its models end in: "Model", "ForCausalLM" and so on.
        config: the configuration's class.
        causal_lm: the language model's class, where it has a name of its own.
    """

    module: str
    name: str
    tasks: tuple[str, ...]
    config: str = ""
    causal_lm: str = ""

    def config_class(self) -> type[ModelConfig]:
        """Return the configuration's class."""
        return self._get(self.config or f"{self.name}Config")

    def model_class(self, task: str) -> type[PreTrainedModel]:
        """Return the class of the model for a task.

        Raises:
            ValueError: there is none.
        """
        if task not in self.tasks:
            raise ValueError(f"{self.name} has no model {task}; it has: {', '.join(self.tasks)}")
        return self._get(self.causal_lm if task == CAUSAL_LM and self.causal_lm else self.name + task)

    def _get(self, name: str) -> type:
        return getattr(importlib.import_module(f"webgpu_torch_models.{self.module}"), name)


MODEL, CAUSAL_LM, MASKED_LM, SEQUENCES = "Model", "ForCausalLM", "ForMaskedLM", "ForSequenceClassification"
TOKENS, SPANS = "ForTokenClassification", "ForQuestionAnswering"
SEQ2SEQ, ENCODER_MODEL, IMAGES = "ForConditionalGeneration", "EncoderModel", "ForImageClassification"
_LANGUAGE = (CAUSAL_LM,)
_ENCODER = (MODEL, MASKED_LM, SEQUENCES, TOKENS, SPANS)
_VISION = (MODEL, IMAGES)

ARCHITECTURES: dict[str, Architecture] = {
    "bert": Architecture("bert", "Bert", _ENCODER),
    "clip": Architecture("clip", "CLIP", (MODEL,)),
    "clip_text_model": Architecture("clip", "CLIPText", (MODEL, "ModelWithProjection")),
    "clip_vision_model": Architecture("clip", "CLIPVision", (MODEL,)),
    "deit": Architecture("vit", "DeiT", (*_VISION, "ForImageClassificationWithTeacher")),
    "dinov2": Architecture("vit", "Dinov2", _VISION),
    "distilbert": Architecture("distilbert", "DistilBert", _ENCODER),
    "gemma": Architecture("decoder_families", "Gemma", _LANGUAGE),
    "gemma2": Architecture("decoder_families", "Gemma2", _LANGUAGE),
    "gemma3_text": Architecture("decoder_families", "Gemma3", _LANGUAGE, config="Gemma3TextConfig"),
    "gpt_neox": Architecture("gpt_neox", "GPTNeoX", _LANGUAGE),
    "gpt2": Architecture("gpt2", "GPT2", _LANGUAGE, causal_lm="GPT2LMHeadModel"),
    "llama": Architecture("decoder_families", "Llama", _LANGUAGE),
    "mistral": Architecture("decoder_families", "Mistral", _LANGUAGE),
    "mixtral": Architecture("experts", "Mixtral", _LANGUAGE),
    "olmo2": Architecture("decoder_families", "Olmo2", _LANGUAGE),
    "phi3": Architecture("decoder_families", "Phi3", _LANGUAGE),
    "qwen2": Architecture("decoder_families", "Qwen2", _LANGUAGE),
    "qwen3": Architecture("decoder_families", "Qwen3", _LANGUAGE),
    "qwen3_moe": Architecture("experts", "Qwen3Moe", _LANGUAGE),
    "roberta": Architecture("roberta", "Roberta", _ENCODER),
    "siglip": Architecture("clip", "Siglip", (MODEL,)),
    "siglip_text_model": Architecture("clip", "SiglipText", (MODEL,)),
    "siglip_vision_model": Architecture("clip", "SiglipVision", (MODEL,)),
    "t5": Architecture("t5", "T5", (ENCODER_MODEL, SEQ2SEQ)),
    "vit": Architecture("vit", "ViT", _VISION),
    "whisper": Architecture("whisper", "Whisper", (SEQ2SEQ,)),
}


def architecture(model_type: str | None, source: object) -> Architecture:
    """Return the architecture that config.json calls ``model_type``.

    Raises:
        ValueError: it is not among those supported.
    """
    if not isinstance(model_type, str) or model_type not in ARCHITECTURES:
        supported = ", ".join(sorted(ARCHITECTURES))
        raise ValueError(f"{source}: model_type is {brief(model_type)}; supported are: {supported}")
    return ARCHITECTURES[model_type]
