"""Attention of halves on matrix units: both products by matrices, the softmax between them by a thread or two for each row.

Rows are one subgroup's, or shared by several, which have columns and values of their own. Scores leave matrices through
workgroup memory, where the threads of a row turn them into weights, halves. Columns, values, scores and weights have memory of
their own: what the next block needs is put there while nobody reads it, and threads meet twice a block. Sums stay in matrices,
whose elements no thread can tell apart: they are scaled down only where a row's largest score grew by much since it was last
done, which few blocks of columns do. Weights may exceed one meanwhile (T. Dao et al., "FlashAttention-4: algorithm and kernel pipelining co-design", 2026).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from webgpu_torch_core.ir.dtypes import float32
from webgpu_torch_core.ir.expression import constant
from webgpu_torch_core.ir.kernels import Attention
from webgpu_torch_core.ir.layouts import number_of_elements

from ..program import Capabilities, Pass, Program
from .access import LANES
from .attention import RowWriter
from .attention_matrix_tile import HALVES, PAD_HALVES, PAD_SUMS, SUMS, AttentionMatrixTile
from .attention_parts import LOWEST, as_contraction, store_row, store_sum, vector_dimension
from .attention_softmax import power
from .combining import together
from .contraction import Frame, halves_in_words
from .contraction_halves import HalvesBlock, HalvesLoader
from .contraction_matrix import side_of
from .ir import Call, Literal, Name, Node, Prefix, bitcast, choose, convert_to, every, fixed, vector
from .module import THREAD, split_index
from .statements import Do

#: by how much a row's largest score may grow before what was summed is scaled down: weights of halves reach e to that power
_GROWTH = 5.5


def generate_attention_matrix(kernel: Attention, capabilities: Capabilities, tile: AttentionMatrixTile) -> Program:
    """Return the program of an attention on matrix units."""
    return MatrixWriter(kernel, capabilities, tile).write()


class _Scores:
    """The four scores of a row that are looked at, as :class:`RowWriter` finds products."""

    def __init__(self) -> None:
        self.sums: list[list[Node]] = [[]]


class _Found:
    """A product of which a thread sees some scores at a time."""

    def __init__(self) -> None:
        self.sums = _Scores()


def _larger(one: Node, other: Node) -> Node:
    return Call("max", (one, other), "f32")


class MatrixWriter(RowWriter):
    """Writes the kernel of an attention on matrix units."""

    tile: AttentionMatrixTile
    left: HalvesBlock
    right: HalvesBlock
    values: HalvesBlock
    #: which parts of both sides are multiplied, in turns over all depths, and which of weights and values
    turns: Sequence[Sequence[tuple[int, int]]] = (((0, 0),),)
    weighted: Sequence[tuple[int, int]] = ((0, 0),)
    #: by how much a row's largest score may grow before what was summed is scaled down, and how far above it that looks for more
    growth, reserve = _GROWTH, 0.0

    def __init__(self, kernel: Attention, capabilities: Capabilities, tile: AttentionMatrixTile) -> None:
        super().__init__(kernel, capabilities, tile)
        [self.total] = kernel.sums
        self.width = number_of_elements(kernel.k if self.total.along == "k" else kernel.v)
        _, columns, values, scores, _ = tile.sides
        self.blocks = self.module.array("blocks", "vec4<u32>", tile.size)
        self.grown = self.module.array("grown", "u32", 1)
        if tile.across > 1:
            self.shrinks = self.module.array("shrinks", "f32", tile.m)
        self.scores, self.given = columns + values, columns + values + scores
        self.pitch, self.given_pitch = (tile.n + PAD_SUMS) // SUMS, (tile.n + PAD_HALVES) // HALVES
        self.bring()
        self.found = _Found()
        self.products = [self.found]
        unit = tile.unit
        self.kinds = {
            "left": f"subgroup_matrix_left<{unit.operand}, {unit.k}, {unit.m}>",
            "right": f"subgroup_matrix_right<{unit.operand}, {unit.n}, {unit.k}>",
            "result": f"subgroup_matrix_result<{unit.result}, {unit.n}, {unit.m}>",
        }
        self.down = range(tile.down)
        self.kept: dict[int, dict[int, list[Name]]] = {}

    def bring(self) -> None:
        """Set what brings rows, columns and values into workgroup memory."""
        kernel, tile, capabilities = self.kernel, self.tile, self.capabilities
        [product] = kernel.products
        _, columns, _, _, weights = tile.sides
        one = as_contraction(kernel, "m", "n", product.depth, product.left, product.right)
        other = as_contraction(kernel, "m", self.total.along, "n", constant(0.0, float32), self.total.value)
        frames = [Frame(each, capabilities, self.module) for each in (one, other)]
        rows = 0 if tile.kept else self.given + weights
        self.left = HalvesLoader(frames[0], side_of(one, "m"), tile.m, tile.product(), self.blocks, rows)
        self.right = HalvesLoader(frames[0], side_of(one, "n"), tile.n, tile.product(), self.blocks, 0)
        self.values = HalvesLoader(frames[1], side_of(other, "n"), tile.v, tile.sum(), self.blocks, columns, "v")

    def write(self) -> Program:
        """Return the program."""
        return Program((self.write_pass(),), ())

    def write_pass(self) -> Pass:
        """Return the pass that has the results."""
        body, tile, unit = self.body, self.tile, self.tile.unit
        count = self.blocks_m * self.batches
        self.batch = split_index(self.module, self._begin(count), self.kernel.batch)
        self._find()
        self.rows = [self._row(0)]
        start, stop = self._bounds()
        self.values.end = stop if self.kernel.last is not None else None
        for each in (self.left, self.right, self.values):
            each.declare()
        self.begin()
        with body.when(None):
            self.left.fetch(self.batch, self.base_m, fixed(0))
            self.left.put(None)
        self.sums = [
            [body.var(f"sum{row}_{at}", None, self.kinds["result"]) for at in range(tile.v // tile.across // unit.n)]
            for row in self.down
        ]
        self.top, self.weights = (body.var("top", Literal(LOWEST, "f32")), body.var("total", Literal(0.0, "f32")))
        self.own = body.let("own", self.line * fixed(self.pitch) + fixed(self.scores))
        body.barrier()
        if tile.kept:
            parts = {part for turn in self.turns for part, _ in turn}
            self.kept = {deep: self._rows_at(fixed(deep), parts, str(deep)) for deep in range(0, tile.k, unit.k)}
            body.barrier()
        with body.when(start < stop):
            self.right.fetch(self.batch, start, fixed(0))
        self.right.put(None)
        body.barrier()
        with body.loop("column", start, lambda column: column < stop, fixed(tile.n)) as column:
            with body.when(None):
                self.values.fetch(self.batch, fixed(0), column)
            following = column + fixed(tile.n)
            with body.when(following < stop):
                self.right.fetch(self.batch, following, fixed(0))
            self._multiply()
            with body.when(THREAD.equals(fixed(0))):
                body.set(self.grown[0], fixed(0))
            body.barrier()
            shrink = self._weigh(self._find_scores(column, stop))
            self.values.put(None)
            self.right.put(None)
            # Threads meet here, too.
            scales = body.let("scales", Call("workgroupUniformLoad", (Prefix("&", self.grown[0]),), "u32"))
            self.correct(scales.equals(fixed(1)), shrink, start, column)
            self._add()
        self._leave()
        return self.module.finish(tile.threads, count)

    def begin(self) -> None:
        """Write what comes before anything is brought."""

    def correct(self, grown: Node, shrink: Node, start: Node, column: Node) -> None:
        """Write what scales sums down where some row's largest score has grown, by the ``shrink`` of a thread's row."""
        with self.body.when(every(grown, start < column)):
            self._scale(shrink)

    def _find(self) -> None:
        """Write the first row of the subgroup, which of those that share it this is, and the same of the thread and its row."""
        body, tile = self.body, self.tile
        self.subgroup = body.let("subgroup", THREAD // fixed(tile.unit.threads))
        self.high: Node = self.subgroup * fixed(tile.own)
        self.wide = self.piece = fixed(0)
        self.line: Node = THREAD
        if tile.across > 1:
            self.high = body.let("high", self.subgroup // fixed(tile.across) * fixed(tile.own))
            self.wide = body.let("wide", self.subgroup % fixed(tile.across))
        if tile.members > 1:
            members = fixed(tile.members)
            self.line, self.piece = body.let("line", THREAD // members), body.let("member", THREAD % members)

    def _place_of(self, number: int) -> Node:
        return self.base_m + self.line

    def _beyond(self, at: Node, member: Node, count: int) -> Node:
        """Return what is ``count`` further for each of those that share a row: nothing but ``at`` where nobody does."""
        return at + member * fixed(count) if isinstance(member, Name) else at

    def _accumulate(
        self, totals: list[Name], rows: dict[int, list[Name]], side: HalvesBlock, place: Node, deep: Node, at: int,
        products: Sequence[tuple[int, int]],
    ) -> None:  # fmt: skip
        """Write the products of parts of rows with those of the columns at a place and depth into the rows' sums."""
        columns = {
            part: self.body.let(f"b{at}" + "r" * part, side.matrix(self.kinds["right"], place, deep, part))
            for part in sorted({part for _, part in products})
        }
        for one, other in products:
            for total, row in zip(totals, rows[one], strict=True):
                arguments = (row, columns[other], total)
                self.body.set(total, Call("subgroupMatrixMultiplyAccumulate", arguments, total.type))

    def _at(self, start: int, pitch: int, row: int, high: Node | None = None) -> Node:
        """Return where a row of the subgroup's matrices begins in workgroup memory."""
        first = (self.high if high is None else high) + fixed(row * self.tile.unit.m)
        return first * fixed(pitch) + fixed(start)

    def _keep(self, at: Node, pitch: int, matrix: Node) -> None:
        """Write the store of a matrix into workgroup memory."""
        arguments = (Prefix("&", self.blocks), at, matrix, fixed(pitch))
        self.body.add(Do(Call("subgroupMatrixStore<row_major>", arguments, "")))

    def _loaded(self, kind: str, at: Node, pitch: int) -> Node:
        """Return a matrix that lies row by row in workgroup memory."""
        where = (Prefix("&", self.blocks), at, fixed(pitch))
        return Call(f"subgroupMatrixLoad<{kind}, row_major>", where, kind)

    def _rows_at(self, deep: Node, parts: Iterable[int], name: str = "") -> dict[int, list[Name]]:
        """Return parts of the subgroup's rows at a depth, as matrices, whose names a ``name`` tells from others."""
        found: dict[int, list[Name]] = {}
        for part in sorted(parts):
            places = [self.high + fixed(row * self.tile.unit.m) for row in self.down]
            matrices = [self.left.matrix(self.kinds["left"], place, deep, part) for place in places]
            found[part] = [self.body.let(f"rows{row}_{name}" + "r" * part, each) for row, each in enumerate(matrices)]
        return found

    def _multiply(self) -> None:
        """Write the product of the subgroup's rows with a block of columns, into workgroup memory."""
        body, tile, unit = self.body, self.tile, self.tile.unit
        kind, columns = self.kinds["result"], tile.n // tile.across
        with body.when(None):
            # What is declared in a loop without a value keeps that of the last round (Tint, 2026).
            scores = [
                [body.var(f"score{row}_{at}", Call(kind, (), kind)) for at in range(columns // unit.n)]
                for row in self.down
            ]
            for turn in self.turns:
                for deep, rows in self._depths({part for part, _ in turn}):
                    for at in range(columns // unit.n):
                        place = self._beyond(fixed(at * unit.n), self.wide, columns)
                        self._accumulate([each[at] for each in scores], rows, self.right, place, deep, at, turn)
            for row in self.down:
                for at, each in enumerate(scores[row]):
                    self._keep_score(row, at, each)

    def _depths(self, parts: Iterable[int]) -> Iterator[tuple[Node, dict[int, list[Name]]]]:
        """Open a block for each depth of the subgroup's rows, or a loop over all where these are not kept, and yield the rows there."""
        body, tile, unit = self.body, self.tile, self.tile.unit
        for number, rows in self.kept.items():
            with body.when(None):
                yield fixed(number), rows
        if not self.kept:
            with body.loop("deep", fixed(0), lambda deep: deep < fixed(tile.k), fixed(unit.k)) as deep:
                yield deep, self._rows_at(deep, parts)

    def _keep_score(self, row: int, at: int, matrix: Node) -> None:
        """Write the store of one of the subgroup's matrices, beside those of others that share its rows."""
        columns = self.tile.n // self.tile.across
        start = self._at(self.scores + at * self.tile.unit.n // SUMS, self.pitch, row)
        self._keep(self._beyond(start, self.wide, columns // SUMS), self.pitch, matrix)

    def _add(self) -> None:
        """Write the sum of a block of values, weighted."""
        body, tile, unit = self.body, self.tile, self.tile.unit
        kind = self.kinds["left"]
        with body.loop("deep", fixed(0), lambda deep: deep < fixed(tile.n), fixed(unit.k)) as deep:
            rows: dict[int, list[Name]] = {}
            for part in sorted({part for part, _ in self.weighted}):
                start = self.given + part * tile.m * self.given_pitch
                places = [self._at(start, self.given_pitch, row) + deep // fixed(HALVES) for row in self.down]
                loads = [self._loaded(kind, at, self.given_pitch) for at in places]
                rows[part] = [body.let(f"a{row}" + "r" * part, each) for row, each in enumerate(loads)]
            for at in range(len(self.sums[0])):
                place = self._beyond(fixed(at * unit.n), self.wide, tile.v // tile.across)
                totals = [each[at] for each in self.sums]
                self._accumulate(totals, rows, self.values, place, deep, at, self.weighted)

    def _find_scores(self, column: Node, stop: Node) -> list[Name]:
        """Write the thread's scores of a block, four columns each."""
        body, score, count = self.body, self.kernel.score, self.tile.n // self.tile.members
        assert score is not None
        scores: list[Name] = []
        places: list[list[Name]] = []
        bounded = self._crossed(column, stop)
        for four in range(count // LANES):
            place = self._beyond(self.own + fixed(four), self.piece, count // LANES)
            values = body.let(f"values{four}", self.product_of(bitcast("vec4<f32>", self.blocks[place])))
            self.found.sums.sums = [[values]]
            columns = [
                body.let(f"at{four}_{lane}", self._beyond(column + fixed(four * LANES + lane), self.piece, count))
                for lane in range(LANES)
            ]
            found = vector("f32", self._four(score, 0, 0, columns, []))
            scores.append(body.var(f"scores{four}", found) if bounded else body.let(f"scores{four}", found))
            places.append(columns)
        if bounded:
            outside = -Call("wt_inf", (), "f32")
            with body.when(reduce(operator.or_, bounded)):
                for each, columns in zip(scores, places, strict=True):
                    lanes = [self._bounded(each.lane(lane), outside, 0, at, stop) for lane, at in enumerate(columns)]
                    body.set(each, vector("f32", lanes))
        return scores

    def product_of(self, found: Node) -> Node:
        """Return products as they are from what matrices hold."""
        return found

    def _weigh(self, scores: list[Name]) -> Node:
        """Write what turns the thread's scores into weights; return by what its sums shrink, where some row's do."""
        body, tile = self.body, self.tile
        fours = body.let("fours", reduce(lambda one, other: Call("max", (one, other), "vec4<f32>"), scores))
        pairs = [_larger(fours.lane(each), fours.lane(each + 1)) for each in (0, 2)]
        most = together(self.module, body.let("most", _larger(*pairs)), tile.members, _larger)
        grows = body.let("grows", self.top + Literal(self.growth, "f32") < most)
        with body.when(grows):
            body.set(self.grown[0], fixed(1))
        highest = most - Literal(self.reserve, "f32") if self.reserve else most
        largest = body.let("largest", choose(grows, highest, self.top))
        shrink = body.let("shrink", power(self.module, self.top - largest))
        body.set(self.top, largest)
        body.set(self.weights, self.weights * shrink)
        if tile.across > 1:
            body.set(self.shrinks[self.line], shrink)
        tops, ones = (
            body.let(name, vector("f32", [value] * LANES))
            for name, value in (("tops", self.top), ("ones", Literal(1.0, "f32")))
        )
        count = tile.n // tile.members // HALVES
        for eight in range(count):
            eights: list[Node] = []
            for number in (2 * eight, 2 * eight + 1):
                weight = body.let(f"weight{number}", power(self.module, scores[number] - tops))
                body.set(self.weights, self.weights + Call("dot", (weight, ones), "f32"))
                eights += [weight.lane(lane) for lane in range(LANES)]
            place = self.line * fixed(self.given_pitch) + fixed(self.given + eight)
            self.keep_weights(self._beyond(place, self.piece, count), eights)
        return shrink

    def keep_weights(self, place: Node, values: list[Node]) -> None:
        """Write the store of eight weights of a row."""
        self.body.set(self.blocks[place], halves_in_words([convert_to("f16", each) for each in values]))

    def _scale(self, shrink: Node) -> None:
        """Write the scaling of the subgroup's sums, matrix by matrix through the memory of the scores."""
        body, tile, unit = self.body, self.tile, self.tile.unit
        pitch, together = (unit.n + PAD_SUMS) // SUMS, unit.threads // tile.own
        kind = self.kinds["result"]
        subgroup, place = self.subgroup * fixed(tile.own), THREAD * fixed(pitch)
        if tile.across > 1:
            shrink = body.let(
                "shrink_of_row", self.shrinks[self.high + THREAD % fixed(unit.threads) // fixed(together)]
            )
        count = unit.n // SUMS // together
        if together > 1:
            place = THREAD // fixed(together) * fixed(pitch) + THREAD % fixed(together) * fixed(count)
        place = body.let("scaled", place + fixed(self.scores))
        for at in range(len(self.sums[0])):
            for row in self.down:
                self._keep(self._at(self.scores, pitch, row, subgroup), pitch, self.sums[row][at])
            body.barrier()
            for number in range(count):
                each = self.blocks[place + fixed(number)]
                body.set(each, bitcast("vec4<u32>", bitcast("vec4<f32>", each) * shrink))
            body.barrier()
            for row in self.down:
                body.set(self.sums[row][at], self._loaded(kind, self._at(self.scores, pitch, row, subgroup), pitch))
            body.barrier()

    def _leave(self) -> None:
        """Write how the results leave the workgroup."""
        body, tile = self.body, self.tile
        total = together(self.module, self.weights, tile.members)
        # A row that attends to nothing has zeros.
        share = body.let("share", Literal(1.0, "f32") // Call("max", (total, Literal(1e-37, "f32")), "f32"))
        inside = self._place_of(0) < self.m if self.m % tile.m else None
        self.leave(share, inside)
        if self.kernel.row_stores:
            guard = ([inside] if inside is not None else []) + (
                [self.piece.equals(fixed(0))] if tile.members > 1 else []
            )
            with body.when(every(*guard) if guard else None):
                store_row(self.module, self.kernel, self.batch, self.rows[0], self.top, total)

    def leave(self, share: Node, inside: Node | None) -> None:
        """Write the stores of all sums, times a ``share``, of rows that are ``inside``."""
        for first, count in self.through_memory():
            fours = fixed(count)
            with self.body.when(inside), self.body.loop("four", fixed(0), lambda at: at < fours, fixed(1)) as four:  # noqa: B023
                place, column = self.place_of_four(first, four)
                self.store_four(column, bitcast("vec4<f32>", self.blocks[place]) * share)

    def through_memory(self) -> Iterator[tuple[int, int]]:
        """Write the stores of the subgroup's sums, as many at a time as there are scores; yield the first column of each, and how many
        fours of them each thread of a row has."""
        body, tile, unit = self.body, self.tile, self.tile.unit
        whole, part = tile.v // tile.across, tile.n // tile.across
        for first in range(0, whole, part):
            if first:
                body.barrier()
            last = min(first + part, whole)
            for row in self.down:
                for at in range(first // unit.n, last // unit.n):
                    self._keep_score(row, at - first // unit.n, self.sums[row][at])
            body.barrier()
            yield first, (last - first) // (tile.members // tile.across) // LANES

    def place_of_four(self, first: int, four: Node) -> tuple[Node, Node]:
        """Return where a thread finds one of its fours of the sums from a column on, and which column its first is of."""
        tile = self.tile
        whole, part = tile.v // tile.across, tile.n // tile.across
        inner = tile.members // tile.across
        count = (min(first + part, whole) - first) // inner
        chunk, member = self.piece, self.piece
        if inner > 1 and tile.across > 1:
            chunk, member = chunk // fixed(inner), member % fixed(inner)
        place, column = self.own + four, four * fixed(LANES) + fixed(first)
        if tile.across > 1:
            place, column = place + chunk * fixed(part // LANES), column + chunk * fixed(whole)
        if inner > 1:
            place, column = place + member * fixed(count // LANES), column + member * fixed(count)
        return place, column

    def store_four(self, column: Node, values: Node) -> None:
        """Write the stores of four neighbours of the thread's row."""
        body, fresh = self.body, self.module.fresh
        values, column = body.let(fresh("values"), values), body.let(fresh("at"), column)
        lanes = [values.lane(lane) for lane in range(LANES)]
        if vector_dimension(self.kernel, self.total.along) is not None:
            with body.when(column < fixed(self.width) if self.tile.v != self.width else None):
                self._store(column, lanes)
            return
        for lane, each in enumerate(lanes):
            with body.when(column + fixed(lane) < fixed(self.width)):
                self._store(column + fixed(lane), [each])

    def _store(self, column: Node, values: list[Node]) -> None:
        """Write the store of neighbouring positions of the thread's sum."""
        store_sum(self.module, self.kernel, self.total, self.batch, self.rows[0], column, values)
