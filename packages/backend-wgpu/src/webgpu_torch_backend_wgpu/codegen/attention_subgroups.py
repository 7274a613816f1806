"""Attention of a few rows by subgroups, each with a softmax of its own: nobody waits for others before all columns are done.

A subgroup takes some columns at once, at most as many as it has threads. Some neighbouring threads share the product with a
column, and exchange parts of it until each has the score of a column, which several may have; then each has some positions of the
values, and is told the columns' weights. What few columns take is short text: a kernel that runs a few microseconds waits for its
own instructions, too. Workgroups share the columns and leave parts (T. Dao et al., "Flash-Decoding for long-context inference",
2023).
"""

from __future__ import annotations

import operator
from collections.abc import Iterator

from webgpu_torch_core.ir.kernels import Attention
from webgpu_torch_core.ir.layouts import number_of_elements
from webgpu_torch_core.ir.records import Record

from ..facts import Facts
from ..program import Capabilities, Program
from .access import LANES
from .attention_parts import LOWEST, vector_dimension
from .attention_rows import SPLITS, AttendingRows, read_side, sides_of, takes_few_rows
from .attention_softmax import power
from .combining import in_pairs, together
from .contraction import Side
from .ir import Call, Literal, Name, Node, choose, fixed, minimum, u32, vector, zero
from .module import THREAD

#: how many subgroups a workgroup may have
_SUBGROUPS = (1, 2, 4, 8, 16, 32)
#: columns that a subgroup takes at once, unless it must take more
_COLUMNS = 8
#: most numbers of the rows that a thread keeps, and the most threads that share a column unless these are more
_KEPT, _TEAM = 64, 8
#: most vectors of values that a thread has under way at once, and those that all threads of a workgroup find registers for
_READ, _REGISTERS = 32, 8192
#: what a pass takes, a second one, and each part that it adds; as many columns as a subgroup has threads, and each number of a row
#: that they meet; a subgroup of a workgroup, and each number that it adds to a sum; all in dispatches
_PASS, _SPLITTING, _PART, _ROUND, _NUMBER, _SUBGROUP, _ADDED = 0.7, 0.53, 0.03, 0.09, 0.00027, 0.012, 0.000064
#: how many times its even share of the memory's rate a unit may have, and subgroups that it runs at once
_SHARE, _TOGETHER = 7, 16


class Subgroups(Record):
    """A variant: ``splits`` workgroups share the columns; each has ``subgroups`` of ``size`` threads, of which ``team`` share
    the product with a column, and take ``columns`` at once."""

    __slots__ = fields = ("splits", "subgroups", "size", "team", "columns")
    splits: int
    subgroups: int
    size: int
    team: int
    columns: int

    @property
    def together(self) -> int:
        """Columns that a workgroup takes at once."""
        return self.subgroups * self.columns


