"""Stable sorting: bitonic networks in workgroup memory (K. Batcher, 1968), then merges of sorted runs by rank.

Elements are compared as unsigned keys whose order is the values' order, and by position where keys are equal. Where only
the first ``limit`` of a row are wanted, runs are cut to that length on the way.
"""

from __future__ import annotations

from collections.abc import Callable

from webgpu_torch_core.ir.expression import Expression
from webgpu_torch_core.ir.kernels import Sort, Store
from webgpu_torch_core.ir.layouts import contiguous_strides, number_of_elements

from ..program import Capabilities, Pass, Program
from .access import Buffers
from .printer import LINEAR_GROUP, Module, Printer, split_index, spread_workgroups
from .steps import convert

WORKGROUP = 256


def generate_sort(kernel: Sort, capabilities: Capabilities) -> Program:
    """Return the program of a sort: one pass for short rows, passes over scratch memory for long ones."""
    rows, length = number_of_elements(kernel.shape[:-1]), kernel.shape[-1]
    sorting = RunSort(kernel.dtype, rows, length, kernel.limit, lambda: _module(kernel, capabilities))
    if length <= sorting.block:
        sorter = _module(kernel, capabilities)
        groups = sorting.sort_blocks(sorter)
        sorter.module.lines.append(
            f"for (var e = thread; e < {sorting.rows_together * kernel.limit}u; e += {sorting.workgroup}u) {{"
        )
        sorter.module.lines.append(f"let own_row = first_row + e / {kernel.limit}u; let at = e % {kernel.limit}u;")
        sorter.module.lines.append(f"if (own_row < {rows}u) {{")
        sorter.module.lines.append(f"let place = places[(e / {kernel.limit}u) * {sorting.padded}u + at];")
        sorter.emit("own_row", "at", "place")
        sorter.module.lines += ["}", "}"]
        return Program((sorter.module.finish((sorting.workgroup, 1, 1), groups),), ())
    passes = sorting.passes()
    sorter = _module(kernel, capabilities)
    lines = sorter.module.lines
    count = rows * kernel.limit
    lines += [f"let i = ({LINEAR_GROUP}) * {WORKGROUP}u + thread;", f"if (i >= {count}u) {{ return; }}"]
    lines += [f"let row = i / {kernel.limit}u;", f"let at = i % {kernel.limit}u;"]
    lines.append(f"let place = {sorting.scratch(sorter.module)}[{sorting.place_base}u + row * {length}u + at];")
    sorter.emit("row", "at", "place")
    groups = spread_workgroups(-(-count // WORKGROUP), capabilities.workgroups_per_dimension)
    passes.append(sorter.module.finish((WORKGROUP, 1, 1), groups, " (emit)"))
    return Program(tuple(passes), (sorting.nbytes,))


class Sorter:
    """One pass under construction: the buffers it reads and the function ``element(row, at)`` that gives sorted values."""

    def __init__(
        self,
        module: Module,
        buffers: Buffers,
        value: Expression,
        outer: tuple[int, ...],
        inner: tuple[int, ...],
        leading: int = 0,
    ) -> None:
        self.module = module
        self.buffers = buffers
        self.value = value
        self.shapes = outer, inner
        # dimensions in front of the sorted ones that the value does not depend on
        self.leading = leading
        self.scalar = module.type(value.dtype).scalar
        self.declared = False

    def declare_element(self) -> None:
        """Declare ``element(row, at)`` in the module."""
        if self.declared:
            return
        self.declared = True
        lines: list[str] = []
        outer, inner = self.shapes
        coordinates = ["0u"] * self.leading + (split_index(lines, self.module, "row", outer) if outer else [])
        coordinates += split_index(lines, self.module, "at", inner) if inner else []

        def leaf(node: Expression, argument: str | None) -> str:
            if node.step == "load":
                return self.buffers.load(node, coordinates, 0, {}, lines)
            if node.step == "load_at":
                return self.buffers.load_at(node, argument or "0u")
            return f"i32({coordinates[node.payload]})"

        text = Printer(self.module, leaf, lines).value(self.value)
        body = "\n".join(f"  {line}" for line in [*lines, f"return {text};"])
        self.module.shared.append(f"fn element(row: u32, at: u32) -> {self.scalar} {{\n{body}\n}}")


class _KernelSorter(Sorter):
    """A pass of a sort kernel, which can also store its results."""

    def __init__(self, kernel: Sort, capabilities: Capabilities) -> None:
        module = Module(kernel, capabilities)
        strides = contiguous_strides((*kernel.shape[:-1], kernel.limit))
        self.kernel = kernel
        self.stores = tuple(Store(index, 0, strides, kernel.value) for index in range(len(kernel.outputs)))
        super().__init__(
            module, Buffers(module, kernel, self.stores, None), kernel.value, kernel.shape[:-1], kernel.shape[-1:]
        )
        self.descending = kernel.descending

    def emit(self, row: str, at: str, place: str) -> None:
        """Write the stores of one sorted position."""
        self.declare_element()
        module, kernel, lines = self.module, self.kernel, self.module.lines
        outer = split_index(lines, module, row, kernel.shape[:-1]) if len(kernel.shape) > 1 else []
        kind = kernel.outputs[0].dtype
        value = f"element({row}, {place})"
        lines.append(
            f"let value = {convert(value, (kernel.dtype.name, self.scalar), (kind.name, module.type(kind).scalar))};"
        )
        lines.append(f"let position = {position_text(module, place)};")
        self.buffers.store(self.stores[0], ["value"], [*outer, at], lines)
        if len(self.stores) > 1:
            self.buffers.store(self.stores[1], ["position"], [*outer, at], lines)


def _module(kernel: Sort, capabilities: Capabilities) -> _KernelSorter:
    return _KernelSorter(kernel, capabilities)


def position_text(module: Module, text: str) -> str:
    """Return a u32 position as int64."""
    return f"i64({text})" if module.capabilities.int64 else f"vec2<u32>({text}, 0u)"


def key_text(scalar: str, value: str) -> tuple[str, str]:
    """Return statements that name ``bits``, and the unsigned key of a value: u32, or vec2<u32> with the low word first."""
    if scalar in ("f32", "f16"):
        setup = f"let number = f32({value}); let bits = select(bitcast<u32>(number), 0u, number == 0.0f);"
        order = "select(bits ^ 0x80000000u, ~bits, (bits >> 31u) != 0u)"
        return setup, f"select({order}, 0xffffffffu, wt_isnan(number))"
    if scalar == "i64":
        setup = f"let number = {value};"
        return setup, "vec2<u32>(u32(number & 0xffffffffli), u32((number >> 32u) & 0xffffffffli) ^ 0x80000000u)"
    if scalar == "vec2<u32>":
        return f"let number = {value};", "vec2<u32>(number.x, number.y ^ 0x80000000u)"
    if scalar == "bool":
        return "", f"select(0u, 1u, {value})"
    return "", value if scalar == "u32" else f"(bitcast<u32>({value}) ^ 0x80000000u)"


class RunSort:
    """Sorts ``rows`` of ``length`` keys with their positions into scratch memory.

    ``make()`` returns a fresh :class:`Sorter` for each pass. After :meth:`passes` the positions of row ``r`` in sorted
    order start at word ``place_base + r * length``, its keys at ``key_base + r * length * words``.
    """

    def __init__(self, dtype: object, rows: int, length: int, limit: int, make: Callable[[], Sorter]) -> None:
        sorter = make()
        capabilities = sorter.module.capabilities
        self.make = make
        self.rows, self.length, self.limit = rows, length, limit
        self.words = 2 if sorter.scalar in ("i64", "vec2<u32>") else 1
        self.descending = getattr(sorter, "descending", False)
        self.block = 1024 if self.words == 2 else 2048
        while self.block * 4 * (self.words + 1) > capabilities.workgroup_bytes:
            self.block //= 2
        self.padded = 1
        while self.padded < min(length, self.block):
            self.padded *= 2
        self.workgroup = min(WORKGROUP, capabilities.invocations)
        self.rows_together = max(1, min(2 * self.workgroup, self.block) // self.padded) if length <= self.block else 1
        self.region = rows * length * (self.words + 1)
        self.nbytes = 2 * self.region * 4
        self._use(0)

    def _use(self, half: int) -> None:
        self.key_base = half * self.region
        self.place_base = self.key_base + self.rows * self.length * self.words

    def scratch(self, module: Module) -> str:
        """Return the name of the scratch buffer."""
        return module.buffer("scratch", 0, "u32", True)

    def sort_blocks(self, sorter: Sorter) -> tuple[int, int, int]:
        """Write the sort of blocks of rows in workgroup arrays ``keys`` and ``places``; return the workgroups needed.

        Short rows share a workgroup; a long row has a workgroup per block. Names ``first_row`` and ``block_start``.
        """
        sorter.declare_element()
        module, padded, total = sorter.module, self.padded, self.padded * self.rows_together
        lines = module.lines
        word = "vec2<u32>" if self.words == 2 else "u32"
        module.shared += [
            f"var<workgroup> keys: array<{word}, {total}>;",
            f"var<workgroup> places: array<u32, {total}>;",
        ]
        module.shared.append(_behind(self.words))
        blocks = -(-self.length // padded)
        lines += [
            f"let group_number = {LINEAR_GROUP};",
            f"let first_row = (group_number / {blocks}u) * {self.rows_together}u;",
        ]
        lines.append(f"let block_start = (group_number % {blocks}u) * {padded}u;")
        lines.append(f"for (var e = thread; e < {total}u; e += {self.workgroup}u) {{")
        lines += [f"let row = first_row + e / {padded}u;", f"let at = block_start + e % {padded}u;", "places[e] = at;"]
        highest = "vec2<u32>(0xffffffffu)" if self.words == 2 else "0xffffffffu"
        lines.append(f"if (row < {self.rows}u && at < {self.length}u) {{ let value = element(row, at);")
        setup, key = key_text(sorter.scalar, "value")
        lines += [
            setup,
            f"keys[e] = {'~' if self.descending else ''}({key});",
            f"}} else {{ keys[e] = {highest}; }}",
            "}",
        ]
        lines += ["workgroupBarrier();", f"for (var size = 2u; size <= {padded}u; size *= 2u) {{"]
        lines.append("for (var distance = size / 2u; distance > 0u; distance /= 2u) {")
        lines.append(f"for (var e = thread; e < {total // 2}u; e += {self.workgroup}u) {{")
        lines.append("let i = (e / distance) * distance * 2u + e % distance; let j = i + distance;")
        lines.append("let x = keys[i]; let y = keys[j]; let a = places[i]; let b = places[j];")
        lines.append(f"if (behind(x, a, y, b) == (((i % {padded}u) & size) == 0u)) {{")
        lines.append("keys[i] = y; keys[j] = x; places[i] = b; places[j] = a; }")
        lines += ["}", "workgroupBarrier();", "}", "}"]
        count = -(-self.rows // self.rows_together) * blocks
        return spread_workgroups(count, module.capabilities.workgroups_per_dimension)

    def passes(self) -> list[Pass]:
        """Return the passes that sort into scratch memory; afterwards the base attributes name the sorted half."""
        stride = min(self.padded, self.limit)
        runs = -(-self.length // self.padded)
        last = min(self.length - (runs - 1) * self.padded, stride)
        result = [self._block_pass(stride)]
        half = 0
        while runs > 1:
            result.append(self._merge_pass(half, stride, runs, last))
            wider = min(2 * stride, self.limit)
            last = min(last + (stride if runs % 2 == 0 else 0), wider)
            runs = -(-runs // 2)
            stride = wider
            half = 1 - half
        self._use(half)
        return result

    def _block_pass(self, stride: int) -> Pass:
        sorter = self.make()
        groups = self.sort_blocks(sorter)
        name = self.scratch(sorter.module)
        lines = sorter.module.lines
        self._use(0)
        lines.append(f"if (first_row < {self.rows}u) {{")
        lines.append(f"for (var e = thread; e < {stride}u; e += {self.workgroup}u) {{")
        lines.append(f"if (block_start + e < {self.length}u) {{")
        lines.append(f"let to = first_row * {self.length}u + (block_start / {self.padded}u) * {stride}u + e;")
        lines += [*self._write(name, "to", "keys[e]", "places[e]"), "}", "}", "}"]
        return sorter.module.finish((self.workgroup, 1, 1), groups, " (blocks)")

    def _write(self, name: str, to: str, key: str, place: str) -> list[str]:
        lines = [f"{name}[{self.place_base}u + {to}] = {place};"]
        if self.words == 2:
            lines.append(
                f"{name}[{self.key_base}u + {to} * 2u] = {key}.x; {name}[{self.key_base}u + {to} * 2u + 1u] = {key}.y;"
            )
        else:
            lines.append(f"{name}[{self.key_base}u + {to}] = {key};")
        return lines

    def _merge_pass(self, half: int, stride: int, runs: int, last: int) -> Pass:
        """Each element counts how many of its partner run belong before it: that is its place in the merged run."""
        sorter = self.make()
        module = sorter.module
        module.shared.append(_behind(self.words))
        name, lines = self.scratch(module), module.lines
        count = (runs - 1) * stride + last
        wider = min(2 * stride, self.limit)
        self._use(half)
        key_base, place_base = self.key_base, self.place_base

        def key(at: str) -> str:
            if self.words == 2:
                return f"vec2<u32>({name}[{key_base}u + ({at}) * 2u], {name}[{key_base}u + ({at}) * 2u + 1u])"
            return f"{name}[{key_base}u + {at}]"

        lines += [f"let i = ({LINEAR_GROUP}) * {WORKGROUP}u + thread;", f"if (i >= {self.rows * count}u) {{ return; }}"]
        lines += [f"let base = (i / {count}u) * {self.length}u;", f"let e = i % {count}u;", f"let run = e / {stride}u;"]
        lines += [
            f"let own = {key('base + e')};",
            f"let own_place = {name}[{place_base}u + base + e];",
            "let partner = run ^ 1u;",
        ]
        lines.append(f"let start = base + partner * {stride}u;")
        lines.append("var low = 0u;")
        lines.append(
            f"var high = select({stride}u, select(0u, {last}u, partner == {runs - 1}u), partner >= {runs - 1}u);"
        )
        lines += ["while (low < high) {", "let middle = (low + high) / 2u;", f"let other = {key('start + middle')};"]
        lines.append(f"let other_place = {name}[{place_base}u + start + middle];")
        lines += ["if (behind(own, own_place, other, other_place)) { low = middle + 1u; } else { high = middle; }", "}"]
        lines.append(f"let rank = e % {stride}u + low;")
        self._use(1 - half)
        lines += [f"if (rank < {wider}u) {{", f"let to = base + (run / 2u) * {wider}u + rank;"]
        lines += [*self._write(name, "to", "own", "own_place"), "}"]
        groups = spread_workgroups(-(-self.rows * count // WORKGROUP), module.capabilities.workgroups_per_dimension)
        return module.finish((WORKGROUP, 1, 1), groups, " (merge)")


def _behind(words: int) -> str:
    """Return the function that tells whether (x, a) belongs behind (y, b)."""
    if words == 1:
        return "fn behind(x: u32, a: u32, y: u32, b: u32) -> bool { return (x > y) | ((x == y) & (a > b)); }"
    return (
        "fn behind(x: vec2<u32>, a: u32, y: vec2<u32>, b: u32) -> bool {\n"
        "  if (x.y != y.y) { return x.y > y.y; }\n"
        "  return (x.x > y.x) | ((x.x == y.x) & (a > b));\n}"
    )
