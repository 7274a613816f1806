"""How much memory a checkpoint's weights need, from the headers of its files."""

from __future__ import annotations

import json
import struct
from argparse import Namespace
from pathlib import Path

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8}


def _folder(model: str) -> Path | None:
    """Return where a checkpoint's files are: a folder, or the hub's cache."""
    if Path(model).is_dir():
        return Path(model)
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    for name in ("config.json", "model_index.json"):
        found = try_to_load_from_cache(model, name)
        if isinstance(found, str):
            return Path(found).parent
    return None


def _tensors(path: Path) -> list[tuple[int, int]]:
    """Return the numbers of elements and of bytes of the tensors of a safetensors file."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    found = []
    for name, each in header.items():
        if name != "__metadata__":
            count = 1
            for size in each["shape"]:
                count *= size
            start, end = each["data_offsets"]
            found.append((count, end - start))
    return found


def described_need(options: Namespace) -> str:
    """Return a clause on what the weights need in the type asked for; an empty one if that is not known."""
    folder = _folder(options.model)
    tensors = [each for path in folder.rglob("*.safetensors") for each in _tensors(path)] if folder else []
    if not tensors:
        return ""
    count = sum(each for each, _ in tensors)
    size = sum(each for _, each in tensors)
    if options.dtype in _BYTES:
        size = count * _BYTES[options.dtype]
    kind = "as they are stored" if options.dtype == "auto" else f"in {options.dtype}"
    return f": its {count:,} parameters need {_written(size)} {kind}, beside what computing with them takes"


def _written(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
