"""Kernels as statements: what every generator emits, before a dialect of a shading language spells it.

Expressions (:class:`Node`, here) carry the type of their value and are written with Python's operators; statements
(:mod:`.statements`) are added to a :class:`~.statements.Body`. A plain Python number in index arithmetic is a *size*: it is printed as a literal or, where kernels that
differ in sizes only share a pipeline, as a value read at run time. A number that belongs to the generator itself, such as
the width of a packed element, is made by :func:`fixed` and always printed.

Buffers are read and written by element (:class:`Load`, :class:`~.statements.Store`) or by groups of neighbours (:class:`LoadGroup`,
:class:`~.statements.StoreGroup`). How a buffer is bound (as vectors, packed words, atomic words, in several parts) follows from all
accesses together, and the printer spells each access accordingly (:mod:`.wgsl`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from .types import ElementType

COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "&&", "||"})
_SCALARS = ("f32", "f16", "u32", "i32", "i64", "bool")
#: the types of vectors by their scalar and size, and back
VECTORS = {(scalar, size): f"vec{size}<{scalar}>" for scalar in _SCALARS for size in (2, 3, 4)}
SCALAR_OF = {name: scalar for (scalar, _), name in VECTORS.items()}
SIZE_OF = {name: size for (_, size), name in VECTORS.items()}


class Node:
    """An expression; ``type`` names the type of its value, ``arguments`` are the nodes inside."""

    __slots__ = ("type",)
    type: str
    arguments: ClassVar[tuple[Node, ...]] = ()

    def __add__(self, other: Node | int) -> Node:
        return Operation("+", self, other)

    def __sub__(self, other: Node | int) -> Node:
        return Operation("-", self, other)

    def __rsub__(self, other: int) -> Node:
        return Operation("-", Number(other, self.type), self)

    def __mul__(self, other: Node | int) -> Node:
        return Operation("*", self, other)

    def __floordiv__(self, other: Node | int) -> Node:
        return Operation("/", self, other)

    def __mod__(self, other: Node | int) -> Node:
        return Operation("%", self, other)

    def __and__(self, other: Node | int) -> Node:
        return Operation("&", self, other)

    def __or__(self, other: Node | int) -> Node:
        return Operation("|", self, other)

    def __xor__(self, other: Node | int) -> Node:
        return Operation("^", self, other)

    def __lshift__(self, other: Node | int) -> Node:
        return Operation("<<", self, _count(other))

    def __rshift__(self, other: Node | int) -> Node:
        return Operation(">>", self, _count(other))

    def __lt__(self, other: Node | int) -> Node:
        return Operation("<", self, other)

    def __le__(self, other: Node | int) -> Node:
        return Operation("<=", self, other)

    def __gt__(self, other: Node | int) -> Node:
        return Operation(">", self, other)

    def __ge__(self, other: Node | int) -> Node:
        return Operation(">=", self, other)

    def equals(self, other: Node | int) -> Node:
        """Return ``self == other`` (Python's ``==`` tells whether two nodes are the same object)."""
        return Operation("==", self, other)

    def differs(self, other: Node | int) -> Node:
        """Return ``self != other``."""
        return Operation("!=", self, other)

    def both(self, other: Node) -> Node:
        """Return ``self && other``: the right side is computed only where the left one is true."""
        return Operation("&&", self, other)

    def __invert__(self) -> Node:
        return Prefix("!" if self.type == "bool" else "~", self)

    def __neg__(self) -> Node:
        return Prefix("-", self)

    def __getitem__(self, index: Node | int) -> Node:
        return Index(self, index if isinstance(index, Node) else fixed(index))

    def lane(self, number: int) -> Node:
        """Return a component of a vector."""
        return Member(self, "xyzw"[number], SCALAR_OF[self.type])


class Name(Node):
    """A variable, constant or array that was declared."""

    __slots__ = ("text",)

    def __init__(self, text: str, kind: str) -> None:
        self.text, self.type = text, kind


class Number(Node):
    """An integer; one that is not ``fixed`` is a size, which may become a run-time value."""

    __slots__ = ("fixed", "value")

    def __init__(self, value: int, kind: str = "u32", fixed: bool = False) -> None:
        self.value, self.type, self.fixed = value, kind, fixed


class Literal(Node):
    """A number with a fraction, or a truth value."""

    __slots__ = ("value",)

    def __init__(self, value: float, kind: str) -> None:
        self.value, self.type = value, kind


class Prefix(Node):
    """``-``, ``!`` or ``~`` of a value, or ``&``: where it lies."""

    __slots__ = ("arguments", "symbol")

    def __init__(self, symbol: str, argument: Node) -> None:
        self.symbol, self.arguments, self.type = symbol, (argument,), argument.type  # pyright: ignore


class Operation(Node):
    """A binary operator. A plain number takes the type of the other side."""

    __slots__ = ("arguments", "symbol")

    def __init__(self, symbol: str, left: Node, right: Node | int) -> None:
        if not isinstance(right, Node):
            right = Number(right, left.type)
        self.symbol, self.arguments = symbol, (left, right)  # pyright: ignore
        if symbol in COMPARISONS:
            self.type = "bool"
        else:
            self.type = right.type if right.type in SCALAR_OF else left.type  # pyright: ignore


class Call(Node):
    """A function, conversion or constructor: a built-in one, a helper of :mod:`..functions` or one of the module."""

    __slots__ = ("arguments", "function")

    def __init__(self, function: str, arguments: Sequence[Node], kind: str) -> None:
        self.function, self.arguments, self.type = function, tuple(arguments), kind  # pyright: ignore


class Member(Node):
    """A field of a structure or component of a vector."""

    __slots__ = ("arguments", "field")

    def __init__(self, argument: Node, field: str, kind: str) -> None:
        self.arguments, self.field, self.type = (argument,), field, kind  # pyright: ignore


class Index(Node):
    """An element of an array or a component of a vector at a computed place; arrays have their elements' type."""

    __slots__ = ("arguments",)

    def __init__(self, of: Node, at: Node) -> None:
        self.arguments = (of, at)  # pyright: ignore
        self.type = SCALAR_OF.get(of.type, of.type) if not isinstance(of, Array) else of.type


class Array(Name):
    """An array in workgroup memory; its type is that of its elements."""

    __slots__ = ("size",)

    def __init__(self, text: str, kind: str, size: int) -> None:
        super().__init__(text, kind)
        self.size = size


class Buffer:
    """A storage buffer of a kernel.

    Attributes:
        name: what it is called in the module.
        encoding: how an element lies in it.
        bindings: the numbers of its bindings; several where it is longer than an adapter binds at once.
        writes: whether the kernel writes to it.
    """

    __slots__ = ("bindings", "encoding", "name", "writes")

    def __init__(self, name: str, encoding: ElementType, bindings: tuple[int, ...], writes: bool) -> None:
        self.name, self.encoding, self.bindings, self.writes = name, encoding, bindings, writes


class Load(Node):
    """One element of a buffer. ``vector``: it may be taken out of a vector where the buffer is bound as these."""

    __slots__ = ("arguments", "buffer", "vector")

    def __init__(self, buffer: Buffer, index: Node, vector: bool = False) -> None:
        self.buffer, self.arguments, self.vector = buffer, (index,), vector  # pyright: ignore
        self.type = buffer.encoding.scalar


class Word(Node):
    """One word of a buffer as it lies in memory; what a :class:`Load` of a packed element takes its bits from."""

    __slots__ = ("arguments", "buffer")

    def __init__(self, buffer: Buffer, index: Node) -> None:
        self.buffer, self.arguments, self.type = buffer, (index,), buffer.encoding.word  # pyright: ignore


class LoadGroup(Node):
    """``count`` neighbouring elements of a buffer from an aligned index on, as a vector of elements or of packed words."""

    __slots__ = ("arguments", "buffer", "count")

    def __init__(self, buffer: Buffer, index: Node, count: int) -> None:
        self.buffer, self.arguments, self.count = buffer, (index,), count  # pyright: ignore
        words = buffer.encoding.words(count)
        self.type = buffer.encoding.word if words == 1 else VECTORS[buffer.encoding.word, words]


def group_element(group: Node, encoding: ElementType, number: int) -> Node:
    """Return element ``number`` of what :class:`LoadGroup` gave."""
    word = group if group.type not in SCALAR_OF else group.lane(number // encoding.lanes)
    return word if encoding.lanes == 1 else encoding.unpack(word, fixed(number % encoding.lanes))


def fixed(value: int, kind: str = "u32") -> Number:
    """Return a number that belongs to the generator: never a size."""
    return Number(value, kind, True)


def _count(value: Node | int) -> Node:
    """Return how far to shift: a u32, whatever is shifted."""
    return value if isinstance(value, Node) else fixed(value)


def u32(value: int) -> Number:
    """Return a size."""
    return Number(value)


def convert_to(kind: str, value: Node) -> Node:
    """Return WGSL's conversion of a value to a type."""
    return Call(kind, (value,), kind)


def bitcast(kind: str, value: Node) -> Node:
    """Return a value's bits as another type of the same width."""
    return Call(f"bitcast<{kind}>", (value,), kind)


def vector(scalar: str, values: Sequence[Node]) -> Node:
    """Return a vector of values; of one value the value itself."""
    if len(values) == 1:
        return values[0]
    kind = VECTORS[scalar, len(values)]
    return Call(kind, values, kind)


def zero(kind: str) -> Node:
    """Return the value that a type's bits are zero in."""
    return Call(kind, (), kind)


def choose(condition: Node, yes: Node, no: Node) -> Node:
    """Return one of two values that are both computed."""
    return Call("select", (no, yes, condition), yes.type)


def pick(values: Sequence[Node], number: Node) -> Node:
    """Return the value of a number, of several that are all computed."""
    found = values[0]
    for each in range(1, len(values)):
        found = choose(number.equals(fixed(each)), values[each], found)
    return found


def minimum(left: Node, right: Node | int) -> Node:
    """Return the smaller of two integers."""
    return Call("min", (left, right if isinstance(right, Node) else Number(right, left.type)), left.type)


def every(*conditions: Node) -> Node:
    """Return whether all conditions hold, looked at in order."""
    result = conditions[0]
    for each in conditions[1:]:
        result = result.both(each)
    return result
