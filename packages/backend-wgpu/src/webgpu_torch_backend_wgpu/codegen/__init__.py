"""WGSL for every kernel form."""

from __future__ import annotations

from typing import Any

from ..program import Capabilities, Program
from .variants import VARIANTS, choose, oriented

__all__ = ["VARIANTS", "choose", "generate", "oriented"]


def generate(kernel: Any, capabilities: Capabilities) -> Program:
    """Return the WGSL program of a kernel on an adapter with these capabilities."""
    kernel = oriented(kernel)
    variant, plan = choose(kernel, capabilities)
    program = variant.emit(kernel, capabilities, plan)
    return Program(program.passes, program.scratch, variant.cost(kernel, plan, capabilities.facts))
