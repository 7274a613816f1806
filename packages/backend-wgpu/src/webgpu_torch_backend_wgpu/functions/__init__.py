"""WGSL helper functions that meet PyTorch's accuracy and its special cases, where WGSL's built-ins do not.

All floating-point functions take and return f32; f16 and bfloat16 values are widened first. They rely on neither a
fused multiply-add nor on ``x != x`` for NaN. Drivers may merge constants (``(a + c) - d`` becomes ``a + (c - d)``) and
reorder products, so no function depends on adding two constants one after the other or on the order of factors.
Subnormal arguments and results may be taken as zero by the adapter.

``prelude(names)`` gives the text of the functions a kernel uses.
"""

from __future__ import annotations

from webgpu_torch_backend_wgpu.functions import (
    conversion,
    emulated64,
    exponential,
    floating,
    integer,
    special,
    trigonometric,
)
from webgpu_torch_backend_wgpu.functions.table import FUNCTIONS, Function, define, polynomial, prelude

__all__ = [
    "FUNCTIONS", "Function", "conversion", "define", "emulated64", "exponential", "floating", "integer", "polynomial",
    "prelude", "special", "trigonometric",
]  # fmt: skip
