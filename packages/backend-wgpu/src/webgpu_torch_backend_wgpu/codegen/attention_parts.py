"""What kernels of attention share: products and sums as contractions, and how results leave, at once or in parts."""

from __future__ import annotations

from webgpu_torch_core.ir.dtypes import float32
from webgpu_torch_core.ir.expression import Expression
from webgpu_torch_core.ir.kernels import Attention, Contraction, WeightedSum
from webgpu_torch_core.ir.layouts import number_of_elements
from webgpu_torch_core.ir.reindexing import reindex

from ..program import Capabilities, Pass, Program
from .access import LANES, Buffers, evaluate
from .ir import Array, Call, Literal, Node, choose, fixed, minimum, u32
from .module import LINEAR_GROUP, THREAD, Module, split_index
from .steps import spell
from .workgroup import Partials

_WORKGROUP = 64
#: parts that a thread reads at once: it waits for memory once for all of them
_SEVERAL = 16
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
        self._sums = self._partials.records(splits * self.batch * self.m * self.width, "f32")
        self._states = self._partials.records(splits * self.batch * self.m, "f32", "f32")

    def _row(self, split: Node, batch: Node, row: Node) -> Node:
        return (split * self.batch + batch) * self.m + row

    def write_sum(self, module: Module, split: Node, batch: Node, row: Node, column: Node, values: list[Node]) -> None:
        """Write the stores of neighbouring positions of a part."""
        start = module.body.let(module.fresh("part"), self._row(split, batch, row) * self.width + column)
        self._sums.write_neighbours(module, start, values)

    def write_row(self, module: Module, split: Node, batch: Node, row: Node, top: Node, total: Node) -> None:
        """Write the stores of a row's state."""
        self._states.write(module, self._row(split, batch, row), [top, total])

    def program(self, kernel: Attention, capabilities: Capabilities, first: Pass) -> Program:
        """Return the program whose first pass leaves the parts; in the second, threads of a row find together what each part counts."""
        module = Module(kernel, capabilities)
        body, total = module.body, kernel.sums[0]
        lanes = LANES if vector_dimension(kernel, total.along) is not None else 1
        threads = min(-(-self.width // lanes), capabilities.invocations)
        rows = max(_WORKGROUP // threads, 1)
        slot, own = body.let("slot", THREAD // fixed(threads)), body.let("own", THREAD % fixed(threads))
        number = body.let("number", LINEAR_GROUP * rows + slot)
        flat = body.let("flat", minimum(number, self.batch * self.m - 1))
        row, batch = body.let("row", flat % self.m), body.let("batch", flat // self.m)
        base = body.let("base", slot * u32(self.splits))
        counts = module.array("counts", "f32", rows * self.splits)
        top, weights = self._count(module, counts, base, batch, row, own, threads)
        coordinates = split_index(module, batch, kernel.batch)
        with body.when(number < self.batch * self.m):
            with body.loop("column", own * fixed(lanes), lambda at: at < self.width, fixed(threads * lanes)) as column:
                sums = self._sum(module, counts, base, batch, row, column, lanes)
                least = Call("max", (weights, Literal(1e-37, "f32")), "f32")
                store_sum(module, kernel, total, coordinates, row, column, [each // least for each in sums])
            if kernel.row_stores:
                with body.when(own.equals(fixed(0))):
                    store_row(module, kernel, coordinates, row, top, weights)
        second = module.finish(threads * rows, -(-self.batch * self.m // rows), " (sum of parts)")
        return Program((first, second), (self._partials.nbytes,))

    def _count(
        self, module: Module, counts: Array, base: Node, batch: Node, row: Node, own: Node, threads: int
    ) -> tuple[Node, Node]:
        """Write what each part of a row counts into workgroup memory from ``base`` on; return the row's largest score and the sum of its
        weights."""
        body, fresh = module.body, module.fresh
        tops, each_weight = (module.array(name, "f32", counts.size) for name in ("tops", "weights"))
        with body.loop(fresh("part"), own, lambda part: part < self.splits, fixed(threads)) as part:
            found = self._states.read(module, body.let(fresh("at"), self._row(part, batch, row)))
            body.set(tops[base + part], found[0])
            body.set(each_weight[base + part], found[1])
        body.barrier()
        top = body.var("top", Literal(LOWEST, "f32"))
        with body.loop(fresh("part"), fixed(0), lambda part: part < self.splits, fixed(1)) as part:
            body.set(top, Call("max", (top, tops[base + part]), "f32"))
        with body.loop(fresh("part"), own, lambda part: part < self.splits, fixed(threads)) as part:
            body.set(counts[base + part], spell("exp", "f32", [tops[base + part] - top]))
        body.barrier()
        weights = body.var("weight", Literal(0.0, "f32"))
        with body.loop(fresh("part"), fixed(0), lambda part: part < self.splits, fixed(1)) as part:
            body.set(weights, weights + each_weight[base + part] * counts[base + part])
        return top, weights

    def _sum(
        self, module: Module, counts: Array, base: Node, batch: Node, row: Node, column: Node, lanes: int
    ) -> list[Node]:
        """Write the sum of neighbouring positions of all parts and return it; arguments as of :meth:`_count`."""
        body, fresh = module.body, module.fresh
        sums = [body.var(fresh("sum"), Literal(0.0, "f32")) for _ in range(lanes)]
        several = next(each for each in range(min(_SEVERAL, self.splits), 0, -1) if self.splits % each == 0)
        with body.loop(fresh("part"), fixed(0), lambda part: part < self.splits, fixed(several)) as part:
            parts = [part + fixed(each) if each else part for each in range(several)]
            places = [body.let(fresh("at"), self._row(each, batch, row) * self.width + column) for each in parts]
            read = [self._sums.read_neighbours(module, each, lanes) for each in places]
            for each, values in zip(parts, read, strict=True):
                count = body.let(fresh("count"), counts[base + each])
                for own, value in zip(sums, values, strict=True):
                    body.set(own, own + value * count)
        return [*sums]
