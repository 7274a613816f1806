"""WGSL for every kernel form."""

from __future__ import annotations

from collections.abc import Callable

from webgpu_torch_core.ir.kernels import Kernel

from ..program import Capabilities, Program
from .variants import VARIANTS, Variant, choose, oriented

__all__ = ["VARIANTS", "choose", "generate"]


def _emitted(kernel: Kernel, capabilities: Capabilities, variant: Variant, plan: object) -> Program:
    return variant.emit(kernel, capabilities, plan)


def generate(
    kernel: Kernel,
    capabilities: Capabilities,
    emitted: Callable[[Kernel, Capabilities, Variant, object], Program] = _emitted,
) -> Program:
    """Return the WGSL program of a kernel on an adapter with these capabilities; ``emitted`` returns that of a variant and a plan."""
    kernel = oriented(kernel)
    variant, plan = choose(kernel, capabilities)
    program = emitted(kernel, capabilities, variant, plan)
    return Program(program.passes, program.scratch, variant.cost(kernel, plan, capabilities.facts))
