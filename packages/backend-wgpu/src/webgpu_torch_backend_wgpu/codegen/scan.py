"""Running reductions: teams of threads scan tiles of a row, carrying the total along; few long rows are cut into chunks.

Each thread scans consecutive elements, the team scans the threads' totals by doubling (Hillis and Steele, 1986). With
chunks, a first pass leaves each chunk's total in scratch memory and the second combines those before its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from webgpu_torch_core.kernels import Scan, Store
from webgpu_torch_core.layouts import number_of_elements

from ..program import Capabilities, Pass, Program
from .access import Buffers, evaluate
from .ir import Array, Name, Node, choose, every, fixed, minimum, u32
from .lowering import as_position
from .module import LINEAR_GROUP, THREAD, WORKGROUP, Module, split_index
from .row_states import NOWHERE, combine, identity
from .steps import convert, spell
from .workgroup import Partials, Records, from_shared, shared_type, to_shared

#: consecutive elements of a thread
ELEMENTS = 4
#: fewest tiles a chunk has, and most chunks a row is cut into
CHUNK_TILES = 4
MAXIMUM_CHUNKS = 256

#: a scanned value and, for extrema whose positions are wanted, its place
Scanned = tuple[Node, ...]


def generate_scan(kernel: Scan, capabilities: Capabilities) -> Program:
    """Return the program of a scan."""
    plan = ScanPlan(kernel, capabilities)
    if plan.chunks == 1:
        return Program((_scan_pass(kernel, capabilities, plan, None),), ())
    partials = Partials()
    totals = partials.records(plan.rows * plan.chunks, *_Values(Module(kernel, capabilities), kernel).fields)
    writer = _Writer(kernel, capabilities, plan)
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


class _Values:
    """The scanned values, with a place for extrema whose positions are wanted; late ones win ties."""

    def __init__(self, module: Module, kernel: Scan) -> None:
        self.module, self.kernel = module, kernel
        self.body = module.body
        self.scalar = module.type(kernel.dtype).scalar
        self.fields = (self.scalar, "u32") if len(kernel.outputs) > 1 else (self.scalar,)

    def identity(self) -> Scanned:
        """Return what changes nothing."""
        return (identity(self.module, self.kernel.kind, self.kernel.dtype), NOWHERE)[: len(self.fields)]

    def merge(self, target: Scanned, early: Scanned, late: Scanned) -> None:
        """Write the statements that set variables to what came early combined with what came late."""
        kind, body = self.kernel.kind, self.body
        if len(self.fields) == 1:
            body.set(target[0], combine(kind, self.scalar, early[0], late[0]))
            return
        order = [early[0], late[0]] if kind == "maximum" else [late[0], early[0]]
        better = spell("less_equal", self.scalar, order)
        if self.scalar in ("f32", "f16"):
            early_nan, late_nan = (spell("is_nan", self.scalar, [each[0]]) for each in (early, late))
            better = late_nan | (better & ~early_nan)
        wins = late[1].differs(NOWHERE) & (early[1].equals(NOWHERE) | better)
        with body.when(wins):
            self.set(target, late)
        with body.otherwise():
            self.set(target, early)

    def set(self, target: Scanned, values: Scanned) -> None:
        """Write the statements that change variables to values."""
        for variable, value in zip(target, values, strict=True):
            self.body.set(variable, value)

    def var(self, name: str, values: Scanned) -> Scanned:
        """Declare variables of these values."""
        return tuple(
            self.body.var(name + suffix, value, kind)
            for suffix, value, kind in zip(("", "_place"), values, self.fields, strict=False)
        )

    def let(self, name: str, values: Scanned) -> Scanned:
        """Name values."""
        return tuple(self.body.let(name + suffix, value) for suffix, value in zip(("", "_place"), values, strict=False))

    def arrays(self, name: str, size: int) -> tuple[Array, ...]:
        """Declare workgroup memory for values."""
        kinds = (shared_type(each) for each in self.fields)
        return tuple(
            self.module.array(name + suffix, kind, size) for suffix, kind in zip(("", "_place"), kinds, strict=False)
        )

    def put(self, arrays: tuple[Array, ...], index: Node, values: Scanned) -> None:
        """Write the statements that store values in workgroup memory."""
        for array, value in zip(arrays, values, strict=True):
            self.body.set(array[index], to_shared(value))

    def get(self, name: str, arrays: tuple[Array, ...], index: Node) -> Scanned:
        """Name values of workgroup memory."""
        read = zip(arrays, self.fields, strict=True)
        return self.let(name, tuple(from_shared(array[index], kind) for array, kind in read))


class _Writer:
    """One pass of a scan; rows behind the last repeat it without storing."""

    def __init__(self, kernel: Scan, capabilities: Capabilities, plan: ScanPlan) -> None:
        self.kernel, self.plan = kernel, plan
        self.module = module = Module(kernel, capabilities)
        self.body = body = module.body
        self.values = _Values(module, kernel)
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
        self.own: list[Scanned] = []
        self.steps: list[Name] = []
        self.places: list[Name] = []

    @contextmanager
    def tiles(self) -> Iterator[Scanned]:
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
                    values.merge(own, values.get(f"w{distance}", arrays[0], THREAD - distance), own)
                arrays.reverse()
                values.put(arrays[0], THREAD, own)
                body.barrier()
                distance *= 2
            before = values.var("before", self.carry)
            if plan.team > 1:
                with body.when(self.part > fixed(0)):
                    values.merge(before, self.carry, values.get("w", arrays[0], THREAD - fixed(1)))
            total = values.get("total", arrays[0], THREAD - self.part + (plan.team - 1))
            yield before
            # The barrier keeps the next tile from overwriting what others still read.
            values.merge(self.carry, self.carry, total)
            body.barrier()

    def _element(self, number: int, start: Node) -> None:
        body, values, length = self.body, self.values, self.plan.length
        step = body.let(f"step{number}", start + fixed(number))
        nearest = minimum(step, length - 1)
        at = body.let(f"at{number}", u32(length - 1) - nearest if self.kernel.reverse else nearest)
        ((value,),) = evaluate(self.buffers, [self.kernel.value], [*self.outer, at])
        source = self.kernel.value.dtype
        pair = (source.name, self.module.type(source).scalar), (self.kernel.dtype.name, values.scalar)
        inside = step < length
        found = convert(value, *pair), at
        present = zip(found, values.identity(), strict=False)
        own = values.var(f"v{number}", tuple(choose(inside, each, nothing) for each, nothing in present))
        if number:
            values.merge(own, self.own[-1], own)
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
            values.merge(writer.carry, writer.carry, values.let("w", tuple(totals.read(module, at))))
    target = kernel.outputs[0].dtype
    pair = (kernel.dtype.name, values.scalar), (target.name, module.type(target).scalar)
    with writer.tiles() as before:
        results = [values.var(f"r{number}", own) for number, own in enumerate(writer.own)]
        for result, own in zip(results, writer.own, strict=True):
            values.merge(result, before, own)
        for result, step, at in zip(results, writer.steps, writer.places, strict=True):
            with body.when(every(writer.valid, step < plan.length)):
                found = [body.let("result", convert(result[0], *pair))]
                found += [body.let("position", as_position(module, each)) for each in result[1:]]
                for number, each in enumerate(found):
                    store = Store(number, kernel.offset, kernel.strides, kernel.value)
                    writer.buffers.store(store, [each], [*writer.outer, at])
    return writer.finish()
