"""Tiled contractions of float32 on an adapter's matrix units: each number is a pair of halves, whose sum it is.

A number is rounded to a half, and what is left of it to another: together they hold all but the last bit of it. Of the products
of two such pairs, that of what is left on both sides is below the last bit and left out (H. Ootomo and R. Yokota, "Recovering
single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance", 2022,
https://arxiv.org/abs/2203.03341). Rows are scaled by powers of two so that the largest number of each is a large half, and what is
left by another, so that small numbers keep their bits. Units round sums towards zero: after a few products these are added to sums
of the threads, which are rounded to nearest. Numbers of bfloat16 and float16 are halves already, once they are scaled.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from webgpu_torch_core.ir.kernels import Contraction
from webgpu_torch_core.ir.layouts import number_of_elements

from ..facts import Facts
from ..gpu.interface import MatrixUnit
from ..program import Capabilities, Program
from .access import LANES
from .contraction import VECTOR_BYTES, Frame, Side, binds
from .contraction_cost import blocks_seconds
from .contraction_halves import HalvesLoader
from .contraction_laid import Laid, laid_groups, laid_sides, laying, laying_seconds
from .contraction_magnitudes import Magnitudes, flag, joined, magnitude, span_of
from .contraction_matrix import MatrixBlock, MatrixTile, fitting_tiles, half_of, unit_of
from .contraction_tile import Place, Tile, Write, generate_tile
from .contraction_window import channels_inside
from .ir import Array, Call, Literal, Name, Node, Prefix, bitcast, choose, every, fixed, minimum, pick, vector, zero
from .module import THREAD
from .pairs import Cutter, exponent_of, makes_pairs, parts_of, power_of_two, unscaled
from .statements import Body, Do

#: m, n and k of a workgroup's block, rows and columns of a subgroup's; the share of the units' rate that three products of halves
#: reach together with all units busy, how many steps of k pass before they do, which share a unit reaches with one block, and how
#: many of these it computes at once
_SHARES = {(128, 128, 32, 64, 32): (0.137, 310, 1.0, 1), (64, 64, 32, 32, 32): (0.104, 64, 0.75, 2)}
#: how many times as fast a product of single halves is, one of singles and pairs, and one of pairs
_PRODUCTS = {1: 1.45, 2: 1.2, 3: 1.0}
#: how many times as long it takes where a side is read number by number; at computed places; where both sides are laid
#: out; and at computed places by channels
_ONE_BY_ONE = 1.25
_COMPUTED = {(128, 128, 32, 64, 32): 1.3, (64, 64, 32, 32, 32): 1.1}
_BOTH_LAID = {(128, 128, 32, 64, 32): 0.83, (64, 64, 32, 32, 32): 0.93}
_CHANNELS = {(128, 128, 32, 64, 32): 2.2, (64, 64, 32, 32, 32): 0.9}
#: seconds that a kernel must save whose text is long, as it is where places are computed: compiling it takes long, too
_LONG_TEXT = 2e-5
#: the share of the memory's bandwidth at which magnitudes are found
_FINDING = 0.75
#: depths whose products the units add, which round sums towards zero, before the threads do
_CHAIN = 192
#: the exponent of what is left of numbers, whose products have sums of their own
_LEFT = 11


class PairTile(MatrixTile):
    """A variant: two blocks of halves for each side, or one where its numbers are halves already."""

    __slots__ = ()

    @property
    def nbytes(self) -> int:
        """Bytes of workgroup memory for all blocks, or for sums on their way from units to threads."""
        return max(
            4 * self.halves, VECTOR_BYTES * self.subgroups * self.columns // self.unit.n * self.unit.m * self.pitch
        )

    @property
    def divides(self) -> bool:
        """Whether, besides, threads always bring the same rows."""
        values = self.threads * VECTOR_BYTES // 2
        return super().divides and all(values % each == 0 for each in (self.m, self.n))

    @property
    def pitch(self) -> int:
        """Vectors from one row of a matrix to the next where its sums are on their way: one more than there are, against bank conflicts."""
        return self.unit.n // LANES + 1


def pair_tiles_of(kernel: Contraction, capabilities: Capabilities) -> Iterator[PairTile]:
    """Return the tiles for an adapter's matrix units, with the sum split or not; none where they cannot compute a kernel."""
    unit = unit_of(capabilities)
    if unit is None or not _can(kernel, capabilities, unit):
        return
    groups = laid_groups(kernel, (kernel.left, kernel.right), LANES, True, capabilities.binding_bytes)
    yield from fitting_tiles(PairTile, _SHARES, unit, kernel, capabilities, groups)


