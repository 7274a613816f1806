"""Facts kept on disk, and compiling several programs at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from device_programs import (
    RELU,
    download,
    kernel,
    one_pass,
    plan,
    upload,
    use,
)
from webgpu_torch_backend_wgpu.disk_cache import ENTRY_LIMIT, DiskCache, cache_directory


def test_caches_differ_by_adapter_and_driver(tmp_path: Path) -> None:
    DiskCache("tuning", "a/b", "1", tmp_path).put("key", 1)
    assert DiskCache("tuning", "a/b", "1", tmp_path).get("key") == 1
    assert DiskCache("tuning", "a/b", "2", tmp_path).get("key") is None
    assert DiskCache("tuning", "a/c", "1", tmp_path).get("key") is None


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b"\xff\xfe\x00"])
def test_a_damaged_file_counts_as_empty_and_is_rewritten(tmp_path: Path, damage: bytes) -> None:
    cache = DiskCache("tuning", "a", "1", tmp_path)
    cache.put("old", 1)
    cache.path.write_bytes(damage)
    again = DiskCache("tuning", "a", "1", tmp_path)
    assert again.get("old") is None
    again.put("new", 2)
    assert json.loads(again.path.read_text()) == {"new": 2}
    assert [each.name for each in again.path.parent.iterdir()] == ["tuning.json"]


def test_the_file_is_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    cache = DiskCache("tuning", "a", "1", tmp_path)
    cache.put("first", 0)
    cache.path.write_text(json.dumps({str(number): number for number in range(ENTRY_LIMIT)}))
    cache.put("last", 1)
    kept = json.loads(cache.path.read_text())
    assert len(kept) == ENTRY_LIMIT
    assert kept["last"] == 1


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = DiskCache("tuning", "a", "1", tmp_path / "file")
    cache.put("key", 3)
    assert cache.get("key") == 3


def test_the_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBGPU_TORCH_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path


def test_two_processes_leave_a_whole_file(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from webgpu_torch_backend_wgpu.disk_cache import DiskCache\n"
        "cache = DiskCache('tuning', 'a', '1', Path(sys.argv[1]))\n"
        "for number in range(60): cache.put(sys.argv[2] + str(number), 'x' * 500)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name], env=environment) for name in ("a", "b")
    ]
    assert [each.wait() for each in processes] == [0, 0]
    path = DiskCache("tuning", "a", "1", tmp_path).path
    kept = json.loads(path.read_text())
    assert {"a59", "b59"} & set(kept)
    assert set(kept.values()) == {"x" * 500}
    assert [each.name for each in path.parent.iterdir()] == ["tuning.json"]


def test_programs_compile_in_parallel(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened.gpu, "pipelines_later", opened.gpu.pipelines)
    monkeypatch.setattr("webgpu_torch_backend_wgpu.gpu.header.COMPILERS", 4)
    kernels = [kernel(f"relu {size}", size) for size in range(1, 21)]
    # Programs that differ in numbers only would share a pipeline.
    use(
        opened,
        {each: one_pass(each.name, f"{RELU}// {'x' * number}", number) for number, each in enumerate(kernels, 1)},
    )
    made = plan([(each, (0,), (1,), ()) for each in kernels], 2)
    y = opened.allocate(80)
    opened.run(made, [upload(opened, [-1.0, 5.0] * 10), y], [])
    assert download(opened, y, 20) == [0.0, 5.0] * 10
    assert opened.statistics["programs"] == 20
    bad = [kernel(f"bad {size}", size) for size in range(4)]
    sources = [f"{RELU}// y", f"{RELU}// yy", f"{RELU}// yyy", "fn main("]
    use(opened, {each: one_pass(each.name, sources[number], 90 + number) for number, each in enumerate(bad)})
    with pytest.raises(RuntimeError, match="'bad 3'"):
        opened.compiler.compile(bad)
    assert download(opened, y, 1) == [0.0]


def test_a_card_has_work_while_programs_compile(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened.gpu, "pipelines_later", opened.gpu.pipelines)
    monkeypatch.setattr("webgpu_torch_backend_wgpu.gpu.header.COMPILERS", 4)
    monkeypatch.setattr("webgpu_torch_backend_wgpu.gpu.awake._PATIENCE", 0.0)
    monkeypatch.setattr("webgpu_torch_backend_wgpu.gpu.awake._WORKGROUPS", 1)
    compiled = opened.gpu._pipeline
    monkeypatch.setattr(opened.gpu, "_pipeline", lambda request: (time.sleep(0.05), compiled(request))[1])
    opened.gpu.lowers_clock = True
    add, bad = kernel("add", 4), kernel("bad", 4)
    use(opened, {add: one_pass("add", RELU, 4), bad: one_pass("bad", "fn main(", 4)})
    before, y = opened.gpu.submits, opened.allocate(16)
    opened.compiler.compile([add])
    assert opened.gpu.submits > before
    opened.run(plan([(add, (0,), (1,), ())], 2), [upload(opened, [-1.0, 5.0, -2.0, 3.0]), y], [])
    assert download(opened, y, 4) == [0.0, 5.0, 0.0, 3.0]
    with pytest.raises(RuntimeError, match="'bad'"):
        opened.compiler.compile([bad])
    assert download(opened, y, 4) == [0.0, 5.0, 0.0, 3.0]
