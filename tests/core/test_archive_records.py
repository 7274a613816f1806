"""Records of archives of ``torch.save``: either library reads what the other wrote."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch import serialization

NAMES = st.lists(
    st.text("abcd/", min_size=1, max_size=6).filter(lambda name: "//" not in f"/{name}/"), unique=True, max_size=4
)


@settings(max_examples=8, deadline=None)
@given(names=NAMES, contents=st.lists(st.binary(max_size=40), min_size=4, max_size=4))
def test_records_both_ways(names, contents, tmp_path_factory):
    records = dict(zip(names, contents, strict=False))
    path = str(tmp_path_factory.mktemp("records") / "some.zip")
    for writer in (serialization, torch.serialization):
        for target in (io.BytesIO(), path):
            with writer._open_zipfile_writer(target) as archive:
                for name, content in records.items():
                    archive.write_record(name, content, len(content))
            if target is not path:
                target.seek(0)
            with serialization._open_zipfile_reader(target) as archive:
                assert all(archive.has_record(name) for name in records)
                assert {name: archive.get_record(name) for name in records} == records
                offsets = {name: archive.get_record_offset(name) for name in records}
                with pytest.raises(RuntimeError, match="failed locating file none"):
                    archive.get_record("none")
            data = Path(path).read_bytes() if target is path else target.getvalue()
            assert all(data[offsets[name] :].startswith(content) for name, content in records.items())


def test_tensors_of_a_file():
    import webgpu_torch as ours

    file = io.BytesIO()
    ours.save({"x": ours.arange(4.0)}, file)
    file.seek(0)
    assert serialization._is_zipfile(file)
    assert file.tell() == 0
    with serialization._open_file_like(file, "rb") as opened, serialization._open_zipfile_reader(opened) as archive:
        assert archive.get_record("byteorder") == b"little"
        assert archive.get_record("data/0") == bytes(ours.arange(4.0).view(ours.uint8).tolist())
        start = archive.get_record_offset("data/0")
    assert file.getvalue()[start : start + 16] == bytes(ours.arange(4.0).view(ours.uint8).tolist())
    plain = io.BytesIO(b"none")
    assert not serialization._is_zipfile(plain)
    with pytest.raises(zipfile.BadZipFile):
        serialization._open_zipfile_reader(plain)
