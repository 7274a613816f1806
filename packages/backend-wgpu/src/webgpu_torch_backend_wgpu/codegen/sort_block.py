"""Sorting keys with their places in workgroup memory: bitonic networks (K. Batcher, 1968).

A thread does several steps of the network at a time on keys in registers, so memory is read and written less often: all the
first ones on keys side by side, whose directions are known, and then a few at a time.
"""

from __future__ import annotations

from ..program import Capabilities
from .ir import Array, Call, Name, Node, choose, fixed
from .module import THREAD, Module
from .workgroup import type_words

#: steps of the network that a thread does in registers: of many keys, of few, and where the host computes, which compiles short
#: kernels faster
_STEPS, _STEPS_OF_FEW, _STEPS_OF_HOST = 4, 3, 3
#: behind so many words a word is left out: keys a power of two apart lie in different banks
_BANKS = 32


def steps_together(capabilities: Capabilities) -> int:
    """Return how many steps of the network a thread does in registers: the keys that meet in them are its own meanwhile."""
    return _STEPS_OF_HOST if capabilities.software else _STEPS


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
        body, together = self.module.body, steps_together(self.module.capabilities)
        if self.total < threads << together:
            # Few keys would keep few threads busy.
            together = min(together, _STEPS_OF_FEW)
        behind(self.module, self.keys.type)
        first = min(together, padded.bit_length() - 1)
        if first:
            self._first(first, padded, threads)
            body.barrier()
        with body.loop("size", fixed(2 << first), lambda size: size <= padded, fixed(2), "*=") as size:
            top = 1 << (together - 1)
            with body.loop(
                "distance", size // fixed(2), lambda each: each >= fixed(top), fixed(2 * top), "/="
            ) as distance:
                self._steps(together, size, distance // fixed(top), padded, threads)
                body.barrier()
            left = body.let("left", Call("countTrailingZeros", (size,), "u32") % fixed(together))
            for steps in range(1, together):
                with body.when(left.equals(fixed(steps))):
                    self._steps(steps, size, fixed(1), padded, threads)
            body.barrier()

    def _first(self, steps: int, padded: int, threads: int) -> None:
        """Write the sort of runs of ``2**steps`` keys side by side, every other one falling: a thread has all keys of its own."""
        body, count = self.module.body, 1 << steps
        with body.loop("e", THREAD, lambda e: e < self.total // count, threads) as e:
            first = body.let("first", e * fixed(count))
            last = body.let("rising", ((first % padded) & fixed(count)).equals(fixed(0)))
            spots, keys, places = self._read(first, fixed(1), count)
            for size in range(1, steps + 1):
                for step in reversed(range(size)):
                    for left in range(count):
                        if not left >> step & 1:
                            rising = last if size == steps else not left >> size & 1
                            self._exchange(keys, places, left, left + (1 << step), rising)
            self._write(spots, keys, places)

    def _steps(self, steps: int, size: Node, lowest: Node, padded: int, threads: int) -> None:
        """Write some steps of the network, the last over the distance ``lowest``: a thread takes the keys that meet in them."""
        body, count = self.module.body, 1 << steps
        with body.loop("e", THREAD, lambda e: e < self.total // count, threads) as e:
            # Distances are powers of two.
            inside = body.let("inside", e & (lowest - fixed(1)))
            first = body.let("first", (e - inside) * fixed(count) + inside)
            rising = body.let("rising", ((first % padded) & size).equals(fixed(0)))
            spots, keys, places = self._read(first, lowest, count)
            for step in reversed(range(steps)):
                for left in range(count):
                    if not left >> step & 1:
                        self._exchange(keys, places, left, left + (1 << step), rising)
            self._write(spots, keys, places)

    def _read(self, first: Name, distance: Node, count: int) -> tuple[list[Name], list[Name], list[Name]]:
        """Write the loads of so many keys at a distance; return where they are, and variables with keys and places."""
        body = self.module.body
        spots = [body.let(f"spot{each}", first + fixed(each) * distance if each else first) for each in range(count)]
        keys = [body.var(f"key{each}", self.key(spot)) for each, spot in enumerate(spots)]
        return spots, keys, [body.var(f"place{each}", self.place(spot)) for each, spot in enumerate(spots)]

    def _write(self, spots: list[Name], keys: list[Name], places: list[Name]) -> None:
        """Write the stores of keys and their places."""
        for spot, key, place in zip(spots, keys, places, strict=True):
            self.module.body.set(self.key(spot), key)
            self.module.body.set(self.place(spot), place)

    def _exchange(self, keys: list[Name], places: list[Name], left: int, right: int, rising: Node | bool) -> None:
        """Write the exchange of two keys that are not in order; ``rising``: the order, which may be known beforehand."""
        body = self.module.body
        x, y, a, b = (body.let(self.module.fresh("x"), each[at]) for each in (keys, places) for at in (left, right))
        if rising is False:
            wrong: Node = Call("behind", (y, b, x, a), "bool")
        else:
            wrong = Call("behind", (x, a, y, b), "bool")
        swaps = body.let(self.module.fresh("swaps"), wrong if isinstance(rising, bool) else wrong.equals(rising))
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
