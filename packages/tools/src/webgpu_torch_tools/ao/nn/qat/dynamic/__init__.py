"""Modules that are trained for dynamic quantisation."""

from __future__ import annotations

from .modules import Linear

__all__ = ["Linear"]
