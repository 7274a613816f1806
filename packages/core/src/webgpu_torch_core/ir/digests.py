"""Names of kernels that mean the same in all processes, and what tells the code that makes something of them from another one."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from ..bounded import Bounded
from .dtypes import dtype
from .expression import Expression, topological
from .kernels import Kernel
from .records import Record

#: names of kernels
_known: Bounded[Kernel, str] = Bounded(8192)


def digest(kernel: Kernel) -> str:
    """Return a name that only equal kernels have, in all processes."""
    found = _known.get(kernel)
    if found is None:
        found = _known[kernel] = hashlib.sha256(_text(kernel).encode()).hexdigest()[:32]
    return found


def remember(names: Iterable[tuple[Kernel, str]]) -> None:
    """Take names of kernels from where an earlier process wrote them down."""
    for kernel, name in names:
        _known[kernel] = name


def version_of(packages: Iterable[ModuleType]) -> str | None:
    """Return what tells the files of packages, and Python, from others; None where a package has no files to tell it by."""
    found = [sys.version]
    try:
        for package in packages:
            count = len(found)
            for entry in sorted(os.scandir(Path(str(package.__file__)).parent), key=lambda each: each.name):
                if entry.name.endswith(".py"):
                    state = entry.stat()
                    found.append(f"{entry.name} {state.st_size} {state.st_mtime_ns}")
            if len(found) == count:
                return None
    except OSError:
        return None
    return "\n".join(found)


def _text(kernel: Kernel) -> str:
    """Return a kernel spelled out, each expression once."""
    lines: list[str] = []
    numbers: dict[Expression, int] = {}

    def spelled(value: object) -> str:
        if isinstance(value, Expression):
            for node in topological(value):
                if node not in numbers:
                    numbers[node] = len(numbers)
                    arguments = [numbers[each] for each in node.arguments]
                    lines.append(f"{node.step} {node.payload!r} {node.dtype.name} {arguments}")
            return f"e{numbers[value]}"
        if isinstance(value, Record):
            return f"{type(value).__name__}({', '.join(map(spelled, value.values()))})"
        if isinstance(value, tuple):
            return f"({', '.join(map(spelled, value))})"
        return value.name if isinstance(value, dtype) else repr(value)

    lines.append(spelled(kernel))
    return "\n".join(lines)


__all__ = ["digest", "remember", "version_of"]
