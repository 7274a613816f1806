"""How a tile kernel brings one side's block from global memory through registers into workgroup memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .access import LANES
from .contraction import Frame, Side

if TYPE_CHECKING:
    from .contraction_tile import Tile


class Loader:
    """One side of a tile kernel: blocks of ``width`` rows by ``tile.k``, in workgroup memory with rows contiguous."""

    def __init__(self, frame: Frame, side: Side, width: int, tile: Tile, name: str) -> None:
        self.frame = frame
        self.side = side
        self.name = name
        self.width = width
        self.pitch = width + tile.pad
        self.depth = tile.k
        self.stages = tile.stages
        self.threads = tile.threads
        self.along_k = side.axis == "k"
        if side.lanes > 1 and (self.depth if self.along_k else width) % LANES:
            frame.require_scalars(side)
        self.lanes = side.lanes
        self.fetches = width * self.depth // self.lanes
        self.count = -(-self.fetches // self.threads)
        self.partial = self.fetches % self.threads != 0
        self.edge_rows = side.rows % width != 0
        # A part of a split sum ends at a multiple of the block's depth, except the last one.
        self.edge_depth = frame.k % self.depth != 0 or tile.splits > 1
        self.packed = frame.scalar in ("f32", "i32", "u32")

    def declare(self) -> None:
        """Declare the blocks in workgroup memory, as vectors along the rows where the type allows."""
        scalar = self.frame.scalar
        size = self.pitch * self.depth * self.stages
        kind, count = (f"vec4<{scalar}>", size // LANES) if self.packed else (scalar, size)
        self.frame.module.shared.append(f"var<workgroup> {self.name}: array<{kind}, {count}>;")

    def registers(self) -> None:
        """Declare the registers that hold a fetched block."""
        scalar = self.frame.scalar
        kind = f"vec4<{scalar}>" if self.lanes > 1 else scalar
        self.frame.lines += [f"var {self.name}_r{number}: {kind};" for number in range(self.count)]

    def _position(self, number: int) -> tuple[str, str]:
        """Return (row, depth) inside the block of fetch ``number``."""
        at = f"(thread + {number * self.threads}u)"
        if self.along_k:
            per = self.depth // self.lanes
            return f"{at} / {per}u", f"({at} % {per}u) * {self.lanes}u"
        per = self.width // self.lanes
        return f"({at} % {per}u) * {self.lanes}u", f"{at} / {per}u"

    def _has_work(self, number: int) -> list[str]:
        """Return the condition under which a thread makes fetch ``number``."""
        last = (number + 1) * self.threads > self.fetches
        return [f"thread + {number * self.threads}u < {self.fetches}u"] if last else []

    def fetch(self, batch: list[str], base: str, depth: str) -> None:
        """Write the loads of the block at row ``base`` and depth ``depth`` into registers; zero outside the operand."""
        lines, frame = self.frame.lines, self.frame
        for number in range(self.count):
            row, deep = self._position(number)
            target = f"{self.name}_r{number}"
            guard = [f"row < {self.side.rows}u"] if self.edge_rows else []
            guard += [f"deep < {frame.k}u"] if self.edge_depth else []
            guard += self._has_work(number)
            inner: list[str] = []
            if self.lanes > 1:
                value = frame.vector_of(self.side, batch, "row", "deep", inner)
            else:
                value = frame.element(self.side, batch, "row", "deep", inner)
            lines.append(f"{{ let row = {base} + {row}; let deep = {depth} + {deep};")
            if guard:
                zero = f"vec4<{frame.scalar}>()" if self.lanes > 1 else frame.zero()
                lines += [f"{target} = {zero};", f"if ({' && '.join(guard)}) {{"]
            lines += inner
            lines.append(f"{target} = {value};")
            lines.append("} }" if guard else "}")

    def put(self) -> None:
        """Write the stores of the registers into workgroup memory."""
        lines = self.frame.lines
        for number in range(self.count):
            row, deep = self._position(number)
            source = f"{self.name}_r{number}"
            work = self._has_work(number)
            lines.append(f"if ({work[0]}) {{" if work else "{")
            lines.append(f"let row = {row}; let deep = {self._staged(deep)};")
            if self.lanes == 1:
                lines.append(f"{self._cell('deep', 'row')} = {source};")
            elif self.along_k:
                for lane in range(LANES):
                    lines.append(f"{self._cell(f'(deep + {lane}u)', 'row')} = {source}.{'xyzw'[lane]};")
            else:
                lines.append(f"{self.name}[(deep * {self.pitch}u + row) / 4u] = {source};")
            lines.append("}")

    def _staged(self, depth: str) -> str:
        return f"stage * {self.depth}u + {depth}" if self.stages > 1 else depth

    def _cell(self, depth: str, row: str) -> str:
        if self.packed:
            return f"{self.name}[({depth} * {self.pitch}u + {row}) / 4u][{row} & 3u]"
        return f"{self.name}[{depth} * {self.pitch}u + {row}]"

    def read(self, depth: str, thread: str, count: int, prefix: str) -> None:
        """Write the loads of a thread's values at one depth: ``count`` groups of four, a thread's groups far apart."""
        lines = self.frame.lines
        deep = f"({self._staged(depth)})"
        for number in range(count):
            at = f"({thread} + {number * (self.width // (count * LANES))}u)"
            if self.packed:
                lines.append(f"let {prefix}{number} = {self.name}[{deep} * {self.pitch // LANES}u + {at}];")
                continue
            for lane in range(LANES):
                cell = f"{self.name}[{deep} * {self.pitch}u + {at} * 4u + {lane}u]"
                lines.append(f"let {prefix}{number}_{lane} = {cell};")
