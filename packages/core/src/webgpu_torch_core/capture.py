"""``torch.compile``: record the plans of a whole function once and replay them without building a graph.

The first call with new shapes runs the function while the engine keeps every plan it executes, and where each plan's
buffers came from: an argument, the current value of a storage (parameters, optimizer state, a cache), an earlier plan of
the same call, or a constant. A replay looks those up again, runs the plans and re-points the storages that the function
wrote. Python between the operations does not run again: numbers computed there are constants of the recording, except
those read through :func:`live`; :func:`perform` and :func:`require` let a library's own Python take part in replays.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable
from copy import copy
from typing import Any

from .autograd.grad_mode import recording
from .devices import MetaEngine, engines, flush
from .record.context import context
from .record.engine import Engine
from .record.runs import Run
from .record.tape import Value
from .tensor import Storage, Tensor

RECORDING_LIMIT = 64


class Recording:
    """The plans of one call and how to run them again."""

    def __init__(self, given: Arguments) -> None:
        self.arguments = {each._storage.number: number for number, each in enumerate(given.tensors)}
        self.objects = list(given.objects)
        self.broken: str | None = None
        self.runs: list[tuple[Engine, Any, list[Any], list[Any]]] = []
        self.produced: dict[int, tuple[int, int]] = {}
        self.keep: list[Any] = []
        self.owners: dict[int, Storage] = {}
        # Storages made from here on belong to the call itself.
        self.first_number = Storage(Value(None, None, 0)).number  # type: ignore[arg-type]
        self.generators: dict[int, tuple[Any, int]] = {}
        self.outputs: list[tuple[Value, int, int]] = []
        # Python that replays repeat, in order: readings of live numbers and actions.
        self.events: list[Callable[[], Any]] = []
        self.guards: list[Callable[[], bool]] = []
        # The call made state that the next one finds: only that one does what replays should do.
        self.premature = False

    def enter(self, value: Value) -> bool:
        """Note which storage a computed value entering the graph belongs to; False for a constant of the call."""
        owner = value.owner() if value.owner is not None else None
        if owner is None or owner.number > self.first_number:
            return id(value.buffer) in self.produced
        self.owners[id(value.buffer)] = owner
        return True

    def add(self, engine: Engine, scheduled: Any, tape: Any) -> None:
        """Keep a plan that is about to run."""
        sources: list[Any] = []
        for slot in scheduled.inputs:
            buffer = tape.slots[slot].buffer
            made = self.produced.get(id(buffer))
            if made is not None:
                sources.append(("plan", *made))
                continue
            owner = self.owners.get(id(buffer))
            if owner is not None and owner.number in self.arguments:
                sources.append(("argument", self.arguments[owner.number]))
            elif owner is not None:
                sources.append(("storage", owner))
            else:
                sources.append(("constant", buffer))
            self.keep.append(buffer)
        self.runs.append((engine, scheduled, sources, tape.parameters()))

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

    def overwrite(self, engine: Engine, owner: Storage, source: Value) -> None:
        """Keep a write into memory that somebody outside sees: it happens between plans, not at the end."""
        self.runs.append((engine, None, [owner, self.produced[id(source.buffer)]], [source.dtype, source.numel]))

    def target(self, owner: Storage) -> Any:
        """Return how a replay finds a storage that it writes."""
        number = self.arguments.get(owner.number)
        return ("storage", weakref.ref(owner)) if number is None else ("argument", number)

    def draw(self, generator: Any, offset: int) -> Any:
        """Return a parameter that a replay replaces by the generator's next offset."""
        self.generators.setdefault(id(generator), (generator, offset))
        return Offset(offset, generator)


class Live(float):
    """A number among a plan's parameters that replays read again.

    It may be an operand of an operation but not an option: options are hashed to choose a kernel, which would freeze it.
    """

    __slots__ = ("event",)
    __hash__ = None  # type: ignore[assignment]


def _current() -> Recording | None:
    return context.capture


