"""The operations PyTorch keeps in ``torch.linalg``."""

# The names are found in the registry when this is imported.
# pyright: reportUnsupportedDunderAll=false
from __future__ import annotations

from typing import TYPE_CHECKING

from . import ops
from .ops.linear_algebra.common import LinAlgError as LinAlgError
from .ops.registry import functions

if TYPE_CHECKING:
    from .typed.linalg import *  # noqa: F403

globals().update(functions("linalg"))
__all__ = sorted([*functions("linalg"), "LinAlgError"])
del ops
