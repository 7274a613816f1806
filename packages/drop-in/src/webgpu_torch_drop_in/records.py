"""PyTorch's names as they are recorded: every module with its functions, classes, constants and what it borrows."""

from __future__ import annotations

import functools
import json
import lzma
from pathlib import Path
from typing import Any, TypeAlias

ARCHIVE = Path(__file__).with_name("names.xz")
#: what is recorded of a module or a class
Content: TypeAlias = dict[str, Any]


@functools.cache
def _lines() -> dict[str, str]:
    """Return the text of each part by its name, and of ``about``: the version and the operations."""
    lines = lzma.decompress(ARCHIVE.read_bytes()).decode().splitlines()
    return dict(line.split(" ", 1) for line in lines)


@functools.cache
def _part(name: str) -> Content:
    return json.loads(_lines().get(name, "{}"))


def parts() -> list[str]:
    """Return the modules right below ``torch``, ``torch`` itself among them."""
    return [name for name in _lines() if name.startswith("torch")]


def version() -> str:
    """Return the version of PyTorch whose names these are."""
    return _part("about")["version"]


@functools.cache
def operations(namespace: str) -> frozenset[str]:
    """Return the names of a namespace of ``torch.ops``."""
    return frozenset(_part("about")["operations"].get(namespace, "").split())


def modules() -> list[str]:
    """Return the paths of all recorded modules."""
    return [path for part in parts() for path in _part(part)]


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
    content = _part(".".join(path.split(".")[:2])).get(path)
    return None if content is None else Record(content)
