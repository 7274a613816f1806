"""The format of files before PyTorch 1.6 is read from PyTorch and written for it; damaged files are refused."""

from __future__ import annotations

import io
from collections import OrderedDict
from pickle import UnpicklingError
from typing import Any

import pytest
import torch
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st

TYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64")
PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4) | st.binary(max_size=4)
)
#: tensors are told by a type, a first element, whether they are transposed, and the memory that they share
TENSORS = st.tuples(st.just("tensor"), st.sampled_from(TYPES), st.integers(0, 3), st.booleans(), st.integers(0, 2))
OBJECTS = st.recursive(
    PLAIN | TENSORS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def made(t: Any, plan: Any, memory: dict[Any, Any]) -> Any:
    if isinstance(plan, tuple):
        _, kind, first, turned, which = plan
        whole = memory.setdefault((kind, which), t.arange(10).to(getattr(t, kind)))
        part = whole[first : first + 6].reshape(2, 3)
        return part.t() if turned else part
    if isinstance(plan, dict):
        return OrderedDict((name, made(t, each, memory)) for name, each in plan.items())
    return [made(t, each, memory) for each in plan] if isinstance(plan, list) else plan


def told(value: Any) -> Any:
    if isinstance(value, (torch.Tensor, webgpu_torch.Tensor)):
        return str(value.dtype), value.stride(), value.storage_offset(), value.tolist()
    if isinstance(value, dict):
        return [(name, told(each)) for name, each in value.items()]
    return [told(each) for each in value] if isinstance(value, list) else value


def written(t: Any, value: Any) -> bytes:
    file = io.BytesIO()
    t.save(value, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


@settings(max_examples=60, deadline=None)
@given(OBJECTS, st.binary(max_size=3), st.booleans(), st.sampled_from([(0, 1), (1, 0), (1, 1)]))
def test_objects_come_back(plan: Any, before: bytes, weights_only: bool, ways: tuple[int, int]) -> None:
    source, reader = ((torch, webgpu_torch)[each] for each in ways)
    value = made(source, plan, {})
    data = written(source, value)
    file = io.BytesIO(before + data + b"what follows")
    file.seek(len(before))
    assert told(reader.load(file, weights_only=weights_only)) == told(value)
    assert file.tell() == len(before) + len(data)


def test_memory_is_shared_as_it_was() -> None:
    whole = torch.arange(6.0)
    one, two = webgpu_torch.load(io.BytesIO(written(torch, [whole[:4], whole[2:]])))
    one[3] = 10
    assert two.tolist() == [2, 10, 4, 5]


def test_modules_come_back() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    found = webgpu_torch.load(io.BytesIO(written(torch, module)), weights_only=False)
    x = [[0.5, -2.0]]
    torch.testing.assert_close(
        torch.tensor(found(webgpu_torch.tensor(x)).tolist()), module(torch.tensor(x)).detach(), rtol=1e-5, atol=1e-6
    )


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_files_are_refused(data: st.DataObject) -> None:
    whole = written(torch, {"w": torch.arange(5.0), "n": [torch.ones(2, dtype=torch.int16), "x"]})
    length = data.draw(st.integers(17, len(whole) - 1))
    with pytest.raises(UnpicklingError):
        webgpu_torch.load(io.BytesIO(whole[:length]))
    # A changed byte may leave another file that is whole; nothing else is raised.
    place = data.draw(st.integers(17, len(whole) - 1))
    changed = whole[:place] + bytes([data.draw(st.integers(0, 255))]) + whole[place + 1 :]
    try:
        webgpu_torch.load(io.BytesIO(changed))
    except UnpicklingError:
        pass


def test_types_of_one_memory_are_refused() -> None:
    value = webgpu_torch.zeros(2, dtype=webgpu_torch.complex64)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        webgpu_torch.save([value, webgpu_torch.view_as_real(value)], io.BytesIO())
