"""Passes whose text differs in numbers only share one pipeline, which reads those numbers from a uniform buffer.

A tensor that grows (a cache of keys and values, a batch of another length) makes kernels that differ in sizes, strides
and counts of workgroups. The first of them is compiled as it is; from the second on, the numbers in which they differ
become run-time values, so that a new size costs no compilation. Kernels that stay get text of their own later
(:meth:`.device.WgpuDevice.run`).
"""

from __future__ import annotations

import re
from collections import OrderedDict

from .program import Binding, Pass

#: an integer literal of a WGSL module; neither part of a name nor of a hexadecimal or floating-point number
_LITERAL = re.compile(r"(?<![\w.])(\d+)(u|i|li)\b")
#: most numbers that a family passes at run time; passes that differ in more are compiled each for itself
MOST_SIZES = 64
#: largest of them: what every type holds, whatever it does with the sign
_LARGEST = (1 << 31) - 1
#: families kept; the least recently used go first
FAMILY_LIMIT = 4096


class Families:
    """What passes of one text have had for numbers so far."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, tuple[Binding, ...]], _Family] = OrderedDict()

    def member(self, entry: Pass) -> Pass:
        """Return the pass to compile: the given one, or the one that its family shares, with its own numbers in ``sizes``."""
        pieces = _LITERAL.split(entry.source)
        key = "#".join([*pieces[::3], *pieces[2::3]]), entry.bindings
        literals = tuple([int(each) for each in pieces[1::3]])
        family = self._kept.get(key)
        if family is None:
            self._kept[key] = _Family(literals)
            if len(self._kept) > FAMILY_LIMIT:
                self._kept.popitem(last=False)
            return entry
        self._kept.move_to_end(key)
        if literals == family.first:
            return entry
        family.admit(literals)
        sizes = tuple([literals[index] for index in family.varying])
        if len(sizes) > MOST_SIZES or max(sizes) > _LARGEST:
            return entry
        source = _with_places(pieces, family.places) + (
            f"@group(0) @binding({len(entry.bindings)}) var<uniform> sizes: array<vec4<u32>, {-(-len(sizes) // 4)}>;\n"
        )
        bindings = (*entry.bindings, Binding("sizes", 0, False))
        return Pass(entry.name, source, entry.workgroups, bindings, sizes)


class _Family:
    """The numbers of passes with equal text: which never differed, and which were always equal to each other.

    Attributes:
        first: the literals of the first pass.
        places: for each literal the number of the run-time value that stands for it, None where it stays as it is.
        varying: for each run-time value the first literal that it stands for.
    """

    def __init__(self, literals: tuple[int, ...]) -> None:
        self.first = literals
        self.places: list[int | None] = [None] * len(literals)
        self.varying: list[int] = []
        self._samples = [literals]

    def admit(self, literals: tuple[int, ...]) -> None:
        """Change the places so that they suit these literals, too."""
        values = [literals[index] for index in self.varying]
        if any(
            value != (constant if place is None else values[place])
            for value, constant, place in zip(literals, self.first, self.places, strict=True)
        ):
            self._samples.append(literals)
            self._group()

    def _group(self) -> None:
        """Give literals that were equal to each other in every sample one place."""
        numbers: dict[tuple[int, ...], int] = {}
        self.varying = []
        for index, seen in enumerate(zip(*self._samples, strict=True)):
            if len(set(seen)) == 1:
                self.places[index] = None
                continue
            if seen not in numbers:
                numbers[seen] = len(numbers)
                self.varying.append(index)
            self.places[index] = numbers[seen]


def _with_places(pieces: list[str], places: list[int | None]) -> str:
    """Return the text with literals that have a place replaced by what reads it."""
    texts = [pieces[0]]
    for number, place in enumerate(places):
        value, kind, following = pieces[3 * number + 1 : 3 * number + 4]
        texts.append(value + kind if place is None else _READ[kind].format(f"sizes[{place // 4}u].{'xyzw'[place % 4]}"))
        texts.append(following)
    return "".join(texts)


#: how a run-time value becomes a literal's type
_READ = {"u": "{}", "i": "bitcast<i32>({})", "li": "i64({})"}
