"""How the threads of a dispatch share the rows of a row program."""

from __future__ import annotations

from itertools import chain

from webgpu_torch_core.ir.expression import Expression, topological
from webgpu_torch_core.ir.kernels import RowProgram, roots_of
from webgpu_torch_core.ir.layouts import number_of_elements

from ..program import Capabilities
from .access import LANES, aligned, stores_aligned
from .steps import step_length
from .types import element_type
from .wgsl import type_bytes
from .workgroup import shared_type

WORKGROUP = 256
#: elements of all loads together that one thread keeps in registers
REGISTERS = 64
#: rounds over a row beyond which few rows are split among workgroups
SPLIT_ROUNDS = 16
#: reads that a thread has under way at once
SEVERAL = 4
#: elements that a thread takes in one after the other, as far as a team may grow: a sum's error grows with them
CHAIN = 32
#: statements from which on a value of an element is kept rather than computed again
WORTH_KEEPING = 8


class Team:
    """A plan of work: ``size`` threads per row, ``rows`` rows per workgroup, ``chunks`` workgroups per row.

    ``interleaved`` puts neighbouring threads on neighbouring rows (where rows lie side by side in memory), otherwise on
    neighbouring elements. ``vector`` is the dimension read four elements at a time; ``steps`` counts a row's elements,
    or groups of four.
    """

    def __init__(self, kernel: RowProgram, capabilities: Capabilities) -> None:
        self.row_count = number_of_elements(kernel.outer)
        self.length = number_of_elements(kernel.inner)
        self.interleaved = _rows_side_by_side(kernel)
        self.vector = None if self.interleaved else _vector_dimension(kernel)
        self.lanes = 1 if self.vector is None else LANES
        self.steps = self.length // self.lanes
        self.cached = _cached_loads(kernel)
        self.full = capabilities.facts.threads
        limit = min(capabilities.invocations, 1024)
        while limit * _thread_bytes(kernel, capabilities) > capabilities.workgroup_bytes:
            limit //= 2
        software = capabilities.software
        self.size = self._interleaved_size() if self.interleaved else self._size(limit, software)
        # Where the host computes, a barrier makes it switch between all threads of a workgroup, one after the other.
        alone = software and self.size > 1 and not self.interleaved
        self.workgroup = self.size if alone else max(min(WORKGROUP, limit), self.size)
        self.rows = self.workgroup // self.size
        self.rounds = -(-self.steps // self.size)
        self.chunks = self._chunks()
        self.per_chunk = -(-self.steps // self.chunks)
        if not self.length or self.chunks > 1 or self.rounds * self.lanes * max(len(self.cached), 1) > REGISTERS:
            self.cached = ()
        #: by reduction what it computes of elements that later stages use, too
        self.shared = _shared_values(kernel, capabilities) if self.cached else ()
        if self.rounds * self.lanes * (len(self.cached) + sum(map(len, self.shared))) > REGISTERS:
            self.shared = ()
        #: elements that a thread has under way at once, where it reads them one by one
        self.several = SEVERAL if self.interleaved and not self.cached and self.rounds >= 2 * SEVERAL else 1

    def merging(self, capabilities: Capabilities) -> Team:
        """Return the team that merges the chunks of each of these rows: one workgroup per row."""
        team: Team = object.__new__(Team)
        team.row_count, team.length = self.row_count, self.chunks
        team.size = team.workgroup = min(WORKGROUP, capabilities.invocations)
        team.rows = team.chunks = team.lanes = team.several = 1
        team.interleaved, team.vector, team.cached, team.shared = False, None, (), ()
        return team

    def _size(self, limit: int, software: bool) -> int:
        size = 1
        rounds = min(CHAIN, REGISTERS // self.lanes) if software else 4 if self.vector is not None else 8
        while (
            size < limit
            and size < self.steps
            and (size * rounds < self.steps or size * self.row_count < self.full // 4)
        ):
            size *= 2
        # Threads beyond 256 per row share a workgroup's barriers: only rows too long for the registers of 256 need them.
        few = self.row_count * WORKGROUP < self.full
        while size > WORKGROUP and size * rounds // 2 >= self.steps and not few:
            size //= 2
        return size

    def _interleaved_size(self) -> int:
        size = 1
        while size < 32 and size * 8 < self.steps and (size * CHAIN < self.steps or size * self.row_count < self.full):
            size *= 2
        return size

    def _chunks(self) -> int:
        threads = self.row_count * self.size
        if self.rounds <= SPLIT_ROUNDS or threads >= self.full // 4:
            return 1
        return max(1, min(self.full // threads, self.rounds // 8, 1024))


def _thread_bytes(kernel: RowProgram, capabilities: Capabilities) -> float:
    """Return the bytes of workgroup memory that merging takes for each thread: its states, and a quarter for the second round."""
    kinds: set[tuple[int, str]] = set()
    for reduction in kernel.reductions:
        for part, kind in enumerate(reduction.monoid.states):
            kinds.add((part, shared_type(element_type(kind.name, capabilities).scalar)))
    return 1.25 * sum(type_bytes(kind) for _, kind in kinds)


def _rows_side_by_side(kernel: RowProgram) -> bool:
    """Return whether loads run along the outer dimensions rather than along the reduced ones."""
    depth = len(kernel.outer)
    if not depth or not kernel.inner:
        return False
    last = depth + len(kernel.inner) - 1
    strides = [
        node.payload[2] for node in _loads(kernel) if len(node.payload[2]) > last and any(node.payload[2][depth:])
    ]
    return any(each[depth - 1] == 1 for each in strides) and not any(each[last] == 1 for each in strides)


def _loads(kernel: RowProgram) -> list[Expression]:
    return [node for root in kernel.expressions() for node in topological(root) if node.step == "load"]


def _vector_dimension(kernel: RowProgram) -> int | None:
    if not kernel.inner or kernel.inner[-1] % LANES or 0 in kernel.inner:
        return None
    last = len(kernel.outer) + len(kernel.inner) - 1
    if not all(stores_aligned(each, last) for each in kernel.stores):
        return None
    return last if any(aligned(node.payload[1], node.payload[2], last) for node in _loads(kernel)) else None


def _cached_loads(kernel: RowProgram) -> tuple[Expression, ...]:
    """Return the loads over elements that more than one stage of the program uses."""
    depth = len(kernel.outer)
    stages = [[each.value] for each in kernel.reductions] + [roots_of(kernel.stores)]
    count: dict[Expression, int] = {}
    for roots in stages:
        for node in topological(*roots):
            if node.step == "load" and any(node.payload[2][depth:]):
                count[node] = count.get(node, 0) + 1
    return tuple(node for node, stage_count in count.items() if stage_count > 1)


def _shared_values(kernel: RowProgram, capabilities: Capabilities) -> tuple[tuple[Expression, ...], ...]:
    """Return by reduction the largest expressions of elements that it computes, that later stages use, too, and that are long."""
    stages = [[each.value] for each in kernel.reductions] + [roots_of(kernel.stores)]
    found: list[tuple[Expression, ...]] = []
    known: set[Expression] = set()
    for number, (root,) in enumerate(stages[:-1]):
        later = set(topological(*chain.from_iterable(stages[number + 1 :])))
        pending, mine = [root], list[Expression]()
        while pending:
            node = pending.pop()
            if node in later and node not in known and _is_long(node, len(kernel.outer), capabilities):
                mine.append(node)
                known.add(node)
            else:
                pending += node.arguments
        found.append(tuple(mine))
    return tuple(found)


def _is_long(root: Expression, depth: int, capabilities: Capabilities) -> bool:
    """Return whether an expression depends on elements and computing it takes many statements."""
    nodes = topological(root)
    if not any(each.step == "load" and any(each.payload[2][depth:]) for each in nodes):
        return False
    kinds = [(each.step, element_type(each.arguments[0].dtype.name, capabilities)) for each in nodes if each.arguments]
    return sum(step_length(step, kind.scalar) for step, kind in kinds) >= WORTH_KEEPING
