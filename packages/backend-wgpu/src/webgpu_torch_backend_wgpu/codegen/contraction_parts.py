"""Contractions whose sum over k is shared by workgroups: each leaves its part, a second pass adds them in order, then stores."""

from __future__ import annotations

from contextlib import nullcontext

from webgpu_torch_core.ir.kernels import Contraction

from ..program import Capabilities, Pass, Program
from .contraction import Frame
from .ir import Node, fixed, minimum
from .module import LINEAR_GROUP, THREAD
from .workgroup import Partials

_WORKGROUP = 64
#: parts that a thread reads at once after the first, of few and of more: it waits for memory once for all of them
_SEVERAL, _MORE = 3, 7


class Parts:
    """The parts of a split sum in scratch memory: ``[split, batch, m, n]``."""

    def __init__(self, frame: Frame, splits: int) -> None:
        self.splits = splits
        self.size = frame.batch * frame.m * frame.n
        self._partials = Partials()
        self._records = self._partials.records(splits * self.size, frame.scalar)

    def write(self, frame: Frame, split: Node, batch: Node, row: Node, column: Node, values: list[Node]) -> None:
        """Write the stores of a part of some neighbouring columns."""
        start = (split * frame.batch + batch) * (frame.m * frame.n) + row * frame.n + column
        if len(values) > 1:
            start = frame.body.let(frame.module.fresh("part"), start)
        self._records.write_neighbours(frame.module, start, values)

    def program(self, kernel: Contraction, capabilities: Capabilities, first: Pass) -> Program:
        """Return the program whose first pass leaves the parts."""
        frame = Frame(kernel, capabilities)
        module, body, lanes = frame.module, frame.body, frame.columns
        workgroup = min(_WORKGROUP, capabilities.invocations)
        element = body.let("element", (LINEAR_GROUP * workgroup + THREAD) * lanes)
        body.leave(element >= self.size)
        own = self._records.read_neighbours(module, element, lanes)
        sums = [body.var(f"sum{lane}", value) for lane, value in enumerate(own)]
        several = _SEVERAL if self.splits <= _SEVERAL + 1 else _MORE
        with body.loop("part", fixed(1), lambda part: part < self.splits, fixed(several)) as part:
            parts = [part + fixed(each) if each else part for each in range(several)]
            # Behind the last one it is read again, and not added.
            read = [minimum(each, self.splits - 1) if number else each for number, each in enumerate(parts)]
            found = [self._records.read_neighbours(module, each * self.size + element, lanes) for each in read]
            for number, (place, values) in enumerate(zip(parts, found, strict=True)):
                with body.when(place < self.splits) if number else nullcontext():
                    for total, value in zip(sums, values, strict=True):
                        body.set(total, frame.add(total, value))
        column = body.let("column", element % frame.n)
        row = body.let("row", (element // frame.n) % frame.m)
        batch = body.let("batch", element // (frame.m * frame.n))
        frame.epilogue(frame.batch_coordinates(batch), row, column, list(sums))
        second = module.finish(workgroup, -(-self.size // (lanes * workgroup)), " (sum of parts)")
        return Program((first, second), (self._partials.nbytes,))
