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
