"""Fused modules whose weights are rounded as integers would be, for training with it."""

from __future__ import annotations

from .modules import *
from .modules import __all__ as __all__
