"""Pipelines of Stable Diffusion make the images that diffusers made, without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pipeline_cases as pipelines
import pytest
import reference_cases as cases
import webgpu_torch_core as torch
from webgpu_torch_core.files import load_safetensors, save_safetensors
from webgpu_torch_models.config import write_json
from webgpu_torch_models.diffusion import (
    DiffusionPipeline,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    StableDiffusionPipeline,
)
from webgpu_torch_models.linear import EncodedLinear
from webgpu_torch_nn import functional as F


def folder_of(name: str, folder: Path) -> Path:
    recorded = cases.description(name)
    index = dict(pipelines.TOLD.get(name, {}))
    for part, config in recorded["config"].items():
        (folder / part).mkdir()
        write_json(folder / part / "config.json", config)
        stem = "model" if "text" in part else "diffusion_pytorch_model"
        save_safetensors(cases.weights(torch, recorded["weights"][part]), folder / part / f"{stem}.safetensors")
        kind, _ = pipelines.PIPELINES[name][part]
        index[part] = ["library", kind]
        if "text" in part:
            pipelines.write_tokenizer_of(part, kind, folder)
    (folder / "scheduler").mkdir()
    _, scheduler, options = pipelines.KINDS[name]
    write_json(folder / "scheduler" / "scheduler_config.json", {"_class_name": scheduler, **options})
    write_json(folder / "model_index.json", index)
    return folder


def close(found: Any, wanted: Any) -> None:
    assert found.shape == wanted.shape
    assert (found.cpu() - wanted).abs().max().item() * 255 <= 2


#: what the quick run draws: every family, and every kind of call
QUICK = {("pipeline_xl", "image"), ("pipeline_sd3", "mask"), ("pipeline_flux", "text")}
CASES = [
    pytest.param(name, case, marks=() if (name, case) in QUICK else pytest.mark.slow)
    for name, calls in pipelines.CALLS.items()
    for case in calls
]


@pytest.mark.slow_on("webgpu")
@pytest.mark.parametrize(("name", "case"), CASES)
def test_images(name: str, case: str, tmp_path: Path, device: str) -> None:
    pipeline = DiffusionPipeline.from_pretrained(folder_of(name, tmp_path), device=device)
    options = pipelines.given(torch, pipelines.CALLS[name][case][1])
    draws = torch.Generator().manual_seed(8)
    made = pipeline(pipelines.PROMPTS, steps=6, generator=draws, output="tensor", **options)
    close(made, load_safetensors(cases.FOLDER / f"{name}.safetensors")[case])


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
        ({"max_sequence_length": 8}, "max_sequence_length is of pipelines with T5"),
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
    tokens = pipeline._tokens(["cat " * 40, "red"], pipeline.tokenizers[0], pipeline.text_encoders[0], 16)
    assert tokens.shape == (2, 16)
    assert tokens[0, -1].item() == 84
    assert tokens[1].tolist()[2:] == [84] * 14


def test_what_a_folder_must_be(tmp_path: Path) -> None:
    folder = folder_of("pipeline_flux", tmp_path)
    assert type(DiffusionPipeline.from_pretrained(folder)) is FluxPipeline
    with pytest.raises(ValueError, match="StableDiffusionPipeline loads: UNet2DConditionModel"):
        StableDiffusionPipeline.from_pretrained(folder)
    write_json(folder / "scheduler" / "scheduler_config.json", {"_class_name": "DDIMScheduler"})
    with pytest.raises(ValueError, match="must be a FlowMatchEulerDiscreteScheduler, got DDIMScheduler"):
        DiffusionPipeline.from_pretrained(folder)
    index = {"transformer": ["diffusers", "OtherTransformer"]}
    write_json(folder / "model_index.json", index)
    with pytest.raises(
        ValueError, match=r"the network is \['diffusers', 'OtherTransformer'\]; DiffusionPipeline loads: "
    ):
        DiffusionPipeline.from_pretrained(folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_shift_type": "cubic"}, 'time_shift_type "cubic" is unknown'),
        ({"use_karras_sigmas": True, "invert_sigmas": True}, "without invert_sigmas, use_karras_sigmas"),
    ],
)
def test_options_of_flow_matching(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FlowMatchEulerDiscreteScheduler(**options)


@pytest.mark.slow_on("webgpu")
@pytest.mark.parametrize("name", pipelines.ADAPTERS)
@pytest.mark.parametrize("merge", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_adapters(name: str, merge: bool, tmp_path: Path, device: str) -> None:
    model, maps = pipelines.ADAPTERS[name]
    pipeline = DiffusionPipeline.from_pretrained(folder_of(model, tmp_path), device=device)
    save_safetensors(pipelines.adapter(torch, name, cases.description("adapted")[name]), tmp_path / "lora.safetensors")
    assert len(pipeline.load_lora_weights(tmp_path / "lora.safetensors", merge=merge)) == len(maps)
    options = {"steps": 2, "guidance_scale": 3.0, "height": 16, "width": 16, "output": "tensor"}
    made = pipeline(pipelines.PROMPTS, generator=torch.Generator().manual_seed(8), **options)
    close(made, load_safetensors(cases.FOLDER / "adapted.safetensors")[name])


def test_adapters_of_other_pipelines(tmp_path: Path) -> None:
    pipeline = StableDiffusionPipeline.from_pretrained(folder_of("pipeline", tmp_path))
    file = tmp_path / "pytorch_lora_weights.safetensors"
    down, up = torch.ones(2, 16), torch.ones(16, 2)
    before = {key: value.clone() for key, value in pipeline.unet.state_dict().items()}
    block = "down_blocks.0.attentions.0.transformer_blocks.0"
    for tensors, message in (
        ({"unet.no.such.lora_A.weight": down, "unet.no.such.lora_B.weight": up}, "adapts 'unet.no.such', which this"),
        ({f"unet.{block}.attn1.to_q.lora_A.weight": down}, r"there are \{'A': \[2, 16\]\}, expected A \[rank, in\]"),
        ({"unet.conv_in.weight": down}, "'unet.conv_in.weight' is no matrix of low rank"),
        (
            {
                f"unet.{block}.attn1.to_q.lora_A.weight": down,
                f"unet.{block}.attn1.to_q.lora_B.weight": up,
                f"unet.{block}.attn2.to_k.lora_A.weight": down,
                f"unet.{block}.attn2.to_k.lora_B.weight": up,
            },
            r"the adapter is \[out, in\] = \[16, 16\], the model \[16, 32\]",
        ),
    ):
        save_safetensors(tensors, file)
        with pytest.raises(ValueError, match=message):
            pipeline.load_lora_weights(tmp_path)
    assert all(torch.equal(before[key], value) for key, value in pipeline.unet.state_dict().items())


def test_networks_of_a_few_bits(tmp_path: Path) -> None:
    folder = folder_of("pipeline_sd3_small", tmp_path)
    options = {"steps": 2, "height": 16, "width": 16, "guidance_scale": 1.0, "output": "latent"}
    found = []
    for quantize in (None, "int8"):
        pipeline = DiffusionPipeline.from_pretrained(folder, quantize=quantize)
        networks = (pipeline.network, *pipeline.text_encoders)
        encoded = [any(isinstance(each, EncodedLinear) for each in network.modules()) for network in networks]
        assert encoded == [quantize is not None] * 3
        latents: Any = pipeline("a cat", generator=torch.Generator().manual_seed(8), **options)
        found.append(latents.flatten())
    assert F.cosine_similarity(*found, dim=0) >= 0.999
