"""The installed distributions for Python in the browser: their files, and its memory with the library imported."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path

from .registry import PYODIDE, cache_folder, npm_package, tool

#: the distributions that pages use
DISTRIBUTIONS = (
    "pluggy",
    "webgpu-torch-core",
    "webgpu-torch-nn",
    "webgpu-torch-backend-wgpu",
    "webgpu-torch-models",
    "webgpu-torch",
    "webgpu-torch-tools",
    "webgpu-torch-drop-in",
    "webgpu-torch-web",
)
#: what pages do not need of them
_LEFT_OUT = (
    "site/static/", "/__pycache__/", "webgpu_torch_tools/fx/", "webgpu_torch_tools/direction_numbers.bin",
    "webgpu_torch_tools/private_names.xz",
)  # fmt: skip
_METADATA = ("METADATA", "entry_points.txt")
SNAPSHOT = Path(__file__).with_name("snapshot.mjs")
#: seconds for which memories of other states of the files are kept after their last use
KEPT = 3600


def _files(distribution: str) -> Iterator[tuple[str, bytes]]:
    """Yield the name and contents of an installed distribution's files, whether it was installed or is edited in place."""
    found = metadata.distribution(distribution)
    module = distribution.replace("-", "_")
    spec = util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"{distribution} is installed without its package '{module}'")
    folder = Path(spec.submodule_search_locations[0])
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        name = f"{module}/{path.relative_to(folder).as_posix()}"
        if not any(each in name for each in _LEFT_OUT):
            yield name, path.read_bytes()
    for name in _METADATA:
        text = found.read_text(name)
        if text is not None:
            yield f"{module}-{found.version}.dist-info/{name}", text.encode()


def source_archive() -> bytes:
    """Return all files of the library as ``tar.gz``, the same bytes for the same files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for distribution in DISTRIBUTIONS:
            for name, data in _files(distribution):
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(packed.getvalue(), mtime=0)


def started(target: Path) -> None:
    """Write Python's memory with the library imported (``python.gz``) and all its files (``library.tar.gz``).

    Starting in a page takes the memory up, which is done in a fraction of the time that importing takes.

    Raises:
        MissingTool: Node.js, which runs Python for this, is not installed.
        RuntimeError: the library does not start.
    """
    source = source_archive()
    digest = hashlib.sha256(source + SNAPSHOT.read_bytes() + PYODIDE[1].encode()).hexdigest()[:24]
    folder = cache_folder() / f"library-{digest}"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            given, made = Path(scratch, "source.tar.gz"), Path(scratch, "made")
            given.write_bytes(source)
            made.mkdir()
            command = [tool("node"), str(SNAPSHOT), str(npm_package(*PYODIDE)), str(given), str(made)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
            if done.returncode:
                raise RuntimeError(f"starting the library under Pyodide failed: {done.stderr.strip()[-1000:]}")
            for older in folder.parent.glob("library-*"):
                # Another process may be copying from what was used lately.
                if time.time() - older.stat().st_mtime > KEPT:
                    shutil.rmtree(older, ignore_errors=True)
            # Somebody else may have made it meanwhile.
            if not folder.is_dir():
                os.replace(made, folder)
    os.utime(folder)
    for each in folder.iterdir():
        shutil.copyfile(each, target / each.name)
