"""Fourier transforms along the last dimension, through SciPy where it is installed, else through NumPy."""

from __future__ import annotations

import math
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np

Array = Any

FORWARD = -1
#: numbers from which on SciPy, which transforms several rows with one instruction, is worth importing
MANY = 1 << 14


@lru_cache(maxsize=1)
def _of_many() -> ModuleType:
    """Return what transforms many numbers: SciPy, where it is installed, is quicker."""
    return import_module("scipy.fft") if find_spec("scipy") else np.fft


def fourier(a: Array, kind: str, sign: int, count: int) -> tuple[Array]:
    """Return the unscaled transform with ``exp(sign 2 pi i j k / count)`` of complex (C2C), real (R2C) or Hermitian numbers (C2R)."""
    library = _of_many() if math.prod(a.shape[:-1]) * count >= MANY else np.fft
    if kind == "C2C":
        return (library.fft(a) if sign == FORWARD else library.ifft(a, norm="forward"),)
    if kind == "R2C":
        half = library.rfft(a)
        return (half if sign == FORWARD else np.conjugate(half),)
    return (library.irfft(np.conjugate(a) if sign == FORWARD else a, count, norm="forward"),)


ALGORITHMS = {"fourier": fourier}
