"""Stable sorting of rows: a bitonic network (K. Batcher, 1968) over positions, ties broken by position."""

from __future__ import annotations

from webgpu_torch_core.expression import Expression
from webgpu_torch_core.kernels import Sort, Store
from webgpu_torch_core.layouts import contiguous_strides, number_of_elements

from ..program import Capabilities, Pass, Program
from .access import Buffers
from .printer import LINEAR_GROUP, Module, Printer, spread_workgroups, split_index
from .rows import position_text
from .steps import convert, spell

WORKGROUP = 256
#: longest row sorted inside one workgroup's memory
LOCAL_LENGTH = 2048


def generate_sort(kernel: Sort, capabilities: Capabilities) -> Program:
    """Return the program of a sort: one pass for short rows, passes over scratch memory for long ones."""
    length = kernel.shape[-1]
    padded = 1
    while padded < length:
        padded *= 2
    rows = number_of_elements(kernel.shape[:-1])
    if padded <= LOCAL_LENGTH:
        return Program((_local(kernel, capabilities, rows, padded),), ())
    passes = [_fill(kernel, capabilities, rows, padded)]
    size = 2
    while size <= padded:
        distance = size // 2
        while distance:
            passes.append(_exchange(kernel, capabilities, rows, padded, size, distance))
            distance //= 2
        size *= 2
    passes.append(_emit(kernel, capabilities, rows, padded))
    return Program(tuple(passes), (rows * padded * 4,))


class _Sorter:
    """What every pass shares: how to read a key by row and position, and how two positions compare."""

    def __init__(self, kernel: Sort, capabilities: Capabilities) -> None:
        self.kernel = kernel
        self.module = Module(kernel, capabilities)
        shape = (*kernel.shape[:-1], kernel.limit)
        strides = contiguous_strides(shape)
        self.stores = tuple(Store(index, 0, strides, kernel.value) for index in range(2))
        self.buffers = Buffers(self.module, kernel, self.stores, None)
        self.element = self.module.type(kernel.dtype)

    def key_function(self) -> None:
        """Declare ``key(row, at)``, which evaluates the sorted expression."""
        module, kernel = self.module, self.kernel
        lines: list[str] = []
        outer = split_index(lines, module, "row", kernel.shape[:-1]) if len(kernel.shape) > 1 else []
        coordinates = [*outer, "at"]

        def leaf(node: Expression, argument: str | None) -> str:
            if node.step == "load":
                return self.buffers.load(node, coordinates, 0, {}, lines)
            if node.step == "load_at":
                return self.buffers.load_at(node, argument or "0u")
            return f"i32({coordinates[node.payload]})"

        value = Printer(module, leaf, lines).value(kernel.value)
        body = "\n".join(f"  {line}" for line in [*lines, f"return {value};"])
        module.shared.append(f"fn key(row: u32, at: u32) -> {self.element.scalar} {{\n{body}\n}}")

    def after(self, left: str, right: str, left_place: str, right_place: str) -> str:
        """Return whether ``left`` belongs behind ``right``; positions past the row's end are last."""
        scalar = self.element.scalar
        pair = [left, right] if self.kernel.descending else [right, left]
        greater = spell("less", scalar, pair)
        same = spell("equal", scalar, [left, right])
        if scalar in ("f32", "f16"):
            first, second = (right, left) if self.kernel.descending else (left, right)
            nan = spell("is_nan", scalar, [first]), spell("is_nan", scalar, [second])
            greater = f"(({nan[0]} && !{nan[1]}) || (!{nan[0]} && !{nan[1]} && {greater}))"
            same = f"({same} || ({nan[0]} && {nan[1]}))"
        length = self.kernel.shape[-1]
        inside = f"({greater} || ({same} && {left_place} > {right_place}))"
        return f"select({inside}, {left_place} > {right_place}, {left_place} >= {length}u || {right_place} >= {length}u)"

    def emit(self, row: str, at: str, place: str) -> None:
        """Write the stores of one sorted position."""
        module, kernel, lines = self.module, self.kernel, self.module.lines
        outer = split_index(lines, module, row, kernel.shape[:-1]) if len(kernel.shape) > 1 else []
        kind = kernel.outputs[0].dtype
        value = convert(
            f"key({row}, {place})", (kernel.dtype.name, self.element.scalar), (kind.name, module.type(kind).scalar)
        )
        lines.append(f"let value = {value};")
        lines.append(f"let position = {position_text(module, place)};")
        self.buffers.store(self.stores[0], ["value"], [*outer, at], lines)
        self.buffers.store(self.stores[1], ["position"], [*outer, at], lines)


