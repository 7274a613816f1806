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

    def save_pretrained(self, folder: str | Path, max_shard_size: int | str = "10GB") -> None:
        """Write config.json and the weights as safetensors, as diffusers lays them out.

        Args:
            folder: made if it does not exist.
            max_shard_size: bytes per file, as a number or as "200KB", "5GB" and so on.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.config.extra["_class_name"] = type(self).__name__
        self.config.save_pretrained(folder)
        self._save_weights(folder, max_shard_size)
