"""Storages in files: types that contradict each other, devices that are not there, files that read into memory, bytes."""

from __future__ import annotations

import io

import pytest
import torch as oracle
import webgpu_torch as torch
from hypothesis import given, settings
from hypothesis import strategies as st

TYPES = ("float32", "float64", "float16", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64")


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@given(kind=st.sampled_from(TYPES), other=st.sampled_from(TYPES), size=st.sampled_from((0, 8, 16)), sized=st.booleans())
@settings(max_examples=20, deadline=None)
def test_as_pytorch_does(kind, other, size, sized):
    written, outcomes = [], []
    for framework in (torch, oracle):
        values = framework.arange(size).to(getattr(framework, kind))
        file = io.BytesIO()
        values.untyped_storage()._write_file(file, False, sized, values.element_size())
        written.append(file.getvalue())
        for make in (
            lambda: framework.tensor(values.storage(), dtype=getattr(framework, other)).tolist(),
            lambda: (
                framework.save([values, values.view(getattr(framework, other))], io.BytesIO())
                if size % 8 == 0
                else None
            ),
            lambda: framework.save(
                [
                    values,
                    framework.TypedStorage(wrap_storage=values.untyped_storage(), dtype=getattr(framework, other)),
                ],
                io.BytesIO(),
            ),
        ):
            try:
                outcomes.append(make())
            except RuntimeError as error:
                outcomes.append(str(error)[:40])
    assert written[0] == written[1]
    assert outcomes[:3] == outcomes[3:]


class Reader(io.BytesIO):
    """Counts what it is asked for, and hands out little at a time."""

    whole = 0

    def read(self, size=-1):
        self.whole += 1
        return super().read(size)

    def readinto(self, buffer):
        return super().readinto(memoryview(buffer)[:100])


def test_files_are_read_into_memory():
    file = io.BytesIO()
    torch.save(torch.arange(200.0), file)
    reader = Reader(file.getvalue())
    assert torch.load(reader).tolist() == list(range(200)) and not reader.whole


def test_devices_that_are_not_there():
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    data = file.getvalue()
    # The name of a device, as PyTorch writes it on one of CUDA.
    older = io.BytesIO()
    torch.save(torch.ones(2), older, _use_new_zipfile_serialization=False)
    moved = older.getvalue().replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0")
    assert moved != older.getvalue() and torch.load(io.BytesIO(data)).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        torch.load(io.BytesIO(moved))
    assert torch.load(io.BytesIO(moved), map_location="cpu").tolist() == [1, 1]
