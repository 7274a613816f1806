"""Unsigned integers of 16, 32 and 64 bits hold, convert, promote and compute what PyTorch's do."""

from __future__ import annotations

import io
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import webgpu_torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

BITS = (16, 32, 64)
OTHERS = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "complex64")
#: what PyTorch computes with them
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "mul": operator.mul, "div": operator.truediv, "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip
UNARY: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(), "prod": lambda x: x.prod(), "cumsum": lambda x: x.cumsum(0), "any": lambda x: x.any(),
    "sort": lambda x: x.sort().values, "descending": lambda x: x.sort(descending=True).values, "unique": lambda x: x.unique(),
    "roll": lambda x: x.roll(1), "floor": lambda x: x.floor(), "sqrt": lambda x: x.sqrt(), "where": lambda x: x[x == x[:1]],
    "numbers": lambda x: x * 3, "floats": lambda x: x * 1.5, "clone": lambda x: x.clone(),
}  # fmt: skip


def devices_of(bits: int, device: str) -> None:
    if device != "cpu" and bits == 64:
        pytest.skip("WGSL has no integers of 64 unsigned bits")


def told(value: Any) -> Any:
    return (str(value.dtype), list(value.shape), value.tolist()) if hasattr(value, "dtype") else value


def numbers(bits: int) -> st.SearchStrategy[list[int]]:
    top = (1 << bits) - 1
    edge = st.sampled_from([0, 1, 2, 3, top, top - 1, top >> 1, (top >> 1) + 1])
    return st.lists(st.one_of(edge, st.integers(0, top)), min_size=1, max_size=9)


@pytest.mark.parametrize("bits", BITS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_computing(device: str, bits: int, data: st.DataObject) -> None:
    devices_of(bits, device)
    values = data.draw(numbers(bits))
    other = data.draw(st.lists(st.sampled_from(values), min_size=len(values), max_size=len(values)))
    name = data.draw(st.sampled_from([*BINARY, *UNARY]))
    found = []
    for t, place in ((webgpu_torch, device), (torch, "cpu")):
        kind = getattr(t, f"uint{bits}")
        x, y = t.tensor(values, dtype=kind, device=place), t.tensor(other, dtype=kind, device=place)
        found.append(told(BINARY[name](x, y) if name in BINARY else UNARY[name](x)))
    assert found[0][:2] == found[1][:2]
    assert found[0][2] == pytest.approx(found[1][2], rel=1e-6, abs=0, nan_ok=True)


@pytest.mark.parametrize("bits", BITS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_conversions(device: str, bits: int, data: st.DataObject) -> None:
    devices_of(bits, device)
    target = data.draw(st.sampled_from(OTHERS))
    values = data.draw(numbers(bits))
    signed = data.draw(st.lists(st.integers(-(1 << 31), (1 << 31) - 1), min_size=1, max_size=5))
    found = []
    for t, place in ((webgpu_torch, device), (torch, "cpu")):
        kind = getattr(t, f"uint{bits}")
        x = t.tensor(values, dtype=kind, device=place)
        back = t.tensor(signed, dtype=t.int32, device=place).to(kind)
        found.append(
            (told(x.to(getattr(t, target))), told(back), told(x.view(getattr(t, f"int{bits}"))), repr(x.cpu()))
        )
    assert found[0] == found[1]


@pytest.mark.parametrize("bits", BITS)
def test_promotion_is_refused_with_other_integers(bits: int) -> None:
    for other in OTHERS:
        found = []
        for t in (webgpu_torch, torch):
            try:
                found.append(str(t.promote_types(getattr(t, f"uint{bits}"), getattr(t, other))))
            except RuntimeError as error:
                found.append(str(error))
        assert found[0] == found[1]


@pytest.mark.parametrize("bits", BITS)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_arrays_and_files(bits: int, data: st.DataObject) -> None:
    values = data.draw(numbers(bits))
    name = f"uint{bits}"
    x = webgpu_torch.from_numpy(np.array(values, name))
    assert (x.dtype, x.numpy().dtype.name, x.tolist()) == (getattr(webgpu_torch, name), name, values)
    assert webgpu_torch.from_dlpack(np.array(values, name)).tolist() == values
    for writer, reader in ((webgpu_torch, torch), (torch, webgpu_torch)):
        file = io.BytesIO()
        writer.save(writer.tensor(values, dtype=getattr(writer, name)), file)
        file.seek(0)
        assert told(reader.load(file)) == (f"torch.{name}", [len(values)], values)


@pytest.mark.parametrize("bits", BITS)
def test_what_does_not_fit_is_refused(bits: int) -> None:
    found = []
    for t in (webgpu_torch, torch):
        kind = getattr(t, f"uint{bits}")
        seen: list[Any] = [t.tensor([1], dtype=kind).type(), t.iinfo(kind).max]
        for value in (-1, 1 << bits):
            try:
                seen.append(t.tensor([value], dtype=kind).tolist())
            except (OverflowError, RuntimeError) as error:
                seen.append(type(error).__name__)
        with pytest.raises(IndexError, match="tensors used as indices"):
            t.arange(4)[t.tensor([1], dtype=kind)]
        t.manual_seed(bits)
        found.append((seen, t.randint(0, 60000, (20,), dtype=kind).tolist()))
    assert found[0] == found[1]