def _can(kernel: Contraction, capabilities: Capabilities, unit: MatrixUnit) -> bool:
    """Return whether both sides are read in rows, as numbers that are no halves on both, and an adapter rounds halves as it should."""
    values = kernel.left, kernel.right
    if (
        kernel.dtype.name != "float32"
        or number_of_elements(kernel.k) < unit.k
        or all(half_of(each) is not None for each in values)
    ):
        return False
    sides = Side(kernel, kernel.left, "m"), Side(kernel, kernel.right, "n")
    if not all(each.loads if each.strided else span_of(kernel, each.value) is not None for each in sides):
        return False
    bound = binds(kernel.operands, kernel.outputs, capabilities)
    # The magnitudes, what is laid out, parts of a split sum and a report are bound besides.
    return makes_pairs(capabilities, unit) and bound + 5 <= capabilities.storage_buffers


def pair_seconds(kernel: Contraction, tile: PairTile, facts: Facts) -> float:
    """Return an estimate of the time that a tile takes for a contraction, and the magnitudes of its rows before."""
    share, lead, alone, together = _SHARES[tile.block]
    rate = share * _PRODUCTS[parts_of(kernel.left) + parts_of(kernel.right) - 1] * facts.products
    sides = Side(kernel, kernel.left, "m"), Side(kernel, kernel.right, "n")
    more = laying_seconds(kernel, tile.laid, facts)
    rate /= _BOTH_LAID[tile.block] if len(tile.laid) == len(sides) else 1
    for each in sides:
        if each.group in tile.laid:
            continue
        if not each.strided and tile.laid and channels_inside(kernel) is not kernel:
            rate /= _CHANNELS[tile.block]
        elif not each.strided:
            rate /= _COMPUTED[tile.block]
            more += _LONG_TEXT
        elif each.lanes == 1:
            rate /= _ONE_BY_ONE
    multiplying = blocks_seconds(kernel, tile, facts, rate, lead, alone, together)
    moved = kernel.nbytes() / facts.bandwidth
    return max(multiplying, moved) + moved / _FINDING + facts.dispatch + more


def generate_pairs(kernel: Contraction, capabilities: Capabilities, tile: PairTile) -> Program:
    """Return the program of a contraction by pairs of halves: the magnitudes of all rows first."""
    first = 0 if tile.splits == 1 else 1
    laid = laid_sides(kernel, (kernel.left, kernel.right), tile.laid, tile, first + 1)
    magnitudes = Magnitudes(kernel, first)
    ordered = channels_inside(kernel) if tile.laid else kernel
    found = generate_tile(ordered, capabilities, tile, lambda frame, _: PairBlock(frame, tile, magnitudes, laid))
    before = [magnitudes.find(capabilities)]
    before += [laying(kernel, [*laid.values()], capabilities, magnitudes, _LEFT)] if laid else []
    scratch = (*found.scratch, magnitudes.nbytes, *(each.nbytes for each in laid.values()))
    return Program((*before, *found.passes), scratch)


