"""Modules with weights in integers, for numbers that are quantised when they come."""

from __future__ import annotations

from .linear import Linear

__all__ = ["Linear"]
