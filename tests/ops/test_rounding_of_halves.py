"""Numbers of 16 bits: rounded once where they are computed, and by way of float32 where they come from float64, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
import webgpu_torch as ours

#: beside halfway between two halves, by less than float32 tells
BESIDE = [
    1 + 2**-11 + 2**-40,
    1 + 2**-11 - 2**-40,
    2049 + 1e-9,
    0.1,
    -(1 + 2**-11 + 2**-40),
    65519.999999,
    1e300,
    2**-25 * 1.0000000001,
]

WAYS: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda t: t.tensor(BESIDE, dtype=t.float16),
    "half": lambda t: t.tensor(BESIDE, dtype=t.float64).half(),
    "half of a result": lambda t: (t.tensor(BESIDE, dtype=t.float64) * 1.0).half() + 0,
    "copy_": lambda t: t.empty(len(BESIDE), dtype=t.float16).copy_(t.tensor(BESIDE, dtype=t.float64)),
    "as_tensor": lambda t: t.as_tensor(numpy.array(BESIDE), dtype=t.float16),
    "out": lambda t: t.add(t.tensor(BESIDE, dtype=t.float64), 0, out=t.empty(len(BESIDE), dtype=t.float16)),
    "bfloat16": lambda t: t.tensor(BESIDE, dtype=t.float64).bfloat16(),
    "a number": lambda t: t.full((2,), BESIDE[0], dtype=t.float16),
    "items": lambda t: t.zeros(2, dtype=t.float16).index_fill_(0, t.tensor([0]), BESIDE[0]),
}


@pytest.mark.parametrize("way", WAYS)
def test_halves_of_64_bits(way: str) -> None:
    assert WAYS[way](ours).tolist() == WAYS[way](torch).tolist()


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["glu", "selu"])
def test_activations_are_rounded_once(kind: str, name: str) -> None:
    values = (numpy.arange(1, 2001) * 0.377 % 6 - 3).tolist()
    found, expected = (
        getattr(library.nn.functional, name)(library.tensor(values, dtype=getattr(library, kind)))
        for library in (ours, torch)
    )
    assert found.tolist() == expected.tolist()
