"""What kernels of attention share: products and sums as contractions, and how results leave, at once or in parts."""

from __future__ import annotations

from webgpu_torch_core.ir.dtypes import float32
from webgpu_torch_core.ir.expression import Expression
from webgpu_torch_core.ir.kernels import Attention, Contraction, WeightedSum
from webgpu_torch_core.ir.layouts import number_of_elements
from webgpu_torch_core.ir.reindexing import reindex

from ..program import Capabilities, Pass, Program
from .access import LANES, Buffers, evaluate
from .ir import Call, Literal, Node, choose, fixed
from .module import LINEAR_GROUP, THREAD, Module, split_index
from .steps import spell
from .workgroup import Partials

_WORKGROUP = 64
#: parts that a thread reads at once: it waits for memory once for all of them
_SEVERAL = (8, 6, 4, 3, 2, 1)
#: what parts that a second pass adds cost: dispatches, most of it the host's time for one more pass and its buffers
SPLITTING = 5
#: the lowest float32 number
LOWEST = -3.4028234663852886e38


def vector_dimension(kernel: Attention, along: str) -> int | None:
    """Return the dimension of which four neighbouring positions of a sum are stored at once; None where that does not go."""
    sizes = kernel.k if along == "k" else kernel.v
    count = len(kernel.batch) + len(kernel.m) + len(kernel.k) + (len(kernel.v) if along == "v" else 0)
    return count - 1 if sizes and sizes[-1] % LANES == 0 else None


def store_sum(
    module: Module, kernel: Attention, total: WeightedSum, batch: list[Node], row: Node, column: Node, values: list[Node]
) -> None:  # fmt: skip
    """Write the store of neighbouring positions of a sum."""
    coordinates = batch + split_index(module, row, kernel.m)
    if total.along == "v":
        coordinates += [fixed(0)] * len(kernel.k)
    coordinates += split_index(module, column, kernel.k if total.along == "k" else kernel.v)
    buffers = Buffers(module, vector_dimension(kernel, total.along) if len(values) > 1 else None)
    found = evaluate(buffers, [total.store.value], coordinates, len(values), accumulators=values)
    buffers.store(total.store, [lane[0] for lane in found], coordinates)


def store_row(module: Module, kernel: Attention, batch: list[Node], row: Node, top: Node, total: Node) -> None:
    """Write the stores of a row, from its largest score and the sum of its weights relative to that."""
    buffers, coordinates = Buffers(module), batch + split_index(module, row, kernel.m)
    nothing = total <= Literal(0.0, "f32")
    logarithm = choose(nothing, -Call("wt_inf", (), "f32"), top + spell("log", "f32", [total]))
    found = evaluate(buffers, [store.value for store in kernel.row_stores], coordinates, 1, accumulators=[logarithm])
    for store, value in zip(kernel.row_stores, found[0], strict=True):
        buffers.store(store, [value], coordinates)


def as_contraction(
    kernel: Attention, rows: str, columns: str, depth: str, left: Expression, right: Expression
) -> Contraction:
    """Return a product or sum as a contraction over the same operands."""
    old: dict[str, list[int]] = {}
    position = 0
    for name in kernel.dimension_groups:
        old[name] = list(range(position, position + len(getattr(kernel, name))))
        position += len(getattr(kernel, name))
    terms = tuple(((each, 1),) for name in ("batch", rows, columns, depth) for each in old[name])
    sizes = [getattr(kernel, name) for name in ("batch", rows, columns, depth)]
    return Contraction(
        kernel.operands, kernel.outputs, kernel.parameters, kernel.name, *sizes, reindex(left, terms), reindex(right, terms),
        float32, (),
    )  # fmt: skip


