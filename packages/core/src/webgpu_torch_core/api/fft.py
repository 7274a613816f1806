"""Discrete Fourier transforms, as ``torch.fft``."""

# The names are found in the registry when this is imported.
# pyright: reportUnsupportedDunderAll=false
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import operations as ops
from ..dispatch.registry import functions

if TYPE_CHECKING:
    from .typed.fft import *  # noqa: F403

globals().update(functions("fft"))
__all__ = sorted(functions("fft"))
del ops
