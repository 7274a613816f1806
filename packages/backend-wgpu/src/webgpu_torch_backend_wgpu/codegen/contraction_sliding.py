"""Contractions of few channels whose sides slide: neighbouring results read nearly the same elements, as in a convolution.

A thread sums several neighbouring results, and reads what they share once: of a window of seven, four neighbours read ten
elements instead of 28, and their other factors, a filter, are read once for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from webgpu_torch_core.ir.dtypes import int32
from webgpu_torch_core.ir.expression import Expression, constant, make, rewrite
from webgpu_torch_core.ir.kernels import Contraction
from webgpu_torch_core.ir.layouts import number_of_elements
from webgpu_torch_core.ir.records import Record

from ..facts import Facts
from ..program import Capabilities, Program
from .access import Buffers, evaluate
from .contraction_each import has_few_channels, store_sum
from .contraction_window import Split, sorted_sums, split_value
from .ir import Name, Node, fixed, minimum, zero
from .module import LINEAR_GROUP, THREAD, Module, split_index

#: how many neighbours a thread may sum, and most products that are written out for them
_NEIGHBOURS, _WRITTEN_OUT = (4, 2), 128
#: how far along the window its neighbour may be
_STEPS = (1, -1, 2, -2)
#: operations that an element takes with its place and tests, and a factor that all threads read alike
_ELEMENT, _FACTOR = 24, 6
#: the share of the memory's bandwidth that is reached, and of the operations
_BANDWIDTH, _OPERATIONS = 0.9, 0.8


class Sliding(Record):
    """A variant: a thread sums ``count`` neighbours along the last dimension of a group, the element of the next one being
    ``step`` further along the last dimension of the depth.

    Fields:
        group: ``"m"`` or ``"n"``, whose side slides.
    """

    __slots__ = fields = ("group", "count", "step")
    group: str
    count: int
    step: int


def sliding(kernel: Contraction, capabilities: Capabilities) -> Iterator[Sliding]:
    """Yield how many neighbours a thread may sum, where a side slides along its last dimension."""
    if capabilities.software or not has_few_channels(kernel) or not kernel.k:
        return
    for group in ("n", "m"):
        own = getattr(kernel, group)
        step = _step(kernel, group) if own else None
        if step is not None:
            for count in _NEIGHBOURS:
                if count <= own[-1] and count * kernel.k[-1] <= _WRITTEN_OUT:
                    yield Sliding(group, count, step)


@lru_cache(256)
def _step(kernel: Contraction, group: str) -> int | None:
    """Return how far along the depth's last dimension what the next result reads lies; None where it lies elsewhere."""
    value = kernel.right if group == "n" else kernel.left
    own = _place(kernel, group)
    beside = _moved(value, own, 1)
    depth = _place(kernel, "k")
    if beside is _moved(value, own, 0):
        return None
    return next((each for each in _STEPS if _moved(value, depth, each) is beside), None)


def _place(kernel: Contraction, group: str) -> int:
    """Return the last dimension of a group."""
    names = kernel.dimension_groups
    return sum(len(getattr(kernel, each)) for each in names[: names.index(group) + 1]) - 1


def _moved(value: Expression, dimension: int, by: int) -> Expression:
    """Return an expression at another place along a dimension, its sums in one order."""

    def move(node: Expression, _: tuple[Expression, ...]) -> Expression | None:
        if node.step == "coordinate" and node.payload == dimension:
            return node + constant(by, int32)
        if node.step == "load":
            operand, offset, strides = node.payload
            if len(strides) > dimension and strides[dimension]:
                return make("load", (), (operand, offset + by * strides[dimension], strides), node.dtype)
        return None

    return sorted_sums(rewrite(value, move))


