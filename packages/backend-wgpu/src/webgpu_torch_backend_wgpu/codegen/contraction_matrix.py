"""Tiled contractions of halves on an adapter's matrix units: float16 by float16, summed in float32.

A workgroup's block of the result is shared by its subgroups. Both operands pass through workgroup memory as halves, eight to
an access, and the next blocks are fetched into registers while the current ones are multiplied: the scheme that
https://github.com/jeffbolznv/vk_cooperative_matrix_perf measures. Matrices are read and written whole: a block is always
whole, filled with zeros beyond an operand's end, and results pass through workgroup memory, where single elements are got at.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import TypeVar

from webgpu_torch_core.ir.expression import Expression, topological
from webgpu_torch_core.ir.kernels import Contraction
from webgpu_torch_core.ir.layouts import number_of_elements
from webgpu_torch_core.ir.records import Record

from ..facts import Facts
from ..gpu.interface import MatrixUnit, largest_unit
from ..program import Capabilities, Program
from .contraction import VECTOR_BYTES, Frame, Side
from .contraction_cost import blocks_seconds, splits_of
from .contraction_halves import HalvesLoader
from .contraction_laid import Laid, laid_groups, laid_sides, laying, laying_seconds
from .contraction_tile import Place, StagedBlock, Tile, Write, generate_tile
from .contraction_window import channels_inside
from .ir import Call, Index, Name, Node, Prefix, bitcast, every, fixed, zero
from .module import THREAD
from .statements import Do

#: halves, and sums, that one element of workgroup memory holds
_HALVES, _SUMS = VECTOR_BYTES // 2, VECTOR_BYTES // 4
#: elements that rows in workgroup memory are longer by, against bank conflicts
_PAD_HALVES, _PAD_SUMS = 8, 4


class MatrixTile(Tile):
    """A variant: ``rows`` and ``columns`` are a subgroup's block, made of matrices that ``unit`` multiplies.

    ``laid``: the groups of sides that are laid out first; channels are neighbours along k then.
    """

    __slots__ = ("laid", "unit")
    fields = (*Tile.fields, "unit", "laid")
    unit: MatrixUnit
    laid: tuple[str, ...]

    def __init__(self, *values: int | MatrixUnit | tuple[str, ...]) -> None:
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
#: seconds of multiplying from which on products are written out for each depth of a block: that makes them 5 % quicker, and takes
#: up to a second longer to compile
_LONG = 3e-4
#: rows of blocks that run next to each other, for the cache
_BAND = 8


def matrix_tiles_of(kernel: Contraction, capabilities: Capabilities) -> Iterator[MatrixTile]:
    """Return the tiles for an adapter's matrix units, with the sum split or not; none where they cannot compute a kernel."""
    unit = unit_of(capabilities)
    if unit is None or half_of(kernel.left) is None or half_of(kernel.right) is None:
        return
    groups = laid_groups(kernel, _values(kernel), _HALVES, False, capabilities.binding_bytes)
    yield from fitting_tiles(MatrixTile, _SHARES, unit, kernel, capabilities, groups)


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
    ways = ((), groups) if groups else ((),)
    for block in blocks:
        tile = _tile(kind, block, unit, 1, ())
        if tile.divides and tile.threads <= capabilities.invocations and tile.nbytes <= capabilities.workgroup_bytes:
            for splits in splits_of(kernel, capabilities):
                yield from (_tile(kind, block, unit, splits, laid) for laid in ways)


@cache
def _tile(
    kind: type[_Kind], block: tuple[int, int, int, int, int], unit: MatrixUnit, splits: int, laid: tuple[str, ...]
) -> _Kind:
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


def _values(kernel: Contraction) -> tuple[Expression, Expression]:
    """Return the halves of both sides."""
    return kernel.left.arguments[0], kernel.right.arguments[0]


