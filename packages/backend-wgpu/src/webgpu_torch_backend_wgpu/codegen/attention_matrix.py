"""Attention of halves on matrix units: both products by matrices, the softmax between them by a thread or two for each row.

As many rows as a subgroup has threads are one subgroup's, or shared by several, which have columns and values of their own.
Scores leave matrices through workgroup memory, where the threads of a row turn them into weights, halves in the place of the
scores. Sums stay in matrices, whose elements no thread can tell apart: they are
scaled down only where a row's largest score grew by much since it was last done, which few blocks of columns do. Weights
may exceed one meanwhile (T. Dao et al., "FlashAttention-4: algorithm and kernel pipelining co-design", 2026).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from webgpu_torch_core.ir.dtypes import float32
from webgpu_torch_core.ir.expression import constant
from webgpu_torch_core.ir.kernels import Attention, Record
from webgpu_torch_core.ir.layouts import number_of_elements

from ..facts import Facts
from ..gpu.interface import MatrixUnit
from ..program import Capabilities, Program
from .access import LANES
from .attention import RowWriter
from .attention_parts import LOWEST, as_contraction, store_row, store_sum, vector_dimension
from .attention_softmax import power
from .attention_tile import columns_read
from .contraction import Frame, Side, halves_in_words
from .contraction_matrix import HalvesLoader, MatrixTile, half_of, side_of, unit_of
from .ir import Call, Literal, Name, Node, Prefix, bitcast, choose, convert_to, every, fixed, vector
from .module import THREAD, split_index
from .statements import Do

#: halves, and sums, that one element of workgroup memory holds; elements that rows are longer by, against bank conflicts
_HALVES, _SUMS, _PAD_HALVES, _PAD_SUMS = 8, 4, 8, 4
#: by how much a row's largest score may grow before what was summed is scaled down: weights of halves reach e to that power
_GROWTH = 5.5
#: rows, columns at a time and subgroups that share rows, that workgroups compute, and how many times the operations per second
#: of float32 arithmetic they reach with all units busy, where the rows of a product stay in registers and where they do not
_BLOCKS = {(128, 32, 1): (1.25, 0.94), (64, 64, 1): (0.95, 0.71), (64, 32, 1): (1.25, 0.94), (64, 32, 2): (1.0, 1.25)}
#: depths up to which they stay there
_KEPT = 64
#: deepest products and widest sums: a subgroup keeps its sums in registers
_WIDEST = 128


class AttentionMatrixTile(Record):
    """A variant: rows and columns of a workgroup's block, padded depth of the product and width of the sum, and how many
    subgroups share rows: as many threads turn the scores of a row into weights."""

    __slots__ = fields = ("m", "n", "k", "v", "across", "unit")
    m: int
    n: int
    k: int
    v: int
    across: int
    unit: MatrixUnit

    #: nobody else has columns of the rows
    rows = splits = 1

    @property
    def threads(self) -> int:
        """Threads per workgroup."""
        return self.m * self.across

    @property
    def sides(self) -> tuple[int, int, int]:
        """Elements of workgroup memory that rows, columns or values, and scores take."""
        rows = max(self.m * (self.k + _PAD_HALVES), self.k * (self.m + _PAD_HALVES)) // _HALVES
        columns = max(self.n * (self.k + _PAD_HALVES), self.k * (self.n + _PAD_HALVES)) // _HALVES
        values = self.n * (self.v + _PAD_HALVES) // _HALVES
        scaled = self.threads * (self.unit.n + _PAD_SUMS) // _SUMS
        return rows, max(columns, values, scaled), self.m * (self.n + _PAD_SUMS) // _SUMS

    def product(self) -> MatrixTile:
        """Return the tile of the product of rows and columns."""
        columns = self.n // self.across
        return MatrixTile(self.m, self.n, self.k, self.unit.threads, columns, 1, 0, _PAD_HALVES, 1, 1, 1, self.unit)

    def sum(self) -> MatrixTile:
        """Return the tile of the sum of values."""
        columns = self.v // self.across
        return MatrixTile(self.m, self.v, self.n, self.unit.threads, columns, 1, 0, _PAD_HALVES, 1, 1, 1, self.unit)


def attention_matrix_tiles(kernel: Attention, capabilities: Capabilities) -> Iterator[AttentionMatrixTile]:
    """Return the blocks by which an adapter's matrix units can compute an attention."""
    unit = unit_of(capabilities)
    if unit is None or unit.threads % unit.m or len(kernel.products) != 1 or len(kernel.sums) != 1:
        return
    [product], [total] = kernel.products, kernel.sums
    known = all(half_of(each) is not None for each in (product.left, product.right, total.value))
    if not known or kernel.score is None or total.weight.step != "accumulator" or _values(kernel).axis == "k":
        return
    depth, width = (number_of_elements(kernel.k if each == "k" else kernel.v) for each in (product.depth, total.along))
    if max(depth, width) > _WIDEST:
        return
    for m, n, across in _BLOCKS:
        tile = _tile(m, n, -(-max(depth, 1) // 16) * 16, -(-width // (16 * across)) * 16 * across, across, unit)
        if fits(tile, capabilities):
            yield tile


def fits(tile: AttentionMatrixTile, capabilities: Capabilities) -> bool:
    """Return whether threads bring whole blocks, and an adapter has room for them."""
    m, n, k = tile.m, tile.n, tile.k
    whole = all(side * deep % (_HALVES * tile.threads) == 0 for side, deep in ((m, k), (n, k), (tile.v, n)))
    nbytes = 16 * sum(tile.sides) + 4 * m + 64
    return (
        whole
        and m % tile.unit.threads == 0
        and (tile.across == 1 or capabilities.subgroups)
        and tile.threads <= capabilities.invocations
        and nbytes <= capabilities.workgroup_bytes
    )


@cache
def _tile(m: int, n: int, k: int, v: int, across: int, unit: MatrixUnit) -> AttentionMatrixTile:
    return AttentionMatrixTile(m, n, k, v, across, unit)


def _values(kernel: Attention) -> Side:
    """Return the values of the sum as a contraction's side."""
    [total] = kernel.sums
    return side_of(as_contraction(kernel, "m", total.along, "n", constant(0.0, float32), total.value), "n")


def attention_matrix_seconds(kernel: Attention, tile: AttentionMatrixTile, facts: Facts) -> float:
    """Return an estimate of the time that blocks take for an attention."""
    batch, m, n = map(number_of_elements, (kernel.batch, kernel.m, kernel.n))
    rounds = -(-(-(-m // tile.m) * batch) // facts.units)
    # Several workgroups share a unit, and overlap what they wait for.
    busy = 1.0 if rounds > 3 else rounds / 4
    work = 2 * tile.m * -(-n // tile.n) * tile.n * columns_read(kernel) * (tile.k + tile.v)
    rate = facts.flops * _BLOCKS[tile.m, tile.n, tile.across][tile.k > _KEPT] * busy
    return rounds * facts.units * work / rate + facts.dispatch


def generate_attention_matrix(kernel: Attention, capabilities: Capabilities, tile: AttentionMatrixTile) -> Program:
    """Return the program of an attention on matrix units."""
    return _Writer(kernel, capabilities, tile).write()


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


class _Writer(RowWriter):
    """Writes the kernel of an attention on matrix units."""

    tile: AttentionMatrixTile

    def __init__(self, kernel: Attention, capabilities: Capabilities, tile: AttentionMatrixTile) -> None:
        super().__init__(kernel, capabilities, tile)
        [product], [self.total] = kernel.products, kernel.sums
        self.width = number_of_elements(kernel.k if self.total.along == "k" else kernel.v)
        rows, shared, scores = tile.sides
        self.blocks = self.module.array("blocks", "vec4<u32>", rows + shared + scores)
        self.grown = self.module.array("grown", "u32", 1)
        if tile.across > 1:
            self.shrinks = self.module.array("shrinks", "f32", tile.m)
        self.shared, self.scores, self.pitch = rows, rows + shared, (tile.n + _PAD_SUMS) // _SUMS
        one = as_contraction(kernel, "m", "n", product.depth, product.left, product.right)
        other = as_contraction(kernel, "m", self.total.along, "n", constant(0.0, float32), self.total.value)
        frames = [Frame(each, capabilities, self.module) for each in (one, other)]
        self.left = HalvesLoader(frames[0], side_of(one, "m"), tile.m, tile.product(), self.blocks, 0)
        self.right = HalvesLoader(frames[0], side_of(one, "n"), tile.n, tile.product(), self.blocks, rows)
        self.values = HalvesLoader(frames[1], side_of(other, "n"), tile.v, tile.sum(), self.blocks, rows, "v")
        self.found = _Found()
        self.products = [self.found]
        unit = tile.unit
        self.kinds = {
            "left": f"subgroup_matrix_left<{unit.operand}, {unit.k}, {unit.m}>",
            "right": f"subgroup_matrix_right<{unit.operand}, {unit.n}, {unit.k}>",
            "result": f"subgroup_matrix_result<{unit.result}, {unit.n}, {unit.m}>",
        }
        self.down = range(unit.threads // unit.m)
        self.kept: dict[int, list[Name]] = {}

    def write(self) -> Program:
        """Return the program."""
        body, tile, unit = self.body, self.tile, self.tile.unit
        count = self.blocks_m * self.batches
        self.batch = split_index(self.module, self._begin(count), self.kernel.batch)
        self._find()
        self.rows = [self._row(0)]
        start, stop = self._bounds()
        self.values.end = stop if self.kernel.last is not None else None
        for each in (self.left, self.right, self.values):
            each.declare()
        with body.when(None):
            self.left.fetch(self.batch, self.base_m, fixed(0))
            self.left.put(None)
        self.sums = [
            [body.var(f"sum{row}_{at}", None, self.kinds["result"]) for at in range(tile.v // tile.across // unit.n)]
            for row in self.down
        ]
        self.top, self.weights = (body.var("top", Literal(LOWEST, "f32")), body.var("total", Literal(0.0, "f32")))
        self.own = body.let("own", self.line * fixed(self.pitch) + fixed(self.scores))
        if tile.k <= _KEPT:
            body.barrier()
            self.kept = {deep: self._rows_at(deep) for deep in range(0, tile.k, unit.k)}
        with body.when(start < stop):
            self.right.fetch(self.batch, start, fixed(0))
        with body.loop("column", start, lambda column: column < stop, fixed(tile.n)) as column:
            body.barrier()
            self.right.put(None)
            with body.when(THREAD.equals(fixed(0))):
                body.set(self.grown[0], fixed(0))
            body.barrier()
            with body.when(None):
                self.values.fetch(self.batch, fixed(0), column)
            self._multiply()
            body.barrier()
            self._weigh(column, stop)
            self.values.put(None)
            body.barrier()
            following = column + fixed(tile.n)
            with body.when(following < stop):
                self.right.fetch(self.batch, following, fixed(0))
            self._add()
        self._leave()
        return Program((self.module.finish(tile.threads, count),), ())

    def _find(self) -> None:
        """Write the first row of the subgroup, which of those that share it this is, and the same of the thread and its row."""
        body, tile, unit = self.body, self.tile, self.tile.unit
        self.subgroup = body.let("subgroup", THREAD // fixed(unit.threads))
        self.high: Node = self.subgroup * fixed(unit.threads)
        self.wide = self.piece = fixed(0)
        self.line: Node = THREAD
        if tile.across > 1:
            across = fixed(tile.across)
            self.high = body.let("high", self.subgroup // across * fixed(unit.threads))
            self.wide = body.let("wide", self.subgroup % across)
            self.line, self.piece = body.let("line", THREAD // across), body.let("member", THREAD % across)

    def _place_of(self, number: int) -> Node:
        return self.base_m + self.line

    def _beyond(self, at: Node, member: Node, count: int) -> Node:
        """Return what is ``count`` further for each of those that share a row: nothing but ``at`` where nobody does."""
        return at + member * fixed(count) if self.tile.across > 1 else at

    def _accumulate(self, total: Name, row: Node, column: Node) -> None:
        self.body.set(total, Call("subgroupMatrixMultiplyAccumulate", (row, column, total), total.type))

    def _at(self, start: int, pitch: int, row: int, high: Node | None = None) -> Node:
        """Return where a row of the subgroup's matrices begins in workgroup memory."""
        first = (self.high if high is None else high) + fixed(row * self.tile.unit.m)
        return first * fixed(pitch) + fixed(start)

    def _keep(self, at: Node, pitch: int, matrix: Node) -> None:
        """Write the store of a matrix into workgroup memory."""
        arguments = (Prefix("&", self.blocks), at, matrix, fixed(pitch))
        self.body.add(Do(Call("subgroupMatrixStore<row_major>", arguments, "")))

    def _rows_at(self, deep: int) -> list[Name]:
        """Return the subgroup's rows at a depth, as matrices."""
        found = []
        for row in self.down:
            matrix = self.left.matrix(self.kinds["left"], self.high + fixed(row * self.tile.unit.m), deep)
            found.append(self.body.let(f"rows{row}_{deep}", matrix))
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
            for deep in range(0, tile.k, unit.k):
                with body.when(None):
                    rows = self.kept[deep] if deep in self.kept else self._rows_at(deep)
                    for at in range(columns // unit.n):
                        place = self._beyond(fixed(at * unit.n), self.wide, columns)
                        column = body.let(f"b{at}", self.right.matrix(self.kinds["right"], place, deep))
                        for row in self.down:
                            self._accumulate(scores[row][at], rows[row], column)
            for row in self.down:
                for at, each in enumerate(scores[row]):
                    self._keep_score(row, at, each)

    def _keep_score(self, row: int, at: int, matrix: Node) -> None:
        """Write the store of one of the subgroup's matrices, beside those of others that share its rows."""
        columns = self.tile.n // self.tile.across
        start = self._at(self.scores + at * self.tile.unit.n // _SUMS, self.pitch, row)
        self._keep(self._beyond(start, self.wide, columns // _SUMS), self.pitch, matrix)

    def _add(self) -> None:
        """Write the sum of a block of values, weighted."""
        body, tile, unit = self.body, self.tile, self.tile.unit
        for deep in range(0, tile.n, unit.k):
            with body.when(None):
                rows = []
                for row in self.down:
                    at = self._at(self.scores + deep // _HALVES, self.pitch, row)
                    where = (Prefix("&", self.blocks), at, fixed(self.pitch))
                    kind = self.kinds["left"]
                    rows.append(body.let(f"a{row}", Call(f"subgroupMatrixLoad<{kind}, row_major>", where, kind)))
                for at in range(len(self.sums[0])):
                    place = self._beyond(fixed(at * unit.n), self.wide, tile.v // tile.across)
                    column = body.let(f"b{at}", self.values.matrix(self.kinds["right"], place, deep))
                    for row in self.down:
                        self._accumulate(self.sums[row][at], rows[row], column)

    def _weigh(self, column: Node, stop: Node) -> None:
        """Write what turns the thread's row of products into weights, and scales its sums down where they grow much."""
        body, tile, score = self.body, self.tile, self.kernel.score
        assert score is not None
        scores: list[Name] = []
        count = tile.n // tile.across
        for four in range(count // LANES):
            place = self._beyond(self.own + fixed(four), self.piece, count // LANES)
            values = body.let(f"values{four}", bitcast("vec4<f32>", self.blocks[place]))
            self.found.sums.sums = [[values]]
            columns = [
                body.let(f"at{four}_{lane}", self._beyond(column + fixed(four * LANES + lane), self.piece, count))
                for lane in range(LANES)
            ]
            outside = -Call("wt_inf", (), "f32")
            found = [
                self._bounded(value, outside, 0, at, stop)
                for value, at in zip(self._four(score, 0, 0, columns, []), columns, strict=True)
            ]
            scores.append(body.let(f"scores{four}", vector("f32", found)))
        fours: Node = scores[0]
        for each in scores[1:]:
            fours = Call("max", (fours, each), "vec4<f32>")
        fours = body.let("fours", fours)
        pairs = [_larger(fours.lane(each), fours.lane(each + 1)) for each in (0, 2)]
        most = self._together(body.let("most", _larger(*pairs)), _larger)
        grows = body.let("grows", self.top + Literal(_GROWTH, "f32") < most)
        with body.when(grows):
            body.set(self.grown[0], fixed(1))
        largest = body.let("largest", choose(grows, most, self.top))
        shrink = body.let("shrink", power(self.module, self.top - largest))
        body.set(self.top, largest)
        body.set(self.weights, self.weights * shrink)
        if tile.across > 1:
            body.set(self.shrinks[self.line], shrink)
        scales = Call("workgroupUniformLoad", (Prefix("&", self.grown[0]),), "u32")
        with body.when(body.let("scales", scales).equals(fixed(1))):
            self._scale(shrink)
        tops, ones = (
            body.let(name, vector("f32", [value] * LANES))
            for name, value in (("tops", self.top), ("ones", Literal(1.0, "f32")))
        )
        for eight in range(count // _HALVES):
            halves: list[Node] = []
            for number in (2 * eight, 2 * eight + 1):
                weight = body.let(f"weight{number}", power(self.module, scores[number] - tops))
                body.set(self.weights, self.weights + Call("dot", (weight, ones), "f32"))
                halves += [convert_to("f16", weight.lane(lane)) for lane in range(LANES)]
            place = self._beyond(self.own + fixed(eight), self.piece, count // _HALVES)
            body.set(self.blocks[place], halves_in_words(halves))

    def _together(self, value: Name, combine: Callable[[Node, Node], Node]) -> Name:
        """Write what the values of a row's threads combine to and return it."""
        distance = 1
        while distance < self.tile.across:
            other = Call("subgroupShuffleXor", (value, fixed(distance)), value.type)
            value = self.body.let(self.module.fresh("both"), combine(value, other))
            distance *= 2
        return value

    def _scale(self, shrink: Node) -> None:
        """Write the scaling of the subgroup's sums, matrix by matrix through the memory that columns and values share."""
        body, unit = self.body, self.tile.unit
        pitch = (unit.n + _PAD_SUMS) // _SUMS
        kind = self.kinds["result"]
        subgroup = self.subgroup * fixed(unit.threads)
        if self.tile.across > 1:
            shrink = body.let("shrink_of_row", self.shrinks[self.high + THREAD % fixed(unit.threads)])
        for at in range(len(self.sums[0])):
            for row in self.down:
                self._keep(self._at(self.shared, pitch, row, subgroup), pitch, self.sums[row][at])
            body.barrier()
            for number in range(unit.n // _SUMS):
                place = self.blocks[THREAD * fixed(pitch) + fixed(self.shared + number)]
                body.set(place, bitcast("vec4<u32>", bitcast("vec4<f32>", place) * shrink))
            body.barrier()
            for row in self.down:
                where = (Prefix("&", self.blocks), self._at(self.shared, pitch, row, subgroup), fixed(pitch))
                body.set(self.sums[row][at], Call(f"subgroupMatrixLoad<{kind}, row_major>", where, kind))
            body.barrier()

    def _leave(self) -> None:
        """Write how the results leave the workgroup."""
        body, tile, unit = self.body, self.tile, self.tile.unit
        total = self._together(self.weights, lambda one, other: one + other)
        # A row that attends to nothing has zeros.
        share = body.let("share", Literal(1.0, "f32") // Call("max", (total, Literal(1e-37, "f32")), "f32"))
        inside = self._place_of(0) < self.m if self.m % tile.m else None
        together = vector_dimension(self.kernel, self.total.along) is not None
        whole, part = tile.v // tile.across, tile.n // tile.across
        for first in range(0, whole, part):
            body.barrier()
            last = min(first + part, whole)
            for row in self.down:
                for at in range(first // unit.n, last // unit.n):
                    self._keep_score(row, at - first // unit.n, self.sums[row][at])
            body.barrier()
            fours = fixed((last - first) // LANES)
            with body.when(inside), body.loop("four", fixed(0), lambda four: four < fours, fixed(1)) as four:  # noqa: B023
                place = self._beyond(self.own + four, self.piece, part // LANES)
                values = body.let("values", bitcast("vec4<f32>", self.blocks[place]) * share)
                lanes = [values.lane(lane) for lane in range(LANES)]
                column = body.let("at", self._beyond(four * fixed(LANES) + fixed(first), self.piece, whole))
                if together:
                    with body.when(column < fixed(self.width) if tile.v != self.width else None):
                        self._store(column, lanes)
                for lane, each in enumerate([] if together else lanes):
                    with body.when(column + fixed(lane) < fixed(self.width)):
                        self._store(column + fixed(lane), [each])
        if self.kernel.row_stores:
            guard = ([inside] if inside is not None else []) + (
                [self.piece.equals(fixed(0))] if tile.across > 1 else []
            )
            with body.when(every(*guard) if guard else None):
                store_row(self.module, self.kernel, self.batch, self.rows[0], self.top, total)

    def _store(self, column: Node, values: list[Node]) -> None:
        """Write the store of neighbouring positions of the thread's sum."""
        store_sum(self.module, self.kernel, self.total, self.batch, self.rows[0], column, values)
