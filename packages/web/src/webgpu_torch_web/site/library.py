"""The installed distributions as one archive for Python in the browser, compiled by that very Python."""

from __future__ import annotations

import gzip
import hashlib
import io
import subprocess
import tarfile
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
    "webgpu-torch-web",
)
#: what pages do not need of them
_LEFT_OUT = ("site/static/", "/__pycache__/")
_METADATA = ("METADATA", "entry_points.txt")
COMPILER = Path(__file__).with_name("compile.mjs")


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


def compiled_archive() -> bytes:
    """Return all files of the library with compiled modules beside them: importing it takes a third of the time.

    Raises:
        MissingTool: Node.js, which runs the compiling, is not installed.
        RuntimeError: compiling failed.
    """
    source = source_archive()
    digest = hashlib.sha256(source + COMPILER.read_bytes() + PYODIDE[1].encode()).hexdigest()[:24]
    target = cache_folder() / f"library-{digest}.tar.gz"
    if not target.is_file():
        given = target.with_suffix(".source")
        given.write_bytes(source)
        command = [tool("node"), str(COMPILER), str(npm_package(*PYODIDE)), str(given), str(target)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        given.unlink()
        for older in set(target.parent.glob("library-*.tar.gz")) - {target}:
            older.unlink(missing_ok=True)
        if done.returncode:
            raise RuntimeError(f"compiling the library for the browser failed: {done.stderr.strip()[-1000:]}")
    return target.read_bytes()
