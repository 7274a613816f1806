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
#: where a page is told that the site brings a model, and what names the model's files
_MODEL, MODEL_FILES = "<!-- model -->", "files.json"


def build(folder: str | Path, documentation: str | Path | None = None, model: str | Path | None = None) -> Path:
    """Write the whole site into a folder and return it; what other files are there stays.

    Args:
        folder: where to.
        documentation: a folder of built documentation (``make docs``) that becomes a part of the site.
        model: the folder of a language model in Hugging Face's layout (``make demo`` trains one), which the playground lets
            write.

    Raises:
        FileNotFoundError: the model's folder has no config.json.
        MissingTool: Node.js or npm is not installed.
        RuntimeError: a package cannot be fetched, or the library does not start under Pyodide.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    named = "" if model is None else _copy_model(Path(model), target / "model")
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
            data = data.decode().replace(_PLACE, inserted).replace(_LINK, link).replace(_MODEL, named).encode()
        (target / each.name).write_bytes(data)
    return target


def _copy_model(source: Path, target: Path) -> str:
    """Copy a model's files, list them for pages, and return what tells a page of them."""
    if not (source / "config.json").is_file():
        raise FileNotFoundError(f"{source} has no config.json: it is no model's folder")
    target.mkdir(exist_ok=True)
    names = sorted(each.name for each in source.iterdir() if each.is_file())
    for name in names:
        shutil.copyfile(source / name, target / name)
    (target / MODEL_FILES).write_text(json.dumps(names), encoding="utf-8")
    return f'<meta name="model" content="./{target.name}/">'


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