def live(read: Callable[[], float]) -> float:
    """Return ``read()``; while a function is recorded, a number that every replay reads again (a learning rate)."""
    recording = _current()
    if recording is None:
        return read()
    number = Live(read())
    number.event = len(recording.events)
    recording.events.append(read)
    return number


def perform(action: Callable[[], Any]) -> None:
    """Call ``action`` now and, while a function is recorded, in every replay: before what is read live after it."""
    action()
    recording = _current()
    if recording is not None:
        recording.events.append(action)


def require(condition: Callable[[], bool]) -> None:
    """Make replays of the function being recorded depend on a condition: where it fails, the function is recorded anew."""
    recording = _current()
    if recording is not None:
        recording.guards.append(condition)


def made_state() -> None:
    """Tell the recording that this call created what later calls update, so that the next call is recorded instead."""
    recording = _current()
    if recording is not None:
        recording.premature = True


class Offset(int):
    """A random stream's offset among a plan's parameters; replays move it on."""

    generator: Any

    def __new__(cls, value: int, generator: Any) -> Offset:
        result = super().__new__(cls, value)
        result.generator = generator
        return result

    def __and__(self, mask: int) -> Any:
        result = Offset(int(self) & mask, self.generator)
        return result


class Replay:
    """A finished recording: writes go to storages, results become new tensors."""

    def __init__(self, recording: Recording, result: Any) -> None:
        self.runs = [
            (engine, None, (recording.target(sources[0]), sources[1]), parameters)
            if scheduled is None
            else (engine, scheduled, sources, parameters)
            for engine, scheduled, sources, parameters in recording.runs
        ]
        for _, scheduled, _, _ in self.runs:
            if scheduled is not None:
                scheduled.plan.lasting = True
        self.events = recording.events
        self.guards = recording.guards
        self.writes: list[tuple[Any, int, int, Any]] = []
        self.draws = {
            key: (generator, start, generator._offset - start)
            for key, (generator, start) in recording.generators.items()
        }
        places = {id(value): (number, position) for value, number, position in recording.outputs}
        found = Arguments(result)
        own = {each._storage.number for each in found.tensors} - set(recording.arguments)
        for value, number, position in recording.outputs:
            owner = value.owner() if value.owner is not None else None
            if owner is None or owner.number in own or owner.value is not value:
                continue
            self.writes.append((recording.target(owner), number, position, (value.dtype, value.numel)))
        self.result = _map(result, lambda each: _template(each, places, recording))

    def run(self, given: Arguments) -> Any:
        """Run the plans on these arguments and return new results."""
        arguments = given.tensors
        tables: list[list[Any]] = []
        readings = [event() for event in self.events]
        starts = {key: generator._offset for key, (generator, _, _) in self.draws.items()}
        for engine, scheduled, sources, parameters in self.runs:
            if scheduled is None:
                target, (number, position) = sources
                self._write(engine, target, tables[number][position], parameters, arguments)
                tables.append([])
                continue
            externals = [self._buffer(source, arguments, tables) for source in sources]
            externals += [engine.device.allocate(nbytes) for nbytes in scheduled.fresh]
            tables.append(externals)
            if self.draws or readings:
                parameters = [self._moved(each, starts, readings) for each in parameters]
            engine.execute(Run(scheduled.plan, externals, parameters))
        for key, (generator, _, count) in self.draws.items():
            generator._offset = starts[key] + count
        for target, number, position, kind in self.writes:
            self._write(self.runs[number][0], target, tables[number][position], kind, arguments)
        objects = list(given.objects.values())

        def made(leaf: Any) -> Any:
            if leaf.__class__ is _Result:
                return leaf.make(self, arguments, tables)
            return objects[leaf.number] if leaf.__class__ is _Given else leaf

        return _map(self.result, made)

    @staticmethod
    def _write(engine: Engine, target: Any, buffer: Any, kind: Any, arguments: list[Tensor]) -> None:
        storage = arguments[target[1]]._storage if target[0] == "argument" else target[1]()
        if storage is None:
            return
        of, numel = kind
        value = Value(engine, of, numel, buffer)
        if storage.value.shared:
            # An array outside is this storage's memory.
            storage.version += 1
            engine.overwrite(storage.value, value)
        else:
            storage.rebind(value)

    def valid(self) -> bool:
        """Return whether what the recording relied on still holds."""
        return all(guard() for guard in self.guards)

    def _moved(self, parameter: Any, starts: dict[int, int], readings: list[Any]) -> Any:
        if parameter.__class__ is Live:
            return readings[parameter.event]
        if isinstance(parameter, Offset):
            key = id(parameter.generator)
            return int(parameter) - self.draws[key][1] + starts[key]
        return parameter

    @staticmethod
    def _buffer(source: Any, arguments: list[Tensor], tables: list[list[Any]]) -> Any:
        kind = source[0]
        if kind == "argument":
            return arguments[source[1]]._storage.value.realize()
        if kind == "storage":
            return source[1].value.realize()
        if kind == "plan":
            return tables[source[1]][source[2]]
        return source[1]


