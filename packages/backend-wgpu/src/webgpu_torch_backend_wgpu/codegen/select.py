"""The first few of a row in its order, without sorting the row: a workgroup per row, each thread with some keys in registers.

The last key that belongs to them is found two bits at a time, by counting the keys below three candidates; among equal keys
the last position is found the same way. What is not behind these two is gathered and sorted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from webgpu_torch_core.ir.kernels import Sort
from webgpu_torch_core.ir.layouts import number_of_elements

from ..program import Capabilities, Program
from .ir import Name, Node, choose, every, fixed, u32
from .module import LINEAR_GROUP, THREAD, Module
from .sort import KernelSorter
from .sort_block import Block
from .types import element_type
from .workgroup import AtomicWords

#: keys of a thread: as many as make a workgroup small, and the most there may be
FEW_KEYS, MOST_KEYS = 16, 32
#: most elements of a row that are selected: they are sorted by one workgroup
MOST_SELECTED = 512
#: bits that are decided at a time
_BITS = 2
#: how many threads add up the counts of the others
_ADDERS = 16


class Selection(NamedTuple):
    """How rows are selected from: the threads of a row, the keys of each, and the selected ones up to a power of two."""

    rows: int
    threads: int
    keys: int
    padded: int


def selection_of(kernel: Sort, capabilities: Capabilities) -> Selection | None:
    """Return how the first ones of rows are selected, None where sorting the rows is the better way."""
    rows, length = number_of_elements(kernel.shape[:-1]), kernel.shape[-1]
    single = element_type(kernel.value.dtype.name, capabilities).scalar not in ("i64", "vec2<u32>")
    if not single or kernel.limit > MOST_SELECTED or kernel.limit * 4 > length:
        return None
    threads = 4 * _ADDERS
    while threads * FEW_KEYS < length and threads * 2 <= min(capabilities.invocations, 1024):
        threads *= 2
    padded = 1
    while padded < kernel.limit:
        padded *= 2
    keys = -(-length // threads)
    fits = (
        keys <= MOST_KEYS
        and Block.nbytes("u32", padded) + 4 * (2 * threads + 2 * _ADDERS + 1) <= capabilities.workgroup_bytes
    )
    return Selection(rows, threads, keys, padded) if fits and threads <= capabilities.invocations else None


def generate_selection(kernel: Sort, capabilities: Capabilities, plan: Selection) -> Program:
    """Return the program that finds and sorts the first of each row."""
    sorter = KernelSorter(kernel, capabilities)
    module, body = sorter.module, sorter.module.body
    row = body.let("row", LINEAR_GROUP)
    writer = _Writer(sorter, plan, row, kernel.shape[-1])
    writer.gather(kernel.limit)
    sorter.block.sort(plan.padded, plan.threads)
    with body.loop("e", THREAD, lambda e: e < kernel.limit, plan.threads) as e, body.when(row < plan.rows):
        sorter.emit(row, e, body.let("its_place", sorter.block.place(e)))
    return Program((module.finish(plan.threads, plan.rows),), ())


class _Writer:
    """The pass under construction, with the keys of a thread in variables."""

    def __init__(self, sorter: KernelSorter, plan: Selection, row: Node, length: int) -> None:
        self.sorter, self.plan = sorter, plan
        self.module: Module = sorter.module
        self.body = body = self.module.body
        self.counts = [self.module.array(f"counts{part}", "u32", plan.threads) for part in range(2)]
        self.sums = [self.module.array(f"sums{part}", "u32", _ADDERS) for part in range(2)]
        self.filled = AtomicWords(self.module, "filled", 1)
        sorter.block = Block(self.module, "u32", plan.padded)
        self.keys: list[tuple[Name, Node]] = []
        for number in range(plan.keys):
            place = body.let(self.module.fresh("place"), u32(number * plan.threads) + THREAD)
            key = body.var(self.module.fresh("key"), fixed(0xFFFFFFFF))
            with body.when(every(row < plan.rows, place < length)):
                body.set(key, sorter.key(body.let(self.module.fresh("value"), sorter.element(row, place))))
            self.keys.append((key, place))

    def gather(self, limit: int) -> None:
        """Write the statements that put the first ones and their places into workgroup memory, in any order."""
        body, plan, sorter = self.body, self.plan, self.sorter
        with body.when(THREAD.equals(fixed(0))):
            self.filled.write(fixed(0), fixed(0))
        with body.loop("e", THREAD, lambda e: e < plan.padded, plan.threads) as e:
            body.set(sorter.block.key(e), fixed(0xFFFFFFFF))
            body.set(sorter.block.place(e), fixed(0xFFFFFFFF))
        last = self._last("last_key", 32, u32(limit), lambda key, place, bound: key < bound)
        before = self._count([last], lambda key, place, bound: key < bound)[0]
        wanted = body.let("wanted", u32(limit) - before)
        bits = (plan.threads * plan.keys - 1).bit_length()
        last_place = self._last(
            "last_place", bits, wanted, lambda key, place, bound: key.equals(last) & (place < bound)
        )
        for key, place in self.keys:
            with body.when((key < last) | (key.equals(last) & (place <= last_place))):
                to = body.let("to", self.filled.add(fixed(0), fixed(1)))
                body.set(sorter.block.key(to), key)
                body.set(sorter.block.place(to), place)
        body.barrier()

    def _last(self, name: str, bits: int, wanted: Node, below: Callable[[Node, Node, Node], Node]) -> Name:
        """Return the greatest number of ``bits`` bits that fewer than ``wanted`` keys are below."""
        body = self.body
        rounds = -(-bits // _BITS)
        found = body.var(name, fixed(0))
        with body.loop("round", fixed(0), lambda each: each < fixed(rounds), fixed(1)) as each:
            shift = body.let("shift", fixed((rounds - 1) * _BITS) - each * fixed(_BITS))
            bounds = [body.let(f"bound{part}", found | (fixed(part) << shift)) for part in range(1, 1 << _BITS)]
            totals = self._count(bounds, below)
            for bound, total in zip(bounds, totals, strict=True):
                with body.when(total < wanted):
                    body.set(found, bound)
        return found

    def _count(self, bounds: list[Name], below: Callable[[Node, Node, Node], Node]) -> list[Node]:
        """Return how many keys of the row are below each of up to four bounds; every thread takes part."""
        body, plan = self.body, self.plan
        own = [body.var(self.module.fresh("own"), fixed(0)) for _ in bounds]
        for key, place in self.keys:
            for count, bound in zip(own, bounds, strict=True):
                body.set(count, count + choose(below(key, place, bound), fixed(1), fixed(0)))
        # Two counts share a word: a row has fewer than 2**16 elements.
        words: list[Node] = [
            own[at] | (own[at + 1] << fixed(16)) if at + 1 < len(own) else own[at] for at in range(0, len(own), 2)
        ]
        for array, word in zip(self.counts, words, strict=False):
            body.set(array[THREAD], word)
        body.barrier()
        with body.when(THREAD < fixed(_ADDERS)):
            for array, sums, _ in zip(self.counts, self.sums, words, strict=False):
                total = body.var(self.module.fresh("sum"), fixed(0))
                with body.loop("t", THREAD, lambda t: t < plan.threads, fixed(_ADDERS)) as t:
                    body.set(total, total + array[t])
                body.set(sums[THREAD], total)
        body.barrier()
        result: list[Node] = []
        for sums, _ in zip(self.sums, words, strict=False):
            total = sums[0]
            for number in range(1, _ADDERS):
                total = total + sums[number]
            named = body.let(self.module.fresh("total"), total)
            result += [named & fixed(0xFFFF), named >> 16]
        return [body.let(self.module.fresh("below"), each) for each in result[: len(bounds)]]
