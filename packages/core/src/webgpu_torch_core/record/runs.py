"""One execution of a plan, which may stop between two kernels and go on later, and survives a kernel that fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..backend.interface import Copy, Plan
from . import interrupts


class Run:
    """Where the execution of a plan stands.

    Attributes:
        plan, externals, parameters: what :meth:`Device.run` is given.
        position: the step that runs next.
        table: what the device made of all buffers before the first step; None until it has.
        failures: the exceptions of kernels that failed.
        poisoned: buffers (numbers of the plan) whose contents depend on a kernel that failed.
        skipped: steps that did not run because they do.
    """

    __slots__ = ("externals", "failures", "parameters", "plan", "poisoned", "position", "skipped", "table")

    def __init__(self, plan: Plan, externals: Sequence[Any], parameters: Sequence[float | int]) -> None:
        self.plan = plan
        self.externals = externals
        self.parameters = parameters
        self.position = 0
        self.table: Any = None
        self.failures: list[BaseException] = []
        self.poisoned: set[int] = set()
        self.skipped: set[int] = set()

    @property
    def finished(self) -> bool:
        """Whether every step has run or cannot."""
        return self.position >= len(self.plan.steps)

    def finish(self) -> None:
        """Note that the device ran everything."""
        self.position = len(self.plan.steps)

    def remaining(self) -> Iterator[int]:
        """Yield the numbers of the steps to run now, each of which has run when the next is asked for.

        Ends early where a signal waits to be delivered; skips what depends on a kernel that failed.
        """
        count = len(self.plan.steps)
        while self.position < count:
            if self.poisoned and self._is_poisoned(self.position):
                self.skipped.add(self.position)
            else:
                yield self.position
            self.position += 1
            if interrupts.pending:
                return

    def _is_poisoned(self, position: int) -> bool:
        """Return whether a step reads what was not computed, and pass that on to what it writes."""
        reads, writes = _touched(self.plan.steps[position])
        if self.poisoned.isdisjoint(reads):
            self.poisoned.difference_update(writes)
            return False
        self.poisoned.update(writes)
        return True

    def fail(self, error: BaseException) -> None:
        """Note that the step at the present position failed, and go on behind it."""
        # Without the frames that hold the run's buffers.
        self.failures.append(error.with_traceback(None))
        self.poisoned.update(_touched(self.plan.steps[self.position])[1])
        self.position += 1

    def name(self) -> str:
        """Return the name of the kernel at the present position."""
        step = self.plan.steps[min(self.position, len(self.plan.steps) - 1)]
        return "copy" if isinstance(step, Copy) else step.kernel.name

    def overwritten(self) -> set[int]:
        """Return which buffers of the plan a step may have written to."""
        ran = (step for number, step in enumerate(self.plan.steps[: self.position]) if number not in self.skipped)
        return {number for step in ran for number in _touched(step)[1]}


def _touched(step: Any) -> tuple[Sequence[int], Sequence[int]]:
    """Return the buffers that a step reads and those it writes."""
    if isinstance(step, Copy):
        return (step.source,), (step.target,)
    return step.operands, step.outputs


__all__ = ["Run"]
