"""Tiled contractions: a workgroup computes a block of the result from blocks of both operands in workgroup memory.

The scheme is the usual one for GPUs without matrix units (V. Volkov and J. Demmel, "Benchmarking GPUs to tune dense
linear algebra", SC'08): each thread keeps a small block of sums in registers, both operands pass through workgroup
memory as vectors of four, and the next block is fetched while the current one is used. Where the result has too few
blocks to fill a GPU, k is split over workgroups and a second pass adds their sums in order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from webgpu_torch_core.ir.kernels import Contraction
from webgpu_torch_core.ir.records import Record

from ..program import Capabilities, Program
from .access import LANES
from .contraction import Frame
from .contraction_loader import Loader, is_packed
from .contraction_parts import Parts
from .ir import Call, Name, Node, fixed, minimum, u32, zero
from .module import LINEAR_GROUP, THREAD
from .statements import Body, Do


class Tile(Record):
    """A variant of the tile kernel.

    Fields:
        m, n, k: a workgroup's block of the result, and how deep it goes at a time.
        rows, columns: a thread's block; multiples of 4.
        stages: blocks held in workgroup memory: 1, or 2 (one barrier a step instead of two).
        span: threads along n in each run of 32 threads (0: as many as there are).
        pad: extra elements per row of a block in workgroup memory, against bank conflicts; a multiple of 4.
        band: rows of blocks that run next to each other, for the cache (0: row by row).
        splits: workgroups that share the sum over k.
        slices: threads of a workgroup that share each sum: each adds a part of the depth of every block, so that a block
            deep enough to hide how long its successor is on its way is multiplied by many threads.
    """

    __slots__ = fields = ("m", "n", "k", "rows", "columns", "stages", "span", "pad", "band", "splits", "slices")
    m: int
    n: int
    k: int
    rows: int
    columns: int
    stages: int
    span: int
    pad: int
    band: int
    splits: int
    slices: int

    def __init__(
        self, m: int, n: int, k: int, rows: int, columns: int,
        stages: int = 1, span: int = 0, pad: int = 0, band: int = 0, splits: int = 1, slices: int = 1,
    ) -> None:  # fmt: skip
        super().__init__(m, n, k, rows, columns, stages, span, pad, band, splits, slices)

    @property
    def sharing(self) -> int:
        """Threads that have sums of their own."""
        return (self.m // self.rows) * (self.n // self.columns)

    @property
    def threads(self) -> int:
        """Threads per workgroup."""
        return self.sharing * self.slices

    @property
    def nbytes(self) -> int:
        """Bytes of workgroup memory that blocks of 32-bit numbers take, and the sums of all slices but one."""
        return 4 * ((self.m + self.n + 2 * self.pad) * self.k * self.stages + (self.slices - 1) * self.m * self.n)

    @property
    def block(self) -> tuple[int, int, int, int, int]:
        """What a workgroup and each of its threads compute, however sums are split and blocks follow each other."""
        return self.m, self.n, self.k, self.rows, self.columns


#: writes what is done with neighbouring columns of the result: ``write(row, column, values)``
Write = Callable[[Node, Node, list[Node]], None]


class Stager(Protocol):
    """Brings one side's blocks into workgroup memory, by way of registers."""

    def begin(self, batch: list[Node], base: Node) -> None:
        """Declare the registers that hold a fetched block, and write what all blocks from row ``base`` on have in common."""

    def fetch(self, batch: list[Node], base: Node, depth: Node) -> None:
        """Write the loads of the block at row ``base`` and depth ``depth`` into registers; zero outside the operand."""

    def put(self, stage: Node | None) -> None:
        """Write the stores of the registers into workgroup memory."""


class Block(ABC):
    """What a tile's workgroup computes with: where its sums are, how they come about, and how results leave."""

    @abstractmethod
    def declare(self) -> None:
        """Write which part of the block a thread computes, and its sums."""

    @abstractmethod
    def accumulate(self, frame: Frame, tile: Tile, place: Place, batch: list[Node]) -> None:
        """Write the loop over k, which adds products to the sums."""

    @abstractmethod
    def results(self, base_m: Node, base_n: Node, write: Write) -> None:
        """Write what is done with the workgroup's results, a row's neighbouring columns at a time, inside their bounds."""


