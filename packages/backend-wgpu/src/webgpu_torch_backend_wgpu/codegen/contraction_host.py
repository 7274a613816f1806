"""Tiled contractions for adapters whose work threads of the host do.

Such an adapter computes a few neighbouring threads as one vector, has no memory nearer than any other, and takes far longer to
gather a value for each of these threads than to multiply it. So all threads of a workgroup compute the same rows of the result
and columns of their own. The left operand's block is kept in workgroup memory, at places known to the compiler: one load serves
all threads. The right operand's columns concern one thread only, which keeps those of a block in registers. Each sum adds the
products of a whole block before it is written.
"""

from __future__ import annotations

from collections.abc import Iterator

from webgpu_torch_core.ir.kernels import Contraction
from webgpu_torch_core.ir.layouts import number_of_elements

from ..facts import Facts
from ..program import Capabilities, Program
from .access import LANES
from .contraction import Frame
from .contraction_loader import Loader
from .contraction_tile import Block, ThreadSums, Tile, Write, blocks_seconds, generate_tile
from .ir import Name, Node, choose, fixed, minimum, vector, zero
from .module import THREAD, split_index

#: a workgroup's block by its rows and its threads, each of which computes 8 columns, and the share of the operations per second
#: that these reach: the fewer columns use what was brought of the left operand, the less, and the fewer rows of the right one
_SHARES = {
    Tile(rows, 8 * threads, 4, rows, 8): share
    for rows, threads, share in (
        (32, 64, 1.0), (32, 32, 0.95), (32, 16, 0.85), (32, 8, 0.6), (16, 64, 0.75), (16, 32, 0.71), (16, 16, 0.64), (16, 8, 0.45),
    )
}  # fmt: skip
#: multiplications from which blocks that are slow to compile pay
_MUCH = 1 << 24


def host_tiles_of(kernel: Contraction, capabilities: Capabilities) -> Iterator[Tile]:
    """Return the tiles for threads of the host; none where the work is a graphics card's, or too little for what they take to
    compile."""
    m, n, k, batch = (number_of_elements(each) for each in (kernel.m, kernel.n, kernel.k, kernel.batch))
    if capabilities.software and kernel.dtype.name == "float32" and m * n * k * batch >= _MUCH:
        yield from _SHARES


def host_seconds(kernel: Contraction, tile: Tile, facts: Facts) -> float:
    """Return an estimate of the time that a tile takes for a contraction: it reaches its rate at once, with every block."""
    return blocks_seconds(kernel, tile, facts, _SHARES[tile] * facts.flops, 0, 1.0)


def generate_host(kernel: Contraction, capabilities: Capabilities, tile: Tile) -> Program:
    """Return the program of a contraction by a tile whose threads all compute its rows."""
    return generate_tile(kernel, capabilities, tile, HostBlock)


