"""Passes whose text differs in numbers only share one pipeline, which reads those numbers from a uniform buffer.

A tensor that grows (a cache of keys and values, a batch of another length) makes kernels that differ in sizes, strides
and counts of workgroups. Those of a network's first run, before the host waits for a result, are its layers' sizes and are
compiled as they are, except for kernels that take next to no time or long to compile. When another size comes later, the numbers
in which it differs become run-time values, so that further sizes cost no compilation; of those exceptions all numbers do, so that
another one that differs costs none either. Kernels that stay get text of their own in the end
(:meth:`.device.WgpuDevice.run`): how soon, a family tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from webgpu_torch_core.bounded import Bounded

from .codegen.wgsl import read_at, sizes_declaration, spelled
from .program import Binding, Pass, Piece, Size

#: most numbers that a family passes at run time; passes that differ in more are compiled each for itself
MOST_SIZES = 64
#: largest of them: what every type holds, whatever it does with the sign
_LARGEST = (1 << 31) - 1
#: most passes of a family that are compiled for themselves, where these take time
MOST_OWN = 8
#: families kept; the least recently used go first
FAMILY_LIMIT = 4096
#: in how many rounds (between two reads or waits of the host) a plan runs again before its kernels get text of their own
SETTLED_ROUNDS = 2
#: for so many sizes of a family one round more: a cache that grows has many, and each comes back seldom
SIZES_PER_ROUND = 8
#: the round of a family none of whose passes are compiled for themselves
NO_ROUND = -1
#: most sizes of a family that are counted
_MOST_COUNTED = 1024
#: characters before and behind a size that tell its role, and what is left out of them
_BEFORE, _BEHIND, _DIGITS = 24, 12, re.compile("[0-9]+")


class Families:
    """What passes of one text have had for numbers so far."""

    def __init__(self) -> None:
        self._kept: Bounded[tuple[tuple[str, ...], tuple[Binding, ...]], Family] = Bounded(FAMILY_LIMIT)

    def foresee(self, entries: Iterable[Pass], several: int = 2) -> None:
        """Let passes that come together for the first time, in several sizes, share a pipeline from the first one on.

        ``several``: how many these are; of only one that is known all numbers become run-time values.
        """
        found: dict[tuple[tuple[str, ...], tuple[Binding, ...]], dict[tuple[int, ...], Pass]] = {}
        for entry in entries:
            found.setdefault((entry.skeleton, entry.bindings), {})[entry.literals] = entry
        for key, sizes in found.items():
            if len(sizes) >= several and key not in self._kept:
                first, *others = sizes
                family = self._kept[key] = Family(first, NO_ROUND, sizes[first].pieces)
                if not others:
                    family.group()
                for literals in others:
                    family.admit(literals)

    def member(self, entry: Pass, round: int, most_own: int = MOST_OWN) -> Pass:
        """Return the pass to compile: the given one, or the one that its family shares, with its own numbers in ``sizes``.

        ``round`` counts how often the host waited for results; of the first round, up to ``most_own`` passes are compiled for
        themselves. Where that is one, all numbers become run-time values together.
        """
        literals = entry.literals
        key = entry.skeleton, entry.bindings
        family = self._kept.get(key)
        if family is None:
            family = self._kept[key] = Family(literals, round, entry.pieces if most_own == 1 else ())
        self._kept.move_to_end(key)
        if family.round == round and len(family.own) < most_own:
            family.own.add(literals)
        if literals in family.own:
            return entry
        family.admit(literals)
        sizes = tuple([literals[index] for index in family.varying])
        if not sizes or len(sizes) > MOST_SIZES or not 0 <= min(sizes) <= max(sizes) <= _LARGEST:
            return entry
        if not family.source:
            family.source = _with_places(entry.pieces, family.places) + sizes_declaration(
                len(entry.bindings), len(sizes)
            )
        bindings = (*entry.bindings, Binding("sizes", 0, False))
        return Pass(entry.name, family.source, entry.workgroups, bindings, sizes, patience=family.patience)


class Family:
    """The numbers of passes with equal text: which never differed, and which were always equal to each other.

    ``pieces``: of a pass, where all of its numbers become run-time values as soon as one does.

    Attributes:
        round: when the first pass came.
        own: the literals of passes that are compiled for themselves.
        places: for each literal the number of the run-time value that stands for it, None where it stays as it is.
        varying: for each run-time value the first literal that it stands for.
        source: the text with run-time values; empty until it is asked for.
    """

    def __init__(self, literals: tuple[int, ...], round: int, pieces: tuple[Piece, ...] = ()) -> None:
        self.round = round
        self.own: set[tuple[int, ...]] = set()
        self.places: list[int | None] = [None] * len(literals)
        self.varying: list[int] = []
        self.source = ""
        self._samples = [literals]
        self._seen: set[tuple[int, ...]] = set()
        self._pieces = pieces

    def patience(self) -> int:
        """Return in how many rounds a plan must run again before its sizes count as there to stay: more where sizes are many."""
        return SETTLED_ROUNDS + len(self._seen) // SIZES_PER_ROUND

    def admit(self, literals: tuple[int, ...]) -> None:
        """Change the places so that they suit these literals, too."""
        if len(self._seen) < _MOST_COUNTED:
            self._seen.add(literals)
        values = [literals[index] for index in self.varying]
        if any(
            value != (constant if place is None else values[place])
            for value, constant, place in zip(literals, self._samples[0], self.places, strict=True)
        ):
            self._samples.append(literals)
            self.group()

    def group(self) -> None:
        """Give literals that were equal to each other in every sample one place; where all get one, only those of the same role."""
        roles = _roles(self._pieces)
        numbers: dict[tuple[tuple[int, ...], str], int] = {}
        self.varying = []
        self.source = ""
        for index, seen in enumerate(zip(*self._samples, strict=True)):
            if len(set(seen)) == 1 and not (roles and 0 <= seen[0] <= _LARGEST):
                self.places[index] = None
                continue
            key = seen, roles[index] if roles else ""
            if key not in numbers:
                numbers[key] = len(numbers)
                self.varying.append(index)
            self.places[index] = numbers[key]
        if roles and len(self.varying) > MOST_SIZES:
            self._pieces = ()
            self.group()


def _roles(pieces: tuple[Piece, ...]) -> list[str]:
    """Return what stands around each size of a text, without the numbers of names."""
    texts = ["", *[_DIGITS.sub("", each) if isinstance(each, str) else each.type for each in pieces], ""]
    sizes = [at for at, each in enumerate(pieces) if isinstance(each, Size)]
    return [f"{texts[at][-_BEFORE:]}|{texts[at + 2][:_BEHIND]}" for at in sizes]


def _with_places(pieces: tuple[Piece, ...], places: list[int | None]) -> str:
    """Return the text in which sizes that have a place are read there."""
    place = iter(places)
    texts: list[str] = []
    for each in pieces:
        if isinstance(each, str):
            texts.append(each)
            continue
        at = next(place)
        texts.append(spelled(each) if at is None else read_at(at, each.type))
    return "".join(texts)
