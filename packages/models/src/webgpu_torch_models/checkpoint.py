"""Weights of a model folder: safetensors in one file or in shards, or PyTorch's older format."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.files import load_safetensors, read_sharded_index, save_safetensors
from webgpu_torch_core.files.host_tensors import HostTensor, brief
from webgpu_torch_core.files.safetensors import read_safetensors
from webgpu_torch_core.operations.creation.factories import from_bytes
from webgpu_torch_core.record.devices import synchronize

from webgpu_torch_models.config import write_json

#: what files of weights are called: of transformers' models, and of diffusers' networks
MODEL, DIFFUSION = ("model", "pytorch_model"), ("diffusion_pytorch_model", "diffusion_pytorch_model")

UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def _shards(folder: Path, index: str) -> list[Path]:
    """Return the files that an index names; all of them lie beside it.

    Raises:
        ValueError: the index is malformed, or names a file elsewhere.
        FileNotFoundError: files that it names are missing.
    """
    paths = [Path(each) for each in sorted(set(read_sharded_index(folder / index)[0].values()))]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        others = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
        raise FileNotFoundError(f"{folder} lacks {', '.join(missing[:8])}{others}, which {index} names")
    return paths


def _load_pickle(path: Path, device: Any) -> dict[str, Tensor]:
    """Return the tensors of a file of ``torch.save`` by name.

    Raises:
        ValueError: it is damaged, or holds anything but tensors by name.
    """
    weights = torch.load(path, map_location=device, weights_only=True)
    if isinstance(weights, dict) and isinstance(weights.get("state_dict"), dict):
        # What a trainer saves beside the weights.
        weights = weights["state_dict"]
    if not isinstance(weights, dict):
        raise ValueError(f"{path} holds a {type(weights).__name__}, expected tensors by name")
    for key, value in weights.items():
        if not isinstance(key, str) or not isinstance(value, Tensor):
            raise ValueError(f"{path}: {brief(key)} is a {type(value).__name__}, expected tensors by name")
    return weights


def load_file(path: Path, device: torch.device) -> dict[str, Tensor]:
    """Return the tensors of one file by name, of the shapes and dtypes there: of safetensors, or what ``torch.save`` writes.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, or holds anything but tensors.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    return (load_safetensors if path.suffix == ".safetensors" else _load_pickle)(path, device)


def _converted(weights: dict[str, Tensor], dtype: torch.dtype | None) -> dict[str, Tensor]:
    """Return weights with floating-point ones of a type; None keeps theirs."""
    if dtype is None:
        return weights
    found = {key: value.to(dtype) if value.is_floating_point() else value for key, value in weights.items()}
    # What is only recorded keeps what it reads: all files would be in memory at once.
    synchronize()
    return found


def load(
    folder: Path, device: Any, stems: tuple[str, str] = MODEL, dtype: torch.dtype | None = None
) -> dict[str, Tensor]:
    """Return all the weights of a model folder by name, on ``device``.

    Args:
        folder: where the files are.
        device: where the tensors go.
        stems: what the files are called, in safetensors' and in PyTorch's format.
        dtype: of floating-point weights, which are converted a file at a time; None keeps the files'.

    Raises:
        FileNotFoundError: the folder has no weights, or lacks some of the shards.
        ValueError: a file is damaged, holds anything but tensors, or an index names files outside of the folder.
    """
    weights: dict[str, Tensor] = {}
    for path in _shown(_files(folder, stems)):
        weights.update(_converted(load_file(path, device), dtype))
    return weights


def _files(folder: Path, stems: tuple[str, str]) -> list[Path]:
    """Return the files of a folder's weights.

    Raises:
        FileNotFoundError: the folder has no weights, or lacks some of the shards.
        ValueError: an index is malformed, or names files outside of the folder.
    """
    singles = f"{stems[0]}.safetensors", f"{stems[1]}.bin"
    for single in singles:
        if (folder / single).is_file():
            return [folder / single]
        index = f"{single}.index.json"
        if (folder / index).is_file():
            return _shards(folder, index)
    expected = ", ".join(f"{single}, {single}.index.json" for single in singles)
    raise FileNotFoundError(f"{folder} has no weights: expected one of {expected}")


