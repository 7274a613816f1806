"""Modules that are trained for dynamic quantisation."""

from __future__ import annotations

from .linear import Linear

__all__ = ["Linear"]
