"""Checkpoints of Stable Diffusion in one file, by the names that diffusers recorded, give the parts that their folders give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import reference_cases as cases
import webgpu_torch_core as torch
from test_diffusion_pipelines import folder_of
from webgpu_torch_core.files import load_safetensors, save_safetensors
from webgpu_torch_models.diffusion import StableDiffusionPipeline

STARTS = {
    "pipeline": {"text_encoder": "cond_stage_model.transformer."},
    "pipeline_xl": {
        "text_encoder": "conditioner.embedders.0.transformer.",
        "text_encoder_2": "conditioner.embedders.1.model.",
    },
}
OPEN_CLIP = {
    "embeddings.token_embedding.weight": "token_embedding.weight", "final_layer_norm": "ln_final",
    "embeddings.position_embedding.weight": "positional_embedding", "encoder.layers": "transformer.resblocks",
    "layer_norm1": "ln_1", "layer_norm2": "ln_2", "mlp.fc1": "mlp.c_fc", "mlp.fc2": "mlp.c_proj", "self_attn": "attn",
}  # fmt: skip


def open_clip(weights: dict[str, Any]) -> dict[str, Any]:
    """Return an encoder's weights as OpenCLIP has them: one matrix for queries, keys and values."""
    result: dict[str, Any] = {"logit_scale": torch.tensor(4.6)}
    for key, value in weights.items():
        key = key.removeprefix("text_model.")
        for here, there in OPEN_CLIP.items():
            key = key.replace(here, there)
        if "attn.q_proj." in key:
            names = [key.replace("q_proj", f"{each}_proj") for each in "qkv"]
            parts = [weights["text_model." + each.replace("transformer.resblocks", "encoder.layers").replace("attn", "self_attn")] for each in names]  # fmt: skip
            result[key.replace("q_proj.", "in_proj_")] = torch.cat(parts)
        elif key == "text_projection.weight":
            result["text_projection"] = value.t().contiguous()
        elif "attn.k_proj." not in key and "attn.v_proj." not in key:
            result[key] = value
    return result


def joined(name: str, folder: Path) -> dict[str, Any]:
    """Return the weights of all parts as files of latent-diffusion have them."""
    result = {"model_ema.decay": torch.tensor(0.9), "alphas_cumprod": torch.ones(3)}
    recorded = json.loads((cases.FOLDER / "single_file.json").read_text())[name]
    for part in cases.description(name)["config"]:
        weights = load_safetensors(next((folder / part).glob("*.safetensors")))
        if part in recorded:
            result |= {there: weights[here] for there, here in recorded[part].items()}
        else:
            start = STARTS[name][part]
            own = open_clip(weights) if start.endswith(".model.") else weights
            result |= {start + key: value for key, value in own.items()}
    return result


@pytest.mark.parametrize(("name", "ending"), [("pipeline", "ckpt"), ("pipeline_xl", "safetensors")])
def test_parts_are_those_of_the_folder(name: str, ending: str, tmp_path: Path) -> None:
    folder, file = folder_of(name, tmp_path), tmp_path / f"all.{ending}"
    wanted = StableDiffusionPipeline.from_pretrained(folder)
    weights = joined(name, folder)
    if ending == "ckpt":
        # The first autoencoders' attention is of convolutions.
        weights = {
            key: value[:, :, None, None] if ".attn_1." in key and value.ndim == 2 else value
            for key, value in weights.items()
        }
        torch.save({"state_dict": weights, "global_step": 7}, file)
    else:
        save_safetensors(weights, file)
    for weights_file in folder.glob("*/*.safetensors"):
        weights_file.unlink()
    found = StableDiffusionPipeline.from_single_file(file, config=folder)
    networks = zip((*wanted.text_encoders, wanted.unet, wanted.vae), (*found.text_encoders, found.unet, found.vae), strict=True)  # fmt: skip
    for one, other in networks:
        state = other.state_dict()
        assert set(state) == set(one.state_dict())
        for key, value in one.state_dict().items():
            assert torch.equal(value, state[key]), key


def test_what_a_file_lacks(tmp_path: Path) -> None:
    folder, file = folder_of("pipeline", tmp_path), tmp_path / "all.safetensors"
    weights = joined("pipeline", folder)
    save_safetensors({key: value for key, value in weights.items() if not key.startswith("first_stage_model.")}, file)
    with pytest.raises(ValueError, match=r"all\.safetensors has no vae of Stable Diffusion; its names are"):
        StableDiffusionPipeline.from_single_file(file, config=folder)
    del weights["model.diffusion_model.out.0.weight"]
    save_safetensors(weights, file)
    with pytest.raises(ValueError, match=r"missing in the checkpoint: conv_norm_out\.weight"):
        StableDiffusionPipeline.from_single_file(file, config=folder)
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"all\.safetensors"):
        StableDiffusionPipeline.from_single_file(file, config=folder)
    with pytest.raises(FileNotFoundError, match="none.ckpt does not exist"):
        StableDiffusionPipeline.from_single_file(tmp_path / "none.ckpt", config=folder)
