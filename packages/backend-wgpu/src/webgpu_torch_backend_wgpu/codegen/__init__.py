"""WGSL for every kernel form."""

from __future__ import annotations

from typing import Any

from webgpu_torch_core.ir.kernels import Contraction, Pointwise, RowProgram, Scan, Scatter, Sort

from ..program import Capabilities, Program
from .contraction import generate_contraction
from .pointwise import generate_pointwise
from .row_programs import generate_rows
from .scan import generate_scan
from .scatter import generate_scatter
from .sort import generate_sort

_GENERATORS = {
    Pointwise: generate_pointwise, RowProgram: generate_rows, Contraction: generate_contraction, Scan: generate_scan,
    Sort: generate_sort, Scatter: generate_scatter,
}  # fmt: skip


def generate(kernel: Any, capabilities: Capabilities) -> Program:
    """Return the WGSL program of a kernel on an adapter with these capabilities."""
    return _GENERATORS[type(kernel)](kernel, capabilities)
