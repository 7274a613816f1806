"""Algorithms that no kernel form expresses, over NumPy arrays: matrix decompositions and what follows from them,
Fourier transforms, searches."""

from __future__ import annotations

from . import fourier, linalg, searching, symmetric

ALGORITHMS = {**linalg.ALGORITHMS, **symmetric.ALGORITHMS, **fourier.ALGORITHMS, **searching.ALGORITHMS}
