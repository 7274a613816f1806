"""Attention by tiles: a workgroup goes over the columns for a block of rows, and no score leaves it.

The softmax is computed on the way: sums are kept relative to the largest score so far, and scaled down when there is a
larger one (T. Dao, "FlashAttention-2: faster attention with better parallelism and work partitioning", ICLR 2024). Products
and sums are those of tiled contractions: threads keep small blocks of them in registers, the operands pass through
workgroup memory, and so do the weights between product and sum.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any

from webgpu_torch_core.ir.dtypes import float32
from webgpu_torch_core.ir.expression import Expression, constant
from webgpu_torch_core.ir.kernels import Attention, Product, WeightedSum
from webgpu_torch_core.ir.layouts import number_of_elements

from ..program import Capabilities, Pass, Program
from .access import LANES, Buffers, evaluate
from .attention_parts import Parts, as_contraction, store_row, store_sum
from .attention_softmax import Softmax
from .attention_tile import AttentionTile, columns_read
from .contraction import Frame
from .contraction_loader import Loader
from .contraction_tile import ThreadSums, locate
from .ir import (
    Call,
    Literal,
    Name,
    Node,
    Prefix,
    choose,
    convert_to,
    every,
    fixed,
    minimum,
    u32,
    vector,
)
from .module import LINEAR_GROUP, THREAD, Module, split_index


def generate_attention(kernel: Attention, capabilities: Capabilities, tile: AttentionTile) -> Program:
    """Return the program of an attention by tiles."""
    writer = _Writer(kernel, capabilities, tile)
    found = writer.write()
    return Program((found,), ()) if tile.splits == 1 else writer.parts.program(kernel, capabilities, found)


#: the array of workgroup memory where blocks of keys and of values lie in turns
BLOCK = "columns"


class _Weights:
    """A block of weights in workgroup memory: ``n`` by ``m``, with groups of four rows permuted against bank conflicts."""

    def __init__(self, module: Module, tile: AttentionTile) -> None:
        self.body = module.body
        self.groups = tile.m // LANES
        self.mask = min(self.groups, 8) - 1
        self.array = module.array("weights", "vec4<f32>", tile.n * self.groups)
        self.first: Node = fixed(0)

    def at(self, four: Node, lane: int, group: Node) -> Node:
        """Return four rows of a column: of ``lane`` among the fours."""
        turned = group ^ (four & fixed(self.mask))
        return self.array[(four * fixed(LANES) + fixed(lane)) * fixed(self.groups) + turned]

    def read(self, depth: int, stage: Node | None, thread: Node, count: int, prefix: str) -> list[list[Node]]:
        """Return a thread's weights of one column, the one at ``depth`` behind four times ``first``."""
        body, step = self.body, self.groups // count
        four = self.first + fixed(depth // LANES)
        found = [self.at(four, depth % LANES, thread + fixed(each * step)) for each in range(count)]
        return [[body.let(f"{prefix}{number}", each)] for number, each in enumerate(found)]


class _Kept:
    """The rows' side of a product: all of it in workgroup memory, or a block at a time."""

    def __init__(self, loader: Loader, kept: bool) -> None:
        self.loader, self.kept = loader, kept
        self.stage: Node | None = None

    def read(self, depth: int, stage: Node | None, thread: Node, count: int, prefix: str) -> list[list[Node]]:
        """Return a thread's rows at a depth of the present block."""
        return self.loader.read(depth, self.stage, thread, count, prefix)


class _Product:
    """One product: a block of it in registers, and how its sides come into workgroup memory."""

    def __init__(self, writer: _Writer, product: Product, number: int) -> None:
        kernel, tile = writer.kernel, writer.tile.product()
        contraction = as_contraction(kernel, "m", "n", product.depth, product.left, product.right)
        self.frame = Frame(contraction, writer.capabilities, writer.module)
        self.depth, self.tile, self.body = self.frame.k, tile, writer.body
        self.stages = writer.tile.stages(self.depth)
        kept = writer.tile.kept
        left = Loader(
            self.frame, self.frame.left, tile.m, tile.replace(stages=self.stages) if kept else tile, f"rows{number}",
            "" if kept else "rows",
        )  # fmt: skip
        self.right = Loader(self.frame, self.frame.right, tile.n, tile, f"columns{number}", BLOCK)
        self.left = _Kept(left, kept)
        self.sums = ThreadSums(self.frame, tile, self.left, self.right, f"product{number}_")
        self.writer = writer

    def begin(self) -> None:
        """Write what comes before all columns."""
        left = self.left.loader
        left.declare()
        self.right.declare()
        if self.left.kept:
            for stage in range(self.stages):
                left.fetch(self.writer.batch, self.writer.base_m, fixed(stage * self.tile.k))
                left.put(fixed(stage))

    def fetch(self, column: Node) -> None:
        """Write the loads of the first block of the columns from ``column`` on."""
        for side, base in self._sides(column) if self.depth else ():
            side.fetch(self.writer.batch, base, fixed(0))

    def _sides(self, column: Node) -> list[tuple[Loader, Node]]:
        return [(self.right, column)] + ([] if self.left.kept else [(self.left.loader, self.writer.base_m)])

    def multiply(self, column: Node) -> None:
        """Write the product of the rows with the columns from ``column`` on, whose first block has been fetched."""
        body, batch, deep = self.body, self.writer.batch, self.tile.k
        sides = self._sides(column)
        self.sums.clear(self.writer.place)
        if not self.depth:
            return
        with body.loop("stage", fixed(0), lambda stage: stage < fixed(self.stages), fixed(1)) as stage:
            body.barrier()
            for side, _ in sides:
                side.put(None)
            body.barrier()
            with body.when(stage + fixed(1) < fixed(self.stages)):
                for side, base in sides:
                    side.fetch(batch, base, (stage + fixed(1)) * fixed(deep))
            self.left.stage = stage if self.left.kept else None
            self.sums.multiply(None)


class _Sum:
    """One sum: a block of it in registers, and how its values come into workgroup memory."""

    def __init__(self, writer: _Writer, total: WeightedSum, number: int) -> None:
        kernel, tile = writer.kernel, writer.tile.sum()
        contraction = as_contraction(kernel, "m", total.along, "n", constant(0.0, float32), total.value)
        self.total = total
        self.frame = Frame(contraction, writer.capabilities, writer.module)
        partial = kernel.last is not None or writer.n % writer.tile.n != 0
        self.right = Loader(self.frame, self.frame.right, tile.n, tile, f"values{number}", BLOCK, partial)
        self.sums = ThreadSums(self.frame, tile, writer.weights, self.right, f"sum{number}_")
        self.writer, self.body, self.tile = writer, writer.body, tile

    def begin(self) -> None:
        """Write what comes before all columns."""
        self.right.declare()
        self.sums.clear(self.writer.place)

    def fetch(self, column: Node, last: Node) -> None:
        """Write the loads of the first block of values of the columns from ``column`` on."""
        self.right.fetch(self.writer.batch, self.writer.base_v, column, last)

    def add(self, column: Node, last: Node) -> None:
        """Write the sum of the values of the columns from ``column`` on, with the weights in workgroup memory.

        Their first block has been fetched.
        """
        body, deep, stages = self.body, self.tile.k, self.writer.tile.n // self.tile.k
        batch, base = self.writer.batch, self.writer.base_v
        with body.loop("stage", fixed(0), lambda stage: stage < fixed(stages), fixed(1)) as stage:
            body.barrier()
            self.right.put(None)
            body.barrier()
            with body.when(stage + fixed(1) < fixed(stages)):
                self.right.fetch(batch, base, column + (stage + fixed(1)) * fixed(deep), last)
            self.writer.weights.first = stage * fixed(deep // LANES)
            self.sums.multiply(None)

    def leave(self) -> None:
        """Write how the results leave the workgroup."""
        self.sums.results(
            self.writer.base_m, self.writer.base_v, self._store if self.writer.tile.splits == 1 else self._part
        )

    def _store(self, row: Node, column: Node, values: list[Node]) -> None:
        store_sum(self.writer.module, self.writer.kernel, self.total, self.writer.batch, row, column, values)

    def _part(self, row: Node, column: Node, values: list[Node]) -> None:
        writer = self.writer
        writer.parts.write_sum(writer.module, writer.part, writer.flat_batch, row, column, values)


class RowWriter:
    """What kernels of attention by blocks share: the rows of a workgroup and a thread, and the scores of some columns."""

    products: Sequence[Any]
    batch: list[Node]
    #: which of the workgroups that share the columns
    part: Node = fixed(0)

    def __init__(self, kernel: Attention, capabilities: Capabilities, tile: Any) -> None:
        self.kernel, self.capabilities, self.tile = kernel, capabilities, tile
        self.module = Module(kernel, capabilities)
        self.body = self.module.body
        self.m, self.n, self.batches = map(number_of_elements, (kernel.m, kernel.n, kernel.batch))
        self.blocks_m = -(-self.m // tile.m)
        self.buffers = Buffers(self.module)
        # Four neighbouring columns are looked at at once where they are neighbours in every tile.
        together = kernel.n and self.n % tile.n == 0 and kernel.n[-1] % LANES == 0
        rank = sum(len(getattr(kernel, name)) for name in kernel.dimension_groups)
        self.together = Buffers(self.module, rank - 1 if together else None)
        self.rows: list[Node] = []

    def _begin(self, count: int) -> Node:
        """Write where the rows of a workgroup, one of ``count``, begin; return the number of its other parts."""
        body = self.body
        linear = body.let("linear", LINEAR_GROUP)
        body.leave(linear >= count)
        if columns_read(self.kernel) == 1.0:
            self.base_m = body.let("base_m", linear % self.blocks_m * self.tile.m)
            return body.let("piece", linear // self.blocks_m)
        # The rows that attend to most columns come first, those of all batches: who comes last has the shortest way to go.
        others = max(count // max(self.blocks_m, 1), 1)
        self.base_m = body.let("base_m", (u32(self.blocks_m - 1) - linear // others) * self.tile.m)
        return body.let("piece", linear % others)

    def _place_of(self, number: int) -> Node:
        """Return which row one of a thread's is, which may lie behind the last one."""
        raise NotImplementedError

    def _row(self, number: int) -> Node:
        """Write which row one of a thread's is; behind the last one it is repeated."""
        row = self._place_of(number)
        return self.body.let(f"row{number}", minimum(row, self.m - 1) if self.m % self.tile.m else row)

    def _bounds(self) -> tuple[Node, Node]:
        """Write between which columns the workgroup's rows, and each of the thread's, attend; return the workgroup's."""
        body, kernel = self.body, self.kernel
        self.bounds: list[list[Node]] = [[] for _ in self.rows]
        found: list[Node] = [fixed(0), u32(self.n)]
        for place, root in enumerate((kernel.first, kernel.last)):
            if root is None:
                continue
            values: list[Node] = []
            for number, row in enumerate(self.rows):
                coordinates = self._coordinates(row)
                value = convert_to("i32", evaluate(self.buffers, [root], coordinates)[0][0])
                inside = Call("clamp", (value, fixed(0, "i32"), convert_to("i32", u32(self.n))), "i32")
                values.append(body.let(f"bound{place}_{number}", convert_to("u32", inside)))
                self.bounds[number].append(values[-1])
            found[place] = self._extreme(values, "min" if place == 0 else "max")
        step = fixed(self.tile.n)
        first = body.let("first", found[0] // step * step if kernel.first is not None else found[0])
        last = body.let("last", found[1])
        if self.tile.splits == 1:
            return first, last
        # What there is to read is shared evenly, also where its end is known to the device only.
        blocks = (Call("max", (last, first), "u32") - first + step - fixed(1)) // step
        share = body.let("share", (blocks + u32(self.tile.splits - 1)) // self.tile.splits * step)
        first = body.let("own_first", first + self.part * share)
        return first, body.let("own_last", minimum(first + share, last))

    def _extreme(self, values: list[Node], function: str) -> Node:
        """Write the least or largest of all threads' values and return it, the same for all."""
        body, tile = self.body, self.tile
        shared = self.module.array(f"bound_{function}", "u32", tile.threads)
        found = values[0]
        for other in values[1:]:
            found = Call(function, (found, other), "u32")
        body.set(shared[THREAD], found)
        body.barrier()
        width = 1
        while width * 2 < tile.threads:
            width *= 2
        while width:
            with body.when(every(THREAD < fixed(width), THREAD + fixed(width) < fixed(tile.threads))):
                body.set(shared[THREAD], Call(function, (shared[THREAD], shared[THREAD + fixed(width)]), "u32"))
            body.barrier()
            width //= 2
        return Call("workgroupUniformLoad", (Prefix("&", shared[0]),), "u32")

    def _coordinates(self, row: Node, column: Node | None = None) -> list[Node]:
        """Return the coordinates of a row, with a column or without."""
        kernel = self.kernel
        found = self.batch + split_index(self.module, row, kernel.m)
        if column is None:
            return found
        return found + [fixed(0)] * (len(kernel.k) + len(kernel.v)) + split_index(self.module, column, kernel.n)

    def _four(
        self, root: Expression, row: int, group: int, columns: list[Name], softmax: list[list[Name]]
    ) -> list[Node]:  # fmt: skip
        """Write an expression of a row and four neighbouring columns and return its values."""
        products = [[each.sums.sums[row][group].lane(lane) for lane in range(LANES)] for each in self.products]
        weights = [softmax[row][group].lane(lane) for lane in range(LANES)] if softmax else []
        if self.together.vector is not None:
            at = self._coordinates(self.rows[row], columns[0])
            return [value for (value,) in evaluate(self.together, [root], at, LANES, (), None, weights, products)]
        found: list[Node] = []
        for lane, column in enumerate(columns):
            inside = minimum(column, self.n - 1) if self.n % self.tile.n else column
            at, own = self._coordinates(self.rows[row], inside), [[each[lane]] for each in products]
            found.append(evaluate(self.buffers, [root], at, 1, (), None, weights[lane : lane + 1], own)[0][0])
        return found

    def _crossed(self, column: Node, stop: Node) -> list[Node]:
        """Return what holds where the thread's rows may not attend to all columns of a block; nothing where they always do."""
        bounds, end, found = list(zip(*self.bounds, strict=True)), column + fixed(self.tile.n), list[Node]()
        if self.kernel.first is not None:
            found.append(column < reduce(lambda one, other: Call("max", (one, other), "u32"), bounds.pop(0)))
        if self.kernel.last is not None:
            found.append(reduce(minimum, bounds.pop(0)) < end)
        elif self.n % self.tile.n:
            found.append(stop < end)
        return found

    def _bounded(self, value: Node, outside: Node, row: int, column: Node, stop: Node) -> Node:
        """Return a value where a row attends to a column, else another."""
        bounds = list(self.bounds[row])
        conditions: list[Node] = []
        if self.kernel.first is not None:
            conditions.append(bounds.pop(0) <= column)
        if self.kernel.last is not None:
            conditions.append(column < bounds.pop(0))
        elif self.n % self.tile.n or self.tile.splits > 1:
            conditions.append(column < stop)
        return choose(every(*conditions), value, outside) if conditions else value


class _Writer(RowWriter):
    """Writes the kernel of an attention."""

    def __init__(self, kernel: Attention, capabilities: Capabilities, tile: AttentionTile) -> None:
        super().__init__(kernel, capabilities, tile)
        sizes = [number_of_elements(kernel.k if each.along == "k" else kernel.v) for each in kernel.sums]
        self.blocks_v = -(-max(sizes) // tile.v)
        self.weights = _Weights(self.module, tile)
        # What is read along the columns comes one block after another into the same memory, behind a barrier.
        self.module.array(BLOCK, "vec4<f32>", tile.block() // LANES)
        self.products = [_Product(self, each, number) for number, each in enumerate(kernel.products)]
        self.sums = [_Sum(self, each, number) for number, each in enumerate(kernel.sums)]
        self.softmax = Softmax(self.module, tile) if kernel.score is not None else None
        self.parts = Parts(kernel, tile.splits)

    def write(self) -> Pass:
        """Return the pass."""
        body, tile = self.body, self.tile
        count = self.blocks_m * self.blocks_v * self.batches * tile.splits
        piece = self._begin(count)
        self.base_v = body.let("base_v", piece % self.blocks_v * tile.v)
        piece = piece // self.blocks_v
        if tile.splits > 1:
            self.part, piece = body.let("part", piece % tile.splits), piece // tile.splits
        self.flat_batch = body.let("batch", piece)
        self.batch = split_index(self.module, self.flat_batch, self.kernel.batch)
        self.place = locate(body, tile.product())
        self.rows = [self._row(number) for number in range(tile.rows)]
        start, stop = self._bounds()
        for each in (*self.products, *self.sums):
            each.begin()
        if self.softmax is not None:
            self.softmax.begin(self.place)
        with body.when(start < stop):
            for product in self.products:
                product.fetch(start)
        with body.loop("column", start, lambda column: column < stop, fixed(tile.n)) as column:
            for product in self.products:
                product.multiply(column)
            for total in self.sums:
                total.fetch(column, stop)
            self._weigh(column, stop)
        if self.softmax is not None:
            self.softmax.finish([each.sums for each in self.sums], tile.splits == 1)
        for total in self.sums:
            total.leave()
        self._store_rows()
        return self.module.finish(tile.threads, count, " (parts)" if tile.splits > 1 else "")

    def _place_of(self, number: int) -> Node:
        step = self.tile.m // self.tile.rows
        return self.base_m + (self.place[0] + fixed(number // LANES * step)) * fixed(LANES) + fixed(number % LANES)

    def _weigh(self, column: Node, stop: Node) -> None:
        """Write what turns the products with columns from ``column`` on into weights and adds the values with them."""
        body, kernel, tile = self.body, self.kernel, self.tile
        groups = tile.n // tile.across // LANES
        columns = [
            [
                body.let(
                    self.module.fresh("at"),
                    column + (self.place[1] + fixed(group * tile.across)) * fixed(LANES) + fixed(lane),
                )
                for lane in range(LANES)
            ]
            for group in range(groups)
        ]
        scores: list[list[Name]] = []
        if kernel.score is not None and self.softmax is not None:
            scores = self._vectors("score", groups)
            self._each(kernel.score, column, columns, stop, scores, scores)
            self.softmax.update(scores, [each.sums for each in self.sums])
        for number, total in enumerate(self.sums):
            if number:
                body.barrier()
            weights = scores
            if total.total.weight.step != "accumulator":
                weights = self._vectors(f"weight{number}_", groups)
                self._each(total.total.weight, column, columns, stop, weights, scores)
            for group in range(groups):
                for lane in range(LANES):
                    four = self.place[1] + fixed(group * tile.across)
                    for some in range(tile.rows // LANES):
                        rows = fixed(some * (tile.m // tile.rows)) + self.place[0]
                        values = [weights[some * LANES + each][group].lane(lane) for each in range(LANES)]
                        body.set(self.weights.at(four, lane, rows), vector("f32", values))
            if total is self.sums[-1]:
                following = column + fixed(tile.n)
                with body.when(following < stop):
                    for product in self.products:
                        product.fetch(following)
            total.add(column, stop)

    def _vectors(self, name: str, groups: int) -> list[list[Name]]:
        """Declare for each of the thread's rows groups of four columns."""
        return [
            [self.body.var(f"{name}{row}_{group}", None, "vec4<f32>") for group in range(groups)]
            for row in range(self.tile.rows)
        ]

    def _each(
        self, root: Expression, column: Node, columns: list[list[Name]], stop: Node, targets: list[list[Name]],
        softmax: list[list[Name]],
    ) -> None:  # fmt: skip
        """Write an expression of every product of the thread into vectors of four columns; -inf, or zero, outside of the bounds."""
        body = self.body
        for row, found in enumerate(targets):
            for group, target in enumerate(found):
                body.set(target, vector("f32", self._four(root, row, group, columns[group], softmax)))
        crossed = self._crossed(column, stop)
        if not crossed:
            return
        outside = Literal(0.0, "f32") if root is not self.kernel.score else -Call("wt_inf", (), "f32")
        with body.when(reduce(operator.or_, crossed)):
            for row, found in enumerate(targets):
                for group, target in enumerate(found):
                    bounded = [
                        self._bounded(target.lane(lane), outside, row, each, stop)
                        for lane, each in enumerate(columns[group])
                    ]
                    body.set(target, vector("f32", bounded))

    def _store_rows(self) -> None:
        """Write the rows' stores, by the first of the threads that share each, in one of the workgroups that share it."""
        body, kernel = self.body, self.kernel
        if self.softmax is None or not (kernel.row_stores or self.tile.splits > 1):
            return
        with body.when(every(self.place[1].equals(fixed(0)), self.base_v.equals(fixed(0)))):
            for number, row in enumerate(self.rows):
                with body.when(self._place_of(number) < self.m if self.m % self.tile.m else None):
                    if self.tile.splits > 1:
                        self.parts.write_row(self.module, self.part, self.flat_batch, row, *self.softmax.state(number))
                    else:
                        store_row(self.module, kernel, self.batch, row, *self.softmax.state(number))
