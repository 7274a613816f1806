"""The state of one reduction: its identity, how values are folded in, and how states of several threads are merged."""

from __future__ import annotations

from webgpu_torch_core.ir.kernels import Reduction

from .printer import Module
from .steps import convert, spell
from .types import literal

#: the place of an arg-reduction's state before its first element
NOWHERE = "0xffffffffu"
_STEPS = {"sum": "add", "product": "multiply", "any": "bitwise_or", "all": "bitwise_and"}


class State:
    """A reduction's running value (and, for arg-reductions, the place where it stands) as WGSL variables.

    The value of an arg-reduction has the type of what is compared; its result is the place as int64.
    """

    def __init__(self, module: Module, reduction: Reduction, number: int) -> None:
        self.module = module
        self.kind = reduction.kind
        self.places = reduction.kind.startswith("arg")
        self.dtype = reduction.value.dtype if self.places else reduction.dtype
        self.source = reduction.value.dtype
        self.scalar = module.type(self.dtype).scalar
        self.value = f"state{number}"
        self.place = f"place{number}"
        self.words = (2 if self.scalar in ("i64", "vec2<u32>") else 1) + self.places

    def identity(self) -> str:
        """Return the literal that changes nothing."""
        kind, dtype = self.kind, self.dtype
        element = self.module.type(dtype)
        if self.places or kind in ("sum", "any"):
            return literal(0, element)
        if kind in ("product", "all"):
            return literal(1, element)
        if dtype.category == 0:
            return literal(kind == "minimum", element)
        if dtype.category == 1:
            return literal(dtype.minimum if kind == "maximum" else dtype.maximum, element)
        return literal(float("-inf") if kind == "maximum" else float("inf"), element)

    def declare(self) -> None:
        """Write the variables' declarations."""
        self.module.lines.append(f"var {self.value}: {self.scalar} = {self.identity()};")
        if self.places:
            self.module.lines.append(f"var {self.place} = {NOWHERE};")

    def combine(self, left: str, right: str) -> str:
        """Return the text that combines two values."""
        return spell(_STEPS.get(self.kind, self.kind), self.scalar, [left, right])

    def fold(self, values: list[str], places: list[str]) -> None:
        """Write the statements that take in the next elements, in order."""
        lines = self.module.lines
        element = self.module.type(self.dtype)
        if self.source is not self.dtype:
            pair = (self.source.name, self.module.type(self.source).scalar), (self.dtype.name, element.scalar)
            values = [convert(f"({each})", *pair) for each in values]
        if self.places:
            for value, place in zip(values, places, strict=True):
                self.take(value, place)
            return
        # Neighbours first: sums then grow in a tree, which keeps their rounding errors small.
        while len(values) > 1:
            values = [f"({self.combine(*values[at : at + 2])})" for at in range(0, len(values), 2)]
        lines.append(f"{self.value} = {self.combine(self.value, values[0])};")

    def take(self, value: str, place: str) -> None:
        """Write the statement that moves to another value where it comes before the present one."""
        spelled = [self.value, value] if self.kind == "argmaximum" else [value, self.value]
        better = spell("less", self.scalar, spelled)
        same = spell("equal", self.scalar, [value, self.value])
        if self.scalar in ("f32", "f16"):
            nan, present = spell("is_nan", self.scalar, [value]), spell("is_nan", self.scalar, [self.value])
            better = f"((!({present})) & (({nan}) | ({better})))"
            same = f"(({same}) | (({nan}) & ({present})))"
        test = f"({self.place} == {NOWHERE}) | ({better}) | (({same}) & ({place} < {self.place}))"
        self.module.lines.append(
            f"if (({place} != {NOWHERE}) & ({test})) {{ {self.value} = {value}; {self.place} = {place}; }}"
        )

    def merge(self, value: str, place: str) -> None:
        """Write the statement that takes in another state."""
        if self.places:
            self.take(value, place)
        else:
            self.module.lines.append(f"{self.value} = {self.combine(self.value, value)};")

    def result(self) -> str:
        """Return the text of the finished reduction."""
        if not self.places:
            return self.value
        place = f"select({self.place}, 0u, {self.place} == {NOWHERE})"
        return f"i64({place})" if self.module.capabilities.int64 else f"vec2<u32>({place}, 0u)"

    @property
    def shared_scalar(self) -> str:
        """The type of a value in workgroup memory: some drivers lose bools there."""
        return "u32" if self.scalar == "bool" else self.scalar

    def to_shared(self, text: str) -> str:
        """Return a value as workgroup memory holds it."""
        return f"select(0u, 1u, {text})" if self.scalar == "bool" else text

    def from_shared(self, text: str) -> str:
        """Return a value that workgroup memory holds."""
        return f"({text} != 0u)" if self.scalar == "bool" else text

    def share(self, name: str, size: int) -> tuple[str, str]:
        """Declare workgroup arrays of states once; return the names of values and places."""
        plain = "".join(each for each in self.shared_scalar if each.isalnum())
        names = f"{name}_{plain}", f"{name}_places"
        for each, scalar in ((names[0], self.shared_scalar), (names[1], "u32"))[: 1 + self.places]:
            declaration = f"var<workgroup> {each}: array<{scalar}, {size}>;"
            if declaration not in self.module.shared:
                self.module.shared.append(declaration)
        return names


