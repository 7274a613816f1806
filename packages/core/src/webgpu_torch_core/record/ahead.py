"""Running ahead: a device that works on its own begins what repeats while the rest of it is still being recorded.

Recording a whole tape before anything runs leaves the device idle for as long as that takes. When a tape ran as a whole for the
first time, its plan is divided into parts, each with enough work, and what has to be recorded before each part may run is
noted. When a later tape records the same kernels, its parts run as it reaches them. Nothing else is visible of it: values are
handed out when the tape runs. If by then it is another tape than the one before, it becomes what is left to run of it, as
after an exception in the middle of a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..backend import profiling
from ..backend.interface import Copy, Plan, Step
from ..bounded import Bounded
from ..ir.kernels import Kernel
from ..scheduling.memory import Scheduled, written_by
from .interrupts import hold
from .runs import Run
from .tape import Leaf, identities

if TYPE_CHECKING:
    from ..backend.interface import Device
    from .engine import Engine
    from .tape import Entry, Structure, Tape

#: seconds of the device's work in a part at most, which is what may be left when the host has done its part: each may be twice as
#: long as the one before it, as the device has enough to do meanwhile
MOST = 1e-3
#: seconds of the device's work for each recorded kernel from which on the device takes longer than the host, which takes some
#: microseconds to record one, and what is then worth a first part
DEVICE_BOUND, EARLIEST = 2.5e-5, 4e-5
#: tapes in a row that were others in the end before a trace is given up
_MISSES = 3


class Part:
    """Some steps of a plan as a plan of its own.

    Attributes:
        entries: how many kernels of the tape are recorded before it may run.
        plan: its steps.
        buffers: for each external buffer of it the number that it has in the whole plan.
        made: those of these that are allocated for it, and ``sizes`` their bytes; ``freed``: those that no later step uses.
        overwritten: slots that came in and that its steps write into.
        known: how many slots there are by then; in another tape, what comes in later may be something else.
        contents: which of these slots each buffer of the whole plan holds when it has run.
    """

    __slots__ = (
        "_endangered", "_held", "_lost", "buffers", "contents", "entries", "freed", "known", "made", "overwritten", "plan",
        "sizes",
    )  # fmt: skip

    def __init__(self, whole: _Whole, first: int, stop: int, entries: int) -> None:
        scheduled, plan = whole.scheduled, whole.scheduled.plan
        count = len(scheduled.inputs)
        touched = sorted({each for step in plan.steps[first:stop] for each in _touched(step)})
        spans = whole.spans
        inside = {each: first <= spans[each][0] and spans[each][1] < stop for each in touched}
        own = [each for each in touched if each >= plan.externals and inside[each]]
        outer = [each for each in touched if each < plan.externals or not inside[each]]
        number = {each: place for place, each in enumerate((*outer, *own))}
        steps = [_renumbered(step, number) for step in plan.steps[first:stop]]
        self.entries = entries
        self.plan = Plan(steps, len(outer), [whole.nbytes(each) for each in own])
        self.buffers = tuple(outer)
        self.made = tuple(each for each in outer if each >= count and spans[each][0] >= first)
        self.sizes = [whole.nbytes(each) for each in self.made]
        self.freed = tuple(each for each in outer if each >= plan.externals and spans[each][1] < stop)
        written = {each for step in plan.steps[first:stop] for each in written_by(step)}
        self.overwritten = tuple(slot for each, slot in enumerate(scheduled.inputs) if each in written)
        self.contents = {
            each: slot
            for each, slot in scheduled.contents(stop, False).items()
            if each < plan.externals or spans[each][1] >= stop
        }
        self._lost = frozenset(scheduled.inputs).difference(self.contents.values())
        self._held = frozenset(self.contents.values())
        self._endangered: dict[int, tuple[int, ...]] = {}
        self.known = 0

    def endangered(self, tape: Tape, entries: int) -> tuple[int, ...]:
        """Return which slots of a tape's first so many kernels could not be computed any more when it has run, nor does a buffer
        hold them."""
        found = self._endangered.get(entries)
        if found is None:
            found = self._endangered[entries] = _endangered(tape, entries, self._lost, self._held)
        return found


class _Whole:
    """A plan that is divided: its buffers' sizes, and the first and last step that uses each."""

    def __init__(self, scheduled: Scheduled) -> None:
        self.scheduled = scheduled
        self.spans: dict[int, tuple[int, int]] = {}
        for number, step in enumerate(scheduled.plan.steps):
            for each in _touched(step):
                self.spans[each] = self.spans.get(each, (number,))[0], number

    def nbytes(self, buffer: int) -> int:
        """Return the bytes of a buffer that is made for the plan."""
        plan, count = self.scheduled.plan, len(self.scheduled.inputs)
        return (
            plan.temporaries[buffer - plan.externals]
            if buffer >= plan.externals
            else self.scheduled.fresh[buffer - count]
        )


