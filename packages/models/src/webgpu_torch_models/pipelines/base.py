"""What pipelines share: a model, and what turns a task's inputs into its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypedDict, TypeVar, cast

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_models.audio import SpeechFeatures
from webgpu_torch_models.image_processor import ImageProcessor
from webgpu_torch_models.pretrained import PreTrainedModel
from webgpu_torch_models.tokenizer import AutoTokenizer, Tokenizer

Input = TypeVar("Input")
Result = TypeVar("Result")
Reader = Tokenizer | ImageProcessor | SpeechFeatures


class Scored(TypedDict):
    """A class and its probability."""

    label: str
    score: float


class Pipeline:
    """A model for a task; call it with one input or with a list of them.

    Class attributes:
        model_tasks: what the model may end in, the first one where a class is to be chosen.
        reads: what it is loaded with beside the model: "tokenizer", "image_processor", "feature_extractor".

    Args:
        task: its name.
        model: in evaluation mode.
        readers: the tokenizer, the image processor, the feature extractor by these names, where the task needs one.

    Raises:
        ValueError: one that the task needs is missing.
    """

    model_tasks: ClassVar[tuple[str, ...]]
    reads: ClassVar[tuple[str, ...]] = ("tokenizer",)

    def __init__(self, task: str, model: PreTrainedModel, readers: dict[str, Reader]) -> None:
        missing = [name for name in self.reads if name not in readers]
        if missing:
            raise ValueError(f'"{task}" with a model that is loaded already needs {missing[0]}=')
        self.task, self.model, self.config, self._readers = task, model, model.config, readers

    @classmethod
    def readers(cls, folder: Path, given: dict[str, Reader]) -> dict[str, Reader]:
        """Return what the task needs beside the model: what is given, or what the model's folder has."""
        loaders: dict[str, Callable[[Path], Reader]] = {
            "tokenizer": AutoTokenizer.from_pretrained,
            "image_processor": ImageProcessor.from_folder,
            "feature_extractor": SpeechFeatures.from_folder,
        }
        return {name: given.get(name) or loaders[name](folder) for name in cls.reads}

    @property
    def tokenizer(self) -> Tokenizer:
        """What turns text into tokens."""
        found = self._readers["tokenizer"]
        assert isinstance(found, Tokenizer)
        return found

    @property
    def image_processor(self) -> ImageProcessor:
        """What turns images into numbers."""
        found = self._readers["image_processor"]
        assert isinstance(found, ImageProcessor)
        return found

    @property
    def feature_extractor(self) -> SpeechFeatures:
        """What turns sound into numbers."""
        found = self._readers["feature_extractor"]
        assert isinstance(found, SpeechFeatures)
        return found

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Work on one input, or on each of a list; see the task's own class."""
        raise NotImplementedError

    def integers(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return numbers as an int64 tensor where the model is."""
        return torch.tensor(rows, dtype=torch.int64, device=self.model.device)


def for_each(inputs: Input | list[Input], kind: type, run: Callable[[Input], Result]) -> Result | list[Result]:
    """Run one input, or each of a list.

    Raises:
        ValueError: an input is of another type.
    """
    several = cast("list[Input]", inputs if isinstance(inputs, list) else [inputs])
    for one in several:
        if not isinstance(one, kind):
            raise ValueError(f"expected {kind.__name__} or a list of them, got {type(one).__name__}")
    results = [run(one) for one in several]
    return results if isinstance(inputs, list) else results[0]


def scores_of(logits: Tensor, function: str | None, problem: object) -> Tensor:
    """Return logits [..., classes] as scores.

    Args:
        logits: of any float type.
        function: "softmax", "sigmoid" or "none"; None is what the model was trained for.
        problem: the configuration's ``problem_type``.

    Raises:
        ValueError: there is no such function.
    """
    if function is None:
        trained = {"regression": "none", "multi_label_classification": "sigmoid"}
        function = trained.get(str(problem), "sigmoid" if logits.shape[-1] == 1 else "softmax")
    if function not in ("softmax", "sigmoid", "none"):
        raise ValueError(f'function_to_apply must be "softmax", "sigmoid" or "none", got "{function}"')
    wide = logits.float()
    return wide.softmax(-1) if function == "softmax" else wide.sigmoid() if function == "sigmoid" else wide


def best(scores: list[float], names: Sequence[str], count: int | None) -> list[Scored]:
    """Return the ``count`` best of named scores (all where it is None), the best first."""
    found: list[Scored] = [{"label": name, "score": score} for name, score in zip(names, scores, strict=True)]
    return sorted(found, key=lambda one: -one["score"])[:count]
