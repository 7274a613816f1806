"""Tiled contractions of halves on an adapter's matrix units: float16 by float16, summed in float32.

A workgroup's block of the result is shared by its subgroups. Both operands pass through workgroup memory as halves, eight to
an access, and the next blocks are fetched into registers while the current ones are multiplied: the scheme that
https://github.com/jeffbolznv/vk_cooperative_matrix_perf measures. Matrices are read and written whole: a block is always
whole, filled with zeros beyond an operand's end, and results pass through workgroup memory, where single elements are got at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import TypeVar

from webgpu_torch_core.ir.expression import Expression, topological
from webgpu_torch_core.ir.kernels import Contraction
from webgpu_torch_core.ir.layouts import number_of_elements
from webgpu_torch_core.ir.records import Record

from ..facts import Facts
from ..gpu.interface import MatrixUnit, largest_unit
from ..program import Capabilities, Program
from .contraction import VECTOR_BYTES, Frame, Side, halves_in_words
from .contraction_cost import blocks_seconds, splits_of
from .contraction_laid import Laid, laid_groups, laid_sides, laying, laying_seconds
from .contraction_tile import Place, StagedBlock, Tile, Write, generate_tile
from .contraction_window import channels_inside
from .ir import Array, Call, Index, Name, Node, Prefix, bitcast, choose, every, fixed, minimum, zero
from .module import THREAD, split_index
from .statements import Body, Do

#: halves, and sums, that one element of workgroup memory holds
_HALVES, _SUMS = VECTOR_BYTES // 2, VECTOR_BYTES // 4
#: elements that rows in workgroup memory are longer by, against bank conflicts
_PAD_HALVES, _PAD_SUMS = 8, 4


class MatrixTile(Tile):
    """A variant: ``rows`` and ``columns`` are a subgroup's block, made of matrices that ``unit`` multiplies.

    ``laid``: whether sides are laid out first, as :func:`.contraction_laid.laid_groups` says, and channels are neighbours along k.
    """

    __slots__ = ("laid", "unit")
    fields = (*Tile.fields, "unit", "laid")
    unit: MatrixUnit
    laid: bool

    def __init__(self, *values: int | MatrixUnit | bool) -> None:
        Record.__init__(self, *values)

    @property
    def threads(self) -> int:
        return self.subgroups * self.unit.threads

    @property
    def subgroups(self) -> int:
        """Subgroups per workgroup."""
        return (self.m // self.rows) * (self.n // self.columns)

    @property
    def halves(self) -> int:
        """How many halves both blocks take in workgroup memory, whichever way they lie."""
        return sum(max(each * (self.k + self.pad), self.k * (each + self.pad)) for each in (self.m, self.n))

    @property
    def nbytes(self) -> int:
        """Bytes of workgroup memory for both blocks, or for the sums that leave at once."""
        sums = self.m // self.rows * self.unit.m * (self.n + _PAD_SUMS)
        return max(2 * self.halves, 4 * sums)

    @property
    def divides(self) -> bool:
        """Whether a subgroup's block consists of whole matrices, and threads bring as much each."""
        unit, whole = self.unit, _HALVES * self.threads
        parts = (
            (self.rows, unit.m),
            (self.columns, unit.n),
            (self.k, unit.k),
            (self.m * self.k, whole),
            (self.n * self.k, whole),
        )
        return all(size % part == 0 for size, part in parts)


_Kind = TypeVar("_Kind", bound=MatrixTile)
#: m, n and k of a workgroup's block, rows and columns of a subgroup's; the share of the units' rate that they reach with all
#: units busy, how many steps of k pass before they do, and which part of computing sides and multiplying they do not overlap
_SHARES = {
    # For few rows: what counts is how the other operand is read.
    (16, 64, 128, 16, 16): (0.2, 128, 0.0),
    (64, 16, 128, 16, 16): (0.2, 128, 0.0),
    (128, 128, 32, 64, 64): (1.0, 128, 0.18),
    (256, 128, 32, 64, 64): (0.93, 160, 0.75),
    (128, 64, 32, 64, 32): (0.69, 96, 0.0),
    (64, 128, 32, 32, 64): (0.69, 96, 0.0),
    (64, 64, 64, 32, 32): (0.65, 64, 0.0),
}
#: the share of the memory's bandwidth that is reached where most of what is read is read once
_READING = 0.9
#: the share of the units' rate by itself that the largest tiles reach
_REACHED = 0.463
#: the share of its rate that a unit reaches with one block
_ALONE = 0.68
#: float32 operations that finding, loading and packing a single element lasts, and a step that computes it
_SINGLE, _STEP = 60, 1.3
#: and the same of one of eight channels of one place
_CHANNEL = 15
#: seconds that a kernel must save for each element of a side that is written out: compiling takes longer for it
_WRITTEN = 1e-6
#: rows of blocks that run next to each other, for the cache
_BAND = 8


