"""Printed kernels, for the next process: their source, its code and what it names, under a digest of the kernel and the printer."""

from __future__ import annotations

import hashlib
import marshal
import os
import pickle
import sys
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
from webgpu_torch_core import ir
from webgpu_torch_core.ir.dtypes import dtype
from webgpu_torch_core.ir.expression import Expression, topological
from webgpu_torch_core.ir.kernels import Kernel
from webgpu_torch_core.ir.records import Record

from . import kept


class Printed(NamedTuple):
    """The source of a kernel's function, its code, and the constants that it names."""

    source: str
    code: CodeType
    constants: dict[str, Any]


def digest(kernel: Kernel) -> str:
    """Return a name that only equal kernels have, in all processes."""
    return hashlib.sha256(_text(kernel).encode()).hexdigest()[:32]


def known(name: str) -> Printed | None:
    """Return what an earlier process printed of the kernel with a digest, None where none did."""
    file = _file(name)
    data = kept.read(file) if file else None
    if data is None:
        return None
    source, code, constants = pickle.loads(data)
    return Printed(source, marshal.loads(code), constants)


def keep(name: str, printed: Printed) -> None:
    """Keep what was printed of the kernel with a digest for later processes."""
    file = _file(name)
    if file:
        kept.write_later(file, pickle.dumps((printed.source, marshal.dumps(printed.code), printed.constants)))


def _file(name: str) -> str | None:
    version = _version()
    return f"{hashlib.sha256(f'{version} {name}'.encode()).hexdigest()}.kernel" if version else None


@lru_cache(maxsize=1)
def _version() -> str | None:
    """Return what tells this printer, NumPy and Python from others; None where the printer has no files to tell it by."""
    found = [sys.version, np.__version__]
    try:
        for package in (__file__, ir.__file__):
            for entry in sorted(os.scandir(Path(str(package)).parent), key=lambda each: each.name):
                if entry.name.endswith(".py"):
                    state = entry.stat()
                    found.append(f"{entry.name} {state.st_size} {state.st_mtime_ns}")
    except OSError:
        return None
    return "\n".join(found) if len(found) > 2 else None


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


__all__ = ["Printed", "digest", "keep", "known"]