class Trace:
    """A tape that ran as a whole: what it recorded, its plan, and the parts of that, by where they begin to run."""

    __slots__ = ("entries", "kernels", "misses", "parts", "rests", "scheduled", "steps", "whole")

    def __init__(self, recorded: Sequence[Entry], scheduled: Scheduled, device: Device) -> None:
        self.scheduled = scheduled
        self.kernels = [each.kernel for each in recorded]
        self.entries = identities(recorded)
        self.misses = 0
        self.whole = _Whole(scheduled)
        #: the step with which each part ends
        self.steps = [0]
        self.parts: list[Part] = []
        self.rests: dict[int, Part] = {}
        for stop, entries in _places(scheduled, _firsts(recorded), len(recorded), device):
            part = Part(self.whole, self.steps[-1], stop, entries)
            last = recorded[entries - 1]
            part.known = last.output + len(last.kernel.outputs)
            part.contents = {each: slot for each, slot in part.contents.items() if slot < part.known}
            self.parts.append(part)
            self.steps.append(stop)

    def rest(self, done: int) -> Part:
        """Return what is left of the plan when so many parts have run."""
        found = self.rests.get(done)
        if found is None:
            stop = len(self.scheduled.plan.steps)
            found = self.rests[done] = Part(self.whole, self.steps[done], stop, len(self.kernels))
        return found


class Begun:
    """How far the plan has run that a tape is expected to have in the end.

    Attributes:
        entries: how many of the tape's kernels the parts depend on that have run.
        alike: how many of them are known to be those that were expected.
        buffers: what was allocated for them, by number in the plan; those of what came in have their slots.
    """

    __slots__ = ("_counted", "_parameters", "alike", "buffers", "done", "entries", "trace")

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.done = self.entries = self.alike = 0
        self.buffers: dict[int, object] = {}
        self._parameters: list[float | int] = []
        self._counted = 0

    def run(self, tape: Tape, part: Part, device: Device) -> Run:
        """Return the execution of a part, with what is made for it allocated."""
        # Those of a part that failed come again.
        del self._parameters[self._counted :]
        for each in tape.entries[self.entries : part.entries]:
            self._parameters += each.parameters
        return Run(part.plan, self._externals(tape, part, device), self._parameters)

    def _externals(self, tape: Tape, part: Part, device: Device) -> list[object]:
        if part.made:
            self.buffers.update(zip(part.made, device.allocate_all(part.sizes), strict=True))
        return [self.buffer(tape, each) for each in part.buffers]

    def buffer(self, tape: Tape, number: int) -> object:
        """Return a buffer by its number in the whole plan."""
        inputs = self.trace.scheduled.inputs
        return tape.slots[inputs[number]].buffer if number < len(inputs) else self.buffers[number]  # type: ignore[attr-defined]

    def ran(self, part: Part) -> None:
        """Note that a part has run."""
        self.done, self.entries, self._counted = self.done + 1, part.entries, len(self._parameters)
        for each in part.freed:
            self.buffers.pop(each, None)

    def results(self, tape: Tape, device: Device) -> dict[int, object]:
        """Return the buffers that the plan leaves when all of it has run, by their numbers."""
        scheduled, count = self.trace.scheduled, len(self.trace.scheduled.inputs)
        for _, number in scheduled.outputs:
            if number >= count and number not in self.buffers:
                # What has no elements has no kernel, but its tensor wants a buffer.
                self.buffers[number] = device.allocate(scheduled.fresh[number - count])
        return {number: self.buffer(tape, number) for _, number in scheduled.outputs}

    def settle(self, tape: Tape, failure: BaseException | None) -> None:
        """Let a tape be what is left to run of it."""
        tape.begun = None
        scheduled, stop = self.trace.scheduled, self.trace.steps[self.done]
        part = self.trace.parts[self.done - 1]
        held = {slot: self.buffer(tape, each) for each, slot in part.contents.items()}
        done = {slot for slots in scheduled.filled[:stop] for slot in slots}
        reports = [slot for slot in tape.reporting() if slot not in done]
        tape.remain([slot for slot in scheduled.inputs if slot < part.known], held, failure, reports)


