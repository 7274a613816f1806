"""Contractions where one side has few rows: the other side is read once, coalesced, as in a matrix-vector product.

Where the large side is contiguous along k, teams of threads share the sum of one output; where it is contiguous along
its own rows, threads run along them and teams take turns over k. Sums meet in workgroup memory, always in one order.
"""

from __future__ import annotations

from webgpu_torch_core.kernels import Contraction, Record

from ..program import Capabilities, Program
from .access import LANES
from .contraction import Frame, Side
from .printer import LINEAR_GROUP, spread_workgroups

#: most rows of the small side
SKINNY = 8
WORKGROUP = 256
#: workgroups for each unit of an adapter that keep its memory busy
_ENOUGH = 2


class Strip(Record):
    """A variant: ``team`` threads sum one output (a power of two up to 64); ``splits`` workgroups share the sum over k."""

    __slots__ = fields = ("team", "splits")
    team: int
    splits: int


def generate_vector(kernel: Contraction, capabilities: Capabilities, strip: Strip | None = None) -> Program:
    """Return the program of a contraction with a side of at most ``SKINNY`` rows."""
    frame = Frame(kernel, capabilities)
    small, big = (frame.left, frame.right) if frame.m <= frame.n else (frame.right, frame.left)
    return _Generator(frame, capabilities, small, big, strip or choose_strip(frame, big, capabilities)).generate()