def sliding_seconds(kernel: Contraction, plan: Sliding, facts: Facts) -> float:
    """Return an estimate of the time that threads take for several neighbours each."""
    own = getattr(kernel, plan.group)
    groups = number_of_elements(kernel.batch + kernel.m + kernel.n) // own[-1] * -(-own[-1] // plan.count)
    width = kernel.k[-1]
    elements = width + abs(plan.step) * (plan.count - 1)
    work = number_of_elements(kernel.k[:-1]) * (2 * width * plan.count + elements * _ELEMENT + width * _FACTOR)
    seconds = max(groups, facts.threads) * work / (facts.flops * _OPERATIONS)
    return max(kernel.nbytes() / (facts.bandwidth * _BANDWIDTH), seconds)


def generate_sliding(kernel: Contraction, capabilities: Capabilities, plan: Sliding) -> Program:
    """Return the program in which a thread sums some neighbours, each in the order of the depth."""
    return _Writer(kernel, capabilities, plan).program()


class _Writer:
    """Writes the kernel."""

    def __init__(self, kernel: Contraction, capabilities: Capabilities, plan: Sliding) -> None:
        self.kernel, self.plan = kernel, plan
        self.module = Module(kernel, capabilities)
        self.body, self.buffers = self.module.body, Buffers(self.module)
        slides, other = (kernel.right, kernel.left) if plan.group == "n" else (kernel.left, kernel.right)
        count = _place(kernel, "n") + 1
        split: Split = split_value(slides, frozenset(range(count)), frozenset(range(count, count + len(kernel.k))))
        self.slides, self.other = split.value, other
        self.place = _place(kernel, plan.group)

    def program(self) -> Program:
        """Return the program."""
        kernel, plan, body = self.kernel, self.plan, self.body
        sizes = [*kernel.batch, *kernel.m, *kernel.n]
        width = sizes[self.place]
        sizes[self.place] = -(-width // plan.count)
        count = number_of_elements(tuple(sizes))
        i = body.let("i", LINEAR_GROUP * self.module.workgroup + THREAD)
        body.leave(i >= count)
        coordinates = self._coordinates(i, sizes)
        first = body.let("first", coordinates[self.place] * fixed(plan.count))
        # The last group of a row begins earlier, so that all it reads is there; what is another's it does not store.
        start = body.let("start", minimum(first, width - plan.count)) if width % plan.count else first
        coordinates[self.place] = start
        totals = [body.var(f"total{each}", zero("f32"), "f32") for each in range(plan.count)]
        outer = kernel.k[:-1]
        with body.loop("deep", fixed(0), lambda deep: deep < number_of_elements(outer), fixed(1)) as deep:
            self._add(totals, [*coordinates, *split_index(self.module, deep, outer)])
        for each, total in enumerate(totals):
            own = body.let(self.module.fresh("own"), start + fixed(each))
            with body.when(own >= first if width % plan.count else None):
                store_sum(
                    self.buffers, kernel, [*coordinates[: self.place], own, *coordinates[self.place + 1 :]], total
                )
        return Program((self.module.finish(self.module.workgroup, -(-count // self.module.workgroup)),), ())

    def _coordinates(self, i: Node, sizes: list[int]) -> list[Node]:
        """Return which results a thread has: neighbouring threads store beside each other, if they can."""
        order = list(range(len(sizes)))
        strides = self.kernel.stores[0].strides
        order.sort(key=lambda each: strides[each] == 1 and sizes[each] > 1)
        found = split_index(self.module, i, tuple(sizes[each] for each in order))
        return [found[order.index(each)] for each in range(len(sizes))]

    def _add(self, totals: list[Name], coordinates: list[Node]) -> None:
        """Write the products of one line of the windows."""
        plan, width = self.plan, self.kernel.k[-1]
        reach = plan.step * (plan.count - 1)
        elements = {
            place: evaluate(self.buffers, (self.slides,), [*coordinates, fixed(place % (1 << 32))])[0][0]
            for place in range(min(reach, 0), width + max(reach, 0))
        }
        for place in range(width):
            factor = evaluate(self.buffers, (self.other,), [*coordinates, fixed(place)])[0][0]
            for each, total in enumerate(totals):
                self.body.set(total, total + elements[place + each * plan.step] * factor)
