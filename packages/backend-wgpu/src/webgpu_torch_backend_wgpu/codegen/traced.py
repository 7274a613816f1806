"""Numbers that note what is asked of them: one run of a program over them tells for which other numbers it would do the same.

Arithmetic on a :class:`Traced` number gives another one; whatever turns it into a plain value (a comparison, an index, text) is
kept as a condition. :meth:`Trace.replay` repeats all of it for other numbers, in order, and gives up at the first condition
that comes out otherwise. The technique is that of tracing compilers: Gal et al., "Trace-based Just-in-Time Type Specialization
for Dynamic Languages" (PLDI 2009).
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import SupportsIndex

Number = int | float
_traces = itertools.count()
#: a function of one or two numbers, the places of its operands, and how a condition came out (None: its value is a number)
_Step = tuple[Callable[[Number, Number], Number], int, int, bool | None]


class Trace:
    """What was asked of some numbers, in order.

    Attributes:
        values: the numbers, constants and results so far; a place in this list stands for each.
    """

    def __init__(self) -> None:
        self.number = next(_traces)
        self.values: list[Number] = []
        self._leaves: list[int] = []
        self._constants: list[tuple[int, Number]] = []
        self._steps: list[_Step] = []
        self._places: dict[tuple[object, ...], int] = {}
        self._made: list[int] = []

    def leaf(self, value: int) -> Traced:
        """Return a number that a replay is given anew, in the order of these calls."""
        self._leaves.append(len(self.values))
        self.values.append(value)
        return Traced(self, len(self.values) - 1)

    def place(self, value: Number | Traced) -> int:
        """Return the place of a number."""
        if isinstance(value, Traced):
            if value.trace is not self:
                raise ValueError("a number of another trace takes part")
            return value.place
        # 1, 1.0 and True are equal, and not the same; nor are the two zeros.
        key = type(value), value or str(value)
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = len(self.values)
            self._constants.append((found, value))
            self.values.append(value)
        return found

    def computed(self, function: Callable[[Number, Number], Number], left: int, right: int) -> Traced:
        """Return what a function gives for the numbers at two places."""
        key = function, left, right
        found = self._places.get(key)
        if found is None:
            value = function(self.values[left], self.values[right])
            found = self._places[key] = len(self.values)
            self.values.append(value)
            self._steps.append((function, left, right, None))
        return Traced(self, found)

    def decided(self, function: Callable[[Number, Number], bool], left: int, right: int) -> bool:
        """Return a condition on the numbers at two places; replays in which it comes out otherwise give up."""
        result = function(self.values[left], self.values[right])
        key = function, left, right
        if key not in self._places:
            self._places[key] = -1
            self._steps.append((function, left, right, result))
        return result

    def replay(self, leaves: Sequence[int]) -> list[Number] | None:
        """Return the numbers at all places for other leaves; None where something would be decided otherwise."""
        values: list[Number] = [0] * len(self.values)
        for place, value in zip(self._leaves, leaves, strict=True):
            values[place] = value
        for place, constant in self._constants:
            values[place] = constant
        place = 0
        made = self._made
        for function, left, right, expected in self._steps:
            found = function(values[left], values[right])
            if expected is None:
                values[made[place]] = found
                place += 1
            elif found is not expected:
                return None
        return values

    def close(self) -> None:
        """Note where the results of steps go: nothing is asked any more."""
        given = {*self._leaves, *[place for place, _ in self._constants]}
        self._made = [place for place in range(len(self.values)) if place not in given]
        self._places.clear()


def _same(left: Number, right: Number) -> bool:
    return left == right and (left != 0 or str(left) == str(right))


def _only(function: Callable[[Number], Number]) -> Callable[[Number, Number], Number]:
    return lambda value, _: function(value)


_negative, _absolute, _floor, _ceiling, _truncated = map(_only, (operator.neg, abs, math.floor, math.ceil, math.trunc))
_length = _only(lambda value: int(value).bit_length())


class Traced:
    """A number of a trace. Two of them are one key of a dictionary where they were computed in the same way."""

    __slots__ = ("place", "trace")

    def __init__(self, trace: Trace, place: int) -> None:
        self.trace = trace
        self.place = place

    def _known(self) -> Number:
        """Return the number, which is the same in all replays from now on."""
        value = self.trace.values[self.place]
        self.trace.decided(_same, self.place, self.trace.place(value))
        return value

    def __hash__(self) -> int:
        return hash((self.trace.number, self.place))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Traced) and (other.trace is not self.trace or other.place == self.place):
            return other.trace is self.trace
        if not isinstance(other, (int, float, Traced)):
            return NotImplemented
        return self.trace.decided(operator.eq, self.place, self.trace.place(other))

    def bit_length(self) -> Traced:
        """Return how many bits a whole number has."""
        return self.trace.computed(_length, self.place, self.place)

    def __bool__(self) -> bool:
        return self.trace.decided(operator.ne, self.place, self.trace.place(0))

    def __index__(self) -> int:
        found = self._known()
        if not isinstance(found, int):
            raise TypeError(f"{found} is no whole number")
        return found

    def __int__(self) -> int:
        return int(self._known())

    def __float__(self) -> float:
        return float(self._known())

    def __repr__(self) -> str:
        return repr(self._known())

    def __format__(self, specification: str) -> str:
        return format(self._known(), specification)

    def __round__(self, digits: SupportsIndex | None = None) -> Number:
        return round(self._known(), digits)


def common_divisor(*numbers: int) -> int:
    """Return the greatest common divisor of whole numbers, as ``math.gcd``, which takes plain ones only."""
    found: int | Traced = numbers[0]
    for each in numbers[1:]:
        followed = found if isinstance(found, Traced) else each
        if isinstance(followed, Traced):
            trace = followed.trace
            found = trace.computed(math.gcd, trace.place(found), trace.place(each))  # type: ignore[arg-type]
        else:
            found = math.gcd(found, each)  # type: ignore[arg-type]
    return found  # type: ignore[return-value]


def _binary(function: Callable[[Number, Number], Number], swapped: bool) -> Callable[[Traced, object], object]:
    def method(self: Traced, other: object) -> object:
        if not isinstance(other, (int, float, Traced)):
            return NotImplemented
        left, right = self.place, self.trace.place(other)
        return self.trace.computed(function, *((right, left) if swapped else (left, right)))

    return method


def _unary(function: Callable[[Number, Number], Number]) -> Callable[[Traced], Traced]:
    return lambda self: self.trace.computed(function, self.place, self.place)


def _comparison(function: Callable[[Number, Number], bool]) -> Callable[[Traced, object], object]:
    def method(self: Traced, other: object) -> object:
        if not isinstance(other, (int, float, Traced)):
            return NotImplemented
        return self.trace.decided(function, self.place, self.trace.place(other))

    return method


for _name in ("add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "lshift", "rshift", "and", "or", "xor"):
    _function = getattr(operator, f"{_name}_" if _name in ("and", "or") else _name)
    setattr(Traced, f"__{_name}__", _binary(_function, False))
    setattr(Traced, f"__r{_name}__", _binary(_function, True))
for _name in ("lt", "le", "gt", "ge"):
    setattr(Traced, f"__{_name}__", _comparison(getattr(operator, _name)))
for _name, _function in {
    "neg": _negative, "abs": _absolute, "floor": _floor, "ceil": _ceiling, "trunc": _truncated,
}.items():  # fmt: skip
    setattr(Traced, f"__{_name}__", _unary(_function))