class _Given:
    """One of the objects that the call was given, returned by it."""

    def __init__(self, number: int) -> None:
        self.number = number


def _template(leaf: Any, places: dict[int, tuple[int, int]], recording: Recording) -> Any:
    if isinstance(leaf, Tensor):
        return _Result(leaf, places, recording)
    if id(leaf) in recording.objects:
        return _Given(recording.objects.index(id(leaf)))
    return leaf


class _Result:
    """Where one returned tensor's data is after a replay."""

    def __init__(self, tensor: Tensor, places: dict[int, tuple[int, int]], recording: Recording) -> None:
        self.layout, self.dtype, self.device = tensor._layout, tensor.dtype, tensor.device
        value = tensor._storage.value
        self.numel = value.numel
        self.place = places.get(id(value))
        self.argument = recording.arguments.get(tensor._storage.number)
        # A tensor the function merely returned (a parameter, a cache) is returned again.
        self.same = tensor if self.place is None and self.argument is None else None

    def make(self, replay: Replay, arguments: list[Tensor], tables: list[list[Any]]) -> Tensor:
        """Return the tensor."""
        if self.argument is not None:
            return Tensor._from_storage(arguments[self.argument]._storage, self.layout, self.dtype, self.device)
        if self.same is not None:
            return self.same
        number, position = self.place  # type: ignore[misc]
        value = Value(replay.runs[number][0], self.dtype, self.numel, tables[number][position])
        return Tensor._from_value(value, self.layout, self.dtype, self.device)


class Arguments:
    """What a call was given: its tensors and the objects that hold tensors, in the order found, and a hashable key.

    Objects without an equality of their own (a cache of keys and values) are opened: their attributes' tensors are arguments,
    too, and calls with another object of the same kind replay the same recording. Callable ones (modules) and those with a
    ``state_dict`` (optimisers) count by identity.
    """

    def __init__(self, *values: Any) -> None:
        self.tensors: list[Tensor] = []
        self.objects: dict[int, Any] = {}
        self.key = tuple(self.describe(each) for each in values)

    def describe(self, value: Any) -> Any:
        """Note the tensors and objects in a value; return a hashable description of everything else."""
        if isinstance(value, Tensor):
            self.tensors.append(value)
            return (Tensor, value._layout, value.dtype, str(value.device), value.requires_grad)
        if isinstance(value, list | tuple):
            return (type(value), *(self.describe(each) for each in value))
        if isinstance(value, dict):
            return (type(value), *((key, self.describe(each)) for key, each in value.items()))
        if _opens(value):
            known = self.objects.get(id(value))
            if known is not None:
                return ("object", list(self.objects).index(id(value)))
            self.objects[id(value)] = value
            return (type(value), *((key, self.describe(each)) for key, each in vars(value).items()))
        try:
            hash(value)
        except TypeError:
            return id(value)
        return (type(value), value)

    def changed_by_call(self, *values: Any) -> str | None:
        """Return what a call changed in its arguments that replays would not change, or None."""
        after = Arguments(*values)
        if after.key != self.key:
            return "it changes attributes of its arguments"
        if any(one._storage.number != other._storage.number for one, other in zip(after.tensors, self.tensors)):
            return "it puts new tensors into its arguments"
        return None


