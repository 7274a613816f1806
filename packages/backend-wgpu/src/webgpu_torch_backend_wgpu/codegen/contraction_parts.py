"""Contractions whose sum over k is shared by workgroups: each leaves its part, a second pass adds them in order, then stores."""

from __future__ import annotations

from webgpu_torch_core.ir.kernels import Contraction

from ..program import Capabilities, Pass, Program
from .contraction import Frame
from .ir import Node, fixed
from .module import LINEAR_GROUP, THREAD
from .workgroup import Partials

_WORKGROUP = 64


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
        for lane, value in enumerate(values):
            self._records.write(frame.module, start + fixed(lane) if lane else start, [value])

    def program(self, kernel: Contraction, capabilities: Capabilities, first: Pass) -> Program:
        """Return the program whose first pass leaves the parts."""
        frame = Frame(kernel, capabilities)
        module, body, lanes = frame.module, frame.body, frame.columns
        workgroup = min(_WORKGROUP, capabilities.invocations)
        element = body.let("element", (LINEAR_GROUP * workgroup + THREAD) * lanes)
        body.leave(element >= self.size)
        places = [element + fixed(lane) if lane else element for lane in range(lanes)]
        sums = [body.var(f"sum{lane}", self._records.read(module, place)[0]) for lane, place in enumerate(places)]
        with body.loop("part", fixed(1), lambda part: part < self.splits, fixed(1)) as part:
            for total, place in zip(sums, places, strict=True):
                body.set(total, frame.add(total, self._records.read(module, part * self.size + place)[0]))
        column = body.let("column", element % frame.n)
        row = body.let("row", (element // frame.n) % frame.m)
        batch = body.let("batch", element // (frame.m * frame.n))
        frame.epilogue(frame.batch_coordinates(batch), row, column, list(sums))
        second = module.finish(workgroup, -(-self.size // (lanes * workgroup)), " (sum of parts)")
        return Program((first, second), (self._partials.nbytes,))
