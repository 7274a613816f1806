"""Values in memory that threads share: workgroup memory within a pass, scratch memory between passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .ir import Buffer, Call, Load, LoadGroup, Node, Prefix, bitcast, choose, convert_to, every, fixed, u32, vector
from .module import Module, join_words
from .statements import Do, Store, StoreGroup
from .types import ElementType


def shared_type(scalar: str) -> str:
    """Return the type of a value in workgroup memory: some drivers lose bools there."""
    return "u32" if scalar == "bool" else scalar


def to_shared(value: Node) -> Node:
    """Return a value as workgroup memory holds it."""
    return choose(value, fixed(1), fixed(0)) if value.type == "bool" else value


def from_shared(value: Node, scalar: str) -> Node:
    """Return a value that workgroup memory holds."""
    return value.differs(fixed(0)) if scalar == "bool" else value


class AtomicWords:
    """Words in workgroup memory that several threads change at a time."""

    def __init__(self, module: Module, name: str, size: int) -> None:
        self.body = module.body
        self.array = module.array(name, "atomic<u32>", size)

    def _call(self, function: str, at: Node, *value: Node) -> Call:
        return Call(function, (Prefix("&", self.array[at]), *value), "u32")

    def read(self, at: Node) -> Node:
        """Return a word."""
        return self._call("atomicLoad", at)

    def write(self, at: Node, value: Node) -> None:
        """Write the statement that sets a word."""
        self.body.add(Do(self._call("atomicStore", at, value)))

    def add(self, at: Node, value: Node) -> Call:
        """Return a word as it is before a value is added to it; the addition is made where this is written."""
        return self._call("atomicAdd", at, value)


def type_words(scalar: str) -> int:
    """Return how many u32 words a value takes."""
    return 2 if scalar in ("i64", "vec2<u32>") else 1


_WORDS = ElementType("uint32", "u32")


def in_turn(module: Module, position: Node, counts: Sequence[int]) -> Iterator[tuple[int, Node]]:
    """Yield, inside of a condition that holds for its positions, the number of each of some things that follow each other, so many
    positions each, and the position within it."""
    first = 0
    for number, count in enumerate(counts):
        conditions = [position >= first] if first else []
        with module.body.when(every(*conditions, position < first + count)):
            yield number, module.body.let(module.fresh("own"), position - first) if first else position
        first += count


class Partials:
    """What the passes of a kernel leave each other in a scratch buffer, its ``number``-th: records of values, encoded as u32 words."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.words = 0

    @property
    def nbytes(self) -> int:
        """The size of the scratch buffer."""
        return self.words * 4

    def records(self, count: int, *scalars: str) -> Records:
        """Reserve ``count`` records of one value of each of some types."""
        found = Records(self.words, scalars, self.number)
        self.words += count * found.words
        return found


class Records:
    """Records of values at consecutive places of the scratch buffer."""

    def __init__(self, base: int, scalars: Sequence[str], scratch: int) -> None:
        self.base, self.scratch = base, scratch
        self.scalars = scalars
        self.words = sum(type_words(each) for each in scalars)

    def _word(self, module: Module, index: Node, number: int, writes: bool) -> tuple[Buffer, Node]:
        at = index if self.words == 1 else index * self.words
        at = u32(self.base) + at if self.base else at
        return module.buffer("scratch", self.scratch, _WORDS, writes), at + fixed(number) if number else at

    def write(self, module: Module, index: Node, values: Sequence[Node]) -> None:
        """Write the statements that store a record."""
        words = [word for value in values for word in _encoded(value)]
        for number, word in enumerate(words):
            module.body.add(Store(*self._word(module, index, number, True), word))

    def read(self, module: Module, index: Node, writes: bool = False) -> list[Node]:
        """Return the values of a record; ``writes``: the same pass writes to the scratch buffer, too."""
        values: list[Node] = []
        number = 0
        for scalar in self.scalars:
            words = [Load(*self._word(module, index, number + each, writes)) for each in range(type_words(scalar))]
            values.append(_decoded(scalar, words))
            number += len(words)
        return values

    def _are_words(self, count: int) -> bool:
        """Return whether so many neighbouring records from an aligned one on lie as one vector of words."""
        return self.words == 1 and count == 4 and self.base % count == 0

    def write_neighbours(self, module: Module, index: Node, values: Sequence[Node]) -> None:
        """Write the statements that store neighbouring records of one value, the first of which is at a multiple of their number."""
        if self._are_words(len(values)):
            words = [word for value in values for word in _encoded(value)]
            module.body.add(StoreGroup(*self._word(module, index, 0, True), words))
            return
        for lane, value in enumerate(values):
            self.write(module, index + fixed(lane) if lane else index, [value])

    def read_neighbours(self, module: Module, index: Node, count: int) -> list[Node]:
        """Write the load of neighbouring records of one value, the first of which is at a multiple of ``count``, and return these."""
        if self._are_words(count):
            found = module.body.let(module.fresh("group"), LoadGroup(*self._word(module, index, 0, False), count))
            return [_decoded(self.scalars[0], [found.lane(lane)]) for lane in range(count)]
        values = [self.read(module, index + fixed(lane) if lane else index)[0] for lane in range(count)]
        return [module.body.let(module.fresh("one"), each) for each in values]


def _encoded(value: Node) -> list[Node]:
    scalar = value.type
    if scalar == "bool":
        return [to_shared(value)]
    if scalar == "u32":
        return [value]
    if scalar == "vec2<u32>":
        return [value.lane(0), value.lane(1)]
    if scalar == "i64":
        return [convert_to("u32", each & fixed(0xFFFFFFFF, "i64")) for each in (value, value >> 32)]
    return [bitcast("u32", convert_to("f32", value) if scalar == "f16" else value)]


def _decoded(scalar: str, words: Sequence[Node]) -> Node:
    if scalar == "i64":
        return join_words(*words)
    if scalar == "vec2<u32>":
        return vector("u32", words)
    if scalar in ("bool", "u32"):
        return from_shared(words[0], scalar)
    return convert_to("f16", bitcast("f32", words[0])) if scalar == "f16" else bitcast(scalar, words[0])
