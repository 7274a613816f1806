"""PyTorch's names as they are recorded: every module with its functions, classes, constants and what it borrows.

What programs can reach by PyTorch's public modules is recorded here; the rest of its private modules, which takes more bytes, in
webgpu-torch-tools, and is unknown where that is not installed.
"""

from __future__ import annotations

import functools
import json
import lzma
from importlib import util
from pathlib import Path
from typing import Any, TypeAlias

PUBLIC, PRIVATE = "names.xz", "private_names.xz"
TOOLS = "webgpu_torch_tools"
#: what is recorded of a module or a class
Content: TypeAlias = dict[str, Any]


def _archive(name: str) -> Path | None:
    """Return the path of one of the two files; None where it is not installed."""
    if name == PUBLIC:
        return Path(__file__).with_name(PUBLIC)
    spec = util.find_spec(TOOLS)
    path = None if spec is None or spec.origin is None else Path(spec.origin).with_name(PRIVATE)
    # The pages of this project have the tools without it.
    return path if path is not None and path.is_file() else None


@functools.cache
def _lines(archive: str) -> dict[str, str]:
    """Return the text of each part of a file by its name, and of ``about``: the version and the operations."""
    path = _archive(archive)
    lines = [] if path is None else lzma.decompress(path.read_bytes()).decode().splitlines()
    return dict(line.split(" ", 1) for line in lines)


@functools.cache
def _part(name: str, archive: str = PUBLIC) -> Content:
    return json.loads(_lines(archive).get(name, "{}"))


def parts() -> list[str]:
    """Return the modules right below ``torch``, ``torch`` itself among them."""
    names = {name for archive in (PUBLIC, PRIVATE) for name in _lines(archive)}
    return sorted(name for name in names if name.startswith("torch"))


def version() -> str:
    """Return the version of PyTorch whose names these are."""
    return _part("about")["version"]


@functools.cache
def operations(namespace: str) -> frozenset[str]:
    """Return the names of a namespace of ``torch.ops``."""
    return frozenset(_part("about")["operations"].get(namespace, "").split())


def modules() -> list[str]:
    """Return the paths of all recorded modules."""
    return [path for part in parts() for path in sorted({*_part(part), *_part(part, PRIVATE)})]


def _places(modules: dict[str, str]) -> dict[str, str]:
    """Return where each name is defined: names are recorded by module, ``name=other`` if it has another name there.

    Modules stand below an empty path.
    """
    found: dict[str, str] = {}
    for module, names in modules.items():
        for each in names.split():
            name, _, other = each.partition("=")
            found[name] = f"{module}:{other or name}" if module else other or name
    return dict(sorted(found.items()))


def _joined(first: Content, second: Content) -> Content:
    """Return a module's content of two files: both have texts of names, and mappings by name or by module."""
    joined = dict(first)
    for key, value in second.items():
        known = joined.get(key)
        if isinstance(known, str):
            joined[key] = f"{known} {value}"
        elif isinstance(known, dict):
            joined[key] = _joined(known, value)
        else:
            joined[key] = value
    return joined


class Record:
    """What PyTorch has in one module.

    Attributes:
        kinds: what each name is: ``f`` a function, ``c`` a class, ``m`` a module below, ``l`` a logger, ``o`` another object,
            ``=`` a constant, ``@`` something that is defined elsewhere.
        classes: what is known of each class: ``bases``; ``f``, ``p`` and ``c``, its functions, properties and classes;
            ``enum``, the members of an enumeration; ``fields``, those of a named tuple.
        constants, borrowed: values, and the places of what is defined elsewhere.
        public: module in which programs look for a definition that stands in a private one.
        listed: ``__all__``.
    """

    def __init__(self, content: Content) -> None:
        self.classes: dict[str, Content] = content.get("c", {})
        self.constants: dict[str, Any] = content.get("=", {})
        self.borrowed: dict[str, str] = _places(content.get("@", {}))
        self.public = {name: path for path, names in content.get("also", {}).items() for name in names.split()}
        self.listed: list[str] | None = content["all"].split() if "all" in content else None
        self.kinds = {name: kind for kind in "fmlo" for name in content.get(kind, "").split()}
        for kind, names in (("c", self.classes), ("=", self.constants), ("@", self.borrowed)):
            self.kinds |= dict.fromkeys(names, kind)


@functools.cache
def record(path: str) -> Record | None:
    """Return what PyTorch has in a module; None if it has no such module."""
    part = ".".join(path.split(".")[:2])
    found = [_part(part)[path]] if path in _part(part) else []
    # Only private modules are in the other file, which takes a while to read.
    if "._" in path and path in _part(part, PRIVATE):
        found.append(_part(part, PRIVATE)[path])
    return Record(functools.reduce(_joined, found)) if found else None