class Ahead:
    """What a thread knows of the tapes that it recorded for a device, and which of them it records again."""

    __slots__ = ("trace", "traces")

    def __init__(self) -> None:
        self.traces: Bounded[int, Trace] = Bounded(256)
        self.trace: Trace | None = None

    def reaches(self, kernel: Kernel, tape: Tape) -> bool:
        """Return whether a part may run before a kernel is recorded."""
        at = len(tape.entries)
        trace = self.trace if at else self.traces.get(id(kernel))
        if trace is not None and (at >= len(trace.kernels) or trace.kernels[at] is not kernel):
            trace = None
        self.trace = trace
        if trace is None:
            return False
        done = 0 if tape.begun is None else tape.begun.done
        return done < len(trace.parts) and trace.parts[done].entries <= at

    def next_part(self, tape: Tape) -> tuple[Begun, Part] | None:
        """Return the part that a tape has reached; None where the tape is another one, or somebody needs what would be lost.

        No other follows before this one has run.
        """
        trace, self.trace = self.trace, None
        begun = tape.begun
        if (
            trace is None
            or not tape.open
            or tape.running is not None
            or tape.capture is not None
            or tape.failure is not None
        ):
            return None
        begun = Begun(trace) if begun is None else begun
        if begun.trace is not trace:
            return None
        part, slots, at = trace.parts[begun.done], tape.slots, len(tape.entries)
        if tape.recorded(begun.alike) != trace.entries[begun.alike : at]:
            return None
        begun.alike = at
        for slot in part.overwritten:
            leaf = slots[slot]
            if leaf.__class__ is not Leaf or not leaf.is_alone():  # type: ignore[attr-defined]
                return None
        if any(slots[slot]() is not None for slot in part.endangered(tape, at)):
            return None
        return begun, part

    def ran(self, recorded: Sequence[Entry], scheduled: Scheduled, device: Device) -> None:
        """Divide the plan of what ran as a whole, the first time that it does."""
        if scheduled.followed:
            return
        scheduled.followed = True
        trace = Trace(recorded, scheduled, device)
        if trace.parts:
            self.traces.pop(id(trace.kernels[0]), None)
            self.traces[id(trace.kernels[0])] = trace

    def ended(self, trace: Trace, matched: bool) -> None:
        """Note whether a tape that ran ahead was the one that was expected."""
        self.trace = None
        trace.misses = 0 if matched else trace.misses + 1
        first = id(trace.kernels[0])
        if trace.misses >= _MISSES and self.traces.get(first) is trace:
            del self.traces[first]


def run_part(engine: Engine, tape: Tape) -> None:
    """Run the part of the plan that a tape is expected to have which it has reached; nothing where it is another tape.

    Raises:
        Exception: what the device raised, which has run nothing then.
    """
    if profiling.listener is not None:
        return
    with engine.lock, hold:
        ahead = engine.recorder.ahead
        found = ahead.next_part(tape)
        if found is None:
            return
        begun, part = found
        # What is raised leaves the tape as it was: the part runs again with the rest.
        engine.device.advance(begun.run(tape, part, engine.device))
        ahead.trace = begun.trace
        begun.ran(part)
        tape.begun = begun
        engine.counts["kernels"] += len(part.plan.steps)
        engine.counts["ahead"] += 1


