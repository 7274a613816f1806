"""Contractions where one side has few rows: the other side is read once, coalesced, as in a matrix-vector product.

Where the large side is contiguous along k, teams of threads share the sum of one output; where it is contiguous along
its own rows, threads run along them and teams take turns over k. Sums meet in workgroup memory, always in one order.
"""

from __future__ import annotations

import operator

from webgpu_torch_core.ir.kernels import Contraction
from webgpu_torch_core.ir.layouts import number_of_elements
from webgpu_torch_core.ir.records import Record

from ..facts import Facts
from ..program import Capabilities, Program
from .access import LANES
from .combining import in_pairs, together
from .contraction import Frame, Side, large_group
from .contraction_cost import sides_computed
from .contraction_parts import Parts
from .ir import Call, Name, Node, every, fixed, minimum, pick, u32, vector, zero
from .module import LINEAR_GROUP, THREAD, WORKGROUP
from .packed_side import packed_side
from .statements import Assign

#: most rows of the small side
SKINNY = 8
#: workgroups for each unit of an adapter that keep its memory busy
_ENOUGH = 2

#: neighbours along the large side's rows that are read together at least; and elements of a sum from which on a thread takes
#: longer for its own than a second pass takes
_NEAR, _LONG = 16, 64
#: from how many rows of the small side on, and how many rows of the large one a thread takes then: what it read of the small side
#: serves all of them
_MANY, _ACROSS = 4, 4
#: bytes that a thread should have under way, most loads of them, and most numbers: drivers take long for long loops
_UNDER_WAY, _LOADS, _NUMBERS = 64, 8, 64
#: threads of a workgroup that do not wait for each other: so few that there are workgroups for several processors
_THREADS_ALONE = 32
#: from how many results on threads may sum them alone, and products of the longest of such sums
_ENOUGH_RESULTS, _LONGEST_SUM = 32, 1 << 12
#: the shares of an adapter's operations and of the memory's bandwidth that are reached
_OPERATIONS, _BANDWIDTH = 0.155, 1.0
#: operations that an element takes which is read at a computed place, and a number of a few bits
_PLACE, _NUMBER = 80, 30


def vector_seconds(kernel: Contraction, plan: None, facts: Facts) -> float:
    """Return an estimate of the time that a contraction with few rows takes: of reading, or of multiplying what was read."""
    m, n, k, batch = (number_of_elements(each) for each in (kernel.m, kernel.n, kernel.k, kernel.batch))
    (left, right), *_ = sides_computed(kernel)
    work = 2 * batch * m * n * k / _OPERATIONS + batch * k * (m * left + n * right) * _PLACE
    if packed_side(kernel, large_group(kernel)) is not None:
        work += batch * k * max(m, n) * _NUMBER
    return max(kernel.nbytes() / (facts.bandwidth * _BANDWIDTH), work / facts.flops)


class Strip(Record):
    """A variant: ``team`` threads sum one output (a power of two up to 64); ``splits`` workgroups share the sum over k;
    a thread of a team along k takes ``across`` rows of the large side."""

    __slots__ = fields = ("team", "splits", "across")
    team: int
    splits: int
    across: int


def generate_vector(kernel: Contraction, capabilities: Capabilities, strip: Strip | None = None) -> Program:
    """Return the program of a contraction with a side of at most ``SKINNY`` rows."""
    return VectorGenerator(Frame(kernel, capabilities), capabilities, strip).generate()


def generate_alone(kernel: Contraction, capabilities: Capabilities) -> Program:
    """Return the program of a contraction with a side of at most ``SKINNY`` rows, whose threads need not wait for each other."""
    return _Alone(Frame(kernel, capabilities), capabilities, Strip(1, 1, 1)).generate()


def sums_alone(kernel: Contraction, capabilities: Capabilities) -> bool:
    """Return whether each thread had better sum whole results, as it does where threads of the host take turns at a barrier.

    Where results are few there are too few threads, and long sums lose too many bits one product after another.
    """
    results, k = number_of_elements(kernel.batch + kernel.m + kernel.n), number_of_elements(kernel.k)
    return capabilities.software and results >= _ENOUGH_RESULTS and k <= _LONGEST_SUM


