"""Attention of float32 on matrix units: queries, keys, values and weights are pairs of halves, whose sums they are.

Of the products of two pairs that of what is left on both sides is left out. Units round sums towards zero: those of small products
come first, and after some columns sums move to the threads, which round to nearest. A thread has the sums of the row whose weights
it finds, so that what a larger score scales down is scaled there. Numbers of bfloat16 are single halves once they are scaled, and
their weights are, as those of float16.
"""

from __future__ import annotations

from collections.abc import Iterator

from webgpu_torch_core.ir.kernels import Attention
from webgpu_torch_core.ir.layouts import number_of_elements

from ..facts import Facts
from ..program import Capabilities, Program
from .access import LANES
from .attention_halves import HalvesSide, HalvesSides
from .attention_matrix import MatrixWriter
from .attention_matrix_tile import HALVES, PAD_HALVES, AttentionMatrixTile, attending_seconds, fitting_blocks
from .contraction import binds
from .contraction_halves import HalvesBlock
from .contraction_magnitudes import flag
from .contraction_matrix import half_of, unit_of
from .ir import Node, bitcast, choose, every, fixed, minimum, vector, zero
from .pairs import Cutter, exponent_of, makes_pairs, parts_of, unscaling

#: rows, columns at a time, subgroups that share rows and matrices below each other, that workgroups compute, and the share of the
#: units' rate that they reach with all of these busy, with products up to 64 deep and deeper ones
_BLOCKS = {
    (64, 16, 1, 1): (0.092, 0.058), (128, 16, 1, 1): (0.083, 0.045), (64, 32, 1, 1): (0.074, 0.04), (32, 32, 2, 1): (0.053, 0.059),
}  # fmt: skip
#: how many times that where numbers and weights are single halves
_SINGLE = 1.8
#: the depth up to which products are not deep; the share of the memory's bandwidth at which halves are made
_DEEP, _MAKING = 64, 0.6
#: columns whose products the units add, which round sums towards zero, before the threads do
_CHAIN = 128


class AttentionScaledTile(AttentionMatrixTile):
    """A variant: as one of halves, which numbers are once they are scaled."""

    __slots__ = ()


class AttentionPairsTile(AttentionScaledTile):
    """A variant: as one of halves, with two of them for each number."""

    __slots__ = ()
    parts = 2


def attention_pair_tiles(kernel: Attention, capabilities: Capabilities) -> Iterator[AttentionScaledTile]:
    """Return the blocks by which an adapter's matrix units can compute an attention of numbers that are no halves."""
    unit = unit_of(capabilities)
    if unit is None or len(kernel.products) != 1 or len(kernel.sums) != 1 or not makes_pairs(capabilities, unit):
        return
    [product], [total] = kernel.products, kernel.sums
    values = product.left, product.right, total.value
    if all(half_of(each) is not None for each in values):
        return
    kind = AttentionScaledTile if all(parts_of(each) == 1 for each in values) else AttentionPairsTile
    sizes = [number_of_elements(getattr(kernel, each)) for each in kernel.dimension_groups]
    # Words, halves and a report are bound besides.
    if not all(sizes) or binds(kernel.operands, kernel.outputs, capabilities) + 3 > capabilities.storage_buffers:
        return
    for tile in fitting_blocks(kind, _BLOCKS, kernel, capabilities, unit):
        if HalvesSides(kernel, tile.k, tile.v, tile.parts).fit(capabilities):
            yield tile


def attention_pairs_seconds(kernel: Attention, tile: AttentionScaledTile, facts: Facts) -> float:
    """Return an estimate of the time that blocks take for an attention, and the halves before."""
    share = _BLOCKS[tile.m, tile.n, tile.across, tile.down][tile.k > _DEEP] * (1.0 if tile.parts > 1 else _SINGLE)
    moved = 2 * sum(HalvesSides(kernel, tile.k, tile.v, tile.parts).scratch) / (facts.bandwidth * _MAKING)
    return attending_seconds(kernel, tile, facts, share) + moved + 3 * facts.dispatch


def generate_attention_pairs(kernel: Attention, capabilities: Capabilities, tile: AttentionScaledTile) -> Program:
    """Return the program of an attention by pairs of halves, which are made first."""
    return _Writer(kernel, capabilities, tile).program()


