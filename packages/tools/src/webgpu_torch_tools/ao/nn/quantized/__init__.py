"""Modules of quantised networks."""

from __future__ import annotations

from . import dynamic as dynamic
from . import functional as functional
from .modules import *
from .modules import __all__ as __all__
