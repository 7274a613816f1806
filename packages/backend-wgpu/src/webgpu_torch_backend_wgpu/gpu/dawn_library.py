"""Where a Dawn library is, and whether it computes: tried in a process of its own, as a library that does not fit can end one."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

from .. import config
from ..disk_cache import DiskCache
from .choosing import file_identity

_LIBRARIES = ("rillfacet/libwebgpu_dawn.so", "rillfacet/libwebgpu_dawn.dylib", "rillfacet/webgpu_dawn.dll")


def library() -> str | None:
    """Return the path of a Dawn library: ``DAWN_LIB``, or the one of an installed wheel."""
    given = config.DAWN_LIBRARY.text()
    if given:
        return given
    # The wheel's package itself is not imported: it loads what opens windows.
    found = (Path(folder) / name for folder in sys.path for name in _LIBRARIES)
    return next((str(each) for each in found if each.is_file()), None)


_TEST = """
from webgpu_torch_backend_wgpu.gpu.dawn import DawnRuntime
from webgpu_torch_backend_wgpu.numerics import evaluate
runtime = DawnRuntime()
for adapter in runtime.adapters(lambda each: True):
    gpu = runtime.open(adapter, sorted(adapter.features))
    assert evaluate(gpu, "a * 3u + 1u", [("u32", bytes(range(8)))], "u32", (), 2) != bytes(8)
    print(adapter.device)
"""


@functools.cache
def works() -> tuple[bool, str]:
    """Return whether the Dawn library computes, tried once in a process of its own, and what it said or lacks."""
    path = library()
    if path is None:
        return False, "no Dawn library: set DAWN_LIB, or install webgpu-torch-backend-wgpu[dawn]"
    cache = DiskCache("runtime", "dawn", "works")
    if cache.get(file_identity(path)) is True:
        return True, f"{path} computed before"
    try:
        done = subprocess.run([sys.executable, "-c", _TEST], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, f"the self-test of {path} did not end: {error}"
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or [f"it ended with status {done.returncode}"]
        return False, f"the self-test of {path} failed: {reason[0]}"
    if not done.stdout.strip():
        return False, f"{path} finds no adapter"
    cache.put(file_identity(path), True)
    return True, f"{path} computes"
