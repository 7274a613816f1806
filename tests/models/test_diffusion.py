"""Networks and schedulers of diffusion compute what diffusers recorded, without it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import reference_cases as cases
import webgpu_torch_core as torch
from webgpu_torch.testing import assert_close
from webgpu_torch_core.files import load_safetensors, save_safetensors
from webgpu_torch_models.config import write_json
from webgpu_torch_models.diffusion.autoencoder import AutoencoderKL
from webgpu_torch_models.diffusion.mmdit import (
    FluxTransformer2DConfig,
    FluxTransformer2DModel,
    SD3Transformer2DConfig,
    SD3Transformer2DModel,
)
from webgpu_torch_models.diffusion.schedulers import SCHEDULERS, DDIMScheduler, scheduler_from_folder
from webgpu_torch_models.diffusion.unet import UNet2DConditionConfig, UNet2DConditionModel

CLASSES: dict[str, Any] = {
    each.__name__: each for each in (UNet2DConditionModel, AutoencoderKL, SD3Transformer2DModel, FluxTransformer2DModel)
}


def load(name: str, folder: Path, device: str) -> tuple[Any, dict[str, Any]]:
    recorded = cases.description(name)
    write_json(folder / "config.json", recorded["config"])
    save_safetensors(cases.weights(torch, recorded["weights"]), folder / "diffusion_pytorch_model.safetensors")
    model = CLASSES[cases.DIFFUSION[name][0]].from_pretrained(folder, device=device)
    return model, load_safetensors(cases.FOLDER / f"{name}.safetensors")


def moved(value: Any, device: str) -> Any:
    if isinstance(value, dict):
        return {key: moved(each, device) for key, each in value.items()}
    return value.to(device)


@pytest.mark.slow_on("webgpu-unet", "webgpu-unet_2", "webgpu-unet_xl", "webgpu-vae", "webgpu-sd3", "webgpu-flux")
@pytest.mark.parametrize("name", cases.DIFFUSION)
def test_networks(name: str, tmp_path: Path, device: str) -> None:
    model, wanted = load(name, tmp_path, device)
    given = moved(cases.diffusion_inputs(torch, name), device)
    with torch.no_grad():
        if name.startswith("vae"):
            mean, deviation = model.encode(given["images"])
            found = {"mean": mean, "deviation": deviation, "decoded": model.decode(mean)}
        else:
            found = {"sample": model(**given)}
    for key, value in wanted.items():
        assert_close(found[key].cpu(), value, rtol=1e-4, atol=1e-4)
    model.save_pretrained(tmp_path / "again")
    again = type(model).from_pretrained(tmp_path / "again")
    assert set(again.state_dict()) == set(cases.description(name)["weights"])


def test_positions_of_a_new_network_are_those_of_checkpoints() -> None:
    config = SD3Transformer2DConfig(
        sample_size=8, num_layers=1, attention_head_dim=8, num_attention_heads=2, joint_attention_dim=8,
        caption_projection_dim=16, pooled_projection_dim=8, pos_embed_max_size=6,
    )  # fmt: skip
    model = SD3Transformer2DModel(config)
    positions = model.pos_embed.pos_embed.reshape(6, 6, 16)
    # Row 2, column 5, at places of four patches over six: sines and then cosines, of columns and then of rows.
    for at, place in ((0, 5 * 4 / 6), (8, 2 * 4 / 6)):
        angles = [place / 10000 ** (number / 4) for number in range(4)]
        wanted = [math.sin(each) for each in angles] + [math.cos(each) for each in angles]
        assert positions[2, 5, at : at + 8].tolist() == pytest.approx(wanted, abs=1e-6)
    given = {
        "encoder_hidden_states": torch.zeros(1, 2, 8),
        "pooled_projections": torch.zeros(1, 8),
        "timestep": torch.ones(1),
    }
    with pytest.raises(ValueError, match="7 by 4 patches are more than pos_embed_max_size=6"):
        model(torch.zeros(1, 16, 14, 8), **given)
    with pytest.raises(ValueError, match="must add up to 128"):
        FluxTransformer2DConfig(axes_dims_rope=(16, 56))


@pytest.mark.parametrize("number", range(len(cases.SCHEDULERS)))
def test_schedulers_step_by_step(number: int) -> None:
    kind, options = cases.SCHEDULERS[number]
    wanted = load_safetensors(cases.FOLDER / "schedulers.safetensors")
    for steps in cases.STEPS:
        scheduler = SCHEDULERS[kind](**options)
        scheduler.set_timesteps(steps, **({"mu": 0.7} if options.get("use_dynamic_shifting") else {}))
        timesteps = wanted[f"{number}.{steps}.timesteps"].tolist()
        assert len(timesteps) == len(scheduler.timesteps)
        assert max(abs(one - other) for one, other in zip(timesteps, scheduler.timesteps, strict=True)) < 1e-3
        start, draws = torch.Generator().manual_seed(6), torch.Generator().manual_seed(7)
        sample, bias = (torch.randn((1, 2, 3, 3), generator=start) for _ in range(2))
        sample = sample * scheduler.init_noise_sigma
        for index, expected in enumerate(wanted[f"{number}.{steps}.samples"]):
            output = cases.pretended(scheduler.scale_model_input(sample, index), bias, timesteps[index])
            sample = scheduler.step(output, index, sample, draws)
            assert_close(sample, expected, rtol=1e-4, atol=1e-4)


def test_folders_and_errors(tmp_path: Path) -> None:
    write_json(tmp_path / "scheduler_config.json", {"_class_name": "DDIMScheduler", "clip_sample": False, "unknown": 1})
    scheduler = scheduler_from_folder(tmp_path)
    assert type(scheduler) is DDIMScheduler
    with pytest.raises(ValueError, match="the number of steps must be between 1 and num_train_timesteps=1000, got 0"):
        scheduler.set_timesteps(0)
    write_json(tmp_path / "scheduler_config.json", {"_class_name": "Other"})
    with pytest.raises(ValueError, match='_class_name is "Other"; supported are: DDIMScheduler'):
        scheduler_from_folder(tmp_path)
    with pytest.raises(ValueError, match='prediction_type "x" is unknown'):
        DDIMScheduler(prediction_type="x")
    with pytest.raises(ValueError, match=r"the U-Net has no class_embed_type='timestep', only None"):
        UNet2DConditionConfig.from_dict({"class_embed_type": "timestep"})
    with pytest.raises(ValueError, match='down_block_types has "AttnDownBlock2D"; known are: CrossAttnDownBlock2D'):
        UNet2DConditionConfig(down_block_types=("AttnDownBlock2D",) * 4)


def test_first_names_of_the_attention(tmp_path: Path) -> None:
    model, _ = load("vae", tmp_path, "cpu")
    weights = load_safetensors(tmp_path / "diffusion_pytorch_model.safetensors")
    names = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}
    old = {}
    for key, value in weights.items():
        for new, first in names.items():
            key = key.replace(f"attentions.0.{new}.", f"attentions.0.{first}.")
        old[key] = value[:, :, None, None] if "attentions.0." in key and value.ndim == 2 else value
    assert set(old) != set(weights)
    save_safetensors(old, tmp_path / "diffusion_pytorch_model.safetensors")
    again = AutoencoderKL.from_pretrained(tmp_path)
    for (key, left), (_, right) in zip(model.state_dict().items(), again.state_dict().items(), strict=True):
        assert torch.equal(left, right), key
