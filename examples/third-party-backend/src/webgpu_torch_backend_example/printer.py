"""Kernels as Python source: loops over coordinates, one statement per distinct expression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from webgpu_torch_core.ir import dtypes
from webgpu_torch_core.ir.expression import Expression, topological
from webgpu_torch_core.ir.interpreter import combine, lift, reduce_row, results
from webgpu_torch_core.ir.kernels import Contraction, Kernel, Pointwise, RowProgram, Scan, Scatter, Sort, Store
from webgpu_torch_core.ir.scalar_math import convert, divide, truncate
from webgpu_torch_core.ir.steps import STEPS

#: steps that Python spells itself; the others call their definition in the core
OPERATORS = {
    "add": "{} + {}", "subtract": "{} - {}", "multiply": "{} * {}", "negate": "-{}", "equal": "{} == {}",
    "not_equal": "{} != {}", "less": "{} < {}", "less_equal": "{} <= {}", "bitwise_and": "{} & {}",
    "bitwise_or": "{} | {}",
    "bitwise_xor": "{} ^ {}", "select": "{1} if {0} else {2}", "fused_multiply_add": "{} * {} + {}",
}  # fmt: skip


def sorted_order(values: list[Any], descending: bool) -> list[int]:
    """Return positions in stable order; NaN is the greatest value."""
    keys = [(value != value, 0 if value != value else value) for value in values]
    return sorted(range(len(values)), key=keys.__getitem__, reverse=descending)


def truncate_divide(a: Any, b: Any) -> Any:
    """Return the quotient, rounded as its type rounds it, without its fraction."""
    return (
        STEPS["truncate_divide"].evaluate(a, b)
        if isinstance(a, int)
        else truncate(convert(divide(a, b), dtypes.float32))
    )


#: the names that printed kernels may use
scope: dict[str, Any] = {
    **{name: step.evaluate for name, step in STEPS.items()},
    **{kind.name: kind for kind in (dtypes.bool_, dtypes.int32, dtypes.int64, dtypes.uint32, dtypes.float32)},
    "combine": combine, "convert": convert, "lift": lift, "reduce_row": reduce_row, "results": results,
    "sorted_order": sorted_order, "truncate_divide": truncate_divide,
}  # fmt: skip


def print_kernel(kernel: Kernel) -> tuple[str, dict[str, Any]]:
    """Return the source of ``kernel(operands, outputs, parameters)`` and the constants it names."""
    printer = Printer(kernel)
    FORMS[type(kernel)](printer, kernel)
    return "\n".join(printer.lines) + "\n", printer.constants


class Printer:
    """The lines of one kernel and the indentation they have reached."""

    def __init__(self, kernel: Kernel) -> None:
        self.lines = ["def kernel(operands, outputs, parameters):"]
        self.constants: dict[str, Any] = {}
        self.depth = 1
        self.kernel = kernel
        for index, kind in enumerate(kernel.parameters):
            self.line(f"p{index} = convert(parameters[{index}], {kind.name})")

    def line(self, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.depth + text)

    def loops(self, sizes: Sequence[int], first: int = 0) -> None:
        """Open one loop per size, over coordinates ``c<first>``, ``c<first + 1>``, …"""
        for dimension, size in enumerate(sizes, first):
            self.line(f"for c{dimension} in range({size}):")
            self.depth += 1

    def values(self, roots: Sequence[Expression]) -> list[str]:
        """Add the statements that compute expressions here; return the names of the results."""
        names: dict[Expression, str] = {}
        for node in topological(*roots):
            if node.step in ("parameter", "coordinate", "reduced"):
                names[node] = f"{node.step[0]}{node.payload}"
            elif node.step == "accumulator":
                names[node] = "total"
            elif node.step == "constant":
                names[node] = self.constant(node.payload)
            else:
                names[node] = f"t{len(names)}"
                self.line(f"{names[node]} = {self.text(node, [names[each] for each in node.arguments])}")
        return [names[root] for root in roots]

    def constant(self, value: Any) -> str:
        """Return the name of a value that the kernel's source refers to."""
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def text(self, node: Expression, arguments: list[str]) -> str:
        """Return the source of an inner node or load."""
        if node.step == "load":
            operand, offset, strides = node.payload
            return f"operands[{operand}][{place(offset, strides)}]"
        if node.step == "load_at":
            return f"operands[{node.payload}][{arguments[0]}]"
        if node.step == "cast":
            return f"convert({arguments[0]}, {node.dtype.name})"
        text = OPERATORS.get(node.step, f"{node.step}({', '.join(arguments)})").format(*arguments)
        # Python's integers do not wrap around.
        return f"convert({text}, {node.dtype.name})" if node.dtype.category == 1 else text

    def put(self, stores: Sequence[Store], names: Sequence[str]) -> None:
        """Add the stores of values that have been computed."""
        for store, name in zip(stores, names, strict=True):
            self.line(f"outputs[{store.output}][{place(store.offset, store.strides)}] = {name}")

    def stores(self, stores: Sequence[Store]) -> None:
        """Add stores: all values first, because a store may overwrite what another one's value loads."""
        self.put(stores, self.values([store.value for store in stores]))


