"""Attention of a few rows, as in decoding: keys and values are read once, by neighbouring threads, and meet no others' in memory.

Each thread has the scores of one column with all rows, then a part of the columns' values for neighbouring positions. Workgroups
share the columns and leave parts (T. Dao et al., "Flash-Decoding for long-context inference", 2023).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator

from webgpu_torch_core.ir.dtypes import float32
from webgpu_torch_core.ir.expression import constant
from webgpu_torch_core.ir.kernels import Attention, Contraction
from webgpu_torch_core.ir.layouts import number_of_elements
from webgpu_torch_core.ir.records import Record

from ..facts import Facts
from ..program import Capabilities, Program
from .access import LANES, Buffers, evaluate
from .attention_parts import LOWEST, Parts, as_contraction, store_row, store_sum, vector_dimension
from .attention_softmax import power
from .combining import in_pairs
from .contraction import Frame, Side
from .contraction_vector import SKINNY
from .ir import Array, Call, Literal, Name, Node, choose, convert_to, every, fixed, minimum, u32, vector, zero
from .module import LINEAR_GROUP, THREAD, WORKGROUP, Module, split_index

#: in how many parts columns may be split
SPLITS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64)
#: the share of the memory's rate that is reached, workgroups that a unit runs at once, the operations of a unit that last as long
#: as one of these takes for a column, and the products with a column that last as long again
_SHARE, _TOGETHER, _COLUMN, _PRODUCTS = 1.5, 4, 14500, 512
#: what a second pass and each part that it adds cost, in dispatches
_SPLITTING, _PART = 0.3, 0.05
#: least threads of a workgroup, and most; most that share a product with a column
_LEAST, _MOST, _TEAM = 64, 512, 4
#: the share of a column's time that one of those at once takes, those whose time more threads save when they begin and end; and the
#: share of what is waited for that is not hidden behind memory
_AT_ONCE, _BEGUN, _SEEN = 0.625, 20, 0.1
#: threads that gather what all threads have, and values that a thread has under way
_GATHERING, _READ = 16, 8


class Rows(Record):
    """A variant: ``splits`` workgroups share the columns; each has ``threads``, of which ``team`` share the product with a column,
    and takes ``columns`` at once."""

    __slots__ = fields = ("splits", "threads", "team", "columns")
    splits: int
    threads: int
    team: int
    columns: int


def takes_few_rows(kernel: Attention) -> bool:
    """Return whether an attention is that of a few rows with one product and one sum of values."""
    plain = kernel.score is not None and [each.depth for each in kernel.products] == ["k"]
    sums = [(each.along, each.weight.step) for each in kernel.sums]
    return number_of_elements(kernel.m) <= SKINNY and plain and sums == [("v", "accumulator")]


def sides_of(kernel: Attention) -> tuple[Contraction, Contraction]:
    """Return the product of rows with columns, and the sum of the columns' values, whose left side is nothing."""
    (product,), (total,) = kernel.products, kernel.sums
    scores = as_contraction(kernel, "m", "n", "k", product.left, product.right)
    return scores, as_contraction(kernel, "m", "v", "n", constant(0.0, float32), total.value)


def few_rows(kernel: Attention, capabilities: Capabilities) -> Iterator[Rows]:
    """Yield how workgroups may share an attention of few rows."""
    n, v = map(number_of_elements, (kernel.n, kernel.v))
    threads = _LEAST
    while threads < v:
        threads *= 2
    if not takes_few_rows(kernel) or threads > min(WORKGROUP, capabilities.invocations):
        return
    many = min(_MOST, capabilities.invocations)
    for splits in SPLITS:
        # Few threads, so that others of their unit load while they wait; most of them have a column of their own.
        team = _team(kernel, capabilities, threads, threads)
        if team and (splits == 1 or splits * threads <= 2 * n):
            yield Rows(splits, threads, team, threads)
        # Many, where nobody else is there: all columns at once.
        more = threads
        while not capabilities.software and more < many and more // _TEAM * splits < n:
            more *= 2
        columns = more // _TEAM
        if more > threads and _team(kernel, capabilities, more, columns) == _TEAM and splits * columns < 2 * n:
            yield Rows(splits, more, _TEAM, columns)


