"""Numbers of the host that replays read again: a learning rate that a schedule changes, a count of steps.

Outside of a recording they are ordinary floats. Inside, dictionaries seen through :func:`numbers` have a :class:`HostNumber` for
each; arithmetic with one makes others, storing one happens in replays too, and a comparison becomes a condition of the
recording: where it comes out otherwise, the function is recorded anew.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..record.context import context

#: dictionaries with numbers that can be reached
Holders = Sequence[dict[str, object]]
Path = tuple[str | int, ...]


class HostNumber(float):
    """A number among a plan's parameters that replays compute again.

    It may be an operand of an operation but not an option: options are hashed to choose a kernel, which would freeze it.
    """

    __slots__ = ("event",)
    __hash__ = None  # type: ignore[assignment]
    event: int


class Events:
    """Python that replays repeat, in order: readings, arithmetic, assignments and conditions.

    Dictionaries with numbers go by their places among those that the function can reach: another optimiser may stand there when
    a replay comes.

    Attributes:
        steps: functions of the readings so far and of the dictionaries.
        conditions: readings that must come out as they did.
        assignments: where readings are stored once everything has run.
        own: whether there are numbers in a dictionary that could not be reached before the call.
    """

    def __init__(self, holders: Holders = ()) -> None:
        self.places = {id(each): place for place, each in enumerate(holders)}
        self.own = False
        self.steps: list[Callable[[list[Any], Holders], object]] = []
        self.conditions: list[tuple[int, bool]] = []
        self.assignments: list[tuple[int, str, int]] = []
        self.known: dict[Any, HostNumber] = {}
        # Numbers by where they are.
        self.found: dict[tuple[int, Path], float] = {}

    def place(self, holder: dict[str, object]) -> int:
        """Return the place of a dictionary with numbers."""
        found = self.places.get(id(holder))
        if found is None:
            self.own = True
            found = self.places[id(holder)] = len(self.places)
        return found

    def number(self, key: Any, value: float, step: Callable[[list[Any], Holders], object]) -> HostNumber:
        """Return the number that a step computes; one for each key."""
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = HostNumber(value)
            found.event = len(self.steps)
            self.steps.append(step)
        return found

    def stale(self, holders: Holders) -> bool:
        """Return whether a number that was read has another value by now that was not assigned here."""
        return any(float(expected) != _find(holders, *path) for path, expected in self.found.items())

    def read(self, holders: Holders) -> list[Any] | None:
        """Return what all steps compute now, or None where a condition comes out otherwise. Changes nothing."""
        readings: list[Any] = []
        for step in self.steps:
            readings.append(step(readings, holders))
        if any(readings[number] is not expected for number, expected in self.conditions):
            return None
        return readings

    def write(self, readings: list[Any], holders: Holders) -> None:
        """Store what is to be stored."""
        for place, name, event in self.assignments:
            holders[place][name] = readings[event]


def _find(holders: Holders, place: int, path: Path) -> object:
    found: Any = holders[place]
    for name in path:
        found = found[name]
    return found


class Numbers:
    """A dictionary whose floats, and those in tuples in it, are numbers that replays read again."""

    __slots__ = ("holder",)

    def __init__(self, holder: dict[Any, Any]) -> None:
        self.holder = holder

    def __getitem__(self, name: Any) -> Any:
        value = self.holder[name]
        if value.__class__ is tuple:
            return tuple([_number(self.holder, name, at) if is_number(each) else each for at, each in enumerate(value)])
        return _number(self.holder, name) if is_number(value) else value

    def __setitem__(self, name: Any, value: Any) -> None:
        self.holder[name] = float(value) if value.__class__ is HostNumber else value
        if value.__class__ is HostNumber:
            _assign(self.holder, name, value)

    def get(self, name: Any, default: Any = None) -> Any:
        """Return an item, or a default."""
        return self[name] if name in self.holder else default


def numbers(holder: dict[Any, Any]) -> Any:
    """Return a dictionary or, while a function is recorded, one whose floats are numbers that replays read again."""
    return holder if context.capture is None else Numbers(holder)


def is_number(value: Any) -> bool:
    """Return whether something in a dictionary is a number that replays read again; integers choose what is computed."""
    return value.__class__ is float


def _number(holder: dict[str, Any], *path: str | int) -> float:
    value, events = _find((holder,), 0, path), context.capture.events
    place = events.place(holder)
    key = (place, path)
    if key in events.known and float(events.known[key]) != value:
        context.capture.broken = "it changes numbers that it reads"
    events.found.setdefault(key, value)
    return events.number(key, value, lambda _, holders: _find(holders, place, path))


def _assign(holder: dict[str, Any], name: str, value: HostNumber) -> None:
    """Let replays store a number at their end; what is read from here on is that number."""
    events = context.capture.events
    place = events.place(holder)
    events.known[place, (name,)] = events.found[place, (name,)] = value
    events.assignments.append((place, name, value.event))


def _arithmetic(name: str) -> None:
    compute = getattr(operator, name)
    on_floats: Any = getattr(float, f"__{name}__")

    def unary(self: HostNumber) -> Any:
        value = on_floats(self)
        capture = context.capture
        if capture is None:
            return value
        at = self.event
        return capture.events.number((name, at), value, lambda readings, _: compute(readings[at]))

    def binary(self: HostNumber, other: Any) -> Any:
        value = on_floats(self, other)
        capture = context.capture
        if capture is None or value is NotImplemented:
            return value
        at = self.event
        if other.__class__ is HostNumber:
            to = other.event
            return capture.events.number(
                (name, at, "event", to), value, lambda readings, _: compute(readings[at], readings[to])
            )
        return capture.events.number((name, at, other), value, lambda readings, _: compute(readings[at], other))

    setattr(HostNumber, f"__{name}__", unary if name in ("neg", "abs") else binary)


def _reversed(name: str) -> None:
    compute = getattr(operator, name)
    on_floats: Any = getattr(float, f"__r{name}__")

    def binary(self: HostNumber, other: Any) -> Any:
        value = on_floats(self, other)
        capture = context.capture
        if capture is None or value is NotImplemented:
            return value
        at = self.event
        return capture.events.number((f"r{name}", at, other), value, lambda readings, _: compute(other, readings[at]))

    setattr(HostNumber, f"__r{name}__", binary)


def _comparison(name: str) -> None:
    compute = getattr(operator, name)
    on_floats: Any = getattr(float, f"__{name}__")

    def compare(self: HostNumber, other: Any) -> Any:
        value = on_floats(self, other)
        capture = context.capture
        if capture is None or value is NotImplemented:
            return value
        events, at = capture.events, self.event
        to = getattr(other, "event", None)
        key = (name, at, "event", to) if to is not None else (name, at, float(other))
        if key not in events.known:
            step = (lambda r, _: compute(r[at], r[to])) if to is not None else (lambda r, _: compute(r[at], other))
            made = events.number(key, value, step)
            events.conditions.append((made.event, value))
        return value

    setattr(HostNumber, f"__{name}__", compare)


def _truth(self: HostNumber) -> bool:
    return self != 0.0


for _name in ("neg", "abs", "add", "sub", "mul", "truediv", "pow"):
    _arithmetic(_name)
for _name in ("add", "sub", "mul", "truediv", "pow"):
    _reversed(_name)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _comparison(_name)
HostNumber.__bool__ = _truth  # type: ignore[method-assign]
# Defining equality does not give a hash back.
HostNumber.__hash__ = None  # type: ignore[assignment]


class Offset(int):
    """A random stream's offset among a plan's parameters; replays move it on."""

    generator: Any

    def __new__(cls, value: int, generator: Any) -> Offset:
        result = super().__new__(cls, value)
        result.generator = generator
        return result

    def __and__(self, mask: int) -> Offset:
        return Offset(int(self) & mask, self.generator)


class Stream(Protocol):
    """A stream of random numbers with a seed."""

    _seed: int


class Seed(int):
    """Bits of a random stream's seed among a plan's parameters; replays read it again."""

    generator: Stream
    shift: int
    mask: int

    def __new__(cls, generator: Stream, shift: int = 0, mask: int = -1) -> Seed:
        result = super().__new__(cls, generator._seed >> shift & mask)
        result.generator, result.shift, result.mask = generator, shift, mask
        return result

    def __rshift__(self, shift: int) -> Seed:
        return Seed(self.generator, self.shift + shift, self.mask >> shift)

    def __and__(self, mask: int) -> Seed:
        return Seed(self.generator, self.shift, self.mask & mask)
