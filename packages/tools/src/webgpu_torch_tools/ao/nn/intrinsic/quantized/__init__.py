"""Fused modules in integers."""

from __future__ import annotations

from .modules import *
from .modules import __all__ as __all__
