"""Running reductions: teams of threads scan tiles of a row, carrying the total along; few long rows are cut into chunks.

Each thread scans consecutive elements, the team scans the threads' totals by doubling (Hillis and Steele, 1986). With
chunks, a first pass leaves each chunk's total in scratch memory and the second combines those before its own.
"""

from __future__ import annotations

from webgpu_torch_core.ir.expression import Expression
from webgpu_torch_core.ir.kernels import Scan, Store
from webgpu_torch_core.ir.layouts import number_of_elements

from ..program import Capabilities, Pass, Program
from .access import Buffers
from .combining import Combining, assign, decode_state, encode_state, from_shared, shared_scalar, to_shared
from .printer import LINEAR_GROUP, Module, Printer, split_index, spread_workgroups
from .steps import convert

WORKGROUP = 256
#: consecutive elements of a thread
ELEMENTS = 4
#: fewest tiles a chunk has, and most chunks a row is cut into
CHUNK_TILES = 4
MAXIMUM_CHUNKS = 256


def generate_scan(kernel: Scan, capabilities: Capabilities) -> Program:
    """Return the program of a scan."""
    plan = ScanPlan(kernel, capabilities)
    if plan.chunks == 1:
        return Program((_scan_pass(kernel, capabilities, plan),), ())
    words = _Values(Module(kernel, capabilities), kernel).words
    return Program(
        (_total_pass(kernel, capabilities, plan), _scan_pass(kernel, capabilities, plan)),
        (plan.rows * plan.chunks * words * 4,),
    )


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


class _Values(Combining):
    """The scanned states: ``name`` stands for variables ``name``, ``name_1``, …, one for each number."""

    def __init__(self, module: Module, kernel: Scan) -> None:
        super().__init__(module, kernel.monoid)
        self.kernel = kernel

    def names(self, name: str) -> list[str]:
        """Return the variables of a state."""
        return [f"{name}{f'_{part}' if part else ''}" for part in range(len(self.scalars))]

    def merge(self, target: str, early: str, late: str) -> list[str]:
        """Return statements that set ``target`` to what came early combined with what came late."""
        lines: list[str] = []
        values = self.combine(self.names(early), self.names(late), lines)
        assign(self.names(target), values, self.module, lines)
        return lines

    def declare(self, name: str, values: list[str], keyword: str = "var") -> list[str]:
        """Return the declaration of a state."""
        parts = zip(self.names(name), self.scalars, values, strict=True)
        return [
            f"{keyword} {each}{f': {scalar}' if keyword == 'var' else ''} = {value};" for each, scalar, value in parts
        ]

    def put(self, array: str, index: str, name: str) -> list[str]:
        """Return the statements that store a state in workgroup memory."""
        parts = zip(self.names(array), self.scalars, self.names(name), strict=True)
        return [f"{each}[{index}] = {to_shared(scalar, value)};" for each, scalar, value in parts]

    def get(self, name: str, array: str, index: str) -> list[str]:
        """Return the statements that name a state of workgroup memory."""
        parts = zip(self.names(array), self.scalars, strict=True)
        return self.declare(name, [from_shared(scalar, f"{each}[{index}]") for each, scalar in parts], "let")