def merge_team(state: State, team: int, rows: int, interleaved: bool) -> None:
    """Write the statements after which every thread of a team holds the team's merged state.

    Needs ``thread``, ``part`` and ``local_row``. Two rounds through workgroup memory with two barriers; each round
    merges in a fixed order. Interleaved teams have neighbouring threads on neighbouring rows.
    """
    if team == 1:
        return
    lines = state.module.lines
    width = 1
    while team > 16 and width * width < team:
        width *= 2
    first, places = state.share("first", team * rows)
    lines.append(f"{first}[thread] = {state.to_shared(state.value)};")
    if state.places:
        lines.append(f"{places}[thread] = {state.place};")
    lines.append("workgroupBarrier();")

    def member(number: str) -> str:
        return f"({number}) * {rows}u + local_row" if interleaved else f"local_row * {team}u + {number}"

    if width == 1:
        _merge_from(state, first, places, [member(f"{each}u") for each in range(team)])
        lines.append("workgroupBarrier();")
        return
    second, second_places = state.share("second", width * rows)
    lines.append(f"if (part < {width}u) {{")
    _merge_from(state, first, places, [member(f"part + {each}u") for each in range(0, team, width)])
    lines.append(f"{second}[local_row * {width}u + part] = {state.to_shared(state.value)};")
    if state.places:
        lines.append(f"{second_places}[local_row * {width}u + part] = {state.place};")
    lines += ["}", "workgroupBarrier();"]
    _merge_from(state, second, second_places, [f"local_row * {width}u + {each}u" for each in range(width)])


def _merge_from(state: State, values: str, places: str, indices: list[str]) -> None:
    """Write the merge of stored states in the given order."""
    lines = state.module.lines
    first = state.from_shared(f"{values}[{indices[0]}]")
    lines.append(f"{state.value} = {first};")
    if state.places:
        lines.append(f"{state.place} = {places}[{indices[0]}];")
        for each in indices[1:]:
            lines.append(f"{{ let v = {state.from_shared(f'{values}[{each}]')}; let p = {places}[{each}];")
            state.take("v", "p")
            lines.append("}")
        return
    parts = [state.from_shared(f"{values}[{each}]") for each in indices]
    while len(parts) > 1:
        parts = [
            f"({state.combine(*parts[at : at + 2])})" if at + 1 < len(parts) else parts[at]
            for at in range(0, len(parts), 2)
        ]
    lines.append(f"{state.value} = {parts[0]};")


def encode(scalar: str, value: str) -> list[str]:
    """Return the u32 words of a value, for scratch memory."""
    if scalar == "bool":
        return [f"select(0u, 1u, {value})"]
    if scalar == "u32":
        return [value]
    if scalar == "vec2<u32>":
        return [f"{value}.x", f"{value}.y"]
    if scalar == "i64":
        return [f"u32({value} & 0xffffffffli)", f"u32(({value} >> 32u) & 0xffffffffli)"]
    return [f"bitcast<u32>(f32({value}))" if scalar == "f16" else f"bitcast<u32>({value})"]


def decode(scalar: str, words: list[str]) -> str:
    """Return the value that :func:`encode` gave words of."""
    if scalar == "bool":
        return f"({words[0]} != 0u)"
    if scalar == "u32":
        return words[0]
    if scalar == "vec2<u32>":
        return f"vec2<u32>({words[0]}, {words[1]})"
    if scalar == "i64":
        # Some compilers extend the sign of an unsigned word.
        return f"((i64({words[1]}) << 32u) | (i64({words[0]}) & 0xffffffffli))"
    return f"f16(bitcast<f32>({words[0]}))" if scalar == "f16" else f"bitcast<{scalar}>({words[0]})"
