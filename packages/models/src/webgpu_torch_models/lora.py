"""Adapters of low rank (LoRA, Hu et al., 2021), from the files that peft writes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.files import load_safetensors
from webgpu_torch_core.files.host_tensors import brief
from webgpu_torch_nn import Conv2d, Linear, Module, Parameter
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


class LoraConv2d(Module):
    """``base(x) + scale * B * (A * x)``, convolutions both.

    Args:
        base: a convolution, of an adapter or not.
        down: A, [rank, in, height, width], which strides and pads as ``base`` does.
        up: B, [out, rank, 1, 1].
        scale: of what the adapter adds.
    """

    def __init__(self, base: Conv2d | LoraConv2d, down: Tensor, up: Tensor, scale: float) -> None:
        super().__init__()
        self.base, self.scale = base, scale
        self.stride, self.padding = base.stride, base.padding
        self.lora_A, self.lora_B = Parameter(down), Parameter(up)

    def forward(self, x: Tensor) -> Tensor:
        inner = F.conv2d(x, self.lora_A, stride=self.stride, padding=self.padding)
        return self.base(x) + self.scale * F.conv2d(inner, self.lora_B)


class Pair(NamedTuple):
    """What an adapter has for a map: ``scale * up @ down`` is added to its weight.

    Attributes:
        down: [rank, in], of a convolution [rank, in, height, width].
        up: [out, rank], of a convolution [out, rank, 1, 1].
        scale: alpha over the rank, or over its root (rank-stabilised).
    """

    down: Tensor
    up: Tensor
    scale: float


def pair_of(name: str, sides: dict[str, Tensor], scale: Callable[[int], float], source: Path) -> Pair:
    """Return an adapter's matrices for a map, or convolutions, in the shapes that :class:`Pair` says.

    Args:
        name: of the map, for messages.
        sides: "A" and "B" by name.
        scale: of the rank, what they are multiplied by.
        source: their file, for messages.

    Raises:
        ValueError: one is missing, or they do not fit together.
    """
    shapes = {side: list(each.shape) for side, each in sides.items()}
    fit = len(sides) == 2 and {len(each) for each in shapes.values()} in ({2}, {4}) and shapes["A"][0] == shapes["B"][1]
    if not fit or shapes["B"][2:] not in ([], [1, 1]):
        raise ValueError(f"{source}: of {name} there are {shapes}, expected A [rank, in] and B [out, rank]")
    return Pair(sides["A"], sides["B"], scale(shapes["A"][0]))


class _Settings:
    """adapter_config.json.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.values = path, read_json(path)
        if self.values.get("peft_type") != "LORA":
            raise ValueError(f"{path}: peft_type is {brief(self.values.get('peft_type'))}, expected LORA")
        for key, plain in _PLAIN.items():
            if self.values.get(key, plain) not in (plain, [], None):
                raise ValueError(f"{path}: {key} is {brief(self.values[key])}, which is not supported")

    def _number(self, key: str, name: str, default: float) -> float:
        patterns = self.values.get(f"{key}_pattern") or {}
        if not isinstance(patterns, dict):
            raise ValueError(f"{self.path}: {key}_pattern is {brief(patterns)}, expected an object")
        for pattern, value in patterns.items():
            if re.fullmatch(rf"(.*\.)?({pattern})", name):
                return value
        return default

    def scale(self, name: str, rank: int) -> float:
        """Return what the adapter of a map is multiplied by."""
        alpha = self._number("alpha", name, self.values.get("lora_alpha", 8))
        if not isinstance(alpha, int | float):
            raise ValueError(f"{self.path}: lora_alpha is {brief(alpha)}, expected a number")
        return alpha / (math.sqrt(rank) if self.values.get("use_rslora") else rank)


def _read_peft(folder: Path) -> dict[str, Pair]:
    """Return what a folder of peft adapts, by the names of the maps."""
    settings, path = _Settings(folder / CONFIG_FILE), folder / WEIGHTS_FILE
    sides: dict[str, dict[str, Tensor]] = {}
    for key, value in load_safetensors(path).items():
        match = re.fullmatch(r"(?:base_model\.model\.)?(.+)\.lora_([AB])(?:\.default)?\.weight", key)
        if match is None:
            raise ValueError(f"{path}: {brief(key)} is no matrix of low rank of a linear map")
        sides.setdefault(match[1], {})[match[2]] = value
    return {name: pair_of(name, each, partial(settings.scale, name), path) for name, each in sides.items()}


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
    pairs = _read_peft(Path(folder))
    check_pairs(model, pairs, str(folder), merge)
    put_pairs(model, pairs, merge)
    return list(pairs)


def check_pairs(model: Module, pairs: dict[str, Pair], source: str, merge: bool) -> None:
    """Raise ValueError unless a model has the maps that an adapter of a file is for, in shapes that fit."""
    modules = dict(model.named_modules())
    for name, pair in pairs.items():
        module = modules.get(name)
        if not isinstance(module, Linear | Conv1D | Conv2d | EncodedLinear | LoraLinear | LoraConv2d):
            raise ValueError(f"{source} adapts {brief(name)}, which is no linear map of {type(model).__name__}")
        if merge and not isinstance(module, Linear | Conv1D | Conv2d):
            raise ValueError(
                f"{name} is a {type(module).__name__}: an adapter is merged into plain weights only; use merge=False"
            )
        wanted, given = _sizes(module), (pair.up.shape[0], *pair.down.shape[1:])
        if wanted != given:
            raise ValueError(f"{source}: of {name} the adapter is [out, in] = {list(given)}, the model {list(wanted)}")


def _sizes(module: Module) -> tuple[int, ...]:
    """Return how many elements a linear map gives and takes, with the size of a convolution's window."""
    if isinstance(module, LoraLinear | LoraConv2d):
        return _sizes(module.base)
    if isinstance(module, EncodedLinear):
        return module.sizes
    shape = tuple(module.weight.shape)
    return shape[::-1] if isinstance(module, Conv1D) else shape


def put_pairs(model: Module, pairs: dict[str, Pair], merge: bool) -> None:
    """Put an adapter into a model that :func:`check_pairs` found to fit: into its weights, or beside them."""
    like = next(model.parameters())
    for name, pair in pairs.items():
        module = model.get_submodule(name)
        weight = getattr(module, "weight", like)
        down, up = (each.to(weight.device, weight.dtype) for each in (pair.down, pair.up))
        if merge:
            with torch.no_grad():
                product = (up.float().flatten(1) @ down.float().flatten(1)) * pair.scale
                product = product.t() if isinstance(module, Conv1D) else product.reshape(weight.shape)
                weight.copy_((weight.float() + product).to(weight.dtype))
            continue
        parent, _, attribute = name.rpartition(".")
        if isinstance(module, Conv2d | LoraConv2d):
            adapted: Module = LoraConv2d(module, down, up, pair.scale)
        else:
            adapted = LoraLinear(module, down, up, pair.scale)
        setattr(model.get_submodule(parent), attribute, adapted.train(model.training))
