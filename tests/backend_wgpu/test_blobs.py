"""What Dawn compiled is found by the next process, whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from webgpu_torch_backend_wgpu.gpu.blobs import Blobs, files
from webgpu_torch_backend_wgpu.gpu.dawn_declarations import declarations
from webgpu_torch_backend_wgpu.gpu.declarations import interface
from webgpu_torch_backend_wgpu.gpu.reports import Reports

_BYTES = st.binary(min_size=1, max_size=60)


class Dawn:
    """Asks as Dawn does."""

    def __init__(self, identity: str = "library 1") -> None:
        self.ffi: Any = interface(declarations())
        self.blobs = Blobs(Reports(self.ffi), identity)
        kept: Any = self.blobs.descriptor(self.ffi.NULL)
        load = "size_t(*)(size_t, void const *, size_t, void *, void *, void *)"
        store = "void(*)(size_t, void const *, size_t, void const *, void *, void *)"
        self._load = self.ffi.cast(load, kept.load.callback)
        self._store = self.ffi.cast(store, kept.store.callback)

    def load(self, key: bytes) -> bytes | None:
        null = self.ffi.NULL
        size = self._load(len(key), self.ffi.from_buffer(key), 0, null, null, null)
        if not size:
            return None
        into = self.ffi.new("char[]", size)
        assert self._load(len(key), self.ffi.from_buffer(key), size, into, null, null) == size
        return bytes(self.ffi.buffer(into))

    def store(self, key: bytes, value: bytes) -> None:
        null = self.ffi.NULL
        self._store(len(key), self.ffi.from_buffer(key), len(value), self.ffi.from_buffer(value), null, null)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEBGPU_TORCH_CACHE", str(tmp_path))
    return tmp_path / "dawn"


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=st.dictionaries(_BYTES, _BYTES, max_size=6), other=_BYTES)
def test_what_was_stored_is_loaded(folder: Path, contents: dict[bytes, bytes], other: bytes) -> None:
    dawn = Dawn()
    for key, value in contents.items():
        dawn.store(key, value)
    files.write_waiting()
    for again in (dawn, Dawn()):
        for key, value in contents.items():
            assert again.load(key) == value
            assert again.load(key) == value
    for each in folder.glob("*.blob"):
        each.unlink()
    assert Dawn().load(other) is None


def test_another_library_finds_nothing_and_damage_is_noticed(folder: Path) -> None:
    Dawn().store(b"key", b"value")
    files.write_waiting()
    assert Dawn("library 2").load(b"key") is None
    (found,) = folder.glob("*.blob")
    whole = found.read_bytes()
    for damaged in (b"", whole[:-1], whole[:-1] + b"x", b"0" * 32 + whole[32:]):
        found.write_bytes(damaged)
        assert Dawn().load(b"key") is None


def test_nothing_is_kept_where_there_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = tmp_path / "file"
    nowhere.write_text("in the way")
    monkeypatch.setenv("WEBGPU_TORCH_CACHE", str(nowhere))
    dawn = Dawn()
    dawn.store(b"key", b"value")
    files.write_waiting()
    assert dawn.load(b"key") is None