class _Halves(HalvesBlock):
    """Brings rows of a side as halves: those that are near, and behind them what is left."""

    def __init__(self, writer: _Writer, side: HalvesSide, rows: int, along_k: bool, start: int, prefix: str) -> None:
        threads, blocks = writer.tile.threads, writer.blocks
        super().__init__(
            writer.body, along_k, side.padded, rows, PAD_HALVES, threads, blocks, start, prefix, side.parts
        )  # fmt: skip
        self.module, self.side = writer.module, side

    def fetch(self, batch: list[Node], base: Node, depth: Node) -> None:
        body, side, rows = self.body, self.side, fixed(self.across)
        flat, first = side.flat(batch), base + depth
        partial = side.rows % self.across != 0
        end = side.rows if self.end is None and partial else self.end
        for number, target in enumerate(self.registers):
            eight, across = self.place(number, self.along // HALVES)
            with body.when(None):
                across = body.let("across", across)
                row = body.let("row", first + across % rows)
                inside = minimum(row, side.rows - 1) if partial else row
                found = side.eight(self.module, flat, across // rows, inside, eight)
                body.set(target, found if end is None else choose(row < end, found, zero(target.type)))


class _Writer(MatrixWriter):
    """Writes the kernel of an attention by pairs of halves."""

    tile: AttentionScaledTile
    # Weights begin so that small ones are large halves, too, and may grow up to the largest half.
    growth, reserve = 11.0, 5.0

    def bring(self) -> None:
        tile = self.tile
        _, columns, _, _, weights = tile.sides
        if tile.parts > 1:
            # What is left is multiplied first: sums are small then.
            self.turns, self.weighted = (((1, 0), (0, 1)), ((0, 0),)), ((1, 0), (0, 1), (0, 0))
        self.sides = HalvesSides(self.kernel, tile.k, tile.v, tile.parts)
        self.cutter = Cutter(self.module, tile.parts)
        self.left = _Halves(self, self.sides.rows, tile.m, True, 0 if tile.kept else self.given + weights, "m")
        self.right = _Halves(self, self.sides.columns, tile.n, True, 0, "n")
        self.values = _Halves(self, self.sides.values, tile.n, False, columns, "v")

    def program(self) -> Program:
        """Return the program."""
        self.cutter.define()
        last = self.write_pass()
        return Program((*self.sides.passes(self.capabilities), last), self.sides.scratch)

    def begin(self) -> None:
        body, sides = self.body, self.sides
        words = [each.word(self.module, each.flat(self.batch)) for each in (sides.rows, sides.columns, sides.values)]
        odd = body.let("flags", flag(words[2]))
        self.odd, self.nothing = body.let("odd", odd.differs(fixed(0))), body.let("nothing", fixed(0) - (odd >> 31))
        exponents = [
            body.let("score_exponent", exponent_of(words[0]) + exponent_of(words[1])),
            body.let("value_exponent", exponent_of(words[2])),
        ]
        self.powers = [
            [body.let(f"{name}_power{number}", each) for number, each in enumerate(unscaling(exponent))]
            for name, exponent in zip(("score", "value"), exponents, strict=True)
        ]
        vectors = self.tile.v // self.tile.members // LANES
        self.totals = [body.var(f"total{number}", zero("vec4<f32>")) for number in range(vectors)]

    def product_of(self, found: Node) -> Node:
        return found * self.powers[0][0] * self.powers[0][1]

    def keep_weights(self, place: Node, values: list[Node]) -> None:
        body, at = self.body, self.body.let(self.module.fresh("place"), place)
        pairs = [body.let(self.module.fresh("pair"), vector("f32", values[each : each + 2])) for each in range(0, 8, 2)]
        with body.when(self.odd):
            self._keep_words(at, [self.cutter.apart(each) for each in pairs])
        with body.otherwise():
            self._keep_words(at, [self.cutter.cut(each, self.nothing) for each in pairs])

    def _keep_words(self, at: Node, words: list[list[Node]]) -> None:
        for part in range(self.tile.parts):
            place = at + fixed(part * self.tile.m * self.given_pitch) if part else at
            self.body.set(self.blocks[place], vector("u32", [each[part] for each in words]))

    def correct(self, grown: Node, shrink: Node, start: Node, column: Node) -> None:
        done = (column - start) % fixed(_CHAIN)
        with self.body.when(every(start < column, done.equals(fixed(0)) | grown)):
            self._move()
            for each in self.totals:
                self.body.set(each, each * shrink)

    def _move(self) -> list[Node]:
        """Write the addition of the subgroup's sums, which are cleared, to the threads'; return the first column of each of these."""
        body, columns, totals = self.body, list[Node](), iter(self.totals)
        for first, fours in self.through_memory():
            for four in range(fours):
                total = next(totals)
                place, column = self.place_of_four(first, fixed(four))
                body.set(total, total + bitcast("vec4<f32>", self.blocks[place]))
                columns.append(column)
        for each in (one for row in self.sums for one in row):
            body.set(each, zero(each.type))
        # Scores come where the sums were.
        body.barrier()
        return columns

    def leave(self, share: Node, inside: Node | None) -> None:
        columns = self._move()
        with self.body.when(inside):
            for total, column in zip(self.totals, columns, strict=True):
                self.store_four(column, total * share * self.powers[1][0] * self.powers[1][1])
