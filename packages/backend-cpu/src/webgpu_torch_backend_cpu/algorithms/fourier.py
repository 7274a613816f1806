"""Fourier transforms along the last dimension, through NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any

FORWARD = -1


def fourier(a: Array, kind: str, sign: int, count: int) -> tuple[Array]:
    """Return the unscaled transform with ``exp(sign 2 pi i j k / count)`` of complex (C2C), real (R2C) or Hermitian numbers (C2R)."""
    if kind == "C2C":
        return (np.fft.fft(a) if sign == FORWARD else np.fft.ifft(a, norm="forward"),)
    if kind == "R2C":
        half = np.fft.rfft(a)
        return (half if sign == FORWARD else np.conjugate(half),)
    return (np.fft.irfft(np.conjugate(a) if sign == FORWARD else a, count, norm="forward"),)


ALGORITHMS = {"fourier": fourier}