def by_subgroups(kernel: Attention, capabilities: Capabilities) -> Iterator[Subgroups]:
    """Yield how subgroups may share an attention of few rows."""
    size = capabilities.subgroup_size
    if not size or not takes_few_rows(kernel) or vector_dimension(kernel, "v") is None:
        return
    m, n, k, v = map(number_of_elements, (kernel.m, kernel.n, kernel.k, kernel.v))
    team = _team(m, k, size)
    if not team or not _reads_vectors(kernel) or size % min(v // LANES, size) or v // LANES % min(v // LANES, size):
        return
    for subgroups in _SUBGROUPS:
        nbytes = subgroups * m * (v + 2) * 4
        if subgroups * size > capabilities.invocations or nbytes > capabilities.workgroup_bytes:
            continue
        columns = _columns(team, size, v)
        for splits in SPLITS:
            if splits == 1 or (splits - 1) * subgroups * columns < n:
                yield Subgroups(splits, subgroups, size, team, columns)


def _columns(team: int, size: int, v: int) -> int:
    """Return how many columns a subgroup takes at once: one of each team, and as many as share the reading of a row, at least."""
    return max(min(_COLUMNS, size), size // team, size // min(v // LANES, size))


def _reads_vectors(kernel: Attention) -> bool:
    """Return whether four neighbours of a key, and of a value, are read at once."""
    keys, values = (Side(each, each.right, "n") for each in sides_of(kernel))
    return keys.axis == "k" and values.axis == "n" and keys.lanes == values.lanes == LANES


def _team(m: int, k: int, size: int) -> int:
    """Return how many threads share the product of ``m`` rows with a column; 0 where that does not go."""
    if not k or k % LANES:
        return 0
    team = 1
    while k // LANES % (2 * team) == 0 and 2 * team <= size and (team < _TEAM or m * k > _KEPT * team):
        team *= 2
    return team


def by_subgroups_seconds(kernel: Attention, plan: Subgroups, facts: Facts) -> float:
    """Return an estimate of the time that an attention by subgroups takes."""
    m, n, k, v = map(number_of_elements, (kernel.m, kernel.n, kernel.k, kernel.v))
    workgroups = number_of_elements(kernel.batch) * plan.splits
    turns = -(-workgroups // (facts.units * max(_TOGETHER // plan.subgroups, 1)))
    rounds = turns * -(-n // (plan.splits * plan.together)) * plan.columns / plan.size
    waiting = _PASS + rounds * (_ROUND + _NUMBER * m * (k + v)) + plan.subgroups * (_SUBGROUP + _ADDED * m * v)
    if plan.splits > 1:
        waiting += _SPLITTING + _PART * plan.splits
    moved = sum(each.numel * each.dtype.itemsize for each in kernel.operands)
    busy = min(workgroups * _SHARE / facts.units, 1.0)
    return waiting * facts.dispatch + moved / (facts.bandwidth * busy)


def generate_by_subgroups(kernel: Attention, capabilities: Capabilities, plan: Subgroups) -> Program:
    """Return the program of an attention by subgroups."""
    return _Writer(kernel, capabilities, plan).program()


class _Writer(AttendingRows):
    """Writes the kernel."""

    def __init__(self, kernel: Attention, capabilities: Capabilities, plan: Subgroups) -> None:
        super().__init__(kernel, capabilities, plan.splits)
        self.plan = plan
        #: columns that a team takes, one after another
        self.turns = plan.columns * plan.team // plan.size
        #: vectors along a row that a thread has, and the same along a sum; columns whose values are read at once
        self.along = self.k // LANES // plan.team
        self.width = min(self.v // LANES, plan.size)
        self.wide = self.v // LANES // self.width
        self.sharing = plan.size // self.width
        self.found = self.module.array("found", "vec4<f32>", plan.subgroups * self.m * self.v // LANES)
        self.states = self.module.array("states", "vec2<f32>", plan.subgroups * self.m)

    def program(self) -> Program:
        """Return the program."""
        body, plan, count = self.body, self.plan, self.begin()
        size, team, width = fixed(plan.size), fixed(plan.team), fixed(self.width)
        self.lane, self.subgroup = body.let("lane", THREAD % size), body.let("subgroup", THREAD // size)
        self.member, self.slot = body.let("member", self.lane % team), body.let("slot", self.lane // team)
        self.local, self.share = body.let("local", self.lane % width), body.let("share", self.lane // width)
        self.queries = [self._query(row) for row in range(self.m)]
        start, stop = self.between()
        low = Literal(LOWEST, "f32")
        self.tops = [body.var(f"top{row}", low) for row in range(self.m)]
        self.totals = [body.var(f"total{row}", Literal(0.0, "f32")) for row in range(self.m)]
        self.results = [
            [body.var(f"result{row}_{each}", zero("vec4<f32>")) for each in range(self.wide)] for row in range(self.m)
        ]
        with body.loop("block", start, lambda column: column < stop, fixed(plan.together)) as column:
            self._take(body.let("first_column", column + self.subgroup * fixed(plan.columns)), stop)
        self._meet()
        self._leave()
        return self.finish(plan.subgroups * plan.size, count)

    def _query(self, row: int) -> list[Name]:
        """Write the loads of a thread's part of a row; return it."""
        side, found = self.scores.left, list[Name]()
        reach = side.lanes if side.axis == "k" else 1
        for each in range(self.along):
            deep = self.body.let(self.module.fresh("deep"), (self.member + fixed(each * self.plan.team)) * fixed(LANES))
            if reach > 1:
                value = read_side(self.scores, side, self.batch, u32(row), deep, reach)
            else:
                lanes = [self.scores.element(side, self.batch, u32(row), deep + fixed(lane)) for lane in range(LANES)]
                value = vector("f32", lanes)
            found.append(self.body.let(self.module.fresh("query"), value))
        return found

    def _take(self, first: Node, stop: Node) -> None:
        """Write what takes the columns from ``first`` on in."""
        body, plan, module = self.body, self.plan, self.module
        # Beyond the last column it is read again, and counts nothing.
        self.last = body.let("last_column", stop - fixed(1))
        columns = plan.columns // self.sharing
        several = max(min(_READ, _REGISTERS // (plan.subgroups * plan.size)) // self.wide, 1)
        batches = [range(at, min(at + several, columns)) for at in range(0, columns, several)]
        values = self._values(first, batches[0])
        products = self._products(first, 0, 1)
        number = self.member if self.turns == plan.team else self.member % fixed(self.turns)
        own = body.let("own", first + number * fixed(plan.size // plan.team) + self.slot)
        inside = body.let("own_inside", minimum(own, self.last))
        weights: list[Name] = []
        for row, product in enumerate(products):
            value = self.score_of(product, row, inside)
            score = body.let(module.fresh("score"), choose(own < stop, value, -Call("wt_inf", (), "f32")))
            top, total = self.tops[row], self.totals[row]
            largest = body.let(module.fresh("largest"), Call("max", (top, Call("subgroupMax", (score,), "f32")), "f32"))
            shrink = body.let(module.fresh("shrink"), power(module, top - largest))
            weights.append(body.let(module.fresh("weight"), power(module, score - largest)))
            body.set(top, largest)
            body.set(total, total * shrink + weights[-1])
            for result in self.results[row]:
                body.set(result, result * shrink)
        for number, some in enumerate(batches):
            following = self._values(first, batches[number + 1]) if number + 1 < len(batches) else []
            for each, value in zip(some, values, strict=True):
                for row, weight in enumerate(weights):
                    told = body.let(module.fresh("told"), Call("subgroupShuffle", (weight, self._has(each)), "f32"))
                    for result, part in zip(self.results[row], value, strict=True):
                        body.set(result, result + part * told)
            values = following

    def _offset(self, each: int) -> Node:
        """Return which of a subgroup's columns is the one whose values a thread reads at a time."""
        return fixed(each) if self.sharing == 1 else fixed(each * self.sharing) + self.share

    def _has(self, each: int) -> Node:
        """Return which thread has the weights of that column."""
        apart, offset = self.plan.size // self.plan.team, self._offset(each)
        if self.sharing == 1:
            return fixed(each % apart * self.plan.team + each // apart)
        return offset % fixed(apart) * fixed(self.plan.team) + offset // fixed(apart)

    def _values(self, first: Node, some: range) -> list[list[Node]]:
        """Write the loads of a thread's values of some columns behind ``first``."""
        body, found = self.body, list[list[Node]]()
        for each in some:
            column = body.let(self.module.fresh("column"), first + self._offset(each))
            inside = body.let(self.module.fresh("inside"), minimum(column, self.last))
            parts: list[Node] = []
            for wide in range(self.wide):
                at = body.let(self.module.fresh("position"), (self.local + fixed(wide * self.width)) * fixed(LANES))
                value = body.let(
                    self.module.fresh("read"), read_side(self.sums, self.sums.right, self.batch, at, inside, LANES)
                )
                counted = choose(column <= self.last, value, zero("vec4<f32>"))
                parts.append(body.let(self.module.fresh("value"), counted))
            found.append(parts)
        return found

    def _products(self, first: Node, number: int, distance: int) -> list[Node]:
        """Write all rows' products with one column a thread; return them.

        Of every ``distance``-th column that a team takes, from ``number`` on, a thread gets the one that its number tells; threads
        of a team that are more than its columns get the same.
        """
        body, module = self.body, self.module
        if distance == self.turns:
            parts = self._parts_of(first, number)
            return [together(module, each, self.plan.team, nearest=distance) for each in parts]
        even, odd = self._products(first, number, 2 * distance), self._products(first, number + distance, 2 * distance)
        high = (self.member & fixed(distance)).differs(fixed(0))
        found: list[Node] = []
        for one, other in zip(even, odd, strict=True):
            kept, given = choose(high, other, one), body.let(module.fresh("given"), choose(high, one, other))
            found.append(
                body.let(module.fresh("sum"), kept + Call("subgroupShuffleXor", (given, fixed(distance)), "f32"))
            )
        return found

    def _parts_of(self, first: Node, number: int) -> list[Node]:
        """Write a thread's part of all rows' products with one of its team's columns."""
        body, plan, module = self.body, self.plan, self.module
        column = minimum(first + fixed(number * (plan.size // plan.team)) + self.slot, self.last)
        key = body.let(module.fresh("key"), column)
        side, keys = self.scores.right, list[Node]()
        for each in range(self.along):
            deep = body.let(module.fresh("deep"), (self.member + fixed(each * plan.team)) * fixed(LANES))
            keys.append(body.let(module.fresh("read"), read_side(self.scores, side, self.batch, key, deep, LANES)))
        found: list[Node] = []
        for query in self.queries:
            products: list[Node] = [Call("dot", (each, other), "f32") for each, other in zip(query, keys, strict=True)]
            found.append(body.let(module.fresh("product"), in_pairs(products, operator.add)))
        return found

    def _meet(self) -> None:
        """Write a subgroup's state and sums into workgroup memory."""
        body, plan, module = self.body, self.plan, self.module
        for row in range(self.m):
            place = body.let(module.fresh("place"), self.subgroup * fixed(self.m) + fixed(row))
            total: Node = Call("subgroupAdd", (self.totals[row],), "f32")
            if plan.columns < plan.size:
                # Several threads have the weight of each column.
                total = total * Literal(plan.columns / plan.size, "f32")
            total = body.let(module.fresh("all"), total)
            with body.when(self.lane.equals(fixed(0))):
                body.set(self.states[place], vector("f32", [self.tops[row], total]))
            for wide, result in enumerate(self.results[row]):
                value = together(module, result, plan.size, nearest=self.width)
                at = place * fixed(self.v // LANES) + fixed(wide * self.width) + self.local
                with body.when(self.share.equals(fixed(0)) if self.sharing > 1 else None):
                    body.set(self.found[at], value)
        body.barrier()

    def _leave(self) -> None:
        """Write how the subgroups' sums come together, and leave."""
        body, plan, module = self.body, self.plan, self.module
        along, every = self.v // LANES, range(plan.subgroups)
        count = self.m * along
        with body.loop("place", THREAD, lambda place: place < fixed(count), fixed(plan.subgroups * plan.size)) as place:
            row, four = body.let("row", place // fixed(along)), body.let("four", place % fixed(along))
            states = [body.let(f"state{each}", self.states[fixed(each * self.m) + row]) for each in every]
            tops: list[Node] = [each.lane(0) for each in states]
            top = body.let("top", in_pairs(tops, lambda one, other: Call("max", (one, other), "f32")))
            shares = [body.let(f"share{each}", power(module, own - top)) for each, own in enumerate(tops)]
            totals: list[Node] = [state.lane(1) * share for state, share in zip(states, shares, strict=True)]
            total = body.let("total", in_pairs(totals, operator.add))
            sums = [self.found[fixed(each * count) + place] * share for each, share in enumerate(shares)]
            found = body.let("sum", in_pairs(sums, operator.add))
            column, first = body.let("column", four * fixed(LANES)), four.equals(fixed(0))
            self.leave(row, column, [found.lane(lane) for lane in range(LANES)], total)
            with body.when(first):
                self.leave_row(row, top, total)
