"""What brings blocks of halves into workgroup memory for matrix units, eight to an access."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .contraction import VECTOR_BYTES, Frame, Side, halves_in_words
from .contraction_laid import Laid
from .ir import Array, Call, Name, Node, Prefix, choose, fixed, minimum, zero
from .module import THREAD, split_index
from .statements import Body

if TYPE_CHECKING:
    from .contraction_matrix import MatrixTile

#: halves that one access moves
_HALVES = VECTOR_BYTES // 2


class HalvesBlock:
    """A block of halves in workgroup memory from which matrices are loaded, and the registers that bring it there.

    Neighbours along k, or along the rows, are neighbours in memory: ``along`` of these, ``across`` times. Several such blocks
    may lie one behind the other; ``parts`` of them are brought at once.
    """

    #: behind which depth there is nothing, where that is known on the device only
    end: Node | None = None

    def __init__(
        self, body: Body, along_k: bool, along: int, across: int, pad: int, threads: int, blocks: Array, start: int,
        prefix: str, parts: int = 1,
    ) -> None:  # fmt: skip
        self.body, self.along_k, self.along, self.across, self.threads = body, along_k, along, across, threads
        self.blocks, self.start = blocks, start
        #: elements of workgroup memory from one row, or one depth, to the next, and that all take
        self.pitch = (along + pad) // _HALVES
        self.size = self.pitch * across
        self.count = parts * along * across // (_HALVES * threads)
        self.registers = [Name(f"{prefix}_r{number}", "vec4<u32>") for number in range(self.count)]

    def declare(self) -> None:
        """Declare the registers that hold a fetched block."""
        for each in self.registers:
            self.body.var(each.text, None, each.type)

    def fetch(self, batch: list[Node], base: Node, depth: Node) -> None:
        """Write the loads of the block at row ``base`` and depth ``depth`` into registers; zero outside the operand."""
        raise NotImplementedError

    def position(self, number: int) -> tuple[Node, Node]:
        """Return (row, depth) inside the block of fetch ``number``."""
        along, across = self.place(number, self.along // _HALVES)
        along = along * fixed(_HALVES)
        return (across, along) if self.along_k else (along, across)

    def place(self, number: int, per: int) -> tuple[Node, Node]:
        """Return remainder and quotient by ``per`` of what fetch ``number`` of a thread counts as."""
        if self.threads % per:
            at = THREAD + fixed(number * self.threads)
            return at % fixed(per), at // fixed(per)
        # The remainder is the same for all fetches.
        done = fixed(number * self.threads // per)
        return (THREAD, done) if self.threads == per else (THREAD % fixed(per), THREAD // fixed(per) + done)

    def put(self, stage: Node | None) -> None:
        """Write the stores of the registers into workgroup memory."""
        for number, source in enumerate(self.registers):
            self.body.set(self.cell(number), source)

    def cell(self, number: int, part: int = 0) -> Node:
        """Return the element of workgroup memory of fetch ``number``, in one of several blocks that lie one behind the other."""
        start, at = self.start + part * self.size, self.offset(number)
        return self.blocks[at + fixed(start) if start else at]

    def offset(self, number: int) -> Node:
        """Return where the element of fetch ``number`` is in a block."""
        row, deep = self.position(number)
        across, along = (row, deep) if self.along_k else (deep, row)
        return across * fixed(self.pitch) + along // fixed(_HALVES)

    def matrix(self, kind: str, row: Node, deep: Node, part: int = 0) -> Node:
        """Return the matrix at a row, a multiple of eight, and a depth of the block, one of a unit's."""
        row_major = self.along_k is kind.startswith("subgroup_matrix_left")
        start, pitch = fixed(self.start + part * self.size), fixed(self.pitch)
        if self.along_k:
            at = row * pitch + start + deep // fixed(_HALVES)
        else:
            at = row // fixed(_HALVES) + start + deep * pitch
        order = "row_major" if row_major else "col_major"
        where = Prefix("&", self.blocks)
        return Call(f"subgroupMatrixLoad<{kind}, {order}>", (where, at, pitch), kind)


