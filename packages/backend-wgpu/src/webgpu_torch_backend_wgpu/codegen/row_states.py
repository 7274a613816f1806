"""The state of one reduction: how values are folded in, and how states of several threads are merged."""

from __future__ import annotations

from collections.abc import Sequence

from webgpu_torch_core.ir.kernels import Reduction

from .combining import Combining, Numbers
from .ir import Array, Call, Node, choose, fixed
from .module import THREAD, Module

#: types of the values that threads of a subgroup exchange
_SHUFFLED = frozenset({"f32", "i32", "u32"})


class State(Combining):
    """A reduction's running state as variables, which start as the identity."""

    def __init__(self, module: Module, reduction: Reduction, number: int) -> None:
        super().__init__(module, reduction.monoid)
        self.source = reduction.value.dtype
        self.names = self.var(f"state{number}", self.identity())

    def fold(self, values: Sequence[Node], places: Sequence[Node]) -> None:
        """Write the statements that take in the next elements, in order."""
        states = [self.lift(value, self.source, place) for value, place in zip(values, places, strict=True)]
        if len(self.names) == 1:
            self.merge(self.tree(states))
            return
        for state in states:
            self.merge(state)

    def merge(self, state: Numbers) -> None:
        """Write the statements that take in another state."""
        self.assign(self.names, self.combine(self.names, state))

    def result(self) -> Node:
        """Return the finished reduction."""
        return self.results(self.names)[0]

    def merge_from(self, arrays: Sequence[Array], indices: Sequence[Node]) -> None:
        """Write the merge of states in workgroup memory, in the given order."""
        if len(self.names) == 1:
            self.assign(self.names, self.tree([self.get(arrays, each) for each in indices]))
            return
        self.assign(self.names, self.get(arrays, indices[0]))
        for each in indices[1:]:
            with self.body.when(None):
                self.merge(self.get(arrays, each))


def merge_workgroup(state: State, threads: int, subgroup: int, number: int) -> None:
    """Write the statements after which every thread of a workgroup holds the state of all: subgroups merge by themselves first.

    All threads reach them, once for each ``number``, which have memory of their own.
    """
    if subgroup < 2 or threads <= subgroup or not _SHUFFLED.issuperset(state.scalars):
        merge_team(state, THREAD, fixed(0), threads, 1, False)
        return
    body, fresh, distance = state.body, state.module.fresh, 1
    while distance < subgroup:
        own = state.let(fresh("own"), state.names)
        told = [Call("subgroupShuffleXor", (each, fixed(distance)), each.type) for each in own]
        other = state.let(fresh("other"), told)
        # Earlier ones come first in every thread, so that all find the same.
        later = body.let(fresh("later"), (THREAD & fixed(distance)).differs(fixed(0)))
        both = list(zip(own, other, strict=True))
        state.assign(
            state.names,
            state.combine(
                [choose(later, theirs, mine) for mine, theirs in both],
                [choose(later, mine, theirs) for mine, theirs in both],
            ),
        )
        distance *= 2
    arrays = state.arrays(f"nearby{number}", threads // subgroup)
    with body.when((THREAD % fixed(subgroup)).equals(fixed(0))):
        state.put(arrays, THREAD // fixed(subgroup), state.names)
    body.barrier()
    state.merge_from(arrays, [fixed(each) for each in range(threads // subgroup)])


def merge_team(state: State, part: Node, local_row: Node, team: int, rows: int, interleaved: bool) -> None:
    """Write the statements after which every thread of a team holds the team's merged state.

    Two rounds through workgroup memory with two barriers; each round merges in a fixed order. Interleaved teams have
    neighbouring threads on neighbouring rows.
    """
    if team == 1:
        return
    body = state.body
    width = 1
    while team > 16 and width * width < team:
        width *= 2
    first = state.arrays("first", team * rows)
    state.put(first, THREAD, state.names)
    body.barrier()

    def member(number: Node) -> Node:
        return number * rows + local_row if interleaved else local_row * team + number

    if width == 1:
        state.merge_from(first, [member(fixed(each)) for each in range(team)])
        body.barrier()
        return
    second = state.arrays("second", width * rows)
    with body.when(part < width):
        state.merge_from(first, [member(part + fixed(each) if each else part) for each in range(0, team, width)])
        state.put(second, local_row * width + part, state.names)
    body.barrier()
    state.merge_from(second, [local_row * width + fixed(each) for each in range(width)])
