"""Tiny pipelines whose images diffusers recorded: parts, schedulers, and what they are called with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reference_cases import DIFFUSION, FLUX, NOISE, SD3, T5, TOWER, UNET, VAE, weights, write_tokenizer

_TEXT = {**TOWER, "vocab_size": 85, "max_position_embeddings": 16, "eos_token_id": 84, "bos_token_id": 83}
_PLAIN_VAE = {**VAE, "use_quant_conv": False, "use_post_quant_conv": False, "scaling_factor": 1.3, "shift_factor": 0.06}
_XL = {**DIFFUSION["unet_xl"][1], "time_cond_proj_dim": None}
#: by part of a pipeline, its class and configuration
PIPELINES: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "pipeline": {
        "text_encoder": ("CLIPTextModel", _TEXT),
        "unet": ("UNet2DConditionModel", {**UNET, "cross_attention_dim": 32}),
        "vae": ("AutoencoderKL", VAE),
    },
    "pipeline_xl": {
        "text_encoder": ("CLIPTextModel", _TEXT),
        "text_encoder_2": ("CLIPTextModelWithProjection", {**_TEXT, "projection_dim": 20, "hidden_act": "gelu"}),
        "unet": ("UNet2DConditionModel", {**_XL, "cross_attention_dim": 64}),
        "vae": ("AutoencoderKL", VAE),
    },
    "pipeline_refiner": {
        "text_encoder_2": ("CLIPTextModelWithProjection", {**_TEXT, "projection_dim": 20, "hidden_act": "gelu"}),
        "unet": (
            "UNet2DConditionModel",
            {**_XL, "cross_attention_dim": 32, "projection_class_embeddings_input_dim": 5 * 8 + 20},
        ),
        "vae": ("AutoencoderKL", VAE),
    },
    "pipeline_sd3": {
        "text_encoder": ("CLIPTextModelWithProjection", {**_TEXT, "projection_dim": 8}),
        "text_encoder_2": ("CLIPTextModelWithProjection", {**_TEXT, "projection_dim": 12, "hidden_act": "gelu"}),
        "text_encoder_3": ("T5EncoderModel", {**T5, "d_model": 72}),
        "transformer": (
            "SD3Transformer2DModel",
            {**SD3, "in_channels": 16, "out_channels": 16, "joint_attention_dim": 72, "num_layers": 2},
        ),
        "vae": ("AutoencoderKL", {**_PLAIN_VAE, "latent_channels": 16}),
    },
    "pipeline_flux": {
        "text_encoder": ("CLIPTextModel", _TEXT),
        "text_encoder_2": ("T5EncoderModel", {**T5, "d_model": 24}),
        "transformer": (
            "FluxTransformer2DModel",
            {**FLUX, "in_channels": 16, "num_layers": 1, "num_single_layers": 1, "pooled_projection_dim": 32, "guidance_embeds": True},
        ),
        "vae": ("AutoencoderKL", _PLAIN_VAE),
    },
}  # fmt: skip
#: without T5, which takes the most memory of all parts
PIPELINES["pipeline_sd3_small"] = {
    part: told for part, told in PIPELINES["pipeline_sd3"].items() if part != "text_encoder_3"
}
#: what the names of diffusers' classes begin with, and their scheduler
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "pipeline": ("StableDiffusion", "PNDMScheduler", {**NOISE, "skip_prk_steps": True, "set_alpha_to_one": False}),
    "pipeline_sd3": ("StableDiffusion3", "FlowMatchEulerDiscreteScheduler", {"shift": 3.0}),
    "pipeline_flux": (
        "Flux",
        "FlowMatchEulerDiscreteScheduler",
        {"use_dynamic_shifting": True, "base_image_seq_len": 8, "max_image_seq_len": 64, "max_shift": 1.3},
    ),
}
KINDS["pipeline_xl"] = KINDS["pipeline_refiner"] = ("StableDiffusionXL", *KINDS["pipeline"][1:])
KINDS["pipeline_sd3_small"] = (
    "StableDiffusion3",
    "FlowMatchEulerDiscreteScheduler",
    {"use_dynamic_shifting": True, "shift_terminal": 0.1},
)
#: what model_index.json says besides
TOLD: dict[str, dict[str, Any]] = {"pipeline_refiner": {"requires_aesthetics_score": True}}

_WIDE, _SQUARE = {"height": 16, "width": 24}, {"height": 16, "width": 16}
_AWAY = {"negative_prompt": ["dog", "2 dogs"]}
#: by name of the images, the end of the class's name in diffusers, and the options
_U_NET_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "text": ("", {**_WIDE, "guidance_scale": 4.0}),
    "negative": ("", {**_SQUARE, **_AWAY}),
    "image": ("Img2Img", {**_SQUARE, "image": True, "strength": 0.6}),
    "mask": ("Inpaint", {**_SQUARE, "image": True, "mask_image": True, "strength": 1.0}),
}
_FLUX_AWAY = {**_AWAY, "true_cfg_scale": 2.5}
CALLS: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "pipeline": _U_NET_CALLS,
    "pipeline_xl": {**_U_NET_CALLS, "mask": ("Inpaint", {**_U_NET_CALLS["mask"][1], "guidance_scale": 7.5})},
    "pipeline_refiner": {"image": ("Img2Img", {**_SQUARE, **_AWAY, "image": True, "strength": 0.6})},
    "pipeline_sd3": {
        "text": ("", {**_WIDE, "guidance_scale": 4.0, "max_sequence_length": 7}),
        "image": ("Img2Img", {**_SQUARE, **_AWAY, "image": True, "strength": 0.6}),
        "mask": ("Inpaint", {**_SQUARE, "image": True, "mask_image": True, "strength": 0.8}),
    },
    "pipeline_sd3_small": {"text": ("", {**_WIDE, **_AWAY})},
    "pipeline_flux": {
        "text": ("", {**_WIDE, "max_sequence_length": 7}),
        "negative": ("", {**_SQUARE, **_FLUX_AWAY}),
        "image": ("Img2Img", {**_SQUARE, "image": True, "guidance_scale": 2.0}),
        "mask": ("Inpaint", {**_SQUARE, "image": True, "mask_image": True, "guidance_scale": 2.0, "strength": 0.8}),
    },
}
PROMPTS = ["a red cat on a mat, 2 birds!", "an owl"]


_BLOCK = "down_blocks.0.attentions.0.transformer_blocks.0"
#: by name: the pipeline, and which maps of a part an adapter is for
ADAPTERS: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "diffusers": (
        "pipeline",
        [("unet", f"{_BLOCK}.attn1.to_q"), ("unet", f"{_BLOCK}.attn2.to_out.0"), ("unet", f"{_BLOCK}.ff.net.0.proj"),
         ("unet", "mid_block.attentions.0.proj_in"), ("unet", "down_blocks.0.downsamplers.0.conv"),
         ("text_encoder", "text_model.encoder.layers.1.self_attn.out_proj")],
    ),
    "kohya": (
        "pipeline",
        [("lora_unet", f"{_BLOCK}.attn1.to_q"), ("lora_unet", "up_blocks.1.attentions.1.proj_out"),
         ("lora_te", "text_model.encoder.layers.0.self_attn.out_proj")],
    ),
    "kohya_xl": (
        "pipeline_xl",
        [("lora_unet", "input_blocks.3.1.transformer_blocks.1.attn2.to_v"),
         ("lora_unet", "output_blocks.1.1.transformer_blocks.0.ff.net.2"),
         ("lora_te1", "text_model.encoder.layers.0.self_attn.out_proj"), ("lora_te2", "text_model.encoder.layers.1.self_attn.out_proj")],
    ),
}  # fmt: skip


def adapter(library: Any, name: str, sizes: dict[str, tuple[list[int], list[int]]]) -> dict[str, Any]:
    """Return a file's tensors; of each map, the shapes of A and B."""
    result: dict[str, Any] = {}
    for part, module in ADAPTERS[name][1]:
        down, up = sizes[f"{part}.{module}"]
        start = f"{part}.{module}" if name == "diffusers" else f"{part}_{module.replace('.', '_')}"
        sides = ("lora_A", "lora_B") if name == "diffusers" else ("lora_down", "lora_up")
        shapes = {f"{start}.{side}.weight": shape for side, shape in zip(sides, (down, up), strict=True)}
        result |= weights(library, shapes, 1.5)
        if name != "diffusers":
            result[f"{start}.alpha"] = library.tensor(3.0)
    return result