def matrix_tiles_of(kernel: Contraction, capabilities: Capabilities) -> Iterator[MatrixTile]:
    """Return the tiles for an adapter's matrix units, with the sum split or not; none where they cannot compute a kernel."""
    unit = unit_of(capabilities)
    if unit is None or half_of(kernel.left) is None or half_of(kernel.right) is None:
        return
    yield from fitting_tiles(
        MatrixTile, _SHARES, unit, kernel, capabilities, _laid_groups(kernel, capabilities.binding_bytes)
    )


def fitting_tiles(
    kind: type[_Kind],
    blocks: Iterable[tuple[int, int, int, int, int]],
    unit: MatrixUnit,
    kernel: Contraction,
    capabilities: Capabilities,
    groups: tuple[str, ...],
) -> Iterator[_Kind]:
    """Return the tiles of some blocks that an adapter has threads and workgroup memory for, with the sum split or not.

    ``groups``: those of sides that may be laid out.
    """
    ways = (False, True) if groups else (False,)
    for block in blocks:
        tile = _tile(kind, block, unit, 1, False)
        if tile.divides and tile.threads <= capabilities.invocations and tile.nbytes <= capabilities.workgroup_bytes:
            for splits in splits_of(kernel, capabilities):
                yield from (_tile(kind, block, unit, splits, laid) for laid in ways)


@cache
def _tile(kind: type[_Kind], block: tuple[int, int, int, int, int], unit: MatrixUnit, splits: int, laid: bool) -> _Kind:
    return kind(*block, 1, 0, _PAD_HALVES, _BAND, splits, 1, unit, laid)


def unit_of(capabilities: Capabilities) -> MatrixUnit | None:
    """Return the largest product of halves that an adapter's matrix units sum in float32 and that blocks are made of."""
    units = [
        each
        for each in capabilities.matrix_units
        if all(32 % size == size % 8 == 0 for size in (each.m, each.n, each.k))
    ]
    return largest_unit(units) if capabilities.half and capabilities.facts.products else None


def half_of(side: Expression) -> Expression | None:
    """Return the float16 value that a side converts to float32; None where it is no such conversion."""
    if side.step == "cast" and side.dtype.name == "float32" and side.arguments[0].dtype.name == "float16":
        return side.arguments[0]
    return None


def _laid_groups(kernel: Contraction, binding_bytes: int = 1 << 62) -> tuple[str, ...]:
    """Return the groups of the sides of halves that may be laid out."""
    return laid_groups(kernel, (kernel.left.arguments[0], kernel.right.arguments[0]), _HALVES, False, binding_bytes)


