"""What weights are stored as: as they are, as halves, or in four bits.

Four bits go in blocks of 32 neighbours, 20 bytes each: a factor and an offset as float16, then two numbers to a byte, the
first in its lowest bits (the block of llama.cpp's type Q4_1). Loading makes float32 numbers of all of them.
"""

from __future__ import annotations

import struct
from array import array

import webgpu_torch_core as torch
from webgpu_torch_core.ir.dtypes import dtype, float16, float32, uint8
from webgpu_torch_core.operations.contraction.encoded_weights import encode_weight

from .capture import Held
from .errors import ExportError

#: what weights may be stored as
WEIGHTS = ("float32", "float16", "int4")
#: numbers of a block of four bits, and its bytes
BLOCK, BLOCK_BYTES = 32, 20
#: how many times as many bytes of numbers fit a file, by what they are stored as: a whole number
SHRINKS = {"": 1, "float16": 2, "int4": 4 * BLOCK // BLOCK_BYTES}


def kind_of(held: Held, stored_as: str) -> str:
    """Return what memory is stored as when ``stored_as`` is asked for: an empty string where its bytes stay as they are.

    Only parameters that are matrices or more, in whole blocks, are stored in four bits; other float32 numbers are halved then.
    """
    if stored_as == "float32" or held.value.dtype is not float32:
        return ""
    matrix = held.is_parameter and len(held.shape) > 1 and not held.value.numel % BLOCK
    return "int4" if stored_as == "int4" and matrix else "float16"


def stored(
    held: Held, data: memoryview, shape: tuple[int, ...], kind: str
) -> tuple[dtype, tuple[int, ...], bytes | memoryview]:
    """Return element type, shape and bytes of a part of held memory as it goes into a file.

    Raises:
        ExportError: a number is more than float16 holds.
    """
    if not kind:
        return held.value.dtype, shape, data
    if kind == "float16":
        return float16, shape, _halved(array("f", bytes(data)), held.name)
    numbers = torch.frombuffer(bytearray(data), dtype=float32).to(held.place).reshape(-1, BLOCK)
    packed, scales, offsets = encode_weight(numbers, "uint4", BLOCK, True)
    assert offsets is not None
    pairs, codes = _halved(array("f", _bytes(torch.cat([scales, offsets], 1).float())), held.name), _bytes(packed)
    count = len(packed)
    blocks = b"".join(pairs[4 * at : 4 * at + 4] + codes[16 * at : 16 * at + 16] for at in range(count))
    return uint8, (count, BLOCK_BYTES), blocks


def _bytes(tensor: torch.Tensor) -> bytes:
    value = tensor._storage.value
    return bytes(value.engine.read(value))


def _halved(numbers: array[float], name: str) -> bytes:
    try:
        return struct.pack(f"<{len(numbers)}e", *numbers)
    except OverflowError as error:
        raise ExportError(
            f"'{name}' has a number of {max(map(abs, numbers))}, more than float16 holds: use weights='float32'"
        ) from error
