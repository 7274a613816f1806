"""Row programs over few long rows: several workgroups per row, with the states of chunks in scratch memory.

For each level of reductions that depend on one another: a pass that reduces chunks and a pass that merges them; the last one
makes the row stores, too. Where elements are stored, these have a pass of their own, and so have the row stores then.
"""

from __future__ import annotations

from webgpu_torch_core.ir.expression import topological
from webgpu_torch_core.ir.kernels import RowProgram

from ..program import Capabilities, Pass, Program
from .combining import Combining
from .module import Module
from .row_programs import RowWriter
from .row_states import State
from .row_teams import Team
from .workgroup import Partials


class Scratch:
    """Where states of chunks and finished reductions lie."""

    def __init__(self, kernel: RowProgram, capabilities: Capabilities, team: Team) -> None:
        module = Module(kernel, capabilities)
        states = [Combining(module, each.monoid) for each in kernel.reductions]
        partials = Partials()
        self.partial = [partials.records(team.row_count * team.chunks, *each.scalars) for each in states]
        self.final = [partials.records(team.row_count, module.type(each.wanted[0]).scalar) for each in states]
        self.nbytes = partials.nbytes


def generate_chunks(kernel: RowProgram, capabilities: Capabilities, team: Team) -> Program:
    """Return the passes of a row program whose rows are cut into ``team.chunks`` chunks."""
    scratch = Scratch(kernel, capabilities, team)
    levels = _levels(kernel)
    passes: list[Pass] = []
    for level in range(max(levels, default=-1) + 1):
        members = [number for number, each in enumerate(levels) if each == level]
        done = [number for number, each in enumerate(levels) if each < level]
        writer = _after(kernel, capabilities, team, scratch, done)
        for number in members:
            state = writer.reduce(number)
            with writer.body.when(writer.leads):
                scratch.partial[number].write(writer.module, writer.row * team.chunks + writer.chunk, state.names)
        last = level == max(levels) and not kernel.stores
        passes += [
            writer.finish(" (chunks)"),
            _merge_pass(kernel, capabilities, team, scratch, members, done if last else None),
        ]
    everything = list(range(len(levels)))
    if kernel.stores:
        writer = _after(kernel, capabilities, team, scratch, everything)
        writer.store_elements()
        passes.append(writer.finish(" (elements)"))
    if kernel.row_stores and (kernel.stores or not levels):
        rows = Team(kernel.replace(inner=(), reductions=(), stores=()), capabilities)
        writer = _after(kernel, capabilities, rows, scratch, everything)
        writer.store_rows(writer.row_values())
        passes.append(writer.finish(" (rows)"))
    return Program(tuple(passes), (scratch.nbytes,))


def _levels(kernel: RowProgram) -> list[int]:
    """Return for each reduction how many others must be finished one after another before it."""
    levels: list[int] = []
    for each in kernel.reductions:
        needed = [levels[node.payload] + 1 for node in topological(each.value) if node.step == "reduced"]
        levels.append(max(needed, default=0))
    return levels


def _after(
    kernel: RowProgram, capabilities: Capabilities, team: Team, scratch: Scratch, finished: list[int]
) -> RowWriter:
    """Open a pass that reads the results of finished reductions."""
    writer = RowWriter(kernel, capabilities, team)
    for number in finished:
        writer.finish_reduction(number, *scratch.final[number].read(writer.module, writer.row, True))
    return writer


def _merge_pass(
    kernel: RowProgram,
    capabilities: Capabilities,
    team: Team,
    scratch: Scratch,
    members: list[int],
    done: list[int] | None,
) -> Pass:
    """Merge the states of chunks, a workgroup per row; with the results ``done`` before, make the row stores."""
    writer = RowWriter(kernel, capabilities, team.merging(capabilities))
    module, body = writer.module, writer.body
    for number in done or ():
        writer.finish_reduction(number, *scratch.final[number].read(module, writer.row, True))
    for number in members:
        state = State(module, kernel.reductions[number], number)
        with body.loop("e", writer.part, lambda e: e < team.chunks, writer.team.size) as e:
            at = body.let("at", writer.row * team.chunks + e)
            state.merge(state.let("chunk", scratch.partial[number].read(module, at, True)))
        writer.merge(state)
        if done is not None:
            writer.finish_reduction(number, state.result())
            continue
        with body.when(writer.leads):
            scratch.final[number].write(module, writer.row, [body.let("result", state.result())])
    if done is not None:
        writer.store_rows(writer.row_values())
    return writer.finish(" (merge)")
