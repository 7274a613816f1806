"""Single cases in which results once differed from PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest
import torch
import webgpu_torch as ours

CASES = {
    "norm 0 of infinity": lambda t: t.linalg.vector_norm(t.tensor([t.inf, 1.0, 0.0, t.nan]), 0),
    "flip of a complex number": lambda t: t.tensor(1 + 2j).flip(0),
    "roll of a number": lambda t: t.tensor(1.0).roll(1, 0),
    "roll of a complex number": lambda t: t.tensor(1 + 2j).roll(1, 0),
    "list of tensors": lambda t: t.arange(12).reshape(3, 4)[[t.tensor([0, 1]), t.tensor([1, 2])]],
    "list of numbers": lambda t: t.arange(12).reshape(3, 4)[[0, 2]],
    "list of lists": lambda t: t.arange(12).reshape(3, 4)[[[0, 1], [1, 2]]],
    "list with a slice": lambda t: t.arange(12).reshape(3, 4)[[slice(0, 2), 1]],
    "mask True": lambda t: t.arange(3)[t.tensor(True)],
    "mask False": lambda t: t.arange(3)[t.tensor(False)],
    "mask behind a number": lambda t: t.arange(6).reshape(2, 3)[0, t.tensor(True)],
    "mask of a number": lambda t: t.tensor(5.0)[t.tensor(5.0) > 3],
    "nextafter": lambda t: t.nextafter(t.tensor([1.0, 2.0, -1.0, 0.0, -0.0, t.nan]), t.tensor([2.0, 0.0, 5.0, -1.0, 1.0, 1.0])),
    "nextafter bfloat16": lambda t: t.nextafter(
        t.tensor([1.0, 2.0, -1.0, 0.0, -0.0, 3.0, t.inf]).bfloat16(), t.tensor([2.0, 0.0, 5.0, -1.0, 1.0, 3.0, 0.0]).bfloat16()
    ),
    "nextafter float16": lambda t: t.nextafter(t.tensor([1.0, t.nan, 65504.0]).half(), t.tensor([2.0, 0.0, t.inf]).half()),
    "linspace": lambda t: t.linspace(0, 255, 7, dtype=t.uint8),
    "new of a size": lambda t: t.tensor(tuple(t.ones(2, 3).new(t.ones(2, 3).shape).shape)),
    "array on the right": lambda t: t.tensor([1]) + numpy.array([1.5]),
    "array as divisor": lambda t: t.tensor([3]) // numpy.array([1.5]),
    "array as exponent": lambda t: t.tensor([2]) ** numpy.array([1.5]),
    "norm by the name A": lambda t: t.linalg.norm(A=t.ones(2)),
    "norm by the name input": lambda t: t.linalg.norm(input=t.ones(2)),
    "einsum of booleans": lambda t: t.einsum("i,i->", t.tensor([True, True]), t.tensor([True, False])),
    "einsum of single booleans": lambda t: t.einsum("i,i->", t.tensor([True]), t.tensor([True])),
    "product of booleans": lambda t: t.tensor([[True]]) @ t.tensor([[True]]),
    "short source": lambda t: t.zeros(3).masked_scatter(t.tensor([True, False, True]), t.tensor([5.0, 6.0])),
    "limits of two kinds": lambda t: t.arange(3.0).clamp(t.zeros(3), 2.0),
    "several dimensions for one": lambda t: t.ones(2, 3).argmax((0, 1)),
    "loss of integers": lambda t: t.nn.functional.mse_loss(t.arange(3), t.arange(3)),
    "positions of another type": lambda t: t.arange(3).take(t.tensor([0], dtype=t.int32)),
    "product of one complex number": lambda t: t.ones(1, dtype=t.complex64).prod(),
    "number divided": lambda t: 3 / t.tensor([7.0, 0.1, 3e38]),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_as_in_pytorch(name: str) -> None:
    found: list[Any] = []
    for library in (torch, ours):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                result = CASES[name](library)
            except (TypeError, IndexError, RuntimeError) as error:
                found.append(type(error))
                continue
        found.append((str(result.dtype), tuple(result.shape), result.tolist()))
    assert repr(found[1]) == repr(found[0])


def test_masks_of_no_dimensions_write(device: str) -> None:
    for mask, wanted in ((True, [7.0, 7.0]), (False, [0.0, 1.0])):
        x = ours.arange(2.0, device=device)
        x[ours.tensor(mask, device=device)] = 7
        assert x.tolist() == wanted
