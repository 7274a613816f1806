"""Row programs: a team of threads per row reduces, then stores, reading each element once where a row fits registers.

A team merges its threads' states through workgroup memory. Few long rows are cut into chunks: one pass per level of
dependent reductions leaves the chunks' states in scratch memory, the next one merges them (:mod:`.row_chunks`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from webgpu_torch_core.ir.expression import Expression
from webgpu_torch_core.ir.kernels import RowProgram, Store
from webgpu_torch_core.ir.layouts import number_of_elements

from ..program import Capabilities, Program
from .access import LANES, Buffers
from .pointwise import lane_values
from .printer import LINEAR_GROUP, Module, split_index, spread_workgroups
from .row_states import State, merge_team
from .row_teams import Team


def generate_rows(kernel: RowProgram, capabilities: Capabilities) -> Program:
    """Return the program of a row program."""
    team = Team(kernel, capabilities)
    if team.chunks > 1:
        from .row_chunks import generate_chunks

        return generate_chunks(kernel, capabilities, team)
    writer = RowWriter(kernel, capabilities, team, kernel.row_stores + kernel.stores)
    writer.open_rows()
    writer.fill_cache()
    for number in range(len(kernel.reductions)):
        state = writer.reduce(number)
        merge_team(state, team.size, team.rows, team.interleaved)
        writer.finish_reduction(number, state.result())
    row_values = writer.row_values()
    if kernel.stores and team.length:
        writer.store_elements()
        if kernel.row_stores:
            # Another thread's elements may still read what the row's stores overwrite.
            writer.lines.append("storageBarrier();")
    writer.store_rows(row_values)
    groups = spread_workgroups(-(-team.row_count // team.rows), capabilities.workgroups_per_dimension)
    return Program((writer.module.finish((team.workgroup, 1, 1), groups),), ())


class RowWriter:
    """Writes one pass of a row program."""

    def __init__(self, kernel: RowProgram, capabilities: Capabilities, team: Team, stores: tuple[Store, ...]) -> None:
        self.kernel = kernel
        self.team = team
        self.module = Module(kernel, capabilities)
        self.module.single = number_of_elements(kernel.inner) == 1
        self.lines = self.module.lines
        self.buffers = Buffers(self.module, kernel, stores, team.vector)
        self.reduced: list[str] = [""] * len(kernel.reductions)
        self.outer: list[str] = []
        self.cache: dict[Expression, str] = {}
        for store in kernel.row_stores:
            key = ("output", store.output)
            self.buffers.wide.discard(key)
            if self.module.type(kernel.outputs[store.output].dtype).lanes > 1:
                self.buffers.atomic.add(key)

    def open_rows(self) -> None:
        """Write which row and which part of it a thread has; rows behind the last one repeat it without storing."""
        team, lines = self.team, self.lines
        if team.interleaved:
            lines += [f"let local_row = thread % {team.rows}u;", f"let part = thread / {team.rows}u;"]
        else:
            lines += [f"let local_row = thread / {team.size}u;", f"let part = thread % {team.size}u;"]
        group = LINEAR_GROUP
        if team.chunks > 1:
            lines += [f"let group_row = ({group}) / {team.chunks}u;", f"let chunk = ({group}) % {team.chunks}u;"]
            group = "group_row"
        lines.append(f"let wanted_row = ({group}) * {team.rows}u + local_row;")
        lines.append(f"let valid = wanted_row < {team.row_count}u;")
        lines.append(f"let row = select({team.row_count - 1}u, wanted_row, valid);")
        self.outer = split_index(lines, self.module, "row", self.kernel.outer) if self.kernel.outer else []

    def rounds(self) -> Iterator[tuple[list[str], int | None]]:
        """Open a thread's rounds over its elements: yield the inner coordinates and, where rounds are written out one by
        one, the round's number; the caller writes the body between."""
        team, lines = self.team, self.lines
        if team.chunks > 1:
            at = self.module.fresh("e")
            stop = f"min((chunk + 1u) * {team.per_chunk}u, {team.steps}u)"
            lines.append(f"for (var {at} = chunk * {team.per_chunk}u + part; {at} < {stop}; {at} += {team.size}u) {{")
            yield self._coordinates(at), None
            lines.append("}")
        elif self.cache:
            # Written out, what a round keeps stays in registers; an array indexed by a loop may not.
            for number in range(team.rounds):
                at = self.module.fresh("e")
                lines.append(f"{{ let {at} = {number * team.size}u + part;")
                partial = (number + 1) * team.size > team.steps
                lines.append(f"if ({at} < {team.steps}u) {{" if partial else "{")
                yield self._coordinates(at), number
                lines.append("} }")
        else:
            at = self.module.fresh("e")
            lines.append(f"for (var {at} = part; {at} < {team.steps}u; {at} += {team.size}u) {{")
            yield self._coordinates(at), None
            lines.append("}")

    def _coordinates(self, at: str) -> list[str]:
        inner = self.kernel.inner
        shape = inner if self.team.vector is None else (*inner[:-1], inner[-1] // LANES)
        coordinates = split_index(self.lines, self.module, at, shape) if shape else []
        if self.team.vector is not None:
            first = self.module.fresh("c")
            self.lines.append(f"let {first} = {coordinates[-1]} * {LANES}u;")
            coordinates = [*coordinates[:-1], first]
        return coordinates

    def fill_cache(self) -> None:
        """Write the loads of everything that several stages use into registers."""
        if not self.team.cached:
            return
        for node in self.team.cached:
            name = self.module.fresh("kept")
            scalar = self.module.type(node.dtype).scalar
            self.cache[node] = name
            for number in range(self.team.rounds):
                self.lines += [f"var {name}_{number}_{lane}: {scalar};" for lane in range(self.team.lanes)]
        for inner, number in self.rounds():
            values = lane_values(self.module, self.buffers, list(self.cache), self.outer + inner, self.team.lanes)
            for lane, row in enumerate(values):
                for name, value in zip(self.cache.values(), row, strict=True):
                    self.lines.append(f"{name}_{number}_{lane} = {value};")

    def values(self, roots: list[Expression], inner: list[str], number: int | None) -> list[list[str]]:
        """Write the statements that compute expressions of elements; return their names as [lane][expression]."""

        def kept(node: Expression, lane: int) -> str | None:
            name = self.cache.get(node)
            return name and f"{name}_{number}_{lane}"

        return lane_values(self.module, self.buffers, roots, self.outer + inner, self.team.lanes, self.reduced, kept)

    def reduce(self, number: int) -> State:
        """Write the rounds that fold a thread's elements; return the state."""
        reduction = self.kernel.reductions[number]
        state = State(self.module, reduction, number)
        state.declare()
        if self.team.length:
            for inner, round_number in self.rounds():
                values = self.values([reduction.value], inner, round_number)
                places = [
                    self._place(inner, lane) if state.monoid.uses_positions else "0u" for lane in range(self.team.lanes)
                ]
                state.fold([value for (value,) in values], places)
        return state

    def _place(self, inner: list[str], lane: int) -> str:
        text = inner[0] if inner else "0u"
        for coordinate, size in zip(inner[1:], self.kernel.inner[1:], strict=True):
            text = f"({text} * {size}u + {coordinate})"
        return f"({text} + {lane}u)" if lane else text

    def finish_reduction(self, number: int, text: str) -> None:
        """Name the result of a reduction for the expressions that follow."""
        self.lines.append(f"let r{number} = {text};")
        self.reduced[number] = f"r{number}"

    def row_values(self) -> list[str]:
        """Write the statements that compute the row stores' values; return their names."""
        vector, self.buffers.vector = self.buffers.vector, None
        roots = [store.value for store in self.kernel.row_stores]
        values = lane_values(self.module, self.buffers, roots, self.outer, 1, self.reduced)
        self.buffers.vector = vector
        return values[0]

    def store_rows(self, values: list[str]) -> None:
        """Write the row stores, done by the first thread of each row."""
        if not values:
            return
        self.lines.append("if (valid && part == 0u) {")
        vector, self.buffers.vector = self.buffers.vector, None
        for store, value in zip(self.kernel.row_stores, values, strict=True):
            self.buffers.store(store, [value], self.outer, self.lines)
        self.buffers.vector = vector
        self.lines.append("}")

    def store_elements(self) -> None:
        """Write the loop that computes and stores a thread's elements."""
        self.lines.append("if (valid) {")
        for inner, number in self.rounds():
            values: list[list[Any]] = self.values([store.value for store in self.kernel.stores], inner, number)
            for place, store in enumerate(self.kernel.stores):
                self.buffers.store(store, [lane[place] for lane in values], self.outer + inner, self.lines)
        self.lines.append("}")
