"""The operations PyTorch keeps in ``torch.linalg``."""

from __future__ import annotations

from . import ops
from .ops.registry import functions

globals().update(functions("linalg"))
__all__ = sorted(functions("linalg"))
del ops
