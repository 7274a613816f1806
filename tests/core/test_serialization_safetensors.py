"""Our safetensors files are the library's, byte for byte, and damaged files are refused."""

from __future__ import annotations

import json
import struct

import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from webgpu_torch_core.files import (
    HostStorage,
    HostTensor,
    SafetensorError,
    read_safetensors,
    read_sharded,
    read_sharded_index,
    write_safetensors,
)
from webgpu_torch_core.ir import dtypes

FIXED = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def raw(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def host(tensor):
    name = str(tensor.dtype).removeprefix("torch.")
    return HostTensor.from_bytes(dtypes.BY_NAME[name], tuple(tensor.shape), raw(tensor))


def examples():
    torch.manual_seed(0)
    result = {}
    for name in (
        "bool",
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "float8_e4m3fn",
        "float8_e5m2",
    ):
        for key, shape in (("b", (2, 3)), ("a", ()), ('é"\n', (0, 4))):
            result[f"{key}.{name}"] = (torch.randn(shape) * 10).to(getattr(torch, name))
    result["complex"] = torch.randn(3, dtype=torch.complex64)
    return result


def build(header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


@pytest.mark.parametrize("metadata", [None, {}, {"format": "pt"}, {"k": "é\x1f"}])
def test_written_bytes_equal_the_library(tmp_path, metadata):
    tensors = examples()
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {name: host(tensor) for name, tensor in tensors.items()}, metadata)
    assert path.read_bytes() == safetensors.torch.save(tensors, metadata)
    assert [each.name for each in tmp_path.iterdir()] == ["model.safetensors"]


def test_reads_what_the_library_wrote(tmp_path):
    tensors = examples()
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file(tensors, path, {"format": "pt"})
    read, metadata = read_safetensors(path)
    assert metadata == {"format": "pt"}
    assert set(read) == set(tensors)
    for name, tensor in tensors.items():
        assert read[name].shape == tuple(tensor.shape)
        assert repr(read[name].dtype) == str(tensor.dtype)
        assert bytes(read[name].storage.data) == raw(tensor)
    shapes, _ = read_safetensors(str(path), lambda tensor: tensor.shape)
    assert shapes["b.int8"] == (2, 3)


def test_strided_tensors_are_written_row_major(tmp_path):
    base = torch.arange(12, dtype=torch.int16)
    tensor = HostTensor(HostStorage(dtypes.int16, raw(base)), (3, 2), (1, 4), 2)
    write_safetensors(tmp_path / "x", {"x": tensor})
    assert torch.equal(safetensors.torch.load_file(tmp_path / "x")["x"], base.as_strided((3, 2), (1, 4), 2))


def test_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(SafetensorError, match="__metadata__"):
        write_safetensors(path, {"__metadata__": host(torch.zeros(1))})
    with pytest.raises(SafetensorError, match="strings"):
        write_safetensors(path, {}, {"a": 1})
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
BROKEN = {
    "too few for the 8 bytes": b"abc",
    "the file has 2 after it": struct.pack("<Q", 100) + b"{}",
    "more than 100000000": struct.pack("<Q", 2**63) + b"{}",
    "does not start with": build(b" {}"),
    "not valid JSON": build(b"{nope"),
    "'x' appears twice": build(b'{"x":1,"x":2}'),
    "'shape' appears twice": build(b'{"x":{"shape":1,"shape":2}}'),
    "'__metadata__' must map strings": build({"__metadata__": {"a": 1}}),
    "tensor 'x': expected the keys": build({"x": {"dtype": "F32"}}),
    "tensor 'x': dtype 'F8_E8M0'": build({"x": {"dtype": "F8_E8M0", "shape": [2], "data_offsets": [0, 2]}}, bytes(2)),
    "shape must be a list of sizes": build({"x": {**F32, "shape": [-2]}}, bytes(8)),
    "needs 12 bytes": build({"x": {**F32, "shape": [3]}}, bytes(8)),
    "within 4 bytes": build({"x": F32}, bytes(4)),
    "overlaps tensor 'x'": build({"x": F32, "y": {**F32, "data_offsets": [4, 12]}}, bytes(12)),
    "leaves a gap of 4 bytes": build({"x": F32, "y": {**F32, "data_offsets": [12, 20]}}, bytes(20)),
    "3 bytes at the end belong": build({"x": F32}, bytes(11)),
    "data_offsets": build({"x": {**F32, "data_offsets": [8, 0]}}, bytes(8)),
    "needs 36893488147419103232 bytes": build({"x": {**F32, "shape": [2**62] * 900}}, bytes(8)),
    "header is not valid": build(b'{"x":' + b"[" * 100000),
}


@pytest.mark.parametrize("message", BROKEN)
def test_broken_files(tmp_path, message):
    path = tmp_path / "broken.safetensors"
    path.write_bytes(BROKEN[message])
    with pytest.raises(SafetensorError) as caught:
        read_safetensors(path)
    assert message in str(caught.value)
    assert "broken.safetensors" in str(caught.value)


def test_missing_and_empty_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_safetensors(tmp_path / "nothing")
    (tmp_path / "empty").touch()
    with pytest.raises(SafetensorError, match="0 bytes"):
        read_safetensors(tmp_path / "empty")


@FIXED
@given(st.data())
def test_damaged_files_are_refused_or_read(tmp_path, data):
    blob = bytearray(safetensors.torch.save({"a": torch.ones(3), "b": torch.ones(2, 2, dtype=torch.int8)}, {"k": "v"}))
    for _ in range(data.draw(st.integers(1, 4))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    blob = blob[: data.draw(st.integers(0, len(blob)))] if data.draw(st.booleans()) else blob
    path = tmp_path / "x"
    path.write_bytes(blob)
    try:
        tensors, _ = read_safetensors(path)
    except SafetensorError as error:
        assert "x'" in str(error)
    else:
        for tensor in tensors.values():
            assert len(tensor.contiguous_bytes()) == tensor.nbytes


def test_sharded_index(tmp_path):
    safetensors.torch.save_file({"a": torch.ones(3)}, tmp_path / "one.safetensors")
    safetensors.torch.save_file({"b": torch.zeros(2)}, tmp_path / "two.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    weight_map = {"a": "one.safetensors", "b": "two.safetensors"}
    index.write_text(json.dumps({"metadata": {"total_size": 20}, "weight_map": weight_map}))
    paths, metadata = read_sharded_index(index)
    assert paths["b"] == str(tmp_path / "two.safetensors")
    assert metadata == {"total_size": 20}
    tensors, _ = read_sharded(index)
    assert bytes(tensors["a"].storage.data) == raw(torch.ones(3))
    for name in ("../one.safetensors", "/etc/passwd", "..", 3):
        index.write_text(json.dumps({"weight_map": {"a": name}}))
        with pytest.raises(SafetensorError, match="beside the index"):
            read_sharded_index(index)
    index.write_text(json.dumps({"weight_map": {"c": "one.safetensors"}}))
    with pytest.raises(SafetensorError, match="'c'"):
        read_sharded(index)
