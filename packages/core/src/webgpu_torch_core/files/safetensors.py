"""The safetensors format: a JSON header of names, types, shapes and byte ranges, then the bytes.

Layout: the header's length (unsigned, 64 bits, little-endian), the header padded with spaces to a multiple of eight
bytes, the tensors one after another in row-major order. Source: the format description at
https://huggingface.co/docs/safetensors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from webgpu_torch_core.files.host_tensors import (
    MAXIMUM_DIMENSIONS,
    AtomicFile,
    HostStorage,
    HostTensor,
    brief,
    map_file,
)
from webgpu_torch_core.files.json_text import MAXIMUM_TEXT, parse_object
from webgpu_torch_core.ir.dtypes import BY_NAME, dtype

MAXIMUM_HEADER = MAXIMUM_TEXT
"""The longest header, in bytes, that any reader of the format accepts."""

# In the order in which writers lay tensors out, so that every tensor is aligned to its element.
_NAMES = {
    "U64": "uint64", "I64": "int64", "F64": "float64", "C64": "complex64", "F32": "float32", "U32": "uint32", "I32": "int32",
    "BF16": "bfloat16", "F16": "float16", "U16": "uint16", "I16": "int16",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
#: how a file names element types
CODES = {name: code for code, name in _NAMES.items()}
_RANKS = {name: rank for rank, name in enumerate(_NAMES.values())}


class SafetensorError(ValueError):
    """A file is not valid safetensors, or holds what this library has no type for."""


def read_safetensors(
    path: object, make_tensor: Callable[[HostTensor], object] | None = None
) -> tuple[dict[str, object], dict[str, str]]:
    """Return the tensors of a file by name, and its metadata.

    Tensors are :class:`~.host.HostTensor` views of the mapped file (nothing is read before it is used), or what
    ``make_tensor`` makes of them. Raises SafetensorError, naming file and key, unless every byte is accounted for, and
    OSError when the file cannot be opened.
    """
    return parse_safetensors(map_file(path), repr(os.fspath(path)), make_tensor)  # type: ignore[call-overload]


def parse_safetensors(
    data: memoryview, label: str, make_tensor: Callable[[HostTensor], object] | None = None
) -> tuple[dict[str, object], dict[str, str]]:
    """Return the tensors and the metadata of a file's bytes, which errors call ``label``: see :func:`read_safetensors`."""
    header, start = _read_header(data, label)
    metadata = _check_metadata(header.pop("__metadata__", None), label)
    body = data[start:]
    entries = [_check_entry(name, entry, len(body), label) for name, entry in header.items()]
    _check_coverage(entries, len(body), label)
    tensors: dict[str, object] = {}
    for name, element, shape, first, last in entries:
        tensor = HostTensor(HostStorage(element, body[first:last], key=name), shape)
        tensors[name] = tensor if make_tensor is None else make_tensor(tensor)
    return tensors, metadata


def _parse_json(text: object, label: str, what: str) -> dict[str, Any]:
    try:
        return parse_object(text, label, what, unique=True)
    except ValueError as error:
        raise SafetensorError(str(error)) from None


def _read_header(data: memoryview, label: str) -> tuple[dict[str, Any], int]:
    if len(data) < 8:
        raise SafetensorError(f"{label}: {len(data)} bytes are too few for the 8 bytes of the header's length")
    length = int.from_bytes(data[:8], "little")
    if length > MAXIMUM_HEADER:
        raise SafetensorError(f"{label}: the header is {length} bytes long, more than {MAXIMUM_HEADER}")
    if 8 + length > len(data):
        raise SafetensorError(f"{label}: the header is {length} bytes long, but the file has {len(data) - 8} after it")
    if data[8:9] != b"{":
        raise SafetensorError(f"{label}: the header does not start with '{{'")
    return _parse_json(data[8 : 8 + length], label, "the header"), 8 + length


