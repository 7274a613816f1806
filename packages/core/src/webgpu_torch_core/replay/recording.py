"""A recorded call, and how it is done again: sources looked up, plans run, then everything written at once."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import attrgetter, is_
from typing import Any, NamedTuple

from ..record.interrupts import hold
from ..record.runs import Run, picker
from ..record.tape import Value, new_value
from ..tensors.storage import holds_alone, new_storage
from ..tensors.tensor import Storage, Tensor
from .numbers import Events, Holders, HostNumber, Offset, Seed
from .results import Given, Result, map_nested, template

_value_of_tensor, _value_of = attrgetter("_storage.value"), attrgetter("value")
_buffer_of_tensor, _buffer_of_storage = attrgetter("_storage.value.buffer"), attrgetter("value.buffer")


class Part(NamedTuple):
    """One plan of a call, or a write into memory that somebody outside sees (without a plan).

    Fields:
        sources: of the plan's inputs: ("known", position), ("plan", number, position), ("storage", weak reference) or
            ("constant", buffer). Of a write: the target's source and the plan and position of what is written.
        parameters: run-time numbers; of a write, the element type and their number.
    """

    engine: Any
    scheduled: Any
    sources: list[Any]
    parameters: list[Any]


class Recording:
    """What happens while a function is recorded.

    Attributes:
        places: positions of known tensors by their storages' identities.
        events: what is done with numbers in ``holders``, the dictionaries with numbers that can be reached.
        broken: why the call cannot be replayed, or None.
    """

    def __init__(self, places: dict[int, int], known: list[Tensor], holders: Holders = ()) -> None:
        self.places = dict(places)
        self.known = known
        self.broken: str | None = None
        self.runs: list[Part] = []
        self.produced: dict[int, tuple[int, int]] = {}
        self.keep: list[Any] = [each._storage for each in known]
        self.owners: dict[int, Storage] = {}
        # Storages made from here on belong to the call itself.
        self.first_number = new_storage(new_value(None, None, 0)).number  # type: ignore[arg-type]
        self.generators: dict[int, tuple[Any, int]] = {}
        self.outputs: list[tuple[Value, int, int]] = []
        self.events = Events(holders)

    def enter(self, value: Value) -> bool:
        """Note which storage a computed value entering the tape belongs to; False for a constant of the call."""
        owner = value.owner() if value.owner is not None else None
        if owner is None or owner.number > self.first_number:
            return id(value.buffer) in self.produced
        self.owners[id(value.buffer)] = owner
        return True

    def add(self, engine: Any, scheduled: Any, tape: Any) -> None:
        """Keep a plan that is about to run."""
        sources: list[Any] = []
        for slot in scheduled.inputs:
            buffer = tape.slots[slot].buffer
            made = self.produced.get(id(buffer))
            if made is not None:
                sources.append(("plan", *made))
                continue
            owner = self.owners.get(id(buffer))
            sources.append(("constant", buffer) if owner is None else self.source(owner))
            self.keep.append(buffer)
        self.runs.append(Part(engine, scheduled, sources, tape.parameters()))

    def source(self, owner: Storage) -> Any:
        """Return how a replay finds a storage: as a known tensor's, or itself while it lives."""
        number = self.places.get(owner.number)
        return ("storage", weakref.ref(owner)) if number is None else ("known", number)

    def ran(self, externals: Any, scheduled: Any, tape: Any) -> None:
        """Note which buffers the plan that just ran produced."""
        number = len(self.runs) - 1
        for slot, position in scheduled.outputs:
            buffer = externals[position]
            self.produced[id(buffer)] = (number, position)
            self.keep.append(buffer)
            value = tape.slots[slot]()
            if value is not None:
                self.outputs.append((value, number, position))

    def place_of(self, value: Any) -> tuple[int, int] | None:
        """Return the plan and position that produced a value's buffer, or None."""
        return self.produced.get(id(value.buffer))

    def overwrite(self, engine: Any, owner: Storage, source: Value) -> None:
        """Keep a write into memory that somebody outside sees: it happens between plans, not at the end."""
        target, made = self.source(owner), self.produced.get(id(source.buffer))
        if made is None:
            self.broken = "it writes a constant into memory that is shared with others"
            return
        self.runs.append(Part(engine, None, [target, made], [source.dtype, source.numel]))

    def draw(self, generator: Any, offset: int) -> tuple[int, int]:
        """Return parameters that a replay replaces by the generator's seed and its next offset."""
        self.generators.setdefault(id(generator), (generator, offset))
        return Seed(generator), Offset(offset, generator)


