"""Contractions of few rows whose left side is computed first: by every workgroup, into its memory.

All threads of a workgroup read the rows together, reduce them, and leave each element that the product needs where all of them
find it. The large side is then read once, as in any contraction of few rows.
"""

from __future__ import annotations

from webgpu_torch_core.ir.expression import topological
from webgpu_torch_core.ir.kernels import PreparedContraction
from webgpu_torch_core.ir.layouts import number_of_elements

from ..program import Capabilities, Program
from .access import LANES
from .contraction import Frame, Side
from .contraction_vector import SKINNY, VectorGenerator, vector_seconds
from .ir import Node, fixed, u32, vector
from .module import THREAD, WORKGROUP
from .row_states import State, merge_team

#: bytes of workgroup memory that sums and reductions take besides the rows
_BESIDES = 1 << 13
#: most threads that sum one result, of which as many workgroups follow
_TEAM = 64


def generate_prepared(kernel: PreparedContraction, capabilities: Capabilities) -> Program:
    """Return the program of a contraction of few rows that computes these first."""
    return _Generator(Frame(kernel, capabilities), capabilities, None).generate()


def preparing_pays(kernel: PreparedContraction, capabilities: Capabilities) -> bool:
    """Return whether every workgroup should compute the rows of the left side rather than a kernel before.

    That takes an adapter no longer than to start one more kernel. Where threads of the host take turns, it is computed as often
    as there are workgroups, one after another.
    """
    m, n, k, batch = (number_of_elements(each) for each in (kernel.m, kernel.n, kernel.k, kernel.batch))
    if capabilities.software or kernel.dtype.name != "float32" or not 0 < m <= min(n, SKINNY) or k < WORKGROUP:
        return False
    if 4 * m * k + _BESIDES > capabilities.workgroup_bytes:
        return False
    roots = (kernel.left, *(each.value for each in kernel.reductions))
    steps = sum(1 for node in topological(*roots) if node.arguments or node.step == "load")
    computed = batch * -(-n * _TEAM // WORKGROUP) * m * k * steps
    return computed < capabilities.facts.dispatch * capabilities.facts.flops


class _Generator(VectorGenerator):
    """Stages the small side, and reads it from there."""

    def __init__(self, frame: Frame, capabilities: Capabilities, strip: None) -> None:
        super().__init__(frame, capabilities, strip)
        #: four neighbours lie together where products read them together
        self.grouped = frame.k % LANES == 0
        size = self.rows * frame.k
        self.staged = frame.module.array(
            "rows", "vec4<f32>" if self.grouped else "f32", size // LANES if self.grouped else size
        )

    def _before(self) -> None:
        for row in range(self.rows):
            self._prepare(row)
        self.body.barrier()

    def _prepare(self, row: int) -> None:
        """Write the reductions of a row, and the stores of its elements."""
        frame, body, kernel = self.frame, self.body, self.frame.kernel
        frame.reduced = []
        assert isinstance(kernel, PreparedContraction)
        for number, reduction in enumerate(kernel.reductions):
            state = State(frame.module, reduction, row * len(kernel.reductions) + number)
            side = Side(kernel, reduction.value, "m")
            with body.loop(frame.module.fresh("e"), THREAD, lambda at: at < self._steps, self.workgroup) as at:
                places = self._places(at)
                state.fold(self._values(side, row, places), places)
            merge_team(state, THREAD, fixed(0), self.workgroup, 1, False)
            frame.reduced.append(body.let(f"reduced{row}_{number}", state.result()))
        with body.loop(frame.module.fresh("e"), THREAD, lambda at: at < self._steps, self.workgroup) as at:
            values = self._values(self.small, row, self._places(at))
            start = at + u32(row * self._steps) if row else at
            body.set(self.staged[start], vector("f32", values))

    @property
    def _steps(self) -> int:
        """How many elements, or groups of them, a row has."""
        return self.frame.k // LANES if self.grouped else self.frame.k

    def _places(self, at: Node) -> list[Node]:
        """Return the places along k of an element or a group."""
        if not self.grouped:
            return [at]
        first = self.body.let(self.frame.module.fresh("k"), at * fixed(LANES))
        return [first + fixed(lane) if lane else first for lane in range(LANES)]

    def _values(self, side: Side, row: int, places: list[Node]) -> list[Node]:
        """Write what computes neighbours of a row and return them."""
        frame, at = self.frame, u32(row)
        if self.grouped and side.lanes == LANES and side.axis == "k":
            found = self.body.let(frame.module.fresh("w"), frame.vector_of(side, self.coordinates, at, places[0]))
            return [found.lane(lane) for lane in range(LANES)]
        return [frame.element(side, self.coordinates, at, each) for each in places]

    def _small(self, row: int, deep: Node) -> Node:
        at = deep + u32(row * self.frame.k) if row else deep
        if not self.grouped:
            return self.staged[at]
        four = self.staged[at // fixed(LANES)]
        return four if self.reach > 1 else four[at % fixed(LANES)]


__all__ = ["generate_prepared", "preparing_pays", "vector_seconds"]