class HalvesLoader(HalvesBlock):
    """One side of a matrix tile: blocks of ``width`` rows by ``tile.k`` as halves in workgroup memory.

    Neighbours are neighbours in memory along the side's axis. Computed values lie along k: each thread then computes those
    of one row, whose coordinates it splits once, and depths are the same for many threads.
    """

    def __init__(
        self, frame: Frame, side: Side, width: int, tile: MatrixTile, blocks: Array, start: int, prefix: str = "",
        laid: Laid | None = None,
    ) -> None:  # fmt: skip
        along_k = laid is not None or side.axis == "k" or not side.strided
        along, across = (tile.k, width) if along_k else (width, tile.k)
        super().__init__(
            frame.body, along_k, along, across, tile.pad, tile.threads, blocks, start, prefix or side.group
        )
        self.frame, self.side, self.width, self.laid = frame, side, width, laid
        self.edge_rows = laid is None and side.rows % width != 0
        # A part of a split sum ends at a multiple of the block's depth, except the last one.
        self.edge_depth = laid is None and (frame.k % tile.k != 0 or tile.splits > 1)
        for node in side.loads if side.lanes > 1 else ():
            if node.dtype.name == "float16" and side.step(node, side.axis, side.lanes):
                frame.buffers.in_words.add(node.payload[0])

    def begin(self, batch: list[Node], base: Node) -> None:
        """Declare the registers. What places of all blocks have in common is not kept: with it, fetches take up to 40 % longer."""
        self.declare()

    def position(self, number: int) -> tuple[Node, Node]:
        if self.side.strided:
            return super().position(number)
        row, deep = self.place(number, self.across)
        return row, deep * fixed(_HALVES)

    def fetch(self, batch: list[Node], base: Node, depth: Node) -> None:
        body, coordinates = self.body, None
        load = self._load()
        if not self.side.strided and self.threads % self.across == 0:
            module = self.frame.module
            row = body.let(module.fresh("row"), self._inside(base + self.position(0)[0], depth)[1])
            coordinates = split_index(module, row, self.side.spans[self.side.group][1])
        for number in range(self.count):
            at_row, at_depth = self.position(number)
            with body.when(None):
                row, deep = body.let("row", base + at_row), body.let("deep", depth + at_depth)
                self.keep(number, load(batch, row, deep, coordinates))

    def _load(self) -> Callable[[list[Node], Node, Node, list[Node] | None], list[Node]]:
        """Return what writes the loads of eight values of a batch at a row and a depth, given the row's coordinates or None."""
        if self.laid is not None:
            return self._laid
        return self._vector if self.side.lanes > 1 else self._neighbours if self.side.neighbours else self._elements

    def _laid(self, batch: list[Node], row: Node, deep: Node, coordinates: list[Node] | None) -> list[Node]:
        """Return eight values that have been laid out: the words of each part."""
        body, fresh = self.body, self.frame.module.fresh
        assert self.laid is not None
        return self.laid.read(self.frame, batch, body.let(fresh("row"), row), body.let(fresh("deep"), deep))

    def keep(self, number: int, values: list[Node]) -> None:
        """Write eight values into the registers of fetch ``number``: halves as they lie in memory, or those that were computed."""
        self.body.set(self.registers[number], values[0] if len(values) == 1 else halves_in_words(values))

    def _inside(self, row: Node, deep: Node, reach: int = 1) -> tuple[Node | None, Node, Node]:
        """Return what holds before the operand's end along k, and a place inside; ``reach`` elements along the axis count.

        Rows behind the last one have anything: nobody stores what becomes of them.
        """
        within: Node | None = None
        reaches = (1, reach) if self.along_k else (reach, 1)
        if self.edge_rows:
            row = minimum(row, self.side.rows - reaches[0])
        if self.edge_depth or self.end is not None:
            within = deep < (self.frame.k if self.end is None else self.end)
            deep = minimum(deep, self.frame.k - reaches[1])
        return within, row, deep

    def _vector(self, batch: list[Node], row: Node, deep: Node, coordinates: list[Node] | None) -> list[Node]:
        """Return eight values that are neighbours in memory, as vectors."""
        found: list[Node] = []
        for first in range(0, _HALVES, self.side.lanes):
            at_row, at_deep = (row, deep + fixed(first)) if self.along_k else (row + fixed(first), deep)
            within, at_row, at_deep = self._inside(at_row, at_deep, self.side.lanes)
            value = self.frame.vector_of(self.side, batch, at_row, at_deep)
            found.append(value if within is None else choose(within, value, zero(value.type)))
        return found

    def _neighbours(self, batch: list[Node], row: Node, deep: Node, coordinates: list[Node] | None) -> list[Node]:
        """Return eight values that have one place of a window in common."""
        body, fresh = self.body, self.frame.module.fresh
        within, row, deep = self._inside(row, deep, _HALVES)
        row, deep = body.let(fresh("row"), row), body.let(fresh("deep"), deep)
        values = self.frame.neighbours(self.side, batch, row, deep, coordinates)
        return values if within is None else [choose(within, value, zero(value.type)) for value in values]

    def _elements(self, batch: list[Node], row: Node, deep: Node, coordinates: list[Node] | None) -> list[Node]:
        """Return eight values, computed one by one."""
        body, module, values = self.body, self.frame.module, list[Node]()
        for lane in range(_HALVES):
            at_row, at_deep = (row, deep + fixed(lane)) if self.along_k else (row + fixed(lane), deep)
            within, at_row, at_deep = self._inside(at_row, at_deep)
            at_row = body.let(module.fresh("row"), at_row)
            at_deep = body.let(module.fresh("deep"), at_deep)
            value = self.frame.element(self.side, batch, at_row, at_deep, coordinates)
            values.append(value if within is None else choose(within, value, zero(value.type)))
        return values
