"""Sizes and counts that are tensors of one integer or NumPy's integers, as packages compute them, next to PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import webgpu_torch

PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "made": lambda t, x, k: t.zeros(k, k), "viewed": lambda t, x, k: x.view(1, k, -1), "reshaped": lambda t, x, k: x.reshape(k, -1),
    "spread": lambda t, x, k: x.expand(k, 2, 6, 6), "repeated": lambda t, x, k: x.repeat(k, 1, 1, 1), "cut": lambda t, x, k: x.narrow(2, 0, k),
    "resized": lambda t, x, k: t.nn.functional.interpolate(x, size=[k, k]), "averaged": lambda t, x, k: t.nn.functional.avg_pool2d(x, k),
    "adapted": lambda t, x, k: t.nn.functional.adaptive_avg_pool2d(x, (k, k)), "summed": lambda t, x, k: x.sum(k), "greatest": lambda t, x, k: x.topk(k)[0],
    "stride": lambda t, x, k: t.nn.functional.conv2d(x, t.ones(2, 2, 1, 1), stride=k, padding=k), "layer": lambda t, x, k: t.nn.Linear(k, k).weight * 0,
    "spectrum": lambda t, x, k: t.fft.fft(x, k).real, "squeezed": lambda t, x, k: x.squeeze(k),
    "extreme": lambda t, x, k: x.amax(k), "triangle": lambda t, x, k: x.tril(k), "rolled": lambda t, x, k: x.roll(k, 2),
}  # fmt: skip
#: PyTorch wants numbers or 0-d tensors of these
OF_NUMBERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "classes": lambda t, x, k: t.nn.functional.one_hot(t.tensor([0, 1]), k), "window": lambda t, x, k: t.hann_window(k),
    "pieces": lambda t, x, k: t.tensor_split(x, k, 2)[1],
}  # fmt: skip


def _same(program: Callable[[Any, Any, Any], Any], integer: Callable[[Any], Any]) -> None:
    found = [program(t, t.arange(72.0).view(1, 2, 6, 6), integer(t)) for t in (webgpu_torch, torch)]
    assert tuple(found[0].shape) == tuple(found[1].shape)
    torch.testing.assert_close(torch.tensor(found[0].tolist()), found[1].float(), check_dtype=False)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_tensors_of_one_integer(name: str) -> None:
    _same(PROGRAMS[name], lambda t: t.tensor([3], dtype=t.int32))


@pytest.mark.parametrize("name", sorted(PROGRAMS | OF_NUMBERS))
def test_integers_of_numpy_and_of_tensors(name: str) -> None:
    program = (PROGRAMS | OF_NUMBERS)[name]
    _same(program, lambda _: np.int64(3))
    _same(program, lambda t: t.tensor(3))


def test_other_tensors_are_no_integers() -> None:
    for wrong in (webgpu_torch.tensor([3.0]), webgpu_torch.tensor([3, 3]), webgpu_torch.tensor([True])):
        with pytest.raises(TypeError):
            webgpu_torch.zeros(4, wrong)


def test_differences_of_no_order_know_no_dimension() -> None:
    assert webgpu_torch.diff(webgpu_torch.ones(2), 0, 5).tolist() == torch.diff(torch.ones(2), 0, 5).tolist()
