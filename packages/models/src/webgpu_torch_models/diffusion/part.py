"""The base of diffusion's networks: folders as diffusers writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from webgpu_torch_models import checkpoint
from webgpu_torch_models.pretrained import PreTrainedModel


class DiffusionPart(PreTrainedModel):
    """One of the networks that a pipeline joins; its weights are in diffusion_pytorch_model files."""

    config: Any
    weight_files: ClassVar[tuple[str, str]] = checkpoint.DIFFUSION

    def _save_configuration(self, folder: Path) -> None:
        self.config.extra["_class_name"] = type(self).__name__
        self.config.save_pretrained(folder)
