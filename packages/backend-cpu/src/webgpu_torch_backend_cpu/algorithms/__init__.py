"""Algorithms that no kernel form expresses, over NumPy arrays: matrix decompositions and what follows from them."""

from __future__ import annotations

from . import linalg, symmetric

ALGORITHMS = {**linalg.ALGORITHMS, **symmetric.ALGORITHMS}
