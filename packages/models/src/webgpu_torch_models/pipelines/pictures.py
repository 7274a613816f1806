"""Pipelines that look at images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_models.clip import CLIPModel, SiglipModel
from webgpu_torch_models.pipelines.base import Pipeline, Scored, best, scores_of
from webgpu_torch_models.registry import IMAGES, MODEL

if TYPE_CHECKING:
    from PIL.Image import Image


class ImageClassificationPipeline(Pipeline):
    """Says what is on an image."""

    model_tasks = (IMAGES,)
    reads = ("image_processor",)

    def __call__(
        self, inputs: Image | str | Path | Tensor | list[Image | str | Path | Tensor], top_k: int = 5,
        function_to_apply: str | None = None,
    ) -> list[Scored] | list[list[Scored]]:  # fmt: skip
        """Classify images.

        Args:
            inputs: an image of Pillow, the name of a file, a tensor uint8 [3, height, width], or a list of them.
            top_k: how many classes to name.
            function_to_apply: "softmax", "sigmoid" or "none" makes scores of logits; what the model was trained for by default.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: an input is no image, or there is no such function.
        """
        names = [self.config.label(number) for number in range(self.config.num_labels)]
        results = []
        for image in inputs if isinstance(inputs, list) else [inputs]:
            read = self.image_processor(image).to(self.model.device, self.model.dtype)
            with torch.no_grad():
                logits = self.model(read).logits[0]
            scores = scores_of(logits, function_to_apply, self.config.extra.get("problem_type"))
            results.append(best(scores.tolist(), names, top_k))
        return results if isinstance(inputs, list) else results[0]


class ZeroShotImageClassificationPipeline(Pipeline):
    """Says which of any labels fits an image, by a model of texts and images."""

    model_tasks = (MODEL,)
    reads = ("tokenizer", "image_processor")

    def __call__(
        self, image: Image | str | Path | Tensor | list[Image | str | Path | Tensor], candidate_labels: list[str],
        hypothesis_template: str = "This is a photo of {}.",
    ) -> list[Scored] | list[list[Scored]]:  # fmt: skip
        """Sort labels by how well they fit images.

        Args:
            image: an image of Pillow, the name of a file, a tensor uint8 [3, height, width], or a list of them.
            candidate_labels: the labels.
            hypothesis_template: what is said of a label, with {} where it stands.

        Raises:
            ValueError: there are no labels, or the model does not compare texts and images.
        """
        if not isinstance(self.model, CLIPModel):
            raise ValueError(f"{type(self.model).__name__} does not compare texts and images; CLIP and SigLIP do")
        if not candidate_labels:
            raise ValueError("candidate_labels must have at least one label")
        ids, mask = self._texts([hypothesis_template.format(label) for label in candidate_labels])
        results = []
        for one in image if isinstance(image, list) else [image]:
            read = self.image_processor(one).to(self.model.device, self.model.dtype)
            with torch.no_grad():
                logits = self.model(ids, read, attention_mask=mask).logits_per_image[0].float()
            scores = logits.sigmoid() if isinstance(self.model, SiglipModel) else logits.softmax(-1)
            results.append(best(scores.tolist(), candidate_labels, None))
        return results if isinstance(image, list) else results[0]

    def _texts(self, texts: list[str]) -> tuple[Tensor, Tensor | None]:
        """Return texts as tokens filled on the right, and a mask where the network was trained with one."""
        limit = self.config.text_config.max_position_embeddings
        is_siglip = isinstance(self.model, SiglipModel)
        rows = [self.tokenizer.encode_windows(text, limit=limit)[0].ids for text in texts]
        length = limit if is_siglip else max(map(len, rows))
        filler = self.tokenizer.pad_token_id
        filler = (self.tokenizer.eos_token_id or 0) if filler is None else filler
        ids = self.integers([[*row, *[filler] * (length - len(row))] for row in rows])
        # SigLIP was trained on texts of one length, padding included.
        return ids, None if is_siglip else self.integers([[1] * len(row) + [0] * (length - len(row)) for row in rows])
