"""Contractions of few rows with a matrix of integers of a few bits: four products and their sum to an instruction.

Rows are computed first, and each piece of sixteen neighbours kept as multiples of the piece's step, cut into bytes with a sign:
two where elements are rounded to sixteen bits, whose own rounding is larger, three for float32. Either a pass before does so, or
every workgroup for itself, in its memory. Bytes are multiplied with the matrix's numbers where these lie, and summed, as integers,
which rounds nothing; scales, offsets and steps count once for a piece. The instruction is WGSL's ``dot4I8Packed``
(https://github.com/gpuweb/gpuweb/blob/main/proposals/dp4a.md); that rows are cut so is llama.cpp's way with one byte.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import cached_property

from webgpu_torch_core.ir.expression import Expression
from webgpu_torch_core.ir.kernels import Contraction, PreparedContraction

from ..program import Capabilities, Pass, Program
from .access import LANES
from .combining import together
from .contraction import Frame, Side
from .contraction_prepared import PreparedGenerator
from .contraction_vector import Strip, VectorGenerator
from .ir import (
    Buffer,
    Call,
    Literal,
    LoadGroup,
    Node,
    Word,
    bitcast,
    choose,
    convert_to,
    every,
    fixed,
    group_element,
    minimum,
    pick,
    u32,
    vector,
)
from .lowering import Lowering
from .module import LINEAR_GROUP, THREAD, split_index
from .packed_side import PIECE, packed_side
from .packed_strips import SCRATCH, PackedStrip, cuts_of
from .statements import Assign, StoreGroup
from .types import element_type

#: the magnitude that has no place in two and three bytes
_WHOLE = {2: 127 * 256, 3: 127 * 65536}
#: what numbers of two bytes are rounded by: 1.5 * 2 ** 23, whose last bit counts ones
_ROUNDING = 12582912.0
#: below it a piece counts as zeros: its step would be no normal number
_TINY = 1e-30
#: threads of a workgroup that cuts pieces ahead
_CUTTERS = 64
#: most runs of a thread's loads under way
_LOADS = 6


def generate_packed(kernel: Contraction, capabilities: Capabilities, strip: PackedStrip) -> Program:
    """Return the program of a contraction of few rows with packed numbers."""
    if not strip.ahead:
        return _Generator(Frame(kernel, capabilities), capabilities, strip).generate()
    first, second = (_Ahead(Frame(kernel, capabilities), capabilities, strip) for _ in range(2))
    return Program((first.cut(), second.multiply()), first.scratch)


class _Generator(PreparedGenerator):
    """Stages the small side in bytes, and multiplies these."""

    def _threads(self, strip: Strip) -> int:
        return strip.threads if isinstance(strip, PackedStrip) else super()._threads(strip)

    def _declare(self) -> None:
        frame = self.frame
        packed = packed_side(frame.kernel, self.big.group)
        assert packed is not None
        self.packed = packed
        self.cuts = cuts_of(self.small.value)
        #: pieces of a row, those of a run, and runs of a row
        self.pieces, self.per_run, self.runs = frame.k // PIECE, packed.run // PIECE, frame.k // packed.run
        #: how many scales a run's numbers are looked up for: of groups that share it, or of every piece where runs cut groups
        shares = packed.run % packed.group == 0 or packed.group % packed.run == 0
        self.scaled = max(1, packed.run // packed.group) if shares else self.per_run
        self.scale = Side(frame.kernel, packed.scale, self.big.group, 1)
        self.offset = None if packed.offset is None else Side(frame.kernel, packed.offset, self.big.group, 1)
        self._make_room()

    def _make_room(self) -> None:
        """Declare where the pieces are left: the bytes of each cut, and a piece's step with the sum of its elements."""
        module, size = self.frame.module, self.rows * self.pieces
        self.bytes = [module.array(f"bytes{cut}", "vec4<u32>", size) for cut in range(self.cuts)]
        self.steps = module.array("steps", "vec2<f32>", size)

    @property
    def sharing(self) -> int:
        """How many neighbouring threads of a subgroup cut a piece together, each as many elements as are loaded at once."""
        return PIECE // LANES if self.capabilities.subgroup_size >= PIECE // LANES else 1

    def _leave(self, place: Node, words: list[list[Node]], step: list[Node]) -> None:
        """Write the stores of a piece: the words of each cut, its step and its sum."""
        for where, each in zip(self.bytes, words, strict=True):
            self.body.set(where[place], vector("u32", each))
        self.body.set(self.steps[place], vector("f32", step))

    def _taken(self, place: Node) -> tuple[list[Node], Node]:
        """Return a piece: the words of each cut, its step and its sum."""
        return [each[place] for each in self.bytes], self.steps[place]

    def _stage(self, row: int) -> None:
        body, count, start = self.body, self.pieces * self.sharing, u32(row * self.pieces) if row else None
        turns = self._few_turns(count)
        # All threads take every turn: those of a subgroup exchange what they found.
        if not turns:
            with body.loop(self.frame.module.fresh("turn"), fixed(0), lambda at: at < count, self.workgroup) as turn:
                self._cut(start, *self._piece_of(u32(row), turn + THREAD))
            return
        for each in [self._piece_of(u32(row), place) for place in turns]:
            self._cut(start, *each)

    def _piece_of(self, row: Node, thread: Node) -> tuple[Node, Node, list[Node]]:
        """Write which piece of a row a thread cuts and the piece's elements; return its number, which may be behind the last, and both."""
        body, fresh = self.body, self.frame.module.fresh
        number = body.let(fresh("number"), thread // fixed(self.sharing))
        piece = body.let(fresh("piece"), minimum(number, self.pieces - 1))
        values: list[Node] = []
        for first in range(0, PIECE // self.sharing, LANES):
            begin = piece * fixed(PIECE) + (self._member * fixed(LANES) if self.sharing > 1 else fixed(first))
            begin = body.let(fresh("k"), begin)
            places = [begin + fixed(lane) if lane else begin for lane in range(LANES)]
            values += [body.let(fresh("x"), each) for each in self._values(self.small, row, places)]
        return number, piece, values

    def _cut(self, start: Node | None, number: Node, piece: Node, values: list[Node]) -> None:
        """Write what cuts a piece of a row, whose pieces lie from ``start`` on."""
        body, fresh = self.body, self.frame.module.fresh
        largest: Node = fixed(0)
        total = values[0]
        # As integers, so that what is no number is the largest.
        for each in values:
            largest = Call("max", (largest, bitcast("u32", each) & fixed(0x7FFFFFFF)), "u32")
        for each in values[1:]:
            total = total + each
        largest = together(self.frame.module, largest, self.sharing, lambda *both: Call("max", both, "u32"))
        total = together(self.frame.module, total, self.sharing)
        largest = body.let(fresh("largest"), bitcast("f32", largest))
        whole = Literal(float(_WHOLE[self.cuts]), "f32")
        inverse = body.let(
            fresh("inverse"), choose(largest > Literal(_TINY, "f32"), whole // largest, Literal(0.0, "f32"))
        )
        place = body.let(fresh("place"), self._piece(start, piece % fixed(self.per_run), piece // fixed(self.per_run)))
        numbers = [self._number(each, inverse) for each in values]
        cut = self._words_shared if self.sharing > 1 else self._words_alone
        words = [cut(numbers, 8 * number) for number in reversed(range(self.cuts))]
        stored = number < self.pieces
        with body.when(every(stored, self._member.equals(fixed(0))) if self.sharing > 1 else stored):
            self._leave(place, words, [largest * Literal(1.0 / _WHOLE[self.cuts], "f32"), total])

    @property
    def _member(self) -> Node:
        """Which of the threads that cut a piece this one is."""
        return THREAD % fixed(self.sharing)

    def _words_alone(self, numbers: list[Node], low: int) -> list[Node]:
        """Write the words of a piece's numbers from a bit on, and return them."""
        return [self._signed(self._bytes([numbers[each] for each in order], low), low) for order in self._order()]

    def _words_shared(self, numbers: list[Node], low: int) -> list[Node]:
        """Write what threads that have four numbers each find the words of a piece by, and return these.

        As many threads as numbers lie in a byte share as many words: each has neighbouring bytes of all of them.
        """
        body, module, folds = self.body, self.frame.module, self.packed.folds
        place = self._member % fixed(folds)
        words: list[Node] = []
        for part in range(folds):
            word = self._bytes(numbers[part::folds], low)
            if folds > 1:
                word = body.let(module.fresh("part"), word << place * fixed(32 // folds))
            words.append(together(module, word, folds, operator.or_))
        own = body.let(module.fresh("word"), self._signed(pick(words, place), low))
        told = [Call("quadBroadcast", (own, fixed(each)), "u32") for each in range(self.sharing)]
        return [body.let(module.fresh("told"), each) for each in told]

    def _number(self, value: Node, inverse: Node) -> Node:
        """Write the multiple of a step that is nearest to a value and return its bits, so that bytes below have a sign."""
        if self.cuts > 2:
            found = bitcast("u32", convert_to("i32", Call("round", (value * inverse,), "f32")))
        else:
            # What a number so large loses when it is added is what rounding takes; its bits end in the sum's.
            found = bitcast("u32", Call("fma", (value, inverse, Literal(_ROUNDING, "f32")), "f32"))
        # Half of a byte more, and every byte below the highest is one less than half: as it comes out by carrying.
        more = sum(128 << 8 * cut for cut in range(self.cuts - 1))
        return self.body.let(self.frame.module.fresh("n"), found + fixed(more))

    def _bytes(self, numbers: list[Node], low: int) -> Node:
        """Return the bytes of numbers from a bit on beside each other."""
        result: Node | None = None
        for number, each in enumerate(numbers):
            at = 8 * number
            part = each & fixed(255 << low)
            part = part << fixed(at - low) if at > low else part >> fixed(low - at) if at < low else part
            result = part if result is None else result | part
        assert result is not None
        return result

    def _signed(self, word: Node, low: int) -> Node:
        """Return a word of bytes from a bit on with their signs: half of a byte was added to those below the highest."""
        return word if low == 8 * (self.cuts - 1) else word ^ fixed(0x80808080)

    def _order(self) -> list[list[int]]:
        """Return which of a piece's elements meet the parts of its words: a part has the same bits of all four bytes."""
        folds = self.packed.folds
        return [
            [first + part + folds * byte for byte in range(LANES)]
            for first in range(0, PIECE, LANES * folds)
            for part in range(folds)
        ]

    def _piece(self, start: Node | None, number: Node, run: Node) -> Node:
        """Return where a piece of a run lies, of a row from ``start`` on: those that threads read at once are neighbours."""
        place = number * u32(self.runs) + run if self.per_run > 1 else run
        return place if start is None else place + start

    def _loop(self) -> None:
        """Write the sum over runs: as many loads of a thread as may be under way at a time, and as many as are left at the end."""
        body, runs, team = self.body, self.runs, self.team
        own = -(-int(runs) // team)
        unroll = -(-own // -(-own // _LOADS))
        whole = own // unroll if own % unroll or int(runs) % team == 0 else own // unroll - 1
        at: Node = self.part
        if whole == 1:
            self._multiply([at + fixed(each * team) if each else at for each in range(unroll)], unroll)
            at = body.let("at", at + fixed(team * unroll))
        elif whole:
            at = body.var("at", at)
            with body.advance(at, at < u32(team * unroll * whole), team * unroll):
                self._multiply([at + fixed(each * team) if each else at for each in range(unroll)], unroll)
        left = own - whole * unroll
        if left:
            self._multiply(
                [at + fixed(each * team) if each else at for each in range(left)], left - bool(int(runs) % team)
            )

    def _multiply(self, runs: list[Node], sure: int) -> None:
        """Write the products of runs of all columns with all rows; those from ``sure`` on may be past the end."""
        body, fresh = self.body, self.frame.module.fresh
        loaded: list[tuple[Node, list[Sequence[Node]], list[list[tuple[Node, Node | None]]]]] = []
        for number, each in enumerate(runs):
            run = body.let(fresh("run"), each if number < sure else minimum(each, self.runs - 1))
            words = [self._words(column, run) for column in self.column]
            scales = [self._scales(column, run) for column in self.column]
            if number >= sure:
                inside = body.let(fresh("inside"), choose(each < self.runs, Literal(1.0, "f32"), Literal(0.0, "f32")))
                scales = [
                    [(inside * one, None if other is None else inside * other) for one, other in factors]
                    for factors in scales
                ]
            loaded.append((run, words, scales))
        for run, words, scales in loaded:
            for row, sums in enumerate(self.sums):
                start = u32(row * self.pieces) if row else None
                for piece in range(self.per_run):
                    place = body.let(fresh("place"), self._piece(start, fixed(piece), run))
                    found, own_step = self._taken(place)
                    cuts = [body.let(fresh("cut"), each) for each in found]
                    step = body.let(fresh("step"), own_step)
                    for total, own, factors in zip(sums, words, scales, strict=True):
                        scale, offset = factors[piece * self.scaled // self.per_run]
                        product = scale * (self._products(own, piece, cuts) * step.lane(0))
                        if offset is not None:
                            product = product + offset * step.lane(1)
                        body.add(Assign(total, product, "+="))

    def _products(self, words: Sequence[Node], piece: int, cuts: Sequence[Node]) -> Node:
        """Return the sum of a piece's products, in steps."""
        body, packed = self.body, self.packed
        per, mask = PIECE * packed.bits // 32, sum((1 << packed.bits) - 1 << place for place in range(0, 32, 8))
        totals: list[Node | None] = [None] * len(cuts)
        for number in range(per * packed.folds):
            word, part = words[piece * per + number // packed.folds], number % packed.folds
            word = word >> fixed(part * packed.bits) if part else word
            word = word & fixed(mask) if packed.folds > 1 else word
            word = body.let(self.frame.module.fresh("part"), word)
            for cut, each in enumerate(cuts):
                product = Call("dot4I8Packed", (word, each.lane(number)), "i32")
                before = totals[cut]
                totals[cut] = product if before is None else before + product
        first, second, *others = [each for each in totals if each is not None]
        found = convert_to("f32", first * fixed(256, "i32") + second)
        for each in others:
            found = found * Literal(256.0, "f32") + convert_to("f32", each)
        return found

    def _words(self, column: Node, run: Node) -> Sequence[Node]:
        """Write the load of a run of a column and return its words."""
        frame, packed = self.frame, self.packed
        at: dict[str, Node | list[Node]] = {self.big.group: column, "k": [fixed(0) for _ in frame.kernel.k]}
        start = frame._index(self.big, packed.load, self.coordinates, at)
        index = self.body.let(frame.module.fresh("a"), start + run * fixed(packed.run // packed.folds))
        buffer = frame.buffers.operand(packed.load.payload[0])
        loaded = self.body.let(frame.module.fresh("v"), LoadGroup(buffer, index, packed.run // packed.folds))
        words = [loaded.lane(lane) for lane in range(LANES)]
        if packed.turned:
            words = [self.body.let(frame.module.fresh("turned"), each ^ fixed(packed.turned)) for each in words]
        return words

    def _scales(self, column: Node, run: Node) -> list[tuple[Node, Node | None]]:
        """Write the loads of the scales and offsets of a run's groups; offsets count what numbers are beyond bytes in."""
        packed, found = self.packed, list[tuple[Node, Node | None]]()
        scales = self._of_groups(self.scale, column, run, [{}] * self.scaled)
        offsets: Sequence[Node | None] = [None] * self.scaled
        if self.offset is not None:
            offsets = self._of_groups(self.offset, column, run, [{packed.scale: each} for each in scales])
        for scale, offset in zip(scales, offsets, strict=True):
            if packed.beyond:
                beyond = scale * Literal(float(packed.beyond), "f32")
                offset = beyond if offset is None else offset + beyond
            found.append((scale, offset))
        return found

    def _of_groups(
        self, side: Side, column: Node, run: Node, known: Sequence[Mapping[Expression, Node]]
    ) -> Sequence[Node]:
        """Write what a side is of each of a run's groups and return it; ``known``: by group what was computed before.

        Neighbours in memory are loaded together.
        """
        frame, body, fresh, count = self.frame, self.body, self.frame.module.fresh, self.scaled
        depths = [self._group(run, number) for number in range(count)]
        inner = len(frame.kernel.k) - self._outer
        together = count > 1 and self.packed.run == count * self.packed.group
        left = side.loads if not known[0] else [each for each in side.loads if each not in self.scale.loads]
        together &= all(side.step(node, "k", count, inner) == 1 for node in left)
        groups: dict[Expression, tuple[Buffer, Node, Node]] = {}
        for node in left if together else ():
            buffer = frame.buffers.operand(node.payload[0])
            at: dict[str, Node | list[Node]] = {side.group: column, "k": depths[0]}
            index = body.let(fresh("a"), frame._index(side, node, self.coordinates, at))
            lanes = buffer.encoding.lanes
            # As few bytes may be a part of a word.
            load = Word(buffer, index // fixed(lanes)) if lanes > count else LoadGroup(buffer, index, count)
            groups[node] = buffer, index, body.let(fresh("g"), load)
        values: list[Node] = []
        for number, (depth, own) in enumerate(zip(depths, known, strict=True)):

            def leaf(node: Expression, index: Node | None, number: int = number, depth: list[Node] = depth) -> Node:
                if node not in groups:
                    where: dict[str, Node | list[Node]] = {side.group: column, "k": depth}
                    return frame._single(side, node, frame._index(side, node, self.coordinates, where))
                buffer, first, found = groups[node]
                if buffer.encoding.lanes > count:
                    return buffer.encoding.unpack(found, first % fixed(buffer.encoding.lanes) + fixed(number))
                return group_element(found, buffer.encoding, number)

            lowering = Lowering(frame.module, leaf, given={**frame.given, **own})
            values.append(body.let(fresh("s"), lowering.value(side.value)))
        return values

    @cached_property
    def _outer(self) -> int:
        """How many dimensions of k tell groups apart."""
        sizes = self.frame.kernel.k
        count, shared = len(sizes), 1
        while count and shared < self.packed.group:
            count -= 1
            shared *= sizes[count]
        return count

    def _group(self, run: Node, number: int) -> list[Node]:
        """Return the coordinates along k of a run's group."""
        sizes, packed, count = self.frame.kernel.k, self.packed, self._outer
        first = run * fixed(self.scaled) + fixed(number) if self.scaled > 1 else run
        many = packed.group * self.scaled // packed.run
        index = first // fixed(many) if many > 1 else first
        return [*split_index(self.frame.module, index, sizes[:count]), *[fixed(0)] * (len(sizes) - count)]


class _Ahead(_Generator):
    """Two passes: one leaves the small side's pieces in scratch memory, the other multiplies them."""

    def _make_room(self) -> None:
        self.size = self.rows * self.pieces

    @property
    def scratch(self) -> tuple[int, int]:
        """How many bytes the pieces take: of the cuts, one after another, and of steps and sums."""
        return self.cuts * self.size * PIECE, self.size * 8

    def _room(self, number: int, writes: bool) -> Buffer:
        kind = element_type(SCRATCH[number], self.capabilities)
        return self.frame.module.buffer("scratch", number, kind, writes)

    def _leave(self, place: Node, words: list[list[Node]], step: list[Node]) -> None:
        for cut, each in enumerate(words):
            at = place + u32(cut * self.size) if cut else place
            self.body.add(StoreGroup(self._room(0, True), at * fixed(LANES), each))
        self.body.add(StoreGroup(self._room(1, True), place * fixed(2), step))

    def _taken(self, place: Node) -> tuple[list[Node], Node]:
        cuts: list[Node] = []
        for cut in range(self.cuts):
            at = place + u32(cut * self.size) if cut else place
            cuts.append(LoadGroup(self._room(0, False), at * fixed(LANES), LANES))
        return cuts, LoadGroup(self._room(1, False), place * fixed(2), 2)

    def cut(self) -> Pass:
        """Return the pass that cuts the rows: a piece for each thread, of workgroups that reduce a whole row each."""
        frame, body = self.frame, self.body
        self.coordinates = frame.batch_coordinates(fixed(0))
        reduces = isinstance(frame.kernel, PreparedContraction) and bool(frame.kernel.reductions)
        # Workgroups that reduce the row first have all threads for it.
        cutters = min(_CUTTERS * (self.sharing if reduces else 1), self.workgroup)
        self.workgroup = self.workgroup if reduces else cutters
        groups = -(-self.pieces * self.sharing // cutters)
        linear = body.let("linear", LINEAR_GROUP)
        body.leave(linear >= groups * self.rows)
        row = body.let("row", linear // groups)
        self._reduce(row, 0)
        if cutters < self.workgroup:
            body.leave(THREAD >= fixed(cutters))
        found = self._piece_of(row, (linear % groups) * fixed(cutters) + THREAD)
        self._cut(body.let("start", row * self.pieces), *found)
        return frame.module.finish(self.workgroup, groups * self.rows, " (cut)")

    def multiply(self) -> Pass:
        """Return the pass that multiplies what was cut."""
        (found,) = VectorGenerator.generate(self).passes
        return found
