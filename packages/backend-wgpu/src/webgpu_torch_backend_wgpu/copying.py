"""Copies from buffer to buffer within a plan: kernels where these are faster than what the driver does.

Drivers may hand a copy to an engine of its own that reaches a fraction of the memory's bandwidth, and a copy ends the pass that
dispatches share.
"""

from __future__ import annotations

from functools import lru_cache

from webgpu_torch_core.backend.interface import Copy, Step
from webgpu_torch_core.ir import expression as ir
from webgpu_torch_core.ir.dtypes import uint32
from webgpu_torch_core.ir.kernels import Operand, Output, Pointwise, Store

from .facts import Facts

#: bytes from which on a kernel is worth its pipeline, and by what share of the driver's time it must be faster
_LONG, _FASTER = 1 << 20, 0.8


def fastest(step: Step | Copy, facts: Facts) -> Step | Copy:
    """Return a step of a plan, a long copy as that of a kernel where that takes less time."""
    if not isinstance(step, Copy) or step.nbytes < _LONG or facts.copies >= facts.bandwidth * _FASTER:
        return step
    return Step(_copying(-(-step.nbytes // 4)), (step.source,), (step.target,), ())


@lru_cache(256)
def _copying(words: int) -> Pointwise:
    """Return the kernel that copies so many 32-bit words, the first of a buffer."""
    store = Store(0, 0, (1,), ir.load(0, 0, (1,), uint32))
    return Pointwise((Operand(uint32, words),), (Output(uint32, words, None),), (), "copy", (words,), (store,))
