"""Small kernels that run alone as functions of whole arrays: bit for bit what they store otherwise."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import webgpu_torch as torch
from hypothesis import given, settings
from webgpu_torch_backend_cpu import at_once
from webgpu_torch_core.record.devices import device, engine_for
from webgpu_torch_core.record.lone import LONE_AFTER

TYPES = ("bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64")
OF_TWO = (
    "add",
    "sub",
    "mul",
    "div",
    "maximum",
    "lt",
    "gt",
    "eq",
    "atan2",
    "remainder",
    "bitwise_xor",
    "logical_and",
    "copysign",
)
OF_ONE = (
    "neg",
    "abs",
    "relu",
    "exp",
    "sigmoid",
    "sign",
    "square",
    "logical_not",
    "frac",
    "erf",
    "isnan",
    "clone",
    "rsqrt",
)
SHAPES = st.sampled_from([(), (1,), (7,), (3, 1), (4, 5), (2, 0), (2, 3, 4)])


@pytest.fixture(autouse=True)
def on_the_cpu() -> Any:
    """Let new tensors land on the CPU, whose thread begins to read each result again."""
    yield
    engine().recorder.lone = 0


def engine() -> Any:
    """Return the CPU's engine."""
    return engine_for(device("cpu"))


def made(draw: Any, shape: tuple[int, ...], kind: str) -> Any:
    """Return drawn numbers in a drawn layout."""
    numbers = np.random.default_rng(draw(st.integers(0, 1 << 30))).normal(0, 3, shape)
    whole = torch.tensor(numbers.tolist(), device="cpu").to(getattr(torch, kind))
    how = draw(st.sampled_from(["plain", "turned", "part", "one"]))
    if how == "turned" and len(shape) == 2:
        return whole.T.contiguous().T
    if how == "part" and shape:
        return torch.cat([whole, whole])[: shape[0]]
    return whole.flatten()[:1].sum().to(whole.dtype) if how == "one" else whole


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_as_recorded(data: Any) -> None:
    """Results of operations whose results are read each are those of operations that are recorded first."""
    shape, kind = data.draw(SHAPES), data.draw(st.sampled_from(TYPES))
    # Operands of one type need no conversion: the one function of NumPy is called alone.
    one, other = (made(data.draw, shape, data.draw(st.sampled_from([kind, kind, *TYPES]))) for _ in range(2))
    name = data.draw(st.sampled_from(OF_TWO + OF_ONE))
    second = data.draw(st.sampled_from([other, other, one, 2, 2.5, True]))
    arguments = (one, second) if name in OF_TWO and hasattr(torch, name) else (one,)
    results = []
    for repeated in range(LONE_AFTER + 4):
        if not repeated:
            engine().recorder.lone = 0
        try:
            result = getattr(torch, name)(*arguments)
            results.append((result.dtype, result.stride(), str(result.tolist())))
        except (RuntimeError, NotImplementedError, TypeError) as error:
            results.append(str(error))
    assert results == results[:1] * len(results)


def test_few_elements_take_one_call() -> None:
    """A sum of two tensors is one call of NumPy's function, whose array is the result's memory; so is a chain without operands between."""
    numbers = torch.tensor([1.0, -2.0, 3.0], device="cpu")
    for _ in range(LONE_AFTER + 2):
        total = numbers + numbers
        assert total.tolist() == [2.0, -4.0, 6.0]
    assert total._storage.value.buffer.array.dtype == np.float32
    found = [at_once.whole(each.kernel) for each in engine().lone.values() if each.kernel.name == "add"]
    assert np.add in [each and each.function for each in found]


def test_memory_seen_from_outside() -> None:
    """What ran at once and what it read share memory with arrays as any tensors do."""
    array = np.array([1.0, 2.0, 3.0], np.float32)
    numbers = torch.from_numpy(array)
    for count in range(LONE_AFTER + 4):
        array[0] = count
        doubled = numbers + numbers
        assert doubled.tolist() == [2.0 * count, 4.0, 6.0]
    seen = doubled.numpy()
    doubled.mul_(2)
    seen[1] = 5.0
    assert (doubled + 0).tolist() == [4.0 * count, 5.0, 12.0]
    assert doubled.view(torch.int32).view(torch.float32).tolist() == [4.0 * count, 5.0, 12.0]
