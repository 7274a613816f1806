"""How a tile kernel brings one side's block from global memory through registers into workgroup memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webgpu_torch_core.ir.expression import Expression

from .access import LANES
from .contraction import Frame, Side
from .ir import Name, Node, choose, every, fixed, minimum, vector, zero
from .module import THREAD

if TYPE_CHECKING:
    from .contraction_tile import Tile


def is_packed(scalar: str) -> bool:
    """Return whether blocks of a type lie in workgroup memory as vectors along the rows."""
    return scalar in ("f32", "i32", "u32")


class Loader:
    """One side of a tile kernel: blocks of ``width`` rows by ``tile.k``, in workgroup memory with rows contiguous."""

    #: the first depth of a block that a thread multiplies, where threads share these
    first: Node | None = None

    def __init__(
        self, frame: Frame, side: Side, width: int, tile: Tile, name: str, block: str = "", partial: bool = False
    ) -> None:
        """``block``: the array that its blocks share with others'; ``partial``: only depths up to some bound are to be read."""
        self.frame = frame
        self.body = frame.body
        self.side = side
        self.name = name
        self.width = width
        self.pitch = width + tile.pad
        self.depth = tile.k
        self.stages = tile.stages
        self.threads = tile.threads
        self.along_k = side.axis == "k"
        if side.lanes > 1 and (self.depth if self.along_k else width) % LANES:
            side.lanes = 1
        self.lanes = side.lanes
        self.fetches = width * self.depth // self.lanes
        self.count = -(-self.fetches // self.threads)
        self.edge_rows = side.rows % width != 0
        # A part of a split sum ends at a multiple of the block's depth, except the last one.
        self.edge_depth = frame.k % self.depth != 0 or tile.splits > 1 or partial
        #: whether the block lies as vectors along the rows
        self.packed = is_packed(frame.scalar)
        size = self.pitch * self.depth * self.stages
        kind, count = (f"vec4<{frame.scalar}>", size // LANES) if self.packed else (frame.scalar, size)
        self.block = frame.module.array(block or name, kind, count)
        kind = f"vec4<{frame.scalar}>" if self.lanes > 1 else frame.scalar
        self.registers = [Name(f"{name}_r{number}", kind) for number in range(self.count)]
        #: how many depths of each fetched vector count, where not all do
        self.counting = [
            Name(f"{name}_c{number}", "u32")
            for number in range(self.count if self.edge_depth and self.lanes > 1 else 0)
        ]
        #: what a thread's elements have in common, where all are of one row
        self.row_parts: dict[Expression, Node] = {}

    def declare(self) -> None:
        """Declare the registers that hold a fetched block."""
        for each in (*self.registers, *self.counting):
            self.body.var(each.text, None, each.type)

    def begin(self, batch: list[Node], base: Node) -> None:
        """Write what all blocks from row ``base`` on have in common."""
        self.declare()
        if self.side.split is not None and not self.along_k and self.threads % self.width == 0:
            self.row_parts = self.frame.parts(
                self.side, self.side.group, batch, self._inside(base + self._position(0)[0])
            )

    def _inside(self, row: Node) -> Node:
        """Write a row that is one of the operand's: what those behind the last one give is not stored."""
        inside = minimum(row, self.side.rows - 1) if self.edge_rows else row
        return self.body.let(self.frame.module.fresh("row"), inside)

    def _position(self, number: int) -> tuple[Node, Node]:
        """Return (row, depth) inside the block of fetch ``number``."""
        at = THREAD + fixed(number * self.threads)
        per = (self.depth if self.along_k else self.width) // self.lanes
        if self.lanes == 1 and self.threads % per == 0:
            # The remainder is the same for all fetches.
            done = fixed(number * self.threads // per)
            along, across = (
                (THREAD, done) if self.threads == per else (THREAD % fixed(per), THREAD // fixed(per) + done)
            )
            return (across, along) if self.along_k else (along, across)
        along, across = (at % fixed(per)) * fixed(self.lanes), at // fixed(per)
        return (across, along) if self.along_k else (along, across)

    def _has_work(self, number: int) -> list[Node]:
        """Return the condition under which a thread makes fetch ``number``."""
        last = (number + 1) * self.threads > self.fetches
        return [THREAD + fixed(number * self.threads) < fixed(self.fetches)] if last else []

    def fetch(self, batch: list[Node], base: Node, depth: Node, last: Node | None = None) -> None:
        """Write the loads of the block at row ``base`` and depth ``depth`` into registers; zero from depth ``last`` on.

        Rows behind the operand's last one have anything: nobody stores what becomes of them.
        """
        body = self.body
        for number, target in enumerate(self.registers):
            at_row, at_depth = self._position(number)
            with body.when(None):
                row, deep = body.let("row", base + at_row), body.let("deep", depth + at_depth)
                guard = self._has_work(number)
                end = self.frame.k if last is None else last
                if self.lanes == 1:
                    guard += [row < self.side.rows] if self.edge_rows and not self.row_parts else []
                    guard += [deep < end] if self.edge_depth else []
                if guard:
                    body.set(target, zero(target.type))
                with body.when(every(*guard) if guard else None):
                    if self.lanes > 1:
                        row, deep = self._vector_place(number, row, deep, end)
                    body.set(target, self._load(batch, row, deep))

    def _vector_place(self, number: int, row: Node, deep: Node, end: Node | int) -> tuple[Node, Node]:
        """Write from where inside the operand a vector is read, and how many of its depths lie before ``end``; return the place.

        Nothing waits for a branch so, nor for what is read before it is put into workgroup memory: what is not to count goes
        then. Where numbers are read one by one, finding a place inside for each takes longer.
        """
        body = self.body
        across, along = (1, self.lanes) if self.along_k else (self.lanes, 1)
        if self.edge_rows and not self.row_parts:
            row = body.let("inner_row", minimum(row, self.side.rows - across))
        if self.edge_depth:
            body.set(self.counting[number], choose(deep < end, end - deep, fixed(0)))
            deep = body.let("inner_depth", minimum(deep, max(self.frame.k - along, 0)))
        return row, deep

    def _counted(self, number: int) -> Node:
        """Return what was fetched, zero where it does not count."""
        source = self.registers[number]
        if not self.counting:
            return source
        counts = self.counting[number]
        if not self.along_k:
            return self.body.let("counted", choose(counts > fixed(0), source, zero(source.type)))
        kind = source.lane(0).type
        lanes = [choose(counts > fixed(each), source.lane(each), zero(kind)) for each in range(self.lanes)]
        return self.body.let("counted", vector(kind, lanes))

    def _load(self, batch: list[Node], row: Node, deep: Node) -> Node:
        """Return what a thread brings at once."""
        frame, side = self.frame, self.side
        if self.lanes > 1:
            return frame.vector_of(side, batch, row, deep)
        if side.split is None:
            return frame.element(side, batch, row, deep)
        rows = self.row_parts or frame.parts(side, side.group, batch, row)
        return frame.joined(side, rows | frame.parts(side, "k", batch, deep))

    def put(self, stage: Node | None) -> None:
        """Write the stores of the registers into workgroup memory."""
        body = self.body
        for number in range(self.count):
            at_row, at_depth = self._position(number)
            work = self._has_work(number)
            with body.when(work[0] if work else None):
                source = self._counted(number)
                row, deep = body.let("row", at_row), body.let("deep", self._staged(at_depth, stage))
                if self.lanes == 1:
                    body.set(self._cell(deep, row), source)
                elif self.along_k:
                    for lane in range(LANES):
                        body.set(self._cell(deep + fixed(lane), row), source.lane(lane))
                else:
                    body.set(self.block[(deep * fixed(self.pitch) + row) // fixed(LANES)], source)

    def _staged(self, depth: Node, stage: Node | None) -> Node:
        return depth if stage is None else stage * fixed(self.depth) + depth

    def _cell(self, depth: Node, row: Node) -> Node:
        at = depth * fixed(self.pitch) + row
        return self.block[at // fixed(LANES)][row & fixed(3)] if self.packed else self.block[at]

    def read(self, depth: int, stage: Node | None, thread: Node, count: int, prefix: str) -> list[list[Node]]:
        """Write the loads of a thread's values at one depth, a thread's groups of four far apart.

        Return the values of each of ``count`` groups: four, or one vector where the block lies as vectors.
        """
        deep = self._staged(fixed(depth) if self.first is None else self.first + fixed(depth), stage)
        groups: list[list[Node]] = []
        for number in range(count):
            at = thread + fixed(number * (self.width // (count * LANES)))
            if self.packed:
                found = self.block[deep * fixed(self.pitch // LANES) + at]
                groups.append([self.body.let(f"{prefix}{number}", found)])
                continue
            start = deep * fixed(self.pitch) + at * fixed(LANES)
            groups.append(
                [self.body.let(f"{prefix}{number}_{lane}", self.block[start + fixed(lane)]) for lane in range(LANES)]
            )
        return groups
