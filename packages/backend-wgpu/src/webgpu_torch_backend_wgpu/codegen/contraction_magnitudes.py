"""What the rows of a contraction's sides are scaled by, so that halves hold their numbers: a pass that finds their magnitudes.

Of each row the largest magnitude of its finite numbers is left in scratch memory, as bits, with a flag where others are among them.
Of a side that is read at computed places, such as a convolution's windows, all numbers are taken together, each once: workgroups
leave what they found, and who needs it takes the largest.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple

from webgpu_torch_core.ir.expression import Expression
from webgpu_torch_core.ir.kernels import Contraction

from ..program import Capabilities, Pass
from .access import LANES
from .contraction import Frame, Moving, Side
from .ir import Array, Call, LoadGroup, Node, bitcast, choose, convert_to, every, fixed, group_element, minimum
from .module import LINEAR_GROUP, THREAD, Module
from .workgroup import Partials, in_turn

#: threads of a workgroup; rows of which it finds the magnitudes where they lie along k, and across; loads of a thread at a time
THREADS, _ALONG, _ACROSS, _AT_ONCE = 256, 8, 32, 4
#: most workgroups that find the magnitude of a whole side
_MOST = 512
#: bits of infinity, and the flag of a row that holds it or NaN
INFINITY, FLAG = 0x7F800000, 0x80000000


def magnitude(word: Node) -> Node:
    """Return the largest magnitude in a word, as bits."""
    return word & fixed(FLAG - 1)


def flag(word: Node) -> Node:
    """Return the flag in a word."""
    return word & fixed(FLAG)


class Span(NamedTuple):
    """Neighbours in memory: ``count`` elements of an operand from ``first`` on, read by ``load``."""

    load: Expression
    first: int
    count: int


def span_of(kernel: Contraction, value: Expression) -> Span | None:
    """Return the elements, without gaps, that the numbers of a side are, besides zeros; None where they are others."""
    while value.step in ("cast", "select"):
        if value.step == "cast" and not value.arguments[0].dtype.is_floating_point:
            return None
        others = [each for each in value.arguments[-2:] if each.step != "constant" or each.payload != 0]
        if len(others) != 1 and value.step == "select":
            return None
        value = others[-1]
    if value.step != "load_at":
        return None
    sums = _Sums(kernel.batch + kernel.m + kernel.n + kernel.k)
    if not sums.add(value.arguments[0], 1):
        return None
    count = 1
    for stride, extent in sorted(sums.extents.items()):
        if stride > count:
            return None
        count += stride * extent
    return Span(value, sums.first, count)


class _Sums:
    """An index as a sum: its least value, and how often each stride is added at most."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes
        self.first = 0
        self.extents: dict[int, int] = {}

    def add(self, node: Expression, factor: int) -> bool:
        """Add a term so many times; return whether it is known how far it reaches."""
        if node.step in ("add", "subtract"):
            left, right = node.arguments
            return self.add(left, factor) and self.add(right, factor if node.step == "add" else -factor)
        if node.step == "multiply" and node.arguments[1].step == "constant":
            return self.add(node.arguments[0], factor * node.arguments[1].payload)
        reach = self._reach(node)
        if reach is None:
            return False
        low, high = reach
        self.first += factor * (low if factor > 0 else high)
        if factor and high > low:
            self.extents[abs(factor)] = self.extents.get(abs(factor), 0) + high - low
        return True

    def _reach(self, node: Expression) -> tuple[int, int] | None:
        """Return the least and the largest value of a term."""
        if node.step == "constant":
            return node.payload, node.payload
        if node.step == "coordinate":
            return 0, self.sizes[node.payload] - 1
        if node.step not in ("add", "subtract", "multiply", "minimum", "maximum"):
            return None
        left, right = (self._reach(each) for each in node.arguments)
        if left is None or right is None:
            return None
        if node.step == "multiply":
            products = [one * other for one in left for other in right]
            return min(products), max(products)
        if node.step == "subtract":
            return left[0] - right[1], left[1] - right[0]
        join = {"add": operator.add, "minimum": min, "maximum": max}[node.step]
        return join(left[0], right[0]), join(left[1], right[1])


