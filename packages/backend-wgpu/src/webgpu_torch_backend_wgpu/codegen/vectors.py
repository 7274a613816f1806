"""Contractions where one side has few rows: the other side is read once, coalesced, as in a matrix-vector product."""

from __future__ import annotations

from webgpu_torch_core.kernels import Contraction
from webgpu_torch_core.layouts import number_of_elements

from ..program import Capabilities, Program
from .access import LANES
from .contraction import Frame, Side
from .printer import LINEAR_GROUP, linear_index, spread_workgroups

#: most rows of the small side
SKINNY = 8
WORKGROUP = 256


def generate_vectors(kernel: Contraction, capabilities: Capabilities) -> Program:
    """Return the program of a contraction with a side of at most ``SKINNY`` rows."""
    frame = Frame(kernel, capabilities)
    small, big = (frame.left, frame.right) if frame.m <= frame.n else (frame.right, frame.left)
    columns = frame.n if big.group == "n" else frame.m
    along_k = big.along_k or not big.sizes
    if along_k:
        teams, lanes = _team_along_k(frame, big)
    else:
        teams, lanes = _team_along_rows(frame, big, columns)
    return _Generator(frame, capabilities, small, big, columns, along_k, teams, lanes).generate()


def _team_along_k(frame: Frame, big: Side) -> tuple[int, int]:
    """Return (threads summing one output, elements per load) where k is contiguous."""
    lanes = LANES if big.vector_along(big.first_k, frame.k) else 1
    team = 8
    while team < WORKGROUP and team * lanes * 4 < frame.k:
        team *= 2
    return min(team, 64), lanes


