"""Tiled contractions for adapters whose work threads of the host do.

Such an adapter computes a few neighbouring threads as one vector, has no memory nearer than any other, and takes many times as
long to bring a value for each of these threads, from workgroup memory no less, as to multiply it. So all threads of a workgroup
compute the same rows of the result and columns of their own, and the threads of a quad (four neighbours in a subgroup) bring a
quarter of the rows' values each, which they tell each other. No thread waits for those of other quads. A sum takes up the
products of a whole block at once, as a matrix times a vector, for which drivers keep least under way.
"""

from __future__ import annotations

from collections.abc import Iterator

from webgpu_torch_core.ir.kernels import Contraction
from webgpu_torch_core.ir.layouts import number_of_elements

from ..facts import Facts
from ..program import Capabilities, Program
from .access import LANES
from .contraction import Frame, Side
from .contraction_cost import blocks_seconds
from .contraction_tile import Block, Place, Sums, Tile, Write, generate_tile
from .ir import Call, Name, Node, choose, fixed, minimum, vector, zero
from .module import SUBGROUP_THREAD, THREAD, split_index

#: a workgroup's block by its rows and its threads, each of which computes 8 columns, and the share of the operations per second
#: that these reach: the fewer rows use what was brought of the right operand, the less
_SHARES = {
    Tile(rows, 8 * threads, 4, rows, 8): share
    for rows, share in ((32, 1.0), (16, 0.82))
    for threads in (32, 16, 8)
}  # fmt: skip
#: multiplications from which blocks that are slow to compile pay
_MUCH = 1 << 24


def host_tiles_of(kernel: Contraction, capabilities: Capabilities) -> Iterator[Tile]:
    """Return the tiles for threads of the host; none where the work is a graphics card's, or too little for what they take to
    compile."""
    m, n, k, batch = (number_of_elements(each) for each in (kernel.m, kernel.n, kernel.k, kernel.batch))
    able = capabilities.software and capabilities.subgroups
    if able and kernel.dtype.name == "float32" and m * n * k * batch >= _MUCH:
        yield from _SHARES


def host_seconds(kernel: Contraction, tile: Tile, facts: Facts) -> float:
    """Return an estimate of the time that a tile takes for a contraction: it reaches its rate at once, with every block."""
    return blocks_seconds(kernel, tile, facts, _SHARES[tile] * facts.flops, 0, 1.0)


def generate_host(kernel: Contraction, capabilities: Capabilities, tile: Tile) -> Program:
    """Return the program of a contraction by a tile whose threads all compute its rows."""
    return generate_tile(kernel, capabilities, tile, HostBlock)


