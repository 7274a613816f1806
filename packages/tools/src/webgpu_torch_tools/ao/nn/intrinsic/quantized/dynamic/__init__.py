"""Fused modules for numbers that are quantised when they come."""

from __future__ import annotations

from .modules import LinearReLU

__all__ = ["LinearReLU"]
