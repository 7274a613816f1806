"""Loading by name: the configuration file says which class it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import webgpu_torch_core as torch

from webgpu_torch_models.config import ModelConfig, read_json
from webgpu_torch_models.decoder import DecoderForCausalLM
from webgpu_torch_models.gguf_models import load_gguf
from webgpu_torch_models.hub import find_folder
from webgpu_torch_models.pretrained import PreTrainedModel
from webgpu_torch_models.registry import (
    CAUSAL_LM,
    IMAGES,
    MASKED_LM,
    MODEL,
    SEQ2SEQ,
    SEQUENCES,
    SPANS,
    TOKENS,
    Architecture,
    architecture,
)


def architecture_of(folder: Path) -> Architecture:
    """Return the architecture of a model's folder.

    Raises:
        FileNotFoundError: the folder has no config.json.
        ValueError: its model_type is not supported.
    """
    path = folder / ModelConfig.file_name
    return architecture(read_json(path).get("model_type"), path)


def model_class_for(found: Architecture, tasks: Sequence[str]) -> type[PreTrainedModel]:
    """Return an architecture's class for the first of the tasks that it has.

    Raises:
        ValueError: it has none of them.
    """
    return found.model_class(next((task for task in tasks if task in found.tasks), tasks[0]))


class AutoConfig:
    """Configurations by name."""

    @staticmethod
    def from_pretrained(
        name_or_path: str | Path, *, token: str | None = None, revision: str | None = None
    ) -> ModelConfig:
        """Load the configuration of a local folder or hub id.

        Raises:
            FileNotFoundError: there is no such model, or it has no config.json.
            ValueError: its model_type is not supported.
        """
        folder = find_folder(name_or_path, token=token, revision=revision, patterns=[ModelConfig.file_name])
        return architecture_of(folder).config_class().from_folder(folder)


class _AutoModel:
    """Models by name, for one task."""

    task: ClassVar[str]

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path,
        *,
        dtype: Any = None,
        device: Any = None,
        token: str | None = None,
        revision: str | None = None,
        quantize: str | None = None,
    ) -> Any:
        """Load a model from a local folder or hub id, in evaluation mode.

        Args and errors: as :meth:`PreTrainedModel.from_pretrained`; also
            ValueError if the config.json's model_type is not supported, or has no model for the task.
        """
        folder = find_folder(name_or_path, token=token, revision=revision)
        model_class = architecture_of(folder).model_class(cls.task)
        return model_class.from_pretrained(folder, dtype=dtype, device=device, quantize=quantize)

    @classmethod
    def from_config(cls, config: ModelConfig) -> Any:
        """Make a model with newly drawn weights."""
        return architecture(config.model_type, type(config).__name__).model_class(cls.task)(config)


class AutoModel(_AutoModel):
    """Networks without a head, by name."""

    task = MODEL


class AutoModelForCausalLM(_AutoModel):
    """Language models by name."""

    task = CAUSAL_LM

    @staticmethod
    def from_gguf(
        path: str | Path, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None,
        quantize: str | None = None,
    ) -> DecoderForCausalLM:  # fmt: skip
        """Load a decoder from a GGUF file, in evaluation mode; see :func:`webgpu_torch_models.gguf_models.load_gguf`."""
        return load_gguf(path, dtype, device, quantize)


class AutoModelForMaskedLM(_AutoModel):
    """Encoders that name masked words, by name."""

    task = MASKED_LM


class AutoModelForSequenceClassification(_AutoModel):
    """Classifiers of texts, by name."""

    task = SEQUENCES


class AutoModelForTokenClassification(_AutoModel):
    """Classifiers of a text's tokens, by name."""

    task = TOKENS


class AutoModelForQuestionAnswering(_AutoModel):
    """Networks that find answers in texts, by name."""

    task = SPANS


class AutoModelForSeq2SeqLM(_AutoModel):
    """Networks that write a text for a text, by name."""

    task = SEQ2SEQ


class AutoModelForImageClassification(_AutoModel):
    """Classifiers of images, by name."""

    task = IMAGES


class AutoModelForSpeechSeq2Seq(_AutoModel):
    """Networks that write what was said, by name."""

    task = SEQ2SEQ
