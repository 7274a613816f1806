"""Contractions: which kernel computes one, and what all of its kernels share."""

from __future__ import annotations

from webgpu_torch_core.ir.expression import Expression, topological
from webgpu_torch_core.ir.kernels import Contraction
from webgpu_torch_core.ir.layouts import Shape, number_of_elements

from ..program import Capabilities, Program
from .access import LANES, Buffers
from .printer import Module, Printer, linear_index, load_element, split_index

_VECTOR_TYPES = ("float32", "float16", "bfloat16", "int8", "uint8")


def flat_stride(sizes: Shape, strides: Shape) -> int | None:
    """Return the one stride with which row-major positions of several dimensions are read; None where there is none."""
    if not sizes:
        return 0
    for index in range(len(sizes) - 1):
        if strides[index] != strides[index + 1] * sizes[index + 1]:
            return None
    return strides[-1]


def loads_of(root: Expression) -> list[Expression]:
    """Return the loads inside an expression."""
    return [node for node in topological(root) if node.step in ("load", "load_at")]


class Side:
    """One operand of a contraction: its expression, and which of its dimensions are contiguous in memory.

    ``axis`` is the group (``"k"`` or the side's own, ``"m"`` or ``"n"``) along which neighbours are neighbours in memory,
    ``lanes`` how many elements along it one thread can load as aligned vectors: 4, or 1.
    """

    def __init__(self, kernel: Contraction, value: Expression, group: str) -> None:
        self.kernel = kernel
        self.value = value
        self.group = group
        counts = [len(kernel.batch), len(kernel.m), len(kernel.n), len(kernel.k)]
        own = counts[0] if group == "m" else counts[0] + counts[1]
        self.spans = {
            "batch": (0, kernel.batch),
            group: (own, kernel.m if group == "m" else kernel.n),
            "k": (sum(counts[:3]), kernel.k),
        }
        self.rows = number_of_elements(self.spans[group][1])
        leaves = [node.step for node in topological(value)]
        self.strided = not {"load_at", "coordinate"} & set(leaves)
        self.loads = [node for node in loads_of(value) if node.step == "load"]
        self.axis = self._axis()
        vectors = self.strided and self._vectors(self.axis)
        self.lanes = LANES if vectors else 1

    def stride(self, node: Expression, group: str) -> int | None:
        """Return the stride of a load along the flat index of a group."""
        first, sizes = self.spans[group]
        return flat_stride(sizes, node.payload[2][first : first + len(sizes)])

    def _axis(self) -> str:
        """Return the group that is contiguous; computed loads mostly are along the side's own dimensions."""
        for group in (self.group, "k"):
            first, sizes = self.spans[group]
            if sizes and any(node.payload[2][first + len(sizes) - 1] == 1 for node in self.loads):
                return group
        return self.group

    def _vectors(self, axis: str) -> bool:
        """Return whether every load reads four neighbours along ``axis`` as an aligned vector or one element."""
        first, sizes = self.spans[axis]
        if self.kernel.dtype.name != "float32" or not sizes or number_of_elements(sizes) % LANES:
            return False
        found = False
        for node in self.loads:
            stride = self.stride(node, axis)
            if stride == 0:
                continue
            _, offset, strides = node.payload
            others = strides[:first] + strides[first + len(sizes) :]
            if stride != 1 or offset % LANES or any(each % LANES for each in others):
                return False
            if node.dtype.name not in _VECTOR_TYPES:
                return False
            found = True
        return found


