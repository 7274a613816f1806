"""The build of OpenBLAS that NumPy's wheels bring along, LAPACK in it: what NumPy calls it for, and what it has no function for."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np


@lru_cache(maxsize=1)
def libraries() -> tuple[ctypes.CDLL, ...]:
    """Return the builds that were loaded with NumPy: none where its products are another library's."""
    home = Path(np.__file__).parent
    folders = (home.parent / "numpy.libs", home / ".dylibs")
    # They are loaded already: these are other handles of them.
    return tuple([ctypes.CDLL(str(path)) for folder in folders for path in sorted(folder.glob("*openblas*"))])


@lru_cache
def routine(name: str) -> Callable[..., None] | None:
    """Return a routine whose integers have 64 bits, by its name in BLAS, the C interface's or LAPACK, or None where there is none.

    Arrays are given by their addresses; all else as ctypes has it.
    """
    for library in libraries():
        for spelled in (f"scipy_{name}64_", f"scipy_{name}_64_"):
            found = getattr(library, spelled, None)
            if found is not None:
                found.restype = None
                return found
    return None


__all__ = ["libraries", "routine"]
