"""The state of one reduction: its identity, how values are folded in, and how states of several threads are merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from webgpu_torch_core.kernels import Reduction

from .ir import Array, Name, Node, choose, fixed
from .lowering import as_position
from .module import THREAD, Module
from .steps import convert, spell
from .types import literal
from .workgroup import from_shared, shared_type, to_shared

#: the place of an arg-reduction's state before its first element
NOWHERE = fixed(0xFFFFFFFF)
_STEPS = {"sum": "add", "product": "multiply", "any": "bitwise_or", "all": "bitwise_and"}
_ONE = ("product", "all")


def identity(module: Module, kind: str, dtype: Any) -> Node:
    """Return the value that a reduction of this kind starts with: it changes nothing."""
    element = module.type(dtype)
    if kind in _STEPS:
        return literal(int(kind in _ONE), element)
    if dtype.category == 0:
        return literal(kind == "minimum", element)
    if dtype.category == 1:
        return literal(dtype.minimum if kind == "maximum" else dtype.maximum, element)
    return literal(float("-inf") if kind == "maximum" else float("inf"), element)


def combine(kind: str, scalar: str, left: Node, right: Node) -> Node:
    """Return two values of a reduction combined."""
    return spell(_STEPS.get(kind, kind), scalar, [left, right])


class State:
    """A reduction's running value (and, for arg-reductions, the place where it stands) as variables.

    The value of an arg-reduction has the type of what is compared; its result is the place as int64.
    """

    def __init__(self, module: Module, reduction: Reduction, number: int) -> None:
        self.module = module
        self.kind = reduction.kind
        self.places = reduction.kind.startswith("arg")
        self.dtype = reduction.value.dtype if self.places else reduction.dtype
        self.source = reduction.value.dtype
        self.scalar = module.type(self.dtype).scalar
        self.value = Name(f"state{number}", self.scalar)
        self.place = Name(f"place{number}", "u32")

    @property
    def fields(self) -> tuple[str, ...]:
        """The types of what makes up the state."""
        return (self.scalar, "u32") if self.places else (self.scalar,)

    @property
    def values(self) -> list[Node]:
        """What makes up the state."""
        return [self.value, self.place] if self.places else [self.value]

    def declare(self) -> None:
        """Write the variables' declarations."""
        start = (
            literal(0, self.module.type(self.dtype)) if self.places else identity(self.module, self.kind, self.dtype)
        )
        self.module.body.var(self.value.text, start, self.scalar)
        if self.places:
            self.module.body.var(self.place.text, NOWHERE)

    def combine(self, left: Node, right: Node) -> Node:
        """Return two values combined."""
        return combine(self.kind, self.scalar, left, right)

    def fold(self, values: Sequence[Node], places: Sequence[Node]) -> None:
        """Write the statements that take in the next elements, in order."""
        element = self.module.type(self.dtype)
        if self.source is not self.dtype:
            pair = (self.source.name, self.module.type(self.source).scalar), (self.dtype.name, element.scalar)
            values = [convert(each, *pair) for each in values]
        if self.places:
            for value, place in zip(values, places, strict=True):
                self.take(value, place)
            return
        # Neighbours first: sums then grow in a tree, which keeps their rounding errors small.
        self.module.body.set(self.value, self.combine(self.value, self._tree(values)))

    def _tree(self, values: Sequence[Node]) -> Node:
        """Return values combined by pairs of neighbours, and these by pairs again."""
        while len(values) > 1:
            pairs = [values[at : at + 2] for at in range(0, len(values), 2)]
            values = [self.combine(*each) if len(each) > 1 else each[0] for each in pairs]
        return values[0]

    def take(self, value: Node, place: Node) -> None:
        """Write the statement that moves to another value where it comes before the present one."""
        ordered = [self.value, value] if self.kind == "argmaximum" else [value, self.value]
        better = spell("less", self.scalar, ordered)
        same = spell("equal", self.scalar, [value, self.value])
        if self.scalar in ("f32", "f16"):
            nan, present = spell("is_nan", self.scalar, [value]), spell("is_nan", self.scalar, [self.value])
            better = ~present & (nan | better)
            same = same | (nan & present)
        test = self.place.equals(NOWHERE) | better | (same & (place < self.place))
        with self.module.body.when(place.differs(NOWHERE) & test):
            self.module.body.set(self.value, value)
            self.module.body.set(self.place, place)

    def merge(self, values: Sequence[Node]) -> None:
        """Write the statement that takes in another state."""
        if self.places:
            self.take(values[0], values[1])
        else:
            self.module.body.set(self.value, self.combine(self.value, values[0]))

    def found(self) -> list[Node]:
        """Return the finished reduction as records keep it: the value, or the place alone."""
        return [choose(self.place.equals(NOWHERE), fixed(0), self.place)] if self.places else [self.value]

    def result(self, found: Node | None = None) -> Node:
        """Return the finished reduction, of what :meth:`found` gave."""
        found = found or self.found()[0]
        return as_position(self.module, found) if self.places else found

    def share(self, name: str, size: int) -> list[Array]:
        """Return workgroup arrays of states: of values and, for arg-reductions, of places."""
        kind = shared_type(self.scalar)
        arrays = [self.module.array(f"{name}_{_SUFFIXES.get(kind, kind)}", kind, size)]
        return [*arrays, self.module.array(f"{name}_places", "u32", size)] if self.places else arrays

    def put(self, arrays: Sequence[Array], index: Node) -> None:
        """Write the statements that leave the state in workgroup memory."""
        for array, value in zip(arrays, self.values, strict=True):
            self.module.body.set(array[index], to_shared(value))

    def merge_from(self, arrays: Sequence[Array], indices: Sequence[Node]) -> None:
        """Write the merge of states in workgroup memory, in the given order."""
        body = self.module.body
        if not self.places:
            body.set(self.value, self._tree([from_shared(arrays[0][each], self.scalar) for each in indices]))
            return
        for variable, array in zip((self.value, self.place), arrays, strict=True):
            body.set(variable, from_shared(array[indices[0]], variable.type))
        for each in indices[1:]:
            with body.when(None):
                value = body.let("v", from_shared(arrays[0][each], self.scalar))
                self.take(value, body.let("p", arrays[1][each]))


_SUFFIXES = {"vec2<u32>": "pair"}


def merge_team(state: State, part: Node, local_row: Node, team: int, rows: int, interleaved: bool) -> None:
    """Write the statements after which every thread of a team holds the team's merged state.

    Two rounds through workgroup memory with two barriers; each round merges in a fixed order. Interleaved teams have
    neighbouring threads on neighbouring rows.
    """
    if team == 1:
        return
    body = state.module.body
    width = team_width(team)
    first = state.share("first", team * rows)
    state.put(first, THREAD)
    body.barrier()

    def member(number: Node) -> Node:
        return number * rows + local_row if interleaved else local_row * team + number

    if width == 1:
        state.merge_from(first, [member(fixed(each)) for each in range(team)])
        body.barrier()
        return
    second = state.share("second", width * rows)
    with body.when(part < width):
        state.merge_from(first, [member(part + fixed(each) if each else part) for each in range(0, team, width)])
        state.put(second, local_row * width + part)
    body.barrier()
    state.merge_from(second, [local_row * width + fixed(each) for each in range(width)])


def team_width(team: int) -> int:
    """Return how many states of a team are left after the first of two rounds of merging: 1 where one round does."""
    width = 1
    while team > 16 and width * width < team:
        width *= 2
    return width