def choose_strip(frame: Frame, big: Side, capabilities: Capabilities) -> Strip:
    """Return teams large enough to fill an adapter, and split sums where even these do not."""
    enough = _ENOUGH * capabilities.facts.units
    if big.axis == "k":
        team = 8
        while team < 64 and team * big.lanes * 2 < frame.k and (
            team < 32 or big.rows * frame.batch * team < enough * WORKGROUP
        ):  # fmt: skip
            team *= 2
        return Strip(team, 1)
    team = 8
    while team < 32 and big.rows * frame.batch * team < enough * WORKGROUP * big.lanes and team * 16 < frame.k:
        team *= 2
    groups = -(-big.rows * team // (WORKGROUP * big.lanes)) * frame.batch
    splits = 1
    if groups * 2 <= enough // 2 and not capabilities.software:
        splits = max(1, min(-(-enough // groups), frame.k // (team * 8), 16))
    return Strip(team, splits)


class _Generator:
    def __init__(self, frame: Frame, capabilities: Capabilities, small: Side, big: Side, strip: Strip) -> None:
        self.frame = frame
        self.lines = frame.lines
        self.capabilities = capabilities
        self.small = small
        self.big = big
        self.strip = strip
        self.team = strip.team
        self.along_k = big.axis == "k"
        self.rows = small.rows
        self.width = WORKGROUP // strip.team
        #: elements of a sum held together: neighbouring outputs, unless the vectors run along k
        self.lanes = 1 if self.along_k else big.lanes
        self.columns = self.width * self.lanes
        #: how far along k one load reaches
        self.reach = big.lanes if self.along_k else 1

    def generate(self) -> Program:
        """Return the program."""
        frame, lines = self.frame, self.lines
        blocks = -(-self.big.rows // self.columns)
        total = blocks * frame.batch * self.strip.splits
        lines += [f"let linear = {LINEAR_GROUP};", f"if (linear >= {total}u) {{ return; }}"]
        lines += [f"let base = (linear % {blocks}u) * {self.columns}u;", f"let piece = linear / {blocks}u;"]
        lines += [f"let batch = piece / {self.strip.splits}u;", f"let split = piece % {self.strip.splits}u;"]
        if self.along_k:
            lines += [f"let part = thread % {self.team}u;", f"let local = thread / {self.team}u;"]
        else:
            lines += [f"let part = thread / {self.width}u;", f"let local = thread % {self.width}u;"]
        # Threads past the end repeat the last outputs, which nobody stores.
        lines.append(f"let column = min(base + local * {self.lanes}u, {self.big.rows - self.lanes}u);")
        batch = frame.batch_coordinates("batch")
        self.kind = "f32" if self.lanes == 1 else "vec4<f32>"
        lines += [f"var sum{row} = {self.kind}();" for row in range(self.rows)]
        self._loop(batch)
        most = SKINNY if self.lanes == 1 else LANES
        frame.module.shared.append(f"var<workgroup> partial: array<{self.kind}, {WORKGROUP * min(self.rows, most)}>;")
        for first in range(0, self.rows, most):
            count = min(most, self.rows - first)
            if first:
                lines.append("workgroupBarrier();")
            self._merge(first, count)
            self._store(batch, first, count)
        groups = spread_workgroups(total, self.capabilities.workgroups_per_dimension)
        suffix = " (parts)" if self.strip.splits > 1 else ""
        found = frame.module.finish((WORKGROUP, 1, 1), groups, suffix)
        if self.strip.splits == 1:
            return Program((found,), ())
        from .contraction_parts import part_bytes_of, sum_parts

        second = sum_parts(frame.kernel, self.capabilities, self.strip.splits)
        return Program((found, second), (part_bytes_of(frame, self.strip.splits),))

    def _loop(self, batch: list[str]) -> None:
        """Write the sum over k: several loads at a time while they last, then one at a time."""
        lines, k = self.lines, self.frame.k
        turn = self.team * self.reach
        share = -(-k // self.strip.splits)
        depth = -(-share // turn) * turn
        unroll = 4 if self.rows <= LANES else 2
        lines += [f"let first = split * {depth}u;", f"let last = min(first + {depth}u, {k}u);"]
        lines.append(f"var deep = first + part * {self.reach}u;")
        if depth >= turn * unroll:
            # In `deep + ... < last` the last of the loads is in range, so all of them are.
            lines.append(f"for (; deep + {turn * (unroll - 1)}u < last; deep += {turn * unroll}u) {{")
            self._accumulate(batch, [f"(deep + {each * turn}u)" for each in range(unroll)])
            lines.append("}")
        lines.append(f"for (; deep < last; deep += {turn}u) {{")
        self._accumulate(batch, ["deep"])
        lines.append("}")

    def _accumulate(self, batch: list[str], depths: list[str]) -> None:
        lines, frame = self.lines, self.frame
        load = frame.vector_of if self.big.lanes > 1 else frame.element
        for number, deep in enumerate(depths):
            lines.append(f"let deep{number} = {deep};")
            lines.append(f"let weights{number} = {load(self.big, batch, 'column', f'deep{number}', lines)};")
        for number in range(len(depths)):
            for row in range(self.rows):
                value = self._small(batch, row, f"deep{number}")
                if self.reach > 1:
                    lines.append(f"sum{row} += dot(weights{number}, {value});")
                else:
                    lines.append(f"sum{row} += weights{number} * {value};")

    def _small(self, batch: list[str], row: int, deep: str) -> str:
        """Return the small side's element, or its vector along k."""
        frame, lines = self.frame, self.lines
        if self.reach == 1:
            return frame.element(self.small, batch, f"{row}u", deep, lines)
        if self.small.lanes > 1 and self.small.axis == "k":
            return frame.vector_of(self.small, batch, f"{row}u", deep, lines)
        values = [frame.element(self.small, batch, f"{row}u", f"({deep} + {lane}u)", lines) for lane in range(LANES)]
        return f"vec4<f32>({', '.join(values)})"

    def _merge(self, first: int, count: int) -> None:
        """Write the sum of every team's parts into its first thread's place, four at a time."""
        lines = self.lines
        lines += [f"partial[thread + {each * WORKGROUP}u] = sum{first + each};" for each in range(count)]
        lines.append("workgroupBarrier();")
        stride = 1 if self.along_k else self.width
        team = self.team
        while team > 1:
            ways = 4 if team % 4 == 0 else 2
            team //= ways
            lines.append(f"if (part < {team}u) {{")
            for each in range(count):
                places = [f"partial[thread + {each * WORKGROUP + way * team * stride}u]" for way in range(ways)]
                lines.append(f"{places[0]} = {' + '.join(places)};")
            lines += ["}", "workgroupBarrier();"]

    def _total(self, row: str, column: str) -> str:
        """Return the text of a finished sum; ``row`` counts within the merged rows, ``column`` in the workgroup."""
        if self.along_k:
            return f"partial[{row} * {WORKGROUP}u + {column} * {self.team}u]"
        if self.lanes == 1:
            return f"partial[{row} * {WORKGROUP}u + {column}]"
        return f"partial[{row} * {WORKGROUP}u + {column} / 4u][{column} % 4u]"

    def _store(self, batch: list[str], first: int, count: int) -> None:
        """Write the stores of the merged rows, shared by all threads; four columns of the result at a time if possible."""
        frame, lines = self.frame, self.lines
        lanes = LANES if frame.vector is not None else 1
        wide = self.big.group == "n"
        across, down = (self.columns // lanes, count) if wide else (self.columns, count // lanes)
        lines.append(f"for (var out = thread; out < {across * down}u; out += {WORKGROUP}u) {{")
        lines.append(f"let across = (out % {across}u){f' * {lanes}u' if wide and lanes > 1 else ''};")
        lines.append(f"let down = (out / {across}u){f' * {lanes}u' if not wide and lanes > 1 else ''};")
        lines.append(f"if (base + across < {self.big.rows}u) {{")
        values = [
            self._total("down", f"(across + {lane}u)") if wide else self._total(f"(down + {lane}u)", "across")
            for lane in range(lanes)
        ]
        lines += [f"let total{lane} = {value};" for lane, value in enumerate(values)]
        lines += ["let big = base + across;", f"let small = {first}u + down;"]
        row, column = ("small", "big") if wide else ("big", "small")
        names = [f"total{lane}" for lane in range(lanes)]
        if self.strip.splits == 1:
            frame.epilogue(batch, row, column, names, lines)
        else:
            name = frame.module.buffer("scratch", 0, "f32", True)
            start = f"(split * {frame.batch}u + batch) * {frame.m * frame.n}u + {row} * {frame.n}u + {column}"
            lines += [f"{name}[{start} + {lane}u] = {each};" for lane, each in enumerate(names)]
        lines.append("} }")
