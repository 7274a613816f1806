"""Monoids as statements: states of several numbers, combined by the monoid's expressions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TypeVar

from webgpu_torch_core.ir.dtypes import dtype, int32
from webgpu_torch_core.ir.expression import Expression, topological
from webgpu_torch_core.ir.monoids import EXTREMA_WITH_PLACES, Monoid, extremum_with_place, standard_name

from .ir import Array, Call, Name, Node, fixed
from .lowering import Lowering
from .module import Module
from .steps import convert, spell
from .types import literal
from .workgroup import from_shared, shared_type, to_shared

#: a state: a value for each of its numbers
Numbers = Sequence[Node]
_Value = TypeVar("_Value")
#: what tells apart the workgroup memory of several types
_SUFFIXES = {"vec2<u32>": "pair"}


def in_pairs(values: Sequence[_Value], combine: Callable[[_Value, _Value], _Value]) -> _Value:
    """Return values combined by pairs of neighbours, and these by pairs again: rounding errors of sums stay small."""
    while len(values) > 1:
        pairs = [values[at : at + 2] for at in range(0, len(values), 2)]
        values = [combine(*each) if len(each) > 1 else each[0] for each in pairs]
    return values[0]


def together(
    module: Module, value: Node, members: int, combine: Callable[[Node, Node], Node] = operator.add, nearest: int = 1
) -> Node:
    """Write what the values of neighbouring threads of a subgroup combine to, of every ``nearest``-th of ``members``; return it."""
    distance = nearest
    while distance < members:
        other = Call("subgroupShuffleXor", (value, fixed(distance)), value.type)
        value = module.body.let(module.fresh("both"), combine(value, other))
        distance *= 2
    return value


class Combining:
    """A monoid's states, in variables and in workgroup memory."""

    def __init__(self, module: Module, monoid: Monoid) -> None:
        self.module = module
        self.body = module.body
        # A row has fewer than 2**31 elements: positions need no emulated 64-bit integers.
        short = standard_name(monoid) in EXTREMA_WITH_PLACES
        self.monoid = extremum_with_place(monoid.name, monoid.states[0], int32) if short else monoid
        self.wanted = tuple(each.dtype for each in monoid.results)
        self.scalars = [module.type(each).scalar for each in self.monoid.states]

    def identity(self) -> list[Node]:
        """Return the state that changes nothing."""
        pairs = zip(self.monoid.identity, self.monoid.states, strict=True)
        return [literal(value, self.module.type(kind)) for value, kind in pairs]

    def lift(self, value: Node, source: dtype, place: Node) -> list[Node]:
        """Return the state of an element of type ``source`` at a u32 place."""
        kind = self.monoid.states[0]
        if source is not kind:
            value = convert(value, self._named(source), self._named(kind))
        nodes = topological(*self.monoid.lift)
        kinds = {node.dtype for node in nodes if node.step == "argument" and node.payload == 1}
        places = [convert(place, ("uint32", "u32"), self._named(kind)) for kind in kinds]
        return self._values(self.monoid.lift, [value, *places])

    def combine(self, earlier: Numbers, later: Numbers) -> list[Node]:
        """Return two states combined."""
        both = [*earlier, *later]
        (root, *others) = self.monoid.combine
        if not others and [each.step for each in root.arguments] == ["argument", "argument"]:
            return [spell(root.step, self.scalars[0], [both[each.payload] for each in root.arguments])]
        return self._values(self.monoid.combine, both)

    def tree(self, states: Sequence[Numbers]) -> Numbers:
        """Return states combined by pairs of neighbours, and these by pairs again."""
        return in_pairs(states, self.combine)

    def results(self, state: Numbers) -> list[Node]:
        """Return what a state means."""
        found = self._values(self.monoid.results, list(state))
        kinds = zip(found, self.monoid.results, self.wanted, strict=True)
        return [
            value if root.dtype is kind else convert(value, self._named(root.dtype), self._named(kind))
            for value, root, kind in kinds
        ]

    def _named(self, kind: dtype) -> tuple[str, str]:
        return kind.name, self.module.type(kind).scalar

    def _values(self, roots: tuple[Expression, ...], arguments: list[Node]) -> list[Node]:
        lowering = Lowering(self.module, lambda node, index: arguments[node.payload])
        return [lowering.value(root) for root in roots]

    def _names(self, name: str) -> list[str]:
        return [f"{name}_{part}" if part else name for part in range(len(self.scalars))]

    def var(self, name: str, state: Numbers) -> list[Name]:
        """Declare variables that hold a state."""
        parts = zip(self._names(name), state, self.scalars, strict=True)
        return [self.body.var(each, value, scalar) for each, value, scalar in parts]

    def let(self, name: str, state: Numbers) -> list[Name]:
        """Name a state."""
        return [self.body.let(each, value) for each, value in zip(self._names(name), state, strict=True)]

    def assign(self, target: Sequence[Name], state: Numbers) -> None:
        """Write the assignment of all numbers at once: they may be read from the variables themselves."""
        if len(target) > 1:
            state = [self.body.let(self.module.fresh(), value) for value in state]
        for variable, value in zip(target, state, strict=True):
            self.body.set(variable, value)

    def arrays(self, name: str, size: int) -> list[Array]:
        """Declare workgroup memory for states, once for each combination of types."""
        kinds = [shared_type(each) for each in self.scalars]
        suffixes = [_SUFFIXES.get(kind, kind) for kind in kinds]
        names = zip(self._names(name), suffixes, kinds, strict=True)
        return [self.module.array(f"{each}_{suffix}", kind, size) for each, suffix, kind in names]

    def put(self, arrays: Sequence[Array], index: Node, state: Numbers) -> None:
        """Write the stores of a state into workgroup memory."""
        for array, value in zip(arrays, state, strict=True):
            self.body.set(array[index], to_shared(value))

    def get(self, arrays: Sequence[Array], index: Node) -> list[Node]:
        """Return a state in workgroup memory."""
        return [from_shared(array[index], scalar) for array, scalar in zip(arrays, self.scalars, strict=True)]
