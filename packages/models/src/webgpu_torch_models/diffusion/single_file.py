"""Checkpoints of Stable Diffusion 1.x, 2.x and XL in one file, as they were published first: names of CompVis' latent-diffusion.

A file has the weights of all parts; what they are like, the tokenizers and the scheduler come from a folder of diffusers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.files.host_tensors import brief

from webgpu_torch_models.checkpoint import load_file
from webgpu_torch_models.clip import CLIPTextConfig
from webgpu_torch_models.config import ModelConfig
from webgpu_torch_models.diffusion.autoencoder import AutoencoderKLConfig
from webgpu_torch_models.diffusion.unet import UNet2DConditionConfig

Renamed = Iterator[tuple[str, Tensor]]

#: by how a part's names start in the file, the part and whether its names are OpenCLIP's
PARTS = {
    "model.diffusion_model.": ("unet", False),
    "first_stage_model.": ("vae", False),
    "cond_stage_model.transformer.": ("text_encoder", False),
    "cond_stage_model.model.": ("text_encoder", True),
    "conditioner.embedders.0.transformer.": ("text_encoder", False),
    "conditioner.embedders.0.model.": ("text_encoder_2", True),
    "conditioner.embedders.1.model.": ("text_encoder_2", True),
}
#: a part's names in the file, and what they are called here
_BLOCK = {
    "in_layers.0": "norm1", "in_layers.2": "conv1", "emb_layers.1": "time_emb_proj", "out_layers.0": "norm2",
    "out_layers.3": "conv2", "skip_connection": "conv_shortcut",
}  # fmt: skip
_UNET = {
    "time_embed.0": "time_embedding.linear_1", "time_embed.2": "time_embedding.linear_2", "out.0": "conv_norm_out",
    "label_emb.0.0": "add_embedding.linear_1", "label_emb.0.2": "add_embedding.linear_2", "out.2": "conv_out",
    "input_blocks.0.0": "conv_in",
}  # fmt: skip
_ATTENTION = {"norm": "group_norm", "q": "to_q", "k": "to_k", "v": "to_v", "proj_out": "to_out.0"}
_OPEN_CLIP = {
    "token_embedding.weight": "embeddings.token_embedding.weight", "ln_final.weight": "final_layer_norm.weight",
    "positional_embedding": "embeddings.position_embedding.weight", "ln_final.bias": "final_layer_norm.bias",
}  # fmt: skip
_OPEN_CLIP_LAYER = {"ln_1": "layer_norm1", "ln_2": "layer_norm2", "mlp.c_fc": "mlp.fc1", "mlp.c_proj": "mlp.fc2"}


def _split(name: str) -> tuple[str, str]:
    """Return a parameter's module and its own name."""
    module, _, last = name.rpartition(".")
    return module, last


def _unet(weights: dict[str, Tensor], config: UNet2DConditionConfig) -> Renamed:
    for name, value in weights.items():
        module, last = _split(name)
        yield f"{unet_module(module, config.layers_per_block + 1)}.{last}", value


def unet_module(module: str, layers: int) -> str:
    """Return what a module of latent-diffusion's U-Net is called here; ``layers`` is ``layers_per_block + 1``."""
    if module in _UNET:
        return _UNET[module]
    match = re.fullmatch(r"(input|output|middle)_block(?:s\.(\d+))?\.(\d+)\.(.+)", module)
    if match is None:
        return module
    way, block, place, rest = match[1], int(match[2] or 0), int(match[3]), match[4]
    if way == "middle":
        where, layer, attends = "mid_block", place // 2, place == 1
    else:
        number, layer = divmod(block - (way == "input"), layers)
        where, attends = f"{'down' if way == 'input' else 'up'}_blocks.{number}", place > 0
    if rest in ("op", "conv"):
        return f"{where}.{'down' if rest == 'op' else 'up'}samplers.0.conv"
    return f"{where}.attentions.{layer}.{rest}" if attends else f"{where}.resnets.{layer}.{_BLOCK.get(rest, rest)}"


def _vae(weights: dict[str, Tensor], config: AutoencoderKLConfig) -> Renamed:
    last_block = len(config.block_out_channels) - 1

    def level(match: re.Match[str]) -> str:
        # The way up is counted from the largest images in the file, and from the smallest here.
        number = int(match[2]) if match[1] == "down" else last_block - int(match[2])
        return f".{match[1]}_blocks.{number}."

    for name, value in weights.items():
        if name.startswith("loss."):
            continue
        module, last = _split(name)
        module = re.sub(r"\.(down|up)\.(\d+)\.", level, module)
        module = re.sub(r"\.block\.(\d+)", r".resnets.\1", module)
        module = re.sub(r"\.mid\.block_(\d)", lambda match: f".mid_block.resnets.{int(match[1]) - 1}", module)
        module = re.sub(
            r"\.mid\.attn_1\.(\w+)",
            lambda match: f".mid_block.attentions.0.{_ATTENTION.get(match[1], match[1])}",
            module,
        )
        module = re.sub(r"\.(down|up)sample\.", r".\1samplers.0.", module)
        module = module.replace(".norm_out", ".conv_norm_out").replace(".nin_shortcut", ".conv_shortcut")
        yield f"{module}.{last}", value


def _open_clip(weights: dict[str, Tensor], config: CLIPTextConfig) -> Renamed:
    for name, value in weights.items():
        match = re.fullmatch(r"transformer\.resblocks\.(\d+)\.(.+)", name)
        if name == "logit_scale":
            continue
        if name == "text_projection":
            yield "text_projection.weight", value.t().contiguous()
        elif match is None:
            yield f"text_model.{_OPEN_CLIP.get(name, name)}", value
        elif int(match[1]) < config.num_hidden_layers:
            # Stable Diffusion 2 leaves the last layers out.
            module, last = _split(match[2])
            layer = f"text_model.encoder.layers.{match[1]}"
            if module == "attn" and last.startswith("in_proj_"):
                for each, part in zip("qkv", value.chunk(3), strict=True):
                    yield f"{layer}.self_attn.{each}_proj.{last.removeprefix('in_proj_')}", part.contiguous()
            else:
                module = _OPEN_CLIP_LAYER.get(module, module.replace("attn.", "self_attn."))
                yield f"{layer}.{module}.{last}", value


_RENAME: dict[str, Callable[..., Renamed]] = {"unet": _unet, "vae": _vae, "open_clip": _open_clip}


class SingleFile:
    """A checkpoint of several parts.

    Args:
        path: of the file, .safetensors or what ``torch.save`` writes (.ckpt), of which nothing but tensors is read.
        device: where the tensors go.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, or holds anything but tensors.
    """

    def __init__(self, path: Path, device: torch.device) -> None:
        self.path = path
        self.found: dict[str, tuple[dict[str, Tensor], bool]] = {}
        weights = load_file(path, device)
        for start, (part, is_open) in PARTS.items():
            own = {key.removeprefix(start): value for key, value in weights.items() if key.startswith(start)}
            if own:
                self.found[part] = own, is_open
        self.names = list(weights)[:3]

    def weights(self, part: str, config: ModelConfig) -> dict[str, Tensor]:
        """Return a part's weights by their names here, of the file's dtypes and shapes.

        Raises:
            ValueError: the file has no such part.
        """
        if part not in self.found:
            shown = ", ".join(map(brief, self.names))
            raise ValueError(f"{self.path} has no {part} of Stable Diffusion; its names are {shown}, …")
        own, is_open = self.found[part]
        rename = _RENAME.get("open_clip" if is_open else part)
        return dict(own if rename is None else rename(own, config))
