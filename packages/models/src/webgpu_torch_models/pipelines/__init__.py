"""Models for tasks: what goes in and comes out is text, images and sound, in the shapes that transformers' pipelines have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import webgpu_torch_core as torch

from webgpu_torch_models.audio import SpeechFeatures
from webgpu_torch_models.auto import architecture_of, model_class_for
from webgpu_torch_models.hub import find_folder
from webgpu_torch_models.image_processor import ImageProcessor
from webgpu_torch_models.pipelines.base import Pipeline, Reader
from webgpu_torch_models.pipelines.pictures import ImageClassificationPipeline, ZeroShotImageClassificationPipeline
from webgpu_torch_models.pipelines.texts import (
    FeatureExtractionPipeline,
    FillMaskPipeline,
    QuestionAnsweringPipeline,
    TextClassificationPipeline,
    TokenClassificationPipeline,
    ZeroShotClassificationPipeline,
)
from webgpu_torch_models.pipelines.writing import SpeechRecognitionPipeline, Text2TextPipeline, TextGenerationPipeline
from webgpu_torch_models.pretrained import PreTrainedModel
from webgpu_torch_models.registry import architecture
from webgpu_torch_models.tokenizer import Tokenizer

TASKS: dict[str, type[Pipeline]] = {
    "automatic-speech-recognition": SpeechRecognitionPipeline,
    "feature-extraction": FeatureExtractionPipeline,
    "fill-mask": FillMaskPipeline,
    "image-classification": ImageClassificationPipeline,
    "question-answering": QuestionAnsweringPipeline,
    "summarization": Text2TextPipeline,
    "text-classification": TextClassificationPipeline,
    "text-generation": TextGenerationPipeline,
    "text2text-generation": Text2TextPipeline,
    "token-classification": TokenClassificationPipeline,
    "translation": Text2TextPipeline,
    "zero-shot-classification": ZeroShotClassificationPipeline,
    "zero-shot-image-classification": ZeroShotImageClassificationPipeline,
}
#: other names of tasks
ALIASES = {"sentiment-analysis": "text-classification", "ner": "token-classification"}
TEXT_TO_IMAGE = "text-to-image"


def _pipeline_class(task: str) -> type[Pipeline]:
    name = ALIASES.get(task, task)
    name = "translation" if name.startswith("translation_") else name
    if name not in TASKS:
        known = ", ".join(sorted([*TASKS, *ALIASES, TEXT_TO_IMAGE, "translation_XX_to_YY"]))
        raise ValueError(f'there is no task "{task}"; known are: {known}')
    return TASKS[name]


def pipeline(
    task: str,
    model: str | Path | PreTrainedModel,
    *,
    tokenizer: Tokenizer | None = None,
    image_processor: ImageProcessor | None = None,
    feature_extractor: SpeechFeatures | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    token: str | None = None,
    revision: str | None = None,
    quantize: str | None = None,
) -> Any:
    """Return a model for a task, to be called with a text, an image or sound.

    Args:
        task: such as "text-generation", "fill-mask", "image-classification" or "text-to-image".
        model: a folder, a hub id, or a model that is loaded already.
        tokenizer, image_processor, feature_extractor: in place of the folder's; needed with a loaded model.
        dtype, device, token, revision, quantize: as :meth:`PreTrainedModel.from_pretrained`'s.

    Returns:
        a :class:`Pipeline`; for "text-to-image", one of :mod:`webgpu_torch_models.diffusion`.

    Raises:
        FileNotFoundError: there is no such model, or a file that the task needs is missing.
        ValueError: there is no such task, or the model is not for it.
    """
    if task == TEXT_TO_IMAGE:
        from webgpu_torch_models.diffusion import DiffusionPipeline

        if isinstance(model, PreTrainedModel):
            raise ValueError(f'"{task}" needs the name of a folder with all parts, got a {type(model).__name__}')
        return DiffusionPipeline.from_pretrained(
            model, dtype=dtype, device=device, token=token, revision=revision, quantize=quantize
        )
    kind = _pipeline_class(task)
    given = {"tokenizer": tokenizer, "image_processor": image_processor, "feature_extractor": feature_extractor}
    own: dict[str, Reader] = {name: value for name, value in given.items() if value is not None}
    if isinstance(model, PreTrainedModel):
        wanted = model_class_for(architecture(model.config.model_type, type(model).__name__), kind.model_tasks)
        if not isinstance(model, wanted):
            raise ValueError(f'"{task}" needs a {wanted.__name__}, got a {type(model).__name__}')
        return kind(task, model, own)
    folder = find_folder(model, token=token, revision=revision)
    wanted = model_class_for(architecture_of(folder), kind.model_tasks)
    loaded = wanted.from_pretrained(folder, dtype=dtype, device=device, quantize=quantize)
    return kind(task, loaded, kind.readers(folder, own))
