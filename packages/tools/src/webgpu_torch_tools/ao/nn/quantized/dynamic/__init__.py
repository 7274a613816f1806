"""Modules with weights in integers, for numbers that are quantised when they come."""

from __future__ import annotations

from .modules import *
from .modules import __all__ as __all__
