"""GGUF files: decoders as llama.cpp stores them, in blocks of a few bits.

The format is that of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3); the blocks are those of its
``ggml-quants.c``. A file is mapped, and checked before anything of it is computed with.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.files.host_tensors import brief, map_file

Value = int | float | bool | str | list["Value"]
#: scalars of the metadata by their number: how :mod:`struct` reads them
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
#: more of them than any file has
MOST_ENTRIES, MOST_DIMENSIONS = 1 << 20, 4


class GGUFError(ValueError):
    """A file is no GGUF, is damaged, or holds what is not supported."""


class Stored(NamedTuple):
    """A tensor in a file.

    Attributes:
        kind: how its numbers are stored, a name in :data:`BLOCKS`.
        shape: rows before columns.
        data: its blocks.
    """

    kind: str
    shape: tuple[int, ...]
    data: memoryview


class _Reader:
    """Reads values one after the other, never past the end."""

    def __init__(self, data: memoryview, label: str) -> None:
        self.data, self.label, self.at = data, label, 0

    def take(self, count: int, what: str) -> memoryview:
        if count > len(self.data) - self.at:
            raise GGUFError(
                f"{self.label}: {what} at byte {self.at} needs {count} bytes, {len(self.data) - self.at} are left"
            )
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form: str, what: str) -> int:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form), what))[0]

    def text(self, what: str) -> str:
        data = bytes(self.take(self.number("Q", f"the length of {what}"), what))
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise GGUFError(f"{self.label}: {what} is no text: {error}") from None

    def value(self, kind: int, what: str, depth: int = 0) -> Value:
        if kind in _SCALARS:
            return self.number(_SCALARS[kind], what)
        if kind == _STRING:
            return self.text(what)
        if kind != _ARRAY or depth > 2:
            raise GGUFError(f"{self.label}: {what} is of type {kind}, which is none, or too deep")
        inner, count = self.number("I", f"the type of {what}"), self.number("Q", f"the length of {what}")
        # The smallest element takes a byte: a length beyond what is left is caught before a list is made.
        if count > len(self.data) - self.at:
            raise GGUFError(f"{self.label}: {what} claims {count} elements, {len(self.data) - self.at} bytes are left")
        if inner in _SCALARS:
            form = f"<{count}{_SCALARS[inner]}"
            return list(struct.unpack(form, self.take(struct.calcsize(form), what)))
        return [self.value(inner, what, depth + 1) for _ in range(count)]


def read_gguf(path: str | Path) -> tuple[dict[str, Value], dict[str, Stored]]:
    """Return a file's metadata and its tensors by name; their data are views of the mapped file.

    Raises:
        GGUFError: it is no GGUF of version 2 or 3, is cut off, or has tensors that overlap, lie outside or are of an unknown type.
        OSError: it cannot be opened.
    """
    data = map_file(path)
    reader = _Reader(data, repr(str(path)))
    if bytes(reader.take(4, "the magic number")) != b"GGUF":
        raise GGUFError(f"{reader.label}: the file does not start with GGUF")
    version = reader.number("I", "the version")
    if version not in (2, 3):
        raise GGUFError(f"{reader.label}: version {version} is not supported; supported are 2 and 3 (little endian)")
    tensors, entries = reader.number("Q", "the number of tensors"), reader.number("Q", "the number of entries")
    if max(tensors, entries) > MOST_ENTRIES:
        raise GGUFError(f"{reader.label}: {tensors} tensors and {entries} entries; at most {MOST_ENTRIES} are read")
    metadata: dict[str, Value] = {}
    for _ in range(entries):
        key = reader.text("a key")
        metadata[key] = reader.value(reader.number("I", f"the type of {brief(key)}"), brief(key))
    return metadata, _tensors(reader, tensors, metadata.get("general.alignment", 32))


def _tensors(reader: _Reader, count: int, alignment: Value) -> dict[str, Stored]:
    label = reader.label
    if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1) or alignment > 1 << 20:
        raise GGUFError(f"{label}: general.alignment is {brief(alignment)}, expected a power of two")
    found = []
    for _ in range(count):
        name = reader.text("a tensor's name")
        where = f"{label}: tensor {brief(name)}"
        dimensions = reader.number("I", f"the dimensions of {brief(name)}")
        if dimensions > MOST_DIMENSIONS:
            raise GGUFError(f"{where} has {dimensions} dimensions; at most {MOST_DIMENSIONS} are read")
        sizes = [reader.number("Q", f"the shape of {brief(name)}") for _ in range(dimensions)]
        kind, offset = (
            reader.number("I", f"the type of {brief(name)}"),
            reader.number("Q", f"the place of {brief(name)}"),
        )
        if kind not in _KINDS:
            known = ", ".join(_KINDS.values())
            raise GGUFError(f"{where} is stored as type {kind}, which is not supported; supported are {known}")
        found.append((name, _KINDS[kind], tuple(reversed(sizes)), offset, _bytes_of(sizes, _KINDS[kind], where)))
    start = -(-reader.at // alignment) * alignment
    result: dict[str, Stored] = {}
    end = 0
    for name, kind, shape, offset, nbytes in sorted(found, key=lambda each: each[3]):
        where = f"{label}: tensor {brief(name)}"
        if name in result:
            raise GGUFError(f"{where} is there twice")
        if offset % alignment or offset < end:
            raise GGUFError(f"{where} starts at {offset}, within the one before it or not at a multiple of {alignment}")
        end = offset + nbytes
        if end > len(reader.data) - start:
            raise GGUFError(f"{where} takes bytes {offset} to {end} of {max(len(reader.data) - start, 0)}")
        result[name] = Stored(kind, shape, reader.data[start + offset : start + end])
    return result


def _bytes_of(sizes: list[int], kind: str, where: str) -> int:
    numbers, nbytes, _ = BLOCKS[kind]
    count = 1
    for size in sizes:
        count *= size
        if not 0 < count < 1 << 48:
            raise GGUFError(f"{where} has the shape {sizes[::-1]}: sizes must be positive, and not beyond all files")
    if not sizes or sizes[0] % numbers:
        raise GGUFError(f"{where} has the shape {sizes[::-1]}: rows of {kind} are whole blocks of {numbers} numbers")
    return count // numbers * nbytes


# Blocks


def _half(blocks: Tensor, at: int) -> Tensor:
    """Return the 16-bit float at a byte of each block, float32 [blocks, 1]."""
    return blocks[:, at : at + 2].contiguous().view(torch.float16).float()


def _signed(data: Tensor) -> Tensor:
    return data.contiguous().view(torch.int8).float()


def _nibbles(data: Tensor) -> Tensor:
    """Return the low and the high halves of bytes [blocks, n], int32 [blocks, 2, n]."""
    wide = data.to(torch.int32)
    return torch.stack([wide & 15, wide >> 4], dim=1)


def _float32(blocks: Tensor) -> Tensor:
    return blocks.contiguous().view(torch.float32)


def _float16(blocks: Tensor) -> Tensor:
    return _half(blocks, 0)


def _bfloat16(blocks: Tensor) -> Tensor:
    return blocks.contiguous().view(torch.bfloat16).float()


def _q8_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * _signed(blocks[:, 2:])


def _q4_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * (_nibbles(blocks[:, 2:]).reshape(-1, 32) - 8).float()


def _q4_k(blocks: Tensor) -> Tensor:
    """Eight groups of 32 numbers, each with a scale and a minimum of six bits."""
    packed = blocks[:, 4:16].to(torch.int32)
    low, middle, high = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = torch.cat([low & 63, (high & 15) | (low >> 6) << 4], dim=1).float()  # (blocks, 8)
    minima = torch.cat([middle & 63, (high >> 4) | (middle >> 6) << 4], dim=1).float()
    numbers = _nibbles(blocks[:, 16:].reshape(-1, 32)).reshape(-1, 8, 32).float()
    scaled = (_half(blocks, 0) * scales).unsqueeze(2) * numbers
    return (scaled - (_half(blocks, 2) * minima).unsqueeze(2)).reshape(-1, 256)


def _q6_k(blocks: Tensor) -> Tensor:
    """Sixteen groups of 16 numbers; four of their bits are in one place and two in another."""
    low = _nibbles(blocks[:, :128].reshape(-1, 64)).reshape(-1, 2, 4, 32)  # (blocks, halves, quarters, 32)
    high = blocks[:, 128:192].to(torch.int32).reshape(-1, 2, 1, 32)
    places = torch.tensor([0, 2, 4, 6], device=blocks.device, dtype=torch.int32).reshape(1, 1, 4, 1)
    numbers = (low | ((high >> places) & 3) << 4) - 32
    scales = _half(blocks, 208) * _signed(blocks[:, 192:208])  # (blocks, 16)
    return (scales.unsqueeze(2) * numbers.reshape(-1, 16, 16).float()).reshape(-1, 256)


#: by name: how many numbers a block has, its bytes, and how uint8 [blocks, bytes] become float32 [blocks, numbers]
BLOCKS: dict[str, tuple[int, int, Callable[[Tensor], Tensor]]] = {
    "F32": (1, 4, _float32),
    "F16": (1, 2, _float16),
    "Q4_0": (32, 18, _q4_0),
    "Q8_0": (32, 34, _q8_0),
    "Q4_K": (256, 144, _q4_k),
    "Q6_K": (256, 210, _q6_k),
    "BF16": (1, 2, _bfloat16),
}
_KINDS = {0: "F32", 1: "F16", 2: "Q4_0", 8: "Q8_0", 12: "Q4_K", 14: "Q6_K", 30: "BF16"}


def decode(stored: Stored, device: torch.device | str = "cpu") -> Tensor:
    """Return a stored tensor's numbers, float32 in its shape, decoded on a device."""
    _, nbytes, read = BLOCKS[stored.kind]
    blocks = torch.frombuffer(bytearray(stored.data), dtype=torch.uint8).reshape(-1, nbytes)
    return read(blocks.to(device)).reshape(stored.shape)
