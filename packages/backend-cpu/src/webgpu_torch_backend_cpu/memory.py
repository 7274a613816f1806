"""Steps of printed functions that write over an operand which nothing reads any more."""

from __future__ import annotations

import re
from typing import NamedTuple

from webgpu_torch_core.ir.dtypes import dtype

_NAME = re.compile(r"\bt\d+\b")
#: types whose functions return the type that their operands have
_KINDS = ("bool", "int32", "int64", "float32", "float64")


class Step(NamedTuple):
    """A new array of all elements of a block: its type, the call of NumPy's function that makes it, if it is one, and its operands."""

    kind: dtype
    call: str | None
    operands: tuple[str, ...]


def write_over(lines: list[str], steps: dict[str, Step]) -> None:
    """Have steps write over an operand of their type whose last use they are.

    Only arrays that nothing else can be a view of are written over: those that steps make and steps alone read, between one loop's
    head and the next. A chain then takes one array of a block's length instead of one for each step, and no time for allocating it.
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
        if step is None or step.call is None or step.kind.name not in _KINDS:
            continue
        for name in step.operands:
            of = steps.get(name)
            if of and of.kind is step.kind and name not in kept and last[name] == (number, first.get(name)):
                indent = line[: len(line) - len(line.lstrip())]
                lines[number] = f"{indent}{target} = {step.call}, out={name})"
                break
