"""What a thread recorded for a device: kernels over slots, and the values that those slots will fill.

A tape grows by one append per operation, so that an exception between two steps of the interpreter leaves it as it was or
one operation longer. It is kept until all of it ran.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..ir.dtypes import dtype
from ..scheduling.placing import REPORTS, bound_slots

if TYPE_CHECKING:
    from ..ir.kernels import Kernel
    from ..scheduling import Scheduled
    from .ahead import Begun
    from .engine import Engine
    from .runs import Run


class Value:
    """A flat run of elements on a device: a buffer, or a slot of a tape that will fill one.

    Attributes:
        place: the tape that knows the value and its slot there. As long as there is no buffer, the tape that makes it.
        owner: a weak reference to the one storage whose value this is.
        saved: backward relies on these elements although PyTorch would not.
        tails: by functions, what else they were called with; None before anybody asks.
    """

    __slots__ = ("__weakref__", "buffer", "dtype", "engine", "numel", "outside", "owner", "place", "saved", "tails")

    engine: Engine
    dtype: dtype
    numel: int
    buffer: Any
    # One attribute: several threads may have the same value in tapes of theirs.
    place: tuple[Tape | None, int]
    owner: Any
    outside: tuple[Callable[[], Any], ...]
    saved: bool
    tails: dict[Callable[..., object], Any] | None

    @property
    def shared(self) -> bool:
        """Whether somebody outside sees this memory (an array given to ``from_numpy`` or returned by ``numpy()``).

        The planner never overwrites such a buffer, and operations that read it run at once.
        """
        return any(each() is not None for each in self.outside)

    def share(self, visible: Callable[[], Any]) -> None:
        """Note that somebody outside sees this memory as long as ``visible()`` (a weak reference) is not None."""
        self.outside = (*(each for each in self.outside if each() is not None), visible)

    def realize(self) -> Any:
        """Return the buffer, computing it first if need be."""
        buffer = self.buffer
        return self.engine.compute(self) if buffer is None else buffer


NOWHERE: tuple[None, int] = (None, -1)


def new_value(engine: Engine, dtype: dtype, numel: int, buffer: Any = None) -> Value:
    """Return a value that nobody refers to yet: a function, because each operation makes one and a constructor takes twice as long."""
    value = Value()
    value.engine, value.dtype, value.numel, value.buffer = engine, dtype, numel, buffer
    value.place, value.owner, value.outside, value.saved = NOWHERE, None, (), False
    value.tails = None
    return value


class Leaf(weakref.ref[Value]):
    """A slot that a computed value came in by.

    Attributes:
        buffer: the value's; None once a run that stopped has overwritten it.
        kept: the buffer must keep its contents, whoever still refers to it.
    """

    __slots__ = ("buffer", "kept")
    buffer: Any
    kept: bool

    def is_alone(self) -> bool:
        """Return whether nobody will read the buffer again: not its value, another thread's tape, a recording or anybody else."""
        return self() is None and not self.kept and sys.getrefcount(self.buffer) <= _ALONE


class Entry(NamedTuple):
    """One recorded kernel: the slots of its operands, the first slot of its outputs, its parameters."""

    kernel: Kernel
    operands: tuple[int, ...]
    output: int
    parameters: tuple[float | int, ...]

    def slots(self) -> tuple[int, ...]:
        """Return the slots of its operands and outputs."""
        return (*self.operands, *range(self.output, self.output + len(self.kernel.outputs)))


#: makes an entry without the arguments of its class being looked at
new_entry = tuple.__new__


def identities(entries: Sequence[Entry]) -> list[tuple[int, tuple[int, ...], int]]:
    """Return what entries are: kernels (by identity), operands and outputs."""
    return [(id(kernel), operands, output) for kernel, operands, output, _ in entries]


class Structure(NamedTuple):
    """What the plan of a tape depends on, and nothing else: the key of plans.

    Fields:
        entries: kernels (by identity: plans keep them alive), operands and outputs.
        wanted: slots that somebody can still reach.
        donatable: slots of buffers that nobody will read again, which a plan may overwrite.
    """

    entries: tuple[tuple[int, tuple[int, ...], int], ...]
    wanted: tuple[int, ...]
    donatable: tuple[int, ...]


