"""Window functions, as ``torch.signal.windows``."""

# The names are found in the registry when this is imported.
# pyright: reportUnsupportedDunderAll=false
from __future__ import annotations

from ... import operations as ops
from ...dispatch.registry import functions

globals().update(functions("signal.windows"))
__all__ = sorted(functions("signal.windows"))
del ops
