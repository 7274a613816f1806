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
from .printer import LINEAR_GROUP, Module, Printer, split_index, spread_workgroups
from .row_states import NOWHERE, decode, encode
from .sort import position_text
from .steps import convert, spell
from .types import literal

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


class _Values:
    """The scanned values: (value, place) with a place for extrema whose positions are wanted; ``late`` ones win ties."""

    def __init__(self, module: Module, kernel: Scan) -> None:
        self.module, self.kernel = module, kernel
        self.scalar = module.type(kernel.dtype).scalar
        self.shared = "u32" if self.scalar == "bool" else self.scalar
        self.places = len(kernel.outputs) > 1
        self.words = (2 if self.scalar in ("i64", "vec2<u32>") else 1) + self.places

    def identity(self) -> str:
        """Return the literal that changes nothing."""
        kind, dtype, element = self.kernel.kind, self.kernel.dtype, self.module.type(self.kernel.dtype)
        if kind in ("sum", "product"):
            return literal(0 if kind == "sum" else 1, element)
        if dtype.category == 0:
            return literal(kind == "minimum", element)
        if dtype.category == 1:
            return literal(dtype.minimum if kind == "maximum" else dtype.maximum, element)
        return literal(float("-inf") if kind == "maximum" else float("inf"), element)

    def merge(self, target: str, early: str, late: str) -> list[str]:
        """Return statements that set variable ``target`` to what came early combined with what came late."""
        if not self.places:
            step = {"sum": "add", "product": "multiply"}.get(self.kernel.kind, self.kernel.kind)
            return [f"{target} = {spell(step, self.scalar, [early, late])};"]
        order = [early, late] if self.kernel.kind == "maximum" else [late, early]
        better = f"({spell('less_equal', self.scalar, order)})"
        if self.scalar in ("f32", "f16"):
            early_nan, late_nan = (spell("is_nan", self.scalar, [each]) for each in (early, late))
            better = f"({late_nan} | ({better} & !{early_nan}))"
        wins = f"({late}_place != {NOWHERE}) & (({early}_place == {NOWHERE}) | {better})"
        return [
            f"if ({wins}) {{ {target} = {late}; {target}_place = {late}_place; }} "
            f"else {{ {target} = {early}; {target}_place = {early}_place; }}"
        ]

    def declare(self, name: str, value: str, place: str = NOWHERE, keyword: str = "var") -> list[str]:
        """Return the declaration of a value."""
        typed = f": {self.scalar}" if keyword == "var" else ""
        return [f"{keyword} {name}{typed} = {value};", *([f"{keyword} {name}_place = {place};"] if self.places else [])]

    def put(self, array: str, index: str, name: str) -> list[str]:
        """Return the statements that store a value in workgroup memory."""
        value = f"select(0u, 1u, {name})" if self.scalar == "bool" else name
        return [f"{array}[{index}] = {value};", *([f"{array}_place[{index}] = {name}_place;"] if self.places else [])]

    def get(self, name: str, array: str, index: str) -> list[str]:
        """Return the statements that name a value of workgroup memory."""
        value = f"({array}[{index}] != 0u)" if self.scalar == "bool" else f"{array}[{index}]"
        return self.declare(name, value, f"{array}_place[{index}]" if self.places else "", "let")


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
            self.module.shared.append(f"var<workgroup> {name}: array<{self.values.shared}, {plan.workgroup}>;")
            if self.values.places:
                self.module.shared.append(f"var<workgroup> {name}_place: array<u32, {plan.workgroup}>;")
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
        lines += values.declare("own", f"v{ELEMENTS - 1}", f"v{ELEMENTS - 1}_place")
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
        lines += values.declare("before", "carry", "carry_place")
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
        own = (self.kernel.dtype.name, values.scalar)
        source = self.kernel.value.dtype
        text = convert(f"({text})", (source.name, self.module.type(source).scalar), own)
        inside = f"step{number} < {length}u"
        value = f"select({values.identity()}, {text}, {inside})"
        lines += values.declare(f"v{number}", value, f"select({NOWHERE}, at{number}, {inside})")
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
    words = encode(values.scalar, "carry") + (["carry_place"] if values.places else [])
    for number, word in enumerate(words):
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
        plain = [f"{name}[at + {each}u]" for each in range(values.words - values.places)]
        lines += values.declare("w", decode(values.scalar, plain), f"{name}[at + {values.words - 1}u]", "let")
        lines += [*values.merge("carry", "carry", "w"), "}"]
    writer.tile()
    target = kernel.outputs[0].dtype
    for each in range(ELEMENTS):
        lines += values.declare(f"r{each}", f"v{each}", f"v{each}_place")
        lines += values.merge(f"r{each}", "before", f"v{each}")
    for each in range(ELEMENTS):
        text = convert(f"r{each}", (kernel.dtype.name, values.scalar), (target.name, module.type(target).scalar))
        lines.append(f"if (valid && step{each} < {plan.length}u) {{")
        lines.append(f"let result = {text};")
        writer.buffers.store(writer.stores[0], ["result"], [*writer.outer, f"at{each}"], lines)
        if values.places:
            lines.append(f"let position = {position_text(module, f'r{each}_place')};")
            writer.buffers.store(writer.stores[1], ["position"], [*writer.outer, f"at{each}"], lines)
        lines.append("}")
    writer.close_tile()
    return module.finish((plan.workgroup, 1, 1), writer.groups())