def _opens(value: Any) -> bool:
    kind = type(value)
    return (
        kind.__hash__ is object.__hash__
        and kind.__eq__ is object.__eq__
        and not callable(value)
        and kind.__module__ != "builtins"
        and not hasattr(kind, "state_dict")
        and hasattr(value, "__dict__")
    )


def _map(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return nested containers with every leaf replaced."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_map(each, change) for each in value))
    if isinstance(value, list | tuple):
        return type(value)(_map(each, change) for each in value)
    if type(value) is dict:
        return {key: _map(each, change) for key, each in value.items()}
    if isinstance(value, dict):
        # A copy of a class of its own, such as a model's output, whose attributes may follow its items.
        copied = copy(value)
        for key, each in value.items():
            copied[key] = _map(each, change)
        return copied
    return change(value)


def _unknown_objects(result: Any, given: Arguments) -> str | None:
    """Return the complaint about a result's object that holds tensors and was not given, or None."""
    strange: list[str] = []

    def look(leaf: Any) -> None:
        if not isinstance(leaf, Tensor) and id(leaf) not in given.objects and _opens(leaf) and Arguments(leaf).tensors:
            strange.append(f"it returns a new {type(leaf).__name__} with tensors in it")

    _map(result, look)
    return strange[0] if strange else None


class CompiledFunction:
    """A function whose plans are recorded per combination of argument shapes and replayed afterwards."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.replays: dict[Any, Replay | None] = {}
        self.statistics = {"recorded": 0, "replayed": 0, "fallbacks": 0}
        functools.update_wrapper(self, function)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy records anew: recordings are tied to the buffers of this one's storages.
        return CompiledFunction, (self.function,)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, by replay where this combination of shapes was recorded."""
        given = Arguments(args, kwargs)
        key = (given.key, recording.enabled)
        if key in self.replays:
            found = self.replays[key]
            if found is None:
                self.statistics["fallbacks"] += 1
                return self.function(*args, **kwargs)
            flush()
            if found.valid():
                self.statistics["replayed"] += 1
                return found.run(given)
            del self.replays[key]
        if len(self.replays) >= RECORDING_LIMIT:
            self.replays.pop(next(iter(self.replays)))
        return self._record(key, given, args, kwargs)

    def _record(self, key: Any, given: Arguments, args: Any, kwargs: Any) -> Any:
        for each in given.tensors:
            if isinstance(each._engine, MetaEngine):
                return self.function(*args, **kwargs)
        recording = Recording(given)
        flush()
        context.capture = recording
        try:
            result = self.function(*args, **kwargs)
            flush()
        finally:
            context.capture = None
            for engine in engines():
                engine.detach()
        self.statistics["recorded"] += 1
        recording.broken = recording.broken or given.changed_by_call(args, kwargs) or _unknown_objects(result, given)
        if recording.broken is not None:
            warnings.warn(
                f"torch.compile: {self.function.__name__} cannot be replayed ({recording.broken}); it runs uncompiled",
                stacklevel=3,
            )
            self.replays[key] = None
        elif not recording.premature:
            self.replays[key] = Replay(recording, result)
        return result


def compile(model: Any = None, **options: Any) -> Any:
    """Return a function (or module) whose operations are recorded on the first call and replayed afterwards.

    Options of :func:`torch.compile` (``mode``, ``fullgraph``, ``dynamic``, ``backend``) are accepted and have no effect.
    """
    if model is None:
        return lambda function: compile(function, **options)
    if hasattr(model, "forward") and hasattr(model, "parameters"):
        model.forward = CompiledFunction(model.forward)
        return model
    return CompiledFunction(model)


__all__ = ["CompiledFunction", "compile", "live", "made_state", "perform", "require"]
