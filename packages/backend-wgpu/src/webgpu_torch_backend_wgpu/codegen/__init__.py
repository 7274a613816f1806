"""WGSL for every kernel form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from webgpu_torch_core.ir.kernels import Contraction, Pointwise, RowProgram, Scan, Scatter, Sort
from webgpu_torch_core.ir.layouts import number_of_elements

from ..program import Capabilities, Program
from .contraction_tile import choose_tile, generate_tile
from .contraction_vector import SKINNY, generate_vector
from .pointwise import generate_apart, generate_grouped, lanes_of, pays_apart
from .row_chunks import generate_chunks
from .row_programs import generate_rows
from .row_teams import Team
from .scan import generate_scan
from .scatter import generate_scatter
from .sort import generate_sort
from .transpose import generate_turned, turned_loads


def _pointwise(kernel: Pointwise, capabilities: Capabilities) -> Program:
    turned = turned_loads(kernel, capabilities)
    if turned is not None:
        return generate_turned(kernel, capabilities, *turned)
    lanes = lanes_of(kernel, capabilities.half)
    if lanes == 1 and pays_apart(kernel):
        return generate_apart(kernel, capabilities)
    return generate_grouped(kernel, capabilities, lanes)


def _rows(kernel: RowProgram, capabilities: Capabilities) -> Program:
    team = Team(kernel, capabilities)
    return (generate_chunks if team.chunks > 1 else generate_rows)(kernel, capabilities, team)


def _contraction(kernel: Contraction, capabilities: Capabilities) -> Program:
    m, n, k = (number_of_elements(each) for each in (kernel.m, kernel.n, kernel.k))
    if kernel.dtype.name == "float32" and min(m, n) <= SKINNY and k >= 16:
        return generate_vector(kernel, capabilities)
    return generate_tile(kernel, capabilities, choose_tile(kernel, capabilities))


_GENERATORS: dict[type, Callable[[Any, Capabilities], Program]] = {
    Pointwise: _pointwise, RowProgram: _rows, Contraction: _contraction, Scan: generate_scan,
    Sort: generate_sort, Scatter: generate_scatter,
}  # fmt: skip


def generate(kernel: Any, capabilities: Capabilities) -> Program:
    """Return the WGSL program of a kernel on an adapter with these capabilities."""
    return _GENERATORS[type(kernel)](kernel, capabilities)