class Frame:
    """What every contraction kernel starts with: sizes, sides, buffers and a way to spell loads and epilogues."""

    def __init__(self, kernel: Contraction, capabilities: Capabilities, sides: bool = True) -> None:
        self.kernel = kernel
        self.module = Module(kernel, capabilities)
        self.lines = self.module.lines
        self.batch = number_of_elements(kernel.batch)
        self.m = number_of_elements(kernel.m)
        self.n = number_of_elements(kernel.n)
        self.k = number_of_elements(kernel.k)
        self.left = Side(kernel, kernel.left, "m")
        self.right = Side(kernel, kernel.right, "n")
        self.scalar = self.module.type(kernel.dtype).scalar
        # Four columns of the result are stored at once where the last dimension of n allows.
        vector = len(kernel.batch + kernel.m + kernel.n) - 1 if kernel.n and kernel.n[-1] % LANES == 0 else None
        self.vector = vector
        self.buffers = Buffers(self.module, kernel, kernel.stores, vector)
        self._find_wide([self.left, self.right] if sides else [])

    def _find_wide(self, sides: list[Side]) -> None:
        """Bind as vectors the buffers that nothing reads or writes one element at a time."""
        buffers, kernel = self.buffers, self.kernel
        wide: set[tuple[str, int]] = set()
        narrow: set[tuple[str, int]] = set()
        for store in kernel.stores:
            dtype = kernel.outputs[store.output].dtype
            target = wide if buffers.grouped(store.offset, store.strides, dtype) else narrow
            target.add(("output", store.output))
            for node in loads_of(store.value):
                if node.step == "load_at":
                    narrow.add(buffers.key(node.payload))
                    continue
                grouped = buffers.grouped(node.payload[1], node.payload[2], node.dtype)
                (wide if grouped else narrow).add(buffers.key(node.payload[0]))
        for side in sides:
            for node in loads_of(side.value):
                if node.step == "load":
                    grouped = side.lanes > 1 and side.stride(node, side.axis) == 1
                    (wide if grouped else narrow).add(buffers.key(node.payload[0]))
                else:
                    narrow.add(buffers.key(node.payload))
        buffers.wide = wide - narrow

    def require_scalars(self, side: Side) -> None:
        """Let a kernel read a side one element at a time."""
        side.lanes = 1
        self._find_wide([self.left, self.right])

    def batch_coordinates(self, name: str) -> list[str]:
        """Write the batch coordinates of a flat batch index."""
        return split_index(self.lines, self.module, name, self.kernel.batch) if self.kernel.batch else []

    def _index(self, side: Side, node: Expression, batch: list[str], at: dict[str, str], lines: list[str]) -> str:
        """Return the element index of a strided load; positions inside a group stay flat where they can."""
        _, offset, strides = node.payload
        used, names = list(strides[: len(batch)]), list(batch)
        for group, position in at.items():
            first, sizes = side.spans[group]
            flat = side.stride(node, group)
            if flat is not None:
                used.append(flat)
                names.append(position)
            elif any(strides[first : first + len(sizes)]):
                used += strides[first : first + len(sizes)]
                names += split_index(lines, self.module, position, sizes)
        return linear_index(offset, tuple(used), names)

    def element(self, side: Side, batch: list[str], row: str, depth: str, lines: list[str]) -> str:
        """Write what computes one element of a side and return its name; indices are in range."""
        at = {side.group: row, "k": depth}
        split: dict[str, list[str]] = {}

        def coordinate(dimension: int) -> str:
            for group, (first, sizes) in side.spans.items():
                if first <= dimension < first + len(sizes):
                    if group == "batch":
                        return batch[dimension]
                    if group not in split:
                        split[group] = split_index(lines, self.module, at[group], sizes)
                    return split[group][dimension - first]
            return "0u"

        def leaf(node: Expression, argument: str | None) -> str:
            if node.step == "load":
                key = self.buffers.key(node.payload[0])
                index = self._index(side, node, batch, at, lines)
                return self._single(key, node, index, lines)
            if node.step == "load_at":
                return self.buffers.load_at(node, argument or "0u")
            return f"i32({coordinate(node.payload)})"

        return Printer(self.module, leaf, lines).value(side.value)

    def _single(self, key: tuple[str, int], node: Expression, index: str, lines: list[str]) -> str:
        """Return the text of one element of a buffer, also where it is bound as vectors."""
        if key not in self.buffers.wide:
            element = self.module.type(node.dtype)
            return load_element(self.module, self.buffers.name(key), element, index, key in self.buffers.atomic)
        at = self.module.fresh("a")
        lines.append(f"let {at} = {index};")
        name, words = self.buffers.name(key), self.buffers._words(key)
        if not words:
            return f"{name}[{at} / 4u][{at} % 4u]"
        element = self.module.type(node.dtype)
        part = "" if words == 1 else f"[({at} % 4u) / {element.lanes}u]"
        return element.unpack(f"{name}[{at} / 4u]{part}", f"({at} % {element.lanes}u)")

    def vector_of(self, side: Side, batch: list[str], row: str, depth: str, lines: list[str]) -> str:
        """Write what loads four neighbours along a side's axis and return the vector's text."""
        at = {side.group: row, "k": depth}
        groups: dict[Expression, list[str]] = {}
        whole = ""
        for node in side.loads:
            index = self._index(side, node, batch, at, lines)
            if side.stride(node, side.axis) == 0:
                groups[node] = [self._single(self.buffers.key(node.payload[0]), node, index, lines)] * LANES
            else:
                whole, groups[node] = self._group(node, index, lines)
        if side.value.step == "load" and whole:
            return whole
        values = []
        for lane in range(LANES):
            printer = Printer(self.module, lambda node, argument, lane=lane: groups[node][lane], lines)
            values.append(printer.value(side.value))
        return f"vec4<{self.scalar}>({', '.join(values)})"

    def _group(self, node: Expression, index: str, lines: list[str]) -> tuple[str, list[str]]:
        """Write the load of four elements; return the whole vector's name (for float32) and the elements."""
        module, buffers = self.module, self.buffers
        key = buffers.key(node.payload[0])
        name, words, element = buffers.name(key), buffers._words(key), module.type(node.dtype)
        found, at = module.fresh("v"), module.fresh("a")
        lines.append(f"let {at} = {index};")
        if words:
            if key in buffers.wide:
                lines.append(f"let {found} = {name}[{at} / 4u];")
            else:
                reads = [f"{name}[{at} / {element.lanes}u + {each}u]" for each in range(words)]
                reads = [f"atomicLoad(&{each})" for each in reads] if key in buffers.atomic else reads
                both = ", ".join(reads)
                lines.append(f"let {found} = {both if words == 1 else f'vec2<u32>({both})'};")
            per = LANES // words
            parts = [found if words == 1 else f"{found}.{'xy'[lane // per]}" for lane in range(LANES)]
            return "", [element.unpack(part, f"{lane % per}u") for lane, part in enumerate(parts)]
        if key in buffers.wide:
            lines.append(f"let {found} = {name}[{at} / 4u];")
        else:
            reads = ", ".join(f"{name}[{at} + {lane}u]" for lane in range(LANES))
            lines.append(f"let {found} = vec4<{element.scalar}>({reads});")
        return (found if element.scalar == self.scalar else ""), [f"{found}.{lane}" for lane in "xyzw"]

    def epilogue(self, batch: list[str], row: str, column: str, values: list[str], lines: list[str]) -> None:
        """Write the stores of one element of the result, or of four neighbouring columns."""
        module, kernel = self.module, self.kernel
        rows = split_index(lines, module, row, kernel.m) if kernel.m else []
        columns = split_index(lines, module, column, kernel.n) if kernel.n else []
        coordinates = batch + rows + columns
        last = len(coordinates) - 1
        cache: dict[object, object] = {}
        printers = []
        for lane, accumulator in enumerate(values):

            def leaf(node: Expression, argument: str | None, lane: int = lane, accumulator: str = accumulator) -> str:
                if node.step == "load":
                    return self.buffers.load(node, coordinates, lane, cache, lines)
                if node.step == "load_at":
                    return self.buffers.load_at(node, argument or "0u")
                if node.step == "accumulator":
                    return accumulator
                moved = f" + {lane}u" if lane and node.payload == last else ""
                return f"i32({coordinates[node.payload]}{moved})"

            printers.append(Printer(module, leaf, lines))
        texts = [[printer.value(store.value) for printer in printers] for store in kernel.stores]
        for store, each in zip(kernel.stores, texts, strict=True):
            self.buffers.store(store, each, coordinates, lines)

    def zero(self) -> str:
        """Return the accumulator's zero."""
        return {"vec2<u32>": "vec2<u32>()"}.get(self.scalar, f"{self.scalar}(0)")

    def add(self, total: str, value: str) -> str:
        """Return ``total + value`` in the accumulator's type."""
        if self.scalar == "vec2<u32>":
            return f"wt_i64_add({total}, {value})"
        if self.scalar == "bool":
            return f"({total} | {value})"
        return f"{total} + {value}"

    def multiply_add(self, total: str, left: str, right: str) -> str:
        """Return ``total + left * right`` in the accumulator's type."""
        if self.scalar == "vec2<u32>":
            return f"wt_i64_add({total}, wt_i64_mul({left}, {right}))"
        if self.scalar == "bool":
            return f"({total} | ({left} & {right}))"
        return f"{total} + {left} * {right}"


def generate_contraction(kernel: Contraction, capabilities: Capabilities) -> Program:
    """Return the program of a contraction: vector kernels for a side of few rows, tiles otherwise."""
    from .contraction_tile import choose_tile, generate_tile
    from .contraction_vector import SKINNY, generate_vector

    m, n, k = (number_of_elements(each) for each in (kernel.m, kernel.n, kernel.k))
    if kernel.dtype.name == "float32" and min(m, n) <= SKINNY and k >= 16:
        return generate_vector(kernel, capabilities)
    return generate_tile(kernel, capabilities, choose_tile(kernel, capabilities))
