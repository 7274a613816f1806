"""Creations that record their kernel again give what they gave, and other ones where anything that they depend on differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch
from webgpu_torch_core.operations.creation import ranges

#: calls that are equal for a dictionary and make different tensors stand next to each other
CALLS: list[Callable[[Any], Any]] = [
    lambda t: t.full((2,), 0.0),
    lambda t: t.full((2,), -0.0),
    lambda t: t.full((2,), 0),
    lambda t: t.full((2,), False),
    lambda t: t.full((2,), 1),
    lambda t: t.full((2,), True),
    lambda t: t.full((2,), 1.0),
    lambda t: t.full((), float("nan")),
    lambda t: t.full((2,), t.tensor(3)),
    lambda t: t.full((2,), t.tensor(4)),
    lambda t: t.arange(3),
    lambda t: t.arange(3.0),
    lambda t: t.arange(3, dtype=t.float16),
    lambda t: t.arange(True),
    lambda t: t.arange(0, 1, 0.25),
    lambda t: t.linspace(-0.0, 1, 3),
    lambda t: t.eye(2),
    lambda t: t.zeros(2, 3),
    lambda t: t.zeros((2, 3), dtype=t.int32),
    lambda t: t.zeros([2, 3], dtype=t.bool),
    lambda t: t.ones(t.Size((2, 3)), requires_grad=True),
    lambda t: t.ones(2, 3),
    lambda t: t.ones(2, 3, dtype=t.complex64),
    lambda t: t.ones_like(t.zeros(3, 2).t()),
    lambda t: t.ones_like(t.zeros(2, 3)),
    lambda t: t.full_like(t.zeros(2), t.tensor(2.0)),
    lambda t: t.full_like(t.zeros(2), 2.0),
    lambda t: t.zeros(2).new_full((1,), t.tensor(2.0)),
    lambda t: t.zeros(2).new_ones(()),
    lambda t: t.zeros(2, dtype=t.int64).new_ones(()),
    lambda t: t.zeros(2, out=t.empty(2, dtype=t.int32), dtype=t.int32),
]


def facts(tensor: Any) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.stride(), str(tensor.dtype), tensor.requires_grad, str(tensor.tolist())


def all_made(library: Any) -> list[tuple[Any, ...]]:
    return [facts(each(library)) for each in CALLS]


def test_creations_are_pytorchs_each_time() -> None:
    expected = all_made(torch)
    for _ in range(3):
        assert all_made(webgpu_torch) == expected


def test_they_follow_the_default_type_and_device() -> None:
    for _ in range(2):
        assert webgpu_torch.zeros(3).dtype is webgpu_torch.float32
        with webgpu_torch.device("python"):
            assert webgpu_torch.zeros(3).device.type == "python"
            assert webgpu_torch.arange(3).device.type == "python"
        with webgpu_torch.device("meta"):
            assert webgpu_torch.zeros(3).is_meta
        webgpu_torch.set_default_dtype(webgpu_torch.float64)
        try:
            assert webgpu_torch.zeros(3).dtype is webgpu_torch.float64
            assert webgpu_torch.full((2,), 1.5).dtype is webgpu_torch.float64
        finally:
            webgpu_torch.set_default_dtype(webgpu_torch.float32)


def test_each_is_a_tensor_of_its_own() -> None:
    first, second = webgpu_torch.zeros(3), webgpu_torch.zeros(3)
    first += 1
    assert second.tolist() == [0, 0, 0] and webgpu_torch.zeros(3).tolist() == [0, 0, 0]


def test_a_wrong_call_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError):
            webgpu_torch.full((2,), 300, dtype=webgpu_torch.int8)
        with pytest.raises(RuntimeError):
            webgpu_torch.arange(3, 1, 1)
        with pytest.raises(TypeError):
            webgpu_torch.zeros((2, 3.0))


def test_the_same_creation_is_not_worked_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [webgpu_torch.arange(7, device="webgpu") for _ in range(2)]

    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(ranges, "_range", fail)
    known.append(webgpu_torch.arange(7, device="webgpu"))
    assert [each.tolist() for each in known] == [[*range(7)]] * 3
    # A length that no other test asks for, as that would be known, too.
    with pytest.raises(AssertionError):
        webgpu_torch.arange(7919, device="webgpu")