def _shown(files: list[Path]) -> Iterable[Path]:
    """Return files whose progress is shown where somebody looks at a terminal."""
    if not sys.stderr.isatty():  # as in a page, where nothing installs what only terminals need
        return files
    from tqdm import tqdm

    return tqdm(files, desc="Loading weights", unit="file", leave=False)


def names(folder: Path, stems: tuple[str, str] = MODEL) -> list[str]:
    """Return what a model folder's weights are called; raises as :func:`load`."""
    found: list[str] = []
    for path in _files(folder, stems):
        found += read_safetensors(path)[0] if path.suffix == ".safetensors" else load_file(path, torch.device("cpu"))
    return found


def each(
    folder: Path, device: torch.device, stems: tuple[str, str] = MODEL, dtype: torch.dtype | None = None
) -> Iterator[tuple[str, Tensor]]:
    """Give the weights of a model folder by name, one after the other, so that never more than one is in host memory.

    Of files of ``torch.save`` all weights of a file are. Each has the shape that it has in its file. Arguments and errors are :func:`load`'s.
    """
    for path in _shown(_files(folder, stems)):
        if path.suffix == ".safetensors":
            for name, host in read_safetensors(path)[0].items():
                assert isinstance(host, HostTensor)
                value = from_bytes(host.contiguous_bytes(), host.shape, host.dtype, device)
                yield name, _converted({name: value}, dtype)[name]
        else:
            for name, value in load_file(path, torch.device("cpu")).items():
                yield name, _converted({name: value.to(device)}, dtype)[name]


def parse_size(size: int | str) -> int:
    """Return a number of bytes given as a number or as text such as "5GB" or "200MiB".

    Raises:
        ValueError: the text is not a size.
    """
    if isinstance(size, int):
        return size
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?I?B?)\s*", size.upper())
    unit = None if match is None else match[2] if match[2] in UNITS else None
    if match is None or unit is None:
        raise ValueError(f'"{size}" is not a size; write a number of bytes or, for example, "200MB" or "5GB"')
    return int(float(match[1]) * UNITS[unit])


def _split(weights: dict[str, Tensor], limit: int) -> list[dict[str, Tensor]]:
    """Split the weights, in their order, into groups of at most ``limit`` bytes each (or of one larger tensor)."""
    groups: list[dict[str, Tensor]] = []
    used = 0
    for key, value in weights.items():
        size = value.numel() * value.element_size()
        if not groups or used + size > limit:
            groups.append({})
            used = 0
        groups[-1][key] = value
        used += size
    return groups


def save(weights: dict[str, Tensor], folder: Path, max_shard_size: int | str, stem: str = MODEL[0]) -> None:
    """Write the weights as one file of safetensors, or as numbered shards and an index if they exceed the shard size."""
    groups = _split({key: value.contiguous() for key, value in weights.items()}, parse_size(max_shard_size))
    for path in folder.glob(f"{stem}*.safetensors"):
        # Files of an earlier save would be loaded in place of the new ones.
        path.unlink()
    single = folder / f"{stem}.safetensors"
    index = folder / f"{single.name}.index.json"
    index.unlink(missing_ok=True)
    if len(groups) <= 1:
        save_safetensors(groups[0] if groups else {}, single, metadata={"format": "pt"})
        return
    weight_map: dict[str, str] = {}
    for number, group in enumerate(groups, 1):
        name = f"{stem}-{number:05d}-of-{len(groups):05d}.safetensors"
        save_safetensors(group, folder / name, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(group, name))
    total = sum(value.numel() * value.element_size() for value in weights.values())
    parameters = sum(value.numel() for value in weights.values())
    metadata = {"total_size": total, "total_parameters": parameters}
    write_json(index, {"metadata": metadata, "weight_map": weight_map})
