"""Monoids in WGSL: states as several texts, combined by printing the monoid's expressions."""

from __future__ import annotations

from collections.abc import Sequence

from webgpu_torch_core.ir.dtypes import dtype, int32
from webgpu_torch_core.ir.expression import Expression, topological
from webgpu_torch_core.ir.monoids import EXTREMA_WITH_PLACES, Monoid, extremum_with_place, standard_name

from .printer import Module, Printer
from .steps import convert, spell
from .types import literal


class Combining:
    """A monoid's states as lists of WGSL texts, one for each number."""

    def __init__(self, module: Module, monoid: Monoid) -> None:
        self.module = module
        # A row has fewer than 2**31 elements: positions need no emulated 64-bit integers.
        short = standard_name(monoid) in EXTREMA_WITH_PLACES
        self.monoid = extremum_with_place(monoid.name, monoid.states[0], int32) if short else monoid
        self.wanted = tuple(each.dtype for each in monoid.results)
        self.scalars = [module.type(each).scalar for each in self.monoid.states]
        self.words = sum(map(words_of, self.scalars))

    def identity(self) -> list[str]:
        """Return the state that changes nothing."""
        pairs = zip(self.monoid.identity, self.monoid.states, strict=True)
        return [literal(value, self.module.type(kind)) for value, kind in pairs]

    def lift(self, value: str, source: dtype, place: str, lines: list[str]) -> list[str]:
        """Return the state of an element of type ``source`` at a u32 place."""
        kind = self.monoid.states[0]
        if source is not kind:
            value = convert(f"({value})", self._named(source), self._named(kind))
        nodes = topological(*self.monoid.lift)
        kinds = {node.dtype for node in nodes if node.step == "argument" and node.payload == 1}
        places = [convert(place, ("uint32", "u32"), self._named(kind)) for kind in kinds]
        return self._values(self.monoid.lift, [value, *places], lines)

    def combine(self, earlier: Sequence[str], later: Sequence[str], lines: list[str]) -> list[str]:
        """Return two states combined."""
        both = [*earlier, *later]
        (root, *others) = self.monoid.combine
        if not others and [each.step for each in root.arguments] == ["argument", "argument"]:
            return [spell(root.step, self.scalars[0], [both[each.payload] for each in root.arguments])]
        return self._values(self.monoid.combine, both, lines)

    def results(self, state: Sequence[str], lines: list[str]) -> list[str]:
        """Return what a state means."""
        found = self._values(self.monoid.results, list(state), lines)
        kinds = zip(found, self.monoid.results, self.wanted, strict=True)
        return [
            text if root.dtype is kind else convert(text, self._named(root.dtype), self._named(kind))
            for text, root, kind in kinds
        ]

    def _named(self, kind: dtype) -> tuple[str, str]:
        return kind.name, self.module.type(kind).scalar

    def _values(self, roots: tuple[Expression, ...], arguments: list[str], lines: list[str]) -> list[str]:
        printer = Printer(self.module, lambda node, _: arguments[node.payload], lines)
        return [printer.value(root) for root in roots]


def assign(names: Sequence[str], values: Sequence[str], module: Module, lines: list[str]) -> None:
    """Write the assignment of all values at once: they may be read from the variables themselves."""
    if len(names) > 1:
        copies = [module.fresh() for _ in names]
        lines += [f"let {copy} = {value};" for copy, value in zip(copies, values, strict=True)]
        values = copies
    lines += [f"{name} = {value};" for name, value in zip(names, values, strict=True)]


def words_of(scalar: str) -> int:
    """Return the u32 words of scratch memory that a value takes."""
    return 2 if scalar in ("i64", "vec2<u32>") else 1


def shared_scalar(scalar: str) -> str:
    """The type of a value in workgroup memory: some drivers lose bools there."""
    return "u32" if scalar == "bool" else scalar


def to_shared(scalar: str, text: str) -> str:
    """Return a value as workgroup memory holds it."""
    return f"select(0u, 1u, {text})" if scalar == "bool" else text


def from_shared(scalar: str, text: str) -> str:
    """Return a value that workgroup memory holds."""
    return f"({text} != 0u)" if scalar == "bool" else text


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


def encode_state(scalars: Sequence[str], values: Sequence[str]) -> list[str]:
    """Return the u32 words of a state."""
    return [word for scalar, value in zip(scalars, values, strict=True) for word in encode(scalar, value)]


def decode_state(scalars: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return the state that :func:`encode_state` gave words of."""
    found, at = [], 0
    for scalar in scalars:
        count = words_of(scalar)
        found.append(decode(scalar, list(words[at : at + count])))
        at += count
    return found
