"""The format of files before PyTorch 1.6 is read from PyTorch and written for it; damaged files are refused."""

from __future__ import annotations

import io
import pickle
import struct
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
    # PyTorch's files name storages by their addresses: they are not of one length.
    t = webgpu_torch
    whole = written(t, {"w": t.arange(5.0), "n": [t.ones(2, dtype=t.int16), "x"]})
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


def of_python_2(name: str, values: list[float], start: int) -> bytes:
    """Return a file as Python 2 wrote it: texts are bytes, and a storage is a part of another one."""

    def text(content: bytes) -> bytes:
        return b"U" + bytes([len(content)]) + content

    def vector(part: bytes) -> bytes:
        storage = b"(" + text(b"storage") + b"ctorch\nFloatStorage\n" + text(b"11") + text(b"cpu")
        storage += b"K" + bytes([len(values)]) + part + b"tQ"
        rest = b"K\x00K\x02\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR"
        return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + rest

    machine = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    head = b"".join(pickle.dumps(each, 2) for each in (0x1950A86A20F9469CFC6C, 1001, machine))
    part = b"(" + text(b"12") + b"K" + bytes([start]) + b"K\x02t"
    body = b"\x80\x02](" + text(name.encode()) + vector(b"N") + vector(part) + b"e."
    data = struct.pack(f"<q{len(values)}f", len(values), *values)
    return head + body + b"\x80\x02](" + text(b"11") + b"e." + data


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=40, deadline=None)
@given(
    st.text("aé", max_size=4),
    st.lists(st.integers(-9, 9).map(float), min_size=2, max_size=6),
    st.integers(0, 4),
    st.sampled_from(["utf-8", "bytes", "latin1"]),
    st.booleans(),
)
def test_files_of_python_2(name: str, values: list[float], start: int, encoding: str, weights_only: bool) -> None:
    data = of_python_2(name, values, min(start, len(values) - 2))
    options: dict[str, Any] = {"encoding": encoding, "weights_only": weights_only}
    assert told(webgpu_torch.load(io.BytesIO(data), **options)) == told(torch.load(io.BytesIO(data), **options))
