"""Sides of a contraction laid out as halves in the order in which tiles take them: a pass before.

What many workgroups read is scaled and cut once, rather than by each of them; and eight numbers that are neighbours along k, wherever
they lie in the operand, are one access.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from webgpu_torch_core.ir.expression import Expression
from webgpu_torch_core.ir.kernels import Contraction
from webgpu_torch_core.ir.layouts import number_of_elements

from ..facts import Facts
from ..program import Capabilities, Pass
from .contraction import VECTOR_BYTES, Frame, Moving, Side, halves_in_words
from .contraction_magnitudes import Magnitudes, flag
from .contraction_tile import Tile
from .contraction_window import channels_inside
from .ir import Node, choose, fixed, minimum, u32, vector, zero
from .module import LINEAR_GROUP, THREAD, Module
from .pairs import Cutter, exponent_of, parts_of, power_of_two
from .workgroup import Partials, in_turn

#: threads of a workgroup; halves that one access moves, and that a word holds
_THREADS, _HALVES, _IN_WORD = 256, VECTOR_BYTES // 2, 2
#: bytes at the memory's rate that laying out an element lasts
_MOVED = 17
#: rows and depths of a block at most, and bytes that a side may take
_ROOM, _MOST_BYTES = 256, 1 << 29


@lru_cache(64)
def laid_groups(
    kernel: Contraction, values: tuple[Expression, Expression], lanes: int, whole: bool, binding_bytes: int
) -> tuple[str, ...]:
    """Return the groups of the sides that may be laid out: what is read number by number, and what channels are multiplied by.

    ``values``: those of the sides; ``lanes``: how many a thread reads at once where it can; ``whole``: whether both sides may be in any
    case where neither is read at computed places; ``binding_bytes``: what one binding holds.
    """
    sides = [Side(kernel, value, group, lanes) for value, group in zip(values, "mn", strict=True)]
    channels = channels_inside(kernel) is not kernel
    whole = whole and all(each.strided for each in sides)
    found = [each for each in sides if each.strided and (whole or channels or each.lanes == 1)]
    depth = number_of_elements(kernel.k) + _ROOM
    longest = max((Moving(kernel.batch, each.value).count * (each.rows + _ROOM) * depth for each in found), default=0)
    # Two halves of each number.
    return tuple([each.group for each in found]) if 4 * longest <= min(binding_bytes, _MOST_BYTES) else ()


def laying_seconds(kernel: Contraction, groups: Sequence[str], facts: Facts) -> float:
    """Return an estimate of the time in which the sides of some groups are laid out."""
    batch, k = number_of_elements(kernel.batch), number_of_elements(kernel.k)
    rows = sum(number_of_elements(kernel.m if each == "m" else kernel.n) for each in groups)
    return batch * rows * k * _MOVED / facts.bandwidth + facts.dispatch if groups else 0.0


class Laid:
    """The halves of a side in scratch memory: ``[part, batch, row, depth]``, with the dimensions of ``batch`` along which it moves.

    Rows and depths are whole blocks of a tile: behind the last row there is anything, behind the last depth there are zeros.
    """

    def __init__(self, kernel: Contraction, value: Expression, group: str, tile: Tile, number: int) -> None:
        """``kernel``: as it is recorded; ``value``: the side's, halves or what they are made of; ``number``: of the scratch buffer."""
        #: as it is read, and as it is laid out
        self.read_as, self.kernel = Side(kernel, value, group), channels_inside(kernel)
        own = self.kernel.left if group == "m" else self.kernel.right
        self.are_halves = value.dtype.name == "float16"
        self.side = Side(self.kernel, own.arguments[0] if self.are_halves else own, group)
        self.parts = 1 if self.are_halves else parts_of(value)
        self._moving = Moving(kernel.batch, value)
        self.rows = self._moving.count * self.side.rows
        width = tile.m if group == "m" else tile.n
        self._padded, self._depth = (
            -(-size // block) * block
            for size, block in ((self.side.rows, width), (number_of_elements(kernel.k), tile.k))
        )
        self.steps = self.rows * self._depth // _HALVES
        #: words of a part
        self._words = self._moving.count * self._padded * self._depth // _IN_WORD
        self._partials = Partials(number)
        self._records = self._partials.records(self.parts * self._words, "u32")

    @property
    def nbytes(self) -> int:
        """The size of the scratch buffer."""
        return self._partials.nbytes

    def _at(self, part: int, batch: list[Node], row: Node, depth: Node) -> Node:
        """Return which word holds a half and the next one."""
        flat = self._moving.flat(batch)
        place = row if flat is None else flat * u32(self._padded) + row
        at = place * u32(self._depth // _IN_WORD) + depth // fixed(_IN_WORD)
        return at + u32(part * self._words) if part else at

    def lay(self, module: Module, step: Node, magnitudes: Magnitudes | None, left: int) -> None:
        """Write how a thread leaves eight neighbours along k, the ``step``-th of all.

        ``magnitudes``: of all rows, of numbers that are cut; ``left``: as of :class:`.pairs.Cutter`.
        """
        body, fresh, inner = module.body, module.fresh, Frame(self.kernel, module.capabilities, module)
        steps = self._depth // _HALVES
        # Neighbours in memory are read by neighbours among the threads.
        place, deep = (
            (step // steps, step % steps) if self.read_as.axis == "k" else (step % self.rows, step // self.rows)
        )
        row, depth = body.let(fresh("place"), place), body.let(fresh("deep"), deep * fixed(_HALVES))
        flat = fixed(0)
        if self._moving.count > 1:
            flat = body.let(fresh("batch"), row // self.side.rows)
            row = body.let(fresh("row"), row - flat * self.side.rows)
        batch = self._moving.coordinates(module, flat)
        values = [self._element(inner, batch, row, depth + fixed(each)) for each in range(_HALVES)]
        if magnitudes is None:
            self._store(module, 0, batch, row, depth, halves_in_words(values))
            return
        word = body.let(fresh("word"), magnitudes.read(inner, self.side, batch, row))
        scale, odd = body.let(fresh("scale"), power_of_two(exponent_of(word))), body.let(fresh("odd"), flag(word))
        cutter = Cutter(module, self.parts, left)
        scaled = [cutter.beyond_zero(body.let(fresh("scaled"), each * scale)) for each in values]
        with body.when(odd.differs(fixed(0))):
            self._cut(cutter, batch, row, depth, scaled, cutter.apart)
        with body.otherwise():
            # No driver knows that it is 0.
            self._cut(cutter, batch, row, depth, scaled, lambda pair: cutter.cut(pair, fixed(0) - (odd >> 31)))

    def _element(self, frame: Frame, batch: list[Node], row: Node, depth: Node) -> Node:
        """Write what computes an element of the side and return it; 0 behind the last one."""
        body, fresh, ends = frame.body, frame.module.fresh, frame.k < self._depth
        depth = body.let(fresh("at"), depth)
        inside = body.let(fresh("inside"), minimum(depth, frame.k - 1)) if ends else depth
        found = body.let(fresh("found"), frame.element(self.side, batch, row, inside))
        return choose(depth < frame.k, found, zero(found.type)) if ends else found

    def _cut(
        self, cutter: Cutter, batch: list[Node], row: Node, depth: Node, values: Sequence[Node],
        cut: Callable[[Node], list[Node]],
    ) -> None:  # fmt: skip
        """Write the stores of eight neighbours, cut by a function."""
        for part, words in enumerate(cutter.halves(values, cut)):
            self._store(cutter.module, part, batch, row, depth, vector("u32", words))

    def _store(self, module: Module, part: int, batch: list[Node], row: Node, depth: Node, words: Node) -> None:
        """Write the store of eight halves."""
        words = module.body.let(module.fresh("words"), words)
        lanes = [words.lane(each) for each in range(_HALVES // _IN_WORD)]
        self._records.write_neighbours(module, self._at(part, batch, row, depth), lanes)

    def read(self, frame: Frame, batch: list[Node], row: Node, depth: Node) -> list[Node]:
        """Write the loads of eight halves of a row from a depth on and return them as four words, those of each part."""
        places = [self._at(part, batch, row, depth) for part in range(self.parts)]
        count = _HALVES // _IN_WORD
        return [vector("u32", self._records.read_neighbours(frame.module, each, count)) for each in places]


def laid_sides(
    kernel: Contraction, values: tuple[Expression, Expression], groups: Sequence[str], tile: Tile, first: int
) -> dict[str, Laid]:
    """Return the sides of some groups laid out for a tile, in scratch buffers from the ``first`` on; ``values`` as of :func:`laid_groups`."""
    sides = dict(zip("mn", values, strict=True))
    return {group: Laid(kernel, sides[group], group, tile, first + number) for number, group in enumerate(groups)}


def laying(
    kernel: Contraction, sides: Sequence[Laid], capabilities: Capabilities, magnitudes: Magnitudes | None = None,
    left: int = 0,
) -> Pass:  # fmt: skip
    """Return the pass that lays sides out, one after another; arguments as of :meth:`Laid.lay`."""
    module = Module(kernel, capabilities)
    body = module.body
    if magnitudes is not None:
        Cutter(module, left=left).define()
    step, counts = body.let("step", LINEAR_GROUP * fixed(_THREADS) + THREAD), [each.steps for each in sides]
    for number, own in in_turn(module, step, counts):
        sides[number].lay(module, own, magnitudes, left)
    return module.finish(_THREADS, -(-sum(counts) // _THREADS), " (laid out)")