class HostBlock(Block):
    """Rows of the left operand in workgroup memory, columns of the right one and sums in the registers of a thread."""

    def __init__(self, frame: Frame, tile: Tile) -> None:
        self.tile, self.body = tile, frame.body
        self.rows, self.columns = Loader(frame, frame.left, tile.m, tile, "left"), Columns(frame, tile)
        self.left, self.right = self.rows, self.columns
        self.sums = ThreadSums(frame, tile, self.rows, self.columns)

    def declare(self) -> None:
        self.sums.clear((fixed(0), THREAD))

    def multiply(self, stage: Node | None) -> None:
        body, rows = self.body, self.rows
        values = [
            self.columns.read(depth, stage, THREAD, self.tile.columns // LANES, "b") for depth in range(self.tile.k)
        ]
        for group in range(self.tile.rows // LANES):
            with body.when(None):
                places = [(depth * rows.pitch) // LANES + group for depth in range(self.tile.k)]
                factors = [body.let(f"a{depth}", rows.block[at]) for depth, at in enumerate(places)]
                for lane in range(LANES):
                    for number, total in enumerate(self.sums.sums[group * LANES + lane]):
                        sum: Node = total
                        for factor, columns in zip(factors, values, strict=True):
                            sum = sum + factor.lane(lane) * columns[number][0]
                        body.set(total, sum)

    def results(self, base_m: Node, base_n: Node, write: Write) -> None:
        self.sums.results(base_m, base_n, write)


class Columns:
    """The right side: each thread brings its own columns of a block into registers, vectors of four neighbours each.

    Where neighbours in memory are neighbours along k, a register holds those of one column until they are read.
    """

    def __init__(self, frame: Frame, tile: Tile) -> None:
        self.frame, self.body, self.side, self.tile = frame, frame.body, frame.right, tile
        if self.side.axis == "k" and tile.k % LANES:
            self.side.lanes = 1
        self.along_k = self.side.lanes > 1 and self.side.axis == "k"
        self.edge_columns = frame.n % tile.n != 0
        self.edge_depth = frame.k % tile.k != 0
        self.registers = [Name(f"right_r{number}", "vec4<f32>") for number in range(tile.columns * tile.k // LANES)]
        #: the places of the thread's columns (of the first of four if these are read together), and their coordinates
        self.places: list[tuple[Node, list[Node] | None]] = []
        self.values: list[Name] = []

    def declare(self) -> None:
        """Declare the registers that hold the thread's columns of a block."""
        for each in self.registers:
            self.body.var(each.text, None, each.type)

    def fetch(self, batch: list[Node], base: Node, depth: Node) -> None:
        """Write the loads of the block from depth ``depth`` on into registers; zero beyond the operand."""
        if not self.places:
            # The first block is fetched before the loop, and a thread's columns stay what they are.
            self.places = self._places(base)
        loads = self._along_k if self.along_k else self._along_columns
        for target, value in zip(self.registers, loads(batch, depth), strict=True):
            self.body.set(target, value)

    def put(self, stage: Node | None) -> None:
        """Name what the registers hold: the next block is fetched into them while this one is used."""
        self.values = [self.body.let(f"right{number}", each) for number, each in enumerate(self.registers)]

    def read(self, depth: int, stage: Node | None, thread: Node, count: int, prefix: str) -> list[list[Node]]:
        """Return the thread's columns at one depth of the block, ``count`` vectors of four."""
        if not self.along_k:
            return [[each] for each in self.values[depth * count : (depth + 1) * count]]
        columns, deeps = count * LANES, self.tile.k // LANES
        lanes = [self.values[number * deeps + depth // LANES].lane(depth % LANES) for number in range(columns)]
        return [[vector("f32", lanes[first : first + LANES])] for first in range(0, columns, LANES)]

    def _places(self, base: Node) -> list[tuple[Node, list[Node] | None]]:
        """Write where the thread's columns are, inside of the operand: results of other columns are never stored."""
        together = self.side.lanes > 1 and not self.along_k
        found: list[tuple[Node, list[Node] | None]] = []
        step = self.tile.n // self.tile.columns * LANES
        for number in range(0, self.tile.columns, LANES if together else 1):
            at = base + THREAD * fixed(LANES) + fixed(number // LANES * step + number % LANES)
            if self.edge_columns:
                at = minimum(at, self.frame.n - (LANES if together else 1))
            column = self.body.let(self.frame.module.fresh("column"), at)
            sizes = self.side.spans[self.side.group][1]
            found.append((column, None if self.side.strided else split_index(self.frame.module, column, sizes)))
        return found

    def _deep(self, depth: Node, number: int, reach: int = 1) -> tuple[Node, Node | None]:
        """Write the place along k of a block's depth, inside of the operand, and what holds if it is there."""
        deep = self.body.let(self.frame.module.fresh("deep"), depth + fixed(number))
        if not self.edge_depth:
            return deep, None
        return self.body.let(self.frame.module.fresh("deep"), minimum(deep, self.frame.k - reach)), deep < self.frame.k

    def _along_k(self, batch: list[Node], depth: Node) -> Iterator[Node]:
        """Write the loads of neighbours along k, column by column."""
        deeps = [self._deep(depth, number, LANES) for number in range(0, self.tile.k, LANES)]
        for column, _ in self.places:
            for deep, inside in deeps:
                yield _where(inside, self.frame.vector_of(self.side, batch, column, deep))

    def _along_columns(self, batch: list[Node], depth: Node) -> Iterator[Node]:
        """Write the loads of four neighbouring columns at a time, depth by depth."""
        frame = self.frame
        for number in range(self.tile.k):
            deep, inside = self._deep(depth, number)
            if self.side.lanes > 1:
                for column, _ in self.places:
                    yield _where(inside, frame.vector_of(self.side, batch, column, deep))
                continue
            at = deep if self.side.strided else split_index(frame.module, deep, frame.kernel.k)
            values = [frame.element(self.side, batch, column, at, split) for column, split in self.places]
            for first in range(0, len(values), LANES):
                yield _where(inside, vector("f32", values[first : first + LANES]))


def _where(inside: Node | None, value: Node) -> Node:
    """Return the value where it is inside of the operand, else zero."""
    return value if inside is None else choose(inside, value, zero(value.type))