class StagedBlock(Block):
    """A block whose sides pass through workgroup memory."""

    left: Stager
    right: Stager

    @abstractmethod
    def multiply(self, stage: Node | None) -> None:
        """Write the products of the blocks in workgroup memory into the sums."""

    @contextmanager
    def depths(self, body: Body, tile: Tile, place: Place) -> Iterator[Node]:
        """Open the loop over the depths of blocks; gives the depth."""
        with body.loop("depth", place.first, lambda depth: depth < place.last, fixed(tile.k)) as depth:
            yield depth

    def accumulate(self, frame: Frame, tile: Tile, place: Place, batch: list[Node]) -> None:
        """Write the loop over k: fetch a block ahead, pass the last one through workgroup memory, multiply."""
        body = frame.body
        sides = (self.left, place.base_m), (self.right, place.base_n)
        for side, base in sides:
            side.begin(batch, base)
            side.fetch(batch, base, place.first)
        stage: Name | None = body.var("stage", fixed(0)) if tile.stages > 1 else None
        # Workgroups whose part is empty take no turn; the bounds are the same for all threads of a workgroup.
        with self.depths(body, tile, place) as depth:
            for side, _ in sides:
                side.put(stage)
            body.barrier()
            following = depth + fixed(tile.k)
            with body.when(following < place.last):
                for side, base in sides:
                    side.fetch(batch, base, following)
            self.multiply(stage)
            # With two blocks, the next barrier already keeps the block being written apart from the one being read.
            if stage is None:
                body.barrier()
            else:
                body.set(stage, fixed(1) - stage)


class Reader(Protocol):
    """Gives threads what lies in workgroup memory: see :meth:`.contraction_loader.Loader.read`."""

    def read(self, depth: int, stage: Node | None, thread: Node, count: int, prefix: str) -> list[list[Node]]:
        """Write the loads of a thread's values at one depth and return them."""
        ...


