"""Running reductions: teams of threads scan tiles of a row, carrying the total along; few long rows are cut into chunks.

Each thread scans consecutive elements, the team scans the threads' totals by doubling (Hillis and Steele, 1986). With
chunks, a first pass leaves each chunk's total in scratch memory and the second combines those before its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from webgpu_torch_core.ir.kernels import Scan, Store
from webgpu_torch_core.ir.layouts import number_of_elements

from ..program import Capabilities, Pass, Program
from .access import Buffers, evaluate
from .combining import Combining
from .ir import Name, Node, choose, every, fixed, minimum, u32
from .module import LINEAR_GROUP, THREAD, WORKGROUP, Module, split_index
from .steps import convert
from .workgroup import Partials, Records

#: consecutive elements of a thread
ELEMENTS = 4
#: fewest tiles a chunk has, and most chunks a row is cut into
CHUNK_TILES = 4
MAXIMUM_CHUNKS = 256


def generate_scan(kernel: Scan, capabilities: Capabilities, plan: ScanPlan) -> Program:
    """Return the program of a scan whose rows each belong to one workgroup."""
    return Program((_scan_pass(kernel, capabilities, plan, None),), ())


def generate_chunked_scan(kernel: Scan, capabilities: Capabilities, plan: ScanPlan) -> Program:
    """Return the program of a scan whose rows are cut into chunks."""
    partials = Partials()
    writer = _Writer(kernel, capabilities, plan)
    totals = partials.records(plan.rows * plan.chunks, *writer.values.scalars)
    with writer.tiles():
        pass
    with writer.body.when(every(writer.valid, writer.part.equals(fixed(0)))):
        totals.write(writer.module, writer.row * plan.chunks + writer.chunk, writer.carry)
    first = writer.finish(" (totals)")
    return Program((first, _scan_pass(kernel, capabilities, plan, totals)), (partials.nbytes,))


class ScanPlan:
    """How rows are shared: ``team`` threads per row, ``together`` rows per workgroup, ``chunks`` workgroups per row."""

    def __init__(self, kernel: Scan, capabilities: Capabilities) -> None:
        self.rows, self.length = number_of_elements(kernel.shape[:-1]), kernel.shape[-1]
        self.workgroup = min(WORKGROUP, capabilities.invocations)
        self.team = 1
        while self.team < self.workgroup and self.team * ELEMENTS < self.length:
            self.team *= 2
        self.together = self.workgroup // self.team
        self.tile = self.team * ELEMENTS
        tiles = -(-self.length // self.tile)
        wanted = 1 if self.rows >= 256 else min(MAXIMUM_CHUNKS, -(-512 // self.rows), tiles // CHUNK_TILES)
        self.chunk_tiles = -(-tiles // max(wanted, 1))
        self.chunks = -(-tiles // self.chunk_tiles)


class _Writer:
    """One pass of a scan; rows behind the last repeat it without storing."""

    def __init__(self, kernel: Scan, capabilities: Capabilities, plan: ScanPlan) -> None:
        self.kernel, self.plan = kernel, plan
        self.module = module = Module(kernel, capabilities)
        self.body = body = module.body
        self.values = Combining(module, kernel.monoid)
        self.buffers = Buffers(module)
        self.arrays = [self.values.arrays(name, plan.workgroup) for name in ("first", "second")]
        self.part = body.let("part", THREAD % plan.team)
        group = body.let("group_number", LINEAR_GROUP)
        self.chunk = body.let("chunk", group % plan.chunks)
        wanted = body.let("wanted_row", (group // plan.chunks) * plan.together + THREAD // plan.team)
        self.valid = body.let("valid", wanted < plan.rows)
        self.row = body.let("row", choose(self.valid, wanted, u32(plan.rows - 1)))
        self.outer = split_index(module, self.row, kernel.shape[:-1])
        self.carry = self.values.var("carry", self.values.identity())
        #: of a thread's elements: the values scanned so far, the numbers in the row and the coordinates
        self.own: list[list[Name]] = []
        self.steps: list[Name] = []
        self.places: list[Name] = []

    @contextmanager
    def tiles(self) -> Iterator[list[Name]]:
        """Open the loop over tiles, with the scan of one; gives what comes before a thread's elements, the carry included."""
        plan, body, values = self.plan, self.body, self.values
        with body.loop("tile", fixed(0), lambda tile: tile < plan.chunk_tiles, fixed(1)) as tile:
            start = body.let("start", (self.chunk * plan.chunk_tiles + tile) * plan.tile + self.part * ELEMENTS)
            for each in range(ELEMENTS):
                self._element(each, start)
            own = values.var("own", self.own[-1])
            arrays = list(self.arrays)
            values.put(arrays[0], THREAD, own)
            body.barrier()
            distance = 1
            while distance < plan.team:
                with body.when(self.part >= distance):
                    earlier = values.let(f"w{distance}", values.get(arrays[0], THREAD - distance))
                    values.assign(own, values.combine(earlier, own))
                arrays.reverse()
                values.put(arrays[0], THREAD, own)
                body.barrier()
                distance *= 2
            before = values.var("before", self.carry)
            if plan.team > 1:
                with body.when(self.part > fixed(0)):
                    others = values.let("w", values.get(arrays[0], THREAD - fixed(1)))
                    values.assign(before, values.combine(self.carry, others))
            total = values.let("total", values.get(arrays[0], THREAD - self.part + (plan.team - 1)))
            yield before
            # The barrier keeps the next tile from overwriting what others still read.
            values.assign(self.carry, values.combine(self.carry, total))
            body.barrier()

    def _element(self, number: int, start: Node) -> None:
        body, values, length = self.body, self.values, self.plan.length
        step = body.let(f"step{number}", start + fixed(number))
        nearest = minimum(step, length - 1)
        at = body.let(f"at{number}", u32(length - 1) - nearest if self.kernel.reverse else nearest)
        ((value,),) = evaluate(self.buffers, [self.kernel.value], [*self.outer, at])
        state = values.lift(value, self.kernel.value.dtype, at)
        inside = step < length
        present = zip(state, values.identity(), strict=True)
        own = values.var(f"v{number}", [choose(inside, each, nothing) for each, nothing in present])
        if number:
            values.assign(own, values.combine(self.own[-1], own))
        self.own.append(own)
        self.steps.append(step)
        self.places.append(at)

    def finish(self, suffix: str = "") -> Pass:
        """Return the pass."""
        plan = self.plan
        return self.module.finish(plan.workgroup, -(-plan.rows // plan.together) * plan.chunks, suffix)


def _scan_pass(kernel: Scan, capabilities: Capabilities, plan: ScanPlan, totals: Records | None) -> Pass:
    writer = _Writer(kernel, capabilities, plan)
    values, body, module = writer.values, writer.body, writer.module
    if totals is not None:
        with body.loop("c", fixed(0), lambda c: c < writer.chunk, fixed(1)) as c:
            at = body.let("at", writer.row * plan.chunks + c)
            values.assign(writer.carry, values.combine(writer.carry, values.let("w", totals.read(module, at))))
    with writer.tiles() as before:
        results = [values.var(f"r{number}", own) for number, own in enumerate(writer.own)]
        for result, own in zip(results, writer.own, strict=True):
            values.assign(result, values.combine(before, own))
        for result, step, at in zip(results, writer.steps, writer.places, strict=True):
            with body.when(every(writer.valid, step < plan.length)):
                found = zip(values.results(result), values.wanted, kernel.outputs, strict=False)
                for number, (value, source, output) in enumerate(found):
                    pair = ((each.name, module.type(each).scalar) for each in (source, output.dtype))
                    value = body.let(f"result{number}", convert(value, *pair))
                    store = Store(number, kernel.offset, kernel.strides, kernel.value)
                    writer.buffers.store(store, [value], [*writer.outer, at])
    return writer.finish()
