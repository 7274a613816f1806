"""Remembered updates: a rule that changes tensors in place is run once for arguments of one kind, and recorded as one kernel.

An optimiser's rule is a dozen operations for each parameter, and Python takes longer for them than a device does. What they
record depends on the layouts and types of the tensors only, since the rule's numbers are run-time parameters. So the second
call of one kind appends what the first one did; as a single kernel, if the scheduler merges it all, which then takes the place of
what the first one recorded: the first step of an optimiser has the plan of the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple, TypeAlias

from ..backend.collection import without_collection
from ..bounded import Bounded
from ..dispatch.direct import PLAIN
from ..dispatch.overrides import intercepted
from ..ir.kernels import Kernel
from ..record.context import context, default_float
from ..record.engine import Engine
from ..record.series import Series
from ..record.tape import Entry, Tape, Value
from ..scheduling import described, joined
from ..tensors.tensor import Tensor
from .numbers import HostNumber

#: a kernel, its operands (numbers of arguments, then of values made before) and which of the update's numbers it takes
_Step: TypeAlias = tuple[Kernel, list[int], tuple[int, ...]]


class _Update(NamedTuple):
    """What a rule recorded, and for each tensor it changed: the argument's number, the value's, and how often it was written.

    Its numbers are those of the arguments, then its literals.
    """

    series: Series
    writes: tuple[tuple[int, int, int], ...]
    literals: list[int]


def updating(function: Callable[..., None]) -> Callable[..., None]:
    """Decorate a rule that changes some of its tensors in place by operations on all of them, and does nothing else.

    Its arguments are tensors, numbers (which it uses as operands and does not look at), booleans and None. Operands of its own
    are integers.
    """
    known: Bounded[tuple[Any, ...], _Update | None] = Bounded(4096)

    @wraps(function)
    def call(*args: object) -> None:
        key: list[object] = [default_float[0], context.capture is None]
        tensors: list[Tensor] = []
        numbers: list[float] = []
        if context.enabled or context.casting or intercepted() or not _describe(args, key, tensors, numbers):
            function(*args)
            return
        identity = tuple(key)
        update = known.get(identity)
        if update is not None:
            _repeat(update, tensors, numbers)
        elif identity in known:
            function(*args)
        else:
            known[identity] = without_collection(lambda: _observed(function, args, tensors, numbers))

    return call


def _describe(args: tuple[object, ...], key: list[object], tensors: list[Tensor], numbers: list[float]) -> bool:
    """Sort arguments into tensors and numbers, and add what their kernels depend on to a key; False where a call is special."""
    values: list[Any] = []
    each: Any
    for each in args:
        kind = each.__class__
        if kind in PLAIN:
            storage = each._storage
            value = storage.value
            # What somebody outside sees is written at once; inference tensors refuse.
            if storage.inference or (tensors and value.engine is not values[0].engine) or not hasattr(value, "outside"):
                return False
            if value.outside:
                return False
            same = values.index(value) if value in values else -1
            key += (each._layout, each.dtype, value.numel, same)
            tensors.append(each)
            values.append(value)
        elif kind is float or kind is HostNumber or kind is int:
            key.append(float)
            numbers.append(each)
        elif each is None or kind is bool:
            key.append(each)
        else:
            return False
    if values:
        key.append(values[0].engine)
    return bool(values)


def _repeat(update: _Update, tensors: list[Tensor], numbers: list[float]) -> None:
    values = [each._storage.value for each in tensors]
    update.series.record(values[0].engine, values, numbers + update.literals)
    for target, made, times in update.writes:
        storage = tensors[target]._storage
        storage.rebind(values[made])
        storage.version += times - 1


def _observed(
    function: Callable[..., None], args: tuple[object, ...], tensors: list[Tensor], amounts: list[float]
) -> _Update | None:
    """Call a rule, which takes these tensors and numbers; return what it recorded, None where that cannot be repeated."""
    # Numbers of their own, so that each is found again among the kernels' parameters.
    given = [each + 0.0 if isinstance(each, float | int) and each.__class__ in (float, int) else each for each in args]
    numbers = {id(each): place for place, each in enumerate(each for each in given if isinstance(each, float))}
    before = [(each._storage.value, each._storage.version) for each in tensors]
    engine = before[0][0].engine
    tape: Tape = engine.tape
    start = len(tape.entries), len(tape.slots)
    function(*given)
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
    update = _Update(series, tuple(unique.values()), literals)
    if fused is not None and _taken_back(engine, start, tensors, before, set(wanted)):
        _repeat(update, tensors, amounts)
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
