"""Row programs: a team of threads per row reduces, then stores, reading each element once where a row fits registers.

A team merges its threads' states through workgroup memory. Few long rows are cut into chunks: one pass per level of
dependent reductions leaves the chunks' states in scratch memory, the next one merges them (:mod:`.row_chunks`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from webgpu_torch_core.ir.expression import Expression
from webgpu_torch_core.ir.kernels import RowProgram, roots_of
from webgpu_torch_core.ir.layouts import number_of_elements

from ..program import Capabilities, Pass, Program
from .access import LANES, Buffers, evaluate
from .ir import Name, Node, choose, every, fixed, minimum, u32
from .module import LINEAR_GROUP, THREAD, Module, hidden, split_index
from .row_states import State, merge_team
from .row_teams import Team


def generate_rows(kernel: RowProgram, capabilities: Capabilities, team: Team) -> Program:
    """Return the program of a row program whose rows each belong to one workgroup."""
    writer = RowWriter(kernel, capabilities, team)
    writer.fill_cache()
    for number in range(len(kernel.reductions)):
        writer.finish_reduction(number, writer.reduce(number).result())
    row_values = writer.row_values()
    if kernel.stores and team.length:
        writer.store_elements()
        if kernel.row_stores:
            # Another thread's elements may still read what the row's stores overwrite.
            writer.body.barrier("storage")
    writer.store_rows(row_values)
    return Program((writer.finish(),), ())


class RowWriter:
    """Writes one pass of a row program; rows behind the last one repeat it without storing."""

    def __init__(self, kernel: RowProgram, capabilities: Capabilities, team: Team) -> None:
        self.kernel = kernel
        self.team = team
        self.module = module = Module(kernel, capabilities)
        module.single = number_of_elements(kernel.inner) == 1
        self.body = body = module.body
        self.buffers = Buffers(module, team.vector)
        self.reduced: list[Node] = [THREAD] * len(kernel.reductions)
        self.cache: dict[Expression, str] = {}
        across, along = (THREAD % team.rows, THREAD // team.rows), (THREAD // team.size, THREAD % team.size)
        local, part = across if team.interleaved else along
        self.local_row, self.part = body.let("local_row", local), body.let("part", part)
        group: Node = LINEAR_GROUP
        self.chunk: Node = fixed(0)
        if team.chunks > 1:
            group = body.let("group_row", LINEAR_GROUP // team.chunks)
            self.chunk = body.let("chunk", LINEAR_GROUP % team.chunks)
        wanted = body.let("wanted_row", group * team.rows + self.local_row)
        self.valid = body.let("valid", wanted < team.row_count)
        self.row = body.let("row", choose(self.valid, wanted, u32(team.row_count - 1)))
        self.outer = split_index(module, self.row, kernel.outer)

    @property
    def leads(self) -> Node:
        """Whether a thread is the first of its row."""
        return every(self.valid, self.part.equals(fixed(0)))

    def rounds(self) -> Iterator[tuple[list[Node], int | None]]:
        """Open a thread's rounds over its elements: yield the inner coordinates and, where rounds are written out one by
        one, the round's number; the caller writes the body between."""
        team, body = self.team, self.body
        if self.cache:
            # Written out, what a round keeps stays in registers; an array indexed by a loop may not.
            for number in range(team.rounds):
                with body.when(None):
                    at = body.let(self.module.fresh("e"), u32(number * team.size) + self.part)
                    partial = (number + 1) * team.size > team.steps
                    with body.when(at < team.steps if partial else None):
                        yield self._coordinates(at), number
            return
        first, stop = self._range()
        with body.loop(self.module.fresh("e"), first, lambda at: at < stop, team.size) as at:
            yield self._coordinates(at), None

    def _range(self) -> tuple[Node, Node]:
        """Return a thread's first step and where the steps of its team end."""
        team = self.team
        if team.chunks == 1:
            return self.part, u32(team.steps)
        return self.chunk * team.per_chunk + self.part, minimum((self.chunk + fixed(1)) * team.per_chunk, team.steps)

    def _fold_several(self, state: State, value: Expression) -> None:
        """Write the rounds that read several elements before they fold them, and those for what is left."""
        team, body = self.team, self.body
        first, stop = self._range()
        at = body.var(self.module.fresh("e"), first)
        for several in (team.several, 1):
            with body.advance(
                at, (at + u32((several - 1) * team.size) if several > 1 else at) < stop, several * team.size
            ):
                steps = [body.let(self.module.fresh("e"), at + u32(number * team.size)) for number in range(several)]
                inner = [self._coordinates(each) for each in steps]
                values = [self.values([value], each, None)[0][0] for each in inner]
                counted = state.monoid.uses_positions
                state.fold(values, [self._place(each, 0) if counted else self.row for each in inner])

    def _coordinates(self, at: Name) -> list[Node]:
        inner = self.kernel.inner
        if self.team.vector is None:
            return split_index(self.module, at, inner)
        coordinates = split_index(self.module, at, (*inner[:-1], inner[-1] // LANES))
        return [*coordinates[:-1], self.body.let(self.module.fresh("c"), coordinates[-1] * LANES)]

    def fill_cache(self) -> None:
        """Write the loads of everything that several stages use into registers."""
        if not self.team.cached:
            return
        self.cache = self._registers(self.team.cached)
        for inner, number in self.rounds():
            values = evaluate(self.buffers, list(self.cache), self.outer + inner, self.team.lanes)
            self._keep(self.cache, number, values)

    def _registers(self, nodes: Sequence[Expression]) -> dict[Expression, str]:
        """Declare the variables that keep values of a thread's elements; return their names, less round and lane."""
        names = {node: self.module.fresh("kept") for node in nodes}
        for node, name in names.items():
            scalar = self.module.type(node.dtype).scalar
            for number in range(self.team.rounds):
                for lane in range(self.team.lanes):
                    self.body.var(f"{name}_{number}_{lane}", None, scalar)
        return names

    def _keep(self, names: dict[Expression, str], number: int | None, values: Sequence[Sequence[Node]]) -> None:
        for lane, row in enumerate(values):
            for name, value in zip(names.values(), row, strict=True):
                self.body.set(Name(f"{name}_{number}_{lane}", value.type), value)

    def values(self, roots: list[Expression], inner: list[Node], number: int | None) -> list[list[Node]]:
        """Write the statements that compute expressions of elements; return their values as [lane][expression]."""

        def kept(node: Expression, lane: int) -> Node | None:
            name = self.cache.get(node)
            return Name(f"{name}_{number}_{lane}", self.module.type(node.dtype).scalar) if name else None

        computed = [node for node in self.cache if node.arguments]
        return evaluate(self.buffers, roots, self.outer + inner, self.team.lanes, self.reduced, kept, computed=computed)

    def reduce(self, number: int) -> State:
        """Write the rounds that fold a thread's elements and the merge of the team's; return the state."""
        reduction, team = self.kernel.reductions[number], self.team
        state = State(self.module, reduction, number)
        if team.several > 1:
            self._fold_several(state, reduction.value)
        elif team.length:
            kept = self._registers(team.shared[number] if team.shared else ())
            for inner, round_number in self.rounds():
                values = self.values([reduction.value, *kept], inner, round_number)
                self._keep(kept, round_number, [row[1:] for row in values])
                counted = state.monoid.uses_positions
                places = [self._place(inner, lane) if counted else self.row for lane in range(team.lanes)]
                state.fold([row[0] for row in values], places)
            self.cache |= kept
        else:
            state.assign(state.names, [hidden(name) for name in state.names])
        self.merge(state)
        return state

    def merge(self, state: State) -> None:
        """Write the merge of the states of a row's threads."""
        team = self.team
        merge_team(state, self.part, self.local_row, team.size, team.rows, team.interleaved)

    def _place(self, inner: list[Node], lane: int) -> Node:
        place = inner[0] if inner else u32(0)
        for coordinate, size in zip(inner[1:], self.kernel.inner[1:], strict=True):
            place = place * size + coordinate
        return place + fixed(lane) if lane else place

    def finish_reduction(self, number: int, value: Node) -> None:
        """Name the result of a reduction for the expressions that follow."""
        self.reduced[number] = self.body.let(f"r{number}", value)

    def row_values(self) -> list[Node]:
        """Write the statements that compute the row stores' values; return these."""
        return evaluate(Buffers(self.module), roots_of(self.kernel.row_stores), self.outer, 1, self.reduced)[0]

    def store_rows(self, values: list[Node]) -> None:
        """Write the row stores, done by the first thread of each row."""
        if not values:
            return
        with self.body.when(self.leads):
            Buffers(self.module).store_all(self.kernel.row_stores, [values], self.outer)

    def store_elements(self) -> None:
        """Write the loop that computes and stores a thread's elements."""
        with self.body.when(self.valid):
            for inner, number in self.rounds():
                values = self.values(roots_of(self.kernel.stores), inner, number)
                self.buffers.store_all(self.kernel.stores, values, self.outer + inner)

    def finish(self, suffix: str = "") -> Pass:
        """Return the pass."""
        team = self.team
        return self.module.finish(team.workgroup, -(-team.row_count // team.rows) * team.chunks, suffix)