class Parts:
    """What workgroups that share a row's columns leave of an attention with one sum: ``[split, batch, m]`` of it, and of the state."""

    def __init__(self, kernel: Attention, splits: int) -> None:
        self.kernel, self.splits = kernel, splits
        self.batch, self.m = number_of_elements(kernel.batch), number_of_elements(kernel.m)
        self.width = number_of_elements(kernel.k if kernel.sums[0].along == "k" else kernel.v)
        self._partials = Partials()
        self._states = self._partials.records(splits * self.batch * self.m, "f32", "f32")
        self._sums = self._partials.records(splits * self.batch * self.m * self.width, "f32")

    def _row(self, split: Node, batch: Node, row: Node) -> Node:
        return (split * self.batch + batch) * self.m + row

    def write_sum(self, module: Module, split: Node, batch: Node, row: Node, column: Node, values: list[Node]) -> None:
        """Write the stores of neighbouring positions of a part."""
        start = module.body.let(module.fresh("part"), self._row(split, batch, row) * self.width + column)
        for lane, value in enumerate(values):
            self._sums.write(module, start + fixed(lane) if lane else start, [value])

    def write_row(self, module: Module, split: Node, batch: Node, row: Node, top: Node, total: Node) -> None:
        """Write the stores of a row's state."""
        self._states.write(module, self._row(split, batch, row), [top, total])

    def _read_part(
        self, module: Module, split: Node, batch: Node, row: Node, column: Node, lanes: int
    ) -> list[Node]:  # fmt: skip
        """Write the loads of a part: its row's state, and neighbouring positions of its sum."""
        at = module.body.let(module.fresh("at"), self._row(split, batch, row))
        found = self._states.read(module, at)
        for lane in range(lanes):
            found += self._sums.read(module, at * self.width + column + fixed(lane))
        return [module.body.let(module.fresh("read"), each) for each in found]

    def program(self, kernel: Attention, capabilities: Capabilities, first: Pass) -> Program:
        """Return the program whose first pass leaves the parts."""
        module = Module(kernel, capabilities)
        body, total = module.body, kernel.sums[0]
        lanes = LANES if vector_dimension(kernel, total.along) is not None else 1
        workgroup = min(_WORKGROUP, capabilities.invocations)
        count = self.batch * self.m * self.width
        element = body.let("element", (LINEAR_GROUP * workgroup + THREAD) * lanes)
        body.leave(element >= count)
        column, flat = body.let("column", element % self.width), body.let("flat", element // self.width)
        row, batch = body.let("row", flat % self.m), body.let("batch", flat // self.m)
        top = body.var("top", Literal(LOWEST, "f32"))
        several = next(each for each in _SEVERAL if self.splits % each == 0)
        weights = body.var("weights", Literal(0.0, "f32"))
        sums = [body.var(f"sum{lane}", Literal(0.0, "f32")) for lane in range(lanes)]
        with body.loop("part", fixed(0), lambda part: part < self.splits, fixed(several)) as part:
            read = [
                self._read_part(module, part + fixed(each) if each else part, batch, row, column, lanes)
                for each in range(several)
            ]
            largest: Node = top
            for own, *_ in read:
                largest = Call("max", (largest, own), "f32")
            largest = body.let("largest", largest)
            shrink = body.let("shrink", spell("exp", "f32", [top - largest]))
            body.set(top, largest)
            for each in (weights, *sums):
                body.set(each, each * shrink)
            for own, weight, *values in read:
                share = body.let(module.fresh("share"), spell("exp", "f32", [own - largest]))
                body.set(weights, weights + weight * share)
                for each, value in zip(sums, values, strict=True):
                    body.set(each, each + value * share)
        least = Call("max", (weights, Literal(1e-37, "f32")), "f32")
        coordinates = split_index(module, batch, kernel.batch)
        store_sum(module, kernel, total, coordinates, row, column, [each // least for each in sums])
        if kernel.row_stores:
            with body.when(column.equals(fixed(0))):
                store_row(module, kernel, coordinates, row, top, weights)
        second = module.finish(workgroup, -(-count // (lanes * workgroup)), " (sum of parts)")
        return Program((first, second), (self._partials.nbytes,))
