"""Several kernels that are recorded one after another: what a remembered call appends to a tape.

Recording a kernel by itself looks for the thread's tape, takes its lock and makes a value that somebody may hold. Of a
remembered call it is known before which of its kernels' results anybody holds; the others are slots of the tape and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from weakref import ref

from ..bounded import Bounded
from ..ir.dtypes import dtype
from .ahead import run_part
from .context import context
from .engine import NODE_LIMIT, Engine
from .lone import LONE_AFTER
from .runs import picker
from .tape import Entry, Tape, Value, new_entry, new_value

if TYPE_CHECKING:
    from ..ir.kernels import Kernel


class _Nobody:
    """What nobody refers to."""

    __slots__ = ("__weakref__",)


#: in the slots of what nobody can reach
NOBODY: Any = ref(_Nobody())


#: from so many kernels on it is kept what a series appended to tapes, which most programs have in the same state again, and for how
#: many such states
LONG, STATES = 8, 64

#: a kernel, the numbers of its operands, what takes these out of a list, and its parameters; the arguments among the operands that no
#: step before had; for each output its number, type and elements where it is kept, None where nobody will reach it
if TYPE_CHECKING:
    _Kept = tuple[int, dtype, int] | None
    _Picker = Callable[[Sequence[int]], Sequence[int]]
    _Step = tuple[Kernel, list[int], _Picker, tuple[Any, ...], tuple[int, ...], tuple[_Kept, ...]]


class _Appended:
    """What a series appended to a tape in some state.

    Attributes:
        entries: the kernels.
        admitted: arguments that came in, each behind so many slots that the kernels fill.
        last: how many of these follow.
        kept: slots of what somebody holds, with its number, type and elements.
    """

    __slots__ = ("admitted", "entries", "kept", "last")

    def __init__(
        self, entries: list[Entry], start: int, stop: int, admitted: list[tuple[int, int]],
        kept: list[tuple[int, int, dtype, int]],
    ) -> None:  # fmt: skip
        self.entries, self.kept = entries, kept
        self.admitted: list[tuple[int, list[Any]]] = []
        for number, slot in admitted:
            self.admitted.append((number, [NOBODY] * (slot - start)))
            start = slot + 1
        self.last = [NOBODY] * (stop - start)

    def append(self, engine: Engine, tape: Tape, values: list[Value], buffers: dict[int, object]) -> bool:
        """Append it again, if all that comes in is new to the tape; return whether it is."""
        new = {id(buffers[number]) for number, _ in self.admitted}
        if len(new) < len(self.admitted) or not tape.leaves.keys().isdisjoint(new):
            return False
        held = tape.slots
        for number, before in self.admitted:
            held += before
            tape.admit(values[number], buffers[number])
        held += self.last
        for slot, number, kind, numel in self.kept:
            value = values[number] = new_value(engine, kind, numel)
            value.place = (tape, slot)
            held[slot] = ref(value)
        tape.entries += self.entries
        return True


class Series:
    """Kernels over numbered values: those of arguments, then those that kernels before made.

    Args:
        steps: kernels, the numbers of their operands, and their parameters, or which of a call's numbers these are.
        count: how many arguments there are.
        kept: the numbers of made values that somebody will hold.
    """

    def __init__(
        self, steps: Sequence[tuple[Kernel, list[int], tuple[float | int, ...]]], count: int, kept: Container[int]
    ) -> None:
        self.steps: list[_Step] = []
        self.count = count
        firsts = accumulate((len(kernel.outputs) for kernel, _, _ in steps), initial=count)
        came: set[int] = set()
        for (kernel, operands, parameters), first in zip(steps, firsts, strict=False):
            coming = tuple(dict.fromkeys(each for each in operands if each < count and each not in came))
            came.update(coming)
            outputs = tuple([
                (number, each.dtype, each.numel) if number in kept else None
                for number, each in enumerate(kernel.outputs, first)
            ])  # fmt: skip
            self.steps.append((kernel, operands, _tuple_picker(operands), tuple(parameters), coming, outputs))
        self.used = sorted(came)
        self.appended: Bounded[tuple[int, ...], _Appended] = Bounded(STATES)
        #: stand for what is made until it is
        self.made: list[Any] = [None] * sum(len(kernel.outputs) for kernel, *_ in steps)
        self.total = count + len(self.made)

    def record(self, engine: Engine, values: list[Value], numbers: list[float] | None = None) -> None:
        """Append the kernels over the arguments' values; the values that they make follow in the list, None where they are not kept.

        ``numbers``: those of the call, whose places the steps' parameters are then.
        """
        recorder = engine.recorders.own
        if recorder.lone >= LONE_AFTER or engine.eager or not self.steps:
            for kernel, operands, _, parameters, _, _ in self.steps:
                given = parameters if numbers is None else tuple([numbers[at] for at in parameters])
                values += engine.record(kernel, list(map(values.__getitem__, operands)), given)
            return
        tape, ahead = recorder.tape, recorder.ahead
        if ahead.traces and context.capture is None and ahead.reaches(self.steps[0][0], tape):
            run_part(engine, tape)
        values += self.made
        appended = False
        while not appended:
            tape = recorder.tape
            if not tape.open:
                tape = engine.tape
            places, buffers = [-1] * self.count, {}
            for number in self.used:
                value = values[number]
                home, slot = value.place
                if home is tape:
                    places[number] = slot
                    continue
                buffer = value.buffer
                buffers[number] = engine.computed(value) if buffer is None or value.engine is not engine else buffer
            with engine.tapes_lock:
                # Another thread that wanted one of its values may have run the tape in the meantime.
                appended = tape.open
                if appended:
                    self._append(engine, tape, values, places, buffers, numbers)
        if tape.hasty or len(tape.entries) >= NODE_LIMIT:
            engine.flush()

    def _append(
        self, engine: Engine, tape: Tape, values: list[Value], places: list[int], buffers: dict[int, object],
        numbers: list[float] | None,
    ) -> None:  # fmt: skip
        """Append the kernels to a tape; ``places``: the slots of arguments that it knows, ``buffers``: those of the others."""
        held, entries = tape.slots, tape.entries
        start, before, state = len(held), len(entries), None
        if numbers is None and len(self.steps) >= LONG:
            state = (start, *map(places.__getitem__, self.used))
            known = self.appended.get(state)
            if known is not None and known.append(engine, tape, values, buffers):
                return
        admitted: list[tuple[int, int]] = []
        kept: list[tuple[int, int, dtype, int]] = []
        for kernel, _, pick, parameters, coming, outputs in self.steps:
            for number in coming:
                if places[number] < 0:
                    admitted.append((number, len(held)))
                    places[number] = tape.admit(values[number], buffers[number])
            first = len(held)
            for each in outputs:
                places.append(len(held))
                if each is None:
                    held.append(NOBODY)
                    continue
                number, kind, numel = each
                value = values[number] = new_value(engine, kind, numel)
                value.place = (tape, len(held))
                kept.append((len(held), number, kind, numel))
                held.append(ref(value))
            given = parameters if numbers is None else tuple([numbers[at] for at in parameters])
            entries.append(new_entry(Entry, (kernel, pick(places), first, given)))
        # What came in as a slot that the tape had is none of its own.
        if state is not None and all(places[number] == slot for number, slot in admitted):
            self.appended[state] = _Appended(entries[before:], start, len(held), admitted, kept)


def _tuple_picker(numbers: Sequence[int]) -> Callable[[Sequence[int]], Sequence[int]]:
    """Return what takes these numbers out of a list, as a tuple."""
    if len(numbers) > 1:
        return picker(numbers)
    return (lambda places: (places[numbers[0]],)) if numbers else (lambda places: ())
