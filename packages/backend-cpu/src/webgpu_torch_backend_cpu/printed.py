"""Printed kernels, for the next process: their source, its code and what it names, under a digest of the kernel and the printer."""

from __future__ import annotations

import hashlib
import marshal
import pickle
import sys
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
from webgpu_torch_core import ir
from webgpu_torch_core.ir.digests import digest, version_of

from .kept import files


class Printed(NamedTuple):
    """The source of a kernel's function, its code, and the constants that it names."""

    source: str
    code: CodeType
    constants: dict[str, Any]


def known(name: str) -> Printed | None:
    """Return what an earlier process printed of the kernel with a digest, None where none did."""
    file = _file(name)
    data = files.read(file) if file else None
    if data is None:
        return None
    source, code, constants = pickle.loads(data)
    return Printed(source, marshal.loads(code), constants)


def keep(name: str, printed: Printed) -> None:
    """Keep what was printed of the kernel with a digest for later processes."""
    file = _file(name)
    if file:
        files.write_later(
            lambda: (file, pickle.dumps((printed.source, marshal.dumps(printed.code), printed.constants)))
        )


def _file(name: str) -> str | None:
    version = _version()
    return f"{hashlib.sha256(f'{version} {name}'.encode()).hexdigest()}.kernel" if version else None


@lru_cache(maxsize=1)
def _version() -> str | None:
    """Return what tells this printer, NumPy and Python from others; None where the printer has no files to tell it by."""
    found = version_of((sys.modules[__package__ or ""], ir))
    return found and f"{np.__version__}\n{found}"


__all__ = ["Printed", "digest", "keep", "known"]