def _local(kernel: Sort, capabilities: Capabilities, rows: int, padded: int) -> Pass:
    sorter = _Sorter(kernel, capabilities)
    sorter.key_function()
    module = sorter.module
    lines = module.lines
    workgroup = max(min(WORKGROUP, padded // 2), 1)
    module.shared.append(f"var<workgroup> order: array<u32, {padded}>;")
    lines += [f"let row = {LINEAR_GROUP};", f"if (row >= {rows}u) {{ return; }}"]
    lines.append(f"for (var e = thread; e < {padded}u; e += {workgroup}u) {{ order[e] = e; }}")
    lines.append("workgroupBarrier();")
    last = kernel.shape[-1] - 1
    lines.append(f"for (var size = 2u; size <= {padded}u; size *= 2u) {{")
    lines.append("for (var distance = size / 2u; distance > 0u; distance /= 2u) {")
    lines.append(f"for (var e = thread; e < {padded // 2}u; e += {workgroup}u) {{")
    lines.append("let i = (e / distance) * distance * 2u + e % distance; let j = i + distance;")
    lines.append("let a = order[i]; let b = order[j];")
    lines.append(f"let x = key(row, min(a, {last}u)); let y = key(row, min(b, {last}u));")
    lines.append(f"let out_of_order = {sorter.after('x', 'y', 'a', 'b')};")
    lines.append("if (out_of_order == ((i & size) == 0u)) { order[i] = b; order[j] = a; }")
    lines += ["}", "workgroupBarrier();", "}", "}"]
    lines.append(f"for (var e = thread; e < {kernel.limit}u; e += {workgroup}u) {{")
    lines.append("let place = order[e];")
    sorter.emit("row", "e", "place")
    lines.append("}")
    return module.finish((workgroup, 1, 1), spread_workgroups(rows, capabilities.workgroups_per_dimension))


def _over_elements(sorter: _Sorter, capabilities: Capabilities, count: int) -> tuple[int, int, int]:
    sorter.module.lines += [f"let i = ({LINEAR_GROUP}) * {WORKGROUP}u + thread;", f"if (i >= {count}u) {{ return; }}"]
    return spread_workgroups(-(-count // WORKGROUP), capabilities.workgroups_per_dimension)


def _fill(kernel: Sort, capabilities: Capabilities, rows: int, padded: int) -> Pass:
    sorter = _Sorter(kernel, capabilities)
    groups = _over_elements(sorter, capabilities, rows * padded)
    order = sorter.module.buffer("scratch", 0, "u32", True)
    sorter.module.lines.append(f"{order}[i] = i % {padded}u;")
    return sorter.module.finish((WORKGROUP, 1, 1), groups, " (fill)")


def _exchange(kernel: Sort, capabilities: Capabilities, rows: int, padded: int, size: int, distance: int) -> Pass:
    sorter = _Sorter(kernel, capabilities)
    sorter.key_function()
    groups = _over_elements(sorter, capabilities, rows * padded // 2)
    order = sorter.module.buffer("scratch", 0, "u32", True)
    last = kernel.shape[-1] - 1
    sorter.module.lines += [
        f"let row = i / {padded // 2}u;", f"let e = i % {padded // 2}u;",
        f"let low = (e / {distance}u) * {2 * distance}u + e % {distance}u;", f"let first = row * {padded}u + low;",
        f"let a = {order}[first];", f"let b = {order}[first + {distance}u];", f"let x = key(row, min(a, {last}u));",
        f"let y = key(row, min(b, {last}u));", f"let out_of_order = {sorter.after('x', 'y', 'a', 'b')};",
        f"if (out_of_order == ((low & {size}u) == 0u)) {{ {order}[first] = b; {order}[first + {distance}u] = a; }}",
    ]  # fmt: skip
    return sorter.module.finish((WORKGROUP, 1, 1), groups, " (exchange)")


def _emit(kernel: Sort, capabilities: Capabilities, rows: int, padded: int) -> Pass:
    sorter = _Sorter(kernel, capabilities)
    sorter.key_function()
    groups = _over_elements(sorter, capabilities, rows * kernel.limit)
    order = sorter.module.buffer("scratch", 0, "u32", False)
    sorter.module.lines += [f"let row = i / {kernel.limit}u;", f"let at = i % {kernel.limit}u;"]
    sorter.module.lines.append(f"let place = {order}[row * {padded}u + at];")
    sorter.emit("row", "at", "place")
    return sorter.module.finish((WORKGROUP, 1, 1), groups, " (emit)")
