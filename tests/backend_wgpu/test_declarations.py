"""C declarations are parsed once, whatever becomes of what is kept of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from webgpu_torch_backend_wgpu.gpu import declarations
from webgpu_torch_backend_wgpu.gpu.declarations import interface

TEXT = "typedef struct { int a; double b[2]; } Pair; enum Colour { RED = 3, BLUE }; int abs(int);"


def check() -> None:
    ffi = interface(TEXT)
    pair = ffi.new("Pair *", {"a": 7, "b": [1.5, 2.5]})
    assert (pair.a, list(pair.b), ffi.sizeof("Pair")) == (7, [1.5, 2.5], 24)
    lib = ffi.dlopen(None)
    assert (lib.abs(-4), lib.RED, lib.BLUE) == (4, 3, 4)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEBGPU_TORCH_CACHE", str(tmp_path))
    return tmp_path


def test_parsed_once(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check()
    monkeypatch.setattr(declarations, "_parsed", lambda text: pytest.fail("parsed again"))
    check()


def test_what_cannot_be_kept_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WEBGPU_TORCH_CACHE", str(tmp_path / "file"))
    check()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_is_repaired(kept: Path, data: st.DataObject) -> None:
    check()
    (path,) = kept.rglob("declarations.json")
    whole = path.read_text()
    key, (literal, digest) = next(iter(json.loads(whole).items()))
    start = data.draw(st.integers(0, len(literal)))
    length = data.draw(st.integers(0, 40))
    literal = literal[:start] + data.draw(st.text(max_size=8)) + literal[start + length :]
    path.write_text(json.dumps({key: data.draw(st.sampled_from([[literal, digest], [5, digest], [], literal, None]))}))
    check()
    assert json.loads(path.read_text()) == json.loads(whole)
    path.unlink()


def test_a_second_process_parses_nothing() -> None:
    code = "import sys, webgpu_torch_backend_wgpu.gpu.native; print(sorted({'cffi', 'pycparser', 'wgpu'} & set(sys.modules)))"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_functions_outlive_what_opened_their_library() -> None:
    """At the interpreter's end cffi closes libraries before the last objects are released that their functions release."""
    code = """
import gc
from importlib.util import find_spec
from pathlib import Path
from webgpu_torch_backend_wgpu.gpu.declarations import interface, opened
(path,) = [each for each in (Path(find_spec("wgpu").origin).parent / "resources").iterdir() if each.suffix in (".so", ".dylib", ".dll")]
library = opened(interface("uint32_t wgpuGetVersion(void);"), str(path))
function = library.wgpuGetVersion
del library
gc.collect()
print(function() > 0)
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"
