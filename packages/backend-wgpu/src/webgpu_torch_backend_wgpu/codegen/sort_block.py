"""Sorting keys with their places in workgroup memory: bitonic networks (K. Batcher, 1968).

A thread does three steps of the network at a time on eight keys in registers, so memory is read and written a third as often.
"""

from __future__ import annotations

from .ir import Array, Call, Name, Node, choose, fixed
from .module import THREAD, Module
from .workgroup import type_words

#: steps of the network that a thread does in registers, and the keys that meet in them
STEPS = 3
KEYS = 1 << STEPS
#: behind so many words a word is left out: keys a power of two apart lie in different banks
_BANKS = 32


class Block:
    """Keys of a type (u32, or vec2<u32> with the low word first) and their places, in workgroup memory."""

    def __init__(self, module: Module, kind: str, total: int) -> None:
        self.module = module
        self.total = total
        size = _spread(total)
        self.keys, self.places = module.array("keys", kind, size), module.array("places", "u32", size)

    @staticmethod
    def nbytes(kind: str, total: int) -> int:
        """Return the workgroup memory that a block takes."""
        return 4 * (type_words(kind) + 1) * _spread(total)

    def key(self, at: Node) -> Node:
        """Return the key at a place of the block, to be read or set."""
        return _element(self.keys, at)

    def place(self, at: Node) -> Node:
        """Return where the key at a place of the block came from, to be read or set."""
        return _element(self.places, at)

    def sort(self, padded: int, threads: int) -> None:
        """Write the sort of runs of ``padded`` keys, a power of two. All threads are past a barrier before and after it."""
        body = self.module.body
        behind(self.module, self.keys.type)
        with body.loop("size", fixed(2), lambda size: size <= padded, fixed(2), "*=") as size:
            top = 1 << (STEPS - 1)
            with body.loop(
                "distance", size // fixed(2), lambda each: each >= fixed(top), fixed(2 * top), "/="
            ) as distance:
                self._steps(STEPS, size, distance // fixed(top), padded, threads)
                body.barrier()
            left = body.let("left", Call("countTrailingZeros", (size,), "u32") % fixed(STEPS))
            for steps in range(1, STEPS):
                with body.when(left.equals(fixed(steps))):
                    self._steps(steps, size, fixed(1), padded, threads)
            body.barrier()

    def _steps(self, steps: int, size: Node, lowest: Node, padded: int, threads: int) -> None:
        """Write some steps of the network, the last over the distance ``lowest``: a thread takes the keys that meet in them."""
        body, count = self.module.body, 1 << steps
        with body.loop("e", THREAD, lambda e: e < self.total // count, threads) as e:
            first = body.let("first", (e // lowest) * lowest * fixed(count) + e % lowest)
            rising = body.let("rising", ((first % padded) & size).equals(fixed(0)))
            spots = [body.let(f"spot{each}", first + fixed(each) * lowest if each else first) for each in range(count)]
            keys = [body.var(f"key{each}", self.key(spot)) for each, spot in enumerate(spots)]
            places = [body.var(f"place{each}", self.place(spot)) for each, spot in enumerate(spots)]
            for step in reversed(range(steps)):
                for left in range(count):
                    if not left >> step & 1:
                        self._exchange(keys, places, left, left + (1 << step), rising)
            for spot, key, place in zip(spots, keys, places, strict=True):
                body.set(self.key(spot), key)
                body.set(self.place(spot), place)

    def _exchange(self, keys: list[Name], places: list[Name], left: int, right: int, rising: Node) -> None:
        """Write the exchange of two keys that are not in order."""
        body = self.module.body
        x, y, a, b = (body.let(self.module.fresh("x"), each[at]) for each in (keys, places) for at in (left, right))
        swaps = body.let(self.module.fresh("swaps"), Call("behind", (x, a, y, b), "bool").equals(rising))
        for names, one, other in ((keys, x, y), (places, a, b)):
            body.set(names[left], choose(swaps, other, one))
            body.set(names[right], choose(swaps, one, other))


def _spread(total: int) -> int:
    return total + total // _BANKS


def _element(array: Array, at: Node) -> Node:
    return array[at + (at >> (_BANKS.bit_length() - 1))]


def behind(module: Module, kind: str) -> None:
    """Declare the function ``behind`` that tells whether (key x, place a) belongs behind (y, b)."""
    parameters = {"x": kind, "a": "u32", "y": kind, "b": "u32"}
    with module.function("behind", parameters, "bool") as (x, a, y, b):
        if kind == "vec2<u32>":
            module.body.leave(x.lane(1).differs(y.lane(1)), x.lane(1) > y.lane(1))
            x, y = x.lane(0), y.lane(0)
        module.body.leave(value=(x > y) | (x.equals(y) & (a > b)))
