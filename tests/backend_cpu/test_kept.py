"""What one process printed or compiled is found by the next one, and only where it is right."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
from webgpu_torch_backend_cpu import compiler, printed
from webgpu_torch_backend_cpu.kept import files
from webgpu_torch_core.files import kept
from webgpu_torch_core.files.kept import KeptFiles
from webgpu_torch_core.ir.dtypes import float32, int32
from webgpu_torch_core.ir.expression import constant, load
from webgpu_torch_core.ir.kernels import Operand, Output, Pointwise, Store


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("WEBGPU_TORCH_CACHE", str(tmp_path))
    monkeypatch.setattr(files, "_waiting", [])
    monkeypatch.setattr(files, "_left", kept.MOST_WRITTEN)
    return tmp_path / "cpu"


def kernel(factor: float = 2.0, kind=float32) -> Pointwise:
    value = load(0, 0, (1,), kind) * constant(factor, kind)
    return Pointwise((Operand(kind, 3),), (Output(kind, 3, None),), (), "scaled", (3,), (Store(0, 0, (1,), value),))


def test_a_file_that_is_not_whole_does_not_count(folder: Path) -> None:
    files.write({"name.o": b"code"})
    assert files.read("name.o") == b"code"
    path = folder / "name.o"
    path.write_bytes(path.read_bytes()[:-1])
    assert files.read("name.o") is None


def test_no_folder_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WEBGPU_TORCH_CACHE", str(tmp_path / "file"))
    files.write({"name.o": b"code"})
    assert files.read("name.o") is None


def test_of_too_many_files_of_a_kind_the_oldest_go(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(kept, "MOST_FILES", 8)
    files.write({"other.kernel": b"code"})
    for number in range(9):
        files.write({f"{number}.o": b"code"})
        if number < 8:
            os.utime(folder / f"{number}.o", (number, number))
    assert sorted(each.name for each in folder.iterdir()) == [
        *(f"{number}.o" for number in range(2, 9)),
        "other.kernel",
    ]


def test_a_process_writes_so_many_files(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(kept, "MOST_WRITTEN", 2)
    own = KeptFiles("cpu")
    for number in range(4):
        own.write_later(lambda name=f"{number}.kernel": (name, b"code"))
    own.write_waiting()
    assert sorted(each.name for each in folder.iterdir()) == ["0.kernel", "1.kernel"]


@pytest.mark.parametrize("other", [kernel(3.0), kernel(-2.0), kernel(2, int32), kernel().replace(shape=(2,))])
def test_other_kernels_have_other_digests(other: Pointwise) -> None:
    assert printed.digest(kernel()) == printed.digest(kernel()) != printed.digest(other)


def test_numbers_that_are_equal_are_told_apart() -> None:
    assert printed.digest(kernel(0.0)) != printed.digest(kernel(-0.0))


def test_a_kernel_is_printed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    original = compiler._print
    monkeypatch.setattr(compiler, "_print", lambda kernel: asked.append(kernel) or original(kernel))
    first = compiler.compile_kernel(kernel())
    files.write_waiting()
    again = compiler.compile_kernel(kernel())
    compiler.compile_kernel(kernel(4.0))
    assert asked == [kernel(), kernel(4.0)]
    found = []
    for function in (first, again):
        with pytest.raises(IndexError) as raised:
            function([], [], [])
        found.append(traceback.extract_tb(raised.value.__traceback__)[-1].line)
        assert compiler.may_have_written(raised.value) is False
    assert found[0] == found[1] != ""


def test_another_printer_prints_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    name = printed.digest(kernel())
    compiler.compile_kernel(kernel())
    files.write_waiting()
    assert printed.known(name) is not None
    monkeypatch.setattr(printed, "_version", lambda: "another")
    assert printed.known(name) is None
    monkeypatch.setattr(printed, "_version", lambda: None)
    assert printed.known(name) is None


PROGRAM = """
import webgpu_torch_core as torch
from webgpu_torch_backend_cpu import compiler
count, original = [], compiler._print
compiler._print = lambda kernel: count.append(kernel) or original(kernel)
x = torch.arange(40.0, device="cpu").reshape(5, 8)
print((x.softmax(1).cumsum(0) + x.argmax()).sum().item(), x.sort(1).values.to(torch.bfloat16)[0, 0].item(), len(count))
"""


@pytest.mark.parametrize("jit", ["0", "wait"])
def test_the_next_process_prints_nothing(tmp_path: Path, jit: str) -> None:
    environment = {**os.environ, "WEBGPU_TORCH_CACHE": str(tmp_path), "WEBGPU_TORCH_CPU_JIT": jit}

    def run() -> list[str]:
        command = [sys.executable, "-c", PROGRAM]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()

    first, second = run(), run()
    assert first[:-1] == second[:-1] and int(first[-1]) > 0 and second[-1] == "0"
