"""Reductions of what a mask shows, as ``torch.masked``."""

# The names are found in the registry when this is imported.
# pyright: reportUnsupportedDunderAll=false
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import operations as ops
from ..dispatch.registry import functions

if TYPE_CHECKING:
    from .typed.masked import *  # noqa: F403

globals().update(functions("masked"))
__all__ = sorted(functions("masked"))
del ops