def matrix_seconds(kernel: Contraction, tile: MatrixTile, facts: Facts) -> float:
    """Return an estimate of the time that a tile takes for a contraction, computing sides and multiplying by turns."""
    share, lead, apart = _SHARES[tile.block]
    multiplying = blocks_seconds(kernel, tile, facts, share * _REACHED * facts.products, lead, _ALONE)
    m, n, k, batch = (number_of_elements(each) for each in (kernel.m, kernel.n, kernel.k, kernel.batch))
    rounds = -(-(-(-m // tile.m) * -(-n // tile.n) * batch * tile.splits) // facts.units)
    ordered = channels_inside(kernel) if tile.laid else kernel
    work = sum(
        0.0 if group in tile.laid else _CHANNEL * width if ordered is not kernel else width * _work(kernel, group)
        for width, group in ((tile.m, "m"), (tile.n, "n"))
    ) * -(-k // tile.splits)
    computing = rounds * facts.units * work / facts.flops
    reading = kernel.nbytes() / (facts.bandwidth * _READING)
    written = sum(
        width * tile.k // tile.threads
        for width, group in ((tile.m, "m"), (tile.n, "n"))
        if ordered is kernel and not side_of(kernel, group).strided
    )
    before = laying_seconds(kernel, tile.laid, facts)
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
    laid = laid_sides(kernel, _values(kernel), tile.laid, tile, 0 if tile.splits == 1 else 1)
    ordered = channels_inside(kernel) if tile.laid else kernel
    found = generate_tile(ordered, capabilities, tile, lambda frame, _: MatrixBlock(frame, tile, laid))
    before = [laying(kernel, [*laid.values()], capabilities)] if laid else []
    return Program((*before, *found.passes), (*found.scratch, *(each.nbytes for each in laid.values())))


class MatrixBlock(StagedBlock):
    """Keeps the sums of a subgroup's block in matrices."""

    left: HalvesLoader
    right: HalvesLoader
    #: how many products of halves one of numbers is
    products = 1

    def __init__(self, frame: Frame, tile: MatrixTile, laid: Mapping[str, Laid]) -> None:
        self.frame, self.body, self.tile, self.unit = frame, frame.body, tile, tile.unit
        self.blocks = frame.module.array("blocks", "vec4<u32>", tile.nbytes // VECTOR_BYTES)
        left, right = (side_of(frame.kernel, group) for group in "mn")
        self.left = HalvesLoader(frame, left, tile.m, tile, self.blocks, 0, laid=laid.get("m"))
        self.right = HalvesLoader(frame, right, tile.n, tile, self.blocks, self.left.size, laid=laid.get("n"))

    @property
    def strided(self) -> bool:
        """Whether both sides are read in rows."""
        return self.left.side.strided and self.right.side.strided

    def declare(self) -> None:
        body, tile, unit = self.body, self.tile, self.unit
        across = tile.n // tile.columns
        self.subgroup = body.let("subgroup", THREAD // fixed(unit.threads))
        self.down = body.let("down", self.subgroup // fixed(across))
        self.row = body.let("subgroup_row", self.down * fixed(tile.rows))
        self.column = body.let("subgroup_column", self.subgroup % fixed(across) * fixed(tile.columns))
        self.sums = self.matrices("sum")

    def accumulate(self, frame: Frame, tile: Tile, place: Place, batch: list[Node]) -> None:
        if self.strided:
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
        tile, unit, body = self.tile, self.unit, self.body
        if self.written_out():
            for each in range(0, tile.k, unit.k):
                with body.when(None):
                    self.multiply_at(fixed(each))
            return
        with body.loop("deep", fixed(0), lambda deep: deep < fixed(tile.k), fixed(unit.k)) as deep:
            self.multiply_at(deep)

    def written_out(self) -> bool:
        """Return whether products are written out for each depth: not beside places that are computed, whose text is long by itself."""
        kernel, facts = self.frame.kernel, self.frame.module.capabilities.facts
        count = math.prod(map(number_of_elements, (kernel.batch, kernel.m, kernel.n, kernel.k)))
        return self.strided and 2 * count * self.products >= _LONG * _REACHED * facts.products

    def multiply_at(self, deep: Node) -> None:
        """Write the products of the matrices at a depth of the blocks."""
        columns = self.columns(deep)
        for number, sums in enumerate(self.sums):
            self.add_products(sums, self.of_row(number, deep), columns)

    def columns(self, deep: Node, part: int = 0) -> list[Node]:
        """Write the loads of the right side's matrices at a depth and return these."""
        unit = self.unit
        kind = f"subgroup_matrix_right<{unit.operand}, {unit.n}, {unit.k}>"
        places = [self.column + fixed(number * unit.n) for number in range(len(self.sums[0]))]
        return [
            self.body.let(f"b{number}{'r' * part}", self.right.matrix(kind, place, deep, part))
            for number, place in enumerate(places)
        ]

    def of_row(self, number: int, deep: Node, part: int = 0) -> Node:
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
