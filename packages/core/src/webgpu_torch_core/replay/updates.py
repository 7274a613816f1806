"""Remembered updates: a rule that changes tensors in place is run once for arguments of one kind, and recorded as one kernel.

An optimiser's rule is a dozen operations for each parameter, and Python takes longer for them than a device does. What they
record depends on the layouts and types of the tensors only, since the rule's numbers are run-time parameters. So the second
call of one kind appends what the first one did; as a single kernel, if the scheduler merges it all, which then takes the place of
what the first one recorded: the first step of an optimiser has the plan of the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

from ..backend.collection import without_collection
from ..bounded import Bounded
from ..dispatch.direct import PLAIN
from ..dispatch.overrides import intercepted
from ..ir.kernels import Kernel
from ..record.context import context, default_float
from ..record.engine import Engine
from ..record.interrupts import hold
from ..record.series import Series
from ..record.tape import Entry, Tape, Value
from ..scheduling import described, joined
from ..tensors.tensor import Tensor
from .numbers import HostNumber

#: a kernel, its operands (numbers of arguments, then of values made before) and which of the update's numbers it takes
_Step: TypeAlias = tuple[Kernel, list[int], tuple[int, ...]]


class _Update(NamedTuple):
    """What a rule recorded, and for each tensor it changed: the argument's number, the value's, and how often it was written.

    Its numbers are those ``given`` by the arguments, then its literals.
    """

    series: Series
    writes: tuple[tuple[int, int, int], ...]
    given: int
    literals: list[int]


class Rule:
    """A rule that changes some of its tensors in place by operations on all of them, and does nothing else: a decorator.

    Its arguments are tensors, numbers (which it uses as operands and does not look at), booleans and None. Operands of its own
    are integers.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function
        self.known: Bounded[tuple[Any, ...], _Update | None] = Bounded(4096)

    def __call__(self, *args: object) -> None:
        """Change the tensors."""
        given = _Given()
        if given.special or not given.add(args):
            self.function(*args)
            return
        identity = given.identity()
        update = self.known.get(identity)
        if update is not None:
            _repeat(update, given)
        elif identity in self.known:
            self.function(*args)
        else:
            observed = without_collection(lambda: _observed(self.function, args, given))
            self.known[identity] = observed

    def update_of(self, args: tuple[object, ...]) -> _Update | None:
        """Return what is known of calls with such arguments."""
        given = _Given()
        return None if given.special or not given.add(args) else self.known.get(given.identity())


#: a rule, and the arguments that it is to be called with
Call: TypeAlias = tuple[Rule, tuple[object, ...]]
#: what several calls record together
_together: Bounded[tuple[Any, ...], _Update] = Bounded(64)


def apply_all(calls: Sequence[Call]) -> None:
    """Call rules one after another: from the third time on as one remembered call, where none has what another changes."""
    given = _Given()
    if len(calls) < 2 or given.special or not all(given.add((rule, *args)) for rule, args in calls) or given.shares():
        for rule, args in calls:
            rule(*args)
        return
    identity = given.identity()
    update = _together.get(identity)
    if update is not None:
        _repeat(update, given)
        return
    known = [rule.update_of(args) for rule, args in calls]
    for rule, args in calls:
        rule(*args)
    if all(known):
        _together[identity] = _joined([each for each in known if each is not None])


class _Given:
    """Arguments, sorted into tensors and numbers, and what their kernels depend on; ``special``: nothing is remembered now."""

    __slots__ = ("key", "numbers", "places", "special", "tensors")

    def __init__(self) -> None:
        self.key: list[object] = [default_float[0], context.capture is None]
        self.tensors: list[Tensor] = []
        self.numbers: list[float] = []
        self.places: dict[Value, int] = {}
        self.special = context.enabled or context.casting or intercepted()

    def add(self, args: tuple[object, ...]) -> bool:
        """Add the arguments of a call; return whether what it records may be remembered."""
        key, tensors, numbers, places = self.key, self.tensors, self.numbers, self.places
        each: Any
        for each in args:
            kind = each.__class__
            if kind in PLAIN:
                storage = each._storage
                value = storage.value
                # What somebody outside sees is written at once; inference tensors refuse.
                if storage.inference or not hasattr(value, "outside") or value.outside:
                    return False
                if tensors and value.engine is not tensors[0]._storage.value.engine:
                    return False
                key += (each._layout, each._dtype, value.numel, places.setdefault(value, len(tensors)))
                tensors.append(each)
            elif kind is float or kind is HostNumber or kind is int:
                key.append(float)
                numbers.append(each)
            elif each is None or kind is bool or kind is Rule:
                key.append(each)
            else:
                return False
        return bool(tensors)

    def shares(self) -> bool:
        """Return whether two of the tensors have one value."""
        return len(self.places) < len(self.tensors)

    def identity(self) -> tuple[object, ...]:
        """Return what calls of one kind have in common."""
        return (*self.key, self.tensors[0]._storage.value.engine)


def _joined(updates: Sequence[_Update]) -> _Update:
    """Return what calls record one after another; the arguments and numbers of all of them are those of one."""
    counts = [each.series.count for each in updates]
    given = [each.given for each in updates]
    made, literal = sum(counts), sum(given)
    steps: list[_Step] = []
    writes: list[tuple[int, int, int]] = []
    literals: list[int] = []
    kept: set[int] = set()
    for each, count, argument, amount, first in zip(
        updates, counts, accumulate(counts, initial=0), accumulate(given, initial=0), given, strict=False
    ):

        def value(number: int, count: int = count, argument: int = argument, made: int = made) -> int:
            return number + argument if number < count else number - count + made

        def number(place: int, first: int = first, amount: int = amount, literal: int = literal) -> int:
            return place + amount if place < first else place - first + literal

        for kernel, operands, _, parameters, _, _ in each.series.steps:
            steps.append((kernel, list(map(value, operands)), tuple(map(number, parameters))))
        writes += [(target + argument, value(one), times) for target, one, times in each.writes]
        kept.update([value(one) for _, one, _ in each.writes])
        literals += each.literals
        made += each.series.total - count
        literal += len(each.literals)
    return _Update(Series(steps, sum(counts), kept), tuple(writes), sum(given), literals)