class _Writer:
    """One pass of a scan."""

    def __init__(self, kernel: Scan, capabilities: Capabilities, plan: ScanPlan, stores: bool) -> None:
        self.kernel, self.plan = kernel, plan
        self.module = Module(kernel, capabilities)
        self.values = _Values(self.module, kernel)
        self.lines = self.module.lines
        self.stores = tuple(
            Store(index, kernel.offset, kernel.strides, kernel.value) for index in range(len(kernel.outputs))
        )
        self.buffers = Buffers(self.module, kernel, self.stores if stores else (), None)
        for name in ("first", "second"):
            for array, scalar in zip(self.values.names(name), map(shared_scalar, self.values.scalars), strict=True):
                self.module.shared.append(f"var<workgroup> {array}: array<{scalar}, {plan.workgroup}>;")
        self.open()

    def open(self) -> None:
        """Write which row, chunk and part a thread has; rows behind the last repeat it without storing."""
        plan, lines = self.plan, self.lines
        lines += [f"let part = thread % {plan.team}u;", f"let group_number = {LINEAR_GROUP};"]
        lines.append(f"let chunk = group_number % {plan.chunks}u;")
        lines.append(f"let wanted_row = (group_number / {plan.chunks}u) * {plan.together}u + thread / {plan.team}u;")
        lines += [f"let valid = wanted_row < {plan.rows}u;", f"let row = select({plan.rows - 1}u, wanted_row, valid);"]
        shape = self.kernel.shape[:-1]
        self.outer = split_index(lines, self.module, "row", shape) if shape else []
        lines += self.values.declare("carry", self.values.identity())

    def tile(self) -> None:
        """Open the loop over tiles and write the scan of one: values ``v0``… of a thread, ``total`` of the tile.

        After it ``before`` combines everything in front of the thread's elements, the carry included.
        """
        plan, lines, values = self.plan, self.lines, self.values
        lines.append(f"for (var tile = 0u; tile < {plan.chunk_tiles}u; tile++) {{")
        lines.append(f"let start = (chunk * {plan.chunk_tiles}u + tile) * {plan.tile}u + part * {ELEMENTS}u;")
        for each in range(ELEMENTS):
            self._element(each)
        lines += values.declare("own", values.names(f"v{ELEMENTS - 1}"))
        arrays = ["first", "second"]
        lines += [*values.put("first", "thread", "own"), "workgroupBarrier();"]
        distance = 1
        while distance < plan.team:
            lines.append(f"if (part >= {distance}u) {{")
            lines += values.get(f"w{distance}", arrays[0], f"thread - {distance}u")
            lines += [*values.merge("own", f"w{distance}", "own"), "}"]
            arrays.reverse()
            lines += [*values.put(arrays[0], "thread", "own"), "workgroupBarrier();"]
            distance *= 2
        lines += values.declare("before", values.names("carry"))
        if plan.team > 1:
            lines += [
                "if (part > 0u) {",
                *values.get("w", arrays[0], "thread - 1u"),
                *values.merge("before", "carry", "w"),
                "}",
            ]
        lines += values.get("total", arrays[0], f"thread - part + {plan.team - 1}u")

    def _element(self, number: int) -> None:
        plan, lines, values = self.plan, self.lines, self.values
        length = plan.length
        lines.append(f"let step{number} = start + {number}u;")
        at = f"min(step{number}, {length - 1}u)"
        lines.append(f"let at{number} = {f'{length - 1}u - {at}' if self.kernel.reverse else at};")
        coordinates = [*self.outer, f"at{number}"]

        def leaf(node: Expression, argument: str | None) -> str:
            if node.step == "load":
                return self.buffers.load(node, coordinates, 0, {}, lines)
            if node.step == "load_at":
                return self.buffers.load_at(node, argument or "0u")
            return f"i32({coordinates[node.payload]})"

        text = Printer(self.module, leaf).value(self.kernel.value)
        state = values.lift(text, self.kernel.value.dtype, f"at{number}", lines)
        pairs = zip(values.identity(), state, strict=True)
        lines += values.declare(
            f"v{number}", [f"select({nothing}, {value}, step{number} < {length}u)" for nothing, value in pairs]
        )
        if number:
            lines += values.merge(f"v{number}", f"v{number - 1}", f"v{number}")

    def close_tile(self) -> None:
        """Carry the total on; the barrier keeps the next tile from overwriting what others still read."""
        self.lines += [*self.values.merge("carry", "carry", "total"), "workgroupBarrier();", "}"]

    def groups(self) -> tuple[int, int, int]:
        """Return the workgroups of the pass."""
        count = -(-self.plan.rows // self.plan.together) * self.plan.chunks
        return spread_workgroups(count, self.module.capabilities.workgroups_per_dimension)


def _total_pass(kernel: Scan, capabilities: Capabilities, plan: ScanPlan) -> Pass:
    writer = _Writer(kernel, capabilities, plan, False)
    values, lines = writer.values, writer.lines
    writer.tile()
    writer.close_tile()
    name = writer.module.buffer("scratch", 0, "u32", True)
    lines.append("if (valid && part == 0u) {")
    for number, word in enumerate(encode_state(values.scalars, values.names("carry"))):
        lines.append(f"{name}[(row * {plan.chunks}u + chunk) * {values.words}u + {number}u] = {word};")
    lines.append("}")
    return writer.module.finish((plan.workgroup, 1, 1), writer.groups(), " (totals)")


def _scan_pass(kernel: Scan, capabilities: Capabilities, plan: ScanPlan) -> Pass:
    writer = _Writer(kernel, capabilities, plan, True)
    values, lines, module = writer.values, writer.lines, writer.module
    if plan.chunks > 1:
        name = module.buffer("scratch", 0, "u32", False)
        lines.append("for (var c = 0u; c < chunk; c++) {")
        lines.append(f"let at = (row * {plan.chunks}u + c) * {values.words}u;")
        words = [f"{name}[at + {each}u]" for each in range(values.words)]
        lines += values.declare("w", decode_state(values.scalars, words), "let")
        lines += [*values.merge("carry", "carry", "w"), "}"]
    writer.tile()
    for each in range(ELEMENTS):
        lines += values.declare(f"r{each}", values.names(f"v{each}"))
        lines += values.merge(f"r{each}", "before", f"v{each}")
    for each in range(ELEMENTS):
        lines.append(f"if (valid && step{each} < {plan.length}u) {{")
        found = values.results(values.names(f"r{each}"), lines)
        for store, text, source in zip(writer.stores, found, values.wanted, strict=False):
            target = kernel.outputs[store.output].dtype
            text = convert(text, (source.name, module.type(source).scalar), (target.name, module.type(target).scalar))
            lines.append(f"let result{store.output} = {text};")
            writer.buffers.store(store, [f"result{store.output}"], [*writer.outer, f"at{each}"], lines)
        lines.append("}")
    writer.close_tile()
    return module.finish((plan.workgroup, 1, 1), writer.groups())