class Tape:
    """Kernels that a thread recorded for a device.

    Attributes:
        entries: the kernels in order.
        slots: a weak reference per value: a :class:`Leaf`, or what an entry makes. A slot may belong to neither.
        capture: the recording of a compiled function that the tape is a part of, or None.
        open: whether more may be appended; a tape that began to run is closed.
        failure: what a kernel raised, if one failed after others had run: the tape is what is left to run.
        running: the plan that runs it, and where that stands; None once the tape knows what is left to run.
        begun: what ran of the plan that it is expected to have, while it still grows.
    """

    __slots__ = ("begun", "capture", "entries", "failure", "hasty", "leaves", "open", "running", "slots")

    def __init__(self, capture: Any = None, open: bool = True) -> None:
        self.entries: list[Entry] = []
        self.slots: list[weakref.ref[Value]] = []
        self.leaves: dict[int, int] = {}
        self.capture = capture
        self.open = open
        self.hasty = False
        self.failure: BaseException | None = None
        self.running: tuple[Scheduled, Run] | None = None
        self.begun: Begun | None = None

    def admit(self, value: Value, buffer: Any) -> int:
        """Give a computed value a slot, or find the one it has."""
        number = self.leaves.get(id(buffer))
        if number is None or self.slots[number]() is not value:
            slots, capture = self.slots, self.capture
            leaf = Leaf(value)
            leaf.buffer, leaf.kept = buffer, False
            if capture is not None:
                # A recording notes every value that enters, shared or not.
                leaf.kept = not capture.enter(value) or value.shared
            elif value.outside and value.shared:
                # Whoever sees this memory may write into it as soon as the operation returns.
                leaf.kept = self.hasty = True
            number = self.leaves[id(buffer)] = len(slots)
            slots.append(leaf)
        value.place = (self, number)
        return number

    def shortens_to(self, entries: int) -> bool:
        """Return whether what was recorded since it had so many entries may be taken away: nothing of it has run."""
        return self.open and (self.begun is None or self.begun.entries <= entries)

    def shorten(self, entries: int, slots: int) -> None:
        """Take away what was recorded since the tape had so many entries and slots; what came in since comes in anew."""
        for slot in self.slots[slots:]:
            value = slot()
            if value is not None and value.place[0] is self:
                value.place = NOWHERE
            if isinstance(slot, Leaf):
                self.leaves.pop(id(slot.buffer), None)
        del self.entries[entries:], self.slots[slots:]
        if self.begun is not None:
            self.begun.alike = min(self.begun.alike, entries)

    def recorded(self, first: int = 0, last: int | None = None) -> list[tuple[int, tuple[int, ...], int]]:
        """Return what some entries are, as :func:`identities` does."""
        return identities(self.entries[first:last])

    def structure(self) -> Structure:
        """Return what the plan depends on: what was recorded, and who still refers to it."""
        wanted: list[int] = []
        donatable: list[int] = []
        for number, slot in enumerate(self.slots):
            if slot() is not None:
                if slot.__class__ is not Leaf:
                    wanted.append(number)
            elif slot.__class__ is Leaf and slot.is_alone():  # type: ignore[attr-defined]
                donatable.append(number)
        return tuple.__new__(Structure, (tuple(self.recorded()), tuple(wanted), tuple(donatable)))

    def parameters(self, numbers: Sequence[int] | None = None) -> list[float | int]:
        """Return the run-time numbers of all kernels in order, or of those of some entries."""
        entries = self.entries if numbers is None else [self.entries[number] for number in numbers]
        return [number for entry in entries if entry.parameters for number in entry.parameters]

    def clear(self) -> None:
        """Forget everything, which has been computed: values that came in still refer to the tape."""
        self.open = False
        # First: what comes between the two finds a tape that nothing runs, whose values are computed.
        self.running = self.begun = None
        self.entries, self.slots, self.leaves = [], [], {}
        self.failure = self.capture = None

    def hold(self, slot: int, buffer: object) -> None:
        """Give a slot the buffer that was computed for it, and its value, if somebody can reach that."""
        value = self.slots[slot]()
        leaf = Leaf(new_value(None, None, 0) if value is None else value)  # type: ignore[arg-type]
        leaf.buffer, leaf.kept = buffer, True
        self.slots[slot] = leaf
        if value is not None:
            value.buffer = buffer
            if value.place[0] is self:
                value.place = NOWHERE

    def remain(
        self,
        inputs: Sequence[int],
        held: Mapping[int, object],
        failure: BaseException | None,
        reports: Sequence[int] = (),
    ) -> None:
        """Become what is left to run after a run that stopped.

        Args:
            inputs: slots that came in.
            held: buffers of the slots that there are then: those that it computed, and those that came in and were not overwritten.
            failure: what stopped it; None: a signal, or that it became another tape.
            reports: slots of what runs for its report only.
        """
        for slot in inputs:
            if slot not in held:
                self.slots[slot].buffer = None  # type: ignore[attr-defined]
        for slot in sorted(held.keys() - set(inputs)):
            self.hold(slot, held[slot])
        wanted = [number for number, slot in enumerate(self.slots) if slot.__class__ is not Leaf and slot() is not None]
        self.entries = [self.entries[number] for number in self.cone([*wanted, *reports])]
        self.failure, self.capture = failure or self.failure, None

    def settle(self) -> None:
        """Become what is left to run where some of it ran ahead."""
        if self.begun is not None:
            self.begun.settle(self, None)

    def reporting(self) -> list[int]:
        """Return a slot of each entry that reports what it finds wrong."""
        return [entry.output for entry in self.entries if REPORTS in bound_slots(entry.kernel)]

    def cone(self, slots: Sequence[int]) -> list[int]:
        """Return the numbers of the entries that have to run for these slots, in order."""
        maker = {
            entry.output + each: number
            for number, entry in enumerate(self.entries)
            for each in range(len(entry.kernel.outputs))
        }
        needed: set[int] = set()
        waiting = list(slots)
        while waiting:
            slot = waiting.pop()
            number = None if isinstance(self.slots[slot], Leaf) else maker.get(slot)
            if number is not None and number not in needed:
                needed.add(number)
                waiting += self.entries[number].operands
        return sorted(needed)

    def buffers(self, slots: Sequence[int]) -> list[object]:
        """Return the buffers of slots that came in or were computed.

        Raises:
            RuntimeError: a run that stopped was overwriting one of them.
        """
        found = [self.slots[slot].buffer for slot in slots]  # type: ignore[attr-defined]
        if self.failure is not None and None in found:
            raise RuntimeError(
                "this tensor cannot be computed: what it starts from was being overwritten when a kernel failed "
                f"({type(self.failure).__name__}: {self.failure})"
            ) from self.failure
        return found


def _alone() -> int:
    leaf = Leaf(new_value(None, None, 0))  # type: ignore[arg-type]
    leaf.buffer = object()
    return sys.getrefcount(leaf.buffer)


_ALONE = _alone()