def _repeat(update: _Update, given: _Given) -> None:
    tensors = given.tensors
    values = [each._storage.value for each in tensors]
    update.series.record(values[0].engine, values, given.numbers + update.literals)
    # All tensors are changed or none is, whatever signal comes.
    with hold:
        for target, made, times in update.writes:
            storage = tensors[target]._storage
            storage.rebind(values[made])
            storage.version += times - 1


def _observed(function: Callable[..., None], args: tuple[object, ...], given: _Given) -> _Update | None:
    """Call a rule, whose arguments are sorted; return what it recorded, None where that cannot be repeated."""
    tensors, amounts = given.tensors, given.numbers
    # Numbers of their own, so that each is found again among the kernels' parameters.
    own = [each + 0.0 if isinstance(each, float | int) and each.__class__ in (float, int) else each for each in args]
    numbers = {id(each): place for place, each in enumerate(each for each in own if isinstance(each, float))}
    before = [(each._storage.value, each._storage.version) for each in tensors]
    engine = before[0][0].engine
    tape: Tape = engine.tape
    start = len(tape.entries), len(tape.slots)
    function(*own)
    entries = tape.entries[start[0] :]
    parameters = [each for entry in entries for each in entry.parameters]
    # What is computed from numbers of arguments is a float, as they are.
    literals: list[Any] = [each for each in parameters if each.__class__ is int]
    after = iter(range(len(amounts), len(amounts) + len(literals)))
    places = [next(after) if each.__class__ is int else numbers.get(id(each)) for each in parameters]
    if not tape.open or None in places or len(set(places)) != len(numbers) + len(literals):
        return None
    slots = {value.place[1]: number for number, (value, _) in enumerate(before) if value.place[0] is tape}
    writes = []
    for number, (each, (value, version)) in enumerate(zip(tensors, before, strict=True)):
        storage = each._storage
        if storage.value is not value and storage.version > version:
            if storage.value.place[0] is not tape or storage.value.place[1] in slots:
                return None
            writes.append((number, storage.value.place[1], storage.version - version))
    plain = _unfused(entries, slots, len(tensors))
    if plain is None:
        return None
    fuses = engine.device.fuses and not engine.eager
    wanted = [slot for _, slot, _ in writes]
    fused = _fused(engine, entries, slots, len(tensors), wanted) if fuses else None
    steps, made = fused or plain
    numbered: Any = [(kernel, operands, tuple([places[at] for at in taken])) for kernel, operands, taken in steps]
    # What several arguments share is written once.
    unique = {id(tensors[number]._storage): (number, made[slot], times) for number, slot, times in writes}
    series = Series(numbered, len(tensors), {made for _, made, _ in unique.values()})
    update = _Update(series, tuple(unique.values()), len(amounts), literals)
    if fused is not None and _taken_back(engine, start, tensors, before, set(wanted)):
        _repeat(update, given)
    return update


def _taken_back(
    engine: Engine,
    start: tuple[int, int],
    tensors: list[Tensor],
    before: Sequence[tuple[Value, int]],
    written: set[int],
) -> bool:
    """Undo what a rule recorded since the tape had so many kernels and slots, unless somebody could tell; return whether it is.

    Args:
        before: the tensors' values and versions then.
        written: the slots of the values that they have now.
    """
    with engine.tapes_lock:
        tape = engine.recorder.tape
        # Another thread that wanted one of its values may have run the tape in the meantime.
        if not tape.shortens_to(start[0]) or tape.capture is not None:
            return False
        made = {entry.output + each for entry in tape.entries[start[0] :] for each in range(len(entry.kernel.outputs))}
        if {each for each in made if tape.slots[each]() is not None} != written:
            return False
        for each, (value, version) in zip(tensors, before, strict=True):
            each._storage.exchange(value)
            each._storage.version = version
        tape.shorten(*start)
    return True


def _unfused(entries: Sequence[Entry], slots: dict[int, int], count: int) -> tuple[list[_Step], dict[int, int]] | None:
    """Return entries as steps and the numbers of all slots' values, None where they read what is no argument.

    ``count``: how many values there are before.
    """
    made, taken = dict(slots), 0
    steps: list[_Step] = []
    for kernel, operands, first, parameters in entries:
        if any(each not in made for each in operands):
            return None
        steps.append((kernel, [made[each] for each in operands], tuple(range(taken, taken + len(parameters)))))
        taken += len(parameters)
        for output in range(len(kernel.outputs)):
            made[first + output] = count
            count += 1
    return steps, made


def _fused(
    engine: Engine, entries: Sequence[Entry], slots: dict[int, int], count: int, wanted: Sequence[int]
) -> tuple[list[_Step], dict[int, int]] | None:
    """Return the one step that entries merge to and the numbers of the values that are wanted, None where they do not."""
    found = joined(*described(entries), frozenset(wanted), engine.limits) if entries and wanted else None
    if found is None:
        return None
    step = found.kernel, [slots[each] for each in found.operands], found.parameters
    return [step], {slot: count + number for number, slot in enumerate(found.outputs)}
