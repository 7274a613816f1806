"""Handing over early: a device that works on its own begins what repeats while the rest of it is still being recorded.

Recording a whole tape before anything runs leaves the device idle for as long as that takes. Handing over at any place
would cut kernels apart that belong together. So when a tape runs as a whole for the first time, the places are noted where
nothing that was computed before is read after, where no merged kernel would be cut, and where enough work lies before. A
later tape of the same kernels is handed over at these places, if no more values are alive there than were in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..backend.interface import Copy
from ..bounded import Bounded
from ..ir.kernels import Kernel
from ..scheduling.schedule import Scheduled

if TYPE_CHECKING:
    from .tape import Tape

#: seconds of the device's work that are handed over first: more than handing over takes the host. Each part that follows
#: may be twice as long as the one before it, as the device has enough to do meanwhile, up to what may be left when the host
#: has done its part and waits
FIRST, MOST = 2e-4, 4e-4


class Trace:
    """A tape that ran as a whole: its kernels, the numbers of those before which to hand over, and the outputs that somebody
    could still reach in the end, as (number of the kernel, output)."""

    __slots__ = ("alive", "kernels", "places")

    def __init__(self, kernels: list[Kernel], places: set[int], alive: frozenset[tuple[int, int]]) -> None:
        self.kernels = kernels
        self.places = places
        self.alive = alive


class Ahead:
    """What a thread knows of the tapes that it recorded for a device, and how far it has come in which of them."""

    __slots__ = ("position", "trace", "traces")

    def __init__(self) -> None:
        self.traces: Bounded[int, Trace] = Bounded(256)
        self.trace: Trace | None = None
        self.position = 0

    def reaches(self, kernel: Kernel, tape: Tape) -> bool:
        """Return whether to hand over a tape before a kernel is recorded."""
        trace, at = self.trace, self.position
        if trace is None:
            trace, at = (None if tape.entries else self.traces.get(id(kernel))), 0
            if trace is None:
                return False
        if at >= len(trace.kernels) or trace.kernels[at] is not kernel:
            self.trace = None
            return False
        self.trace, self.position = trace, at + 1
        if at not in trace.places:
            return False
        for number, (recorded, _, first, _) in enumerate(tape.entries, at - len(tape.entries)):
            for output in range(len(recorded.outputs)):
                if tape.slots[first + output]() is not None and (number, output) not in trace.alive:
                    # It would have to be stored, and may never be read.
                    trace.places.discard(at)
                    return False
        return True

    def ran(self, tape: Tape, scheduled: Scheduled, seconds: Callable[[Kernel], float]) -> None:
        """Note the places in a tape that runs as a whole, the first time that it does."""
        followed, self.trace = self.trace, None
        known, scheduled.followed = scheduled.followed, True
        if known or followed is not None or tape.capture is not None:
            return
        trace = _trace(tape, scheduled, seconds)
        if trace.places:
            self.traces.pop(id(trace.kernels[0]), None)
            self.traces[id(trace.kernels[0])] = trace


def _trace(tape: Tape, scheduled: Scheduled, seconds: Callable[[Kernel], float]) -> Trace:
    entries = tape.entries
    maker = {
        first + output: number
        for number, (kernel, _, first, _) in enumerate(entries)
        for output in range(len(kernel.outputs))
    }
    # What begins with one kernel and ends with a later one must not be cut: for each kernel the last one that it goes with.
    last = list(range(len(entries)))
    for number, entry in enumerate(entries):
        for slot in entry.operands:
            if slot in maker:
                last[maker[slot]] = max(last[maker[slot]], number)
    slot_of = {buffer: slot for slot, buffer in scheduled.outputs if slot in maker}
    work = [0.0] * len(entries)
    latest = 0
    for step in scheduled.plan.steps:
        made = (
            [maker[slot_of[buffer]] for buffer in step.outputs if buffer in slot_of]
            if not isinstance(step, Copy)
            else []
        )
        if made:
            latest = max(made)
            last[min(made)] = max(last[min(made)], latest)
        work[latest] += 0.0 if isinstance(step, Copy) else seconds(step.kernel)
    places: set[int] = set()
    reach, waiting, least = 0, 0.0, FIRST
    for number in range(len(entries) - 1):
        reach, waiting = max(reach, last[number]), waiting + work[number]
        if reach == number and waiting >= least:
            places.add(number + 1)
            least, waiting = min(2 * least, MOST), 0.0
    alive = frozenset(
        (maker[slot], slot - entries[maker[slot]].output) for slot, _ in scheduled.outputs if slot in maker
    )
    return Trace([each.kernel for each in entries], places, alive)
