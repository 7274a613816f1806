"""The operations PyTorch keeps in ``torch.linalg``."""

# The names are found in the registry when this is imported.
# pyright: reportUnsupportedDunderAll=false
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import operations as ops
from ..dispatch.registry import functions
from ..operations.linalg.common import LinAlgError as LinAlgError

if TYPE_CHECKING:
    from .typed.linalg import *  # noqa: F403

globals().update(functions("linalg"))
__all__ = sorted([*functions("linalg"), "LinAlgError"])
del ops
