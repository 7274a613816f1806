"""What attention of float32 on matrix units reads: queries, keys and values as pairs of halves, which two passes make of them; of
bfloat16 as single ones.

The first finds the magnitudes of each batch's numbers, piece by piece; the second scales them by a power of two and cuts them.
Every workgroup of the attention then reads halves, as often as it likes.
"""

from __future__ import annotations

from webgpu_torch_core.ir.dtypes import float32
from webgpu_torch_core.ir.expression import Expression, constant
from webgpu_torch_core.ir.kernels import Attention
from webgpu_torch_core.ir.layouts import number_of_elements

from ..program import Capabilities, Pass
from .access import LANES
from .attention_parts import as_contraction
from .contraction import Frame, Moving
from .contraction_magnitudes import THREADS, Words, flag, joined, word_of_all
from .ir import Node, choose, every, fixed, minimum, vector, zero
from .module import LINEAR_GROUP, THREAD, Module
from .pairs import Cutter, exponent_of, power_of_two
from .workgroup import Partials, Records, in_turn

#: numbers that a workgroup looks at at least, and about how many do; most words that each then reads; loads of a thread at a time
_PIECE, _MOST, _MOST_WORDS, _AT_ONCE = 4096, 1024, 8192, 4
#: halves that a thread writes at once, and how often it does
_EIGHT, _TURNS = 8, 2


