"""Where steps of printed functions write: over an operand that nothing reads any more, or into memory that is kept for it."""

from __future__ import annotations

import re
from typing import NamedTuple

from webgpu_torch_core.ir.dtypes import dtype

_NAME = re.compile(r"\bt\d+\b")
#: types whose functions return the type that their operands have
_KINDS = ("bool", "int32", "int64", "float32", "float64")


class Step(NamedTuple):
    """A new array of all elements of a block: its type, the call of NumPy's function that makes it, if it is one, and its operands.

    ``in_order``: these lie in memory in the order in which the block's results do.
    """

    kind: dtype
    call: str | None
    operands: tuple[str, ...]
    in_order: bool = False


class Registers:
    """Names of arrays for the steps of one block, each for one type; those given back last are taken first, while they are in cache."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.kinds: list[dtype] = []
        self._free: dict[dtype, list[str]] = {}
        self._holds: dict[str, str] = {}

    def take(self, target: str, kind: dtype) -> str:
        """Return the name of an array that nothing else uses until the target is given back."""
        free = self._free.setdefault(kind, [])
        if not free:
            free.append(f"s{self.first + len(self.kinds)}")
            self.kinds.append(kind)
        found = self._holds[target] = free.pop()
        return found

    def pass_on(self, name: str, target: str) -> None:
        """Note that a step writes over another one's array."""
        if name in self._holds:
            self._holds[target] = self._holds.pop(name)

    def give(self, name: str, kind: dtype) -> None:
        """Take the array of a step back, if it has one."""
        if name in self._holds:
            self._free[kind].append(self._holds.pop(name))


def write_over(lines: list[str], steps: dict[str, Step], registers: Registers | None = None) -> None:
    """Have steps write over an operand of their type whose last use they are, or into a register.

    Only arrays that nothing else can be a view of are written over: those that steps make and steps alone read, between one loop's
    head and the next. A chain then takes one array of a block's length instead of one for each step, and no time for allocating it.
    What anything else reads keeps its register to the end.
    """
    first, last, kept = {}, {}, set[str]()
    head = 0
    for number, line in enumerate(lines):
        if line.lstrip().startswith("for "):
            head = number
        target, equals, _ = line.lstrip().partition(" = ")
        names = _NAME.findall(line)
        if equals and target in steps:
            first[target] = head
            names.remove(target)
        else:
            kept.update(names)
        last.update((name, (number, head)) for name in names)
    for number, line in enumerate(lines):
        target, equals, _ = line.lstrip().partition(" = ")
        step = steps.get(target) if equals else None
        if step is None:
            continue
        done = [
            name
            for name in dict.fromkeys(step.operands)
            if name in steps and name not in kept and last[name] == (number, first.get(name))
        ]
        into = None
        if step.call is not None and step.kind.name in _KINDS:
            into = next((name for name in done if steps[name].kind is step.kind), None)
            if registers is not None and into is not None:
                registers.pass_on(into, target)
            elif registers is not None and step.in_order:
                into = registers.take(target, step.kind)
        if into is not None:
            lines[number] = f"{line[: len(line) - len(line.lstrip())]}{target} = {step.call}, out={into})"
        if registers is not None:
            for name in done:
                registers.give(name, steps[name].kind)