class PairsLoader(HalvesLoader):
    """One side: numbers are scaled and cut on their way from registers to workgroup memory."""

    #: whether infinity or NaN is in the workgroup's rows, and a 0 that no driver knows
    odd: Node
    nothing: Node
    #: the exponent by which all rows are scaled, where the side is taken as a whole
    whole: Node

    def __init__(
        self, frame: Frame, side: Side, width: int, tile: PairTile, blocks: Array, start: int, magnitudes: Magnitudes,
        laid: Laid | None,
    ) -> None:  # fmt: skip
        super().__init__(frame, side, width, tile, blocks, start, laid=laid)
        self.magnitudes = magnitudes
        self.parts, self.pieces = parts_of(side.value), magnitudes.pieces(side)
        self.cutter = Cutter(frame.module, self.parts, _LEFT)
        #: elements of workgroup memory that all blocks take
        self.room = self.parts * self.size
        self.numbers = [[Name(f"{each.text}{half}", "vec4<f32>") for half in "ab"] for each in self.registers]

    def declare(self) -> None:
        for each in (one for some in self.numbers for one in some):
            self.body.var(each.text, None, each.type)

    def keep(self, number: int, values: list[Node]) -> None:
        if len(values) > 2:
            values = [vector("f32", values[first : first + LANES]) for first in range(0, len(values), LANES)]
        for target, value in zip(self.numbers[number], values, strict=True):
            self.body.set(target, value)

    def begin(self, batch: list[Node], base: Node) -> None:
        """Declare the registers, and write what the rows that a thread brings are scaled by."""
        super().begin(batch, base)
        body, fresh = self.body, self.frame.module.fresh
        self.scales: list[list[Node]] = []
        if self.pieces:
            self.scales = [[body.let(fresh("scale"), power_of_two(self.whole))] * 2] * self.count
            return
        for number in range(self.count if self.along_k else 1):
            row = body.let(fresh("row"), base + self.position(number)[0])
            rows = [row] if self.along_k else [row + fixed(lane) for lane in range(2 * LANES)]
            powers = [body.let(fresh("scale"), power_of_two(self.exponent(batch, each))) for each in rows]
            if not self.along_k:
                powers = [body.let(fresh("scales"), vector("f32", powers[at : at + LANES])) for at in (0, LANES)]
            self.scales.append([powers[0], powers[-1]])

    def word(self, batch: list[Node], row: Node) -> Node:
        """Write the load of a row's word and return it."""
        inside = minimum(row, self.side.rows - 1) if self.side.rows % self.width else row
        found = self.magnitudes.read(self.frame, self.side, batch, inside)
        return self.body.let(self.frame.module.fresh("word"), found)

    def exponent(self, batch: list[Node], row: Node) -> Node:
        """Write what a row is scaled by and return its exponent."""
        if self.pieces:
            return self.whole
        return self.body.let(self.frame.module.fresh("exponent"), exponent_of(self.word(batch, row)))

    def put(self, stage: Node | None) -> None:
        """Write the stores of the halves of what was fetched, and what takes their place beside infinities."""
        self.put_halves()
        body, fresh, offsets = self.body, self.frame.module.fresh, [self.offset(each) for each in range(self.count)]
        # In a loop, four numbers at a time: it seldom runs, and written out it is a sixth of the text to compile.
        with (
            body.when(self.odd),
            body.loop(fresh("four"), fixed(0), lambda four: four < fixed(2 * self.count), 1) as four,
        ):
            first = body.let(fresh("first"), (four % fixed(2)).equals(fixed(0)))
            at = body.let(fresh("at"), pick(offsets, four // fixed(2)) + fixed(self.start))
            cells = [self.blocks[at + fixed(part * self.size) if part else at] for part in range(self.parts)]
            before = [body.let(fresh("before"), each) for each in cells]
            old = [[each.lane(lane) for lane in range(LANES)] for each in before]
            mine = [[choose(first, each[lane], each[lane + 2]) for lane in (0, 1)] for each in old]
            words = [self.cutter.apart(each) for each in self.pairs(four, mine)]
            for part, (cell, kept) in enumerate(zip(cells, old, strict=True)):
                new = [each[part] for each in words]
                body.set(cell, choose(first, vector("u32", [*new, *kept[2:]]), vector("u32", [*kept[:2], *new])))

    def put_halves(self) -> None:
        """Write the stores of all parts, cut as numbers are that meet no infinity."""
        body = self.body
        self.scaled = self._scaled()
        for number in range(self.count):
            values = [each.lane(lane) for each in self.scaled[2 * number : 2 * number + 2] for lane in range(LANES)]
            for part, words in enumerate(self.cutter.halves(values, lambda pair: self.cutter.cut(pair, self.nothing))):
                body.set(self.cell(number, part), vector("u32", words))

    def pairs(self, four: Node, words: list[list[Node]]) -> list[Node]:
        """Return the ``four``-th four scaled numbers as two pairs; ``words``: both of each part that :meth:`put_halves` left of them."""
        found = self.body.let(self.frame.module.fresh("scaled"), pick(self.scaled, four))
        return [vector("f32", [found.lane(lane), found.lane(lane + 1)]) for lane in (0, 2)]

    def _scaled(self) -> list[Node]:
        """Write what was fetched, scaled, and return it, four numbers each."""
        body, fresh = self.body, self.frame.module.fresh
        scales = [self.scales[number if self.along_k else 0] for number in range(self.count)]
        sources = [
            (source, scale)
            for own, some in zip(self.numbers, scales, strict=True)
            for source, scale in zip(own, some, strict=True)
        ]
        return [body.let(fresh("scaled"), source * scale) for source, scale in sources]


class LaidLoader(PairsLoader):
    """One side that is laid out: on its way to workgroup memory it changes beside infinities only."""

    def declare(self) -> None:
        #: for each fetch the words of each part
        self.halves = [
            [self.body.var(f"{each.text}{part}", None, each.type) for part in range(self.parts)]
            for each in self.registers
        ]

    def begin(self, batch: list[Node], base: Node) -> None:
        self.declare()

    def keep(self, number: int, values: list[Node]) -> None:
        for target, value in zip(self.halves[number], values, strict=True):
            self.body.set(target, value)

    def put_halves(self) -> None:
        for number, parts in enumerate(self.halves):
            for part, source in enumerate(parts):
                self.body.set(self.cell(number, part), source)

    def pairs(self, four: Node, words: list[list[Node]]) -> list[Node]:
        body, fresh = self.body, self.frame.module.fresh
        found: list[Node] = []
        for each in zip(*words, strict=True):
            halves = [Call("unpack2x16float", (word,), "vec2<f32>") for word in each]
            pair: Node = halves[0]
            for rest in halves[1:]:
                pair = pair + rest * Literal(2.0**-_LEFT, "f32")
            found.append(body.let(fresh("pair"), pair))
        return found


class PairBlock(MatrixBlock):
    """Keeps sums of a few products in matrices, and those of all in registers of the threads."""

    tile: PairTile
    left: PairsLoader
    right: PairsLoader

    def __init__(self, frame: Frame, tile: PairTile, magnitudes: Magnitudes, laid: dict[str, Laid]) -> None:
        self.frame, self.body, self.tile, self.unit = frame, frame.body, tile, tile.unit
        self.blocks = frame.module.array("blocks", "vec4<u32>", tile.nbytes // VECTOR_BYTES)

        def loader(side: Side, width: int, start: int) -> PairsLoader:
            own, found = Side(frame.kernel, side.value, side.group), laid.get(side.group)
            kind = PairsLoader if found is None else LaidLoader
            return kind(frame, own, width, tile, self.blocks, start, magnitudes, found)

        self.left = loader(frame.left, tile.m, 0)
        self.right = loader(frame.right, tile.n, self.left.room)
        self.products = self.left.parts + self.right.parts - 1

    def declare(self) -> None:
        super().declare()
        body, unit = self.body, self.unit
        self.lane = body.let("lane", THREAD % fixed(unit.threads))
        #: what is left of both sides, times the other's halves
        self.rests = self.matrices("rest") if self.left.parts + self.right.parts > 2 else []
        #: how many vectors of a matrix's sums a thread keeps
        self.share = unit.m * unit.n // (LANES * unit.threads)
        self.totals = [
            [
                [body.var(f"total{row}_{column}_{each}", None, "vec4<f32>") for each in range(self.share)]
                for column in range(len(self.sums[0]))
            ]
            for row in range(len(self.sums))
        ]

    def accumulate(self, frame: Frame, tile: Tile, place: Place, batch: list[Node]) -> None:
        """Write whether a row of the block holds infinity or NaN, then the loop over k."""
        self.batch = batch
        self.left.cutter.define()
        left = self._look(self.left, batch, place.base_m, self.tile.m)
        right = self._look(self.right, batch, place.base_n, self.tile.n)
        # No driver knows that all of its bits are 0, as they are where it is used: beside no flag.
        nothing = self.body.let("nothing", fixed(0) - (flag(left | right) >> 31))
        words = [self._together(left), self._together(right)]
        odd = self.body.let("odd", flag(words[0] | words[1]).differs(fixed(0)))
        for each, word in zip((self.left, self.right), words, strict=True):
            each.odd, each.nothing = odd, nothing
            if each.pieces:
                each.whole = self.body.let(frame.module.fresh("exponent"), exponent_of(word))
        super().accumulate(frame, tile, place, batch)

    def multiplied(self, place: Place, depth: Node) -> None:
        done = ((depth - place.first) % fixed(_CHAIN)).equals(fixed(0)) | (depth >= place.last)
        with self.body.when(every(place.first < depth, done)):
            self._move(self.sums, None)

    def _look(self, side: PairsLoader, batch: list[Node], base: Node, width: int) -> Node:
        """Write what a thread finds of the words of a side's rows in the block, or of all its pieces, and return it."""
        if not side.pieces:
            return side.word(batch, base + THREAD % fixed(width))
        body, fresh = self.body, self.frame.module.fresh
        found = body.var(fresh("word"), fixed(0))
        with body.loop(fresh("piece"), THREAD, lambda at: at < side.pieces, fixed(self.tile.threads)) as piece:
            word = side.magnitudes.piece(self.frame, side.side, piece)
            body.set(found, joined(found, body.let(fresh("other"), word)))
        return found

    def _together(self, word: Node) -> Node:
        """Write what all threads of the workgroup found together and return it."""
        body, fresh = self.body, self.frame.module.fresh
        flags = self.frame.module.array(fresh("words"), "u32", self.tile.subgroups)
        top, odd = (Call("subgroupMax", (each,), "u32") for each in (magnitude(word), flag(word)))
        body.set(flags[self.subgroup], top | odd)
        body.barrier()
        found: Node = flags[0]
        for each in range(1, self.tile.subgroups):
            found = body.let(fresh("word"), joined(found, flags[each]))
        return found

    def multiply_at(self, deep: Node) -> None:
        columns = self.columns(deep)
        others = self.columns(deep, 1) if self.right.parts > 1 else []
        for number, sums in enumerate(self.sums):
            row = self.of_row(number, deep)
            if self.left.parts > 1:
                self.add_products(self.rests[number], self.of_row(number, deep, 1), columns)
            if others:
                self.add_products(self.rests[number], row, others)
            self.add_products(sums, row, columns)

    @contextmanager
    def depths(self, body: Body, tile: Tile, place: Place) -> Iterator[Node]:
        """Open the loop over the depths of blocks: after so many products, and after the last, sums move to the threads."""
        with body.loop("chain", place.first, lambda chain: chain < place.last, fixed(_CHAIN)) as chain:
            end = body.let("chain_end", minimum(chain + fixed(_CHAIN), place.last))
            with body.loop("depth", chain, lambda depth: depth < end, fixed(tile.k)) as depth:
                yield depth
            self._move(self.sums, None)

    def _move(self, matrices: list[list[Name]], scale: float | None) -> None:
        """Write the addition of matrices, which are cleared, to what the threads keep: as many rows at a time as there is room for."""
        body, unit = self.body, self.unit
        pitch, per = self.tile.pitch, unit.n // LANES
        size = unit.m * pitch
        row = len(matrices[0]) * size
        rows = min(self.blocks.size // (self.tile.subgroups * row), len(matrices))
        inside = body.let(
            self.frame.module.fresh("inside"), self.lane // fixed(per) * fixed(pitch) + self.lane % fixed(per)
        )
        for first in range(0, len(matrices), rows):
            some = [each for row_of in matrices[first : first + rows] for each in row_of]
            start = body.let(self.frame.module.fresh("start"), self.subgroup * fixed(rows * row))
            for number, each in enumerate(some):
                arguments = (Prefix("&", self.blocks), start + fixed(number * size), each, fixed(pitch))
                body.add(Do(Call("subgroupMatrixStore<row_major>", arguments, "")))
                body.set(each, zero(each.type))
            body.barrier()
            totals = [each for row_of in self.totals[first : first + rows] for each in row_of]
            for number, own in enumerate(totals):
                for at, total in enumerate(own):
                    place = start + inside + fixed(number * size + at * (unit.threads // per) * pitch)
                    value = bitcast("vec4<f32>", self.blocks[place])
                    body.set(total, total + (value if scale is None else value * Literal(scale, "f32")))
            body.barrier()

    def results(self, base_m: Node, base_n: Node, write: Write) -> None:
        body, unit, frame, tile, fresh = self.body, self.unit, self.frame, self.tile, self.frame.module.fresh
        if self.rests:
            self._move(self.rests, 2.0**-_LEFT)
        per = unit.n // LANES
        first_row = body.let("first_row", base_m + self.row + self.lane // fixed(per))
        first_column = body.let("first_column", base_n + self.column + self.lane % fixed(per) * fixed(LANES))
        columns = [body.let(fresh("column"), first_column + fixed(at * unit.n)) for at in range(len(self.sums[0]))]
        whole = bool(self.right.pieces)
        powers = [
            [self.right.exponent(self.batch, each + fixed(lane)) for lane in range(1 if whole else LANES)]
            for each in columns
        ]
        turns = [[column[at] for column in row] for row in self.totals for at in range(self.share)]
        # A loop: what becomes of results may be long, and written out for each of them it takes long to compile.
        with body.loop(fresh("turn"), fixed(0), lambda turn: turn < fixed(len(turns)), 1) as turn:
            row = body.let(fresh("row"), first_row + turn * fixed(unit.threads // per))
            own = self.left.exponent(self.batch, row)
            sums = [body.let(fresh("sums"), pick(each, turn)) for each in zip(*turns, strict=True)]
            with body.when(row < frame.m if frame.m % tile.m else None):
                # One exponent for all columns, or one for each.
                both = [body.let(fresh("both"), own + self.right.whole)] if whole else []
                for column, others, found in zip(columns, powers, sums, strict=True):
                    if whole:
                        result = body.let(fresh("result"), unscaled(found, both[0]))
                        values: list[Node] = [result.lane(lane) for lane in range(LANES)]
                    else:
                        values = [
                            body.let(fresh("value"), unscaled(found.lane(lane), body.let(fresh("both"), own + other)))
                            for lane, other in enumerate(others)
                        ]
                    for first in range(0, LANES, frame.columns):
                        place = column + fixed(first) if first else column
                        with body.when(place < frame.n if frame.n % tile.n else None):
                            write(row, place, values[first : first + frame.columns])
