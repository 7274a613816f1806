"""Pipelines of Stable Diffusion make the images that diffusers made, without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import reference_cases as cases
import webgpu_torch_core as torch
from webgpu_torch_core.files import load_safetensors, save_safetensors
from webgpu_torch_models.config import write_json
from webgpu_torch_models.diffusion.pipelines import StableDiffusionPipeline

NOISE = {"_class_name": "PNDMScheduler", "skip_prk_steps": True, "set_alpha_to_one": False, **cases._NOISE}


def folder_of(name: str, folder: Path) -> Path:
    recorded = cases.description(name)
    for part, config in recorded["config"].items():
        (folder / part).mkdir()
        write_json(folder / part / "config.json", config)
        stem = "model" if "text" in part else "diffusion_pytorch_model"
        save_safetensors(cases.weights(torch, recorded["weights"][part]), folder / part / f"{stem}.safetensors")
        if "text" in part:
            cases.write_clip_tokenizer(folder / part.replace("text_encoder", "tokenizer"))
    (folder / "scheduler").mkdir()
    write_json(folder / "scheduler" / "scheduler_config.json", NOISE)
    write_json(folder / "model_index.json", {part: ["library", "class"] for part in recorded["config"]})
    return folder


def close(found: Any, wanted: Any) -> None:
    assert found.shape == wanted.shape
    assert (found.cpu() - wanted).abs().max().item() * 255 <= 2


@pytest.mark.slow_on("cpu-pipeline")
@pytest.mark.slow_on("webgpu", "pipeline_xl")
@pytest.mark.parametrize("name", cases.PIPELINES)
def test_images(name: str, tmp_path: Path, device: str) -> None:
    pipeline = StableDiffusionPipeline.from_pretrained(folder_of(name, tmp_path), device=device)
    wanted = load_safetensors(cases.FOLDER / f"{name}.safetensors")
    guidance = 5.0 if name.endswith("xl") else 7.5

    def made(**options: Any) -> Any:
        draws = torch.Generator().manual_seed(8)
        given = {"guidance_scale": guidance, **options}
        return pipeline(cases.PROMPTS, steps=6, generator=draws, output="tensor", **given)

    close(made(height=16, width=24, guidance_scale=4.0), wanted["text"])
    picture, mask = cases.picture(torch), cases.picture(torch, 1)
    square = {"height": 16, "width": 16}
    close(made(negative_prompt=["dog", "2 dogs"], **square), wanted["negative"])
    close(made(image=picture, strength=0.6, **square), wanted["image"])
    guidance = 7.5
    close(made(image=picture, mask_image=mask, **square), wanted["mask"])


def test_pillow_steps_and_errors(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pipeline = StableDiffusionPipeline.from_pretrained(folder_of("pipeline", tmp_path))
    seen: list[tuple[int, int]] = []
    (made,) = pipeline("cat", height=16, width=24, steps=2, callback=lambda *each: seen.append(each))
    assert made.size == (24, 16)
    assert seen == [(1, 3), (2, 3), (3, 3)]
    start = image.new("RGB", (40, 40), (255, 0, 0))
    (again,) = pipeline("cat", image=start, height=16, width=16, steps=4, strength=0.0)
    assert again.size == (16, 16)
    for options, message in (
        ({"height": 15}, "height and width must be multiples of 2, got 15 and 16"),
        ({"image": start, "strength": 1.5}, r"strength must be between 0 and 1, got 1\.5"),
        ({"mask_image": start}, "mask_image needs an image"),
        ({"output": "jpeg"}, 'output must be "pil", "tensor" or "latent"'),
        ({"negative_prompt": ["a", "b"]}, "2 negative prompts for 1 prompts"),
        (
            {"image": torch.zeros(1, 1, 16, 16)},
            r"the image must be \['batch', 3, 16, 16\] from 0 to 1, got \[1, 1, 16, 16\]",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            pipeline("cat", **{"width": 16, "steps": 2, "height": 16, **options})


def test_texts_are_cut_and_filled(tmp_path: Path) -> None:
    pipeline = StableDiffusionPipeline.from_pretrained(folder_of("pipeline", tmp_path))
    tokens = pipeline._tokens(["cat " * 40, "red"], pipeline.tokenizers[0], pipeline.text_encoders[0])
    assert tokens.shape == (2, 16)
    assert tokens[0, -1].item() == 84
    assert tokens[1].tolist()[2:] == [84] * 14