def _choose_strip(frame: Frame, big: Side, capabilities: Capabilities) -> Strip:
    """Return teams large enough to fill an adapter, and split sums where even these do not."""
    enough = _ENOUGH * capabilities.facts.units
    if big.axis == "k":
        many = min(frame.m, frame.n) >= _MANY
        team = 8
        while team < 64 and team * big.lanes * big.folds * 2 < frame.k and (
            team < 32 or many or big.rows * frame.batch * team < enough * WORKGROUP
        ):  # fmt: skip
            team *= 2
        filled = big.rows * frame.batch * team >= enough * WORKGROUP * _ACROSS
        return Strip(team, 1, _ACROSS if many and filled else 1)
    team = 8
    # Threads side by side read at least _NEAR elements.
    most = max(32, min(WORKGROUP, capabilities.invocations) * big.lanes // _NEAR)
    while team < most and big.rows * frame.batch * team < enough * WORKGROUP * big.lanes and team * 16 < frame.k:
        team *= 2
    groups = -(-big.rows * team // (WORKGROUP * big.lanes)) * frame.batch
    splits = 1
    if groups * 2 <= enough // 2 and frame.k > team * _LONG and not capabilities.software:
        splits = max(1, min(-(-enough // groups), frame.k // (team * 8), 16))
    return Strip(team, splits, 1)


class VectorGenerator:
    """Writes the program of a contraction with few rows."""

    def __init__(self, frame: Frame, capabilities: Capabilities, strip: Strip | None, widest: int = LANES) -> None:
        self.frame = frame
        self.body = frame.body
        self.capabilities = capabilities
        small, big = (frame.left, frame.right) if large_group(frame.kernel) == "n" else (frame.right, frame.left)
        big.fold(widest)
        strip = strip or _choose_strip(frame, big, capabilities)
        self.small = small
        self.big = big
        self.strip = strip
        self.team = strip.team
        self.along_k = big.axis == "k"
        self.rows = small.rows
        self.workgroup = self._threads(strip)
        self.width = self.workgroup // strip.team
        #: elements of a sum held together: neighbouring outputs, unless the vectors run along k
        self.lanes = 1 if self.along_k else big.lanes
        self.across = strip.across if self.along_k else 1
        #: threads of a subgroup that share a sum, and add it up among each other
        self.near = min(strip.team, capabilities.subgroup_size or 1) if self.along_k else 1
        #: columns of which a thread has one each, and those of the workgroup
        self.span = self.width * self.lanes
        self.columns = self.span * self.across
        #: how far along k one load reaches
        self.reach = big.lanes * big.folds if self.along_k else 1
        self.kind = "f32" if self.lanes == 1 else "vec4<f32>"
        #: by row of the small side and of the large one
        self.sums = [[Name(f"sum{row}_{each}", self.kind) for each in range(self.across)] for row in range(self.rows)]
        self.parts = Parts(frame, strip.splits)
        #: whether a sum's threads all know it, and store it without the others: no element shares a word with a neighbour
        self.apart = self.along_k and self.near == strip.team and capabilities.subgroup_size > 0 and strip.splits == 1
        self.apart &= all(frame.module.type(each.dtype).lanes == 1 for each in frame.kernel.outputs)
        if self.apart:
            frame.store_apart()

    def _threads(self, strip: Strip) -> int:
        """Return how many threads a workgroup has."""
        return self.frame.module.workgroup

    def generate(self) -> Program:
        """Return the program."""
        linear = self.body.let("linear", LINEAR_GROUP)
        self.body.leave(linear >= self.total)
        self._strip(linear)
        return self._program(self.total)

    @property
    def total(self) -> int:
        """How many strips there are: workgroups, where each takes one."""
        return -(-self.big.rows // self.columns) * self.frame.batch * self.strip.splits

    def _program(self, workgroups: int) -> Program:
        """Return the program of what is written."""
        frame, splits = self.frame, self.strip.splits
        found = frame.module.finish(self.workgroup, workgroups, " (parts)" if splits > 1 else "")
        return Program((found,), ()) if splits == 1 else self.parts.program(frame.kernel, self.capabilities, found)

    def _strip(self, linear: Node) -> None:
        """Write the sums and stores of a workgroup's columns."""
        frame, body, splits = self.frame, self.body, self.strip.splits
        blocks = -(-self.big.rows // self.columns)
        self.base = body.let("base", (linear % blocks) * self.columns)
        piece = body.let("piece", linear // blocks)
        self.batch, self.split = body.let("batch", piece // splits), body.let("split", piece % splits)
        across = THREAD % self.team, THREAD // self.team
        part, local = across if self.along_k else (THREAD // self.width, THREAD % self.width)
        self.part, local = body.let("part", part), body.let("local", local)
        # Threads past the end repeat the last outputs, which nobody stores.
        own = self.base + local * self.lanes
        places = [own + fixed(each * self.span) if each else own for each in range(self.across)]
        last = self.big.rows - self.lanes
        self.column = [body.let(f"column{number}", minimum(each, last)) for number, each in enumerate(places)]
        self.coordinates = frame.batch_coordinates(self.batch)
        for sums in self.sums:
            for each in sums:
                body.var(each.text, zero(self.kind))
        self._loop()
        if self.apart:
            self._store_apart()
            return
        most = SKINNY if self.lanes == 1 else LANES
        self.partial = frame.module.array("partial", self.kind, self.workgroup // self.near * min(self.rows, most))
        for each in range(self.across):
            for first in range(0, self.rows, most):
                if first or each:
                    body.barrier()
                count = min(most, self.rows - first)
                self._merge(first, count, each)
                self._store(first, count, each)

    def _store_apart(self) -> None:
        """Write the stores of a team's sums, which are all of its threads': each takes one."""
        body, module, team = self.body, self.frame.module, self.team
        sums: list[Node] = [together(module, each, self.near) for row in self.sums for each in row]
        for first in range(0, len(sums), team):
            own = sums[first : first + team]
            value = pick(own, self.part)
            number = self.part + fixed(first) if first else self.part
            big = body.let(
                module.fresh("big"), self.base + THREAD // self.team + number % fixed(self.across) * u32(self.span)
            )
            with body.when(every(self.part < fixed(len(own)), big < self.big.rows)):
                small = body.let(module.fresh("small"), number // fixed(self.across))
                place = (small, big) if self.big.group == "n" else (big, small)
                self.frame.epilogue(self.coordinates, *place, [body.let(module.fresh("total"), value)])

    def _loop(self) -> None:
        """Write the sum over k: several loads at a time while they last, then one at a time."""
        body, k = self.body, self.frame.k
        turn = self.team * self.reach
        share = -(-k // self.strip.splits)
        depth = -(-share // turn) * turn
        most = self._under_way() if self.rows <= LANES and self.across == 1 else 2
        unroll = next((each for each in (8, 4, 2) if each <= most and depth >= turn * each), 1)
        even = depth * self.strip.splits == k and depth % (turn * unroll) == 0
        if even and depth == turn * unroll:
            deep = body.let("deep", self.split * depth + self.part * self.reach)
            self._accumulate([deep + fixed(each * turn) for each in range(unroll)])
            return
        first = body.let("first", self.split * depth)
        last = body.let("last", minimum(first + depth, k))
        deep = body.var("deep", first + self.part * self.reach)
        if unroll > 1:
            # In `deep + ... < last` the last of the loads is in range, so all of them are.
            with body.advance(deep, deep + turn * (unroll - 1) < last, turn * unroll):
                self._accumulate([deep + fixed(each * turn) for each in range(unroll)])
        if not even or unroll == 1:
            with body.advance(deep, deep < last, turn):
                self._accumulate([deep])

    def _under_way(self) -> int:
        """Return how many loads of its large side a thread has under way: of few bytes each as many more."""
        if self.capabilities.software:
            return 4
        moved = max(node.dtype.itemsize for node in self.big.loads) * self.big.lanes if self.big.loads else _UNDER_WAY
        return min(max(_UNDER_WAY // moved, 4), _LOADS, max(_NUMBERS // self.reach, 2))

    def _accumulate(self, depths: list[Node]) -> None:
        body = self.body
        names: list[tuple[Node, int]] = []
        weights: list[list[Node]] = []
        for number, deep in enumerate(depths):
            start = body.let(f"deep{number}", deep)
            read = [self._weights(column, start) for column in self.column]
            for part, values in enumerate(zip(*read, strict=True)):
                names.append((start, part))
                label = f"weights{number}_{part}" if part else f"weights{number}"
                weights.append([body.let(f"{label}_{each}", value) for each, value in enumerate(values)])
        for number, (own, deep) in enumerate(zip(weights, names, strict=True)):
            for row, sums in enumerate(self.sums):
                value = self._small(row, *deep)
                if self.across > 1:
                    value = body.let(f"near{number}_{row}", value)
                for total, weight in zip(sums, own, strict=True):
                    product = Call("dot", (weight, value), "f32") if self.reach > 1 else weight * value
                    body.add(Assign(total, product, "+="))

    def _weights(self, column: Node, deep: Node) -> list[Node]:
        """Return the large side's element from ``deep`` on, or its vectors along its axis."""
        frame, big = self.frame, self.big
        if self.reach > LANES:
            return frame.folded(big, self.coordinates, column, deep)
        load = frame.vector_of if big.lanes > 1 else frame.element
        return [load(big, self.coordinates, column, deep)]

    def _small(self, row: int, start: Node, part: int) -> Node:
        """Return the small side's element, or the ``part``-th of its vectors along k from a start on."""
        frame, at = self.frame, u32(row)
        deep = start + fixed(part * LANES) if part else start
        if self.reach == 1:
            return frame.element(self.small, self.coordinates, at, deep)
        if self.small.lanes > 1 and self.small.axis == "k":
            return frame.vector_of(self.small, self.coordinates, at, deep)
        return vector(
            "f32", [frame.element(self.small, self.coordinates, at, deep + fixed(lane)) for lane in range(LANES)]
        )

    def _merge(self, first: int, count: int, column: int) -> None:
        """Write the sum of every team's parts into its first thread's place, four at a time, for one of a thread's columns; or where its
        subgroups' parts lie, which they sum up themselves."""
        body, near = self.body, self.near
        for each in range(count):
            value = together(self.frame.module, self.sums[first + each][column], near)
            place = THREAD // fixed(near) if near > 1 else THREAD
            with body.when((THREAD % fixed(near)).equals(fixed(0)) if near > 1 else None):
                body.set(self.partial[place + fixed(each * (self.workgroup // near))], value)
        body.barrier()
        if near > 1:
            return
        stride = 1 if self.along_k else self.width
        team = self.team
        while team > 1:
            ways = 4 if team % 4 == 0 else 2
            team //= ways
            with body.when(self.part < team):
                for each in range(count):
                    starts = [each * self.workgroup + way * team * stride for way in range(ways)]
                    total, *others = [self.partial[THREAD + fixed(start)] for start in starts]
                    value = total
                    for other in others:
                        value = value + other
                    body.set(total, value)
            body.barrier()

    def _total(self, row: Node, column: Node) -> Node:
        """Return a finished sum; ``row`` counts within the merged rows, ``column`` in the workgroup."""
        start = row * (self.workgroup // self.near)
        if self.near > 1:
            parts = self.team // self.near
            place = start + column * parts
            return in_pairs([self.partial[place + fixed(each)] for each in range(parts)], operator.add)
        if self.along_k:
            return self.partial[start + column * self.team]
        if self.lanes == 1:
            return self.partial[start + column]
        return self.partial[start + column // fixed(LANES)][column % fixed(LANES)]

    def _store(self, first: int, count: int, column: int) -> None:
        """Write the stores of the merged rows, shared by all threads; four columns of the result at a time if possible."""
        frame, body, lanes = self.frame, self.body, self.frame.columns
        wide = self.big.group == "n"
        across, down = (self.span // lanes, count) if wide else (self.span, count // lanes)
        base = self.base + fixed(column * self.span) if column else self.base
        with body.loop("out", THREAD, lambda out: out < across * down, self.workgroup) as out:
            over, under = out % across, out // across
            at = body.let("across", over * lanes if wide and lanes > 1 else over)
            row = body.let("down", under * lanes if not wide and lanes > 1 else under)
            with body.when(base + at < self.big.rows):
                totals: list[Node] = []
                for lane in range(lanes):
                    moved: list[Node] = [row, at]
                    moved[wide] = moved[wide] + fixed(lane) if lane else moved[wide]
                    totals.append(body.let(f"total{lane}", self._total(*moved)))
                big, small = body.let("big", base + at), body.let("small", u32(first) + row)
                place = (small, big) if wide else (big, small)
                if self.strip.splits == 1:
                    frame.epilogue(self.coordinates, *place, totals)
                else:
                    self.parts.write(frame, self.split, self.batch, *place, totals)


class _Alone(VectorGenerator):
    """Threads that sum a few neighbouring columns each, of all rows, and store them."""

    def __init__(self, frame: Frame, capabilities: Capabilities, strip: Strip | None) -> None:
        super().__init__(frame, capabilities, strip)
        self.wide = self.big.group == "n"
        # As many columns as are stored at a time.
        self.across = max(1, frame.columns // self.lanes) if self.wide else 1
        self.own = self.lanes * self.across
        self.sums = [[Name(f"sum{row}_{each}", self.kind) for each in range(self.across)] for row in range(self.rows)]
        self.workgroup = min(self.workgroup, _THREADS_ALONE)

    def generate(self) -> Program:
        """Return the program."""
        frame, body = self.frame, self.body
        blocks = -(-self.big.rows // (self.workgroup * self.own))
        linear = body.let("linear", LINEAR_GROUP)
        body.leave(linear >= blocks * frame.batch)
        self.base = body.let("base", ((linear % blocks) * self.workgroup + THREAD) * self.own)
        body.leave(self.base >= self.big.rows)
        self.coordinates = frame.batch_coordinates(body.let("batch", linear // blocks))
        self.split, self.part = fixed(0), fixed(0)
        places = [self.base + fixed(each) if each else self.base for each in range(self.across)]
        last = self.big.rows - self.lanes
        self.column = [body.let(f"column{number}", minimum(each, last)) for number, each in enumerate(places)]
        for sums in self.sums:
            for each in sums:
                body.var(each.text, zero(self.kind))
        self._loop()
        self._store_own()
        return Program((frame.module.finish(self.workgroup, blocks * frame.batch),), ())

    def _store_own(self) -> None:
        """Write the stores of the thread's sums: of a row or of a column, four neighbours at a time if possible."""
        lanes = self.frame.columns
        across, down = (lanes, 1) if self.wide else (1, lanes)
        for column in range(0, self.own, across):
            with self.body.when(None if column == 0 else self.base + fixed(column) < self.big.rows):
                big = self.base + fixed(column) if column else self.base
                for row in range(0, self.rows, down):
                    places = (
                        [(row + each, column) for each in range(down)]
                        if down > 1
                        else [(row, column + each) for each in range(across)]
                    )
                    place = (u32(row), big) if self.wide else (big, u32(row))
                    self.frame.epilogue(self.coordinates, *place, [self._sum(*each) for each in places])

    def _sum(self, row: int, column: int) -> Node:
        sums = self.sums[row]
        return sums[column] if self.lanes == 1 else sums[0].lane(column)