def _team_along_rows(frame: Frame, big: Side, columns: int) -> tuple[int, int]:
    """Return (parts of k summed apart, outputs per thread) where the outputs are contiguous."""
    lanes = LANES if big.vector_along(big.first, columns) else 1
    parts = 8
    # Narrow matrices need more parts to give every processor something to do.
    while parts < 64 and -(-columns // (WORKGROUP // parts * lanes)) * frame.batch < 256 and parts * 16 < frame.k:
        parts *= 2
    return parts, lanes


class _Generator:
    def __init__(
        self,
        frame: Frame,
        capabilities: Capabilities,
        small: Side,
        big: Side,
        columns: int,
        along_k: bool,
        team: int,
        lanes: int,
    ) -> None:
        self.frame = frame
        self.capabilities = capabilities
        self.small = small
        self.big = big
        self.columns = columns
        self.along_k = along_k
        self.team = team
        self.lanes = lanes
        self.rows = number_of_elements(small.sizes)
        self.outputs = WORKGROUP // team * (1 if along_k else lanes)

    def generate(self) -> Program:
        """Return the program."""
        frame, lines = self.frame, self.frame.module.lines
        blocks = -(-self.columns // self.outputs)
        width = WORKGROUP // self.team
        lines += [
            f"let linear = {LINEAR_GROUP};",
            f"if (linear >= {blocks * frame.batch}u) {{ return; }}",
            f"let batch = linear / {blocks}u;",
        ]
        if self.along_k:
            lines += [f"let part = thread % {self.team}u;", f"let local = thread / {self.team}u;"]
            lines.append(f"let column = (linear % {blocks}u) * {width}u + local;")
        else:
            lines += [f"let part = thread / {width}u;", f"let local = thread % {width}u;"]
            lines.append(f"let column = (linear % {blocks}u) * {self.outputs}u + local * {self.lanes}u;")
        batch = frame.batch_coordinates("batch")
        kind = "f32" if self.along_k or self.lanes == 1 else "vec4<f32>"
        lines += [f"var sum{row} = {kind}();" for row in range(self.rows)]
        step = self.lanes if self.along_k else 1
        lines.append(f"if (column < {self.columns}u) {{")
        lines.append(f"for (var deep = part * {step}u; deep < {frame.k}u; deep += {self.team * step}u) {{")
        self._accumulate(batch)
        lines.append("} }")
        frame.module.shared.append(f"var<workgroup> partial: array<{kind}, {WORKGROUP}>;")
        for row in range(self.rows):
            self._merge(row, width)
        lines.append(f"if (part == 0u && column < {self.columns}u) {{")
        self._store(batch)
        lines.append("}")
        groups = spread_workgroups(blocks * frame.batch, self.capabilities.workgroups_per_dimension)
        return Program((frame.module.finish((WORKGROUP, 1, 1), groups),), ())

    def _coordinates(self, side: Side, batch: list[str], row: str) -> list[str]:
        kernel = self.frame.kernel
        rows = [row] if side.sizes else []
        other = ["0u"] * (len(kernel.n) if side.group == "m" else len(kernel.m))
        return batch + (rows + other if side.group == "m" else other + rows) + ["deep"]

    def _vector(self, side: Side, batch: list[str], row: str) -> str:
        index = linear_index(side.offset, side.strides, self._coordinates(side, batch, row))
        name = self.frame.buffers.name(self.frame.buffers.key(side.value.payload[0]))
        at = self.frame.module.fresh("a")
        self.frame.module.lines.append(f"let {at} = {index};")
        if self.frame.buffers.key(side.value.payload[0]) in self.frame.buffers.wide:
            return f"{name}[{at} / 4u]"
        return f"vec4<f32>({name}[{at}], {name}[{at} + 1u], {name}[{at} + 2u], {name}[{at} + 3u])"

    def _accumulate(self, batch: list[str]) -> None:
        frame, lines = self.frame, self.frame.module.lines
        if self.lanes > 1:
            slot = self.big.value.payload[0]
            if self._only_reader(slot):
                frame.buffers.wide.add(("operand", slot))
            lines.append(f"let weights = {self._vector(self.big, batch, 'column')};")
        else:
            lines.append(f"let weights = {frame.element(self.big, batch, 'column', 'deep', lines)};")
        for row in range(self.rows):
            if self.along_k and self.lanes > 1:
                values = []
                for lane in range(LANES):
                    deep = frame.module.fresh("k")
                    lines.append(f"let {deep} = deep + {lane}u;")
                    values.append(frame.element(self.small, batch, f"{row}u", deep, lines))
                lines.append(f"sum{row} += dot(weights, vec4<f32>({', '.join(values)}));")
            else:
                value = frame.element(self.small, batch, f"{row}u", "deep", lines)
                lines.append(f"sum{row} += weights * {value};")

    def _only_reader(self, slot: int) -> bool:
        """Return whether nothing but the vector loads reads an operand."""
        from .pointwise import topological

        kernel = self.frame.kernel
        if slot in self.frame.buffers.place:
            return False
        roots = [self.small.value, *(store.value for store in kernel.stores)]
        return not any(
            (node.payload[0] if node.step == "load" else node.payload) == slot
            for root in roots
            for node in topological(root)
            if node.step in ("load", "load_at")
        )

    def _merge(self, row: int, width: int) -> None:
        lines = self.frame.module.lines
        stride = 1 if self.along_k else width
        lines += [f"partial[thread] = sum{row};", "workgroupBarrier();"]
        half = self.team // 2
        while half:
            lines.append(f"if (part < {half}u) {{ partial[thread] += partial[thread + {half * stride}u]; }}")
            lines.append("workgroupBarrier();")
            half //= 2
        lines += [f"sum{row} = partial[thread];", "workgroupBarrier();"]

    def _store(self, batch: list[str]) -> None:
        frame, lines = self.frame, self.frame.module.lines
        for row in range(self.rows):
            for lane in range(1 if self.along_k else self.lanes):
                name = f"sum{row}" if self.along_k or self.lanes == 1 else f"sum{row}.{'xyzw'[lane]}"
                lines.append("{")
                lines.append(f"let at = column + {lane}u;")
                pair = (f"{row}u", "at") if self.big.group == "n" else ("at", f"{row}u")
                frame.epilogue(batch, *pair, name, lines)
                lines.append("}")
