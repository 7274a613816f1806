"""Adapters of low rank (LoRA, Hu et al., 2021), from the files that peft writes."""

from __future__ import annotations

import math
import re
from pathlib import Path

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.files import load_safetensors
from webgpu_torch_core.files.host_tensors import brief
from webgpu_torch_nn import Linear, Module, Parameter
from webgpu_torch_nn import functional as F

from webgpu_torch_models.config import read_json
from webgpu_torch_models.linear import Conv1D, EncodedLinear

CONFIG_FILE, WEIGHTS_FILE = "adapter_config.json", "adapter_model.safetensors"
#: options of peft that change what an adapter computes, and their value in one that is only of low rank
_PLAIN = {
    "use_dora": False,
    "modules_to_save": None,
    "trainable_token_indices": None,
    "bias": "none",
    "lora_bias": False,
}


class LoraLinear(Module):
    """``base(x) + scale * B (A x)``.

    Args:
        base: a linear map, of encoded weights or not.
        down: A, [rank, in].
        up: B, [out, rank].
        scale: of what the adapter adds.
    """

    def __init__(self, base: Module, down: Tensor, up: Tensor, scale: float) -> None:
        super().__init__()
        self.base, self.scale = base, scale
        self.lora_A, self.lora_B = Parameter(down), Parameter(up)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.scale * F.linear(F.linear(x, self.lora_A), self.lora_B)


class _Adapter:
    """What a folder holds: pairs of matrices by the map that they are for, and the scale of each."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.config = folder, read_json(folder / CONFIG_FILE)
        if self.config.get("peft_type") != "LORA":
            raise ValueError(
                f"{folder / CONFIG_FILE}: peft_type is {brief(self.config.get('peft_type'))}, expected LORA"
            )
        for key, plain in _PLAIN.items():
            if self.config.get(key, plain) not in (plain, [], None):
                raise ValueError(f"{folder / CONFIG_FILE}: {key} is {brief(self.config[key])}, which is not supported")
        self.pairs: dict[str, dict[str, Tensor]] = {}
        path = folder / WEIGHTS_FILE
        for key, value in load_safetensors(path).items():
            match = re.fullmatch(r"(?:base_model\.model\.)?(.+)\.lora_([AB])(?:\.default)?\.weight", key)
            if match is None:
                raise ValueError(f"{path}: {brief(key)} is no matrix of low rank of a linear map")
            self.pairs.setdefault(match[1], {})[match[2]] = value
        for name, pair in self.pairs.items():
            shapes = {side: list(each.shape) for side, each in pair.items()}
            if len(pair) != 2 or pair["A"].ndim != 2 or pair["B"].ndim != 2 or shapes["A"][0] != shapes["B"][1]:
                raise ValueError(f"{path}: of {name} there are {shapes}, expected A [rank, in] and B [out, rank]")

    def _number(self, key: str, name: str, default: float) -> float:
        patterns = self.config.get(f"{key}_pattern") or {}
        if not isinstance(patterns, dict):
            raise ValueError(f"{self.folder / CONFIG_FILE}: {key}_pattern is {brief(patterns)}, expected an object")
        for pattern, value in patterns.items():
            if re.fullmatch(rf"(.*\.)?({pattern})", name):
                return value
        return default

    def scale(self, name: str) -> float:
        """Return what the adapter of a map is multiplied by: alpha over the rank, or over its root (rank-stabilised)."""
        rank = self.pairs[name]["A"].shape[0]
        alpha = self._number("alpha", name, self.config.get("lora_alpha", 8))
        if not isinstance(alpha, int | float):
            raise ValueError(f"{self.folder / CONFIG_FILE}: lora_alpha is {brief(alpha)}, expected a number")
        return alpha / (math.sqrt(rank) if self.config.get("use_rslora") else rank)


def load_adapter(model: Module, folder: str | Path, merge: bool = False) -> list[str]:
    """Put an adapter of peft into a model, whose linear maps then compute with it.

    Args:
        model: as it was when the adapter was trained.
        folder: has adapter_config.json and adapter_model.safetensors.
        merge: add the matrices to the weights, which costs nothing later but cannot be undone; otherwise they stay beside, and
            can be trained.

    Returns:
        the names of the maps.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: the adapter is of another kind, is damaged or is for another model; nothing is changed then. Also ``merge``
            into encoded weights.
    """
    adapter = _Adapter(Path(folder))
    modules = dict(model.named_modules())
    for name, pair in adapter.pairs.items():
        module = modules.get(name)
        if not isinstance(module, Linear | Conv1D | EncodedLinear | LoraLinear):
            raise ValueError(f"{folder} adapts {brief(name)}, which is no linear map of {type(model).__name__}")
        if merge and not isinstance(module, Linear | Conv1D):
            raise ValueError(
                f"{name} is a {type(module).__name__}: an adapter is merged into plain weights only; use merge=False"
            )
        wanted, given = _sizes(module), (pair["B"].shape[0], pair["A"].shape[1])
        if wanted != given:
            raise ValueError(f"{folder}: of {name} the adapter is [out, in] = {list(given)}, the model {list(wanted)}")
    for name, pair in adapter.pairs.items():
        _put(model, name, modules[name], pair, adapter.scale(name), merge)
    return list(adapter.pairs)


def _sizes(module: Module) -> tuple[int, int]:
    """Return how many elements a linear map gives and takes."""
    if isinstance(module, LoraLinear):
        return _sizes(module.base)
    if isinstance(module, EncodedLinear):
        return module.sizes
    rows, columns = module.weight.shape
    return (columns, rows) if isinstance(module, Conv1D) else (rows, columns)


def _put(model: Module, name: str, module: Module, pair: dict[str, Tensor], scale: float, merge: bool) -> None:
    like = next(model.parameters())
    weight = getattr(module, "weight", like)
    down, up = (pair[side].to(weight.device, weight.dtype) for side in "AB")
    if merge:
        with torch.no_grad():
            product = (up.float() @ down.float()) * scale
            product = product.t() if isinstance(module, Conv1D) else product
            weight.copy_((weight.float() + product).to(weight.dtype))
        return
    parent, _, attribute = name.rpartition(".")
    adapted = LoraLinear(module, down, up, scale)
    setattr(model.get_submodule(parent), attribute, adapted.train(model.training))
