"""Networks for images, and for images and texts, compute what transformers recorded, without it."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import reference_cases as cases
import webgpu_torch_core as torch
from recorded_models import folder_of, outputs_of
from webgpu_torch.testing import assert_close
from webgpu_torch_models import AutoModel, AutoModelForImageClassification
from webgpu_torch_models.config import write_json

#: on the GPU, one of each kind of network
ON_GPU = ("clip", "siglip", "dinov2_larger")


def class_of(kind: str) -> Any:
    module = "vit" if kind.startswith(("ViT", "DeiT", "Dino")) else "clip"
    return getattr(importlib.import_module(f"webgpu_torch_models.{module}"), kind)


@pytest.mark.parametrize("name", cases.VISION)
def test_outputs(name: str, tmp_path: Path, device: str) -> None:
    if device != "cpu" and name not in ON_GPU:
        pytest.skip("its parts run on the GPU in other cases")
    kind, _, given = cases.VISION[name]
    model = class_of(kind).from_pretrained(folder_of(name, tmp_path), device=device)
    with torch.no_grad():
        found = model(**{key: value.to(device) for key, value in cases.inputs(torch, given).items()})
    wanted = outputs_of(name)
    assert wanted
    for key, value in wanted.items():
        assert_close(getattr(found, key).cpu(), value, rtol=1e-4, atol=1e-4)


def test_classes_by_name(tmp_path: Path) -> None:
    assert type(AutoModel.from_pretrained(folder_of("clip", tmp_path))).__name__ == "CLIPModel"
    folder = folder_of("deit", tmp_path)
    model = AutoModelForImageClassification.from_pretrained(folder)
    assert type(model).__name__ == "DeiTForImageClassification"
    assert model(torch.randn(1, 3, 24, 24), labels=torch.tensor([2])).loss.isfinite()


def test_parts_of_clip(tmp_path: Path) -> None:
    folder = folder_of("clip", tmp_path)
    whole = AutoModel.from_pretrained(folder)
    write_json(folder / "config.json", cases.description("clip")["config"]["text_config"])
    part = class_of("CLIPTextModel").from_pretrained(folder)
    ids = cases.inputs(torch, ("texts",))["input_ids"]
    assert torch.equal(part(ids).last_hidden_state, whole.text_model(ids).last_hidden_state)
    states = part(ids, output_hidden_states=True).hidden_states
    assert len(states) == 3
    assert torch.equal(part.final_layer_norm(states[-1]), part(ids).last_hidden_state)


def test_images_that_are_none(tmp_path: Path) -> None:
    model = AutoModel.from_pretrained(folder_of("vit", tmp_path))
    with pytest.raises(ValueError, match=r"pixel_values must be \[batch, 3, height, width\] .* got \[1, 1, 24, 24\]"):
        model(torch.zeros(1, 1, 24, 24))
    with pytest.raises(ValueError, match=r"at least one patch of 8x8"):
        model(torch.zeros(1, 3, 4, 24))
