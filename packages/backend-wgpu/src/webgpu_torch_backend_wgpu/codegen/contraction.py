"""Contractions: which kernel computes one, and what its variants share."""

from __future__ import annotations

from webgpu_torch_core.expression import Expression
from webgpu_torch_core.kernels import Contraction
from webgpu_torch_core.layouts import number_of_elements

from ..program import Capabilities, Program
from .access import LANES, Buffers, aligned
from .printer import Module, Printer, split_index


class Side:
    """One operand of a contraction: its expression and, where it is a plain float32 load, its strides.

    ``row`` and ``depth`` are the strides along its own single dimension and along k, None where it is not that simple.
    """

    def __init__(self, kernel: Contraction, value: Expression, group: str) -> None:
        self.value = value
        self.group = group
        self.sizes = getattr(kernel, group)
        counts = [len(kernel.batch), len(kernel.m), len(kernel.n), len(kernel.k)]
        self.first = counts[0] if group == "m" else counts[0] + counts[1]
        self.first_k = sum(counts[:3])
        self.row: int | None = None
        self.depth: int | None = None
        if value.step == "load" and value.dtype.name == "float32" and len(self.sizes) <= 1 and counts[3] <= 1:
            self.offset, strides = value.payload[1], value.payload[2]
            self.row = strides[self.first] if self.sizes else 0
            self.depth = strides[self.first_k] if counts[3] else 0
            self.strides = strides

    def vector_along(self, position: int, size: int) -> bool:
        """Return whether four consecutive coordinates of a dimension are an aligned vector."""
        return self.row is not None and size % LANES == 0 and aligned(self.offset, self.strides, position)

    @property
    def along_k(self) -> bool:
        """Whether neighbouring k are neighbouring in memory."""
        return self.depth == 1 or (self.row is not None and self.row != 1)


class Frame:
    """What every contraction kernel starts with: sizes, sides, buffers and a way to spell loads and epilogues."""

    def __init__(self, kernel: Contraction, capabilities: Capabilities) -> None:
        self.kernel = kernel
        self.module = Module(kernel, capabilities)
        self.batch = number_of_elements(kernel.batch)
        self.m = number_of_elements(kernel.m)
        self.n = number_of_elements(kernel.n)
        self.k = number_of_elements(kernel.k)
        self.left = Side(kernel, kernel.left, "m")
        self.right = Side(kernel, kernel.right, "n")
        self.buffers = Buffers(self.module, kernel, kernel.stores, None)
        self.scalar = self.module.type(kernel.dtype).scalar

    def batch_coordinates(self, name: str) -> list[str]:
        """Write the batch coordinates of a flat batch index."""
        return split_index(self.module.lines, self.module, name, self.kernel.batch) if self.kernel.batch else []

    def element(self, side: Side, batch: list[str], row: str, depth: str, lines: list[str]) -> str:
        """Write what computes one element of a side and return its name; indices are in range."""
        module, kernel = self.module, self.kernel
        rows = split_index(lines, module, row, side.sizes) if side.sizes else []
        depths = split_index(lines, module, depth, kernel.k) if kernel.k else []
        other = ["0u"] * (len(kernel.n) if side.group == "m" else len(kernel.m))
        coordinates = batch + (rows + other if side.group == "m" else other + rows) + depths

        def leaf(node: Expression, argument: str | None) -> str:
            if node.step == "load":
                return self.buffers.load(node, coordinates, 0, {}, lines)
            if node.step == "load_at":
                return self.buffers.load_at(node, argument or "0u")
            return f"i32({coordinates[node.payload]})"

        return Printer(module, leaf, lines).value(side.value)

    def epilogue(self, batch: list[str], row: str, column: str, accumulator: str, lines: list[str]) -> None:
        """Write the stores of one element of the result."""
        module, kernel = self.module, self.kernel
        rows = split_index(lines, module, row, kernel.m) if kernel.m else []
        columns = split_index(lines, module, column, kernel.n) if kernel.n else []
        coordinates = batch + rows + columns

        def leaf(node: Expression, argument: str | None) -> str:
            if node.step == "load":
                return self.buffers.load(node, coordinates, 0, {}, lines)
            if node.step == "load_at":
                return self.buffers.load_at(node, argument or "0u")
            if node.step == "accumulator":
                return accumulator
            return f"i32({coordinates[node.payload]})"

        printer = Printer(module, leaf, lines)
        values = [printer.value(store.value) for store in kernel.stores]
        for store, value in zip(kernel.stores, values, strict=True):
            self.buffers.store(store, [value], coordinates, lines)

    def zero(self) -> str:
        """Return the accumulator's zero."""
        return {"vec2<u32>": "vec2<u32>()"}.get(self.scalar, f"{self.scalar}(0)")

    def multiply_add(self, total: str, left: str, right: str) -> str:
        """Return ``total + left * right`` in the accumulator's type."""
        if self.scalar == "vec2<u32>":
            return f"wt_i64_add({total}, wt_i64_mul({left}, {right}))"
        if self.scalar == "bool":
            return f"({total} || ({left} && {right}))"
        return f"{total} + {left} * {right}"


def generate_contraction(kernel: Contraction, capabilities: Capabilities) -> Program:
    """Return the program of a contraction: vector kernels for a side of few rows, tiles otherwise."""
    from .tiles import choose_tile, generate_tiles
    from .vectors import SKINNY, generate_vectors

    m, n, k = (number_of_elements(each) for each in (kernel.m, kernel.n, kernel.k))
    if kernel.dtype.name == "float32" and min(m, n) <= SKINNY and k >= 16:
        return generate_vectors(kernel, capabilities)
    return generate_tiles(kernel, capabilities, choose_tile(kernel, capabilities))
