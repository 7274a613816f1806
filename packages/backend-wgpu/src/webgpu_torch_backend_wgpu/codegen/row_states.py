"""The state of one reduction: how values are folded in, and how states of several threads are merged."""

from __future__ import annotations

from webgpu_torch_core.ir.kernels import Reduction

from .combining import Combining, assign, from_shared, shared_scalar, to_shared
from .printer import Module


class State(Combining):
    """A reduction's running state as WGSL variables."""

    def __init__(self, module: Module, reduction: Reduction, number: int) -> None:
        super().__init__(module, reduction.monoid)
        self.source = reduction.value.dtype
        self.names = [f"state{number}{f'_{part}' if part else ''}" for part in range(len(self.scalars))]

    def declare(self) -> None:
        """Write the variables' declarations."""
        for name, scalar, value in zip(self.names, self.scalars, self.identity(), strict=True):
            self.module.lines.append(f"var {name}: {scalar} = {value};")

    def fold(self, values: list[str], places: list[str]) -> None:
        """Write the statements that take in the next elements, in order."""
        lines = self.module.lines
        states = [self.lift(*each, lines) for each in zip(values, [self.source] * len(values), places, strict=True)]
        if len(self.names) > 1:
            for state in states:
                self.merge(state)
            return
        # Neighbours first: sums then grow in a tree, which keeps their rounding errors small.
        self.merge([self.tree([value for (value,) in states])])

    def tree(self, values: list[str]) -> str:
        """Return the combination of states of one number, neighbours first."""
        while len(values) > 1:
            values = [
                f"({self.combine(values[at : at + 1], values[at + 1 : at + 2], self.module.lines)[0]})"
                if at + 1 < len(values)
                else values[at]
                for at in range(0, len(values), 2)
            ]
        return values[0]

    def merge(self, state: list[str]) -> None:
        """Write the statements that take in another state."""
        lines = self.module.lines
        assign(self.names, self.combine(self.names, state, lines), self.module, lines)

    def result(self) -> str:
        """Return the text of the finished reduction."""
        return self.results(self.names, self.module.lines)[0]

    def share(self, name: str, size: int) -> list[str]:
        """Declare workgroup arrays of states once; return their names."""
        names = []
        for part, scalar in enumerate(map(shared_scalar, self.scalars)):
            plain = "".join(each for each in scalar if each.isalnum())
            names.append(f"{name}{f'_{part}' if part else ''}_{plain}")
            declaration = f"var<workgroup> {names[-1]}: array<{scalar}, {size}>;"
            if declaration not in self.module.shared:
                self.module.shared.append(declaration)
        return names

    def put(self, arrays: list[str], index: str) -> None:
        """Write the stores of the state into workgroup memory."""
        for array, scalar, name in zip(arrays, self.scalars, self.names, strict=True):
            self.module.lines.append(f"{array}[{index}] = {to_shared(scalar, name)};")

    def get(self, arrays: list[str], index: str) -> list[str]:
        """Return the texts of a state in workgroup memory."""
        pairs = zip(arrays, self.scalars, strict=True)
        return [from_shared(scalar, f"{array}[{index}]") for array, scalar in pairs]


def merge_team(state: State, team: int, rows: int, interleaved: bool) -> None:
    """Write the statements after which every thread of a team holds the team's merged state.

    Needs ``thread``, ``part`` and ``local_row``. Two rounds through workgroup memory with two barriers; each round
    merges in a fixed order. Interleaved teams have neighbouring threads on neighbouring rows.
    """
    if team == 1:
        return
    lines = state.module.lines
    width = 1
    while team > 16 and width * width < team:
        width *= 2
    first = state.share("first", team * rows)
    state.put(first, "thread")
    lines.append("workgroupBarrier();")

    def member(number: str) -> str:
        return f"({number}) * {rows}u + local_row" if interleaved else f"local_row * {team}u + {number}"

    if width == 1:
        _merge_from(state, first, [member(f"{each}u") for each in range(team)])
        lines.append("workgroupBarrier();")
        return
    second = state.share("second", width * rows)
    lines.append(f"if (part < {width}u) {{")
    _merge_from(state, first, [member(f"part + {each}u") for each in range(0, team, width)])
    state.put(second, f"local_row * {width}u + part")
    lines += ["}", "workgroupBarrier();"]
    _merge_from(state, second, [f"local_row * {width}u + {each}u" for each in range(width)])


def _merge_from(state: State, arrays: list[str], indices: list[str]) -> None:
    """Write the merge of stored states in the given order."""
    lines = state.module.lines
    lines += [f"{name} = {each};" for name, each in zip(state.names, state.get(arrays, indices[0]), strict=True)]
    if len(state.names) == 1:
        parts = [state.get(arrays, each)[0] for each in indices]
        lines.append(f"{state.names[0]} = {state.tree(parts)};")
        return
    for each in indices[1:]:
        lines.append("{")
        state.merge(state.get(arrays, each))
        lines.append("}")
