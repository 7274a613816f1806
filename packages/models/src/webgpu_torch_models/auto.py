"""Loading by name: the configuration file says which class it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from webgpu_torch_models.config import ModelConfig, read_json
from webgpu_torch_models.hub import find_folder
from webgpu_torch_models.pretrained import PreTrainedModel
from webgpu_torch_models.registry import Architecture, architecture


def _architecture_of(folder: Path) -> Architecture:
    path = folder / ModelConfig.file_name
    return architecture(read_json(path).get("model_type"), path)


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
        return _architecture_of(folder).config_class().from_folder(folder)


class AutoModelForCausalLM:
    """Language models by name."""

    @staticmethod
    def from_pretrained(
        name_or_path: str | Path,
        *,
        dtype: Any = None,
        device: Any = None,
        token: str | None = None,
        revision: str | None = None,
    ) -> PreTrainedModel:
        """Load a model from a local folder or hub id, in evaluation mode.

        Args and errors: as :meth:`PreTrainedModel.from_pretrained`; also
            ValueError if the config.json's model_type is not supported.
        """
        folder = find_folder(name_or_path, token=token, revision=revision)
        model_class = _architecture_of(folder).causal_lm_class()
        return model_class.from_pretrained(folder, dtype=dtype, device=device)

    @staticmethod
    def from_config(config: ModelConfig) -> PreTrainedModel:
        """Make a model with newly drawn weights."""
        return architecture(config.model_type, type(config).__name__).causal_lm_class()(config)
