"""Whether a product of few rows had better compute its left side itself than read what a kernel before it computed."""

from __future__ import annotations

from webgpu_torch_core.ir.expression import topological
from webgpu_torch_core.ir.kernels import Contraction, PreparedContraction
from webgpu_torch_core.ir.layouts import number_of_elements

from ..program import Capabilities
from .contraction_prepared import rows_find_place, workgroups_of
from .contraction_vector import SKINNY
from .module import WORKGROUP
from .packed_strips import packed_seconds, packed_strips
from .steps import length_of

#: steps of which rows are computed for each operation that units reach in a product
_STEPS = 0.1
#: most threads that sum one result, of which as many workgroups follow
_TEAM = 64


def preparing_pays(kernel: PreparedContraction, capabilities: Capabilities) -> bool:
    """Return whether a product should compute the rows of its left side rather than a kernel before.

    Every workgroup does, where that takes an adapter no longer than to start one more kernel; or a pass that cuts rows ahead. Where
    threads of the host take turns, rows are computed as often as there are workgroups, one after another.
    """
    m, n, k, batch = (number_of_elements(each) for each in (kernel.m, kernel.n, kernel.k, kernel.batch))
    if capabilities.software or kernel.dtype.name != "float32" or batch != 1:
        return False
    if k < WORKGROUP or not 0 < m <= min(n, SKINNY):
        return False
    facts = capabilities.facts
    strips = packed_strips(kernel, capabilities)
    apart = Contraction(**{name: getattr(kernel, name) for name in Contraction.fields})
    by_all = [each for each in strips if not each.ahead]
    # What reduces rows takes longer beside what cuts them than by itself.
    ahead = [packed_seconds(kernel, each, facts) for each in strips if each.ahead and not kernel.reductions]
    if ahead and min(ahead) < min(packed_seconds(apart, each, facts) for each in strips) + facts.dispatch:
        return True
    if not by_all and (strips or not rows_find_place(kernel, capabilities)):
        return False
    team, threads = _TEAM, min(WORKGROUP, capabilities.invocations)
    if by_all:
        best = min(by_all, key=lambda each: packed_seconds(apart, each, facts))
        team, threads = best.team, best.threads
    steps = length_of(topological(kernel.left, *(each.value for each in kernel.reductions)), capabilities)
    workgroups = workgroups_of(-(-n * team // threads), capabilities, threads)
    return workgroups * m * k * steps < facts.dispatch * facts.flops * _STEPS
