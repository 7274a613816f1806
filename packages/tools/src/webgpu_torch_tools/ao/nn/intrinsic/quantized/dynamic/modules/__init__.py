"""Fused modules for numbers that are quantised when they come."""

from __future__ import annotations

from .linear_relu import LinearReLU

__all__ = ["LinearReLU"]
