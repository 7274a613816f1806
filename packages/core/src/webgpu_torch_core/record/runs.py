"""One execution of a plan, which may stop between two kernels and go on later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from ..backend.interface import Copy, Device, Plan
from . import interrupts


class Run:
    """Where the execution of a plan stands.

    Attributes:
        plan, externals, parameters: what :meth:`Device.run` is given.
        position: the step that runs next; where a kernel raised, its step.
        finished: whether every step has run.
        table: what the device made of all buffers before the first step; None until it has.
        begun: whether the step at ``position`` may have written. So it is while one runs; a device says after a kernel
            raised that it had not, where it knows.
    """

    __slots__ = ("begun", "externals", "finished", "parameters", "plan", "position", "table")

    def __init__(self, plan: Plan, externals: Sequence[Any], parameters: Sequence[float | int]) -> None:
        self.plan = plan
        self.externals = externals
        self.parameters = parameters
        self.position = 0
        self.table: Any = None
        self.begun = False
        self.finished = not plan.steps

    def finish(self) -> None:
        """Note that the device ran everything."""
        self.position = len(self.plan.steps)
        self.finished = True

    def remaining(self) -> Iterator[int]:
        """Yield the numbers of the steps to run now, each of which has run when the next is asked for.

        Ends early where a signal waits to be delivered.
        """
        position, count = self.position, len(self.plan.steps)
        while position < count:
            self.begun = True
            yield position
            self.begun = False
            self.position = position = position + 1
            if interrupts.pending:
                break
        self.finished = position >= count

    def name(self) -> str:
        """Return the name of the kernel at the present position."""
        step = self.plan.steps[min(self.position, len(self.plan.steps) - 1)]
        return "copy" if isinstance(step, Copy) else step.kernel.name


def picker(positions: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return what takes these positions out of a list, without a loop of Python's."""
    if len(positions) > 1:
        return itemgetter(*positions)
    first = positions[0] if positions else 0
    return itemgetter(slice(first, first + len(positions)))


def name_kernel(error: BaseException, name: str, device: Device) -> None:
    """Note which kernel raised an exception, once."""
    if not any("kernel '" in each for each in getattr(error, "__notes__", ())):
        error.add_note(
            f"in kernel '{name}' on {device.name}; WEBGPU_TORCH_EAGER=1 runs each operation where it is called"
        )