def _team(kernel: Attention, capabilities: Capabilities, threads: int, columns: int) -> int:
    """Return how many threads share the product with a column: as many as workgroup memory allows; 0 where that is none."""
    m, k = number_of_elements(kernel.m), number_of_elements(kernel.k)
    for team in (_TEAM, 2, 1):
        rows = 16 * -(-m // LANES) * (k + (team + 1) * columns + _GATHERING)
        if rows + 16 * threads <= capabilities.workgroup_bytes:
            return team
    return 0


def few_rows_seconds(kernel: Attention, plan: Rows, facts: Facts) -> float:
    """Return an estimate of the time that an attention of few rows takes."""
    splits = plan.splits
    moved = sum(each.numel * each.dtype.itemsize for each in kernel.operands)
    together = max(_TOGETHER * _LEAST // plan.threads, 1) if plan.columns < plan.threads else _TOGETHER
    rounds = -(-number_of_elements(kernel.batch) * splits // (together * facts.units))
    column = _COLUMN * (1 + number_of_elements(kernel.m) * number_of_elements(kernel.k) / _PRODUCTS)
    columns = -(-number_of_elements(kernel.n) // splits)
    if plan.columns < plan.threads:
        columns = -(-columns // plan.columns) * plan.columns * _AT_ONCE - _BEGUN
    waiting = rounds * columns * column * facts.units / facts.flops
    seconds = max(moved / (facts.bandwidth * _SHARE), waiting) + _SEEN * waiting + facts.dispatch
    return seconds if splits == 1 else seconds + (_SPLITTING + _PART * splits) * facts.dispatch


def generate_few_rows(kernel: Attention, capabilities: Capabilities, plan: Rows) -> Program:
    """Return the program of an attention of few rows."""
    return _Writer(kernel, capabilities, plan).program()


class AttendingRows:
    """What kernels of attention of few rows share: their sides, the part of the columns that a workgroup has, and scores."""

    def __init__(self, kernel: Attention, capabilities: Capabilities, splits: int) -> None:
        self.kernel, self.capabilities, self.splits = kernel, capabilities, splits
        self.module = module = Module(kernel, capabilities)
        self.body = module.body
        scores, sums = sides_of(kernel)
        self.scores, self.sums = Frame(scores, capabilities, module), Frame(sums, capabilities, module)
        self.m, self.n, self.k, self.v = self.scores.m, self.scores.n, self.scores.k, self.sums.n
        self.buffers, self.parts = Buffers(module), Parts(kernel, splits)
        self.score = kernel.sums[0].weight if kernel.score is None else kernel.score

    def begin(self) -> int:
        """Write which rows a workgroup has, and which part of their columns; return how many workgroups there are."""
        body, count = self.body, self.scores.batch * self.splits
        linear = body.let("linear", LINEAR_GROUP)
        body.leave(linear >= count)
        self.part = body.let("part", linear % self.splits)
        self.flat = body.let("batch", linear // self.splits)
        self.batch = split_index(self.module, self.flat, self.kernel.batch)
        return count

    def finish(self, threads: int, workgroups: int) -> Program:
        """Return the program, with what sums the parts up."""
        found = self.module.finish(threads, workgroups, " (parts)" if self.splits > 1 else "")
        return Program((found,), ()) if self.splits == 1 else self.parts.program(self.kernel, self.capabilities, found)

    def between(self) -> tuple[Node, Node]:
        """Write between which columns each row attends; return between which the workgroup does."""
        body, kernel = self.body, self.kernel
        self.bounds: list[list[Node]] = [[] for _ in range(self.m)]
        ends: list[Node] = [fixed(0), u32(self.n)]
        for place, root in enumerate((kernel.first, kernel.last)):
            if root is None:
                continue
            for row in range(self.m):
                value = evaluate(self.buffers, [root], self._coordinates(row))[0][0]
                inside = Call(
                    "clamp", (convert_to("i32", value), fixed(0, "i32"), convert_to("i32", u32(self.n))), "i32"
                )
                bound = body.let(f"bound{place}_{row}", convert_to("u32", inside))
                self.bounds[row].append(bound)
                ends[place] = bound if row == 0 else Call("max" if place else "min", (ends[place], bound), "u32")
        first, last = body.let("first", ends[0]), body.let("last", ends[1])
        if self.splits == 1:
            return first, last
        # What there is to read is shared evenly, also where its end is known to the device only.
        share = (Call("max", (last, first), "u32") - first + u32(self.splits - 1)) // self.splits
        columns = body.let("columns", share)
        first = body.let("own_first", first + self.part * columns)
        return first, body.let("own_last", minimum(first + columns, last))

    def _coordinates(self, row: int, column: Node | None = None) -> list[Node]:
        kernel = self.kernel
        found = self.batch + split_index(self.module, u32(row), kernel.m)
        if column is None:
            return found
        return found + [fixed(0)] * (len(kernel.k) + len(kernel.v)) + split_index(self.module, column, kernel.n)

    def score_of(self, product: Node, row: int, column: Node) -> Node:
        """Write the score of a row with a column, from their product, and return it; -inf where the row does not attend to it."""
        (value,) = evaluate(self.buffers, [self.score], self._coordinates(row, column), 1, products=[[product]])[0]
        bounds = list(self.bounds[row])
        conditions = [bounds.pop(0) <= column] if self.kernel.first is not None else []
        if self.kernel.last is not None:
            conditions.append(column < bounds.pop(0))
        return choose(every(*conditions), value, -Call("wt_inf", (), "f32")) if conditions else value

    def leave(self, row: Node, column: Node, values: list[Node], total: Node) -> None:
        """Write the store of neighbouring positions of a row's sum, from what they are and the sum of the row's weights."""
        if self.splits > 1:
            self.parts.write_sum(self.module, self.part, self.flat, row, column, values)
            return
        least = Call("max", (total, Literal(1e-37, "f32")), "f32")
        shares: list[Node] = [self.body.let(self.module.fresh("part"), each // least) for each in values]
        store_sum(self.module, self.kernel, self.kernel.sums[0], self.batch, row, column, shares)

    def leave_row(self, row: Node, top: Node, total: Node) -> None:
        """Write the stores of a row's state."""
        if self.splits > 1:
            self.parts.write_row(self.module, self.part, self.flat, row, top, total)
        elif self.kernel.row_stores:
            store_row(self.module, self.kernel, self.batch, row, top, total)


class _Writer(AttendingRows):
    """Writes the kernel; rows are four to a vector, those behind the last one are the last one again."""

    def __init__(self, kernel: Attention, capabilities: Capabilities, plan: Rows) -> None:
        super().__init__(kernel, capabilities, plan.splits)
        self.threads, self.team, self.columns = plan.threads, plan.team, plan.columns
        module, self.groups = self.module, -(-self.m // LANES)
        self.queries = module.array("queries", "vec4<f32>", self.k * self.groups)
        self.weights = module.array("weights", "vec4<f32>", self.columns * self.groups)
        self.partial = module.array("partial", "vec4<f32>", self.columns * self.team * self.groups)
        self.gathered = module.array("gathered", "vec4<f32>", self.groups * _GATHERING)
        # Values' positions of a thread, and threads that share the columns.
        together = self.sums.right.axis == "n" and vector_dimension(kernel, "v") is not None
        self.lanes = self.sums.right.lanes if together else 1
        self.width = self.v // self.lanes
        self.sharing = self.threads // self.width
        self.shared = module.array("shared_sums", self._kind, self.sharing * self.width)

    @property
    def _kind(self) -> str:
        return "vec4<f32>" if self.lanes > 1 else "f32"

    def program(self) -> Program:
        """Return the program."""
        body, count = self.body, self.begin()
        self.local, self.share = body.let("local", THREAD % self.width), body.let("share", THREAD // self.width)
        self._load_queries()
        start, stop = self.between()
        low = vector("f32", [Literal(LOWEST, "f32")] * LANES)
        self.tops = [body.var(f"top{group}", low) for group in range(self.groups)]
        self.totals = [body.var(f"total{group}", zero("vec4<f32>")) for group in range(self.groups)]
        self.results = [body.var(f"result{row}", zero(self._kind)) for row in range(self.m)]
        body.barrier()
        with body.loop("column", start, lambda column: column < stop, fixed(self.columns)) as column:
            self._take(column, stop)
            body.barrier()
        self._finish()
        return self.finish(self.threads, count)

    def _load_queries(self) -> None:
        """Write the loads of the rows into workgroup memory."""
        body, rows = self.body, self.groups * LANES
        with body.loop("each", THREAD, lambda each: each < self.k * rows, fixed(self.threads)) as each:
            row, deep = body.let("row", each % fixed(rows)), body.let("deep", each // fixed(rows))
            inside = body.let("inside", minimum(row, self.m - 1))
            value = self.scores.element(self.scores.left, self.batch, inside, deep)
            body.set(self.queries[deep * fixed(self.groups) + row // fixed(LANES)][row % fixed(LANES)], value)

    def _take(self, column: Node, stop: Node) -> None:
        """Write what takes columns from ``column`` on in: their weights, then the sum of their values with these."""
        body = self.body
        several = min(_READ, -(-self.columns // self.sharing))
        step = several * self.sharing
        count = body.let("count", minimum(stop - column, self.columns))
        if step < self.columns:
            self._weigh(column, stop)
            body.barrier()
            with (
                body.when(self.share < fixed(self.sharing)),
                body.loop("at", self.share, lambda at: at < count, fixed(step)) as at,
            ):
                self._add(self._values(column, at, count, several), count)
            return
        # All values of a thread are under way while it waits for weights.
        values = self._values(column, self.share, count, several)
        self._weigh(column, stop)
        body.barrier()
        with body.when(self.share < fixed(self.sharing)):
            self._add(values, count)

    def _weigh(self, column: Node, stop: Node) -> None:
        """Write the weights of the rows with a thread's column, relative to the largest scores so far."""
        body, module = self.body, self.module
        own = body.let("own", column + THREAD)
        self._multiply(column, stop)
        body.barrier()
        nothing = vector("f32", [-Call("wt_inf", (), "f32")] * LANES)
        scores = [body.var(f"score{group}", nothing) for group in range(self.groups)]
        with body.when(self._has_column()), body.when(own < stop):
            products: list[Name] = []
            for group in range(self.groups):
                total: Node = self.partial[self._partial(THREAD, fixed(0), group)]
                for each in range(1, self.team):
                    total = total + self.partial[self._partial(THREAD, fixed(each), group)]
                products.append(body.let(f"product{group}", total))
            for group, score in enumerate(scores):
                values: list[Node] = []
                for lane in range(LANES):
                    row = min(group * LANES + lane, self.m - 1)
                    values.append(self.score_of(products[group].lane(lane), row, own))
                body.set(score, vector("f32", values))
        tops = self._gather(scores, lambda one, other: Call("max", (one, other), "vec4<f32>"))
        for group, (top, total, score) in enumerate(zip(self.tops, self.totals, scores, strict=True)):
            largest = body.let(module.fresh("largest"), Call("max", (top, tops[group]), "vec4<f32>"))
            shrink = body.let(module.fresh("shrink"), power(module, top - largest))
            weight = body.let(module.fresh("weight"), power(module, score - largest))
            body.set(top, largest)
            body.set(total, total * shrink + weight)
            with body.when(self._has_column()):
                body.set(self._of(self.weights, THREAD, group), weight)
            for lane, result in enumerate(self.results[group * LANES : (group + 1) * LANES]):
                body.set(result, result * shrink.lane(lane))

    def _has_column(self) -> Node | None:
        """Return what holds for threads that have a column, where not all do."""
        return THREAD < fixed(self.columns) if self.columns < self.threads else None

    def _partial(self, column: Node, member: Node, group: int) -> Node:
        return (column * fixed(self.team) + member) * fixed(self.groups) + fixed(group)

    def _multiply(self, column: Node, stop: Node) -> None:
        """Write the products of all rows with the columns from ``column`` on into workgroup memory, a part by each of a team."""
        body, team, frame = self.body, self.team, self.scores
        side = frame.right
        reach = side.lanes if side.axis == "k" else 1
        member, slot = body.let("member", THREAD % fixed(team)), body.let("slot", THREAD // fixed(team))
        several = next(each for each in (8, 4, 2, 1) if self.k % (each * reach * team) == 0 or each == 1)
        with body.loop("at", slot, lambda at: at < fixed(self.columns), fixed(self.threads // team)) as at:
            products = [body.var(f"product{group}", zero("vec4<f32>")) for group in range(self.groups)]
            key = body.let("key", column + at)
            with body.when(key < stop):
                first, step = member * fixed(reach), reach * team
                with body.loop("deep", first, lambda deep: deep < self.k, fixed(several * step)) as deep:
                    places = [body.let(f"deep{each}", deep + fixed(each * step)) for each in range(several)]
                    found = [
                        body.let(f"key{each}", read_side(frame, side, self.batch, key, place, reach))
                        for each, place in enumerate(places)
                    ]
                    for place, value in zip(places, found, strict=True):
                        for lane in range(reach):
                            factor = value.lane(lane) if reach > 1 else value
                            for group, product in enumerate(products):
                                query = self.queries[(place + fixed(lane)) * fixed(self.groups) + fixed(group)]
                                body.set(product, product + query * factor)
            for group, product in enumerate(products):
                body.set(self.partial[self._partial(at, member, group)], product)

    def _gather(self, values: list[Name], combine: Callable[[Node, Node], Node]) -> list[Name]:
        """Write what all threads' values combine to, in one order, and return it."""
        body, per = self.body, self.columns // _GATHERING
        with body.when(self._has_column()):
            for group, value in enumerate(values):
                body.set(self._of(self.weights, THREAD, group), value)
        body.barrier()
        with body.when(THREAD < fixed(_GATHERING)):
            for group in range(self.groups):
                own = [self._of(self.weights, THREAD * fixed(per) + fixed(each), group) for each in range(per)]
                body.set(self._of(self.gathered, THREAD, group), in_pairs(own, combine))
        body.barrier()
        found: list[Name] = []
        for group in range(self.groups):
            every_one = [self._of(self.gathered, fixed(each), group) for each in range(_GATHERING)]
            found.append(body.var(self.module.fresh("all"), in_pairs(every_one, combine)))
        return found

    def _of(self, array: Array, place: Node, group: int) -> Node:
        return array[place * fixed(self.groups) + fixed(group)]

    def _values(self, column: Node, at: Node, count: Node, several: int) -> list[tuple[Node, Node]]:
        """Write the loads of a thread's values of several columns from ``column + at`` on; return them with the columns' places."""
        body, found = self.body, list[tuple[Node, Node]]()
        for each in range(several):
            place = body.let(self.module.fresh("at"), at + fixed(each * self.sharing))
            # Beyond the last column it is read again, and counts nothing.
            inside = column + minimum(place, count - fixed(1))
            left, side = self.local * fixed(self.lanes), self.sums.right
            value = read_side(self.sums, side, self.batch, left, inside, self.lanes)
            found.append((place, body.let(self.module.fresh("value"), value)))
        return found

    def _add(self, values: list[tuple[Node, Node]], count: Node) -> None:
        """Write the sum of columns' values with the weights in workgroup memory."""
        body, whole = self.body, self.columns % (len(values) * self.sharing) == 0
        for place, value in values:
            counted = body.let(self.module.fresh("counted"), choose(place < count, value, zero(self._kind)))
            held = place if whole else minimum(place, fixed(self.columns - 1))
            for group in range(self.groups):
                weight = body.let(self.module.fresh("w"), self._of(self.weights, held, group))
                for lane, result in enumerate(self.results[group * LANES : (group + 1) * LANES]):
                    body.set(result, result + counted * weight.lane(lane))

    def _finish(self) -> None:
        """Write the sums over the threads that share columns, and how the results leave."""
        body, module = self.body, self.module
        totals = self._gather(self.totals, operator.add)
        several = next(each for each in (16, 8, 4, 2, 1) if self.sharing % each == 0)
        for row, result in enumerate(self.results):
            total, top = totals[row // LANES].lane(row % LANES), self.tops[row // LANES].lane(row % LANES)
            with body.when(self.share < fixed(self.sharing)):
                body.set(self.shared[THREAD], result)
            body.barrier()
            with body.when(THREAD < fixed(self.width)):
                found = body.var(module.fresh("found"), zero(self._kind))
                with body.loop("other", fixed(0), lambda at: at < fixed(self.sharing), fixed(several)) as at:
                    places = [body.let(module.fresh("at"), at + fixed(each)) for each in range(several)]
                    others = [self.shared[THREAD + each * fixed(self.width)] for each in places]
                    body.set(found, found + in_pairs(others, operator.add))
                values: list[Node] = [found.lane(lane) for lane in range(self.lanes)] if self.lanes > 1 else [found]
                column = body.let(module.fresh("column"), self.local * fixed(self.lanes))
                self.leave(u32(row), column, values, total)
            with body.when(THREAD.equals(fixed(0))):
                self.leave_row(u32(row), top, total)
            body.barrier()


def read_side(frame: Frame, side: Side, batch: list[Node], row: Node, depth: Node, lanes: int) -> Node:
    """Write the load of an element of a side, or of neighbours along its axis."""
    return frame.vector_of(side, batch, row, depth) if lanes > 1 else frame.element(side, batch, row, depth)
