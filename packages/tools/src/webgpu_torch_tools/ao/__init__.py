"""Networks in integers, as ``torch.ao``: quantisation, and the modules that it makes."""

from __future__ import annotations

from . import nn as nn
from . import quantization as quantization

__all__ = ["nn", "quantization"]
