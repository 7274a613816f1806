"""Row programs over few long rows: several workgroups per row, with the states of chunks in scratch memory.

For each level of reductions that depend on one another: a pass that reduces chunks and a pass that merges them. Then,
where elements are stored, a pass for these, and one for the row stores.
"""

from __future__ import annotations

from webgpu_torch_core.ir.expression import topological
from webgpu_torch_core.ir.kernels import RowProgram

from ..program import Capabilities, Pass, Program
from .combining import decode, decode_state, encode, encode_state, words_of
from .printer import spread_workgroups
from .row_programs import RowWriter
from .row_states import State, merge_team
from .row_teams import Team


class Scratch:
    """Where states of chunks and finished reductions lie, in words of one scratch buffer."""

    def __init__(self, kernel: RowProgram, capabilities: Capabilities, team: Team) -> None:
        from .printer import Module

        module = Module(kernel, capabilities)
        self.states = [State(module, each, number) for number, each in enumerate(kernel.reductions)]
        self.scalars = [module.type(state.wanted[0]).scalar for state in self.states]
        self.partial: list[int] = []
        self.final: list[int] = []
        end = 0
        for state in self.states:
            self.partial.append(end)
            end += state.words * team.row_count * team.chunks
        for scalar in self.scalars:
            self.final.append(end)
            end += words_of(scalar) * team.row_count
        self.nbytes = end * 4


def generate_chunks(kernel: RowProgram, capabilities: Capabilities, team: Team) -> Program:
    """Return the passes of a row program whose rows are cut into ``team.chunks`` chunks."""
    scratch = Scratch(kernel, capabilities, team)
    levels = _levels(kernel)
    passes: list[Pass] = []
    for level in range(max(levels, default=-1) + 1):
        members = [number for number, each in enumerate(levels) if each == level]
        done = [number for number, each in enumerate(levels) if each < level]
        passes.append(_chunk_pass(kernel, capabilities, team, scratch, members, done))
        passes.append(_merge_pass(kernel, capabilities, team, scratch, members))
    everything = list(range(len(levels)))
    if kernel.stores:
        passes.append(_element_pass(kernel, capabilities, team, scratch, everything))
    if kernel.row_stores:
        passes.append(_row_pass(kernel, capabilities, scratch, everything))
    return Program(tuple(passes), (scratch.nbytes,))


def _levels(kernel: RowProgram) -> list[int]:
    """Return for each reduction how many others must be finished one after another before it."""
    levels: list[int] = []
    for each in kernel.reductions:
        needed = [levels[node.payload] + 1 for node in topological(each.value) if node.step == "reduced"]
        levels.append(max(needed, default=0))
    return levels


def _read_finals(writer: RowWriter, scratch: Scratch, numbers: list[int]) -> None:
    for number in numbers:
        name = writer.module.buffer("scratch", 0, "u32", True)
        scalar = scratch.scalars[number]
        words = words_of(scalar)
        at = [f"{name}[{scratch.final[number]}u + row * {words}u + {each}u]" for each in range(words)]
        writer.finish_reduction(number, decode(scalar, at))


def _write_words(writer: RowWriter, words: list[str], base: int, index: str) -> None:
    name = writer.module.buffer("scratch", 0, "u32", True)
    for each, word in enumerate(words):
        writer.lines.append(f"{name}[{base}u + ({index}) * {len(words)}u + {each}u] = {word};")


def _chunk_pass(
    kernel: RowProgram, capabilities: Capabilities, team: Team, scratch: Scratch, members: list[int], done: list[int]
) -> Pass:
    writer = RowWriter(kernel, capabilities, team, ())
    writer.open_rows()
    _read_finals(writer, scratch, done)
    for number in members:
        state = writer.reduce(number)
        merge_team(state, team.size, team.rows, team.interleaved)
        writer.lines.append("if (valid && part == 0u) {")
        words = encode_state(state.scalars, state.names)
        _write_words(writer, words, scratch.partial[number], f"row * {team.chunks}u + chunk")
        writer.lines.append("}")
    return writer.module.finish((team.workgroup, 1, 1), _groups(team, capabilities), " (chunks)")


def _groups(team: Team, capabilities: Capabilities) -> tuple[int, int, int]:
    return spread_workgroups(-(-team.row_count // team.rows) * team.chunks, capabilities.workgroups_per_dimension)


class _MergeTeam(Team):
    """A team of one workgroup per row, over chunks instead of elements."""

    def __init__(self, team: Team, capabilities: Capabilities) -> None:
        self.row_count = team.row_count
        self.size = self.workgroup = min(256, capabilities.invocations)
        self.rows = self.chunks = 1
        self.interleaved = False
        self.vector = None


def _merge_pass(
    kernel: RowProgram, capabilities: Capabilities, team: Team, scratch: Scratch, members: list[int]
) -> Pass:
    merging = _MergeTeam(team, capabilities)
    writer = RowWriter(kernel, capabilities, merging, ())
    writer.open_rows()
    lines = writer.lines
    name = writer.module.buffer("scratch", 0, "u32", True)
    for number in members:
        state = State(writer.module, kernel.reductions[number], number)
        state.declare()
        lines.append(f"for (var e = part; e < {team.chunks}u; e += {merging.size}u) {{")
        lines.append(f"let at = {scratch.partial[number]}u + (row * {team.chunks}u + e) * {state.words}u;")
        state.merge(decode_state(state.scalars, [f"{name}[at + {each}u]" for each in range(state.words)]))
        lines.append("}")
        merge_team(state, merging.size, 1, False)
        lines.append("if (valid && part == 0u) {")
        lines.append(f"let result = {state.result()};")
        _write_words(writer, encode(scratch.scalars[number], "result"), scratch.final[number], "row")
        lines.append("}")
    groups = spread_workgroups(team.row_count, capabilities.workgroups_per_dimension)
    return writer.module.finish((merging.workgroup, 1, 1), groups, " (merge)")


def _element_pass(
    kernel: RowProgram, capabilities: Capabilities, team: Team, scratch: Scratch, finished: list[int]
) -> Pass:
    writer = RowWriter(kernel, capabilities, team, kernel.stores)
    writer.open_rows()
    _read_finals(writer, scratch, finished)
    writer.store_elements()
    return writer.module.finish((team.workgroup, 1, 1), _groups(team, capabilities), " (elements)")


def _row_pass(kernel: RowProgram, capabilities: Capabilities, scratch: Scratch, finished: list[int]) -> Pass:
    team = Team(kernel.replace(inner=(), reductions=(), stores=()), capabilities)
    team.chunks = 1
    writer = RowWriter(kernel, capabilities, team, kernel.row_stores)
    writer.open_rows()
    _read_finals(writer, scratch, finished)
    writer.store_rows(writer.row_values())
    return writer.module.finish((team.workgroup, 1, 1), _groups(team, capabilities), " (rows)")
