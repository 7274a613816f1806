"""How many threads NumPy's products of matrices take: what OpenBLAS is told, which NumPy's wheels bring along."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache

from .openblas import libraries

#: the function that sets the number of threads, as builds of OpenBLAS spell it
_NAMES = ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads", "openblas_set_num_threads64_")


def use_threads(count: int) -> None:
    """Let products take so many threads from now on; other libraries than OpenBLAS decide for themselves."""
    for setter in _setters():
        setter(count)


@lru_cache(maxsize=1)
def _setters() -> tuple[Callable[[int], object], ...]:
    found: list[Callable[[int], object]] = []
    for library in libraries():
        found += [getattr(library, name) for name in _NAMES if hasattr(library, name)][:1]
    for setter in found:
        setter.argtypes, setter.restype = [ctypes.c_int], None  # type: ignore[attr-defined]
    return tuple(found)


__all__ = ["use_threads"]
