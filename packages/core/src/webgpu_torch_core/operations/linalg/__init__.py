"""Linear algebra: decompositions by the CPU backend's LAPACK with gradients in tensor operations, and what is made of them."""

from __future__ import annotations

from . import eigenvalues, factorizations, least_squares, norms, powers, solving, triangular

__all__ = ["eigenvalues", "factorizations", "least_squares", "norms", "powers", "solving", "triangular"]