class HostBlock(Block):
    """Sums and columns of the right operand in the registers of a thread, rows of the left one in those of a quad."""

    def __init__(self, frame: Frame, tile: Tile) -> None:
        self.tile, self.body = tile, frame.body
        self.rows, self.columns = Rows(frame, tile), Columns(frame, tile)
        self.sums = Sums(frame, tile)

    def declare(self) -> None:
        self.sums.clear((fixed(0), THREAD))

    def accumulate(self, frame: Frame, tile: Tile, place: Place, batch: list[Node]) -> None:
        body = self.body
        self.rows.begin(place.base_m)
        self.columns.begin(place.base_n)
        with body.loop("depth", place.first, lambda depth: depth < place.last, fixed(tile.k)) as depth:
            self.columns.fetch(batch, depth)
            self.rows.reach(depth)
            for group in range(tile.rows // LANES):
                with body.when(None):
                    for number, factors in enumerate(self.rows.read(batch, depth, group)):
                        for total, products in zip(
                            self.sums.sums[group * LANES + number], self.columns.products(factors), strict=True
                        ):
                            sum: Node = total
                            for product in products:
                                sum = sum + product
                            body.set(total, sum)

    def results(self, base_m: Node, base_n: Node, write: Write) -> None:
        self.sums.results(base_m, base_n, write)


class Lines:
    """Brings values of a side's lines (its rows or columns), four at a time: of neighbouring lines, or of one line along k.

    Every place is inside of the operand: beyond its lines another line is brought, whose results are never stored, and beyond
    its depth zeros.
    """

    def __init__(self, frame: Frame, side: Side, width: int, depth: int) -> None:
        self.frame, self.body, self.side = frame, frame.body, side
        if side.lanes > 1 and (depth if side.axis == "k" else width) % LANES:
            side.lanes = 1
        self.depth = depth
        self.together = side.lanes > 1 and side.axis != "k"
        self.along_k = side.lanes > 1 and side.axis == "k"
        self.edge_lines = side.rows % width != 0
        self.edge_depth = frame.k % depth != 0

    def line(self, at: Node) -> tuple[Node, list[Node] | None]:
        """Write the first line of four that are brought together, or one line; return it with its coordinates."""
        if self.edge_lines:
            at = minimum(at, self.side.rows - (LANES if self.together else 1))
        line = self.body.let(self.frame.module.fresh("line"), at)
        sizes = self.side.spans[self.side.group][1]
        return line, None if self.side.strided else split_index(self.frame.module, line, sizes)

    def deep(self, at: Node, count: int = 1) -> tuple[Node, Node | None]:
        """Write a place along k, of ``count`` neighbours the first one; return it with what holds if it is there."""
        deep = self.body.let(self.frame.module.fresh("deep"), at)
        if not self.edge_depth:
            return deep, None
        return self.body.let(self.frame.module.fresh("deep"), minimum(deep, self.frame.k - count)), deep < self.frame.k

    def vector(self, batch: list[Node], line: Node, deep: tuple[Node, Node | None]) -> Node:
        """Return four neighbours in memory."""
        return _where(deep[1], self.frame.vector_of(self.side, batch, line, deep[0]))

    def element(
        self, batch: list[Node], line: tuple[Node, list[Node] | None], deep: tuple[Node | list[Node], Node | None]
    ) -> Node:
        """Return one value."""
        return _where(deep[1], self.frame.element(self.side, batch, line[0], deep[0], line[1]))

    def split(self, deep: tuple[Node, Node | None]) -> tuple[Node | list[Node], Node | None]:
        """Write the coordinates of a place along k, where values are computed from them."""
        if self.side.strided:
            return deep
        return split_index(self.frame.module, deep[0], self.frame.kernel.k), deep[1]


class Columns(Lines):
    """The right side: each thread brings its own columns of a block into registers."""

    def __init__(self, frame: Frame, tile: Tile) -> None:
        super().__init__(frame, frame.right, tile.n, tile.k)
        self.groups, self.step = tile.columns // LANES, tile.n // tile.columns * LANES
        self.registers = [Name(f"right{number}", "vec4<f32>") for number in range(tile.columns * tile.k // LANES)]

    def begin(self, base: Node) -> None:
        """Declare the registers, and write where the thread's columns are."""
        for each in self.registers:
            self.body.var(each.text, None, each.type)
        self.lines = [
            [
                self.line(base + THREAD * fixed(LANES) + fixed(group * self.step + number))
                for number in range(1 if self.together else LANES)
            ]
            for group in range(self.groups)
        ]

    def fetch(self, batch: list[Node], depth: Node) -> None:
        """Write the loads of the block from a depth on: by group and four depths, vectors of columns or, along k, of depths."""
        values = self._along_k(batch, depth) if self.along_k else self._along_columns(batch, depth)
        for target, value in zip(self.registers, values, strict=True):
            self.body.set(target, value)

    def products(self, factors: list[Node]) -> Iterator[list[Node]]:
        """Return for each group the products of its columns with a row's values of a block, vectors of four depths."""
        for group in range(self.groups):
            first = group * self.depth
            parts = [self.registers[at : at + LANES] for at in range(first, first + self.depth, LANES)]
            matrices = [Call("mat4x4<f32>", part, "mat4x4<f32>") for part in parts]
            yield [
                factor * matrix if self.along_k else matrix * factor
                for matrix, factor in zip(matrices, factors, strict=True)
            ]

    def _along_k(self, batch: list[Node], depth: Node) -> Iterator[Node]:
        deeps = [self.deep(depth + fixed(number), LANES) for number in range(0, self.depth, LANES)]
        for group in self.lines:
            for deep in deeps:
                for line, _ in group:
                    yield self.vector(batch, line, deep)

    def _along_columns(self, batch: list[Node], depth: Node) -> Iterator[Node]:
        deeps = [self.deep(depth + fixed(number)) for number in range(self.depth)]
        if self.together:
            for ((line, _),) in self.lines:
                for deep in deeps:
                    yield self.vector(batch, line, deep)
            return
        places = [self.split(each) for each in deeps]
        for group in self.lines:
            for place in places:
                yield vector("f32", [self.element(batch, line, place) for line in group])


class Rows(Lines):
    """The left side: of four rows and four depths, each thread of a quad brings one row's, or one depth's, and tells it."""

    def __init__(self, frame: Frame, tile: Tile) -> None:
        super().__init__(frame, frame.left, tile.m, tile.k)
        self.groups = tile.rows // LANES

    def begin(self, base: Node) -> None:
        """Write where the rows are of which the thread brings values."""
        self.own = self.body.let("own", SUBGROUP_THREAD & fixed(LANES - 1))
        self.lines = [
            self.line(base + fixed(group * LANES) if self.together else base + fixed(group * LANES) + self.own)
            for group in range(self.groups)
        ]

    def reach(self, depth: Node) -> None:
        """Write what is the same for all rows of the block from a depth on."""
        if self.side.lanes > 1:
            first = self.own if self.together else fixed(0)
            count = 1 if self.together else LANES
            self.deeps = [self.deep(depth + fixed(number) + first, count) for number in range(0, self.depth, LANES)]
        else:
            self.places = [self.split(self.deep(depth + fixed(number))) for number in range(self.depth)]

    def read(self, batch: list[Node], depth: Node, group: int) -> Iterator[list[Node]]:
        """Write what brings the block's values of four rows; return those of each row, vectors of four depths."""
        line = self.lines[group]
        if self.side.lanes > 1:
            values = [self.vector(batch, line[0], deep) for deep in self.deeps]
        else:
            elements = [self.element(batch, line, place) for place in self.places]
            values = [vector("f32", elements[first : first + LANES]) for first in range(0, self.depth, LANES)]
        brought = [self.body.let(f"brought{number}", value) for number, value in enumerate(values)]
        told = [
            [
                self.body.let(f"told{number}_{thread}", Call("quadBroadcast", (value, fixed(thread)), value.type))
                for thread in range(LANES)
            ]
            for number, value in enumerate(brought)
        ]
        for row in range(LANES):
            if self.together:
                yield [vector("f32", [each.lane(row) for each in four]) for four in told]
            else:
                yield [four[row] for four in told]


def _where(inside: Node | None, value: Node) -> Node:
    """Return the value where it is inside of the operand, else zero."""
    return value if inside is None else choose(inside, value, zero(value.type))
