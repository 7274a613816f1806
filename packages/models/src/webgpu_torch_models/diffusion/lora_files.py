"""Adapters of low rank for pipelines, from the files that diffusers and kohya's trainer write."""

from __future__ import annotations

import re
from pathlib import Path

from webgpu_torch_core import Tensor
from webgpu_torch_core.files import load_safetensors
from webgpu_torch_core.files.host_tensors import brief

from webgpu_torch_models.diffusion.single_file import unet_module
from webgpu_torch_models.lora import Pair, check_pairs, pair_of, put_pairs
from webgpu_torch_models.pretrained import PreTrainedModel

#: what diffusers calls the file in a folder
FILE = "pytorch_lora_weights.safetensors"
#: how kohya's names of a part's maps start; their dots are underscores
KOHYA = {
    "lora_unet_": ("unet", "transformer"), "lora_te_": ("text_encoder",), "lora_te1_": ("text_encoder",),
    "lora_te2_": ("text_encoder_2",), "lora_transformer_": ("transformer",),
}  # fmt: skip
_SIDES = {
    "lora_A": "A", "lora_down": "A", "lora.down": "A", "lora_linear_layer.down": "A",
    "lora_B": "B", "lora_up": "B", "lora.up": "B", "lora_linear_layer.up": "B",
}  # fmt: skip
_NAME = re.compile(
    r"(.+?)[._](lora_A|lora_B|lora_down|lora_up|lora(?:_linear_layer)?\.(?:down|up))(?:\.default)?\.weight|(.+)\.alpha"
)


class Names:
    """The maps of a pipeline's networks by what files call them.

    Args:
        parts: the networks by the names of their folders.
    """

    def __init__(self, parts: dict[str, PreTrainedModel]) -> None:
        self.known: dict[str, tuple[str, str]] = {}
        for part, network in parts.items():
            starts = [start for start, of in KOHYA.items() if part in of]
            for name, _ in network.named_modules():
                # Encoders of texts are kept without their outermost name.
                for own in {name, f"text_model.{name}"} if part.startswith("text") else {name}:
                    self.known[f"{part}.{own}"] = part, name
                    self.known |= dict.fromkeys((start + own.replace(".", "_") for start in starts), (part, name))
        #: of a U-Net, what :func:`unet_module` is told: XL's files count blocks without levels
        self.layers = parts["unet"].config.layers_per_block + 1 if "unet" in parts else None

    def find(self, key: str) -> tuple[str, str] | None:
        """Return the part and the module that a name is of; None where there is none."""
        # First files have the attention's maps in a "processor".
        key = re.sub(r"\.to_out$", ".to_out.0", key.replace(".processor.", "."))
        found = self.known.get(key)
        if found is not None or self.layers is None:
            return found
        match = re.fullmatch(r"lora_unet_(input_blocks|output_blocks|middle_block)((?:_\d+){1,2})_(.+)", key)
        if match is None:
            return None
        inner = unet_module(f"{match[1]}{match[2].replace('_', '.')}.{_dotted(match[3])}", self.layers)
        return self.known.get("lora_unet_" + inner.replace(".", "_"))


def _dotted(name: str) -> str:
    """Return a residual block's map of latent-diffusion with its dot again."""
    return re.sub(r"^(in_layers|out_layers|emb_layers)_(\d)$", r"\1.\2", name)


def read_lora(path: Path, names: Names, scale: float) -> dict[str, dict[str, Pair]]:
    """Return what a file adapts: by part and module, matrices [rank, in] and [out, rank] with their scales.

    Args:
        path: of the file, or of a folder with pytorch_lora_weights.safetensors.
        names: of the pipeline's maps.
        scale: what all of it is multiplied by.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, or adapts what the pipeline has not.
    """
    path = path / FILE if path.is_dir() else path
    sides: dict[str, dict[str, Tensor]] = {}
    alphas: dict[str, float] = {}
    for key, value in load_safetensors(path).items():
        match = _NAME.fullmatch(key)
        if match is None:
            raise ValueError(f"{path}: {brief(key)} is no matrix of low rank")
        if match[3] is not None:
            alphas[match[3]] = float(value.item())
        else:
            sides.setdefault(match[1], {})[_SIDES[match[2]]] = value
    result: dict[str, dict[str, Pair]] = {}
    for key, each in sides.items():
        found, alpha = names.find(key), alphas.get(key)
        if found is None:
            raise ValueError(f"{path} adapts {brief(key)}, which this pipeline has not")
        part, name = found
        result.setdefault(part, {})[name] = pair_of(
            name, each, lambda rank, alpha=alpha: scale * (1.0 if alpha is None else alpha / rank), path
        )
    return result


def load_lora(parts: dict[str, PreTrainedModel], path: Path, scale: float, merge: bool) -> list[str]:
    """Put a file's adapter into a pipeline's networks; see :meth:`.DiffusionPipeline.load_lora_weights`."""
    found = read_lora(path, Names(parts), scale)
    for part, pairs in found.items():
        check_pairs(parts[part], pairs, str(path), merge)
    for part, pairs in found.items():
        put_pairs(parts[part], pairs, merge)
    return [f"{part}.{name}" for part, pairs in found.items() for name in pairs]