def run_rest(engine: Engine, tape: Tape, structure: Structure) -> bool:
    """Run what is left of the plan that a tape was expected to have; return whether it has it, else it is what is left to run."""
    begun = tape.begun
    assert begun is not None
    trace, found = begun.trace, engine.plans.get(structure)
    matched = found is not None and found[0] is trace.scheduled
    engine.recorder.ahead.ended(trace, matched)
    if not matched:
        with hold:
            tape.settle()
        return False
    scheduled, rest, counts = trace.scheduled, trace.rest(begun.done), engine.counts
    scheduled.used = counts["flushes"]
    counts["flushes"] += 1
    counts["recorded"] += len(tape.entries)
    counts["kernels"] += len(rest.plan.steps)
    engine.drive(tape, (scheduled, begun.run(tape, rest, engine.device)))
    return True


def _firsts(recorded: Sequence[Entry]) -> dict[int, int]:
    """Return the number of the first entry that has a slot, by slot: that makes it, or that it came in by."""
    found: dict[int, int] = {}
    for number, entry in enumerate(recorded):
        for slot in entry.slots():
            found.setdefault(slot, number)
    return found


def _places(scheduled: Scheduled, firsts: dict[int, int], count: int, device: Device) -> list[tuple[int, int]]:
    """Return where parts of a plan end: before which step, and how many of ``count`` kernels have to be recorded."""
    steps, inputs = scheduled.plan.steps, scheduled.inputs
    needed: list[int] = []
    for step, slots in zip(steps, scheduled.filled, strict=True):
        # A copy fills no slot, and what it takes may come in late.
        came = [inputs[each] for each in _touched(step) if each < len(inputs)]
        needed.append(max([firsts[slot] + 1 for slot in (*slots, *came)], default=0))
    found: list[tuple[int, int]] = []
    seconds = [0.0 if isinstance(step, Copy) else device.seconds(step.kernel) for step in steps]
    reach, waiting, number = 0, 0.0, 0
    # Where the device takes longer, it has only to begin early; where the host does, each part takes time of its.
    least = min(device.head_start, EARLIEST) if sum(seconds) > DEVICE_BOUND * count else device.head_start
    while number < len(steps):
        reach = max(reach, needed[number])
        waiting += seconds[number]
        number += 1
        if waiting < least:
            continue
        # What needs no more of the tape goes along.
        while number < len(steps) and needed[number] <= reach:
            number += 1
        if reach >= count or number >= len(steps):
            break
        found.append((number, reach))
        waiting, least = 0.0, min(2 * least, MOST)
    return found


def _endangered(tape: Tape, entries: int, lost: frozenset[int], held: frozenset[int]) -> tuple[int, ...]:
    """Return which slots of a tape's first so many kernels depend on slots that are lost, without a buffer that holds them."""
    found: list[int] = []
    without = set(lost)
    for each in tape.entries[:entries]:
        if without.isdisjoint(each.operands):
            continue
        made = [slot for slot in range(each.output, each.output + len(each.kernel.outputs)) if slot not in held]
        without.update(made)
        found += made
    return tuple(found)


def _touched(step: Step | Copy) -> Sequence[int]:
    """Return the buffers that a step uses."""
    return (step.source, step.target) if isinstance(step, Copy) else (*step.operands, *step.outputs)


def _renumbered(step: Step | Copy, number: dict[int, int]) -> Step | Copy:
    """Return a step over other numbers of its buffers."""
    if isinstance(step, Copy):
        return Copy(number[step.source], number[step.target], step.nbytes)
    operands, outputs = (tuple(number[each] for each in some) for some in (step.operands, step.outputs))
    return Step(step.kernel, operands, outputs, step.parameters)