def place(offset: int, strides: Sequence[int]) -> str:
    """Return the source of an element's position."""
    return " + ".join(
        [str(offset), *(f"{stride} * c{dimension}" for dimension, stride in enumerate(strides) if stride)]
    )


def print_pointwise(printer: Printer, kernel: Pointwise) -> None:
    printer.loops(kernel.shape)
    printer.stores(kernel.stores)


def print_rows(printer: Printer, kernel: RowProgram) -> None:
    printer.loops(kernel.outer)
    depth = printer.depth
    for number, reduction in enumerate(kernel.reductions):
        printer.line("row = []")
        printer.loops(kernel.inner, len(kernel.outer))
        (value,) = printer.values([reduction.value])
        printer.line(f"row.append({value})")
        printer.depth = depth
        printer.line(f"r{number} = reduce_row({printer.constant(reduction.monoid)}, row)")
    names = printer.values([store.value for store in kernel.row_stores])
    # The elements reuse the names of temporaries, and come before what overwrites their operands.
    printer.line(f"row = [{', '.join(names)}]")
    if kernel.stores:
        printer.loops(kernel.inner, len(kernel.outer))
        printer.stores(kernel.stores)
        printer.depth = depth
    printer.put(kernel.row_stores, [f"row[{index}]" for index in range(len(names))])


def print_contraction(printer: Printer, kernel: Contraction) -> None:
    tile = kernel.batch + kernel.m + kernel.n
    printer.loops(tile)
    depth = printer.depth
    printer.line("total = 0")
    printer.loops(kernel.k, len(tile))
    left, right = printer.values([kernel.left, kernel.right])
    printer.line(f"total += {left} * {right}")
    printer.depth = depth
    printer.line(f"total = convert(total, {kernel.dtype.name})")
    printer.stores(kernel.stores)


def print_scan(printer: Printer, kernel: Scan) -> None:
    printer.loops(kernel.shape[:-1])
    monoid = printer.constant(kernel.monoid)
    printer.line(f"state = {monoid}.identity")
    last, length = f"c{len(kernel.shape) - 1}", kernel.shape[-1]
    printer.line(f"for {last} in range({length - 1}, -1, -1):" if kernel.reverse else f"for {last} in range({length}):")
    printer.depth += 1
    (value,) = printer.values([kernel.value])
    printer.line(f"state = combine({monoid}, state, lift({monoid}, {value}, {last}))")
    printer.line(f"for output, value in zip(outputs, results({monoid}, state)):")
    printer.line(f"    output[{place(kernel.offset, kernel.strides)}] = value")


def print_sort(printer: Printer, kernel: Sort) -> None:
    printer.line("start = 0")
    printer.loops(kernel.shape[:-1])
    depth = printer.depth
    printer.line("row = []")
    printer.loops(kernel.shape[-1:], len(kernel.shape) - 1)
    (value,) = printer.values([kernel.value])
    printer.line(f"row.append({value})")
    printer.depth = depth
    printer.line(f"for at, position in enumerate(sorted_order(row, {kernel.descending})[:{kernel.limit}], start):")
    printer.line("    outputs[0][at], outputs[1][at] = row[position], position")
    printer.line(f"start += {kernel.limit}")


def print_scatter(printer: Printer, kernel: Scatter) -> None:
    printer.loops(kernel.lanes + kernel.entries)
    index, value = printer.values([kernel.index, kernel.value])
    if kernel.monoid is not None:
        monoid = printer.constant(kernel.monoid)
        held = f"[outputs[0][{index}]]"
        printer.line(f"({value},) = combine({monoid}, {held}, lift({monoid}, {value}, 0))")
    printer.line(f"outputs[0][{index}] = convert({value}, {kernel.outputs[0].dtype.name})")


FORMS: dict[type, Any] = {
    Pointwise: print_pointwise, RowProgram: print_rows, Contraction: print_contraction, Scan: print_scan,
    Sort: print_sort,
    Scatter: print_scatter,
}  # fmt: skip
