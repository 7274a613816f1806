"""Writes into a slice leave the elements next to it alone, whatever words and groups a device stores them by."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from ops_oracle import sample, to_ours, to_torch

#: lengths around groups of 16 bytes, of a word, and of a workgroup
LENGTHS = (5, 17, 33, 64, 259, 1030)
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "fill": lambda whole, part: part.fill_(1),
    "reversed": lambda whole, part: part.copy_(part.flip(-1)),
    "compute": lambda whole, part: part.copy_((part * 2 + 1).to(part.dtype)),
    "masked": lambda whole, part: part.masked_fill_(part == 1, 0),
    "neighbour": lambda whole, part: part.copy_(whole.flip(-1)[..., : part.shape[-1]].expand(part.shape)),
}


@pytest.mark.parametrize("kind", ["int64", "uint8", "bool", "float16", "bfloat16", "int16", "float32"])
def test_slices_of_a_larger_tensor(kind: str, device: str) -> None:
    draw = random.Random(kind)
    for length in LENGTHS:
        source = sample((draw.choice((1, 3)), length), getattr(torch, kind), length)
        expected, found = source.clone(), to_ours(source, device)
        for name in draw.sample(sorted(WRITES), 3):
            low = draw.randrange(length)
            columns = slice(low, draw.randrange(low, length) + 1, draw.choice((1, 1, 2)))
            row = draw.randrange(source.shape[0])
            for whole in (expected, found):
                WRITES[name](whole[row], whole[row, columns])
            assert to_torch(found).equal(expected), f"{name} of [{row}, {columns}] of {tuple(source.shape)}"


@pytest.mark.parametrize("kind", ["int64", "uint8", "bool", "float16"])
def test_flat_slices_and_transposed_parts(kind: str, device: str) -> None:
    source = sample((7, 9), getattr(torch, kind), 3)
    expected, found = source.clone(), to_ours(source, device)
    for whole in (expected, found):
        whole.reshape(-1)[10:23].zero_()
        whole.t()[2:5, 1:6].fill_(1)
        whole[3:5, ::4] = whole[:2, 1:4]
        whole[[1, 5], 8:] = 0
    assert to_torch(found).equal(expected)
