"""The site's folder: our pages, Python for browsers, the library, and the editor, all served from one place."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from .library import started
from .registry import EDITOR, PYODIDE, npm_package

_RUNTIME = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
_STATIC = Path(__file__).with_name("static")
#: where a page's import map goes
_PLACE = "<!-- import map -->"
#: where the link to the documentation goes
_LINK = "<!-- documentation -->"


def build(folder: str | Path, documentation: str | Path | None = None) -> Path:
    """Write the whole site into a folder and return it; what other files are there stays.

    ``documentation``: a folder of built documentation (``make docs``) that becomes a part of the site.

    Raises:
        MissingTool: Node.js or npm is not installed.
        RuntimeError: a package cannot be fetched, or the library does not start under Pyodide.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    _copy_runtime(target / "pyodide")
    started(target)
    link = ""
    if documentation is not None:
        shutil.copytree(documentation, target / "docs", dirs_exist_ok=True)
        link = ' <a href="./docs/index.html">Documentation</a>'
    import_map = json.dumps({"imports": _copy_editor(target / "editor")})
    for each in _STATIC.iterdir():
        data = each.read_bytes()
        if each.name.endswith(".html"):
            inserted = f'<script type="importmap">{import_map}</script>'
            data = data.decode().replace(_PLACE, inserted).replace(_LINK, link).encode()
        (target / each.name).write_bytes(data)
    return target


def _copy_runtime(target: Path) -> None:
    target.mkdir(exist_ok=True)
    source = npm_package(*PYODIDE)
    for name in _RUNTIME:
        shutil.copyfile(source / name, target / name)


def _copy_editor(target: Path) -> dict[str, str]:
    """Copy the editor's modules and return where each package is, for an import map."""
    target.mkdir(exist_ok=True)
    places = {}
    for name, (version, main) in EDITOR.items():
        source = npm_package(name, version)
        file = f"{name.replace('/', '-').removeprefix('@')}.js"
        shutil.copyfile(source / main, target / file)
        licence = source / "LICENSE"
        shutil.copyfile(licence, target / f"{file}.LICENSE")
        places[name] = f"./editor/{file}"
    return places