class HalvesSide:
    """One side: ``rows`` of numbers, ``width`` of them filled up with zeros to ``padded``, for each batch along which it moves."""

    #: where its words and halves lie: of all pieces, and of all batches, those of this side from some place on
    words: Records
    tops: Records
    halves: Records
    first: int
    first_top: int

    def __init__(self, kernel: Attention, rows: str, along: str, value: Expression, padded: int, parts: int) -> None:
        self.kernel, self.padded, self.parts = kernel, padded, parts
        self._groups, self._value = (rows, "n" if rows == "m" else "m", along), value
        self.rows, self.width = (number_of_elements(getattr(kernel, each)) for each in (rows, along))
        self.moving = Moving(kernel.batch, value)
        self.batches = self.moving.count
        self.piece = max(_PIECE // self.width, -(-self.rows * self.batches // _MOST), 1)
        self.pieces = -(-self.rows // self.piece)
        self.groups = -(-self.rows * padded // (_EIGHT * THREADS * _TURNS))

    def _begin(self, module: Module, capabilities: Capabilities, flat: Node) -> tuple[Frame, Node, list[Node], int]:
        """Write which batch a workgroup has; return the frame whose left side this is, read along its width, the batch, its
        coordinates, and how many neighbours are loaded at once."""
        contraction = as_contraction(self.kernel, *self._groups, self._value, constant(0.0, float32))
        frame = Frame(contraction, capabilities, module)
        flat = module.body.let(module.fresh("flat"), flat)
        lanes = frame.left.lanes if frame.left.axis == "k" else 1
        return frame, flat, self.moving.coordinates(module, flat), lanes

    def flat(self, batch: list[Node]) -> Node:
        """Return the number of a batch among those along which the side moves."""
        found = self.moving.flat(batch)
        return fixed(0) if found is None else found

    def word(self, module: Module, flat: Node) -> Node:
        """Write the load of a batch's word and return it."""
        return module.body.let(module.fresh("word"), self.tops.read(module, flat + fixed(self.first_top))[0])

    def eight(self, module: Module, flat: Node, part: Node, row: Node, eight: Node) -> Node:
        """Return one part of eight neighbours of a row, as four words."""
        words = self.halves.read_neighbours(module, self._at(flat, part, row, eight), LANES)
        return vector("u32", words)

    def _at(self, flat: Node, part: Node, row: Node, eight: Node) -> Node:
        return ((flat * fixed(self.parts) + part) * self.rows + row) * (self.padded // 2) + eight * fixed(LANES)

    def find(self, module: Module, capabilities: Capabilities, group: Node) -> None:
        """Write what finds the word of a workgroup's piece."""
        body, fresh = module.body, module.fresh
        frame, _, batch, lanes = self._begin(module, capabilities, group // self.pieces)
        first = body.let(fresh("first"), group % self.pieces * self.piece)
        steps = self.width // lanes
        count = body.let(fresh("count"), minimum(first + self.piece, self.rows) * steps - first * steps)
        words = Words(module, 1)
        with body.loop(fresh("at"), THREAD, lambda at: at < count, fixed(THREADS * _AT_ONCE)) as at:
            # A number that is met twice changes nothing.
            places = [minimum(at + fixed(each * THREADS), count - fixed(1)) if each else at for each in range(_AT_ONCE)]
            for place in [body.let(fresh("place"), each) for each in places]:
                row, deep = first + place // steps, place % steps * fixed(lanes)
                for value in self._values(frame, batch, row, deep, lanes):
                    words.meet(0, value)
        word = word_of_all(module, words.word(0))
        with body.when(THREAD.equals(fixed(0))):
            self.words.write(module, group + fixed(self.first), [word])

    def _values(self, frame: Frame, batch: list[Node], row: Node, deep: Node, lanes: int) -> list[Node]:
        """Write what loads neighbours of a row and return them."""
        body, fresh = frame.body, frame.module.fresh
        row, deep = body.let(fresh("row"), row), body.let(fresh("deep"), deep)
        if lanes == 1:
            return [body.let(fresh("value"), frame.element(frame.left, batch, row, deep))]
        found = body.let(fresh("values"), frame.vector_of(frame.left, batch, row, deep))
        return [found.lane(lane) for lane in range(lanes)]

    def cut(self, module: Module, capabilities: Capabilities, cutter: Cutter, count: int, group: Node) -> None:
        """Write what cuts a workgroup's numbers, and leaves the word of its batch: with a flag if any of all ``count`` pieces' words has one."""
        body, fresh = module.body, module.fresh
        frame, flat, batch, lanes = self._begin(module, capabilities, group // self.groups)
        found = body.var(fresh("found"), fixed(0))
        own = body.let(fresh("own"), flat * self.pieces + self.first)
        with body.loop(fresh("at"), THREAD, lambda at: at < count, THREADS) as at:
            word = body.let(fresh("word"), self.words.read(module, at, True)[0])
            is_own = every(at >= own, at < own + self.pieces)
            body.set(found, joined(found, choose(is_own, word, flag(word))))
        word = body.let(fresh("word"), word_of_all(module, found))
        with body.when(every(THREAD.equals(fixed(0)), (group % self.groups).equals(fixed(0)))):
            self.tops.write(module, flat + fixed(self.first_top), [word])
        scale = body.let(fresh("scale"), power_of_two(exponent_of(word)))
        odd = body.let(fresh("odd"), flag(word).differs(fixed(0)))
        # No driver knows that all of its bits are 0, as they are where it is used: beside no flag.
        nothing = body.let(fresh("nothing"), fixed(0) - (flag(word) >> 31))
        per = self.padded // _EIGHT
        for turn in range(_TURNS):
            at = body.let(fresh("at"), (group % self.groups * _TURNS + turn) * THREADS + THREAD)
            with body.when(at < self.rows * per):
                row, eight = body.let(fresh("row"), at // per), body.let(fresh("eight"), at % per)
                values: list[Node] = []
                for step in range(0, _EIGHT, lanes):
                    deep = body.let(fresh("deep"), eight * fixed(_EIGHT) + fixed(step))
                    inside = minimum(deep, self.width - lanes) if self.padded != self.width else deep
                    some = self._values(frame, batch, row, inside, lanes)
                    if self.padded != self.width:
                        some = [choose(deep < fixed(self.width), each, zero("f32")) for each in some]
                    values += [body.let(fresh("scaled"), each * scale) for each in some]
                with body.when(odd):
                    self._write(module, flat, row, eight, cutter.halves(values, cutter.apart))
                with body.otherwise():
                    cuts = cutter.halves(values, lambda pair: cutter.cut(pair, nothing))
                    self._write(module, flat, row, eight, cuts)

    def _write(self, module: Module, flat: Node, row: Node, eight: Node, parts: list[list[Node]]) -> None:
        for part, words in enumerate(parts):
            self.halves.write_neighbours(module, self._at(flat, fixed(part), row, eight), words)


class HalvesSides:
    """The rows, columns and values of an attention, and the passes that make halves of them."""

    def __init__(self, kernel: Attention, k: int, v: int, parts: int) -> None:
        """``k``, ``v``: the padded depth of the product and width of the sum; ``parts``: halves of each number."""
        self.kernel = kernel
        [product], [total] = kernel.products, kernel.sums
        self.rows = HalvesSide(kernel, "m", product.depth, product.left, k, parts)
        self.columns = HalvesSide(kernel, "n", product.depth, product.right, k, parts)
        self.values = HalvesSide(kernel, "n", total.along, total.value, v, parts)
        self._all = self.rows, self.columns, self.values
        self._count = sum(each.batches * each.pieces for each in self._all)
        words, halves = Partials(0), Partials(1)
        records = words.records(self._count, "u32"), words.records(sum(each.batches for each in self._all), "u32")
        first = first_top = 0
        for each in self._all:
            each.words, each.tops = records
            each.first, each.first_top = first, first_top
            each.halves = halves.records(each.batches * each.rows * each.padded * parts // 2, "u32")
            first, first_top = first + each.batches * each.pieces, first_top + each.batches
        #: the sizes of the scratch buffers: of words, and of halves
        self.scratch = words.nbytes, halves.nbytes

    def fit(self, capabilities: Capabilities) -> bool:
        """Return whether an adapter binds the halves at once, and the words are not too many."""
        return self._count <= _MOST_WORDS and max(self.scratch) <= capabilities.binding_bytes

    def passes(self, capabilities: Capabilities) -> list[Pass]:
        """Return the passes that make halves."""
        finding = self._pass(capabilities, [(each, each.batches * each.pieces) for each in self._all], None)
        cutter = Cutter(Module(self.kernel, capabilities), self.rows.parts)
        return [finding, self._pass(capabilities, [(each, each.batches * each.groups) for each in self._all], cutter)]

    def _pass(self, capabilities: Capabilities, sides: list[tuple[HalvesSide, int]], cutter: Cutter | None) -> Pass:
        """Return the pass whose workgroups, so many for each side, find its words or cut its numbers."""
        module = cutter.module if cutter else Module(self.kernel, capabilities)
        body = module.body
        if cutter:
            cutter.define()
        linear = body.let("linear", LINEAR_GROUP)
        total = sum(count for _, count in sides)
        body.leave(linear >= total)
        for number, group in in_turn(module, linear, [count for _, count in sides]):
            side = sides[number][0]
            if cutter:
                side.cut(module, capabilities, cutter, self._count, group)
            else:
                side.find(module, capabilities, group)
        return module.finish(THREADS, total, " (halves)" if cutter else " (magnitudes)")
