"""The models of :mod:`reference_cases` as folders, and loaded from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import reference_cases as cases
import webgpu_torch_core as torch
from webgpu_torch_core.files import load_safetensors, save_safetensors
from webgpu_torch_models import AutoModelForCausalLM
from webgpu_torch_models.config import write_json


def folder_of(name: str, folder: Path) -> Path:
    """Write the model folder of a case and return it."""
    recorded = cases.description(name)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", recorded["config"])
    save_safetensors(cases.weights(torch, recorded["weights"], 1.5), folder / "model.safetensors")
    return folder


def outputs_of(name: str) -> dict[str, Any]:
    """Return what was recorded."""
    return load_safetensors(cases.FOLDER / f"{name}.safetensors")


def load(name: str, folder: Path, device: str = "cpu", kind: Any = AutoModelForCausalLM) -> Any:
    """Return the model of a case."""
    return kind.from_pretrained(folder_of(name, folder), device=device)