class Sources:
    """Where the plans of a recording find their inputs: in one row of buffers, to which every plan appends its own.

    The row begins with the buffers of known tensors, then those of other storages, then constants.

    Attributes:
        hidden: the other storages, by weak references.
        picks: for each plan what takes its inputs out of the row.
    """

    def __init__(self, parts: list[Part]) -> None:
        kinds: dict[str, dict[Any, Any]] = {"known": {}, "storage": {}, "constant": {}}
        for part in parts:
            for source in part.sources if part.scheduled is not None else part.sources[:1]:
                if source[0] != "plan":
                    kinds[source[0]].setdefault(_identity(source), source[1])
        known, hidden, constants = map(list, (each.values() for each in kinds.values()))
        self._of_known, self.hidden, self._constants = picker(known), hidden, constants
        places = {key: number for number, key in enumerate(key for each in kinds.values() for key in each)}
        self.picks: list[Callable[[Sequence[Any]], Sequence[Any]]] = []
        starts: list[int] = []
        end = len(places)
        for part in parts:
            starts.append(end)
            if part.scheduled is None:
                self.picks.append(picker(()))
                continue
            self.picks.append(picker([
                starts[each[1]] + each[2] if each[0] == "plan" else places[_identity(each)] for each in part.sources
            ]))  # fmt: skip
            end += len(part.sources) + len(part.scheduled.fresh)

    def row(self, known: list[Tensor]) -> list[object] | None:
        """Return the beginning of the row for these known tensors, whatever memory they have; None where a storage is gone."""
        storages = [each() for each in self.hidden]
        if None in storages:
            return None
        used = self._of_known(known)
        # Without a call for each of a network's parameters, nearly all of which hold their buffers.
        buffers = [*map(_buffer_of_tensor, used), *map(_buffer_of_storage, storages)]
        if any(map(is_, buffers, repeat(None))):
            buffers = [each.realize() for each in (*map(_value_of_tensor, used), *map(_value_of, storages))]
        return buffers + self._constants


def _identity(source: tuple[str, object]) -> tuple[str, object]:
    return source[0], source[1] if source[0] == "known" else id(source[1])