def matrix_seconds(kernel: Contraction, tile: MatrixTile, facts: Facts) -> float:
    """Return an estimate of the time that a tile takes for a contraction, computing sides and multiplying by turns."""
    share, lead, apart = _SHARES[tile.block]
    multiplying = blocks_seconds(kernel, tile, facts, share * _REACHED * facts.products, lead, _ALONE)
    m, n, k, batch = (number_of_elements(each) for each in (kernel.m, kernel.n, kernel.k, kernel.batch))
    rounds = -(-(-(-m // tile.m) * -(-n // tile.n) * batch * tile.splits) // facts.units)
    laid = _laid_groups(kernel) if tile.laid else ()
    ordered = channels_inside(kernel) if laid else kernel
    work = sum(
        0.0 if group in laid else _CHANNEL * width if ordered is not kernel else width * _work(kernel, group)
        for width, group in ((tile.m, "m"), (tile.n, "n"))
    ) * -(-k // tile.splits)
    computing = rounds * facts.units * work / facts.flops
    reading = kernel.nbytes() / (facts.bandwidth * _READING)
    written = sum(
        width * tile.k // tile.threads
        for width, group in ((tile.m, "m"), (tile.n, "n"))
        if ordered is kernel and not side_of(kernel, group).strided
    )
    before = laying_seconds(kernel, laid, facts)
    return max(multiplying, computing, reading) + apart * min(multiplying, computing) + _WRITTEN * written + before


@lru_cache(64)
def _work(kernel: Contraction, group: str) -> float:
    """Return what an element of a side costs in float32 operations where elements are computed one by one."""
    side = side_of(kernel, group)
    return 0 if side.lanes > 1 else _SINGLE + _STEP * sum(1 for _ in topological(side.value))


def side_of(kernel: Contraction, group: str) -> Side:
    """Return one operand as halves."""
    return Side(kernel, (kernel.left if group == "m" else kernel.right).arguments[0], group, _HALVES)


def generate_matrix(kernel: Contraction, capabilities: Capabilities, tile: MatrixTile) -> Program:
    """Return the program of a contraction of halves by tiles of matrices; the sides that are laid out first."""
    if not tile.laid:
        return generate_tile(kernel, capabilities, tile, lambda frame, _: MatrixBlock(frame, tile, {}))
    first = 0 if tile.splits == 1 else 1
    laid = laid_sides(kernel, (kernel.left.arguments[0], kernel.right.arguments[0]), _laid_groups(kernel), tile, first)
    ordered = channels_inside(kernel)
    found = generate_tile(ordered, capabilities, tile, lambda frame, _: MatrixBlock(frame, tile, laid))
    scratch = (*found.scratch, *(each.nbytes for each in laid.values()))
    return Program((laying(kernel, [*laid.values()], capabilities), *found.passes), scratch)


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
        """Return the place in workgroup memory of fetch ``number``, in one of several blocks that lie one behind the other."""
        row, deep = self.position(number)
        across, along = (row, deep) if self.along_k else (deep, row)
        at = across * fixed(self.pitch) + along // fixed(_HALVES)
        start = self.start + part * self.size
        return self.blocks[at + fixed(start) if start else at]

    def matrix(self, kind: str, row: Node, deep: int, part: int = 0) -> Node:
        """Return the matrix at a row, a multiple of eight, and a depth of the block."""
        row_major = self.along_k is kind.startswith("subgroup_matrix_left")
        start = self.start + part * self.size
        if self.along_k:
            at = row * fixed(self.pitch) + fixed(start + deep // _HALVES)
        else:
            at = row // fixed(_HALVES) + fixed(start + deep * self.pitch)
        order = "row_major" if row_major else "col_major"
        where = Prefix("&", self.blocks)
        return Call(f"subgroupMatrixLoad<{kind}, {order}>", (where, at, fixed(self.pitch)), kind)


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


class MatrixBlock(StagedBlock):
    """Keeps the sums of a subgroup's block in matrices."""

    left: HalvesLoader
    right: HalvesLoader

    def __init__(self, frame: Frame, tile: MatrixTile, laid: Mapping[str, Laid]) -> None:
        self.frame, self.body, self.tile, self.unit = frame, frame.body, tile, tile.unit
        self.blocks = frame.module.array("blocks", "vec4<u32>", tile.nbytes // VECTOR_BYTES)
        left, right = (side_of(frame.kernel, group) for group in "mn")
        self.left = HalvesLoader(frame, left, tile.m, tile, self.blocks, 0, laid=laid.get("m"))
        self.right = HalvesLoader(frame, right, tile.n, tile, self.blocks, self.left.size, laid=laid.get("n"))

    def declare(self) -> None:
        body, tile, unit = self.body, self.tile, self.unit
        across = tile.n // tile.columns
        self.subgroup = body.let("subgroup", THREAD // fixed(unit.threads))
        self.down = body.let("down", self.subgroup // fixed(across))
        self.row = body.let("subgroup_row", self.down * fixed(tile.rows))
        self.column = body.let("subgroup_column", self.subgroup % fixed(across) * fixed(tile.columns))
        self.sums = self.matrices("sum")

    def accumulate(self, frame: Frame, tile: Tile, place: Place, batch: list[Node]) -> None:
        if self.left.side.strided and self.right.side.strided:
            super().accumulate(frame, tile, place, batch)
        else:
            # Compiling long text takes long, and places that are computed make text long.
            self._accumulate_once(place, batch)

    def _accumulate_once(self, place: Place, batch: list[Node]) -> None:
        """Write the loop over k whose turns load a block, multiply the one before, and pass on what was loaded: loads once."""
        body, tile = self.body, self.tile
        sides = (self.left, place.base_m), (self.right, place.base_n)
        for side, base in sides:
            side.begin(batch, base)
        # The first turn multiplies zeros.
        with body.loop("cleared", THREAD, lambda at: at < fixed(self.blocks.size), fixed(tile.threads)) as cleared:
            body.set(self.blocks[cleared], zero("vec4<u32>"))
        body.barrier()
        with body.loop("depth", place.first, lambda depth: depth < place.last + fixed(tile.k), fixed(tile.k)) as depth:
            inside = body.let("inside", depth < place.last)
            with body.when(inside):
                for side, base in sides:
                    side.fetch(batch, base, depth)
            self.multiply(None)
            body.barrier()
            self.multiplied(place, depth)
            with body.when(inside):
                for side, _ in sides:
                    side.put(None)
            body.barrier()

    def multiplied(self, place: Place, depth: Node) -> None:
        """Write what follows the products of what lies before a depth, where loads are written once."""

    def matrices(self, name: str) -> list[list[Name]]:
        """Declare the matrices of a subgroup's block, zeros."""
        tile, unit = self.tile, self.unit
        kind = f"subgroup_matrix_result<{unit.result}, {unit.n}, {unit.m}>"
        return [
            [self.body.var(f"{name}{row}_{column}", None, kind) for column in range(tile.columns // unit.n)]
            for row in range(tile.rows // unit.m)
        ]

    def multiply(self, stage: Node | None) -> None:
        for deep in range(0, self.tile.k, self.unit.k):
            with self.body.when(None):
                columns = self.columns(deep)
                for number, sums in enumerate(self.sums):
                    self.add_products(sums, self.of_row(number, deep), columns)

    def columns(self, deep: int, part: int = 0) -> list[Node]:
        """Write the loads of the right side's matrices at a depth and return these."""
        unit = self.unit
        kind = f"subgroup_matrix_right<{unit.operand}, {unit.n}, {unit.k}>"
        places = [self.column + fixed(number * unit.n) for number in range(len(self.sums[0]))]
        return [
            self.body.let(f"b{number}{'r' * part}", self.right.matrix(kind, place, deep, part))
            for number, place in enumerate(places)
        ]

    def of_row(self, number: int, deep: int, part: int = 0) -> Node:
        """Write the load of the left side's matrix in a row of these at a depth and return it."""
        unit = self.unit
        kind = f"subgroup_matrix_left<{unit.operand}, {unit.k}, {unit.m}>"
        found = self.left.matrix(kind, self.row + fixed(number * unit.m), deep, part)
        return self.body.let(f"a{number}{'r' * part}", found)

    def add_products(self, sums: list[Name], row: Node, columns: list[Node]) -> None:
        """Write the products of a matrix with several into their sums."""
        for total, column in zip(sums, columns, strict=True):
            self.body.set(total, Call("subgroupMatrixMultiplyAccumulate", (row, column, total), total.type))

    def results(self, base_m: Node, base_n: Node, write: Write) -> None:
        body, frame, tile, unit = self.body, self.frame, self.tile, self.unit
        pitch, per = tile.n + _PAD_SUMS, tile.n // frame.columns
        count = tile.m // tile.rows * unit.m * per
        for number, sums in enumerate(self.sums):
            with body.when(None):
                self._leave(sums, pitch // _SUMS)
                body.barrier()
                with body.loop("out", THREAD, lambda out: out < fixed(count), fixed(tile.threads)) as out:
                    below = body.let("below", out // fixed(per))
                    beside = body.let("beside", out % fixed(per) * fixed(frame.columns))
                    inner = below // fixed(unit.m) * fixed(tile.rows) + below % fixed(unit.m) + fixed(number * unit.m)
                    row, column = body.let("row", base_m + inner), body.let("column", base_n + beside)
                    guard = [row < frame.m] if frame.m % tile.m else []
                    guard += [column < frame.n] if frame.n % tile.n else []
                    with body.when(every(*guard) if guard else None):
                        write(row, column, self._found(below * fixed(pitch) + beside))
                if sums is not self.sums[-1]:
                    body.barrier()

    def _leave(self, sums: list[Name], pitch: int) -> None:
        """Write a row of the subgroup's matrices into workgroup memory."""
        for number, total in enumerate(sums):
            at = self.down * fixed(self.unit.m * pitch) + (self.column + fixed(number * self.unit.n)) // fixed(_SUMS)
            arguments = (Prefix("&", self.blocks), at, total, fixed(pitch))
            self.body.add(Do(Call("subgroupMatrixStore<row_major>", arguments, "")))

    def _found(self, at: Node) -> list[Node]:
        """Return the sums at a place of workgroup memory, neighbouring columns."""
        found = self.blocks[at // fixed(_SUMS)]
        if self.frame.columns == 1:
            return [self.body.let("found", bitcast("f32", Index(found, at % fixed(_SUMS))))]
        found = self.body.let("found", bitcast("vec4<f32>", found))
        return [found.lane(lane) for lane in range(self.frame.columns)]
