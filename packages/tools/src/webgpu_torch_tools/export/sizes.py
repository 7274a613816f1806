"""Sizes that change from call to call: dimensions that are named, and numbers that a program computes from them.

A program that is exported for changing sizes runs over two sets of sizes at once: the example's and others. What comes out the
same for both is a constant of the graph; arithmetic on what does not becomes nodes of it; a question that the two answer
differently would make the graph right for one of them only.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from webgpu_torch_tools.fx import Graph, Node

Value: TypeAlias = Any


class Dim:
    """A dimension whose size changes, from ``min`` to ``max``; dimensions of one name have the same size.

    Args:
        name: its name.
        min, max: its smallest and its greatest size.

    Raises:
        AssertionError: the smallest size is greater than the greatest.
    """

    AUTO: Dim
    DYNAMIC: Dim
    STATIC: Dim

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        self.__name__ = name
        self.min, self.max = min or 0, math.inf if max is None else max
        if self.min > self.max:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")

    def __repr__(self) -> str:
        return f"Dim('{self.__name__}', min={self.min}, max={self.max})"


Dim.AUTO, Dim.DYNAMIC, Dim.STATIC = Dim("AUTO"), Dim("DYNAMIC"), Dim("STATIC")
_CHOSEN = (Dim.AUTO, Dim.DYNAMIC)


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Return several dimensions of the same bounds."""
    return tuple(Dim(each, min=min, max=max) for each in names)


class SpecializedError(RuntimeError):
    """A program asked a question about a size that changes, of which the answer depends on the size."""


class SymbolicInt(int):
    """A size of the example, the other size, and the node that computes it."""

    other: int
    node: Node

    def __new__(cls, value: int, other: int, node: Node) -> SymbolicInt:
        made = super().__new__(cls, value)
        made.other, made.node = other, node
        return made

    def __deepcopy__(self, memo: object) -> SymbolicInt:
        return self

    def __reduce__(self) -> tuple[Value, ...]:
        return int, (int(self),)

    __hash__ = int.__hash__


def other_of(value: Value) -> Value:
    """Return the other value of a number: its own where there is none."""
    return value.other if isinstance(value, SymbolicInt) else value


def _computed(function: Callable[..., Value], first: Value, second: Value) -> Value:
    graph: Graph = (first if isinstance(first, SymbolicInt) else second).node.graph
    value = function(_plain(first), _plain(second))
    other = function(other_of(first), other_of(second))
    if value == other and type(value) is type(other):
        return value
    if not isinstance(value, int):
        raise SpecializedError(f"{function.__name__} of a size that changes gives no whole number")
    args = tuple(each.node if isinstance(each, SymbolicInt) else each for each in (first, second))
    node = graph.call_function(function, args)
    node.meta["val"] = value
    return SymbolicInt(value, other, node)


def _plain(value: Value) -> Value:
    return int(value) if isinstance(value, SymbolicInt) else value


def _arithmetic(function: Callable[..., Value], reflected: bool) -> Callable[..., Value]:
    def method(self: SymbolicInt, other: Value) -> Value:
        if not isinstance(other, int):
            found = getattr(int, f"__{'r' if reflected else ''}{function.__name__}__", None)
            return NotImplemented if found is None else found(int(self), other)
        return _computed(function, other, self) if reflected else _computed(function, self, other)

    return method


def _question(function: Callable[..., Value]) -> Callable[..., Value]:
    def method(self: SymbolicInt, other: Value) -> Value:
        if not isinstance(other, int | float):
            return NotImplemented
        answer, another = function(int(self), _plain(other)), function(self.other, other_of(other))
        if answer is not another:
            raise SpecializedError(
                f"the program asks whether {self.node} {function.__name__} {other!r}: {answer} for the example, where it is "
                f"{int(self)}, and {another} where it is {self.other}; leave this dimension out of dynamic_shapes"
            )
        return answer

    return method


for _each in (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod):
    setattr(SymbolicInt, f"__{_each.__name__}__", _arithmetic(_each, False))
    setattr(SymbolicInt, f"__r{_each.__name__}__", _arithmetic(_each, True))
for _each in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
    setattr(SymbolicInt, f"__{_each.__name__}__", _question(_each))
SymbolicInt.__neg__ = lambda self: 0 - self  # type: ignore[method-assign]
SymbolicInt.__bool__ = lambda self: self != 0  # type: ignore[method-assign]


class Sizes:
    """The dimensions of inputs that change, with the other size of each.

    Attributes:
        ranges: smallest and greatest size by name.
    """

    def __init__(self) -> None:
        self.ranges: dict[str, tuple[int, float]] = {}
        self._known: dict[object, tuple[Dim, int, int]] = {}

    def other_size(self, dim: Dim | None, size: int, where: str) -> tuple[int, str | None]:
        """Return the other size of a dimension and its name; of one that does not change, the same and None.

        Raises:
            ValueError: the size is not in its bounds, or another dimension of the name has another size.
        """
        if dim is None or dim is Dim.STATIC:
            return size, None
        # Dimensions nobody named are the same where the example's are.
        key = (size,) if dim in _CHOSEN else dim.__name__
        if key not in self._known:
            name = f"s{len(self._known)}" if dim in _CHOSEN else dim.__name__
            if not dim.min <= size <= dim.max:
                raise ValueError(f"{where} has size {size}, which is not between {dim.min} and {dim.max} ({name})")
            taken = {other for _, _, other in self._known.values()} | {size}
            wanted = 2 * size + 3
            while wanted in taken:
                wanted += 1
            if wanted > dim.max:
                wanted = next((each for each in range(int(dim.max), dim.min - 1, -1) if each not in taken), size)
            self._known[key] = Dim(name), size, wanted
            self.ranges[name] = dim.min, dim.max
        named, expected, other = self._known[key]
        if size != expected:
            raise ValueError(f"{where} has size {size}, but {named.__name__} is {expected} elsewhere")
        return other, named.__name__


def of_input(shapes: Value, name: str, place: int) -> Value:
    """Return what ``dynamic_shapes`` says of an input, by its name or place."""
    if isinstance(shapes, Mapping):
        return shapes.get(name)
    if shapes is None or place >= len(shapes):
        return None
    return shapes[place]


def of_dimension(spec: Value, place: int, name: str) -> Dim | None:
    """Return what an input's part of ``dynamic_shapes`` says of a dimension.

    Raises:
        TypeError: it is no dimension.
    """
    found = (
        spec.get(place)
        if isinstance(spec, Mapping)
        else spec[place]
        if spec is not None and place < len(spec)
        else None
    )
    if isinstance(found, int):
        return None
    if found is not None and not isinstance(found, Dim):
        raise TypeError(f"dynamic_shapes of {name}: dimension {place} is {found!r}, which is no Dim")
    return found