class Magnitudes:
    """The words of both sides: of all rows, ``[side, batch, row]`` with the dimensions of ``batch`` along which a side moves; or of
    what workgroups found of a whole side."""

    def __init__(self, kernel: Contraction, number: int) -> None:
        """``number``: of the scratch buffer."""
        self.kernel = kernel
        self._partials = Partials(number)
        sides = Side(kernel, kernel.left, "m"), Side(kernel, kernel.right, "n")
        #: where the numbers of a side lie that is taken as a whole, by its group
        self._spans = {each.group: None if each.strided else span_of(kernel, each.value) for each in sides}
        #: the batch dimensions along which a side moves
        self._moving = {side.group: Moving(kernel.batch, side.value) for side in sides}
        self._records = {
            side.group: self._partials.records(self.pieces(side) or self._moving[side.group].count * side.rows, "u32")
            for side in sides
        }

    @property
    def nbytes(self) -> int:
        """The size of the scratch buffer."""
        return self._partials.nbytes

    def pieces(self, side: Side) -> int:
        """Return how many words there are of a side that is taken as a whole; 0 of one with a word for each row."""
        span = self._spans[side.group]
        return 0 if span is None else min(-(-span.count // (THREADS * LANES * _AT_ONCE)), _MOST)

    def read(self, frame: Frame, side: Side, batch: list[Node], row: Node) -> Node:
        """Return the word of a side's row."""
        flat = self._moving[side.group].flat(batch)
        return self.piece(frame, side, row if flat is None else flat * side.rows + row)

    def piece(self, frame: Frame, side: Side, number: Node) -> Node:
        """Return one of a side's words."""
        return self._records[side.group].read(frame.module, number)[0]

    def find(self, capabilities: Capabilities) -> Pass:
        """Return the pass that finds the magnitudes: some rows of one side for each workgroup, or a piece of it."""
        frame = Frame(self.kernel, capabilities)
        body = frame.body
        linear = body.let("linear", LINEAR_GROUP)
        sides = frame.left, frame.right
        counts = [
            self.pieces(each) or self._moving[each.group].count * -(-each.rows // _rows_of(each)) for each in sides
        ]
        body.leave(linear >= sum(counts))
        for number, group in in_turn(frame.module, linear, counts):
            self._find(frame, sides[number], group)
        return frame.module.finish(THREADS, sum(counts), " (magnitudes)")

    def _find(self, frame: Frame, side: Side, group: Node) -> None:
        """Write what finds the words of a workgroup."""
        span = self._spans[side.group]
        if span is None:
            self._find_rows(frame, side, group)
        else:
            self._find_piece(frame, side, span, group)

    def _find_rows(self, frame: Frame, side: Side, group: Node) -> None:
        """Write what finds the words of a workgroup's rows: neighbours in memory are read by neighbours among the threads."""
        body, fresh, count = frame.body, frame.module.fresh, _rows_of(side)
        blocks = -(-side.rows // count)
        flat = body.let(fresh("batch"), group // blocks)
        batch = self._moving[side.group].coordinates(frame.module, flat)
        base = body.let(fresh("base"), group % blocks * fixed(count))
        along_k = side.axis == "k"
        own, deep = (1, side.lanes) if along_k else (side.lanes, 1)
        teams = THREADS * own // count
        inner, outer = (
            THREAD % fixed(teams if along_k else count // own),
            THREAD // fixed(teams if along_k else count // own),
        )
        place, part = (outer, inner) if along_k else (inner, outer)
        row = body.let(fresh("row"), minimum(base + place * fixed(own), side.rows - own))
        words = Words(frame.module, own)
        step = teams * deep
        with body.loop(fresh("depth"), part * fixed(deep), lambda at: at < frame.k, fixed(step * _AT_ONCE)) as depth:
            # A number that is met twice changes nothing.
            places = [
                minimum(depth + fixed(each * step), frame.k - deep) if each else depth for each in range(_AT_ONCE)
            ]
            for values in [self._values(frame, side, batch, row, body.let(fresh("deep"), each)) for each in places]:
                for number, value in enumerate(values):
                    words.meet(number % own, value)
        found = frame.module.array("found", "u32", THREADS * LANES)
        for number in range(own):
            body.set(found[(place * fixed(own) + fixed(number)) * fixed(teams) + part], words.word(number))
        body.barrier()
        with body.when(every(THREAD < fixed(count), base + THREAD < side.rows)):
            word = _largest(frame.module, found, THREAD * fixed(teams), teams)
            self._records[side.group].write(frame.module, flat * side.rows + base + THREAD, [word])

    def _find_piece(self, frame: Frame, side: Side, span: Span, group: Node) -> None:
        """Write what finds the word of a workgroup's piece of a side."""
        body, fresh = frame.body, frame.module.fresh
        buffer = frame.buffers.operand(span.load.payload)
        lanes = LANES if span.first % LANES == span.count % LANES == 0 else 1
        own = body.let(fresh("own"), (group * fixed(THREADS) + THREAD) * fixed(lanes))
        words, step = Words(frame.module, 1), self.pieces(side) * THREADS * lanes
        with body.loop(fresh("at"), own, lambda at: at < span.count, step * _AT_ONCE) as at:
            places = [minimum(at + each * step, span.count - lanes) if each else at for each in range(_AT_ONCE)]
            indices = [body.let(fresh("index"), each + span.first if span.first else each) for each in places]
            groups = [body.let(fresh("found"), LoadGroup(buffer, each, lanes)) for each in indices]
            for found in groups:
                for lane in range(lanes):
                    value = group_element(found, buffer.encoding, lane)
                    words.meet(0, value if value.type == "f32" else convert_to("f32", value))
        word = word_of_all(frame.module, words.word(0))
        with body.when(THREAD.equals(fixed(0))):
            self._records[side.group].write(frame.module, group, [word])

    def _values(self, frame: Frame, side: Side, batch: list[Node], row: Node, depth: Node) -> list[Node]:
        """Write what brings neighbours of a side, and return them."""
        if side.lanes == 1:
            return [frame.body.let(frame.module.fresh("found"), frame.element(side, batch, row, depth))]
        found = frame.body.let(frame.module.fresh("found"), frame.vector_of(side, batch, row, depth))
        return [found.lane(lane) for lane in range(side.lanes)]


class Words:
    """The words that a thread is about to find."""

    def __init__(self, module: Module, count: int) -> None:
        self.body, self._fresh = module.body, module.fresh
        self._tops = [self.body.var(self._fresh("top"), fixed(0)) for _ in range(count)]
        self._odds = [self.body.var(self._fresh("odd"), fixed(0)) for _ in range(count)]

    def meet(self, number: int, value: Node) -> None:
        """Write what a number changes."""
        bits = self.body.let(self._fresh("bits"), bitcast("u32", value) & fixed(FLAG - 1))
        finite, top, odd = bits < fixed(INFINITY), self._tops[number], self._odds[number]
        self.body.set(top, Call("max", (top, choose(finite, bits, fixed(0))), "u32"))
        self.body.set(odd, odd | choose(finite, fixed(0), fixed(FLAG)))

    def word(self, number: int) -> Node:
        """Return one of the words."""
        return self._tops[number] | self._odds[number]


def joined(word: Node, other: Node) -> Node:
    """Return what two words are together."""
    return Call("max", (magnitude(word), magnitude(other)), "u32") | flag(word | other)


def word_of_all(module: Module, word: Node) -> Node:
    """Write what finds the word of so many threads of a workgroup, from their own, and return it, for every thread."""
    body, teams = module.body, 16
    found = module.array("found", "u32", THREADS * LANES)
    body.set(found[THREAD], word)
    body.barrier()
    with body.when(THREAD < fixed(teams)):
        some = _largest(module, found, THREAD * fixed(THREADS // teams), THREADS // teams)
        body.set(found[fixed(THREADS) + THREAD], some)
    body.barrier()
    return _largest(module, found, fixed(THREADS), teams)


def _largest(module: Module, found: Array, first: Node, count: int) -> Node:
    """Write the loop over words in workgroup memory and return what they are together."""
    body, fresh = module.body, module.fresh
    word = body.var(fresh("word"), fixed(0))
    with body.loop(fresh("each"), fixed(0), lambda at: at < fixed(count), fixed(1)) as each:
        body.set(word, joined(word, body.let(fresh("other"), found[first + each])))
    return word


def _rows_of(side: Side) -> int:
    """Return of how many rows a workgroup finds the magnitudes."""
    return _ALONG if side.axis == "k" else _ACROSS
