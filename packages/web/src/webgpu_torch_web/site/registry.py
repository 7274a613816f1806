"""Packages of the npm registry, fetched once into the cache folder by the npm client."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from webgpu_torch_core.config import cache_directory

#: Python for browsers
PYODIDE = ("pyodide", "314.0.7")
#: the editor and what it imports, as ES modules: package -> (version, file that imports name)
EDITOR = {
    "@codemirror/autocomplete": ("6.20.4", "dist/index.js"),
    "@codemirror/commands": ("6.11.1", "dist/index.js"),
    "@codemirror/lang-python": ("6.2.1", "dist/index.js"),
    "@codemirror/language": ("6.13.1", "dist/index.js"),
    "@codemirror/state": ("6.7.6", "dist/index.js"),
    "@codemirror/view": ("6.43.15", "dist/index.js"),
    "@codemirror/streamparser": ("6.0.0", "dist/index.js"),
    "@lezer/common": ("1.5.5", "dist/index.js"),
    "@lezer/highlight": ("1.2.5", "dist/index.js"),
    "@lezer/lr": ("1.4.12", "dist/index.js"),
    "@lezer/python": ("1.1.19", "dist/index.js"),
    "@marijn/find-cluster-break": ("1.0.4", "src/index.js"),
    "crelt": ("1.0.7", "index.js"),
    "style-mod": ("4.1.4", "src/style-mod.js"),
    "w3c-keyname": ("2.2.8", "index.js"),
}


class MissingTool(RuntimeError):
    """A program that building the site takes is not installed; the message says how to install it."""


def tool(name: str) -> str:
    """Return the path of a program.

    Raises:
        MissingTool: it is not installed.
    """
    found = shutil.which(name)
    if found is None:
        raise MissingTool(
            f"'{name}' was not found. Building the site takes Node.js and its package manager: on Debian and Ubuntu "
            "'apt-get install nodejs npm', elsewhere https://nodejs.org"
        )
    return found


def cache_folder() -> Path:
    """Return the folder of fetched and compiled files, made where it is missing."""
    folder = (cache_directory() or Path(tempfile.gettempdir()) / "webgpu-torch") / "web"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def npm_package(name: str, version: str) -> Path:
    """Return the folder of a package's files, fetched from the registry unless it was before.

    Raises:
        MissingTool: there is no npm client.
        RuntimeError: the registry does not give the package.
    """
    folder = cache_folder() / f"{name.replace('/', '-').removeprefix('@')}-{version}"
    if folder.is_dir():
        return folder
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        command = [tool("npm"), "pack", f"{name}@{version}", "--silent", "--pack-destination", scratch]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=600, check=False)
        packed = list(Path(scratch).glob("*.tgz"))
        if done.returncode or not packed:
            raise RuntimeError(f"npm did not give {name} {version}: {(done.stderr or done.stdout).strip()[-500:]}")
        with tarfile.open(packed[0]) as archive:
            archive.extractall(scratch, filter="data")
        # Somebody else may have fetched it meanwhile.
        if not folder.is_dir():
            os.replace(Path(scratch) / "package", folder)
    return folder