def given(library: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return a call's options, with its pictures in the place of their names."""
    drawn = {"image": picture(library), "mask_image": picture(library, 1)}
    return {key: drawn.get(key, value) for key, value in options.items()}


def picture(library: Any, channels: int = 3) -> Any:
    """Return an image [1, channels, 16, 16] from 0 to 1; of one channel it is a mask."""
    rows, columns = library.arange(16).reshape(1, 16, 1) / 16, library.arange(16).reshape(1, 1, 16) / 16
    if channels == 1:
        return ((rows + columns) < 0.9).float().unsqueeze(0)
    return library.stack([rows + 0 * columns, 0 * rows + columns, rows * columns], dim=1)


def write_clip_tokenizer(folder: Path) -> int:
    """Write a CLIP tokenizer of bytes and a few merges; return the number of its tokens."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789,.!"
    merges = ["c a", "ca t</w>", "r e", "re d</w>", "o n</w>"]
    words = [*letters, *(f"{each}</w>" for each in letters), *(each.replace(" ", "") for each in merges)]
    words += ["<|startoftext|>", "<|endoftext|>"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    special = {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
    values = {"tokenizer_class": "CLIPTokenizer", "model_max_length": 16, "unk_token": "<|endoftext|>", **special}
    (folder / "tokenizer_config.json").write_text(json.dumps(values))
    return len(words)


def write_tokenizer_of(part: str, kind: str, folder: Path) -> None:
    """Write the tokenizer of an encoder of texts beside its folder."""
    place = folder / part.replace("text_encoder", "tokenizer")
    if kind.startswith("CLIP"):
        write_clip_tokenizer(place)
    else:
        write_tokenizer(place, "t5")