class Replay:
    """A finished recording.

    Attributes:
        broken: why it cannot be replayed after all, or None.
    """

    def __init__(self, recording: Recording, result: Any, call: Any) -> None:
        self.broken: str | None = None
        self.runs = recording.runs
        for part in self.runs:
            if part.scheduled is not None:
                part.scheduled.plan.lasting = True
        self.events = recording.events
        self.draws = {
            key: (generator, start, generator._offset - start)
            for key, (generator, start) in recording.generators.items()
        }
        self.sources = Sources(self.runs)
        self.overwritten = list(dict.fromkeys(
            part.sources[number]
            for part in self.runs if part.scheduled is not None
            for number in part.scheduled.overwritten if part.sources[number][0] in ("known", "storage")
        ))  # fmt: skip
        self.gradients = self._gradients(recording, call)
        numbers = call.arguments.numbers
        self.result = map_nested(result, lambda each: self._template(each, recording, numbers), numbers)
        self.writes = self._writes(recording)

    def _gradients(self, recording: Recording, call: Any) -> list[tuple[int, Any]]:
        """Return which known tensors have another gradient after the call, and where its data are."""
        found: list[tuple[int, Any]] = []
        for number, (tensor, before) in enumerate(zip(call.tensors, call.gradients, strict=True)):
            after = tensor._grad
            if after is before:
                continue
            if after is not None and after.requires_grad:
                self.broken = "it leaves gradients of gradients"
            found.append((number, None if after is None else Result(after, recording)))
        return found

    def _template(self, leaf: Any, recording: Recording, numbers: dict[int, int]) -> Any:
        found = template(leaf, recording, numbers)
        if found.__class__ is Result and found.tracked:
            self.broken = "its results need gradients"
        return found

    def _writes(self, recording: Recording) -> list[tuple[Any, int, int, Any]]:
        """Return the storages from before the call that hold other values after it."""
        writes: list[tuple[Any, int, int, Any]] = []
        for value, number, position in recording.outputs:
            owner = value.owner() if value.owner is not None else None
            # Storages made by the call are those of results and gradients.
            if owner is None or owner.value is not value or owner.number > recording.first_number:
                continue
            writes.append((recording.source(owner), number, position, (value.dtype, value.numel)))
        return writes

    def disturbs(self, known: list[Tensor]) -> bool:
        """Return whether the plans would overwrite a buffer that somebody else still reads.

        Plans overwrite what nobody read any more when they were recorded: what others hold now (what another thread recorded
        and nothing has computed, what a gradient saved) must keep its elements.
        """
        for kind, place in self.overwritten:
            storage = known[place]._storage if kind == "known" else place()
            if storage is not None and not holds_alone(storage):
                return True
        return False

    def run(self, call: Any) -> Any:
        """Run the plans on a call's tensors and return new results; itself, where what it relies on is no longer so."""
        known = call.known
        readings = self.events.read(call.world.holders)
        if readings is None:
            return self
        row = self.sources.row(known)
        if row is None:
            return self
        tables: list[list[Any]] = []
        starts = {key: generator._offset for key, (generator, _, _) in self.draws.items()}
        for (engine, scheduled, sources, parameters), picks in zip(self.runs, self.sources.picks, strict=True):
            if scheduled is None:
                target, (number, position) = sources
                storage = known[target[1]]._storage if target[0] == "known" else target[1]()
                if storage is not None:
                    self._write(engine, storage, tables[number][position], parameters)
                tables.append([])
                # Memory that nobody outside sees any more was exchanged.
                again = self.sources.row(known) or row
                row[: len(again)] = again
                continue
            externals = [*picks(row), *engine.device.allocate_all(scheduled.fresh)]
            row += externals
            tables.append(externals)
            if self.draws or readings:
                parameters = [self._moved(each, starts, readings) for each in parameters]
            engine.execute(Run(scheduled.plan, externals, parameters))
        return self._finish(call, tables, starts, readings)

    def _finish(self, call: Any, tables: Any, starts: Any, readings: Any) -> Any:
        """Write everything that the call changed, and return its results."""
        known, tensors, objects = call.known, call.tensors, call.arguments.objects
        storages: dict[int, Storage] = {}
        with hold:
            self.events.write(readings, call.world.holders)
            for key, (generator, _, count) in self.draws.items():
                generator._offset = starts[key] + count
            for target, number, position, kind in self.writes:
                storage = known[target[1]]._storage if target[0] == "known" else target[1]()
                buffer = tables[number][position]
                if storage is None:
                    continue
                before = storage.value
                if before.buffer is buffer and not before.outside and not before.saved:
                    # The plan wrote in place, where nobody else had the value or its buffer.
                    storage.version += 1
                else:
                    self._write(self.runs[number].engine, storage, buffer, kind)
            for number, gradient in self.gradients:
                tensors[number]._grad = None if gradient is None else gradient.make(self, known, tables, storages)

        def made(leaf: Any) -> Any:
            if leaf.__class__ is Result:
                return leaf.make(self, known, tables, storages)
            return objects[leaf.number] if leaf.__class__ is Given else leaf

        return map_nested(self.result, made)

    @staticmethod
    def _write(engine: Any, storage: Storage, buffer: Any, kind: Any) -> None:
        of, numel = kind
        value = new_value(engine, of, numel, buffer)
        if storage.value.outside and storage.value.shared:
            # An array outside is this storage's memory.
            storage.version += 1
            engine.overwrite(storage.value, value)
        else:
            storage.rebind(value)

    def _moved(self, parameter: Any, starts: dict[int, int], readings: list[Any]) -> Any:
        if parameter.__class__ is HostNumber:
            return readings[parameter.event]
        if isinstance(parameter, Offset):
            key = id(parameter.generator)
            return int(parameter) - self.draws[key][1] + starts[key]
        if isinstance(parameter, Seed):
            return int(Seed(parameter.generator, parameter.shift, parameter.mask))
        return parameter