def locate(body: Body, tile: Tile) -> tuple[Name, Name]:
    """Write which part of a block a thread computes: its place along m and along n."""
    threads_n = tile.n // tile.columns
    thread: Node = THREAD if tile.slices == 1 else body.let("sharing", THREAD % fixed(tile.sharing))
    if not tile.span or tile.span >= threads_n:
        across, down = thread % fixed(threads_n), thread // fixed(threads_n)
    else:
        run, runs = thread % fixed(32), threads_n // tile.span
        across = ((thread // fixed(32)) % fixed(runs)) * fixed(tile.span) + run % fixed(tile.span)
        down = (thread // fixed(32 * runs)) * fixed(32 // tile.span) + run // fixed(tile.span)
    thread_n = body.let("thread_n", across)
    return body.let("thread_m", down), thread_n


class Sums:
    """A small block of sums per thread, in registers."""

    def __init__(self, frame: Frame, tile: Tile, name: str = "sum") -> None:
        self.frame, self.tile, self.body = frame, tile, frame.body
        self.name = name
        self.groups = tile.columns // LANES
        self.packed = is_packed(frame.scalar)

    def clear(self, place: tuple[Node, Node]) -> None:
        """Declare the sums of the thread at a place, zeros."""
        body, tile = self.body, self.tile
        self.thread_m, self.thread_n = place
        kind = f"vec4<{self.frame.scalar}>" if self.packed else self.frame.scalar
        #: for each row of the thread's block its columns: vectors of four, or one by one
        self.sums = [
            [
                body.var(f"{self.name}{row}_{column}", zero(kind))
                for column in range(self.groups if self.packed else tile.columns)
            ]
            for row in range(tile.rows)
        ]

    def results(self, base_m: Node, base_n: Node, write: Write) -> None:
        """Write what is done with the thread's results, a row's neighbouring columns at a time, inside their bounds."""
        body, frame, tile = self.body, self.frame, self.tile
        step_m, step_n = tile.m // tile.rows, tile.n // tile.columns
        for number, sums in enumerate(self.sums):
            values: list[Node] = [*sums]
            if self.packed:
                values = [each.lane(lane) for each in sums for lane in range(LANES)]
            with body.when(None):
                first = self.thread_m + fixed(number // LANES * step_m)
                row = body.let("row", base_m + first * fixed(LANES) + fixed(number % LANES))
                with body.when(row < frame.m if frame.m % tile.m else None):
                    for start in range(0, tile.columns, frame.columns):
                        with body.when(None):
                            at = (self.thread_n + fixed(start // LANES * step_n)) * fixed(LANES)
                            column = body.let("column", base_n + at + fixed(start % LANES))
                            with body.when(column < frame.n if frame.n % tile.n else None):
                                write(row, column, values[start : start + frame.columns])


class ThreadSums(Sums):
    """Sums that are multiplied in float32 or integers from two sides in workgroup memory."""

    def __init__(self, frame: Frame, tile: Tile, left: Reader, right: Reader, name: str = "sum") -> None:
        super().__init__(frame, tile, name)
        self.sides = left, right

    def multiply(self, stage: Node | None) -> None:
        """Write the products of the blocks in workgroup memory into the sums."""
        body, tile = self.body, self.tile
        left, right = self.sides
        for depth in range(tile.k // tile.slices):
            with body.when(None):
                rows = left.read(depth, stage, self.thread_m, tile.rows // LANES, "a")
                columns = right.read(depth, stage, self.thread_n, self.groups, "b")
                for number, sums in enumerate(self.sums):
                    group = rows[number // LANES]
                    factor = group[0].lane(number % LANES) if self.packed else group[number % LANES]
                    values = [each for some in columns for each in some]
                    for total, value in zip(sums, values, strict=True):
                        product = (
                            total + factor * value if self.packed else self.frame.multiply_add(total, factor, value)
                        )
                        body.set(total, product)


class ThreadBlock(StagedBlock):
    """Keeps a small block of sums per thread in registers."""

    def __init__(self, frame: Frame, tile: Tile) -> None:
        self.frame, self.tile, self.body = frame, tile, frame.body
        self.loaders = (
            Loader(frame, frame.left, tile.m, tile, "left"),
            Loader(frame, frame.right, tile.n, tile, "right"),
        )
        self.left, self.right = self.loaders
        self.sums = ThreadSums(frame, tile, *self.loaders)

    def declare(self) -> None:
        self.sums.clear(locate(self.body, self.tile))
        if self.tile.slices > 1:
            self.slice = self.body.let("slice", THREAD // fixed(self.tile.sharing))
            first = self.body.let("slice_first", self.slice * fixed(self.tile.k // self.tile.slices))
            for each in self.loaders:
                each.first = first

    def multiply(self, stage: Node | None) -> None:
        self.sums.multiply(stage)

    def accumulate(self, frame: Frame, tile: Tile, place: Place, batch: list[Node]) -> None:
        super().accumulate(frame, tile, place, batch)
        if tile.slices > 1:
            self._add_slices()

    def _add_slices(self) -> None:
        """Write the sums of all slices into those of the first, always in one order."""
        body, tile, sums = self.body, self.tile, [each for row in self.sums.sums for each in row]
        parts = self.frame.module.array("parts", sums[0].type, (tile.slices - 1) * len(sums) * tile.sharing)
        thread = THREAD % fixed(tile.sharing)

        def place(slice: Node, number: int) -> Node:
            return parts[(slice * fixed(len(sums)) + fixed(number)) * fixed(tile.sharing) + thread]

        with body.when(self.slice > fixed(0)):
            for number, each in enumerate(sums):
                body.set(place(self.slice - fixed(1), number), each)
        body.barrier()
        for number, each in enumerate(sums):
            for slice in range(tile.slices - 1):
                body.set(each, self.frame.add(each, place(fixed(slice), number)))

    def results(self, base_m: Node, base_n: Node, write: Write) -> None:
        with self.body.when(self.slice.equals(fixed(0)) if self.tile.slices > 1 else None):
            self.sums.results(base_m, base_n, write)


#: makes the block of a tile kernel
MakeBlock = Callable[[Frame, Tile], Block]


def generate_tile(
    kernel: Contraction, capabilities: Capabilities, tile: Tile, make_block: MakeBlock = ThreadBlock
) -> Program:
    """Return the program of a contraction by tiles of a given variant."""
    frame = Frame(kernel, capabilities)
    parts = Parts(frame, tile.splits)
    block = make_block(frame, tile)
    place = Place(frame, tile)
    batch = frame.batch_coordinates(place.batch)
    block.declare()
    if frame.k:
        block.accumulate(frame, tile, place, batch)

    def leave_part(row: Node, column: Node, values: list[Node]) -> None:
        parts.write(frame, place.part, place.batch, row, column, values)

    def store(row: Node, column: Node, values: list[Node]) -> None:
        frame.epilogue(batch, row, column, values)

    write = leave_part if tile.splits > 1 else store
    # Sums that a driver might know are hidden behind what only the entry point knows.
    if not frame.known_sums:
        write = _function(frame, [*batch, place.batch, place.part], write)
    block.results(place.base_m, place.base_n, write)
    found = frame.module.finish(tile.threads, place.total, " (parts)" if tile.splits > 1 else "")
    return Program((found,), ()) if tile.splits == 1 else parts.program(kernel, capabilities, found)


def _function(frame: Frame, outer: list[Node], write: Write) -> Write:
    """Return what calls a function of the module that does what ``write`` does, whose text is written once for all results.

    ``outer``: names of the entry point that ``write`` uses, which the function gets, too.
    """
    names = list({each.text: each for each in outer if isinstance(each, Name)}.values())
    made: set[str] = set()

    def call(row: Node, column: Node, values: list[Node]) -> None:
        name = f"leave{len(values)}"
        if name not in made:
            made.add(name)
            given = {"row": "u32", "column": "u32"} | {f"value{lane}": each.type for lane, each in enumerate(values)}
            given |= {each.text: each.type for each in names}
            with frame.module.function(name, given, "") as (own_row, own_column, *rest):
                write(own_row, own_column, [*rest[: len(values)]])
        frame.body.add(Do(Call(name, (row, column, *values, *names), "")))

    return call


class Place:
    """Writes which block of the result a workgroup computes, and from which depth to which."""

    def __init__(self, frame: Frame, tile: Tile) -> None:
        body = frame.body
        tiles_m, tiles_n = -(-frame.m // tile.m), -(-frame.n // tile.n)
        self.total = tiles_m * tiles_n * frame.batch * tile.splits
        linear = body.let("linear", LINEAR_GROUP)
        body.leave(linear >= self.total)
        number, piece = body.let("tile", linear % (tiles_m * tiles_n)), body.let("piece", linear // (tiles_m * tiles_n))
        self.batch: Node = piece
        self.part: Node = fixed(0)
        first, last = fixed(0), u32(frame.k)
        if tile.splits > 1:
            share = -(-frame.k // tile.splits)
            depth = -(-share // tile.k) * tile.k
            self.batch, self.part = body.let("batch", piece // tile.splits), body.let("part", piece % tile.splits)
            first = self.part * depth
            last = minimum(first + depth, frame.k)
        self.first, self.last = body.let("first", first), body.let("last", last)
        if tile.band and tiles_m > 1:
            rows = min(tile.band, tiles_m)
            band, inside = body.let("band", number // (rows * tiles_n)), body.let("inside", number % (rows * tiles_n))
            high = body.let("high", minimum(u32(rows), u32(tiles_m) - band * rows))
            base_m, base_n = band * rows + inside % high, inside // high
        else:
            base_m, base_n = number // tiles_n, number % tiles_n
        self.base_m, self.base_n = body.let("base_m", base_m * tile.m), body.let("base_n", base_n * tile.n)