def _check_metadata(metadata: object, label: str) -> dict[str, str]:
    if metadata is None:
        return {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise SafetensorError(f"{label}: '__metadata__' must map strings to strings, got {brief(metadata)}")
    return metadata


def _is_counts(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= MAXIMUM_DIMENSIONS
        and all(type(each) is int and 0 <= each < 1 << 63 for each in value)
    )


def _check_entry(name: str, entry: object, size: int, label: str) -> tuple[str, dtype, tuple[int, ...], int, int]:
    """Return (name, type, shape, first byte, byte after the last) of a header entry that makes sense on its own."""
    where = f"{label}: tensor {brief(name)}"
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise SafetensorError(f"{where}: expected the keys 'dtype', 'shape' and 'data_offsets', got {brief(entry)}")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in _NAMES:
        raise SafetensorError(
            f"{where}: dtype {brief(code)} is not supported; supported are {', '.join(sorted(_NAMES))}"
        )
    if not _is_counts(shape):
        raise SafetensorError(f"{where}: shape must be a list of sizes, got {brief(shape)}")
    if not _is_counts(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1] <= size:
        raise SafetensorError(
            f"{where}: data_offsets {brief(offsets)} are not [begin, end] within {size} bytes of data"
        )
    element = BY_NAME[_NAMES[code]]
    count = 1
    for each in shape:
        # No file is that large; a product of many sizes could be too long to print.
        count = min(count * each, 1 << 63)
    if 0 in shape:
        count = 0
    if count * element.itemsize != offsets[1] - offsets[0]:
        raise SafetensorError(
            f"{where}: shape {brief(shape)} of {code} needs {count * element.itemsize} bytes, "
            f"data_offsets {offsets} span {offsets[1] - offsets[0]}"
        )
    return name, element, tuple(shape), offsets[0], offsets[1]


def _check_coverage(entries: list[Any], size: int, label: str) -> None:
    """Raise unless the byte ranges follow each other without overlap or gap up to the end of the file."""
    position, before = 0, "the start of the data"
    for name, _, _, first, last in sorted(entries, key=lambda entry: (entry[3], entry[4])):
        if first != position:
            problem = "overlaps" if first < position else f"leaves a gap of {first - position} bytes after"
            raise SafetensorError(
                f"{label}: tensor {brief(name)} at byte {first} {problem} {before}, which ends at {position}"
            )
        position, before = last, f"tensor {brief(name)}"
    if position != size:
        raise SafetensorError(f"{label}: {size - position} bytes at the end belong to no tensor")


def serialize_safetensors(
    tensors: Mapping[str, HostTensor], metadata: Mapping[str, str] | None = None
) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a safetensors file piece by piece: the length, the header, each tensor's elements.

    Tensors are laid out as the safetensors library does: wide element types first, then by name. Raises
    SafetensorError for names and metadata that the format cannot hold.
    """
    header: dict[str, object] = {}
    if metadata is not None:
        for key, value in metadata.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise SafetensorError(f"metadata must map strings to strings, got {key!r}: {brief(value)}")
        header["__metadata__"] = dict(metadata)
    order = sorted(tensors.items(), key=_layout_key)
    position = 0
    for name, tensor in order:
        end = position + tensor.nbytes
        code = CODES[tensor.dtype.name]
        header[name] = {"dtype": code, "shape": list(tensor.shape), "data_offsets": [position, end]}
        position = end
    try:
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise SafetensorError(f"a name or metadata is not valid Unicode: {error}") from None
    text += b" " * (-len(text) % 8)
    if len(text) > MAXIMUM_HEADER:
        raise SafetensorError(f"the header of {len(order)} tensors is {len(text)} bytes, more than {MAXIMUM_HEADER}")
    yield len(text).to_bytes(8, "little") + text
    for _, tensor in order:
        yield tensor.contiguous_bytes()


def _layout_key(item: tuple[str, HostTensor]) -> tuple[int, str]:
    name, tensor = item
    if not isinstance(name, str) or name == "__metadata__":
        raise SafetensorError(f"a tensor's name must be a string other than '__metadata__', got {name!r}")
    if tensor.dtype.name not in _RANKS:
        raise SafetensorError(f"tensor {name!r}: {tensor.dtype!r} cannot be stored in a safetensors file")
    return _RANKS[tensor.dtype.name], name


def write_safetensors(
    path: object, tensors: Mapping[str, HostTensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a file that appears under its name only when it is complete.

    Raises SafetensorError for names, metadata or types that the format cannot hold, and OSError.
    """
    pieces: Iterable[bytes | memoryview] = serialize_safetensors(tensors, metadata)
    with AtomicFile(path) as file:
        for piece in pieces:
            file.write(piece)


def read_sharded_index(path: object) -> tuple[dict[str, str], dict[str, object]]:
    """Return the file path of every tensor in ``model.safetensors.index.json``, and the index's metadata.

    Shards lie beside the index. Raises SafetensorError when the index is malformed or names a file elsewhere.
    """
    source = os.fspath(path)  # type: ignore[call-overload]
    index = _parse_json(map_file(path), repr(source), "the index")
    weight_map = index.get("weight_map")
    metadata = index.get("metadata", {})
    if not isinstance(weight_map, dict) or not isinstance(metadata, dict):
        raise SafetensorError(f"{source!r}: expected a 'weight_map' object (and 'metadata', if any, to be one)")
    folder = os.path.dirname(source)
    result = {}
    for name, shard in weight_map.items():
        if (
            not isinstance(shard, str)
            or shard in ("", ".", "..")
            or len(shard) > 255
            or any(mark in shard for mark in "/\\\0:")
        ):
            raise SafetensorError(
                f"{source!r}: tensor {brief(name)}: {brief(shard)} is not the name of a file beside the index"
            )
        result[name] = os.path.join(folder, shard)
    return result, metadata


def read_sharded(
    path: object, make_tensor: Callable[[HostTensor], object] | None = None
) -> tuple[dict[str, object], dict[str, object]]:
    """Return all tensors of a sharded model by name, and the index's metadata.

    Raises SafetensorError when a shard lacks a tensor that the index places in it.
    """
    weight_map, metadata = read_sharded_index(path)
    shards = {shard: read_safetensors(shard, make_tensor)[0] for shard in dict.fromkeys(weight_map.values())}
    for name, shard in weight_map.items():
        if name not in shards[shard]:
            raise SafetensorError(f"{shard!r}: tensor {brief(name)}, which the index places here, is missing")
    return {name: shards[shard][name] for name, shard in weight_map.items()}, metadata
