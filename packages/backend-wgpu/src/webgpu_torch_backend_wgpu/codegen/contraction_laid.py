"""A side of a contraction laid out as halves, scaled and cut, in the order in which tiles take them.

What many workgroups read is cut once, rather than by each of them; and eight numbers that are neighbours along k, wherever they lie in
the operand, are one access.
"""

from __future__ import annotations

from collections.abc import Callable

from webgpu_torch_core.ir.kernels import Contraction
from webgpu_torch_core.ir.layouts import number_of_elements

from .contraction import VECTOR_BYTES, Frame, Moving, Side
from .contraction_magnitudes import THREADS, flag
from .ir import Array, Node, choose, fixed, minimum, u32, vector, zero
from .module import THREAD, Module
from .pairs import Cutter, exponent_of, parts_of, power_of_two
from .workgroup import Partials

#: halves that one access moves, and that a word holds
_HALVES, _IN_WORD = VECTOR_BYTES // 2, 2


class Laid:
    """The halves of a side in scratch memory: ``[part, batch, row, depth]``, with the dimensions of ``batch`` along which it moves."""

    def __init__(self, kernel: Contraction, group: str, left: int, number: int) -> None:
        """``kernel``: with k in the order of tiles; ``left``: as of :class:`.pairs.Cutter`; ``number``: of the scratch buffer."""
        value = kernel.left if group == "m" else kernel.right
        self.kernel, self.left = kernel, left
        self.side = Side(kernel, value, group)
        self.parts = parts_of(value)
        self._moving = Moving(kernel.batch, value)
        #: depths of a row, with zeros behind the last one up to a whole access
        self.depth = -(-number_of_elements(kernel.k) // _HALVES) * _HALVES
        self._partials = Partials(number)
        self._records = self._partials.records(self.parts * self._rows * self.depth // _IN_WORD, "u32")

    @property
    def nbytes(self) -> int:
        """The size of the scratch buffer."""
        return self._partials.nbytes

    @property
    def _rows(self) -> int:
        return self._moving.count * self.side.rows

    def _at(self, part: int, row: Node, depth: Node) -> Node:
        """Return which word holds a half and the next one."""
        at = row * u32(self.depth // _IN_WORD) + depth // fixed(_IN_WORD)
        return at + u32(part * self._rows * self.depth // _IN_WORD) if part else at

    def lay(
        self, frame: Frame, side: Side, flat: Node, batch: list[Node], base: Node, count: int, words: Array
    ) -> None:
        """Write how the threads of a workgroup leave ``count`` rows from one on, whose words lie in workgroup memory."""
        module, body, fresh = frame.module, frame.body, frame.module.fresh
        inner, steps = Frame(self.kernel, module.capabilities, module), self.depth // _HALVES
        cutter = Cutter(module, self.parts, self.left)
        cutter.define()
        with body.loop(fresh("step"), THREAD, lambda at: at < u32(count * steps), fixed(THREADS)) as step:
            # Neighbours in memory are read by neighbours among the threads.
            inner_row, deep = (
                (step // steps, step % steps) if side.axis == "k" else (step % fixed(count), step // count)
            )
            own, depth = body.let(fresh("own"), inner_row), body.let(fresh("deep"), deep * fixed(_HALVES))
            row = body.let(fresh("row"), base + own)
            with body.when(row < self.side.rows):
                word = body.let(fresh("word"), words[own])
                scale = body.let(fresh("scale"), power_of_two(exponent_of(word)))
                values = [self._element(inner, batch, row, depth + fixed(each)) for each in range(_HALVES)]
                scaled = [body.let(fresh("scaled"), each * scale) for each in values]
                odd = body.let(fresh("odd"), flag(word))
                place = body.let(fresh("place"), flat * self.side.rows + row)
                with body.when(odd.differs(fixed(0))):
                    self._leave(module, place, depth, scaled, cutter.apart)
                with body.otherwise():
                    # No driver knows that it is 0.
                    self._leave(module, place, depth, scaled, lambda pair: cutter.cut(pair, fixed(0) - (odd >> 31)))

    def _element(self, frame: Frame, batch: list[Node], row: Node, depth: Node) -> Node:
        """Write what computes an element of the side and return it; 0 behind the last one."""
        body, fresh, ends = frame.body, frame.module.fresh, frame.k < self.depth
        depth = body.let(fresh("at"), depth)
        inside = body.let(fresh("inside"), minimum(depth, frame.k - 1)) if ends else depth
        found = frame.element(self.side, batch, row, inside)
        return choose(depth < frame.k, found, zero(found.type)) if ends else found

    def _leave(
        self, module: Module, row: Node, depth: Node, values: list[Node], cut: Callable[[Node], list[Node]]
    ) -> None:
        """Write the stores of eight neighbours, of which two each are cut by a function."""
        cuts = [cut(vector("f32", values[first : first + _IN_WORD])) for first in range(0, _HALVES, _IN_WORD)]
        for part in range(self.parts):
            words = [each[part] for each in cuts]
            self._records.write_neighbours(module, self._at(part, row, depth), words)

    def read(self, frame: Frame, part: int, batch: list[Node], row: Node, depth: Node) -> Node:
        """Write the load of eight halves of a row from a depth on and return them as four words."""
        flat = self._moving.flat(batch)
        place = self._at(part, row if flat is None else flat * self.side.rows + row, depth)
        return vector("u32", self._records.read_neighbours(frame.module, place, _HALVES // _IN_WORD))
