"""Every kernel form as a NumPy function: source printed, compiled once, blocked so that chains stay in cache."""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from webgpu_torch_core.ir.expression import Expression, topological
from webgpu_torch_core.ir.kernels import Contraction, Kernel, Pointwise, RowProgram, Scan, Scatter, Sort, Store
from webgpu_torch_core.ir.layouts import Shape, number_of_elements
from webgpu_torch_core.ir.monoids import standard_name

from . import boxes, contracting, gathers, joining, pool, reductions, runtime, scattering, windows
from .moving import move
from .ordered_writers import ScanWriter, ScatterWriter, SortWriter
from .printed import Printed, digest, keep, known
from .printer import TYPES
from .tables import Tabulated, tabulated
from .writer import BLOCK_ELEMENTS, Writer, is_copy_of_rows, subscript

#: elements of a row from which on it is reduced in pieces, so that no copy of all of it is made
LONG_ROW = 1 << 17

#: rows up to which, and products from which on, a matrix is the left operand rather than, by its columns, the right one
MOST_ROWS, LEAST_WORK = 64, 1 << 20
#: products of a sum from which on half of the results of a matrix and itself, and mirroring them, take less time than all of them
LONG_SUM = 384

#: bytes after which lines of the first-level cache share a place, how many may, and how far apart elements lie at least that often do
PAGE, WAYS, CLOSE = 1 << 12, 8, 1 << 9

#: steps whose functions have several arrays of doubles on their way, which the allocator has of memory that is mapped if they are short
_IN_DOUBLES = frozenset(("floor_divide", "remainder", "fmod", "erfc"))

#: what the source of kernels names: ``array`` makes a view, of a type that has its name with a line behind it
SCOPE = {
    "n": np, "r": runtime, "contracting": contracting, "reductions": reductions, "scattering": scattering, "gathers": gathers, "joining": joining, "pool": pool,
    "array": np.ndarray, "move": move,
    **{f"{name}_": np.dtype(name) for name in set(TYPES.values())},
}  # fmt: skip
#: what the names of files that tracebacks show begin with
_FILE = "<cpu kernel"


def compile_kernel(kernel: Any) -> Callable[..., None]:
    """Return ``function(operands, outputs, parameters)`` over lists of byte arrays and numbers."""
    parts = tabulated(kernel)
    if parts is None:
        return _compile(kernel)
    table, looked_up = parts
    return Tabulated(_compile(table), _compile(looked_up), kernel.outputs[0].dtype)


def _compile(kernel: Kernel) -> Callable[..., None]:
    """Return the same by printing the kernel itself."""
    name = digest(kernel)
    file = f"{_FILE} {name} {kernel.name}>"
    found = known(name)
    if found is None:
        source, constants = _print(kernel)
        found = Printed(source, compile(source, file, "exec"), constants)
        keep(name, found)
    # Tracebacks and debuggers show the generated lines.
    linecache.cache[file] = (len(found.source), None, found.source.splitlines(True), file)
    scope: dict[str, Any] = {**SCOPE, **found.constants}
    with np.errstate(all="ignore"):
        exec(found.code, scope)
    return scope["kernel"]


def may_have_written(error: BaseException) -> bool:
    """Return whether a kernel that raised may have stored anything before: it had come to its first line that does."""
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_filename.startswith(_FILE):
            # In a later turn of its loop all lines of an earlier one have run.
            return (
                any(frame.f_locals.get(each) for each in ("start", "start1"))
                or trace.tb_lineno >= frame.f_globals["first_store"]
            )
        trace = trace.tb_next
    return False


def source_of(kernel: Any) -> str:
    """Return the NumPy source of a kernel."""
    return _print(kernel)[0]


def _print(kernel: Any) -> tuple[str, dict[str, Any]]:
    for form, writer in _WRITERS.items():
        if isinstance(kernel, form):
            return writer(kernel).text()
    raise TypeError(f"the cpu backend has no form for {type(kernel).__name__}")


class PointwiseWriter(Writer):
    """Boxes, in blocks of the dimension whose elements lie farthest apart; values, then stores."""

    def write(self) -> None:
        pieces = boxes.pieces(self.kernel.shape, self.kernel.stores)
        parts = joining.operands_joined(self.kernel, pieces)
        if parts:
            order, sizes = zip(*parts, strict=True)
            self.store(f"joining.join(({''.join(f'operands[{each}], ' for each in order)}), {sizes}, outputs[0])")
            return
        for shape, stores in pieces:
            # The dimension along which the next element lies farthest away comes first.
            strides = stores[0].strides
            order = sorted(range(len(shape)), key=lambda axis: -abs(strides[axis]))
            if not self.wide:
                stores = tuple(each.replace(value=gathers.with_gathered_sums(each.value, shape)) for each in stores)
            first = len(self.body)
            # Rows that are read at computed positions, or as they lie, go where they belong in one call.
            alone = stores[0] if len(stores) == 1 else None
            reads = alone is not None and (
                alone.value.step == "load_rows"
                or is_copy_of_rows(alone, self.kernel.outputs[alone.output].dtype, shape)
            )
            strip = None if alone is None else self._strip(shape, alone)
            if strip is not None:
                axis, limit = strip
                block, indent = self.loop(shape, (axis,), limit * number_of_elements(shape) // shape[axis])
            else:
                wide = not _IN_DOUBLES.isdisjoint(node.step for node in topological(*(each.value for each in stores)))
                limit = number_of_elements(shape) if reads else BLOCK_ELEMENTS // (2 if wide else 1)
                block, indent = self.loop(shape, order, limit)
            printer = self.printer(shape, block)
            printer.order = order
            self.stores(stores, printer, shape, block, indent)
            self.use_registers(first, shape, block, order)

    def _strip(self, shape: Shape, store: Store) -> tuple[int, int] | None:
        """Return the dimension along which a copy is made in strips, and how wide these are; None if it is made in blocks.

        What is read along it lies so far apart that few lines of the cache may hold it.
        """
        value = store.value
        if value.step != "load":
            return None
        axis = next((axis for axis, stride in enumerate(store.strides) if stride == 1), None)
        if axis is None or value.payload[2][axis] <= 1:
            return None
        apart = math.gcd(value.payload[2][axis] * value.dtype.itemsize, PAGE)
        wide = WAYS * (PAGE // apart)
        return (axis, wide) if apart >= CLOSE and shape[axis] >= 2 * wide else None


_REDUCTIONS = {
    "sum": "reductions.total({0}, {1}, n.{2})", "product": "reductions.product({0}, {1}, n.{2})",
    "maximum": "n.maximum.reduce({0}, axis={1}, keepdims=True)", "minimum": "n.minimum.reduce({0}, axis={1}, keepdims=True)",
    "any": "n.logical_or.reduce({0}, axis={1}, keepdims=True)", "all": "n.logical_and.reduce({0}, axis={1}, keepdims=True)",
    "argmaximum": "reductions.position({0}, {3}, True)", "argminimum": "reductions.position({0}, {3}, False)",
}  # fmt: skip


class RowWriter(Writer):
    """Blocks of rows; each reduction keeps its dimensions so that later expressions broadcast."""

    def write(self) -> None:
        domain = self.kernel.outer + self.kernel.inner
        kernel = self.kernel = self.kernel.replace(
            reductions=tuple(each.replace(value=boxes.simplify(each.value, domain)) for each in self.kernel.reductions),
            row_stores=self.simplified(self.kernel.row_stores, self.kernel.outer),
            stores=self.simplified(self.kernel.stores, domain),
        )
        depth = len(kernel.outer)
        axes = tuple(range(depth, len(domain)))
        first = len(self.body)
        block, indent = (
            self.loop(domain, (0,) if depth else (), 4 * BLOCK_ELEMENTS) if not self._is_long() else ({}, "")
        )
        reduced: list[str] = []
        if self._is_long():
            self._reduce_in_pieces(domain, depth, axes)
            squeezed = [f"r0.reshape({kernel.outer})"]
            names = self.store_values(kernel.row_stores, self.printer(kernel.outer, {}, squeezed), "")
            self.put(kernel.row_stores, names, kernel.outer, {}, "")
            return
        printer = self.printer(domain, block, reduced)
        printer.order = self._order(domain)
        sizes = "".join(f"{each}, " for each in (domain[1:] if block else domain))
        for number, reduction in enumerate(kernel.reductions):
            value = printer.value(reduction.value)
            self.flush(printer, indent)
            shape = (
                f"(len(range(start, min(start + block.stop - start, {domain[0]}))), {sizes})" if block else f"({sizes})"
            )
            self.body.append(f"{indent}w{number} = {printer.spread(value, shape)}")
            self.body.append(f"{indent}r{number} = {self._reduce(reduction, f'w{number}', axes)}")
            reduced.append(f"r{number}")
        squeezed = [f"{name}.reshape({name}.shape[:{len(kernel.outer)}])" for name in reduced]
        names = self.store_values(kernel.row_stores, self.printer(kernel.outer, block, squeezed), indent)
        if kernel.stores:
            self.stores(kernel.stores, printer, domain, block, indent)
        # Last, because the elements' values may read what these overwrite.
        self.put(kernel.row_stores, names, kernel.outer, block, indent)
        self.use_registers(first, domain, block, printer.order)

    def _order(self, domain: Shape) -> list[int]:
        """Return the dimensions from the one along which the elements of the first operand that has all lie farthest apart."""
        axes, kernel = list(range(len(domain))), self.kernel
        roots = (*(each.value for each in kernel.reductions), *(each.value for each in kernel.stores))
        for node in topological(*roots):
            if node.step == "load" and all(node.payload[2][axis] > 0 or domain[axis] == 1 for axis in axes):
                return sorted(axes, key=lambda axis: -node.payload[2][axis])
        return axes

    def _is_long(self) -> bool:
        """Return whether rows are so long that one reduction's operand should not be computed at once."""
        kernel = self.kernel
        simple = len(kernel.reductions) == 1 and not kernel.stores and len(kernel.inner) > 0
        if not simple or (how := _REDUCTIONS.get(standard_name(kernel.reductions[0].monoid) or "")) is None:
            return False
        # An operand itself is read where it lies, but for positions.
        simple = kernel.reductions[0].value.step != "load" or "position" in how
        return simple and kernel.inner[0] > 1 and number_of_elements(kernel.inner) >= LONG_ROW

    def _reduce_in_pieces(self, domain: Shape, depth: int, axes: Shape) -> None:
        """Write the loop over pieces of all rows: slices of the first inner dimension."""
        kernel = self.kernel
        (reduction,) = kernel.reductions
        size, others = domain[depth], number_of_elements(domain) // domain[depth]
        step = max(2 * BLOCK_ELEMENTS // max(others, 1), 1)
        first, self.lengths = len(self.body), {depth: step}
        kind, name = TYPES[reduction.dtype.name], standard_name(reduction.monoid)
        self.body += ["r0 = None", f"for start in range(0, {size}, {step}):"]
        self.body.append(f"    block = slice(start, min(start + {step}, {size}))")
        printer = self.printer(domain, {depth: "block"})
        printer.order = self._order(domain)
        value = printer.value(reduction.value)
        self.flush(printer, "    ")
        lead = "".join(f"{each}, " for each in domain[:depth])
        rest = "".join(f"{each}, " for each in domain[depth + 1 :])
        inner = number_of_elements(domain[depth + 1 :])
        self.body.append(f"    w0 = {printer.spread(value, f'({lead}block.stop - start, {rest})')}")
        self.body.append(f"    r0 = reductions.further(r0, '{name}', w0, {axes}, n.{kind}, start * {inner})")
        self.use_registers(first, domain, {depth: "block"}, printer.order)
        self.body.append(f"r0 = reductions.finished(r0, '{name}', n.{kind})")

    def _reduce(self, reduction: Any, value: str, axes: Shape) -> str:
        name = standard_name(reduction.monoid)
        if name in _REDUCTIONS and number_of_elements(self.kernel.inner):
            return _REDUCTIONS[name].format(value, axes, TYPES[reduction.dtype.name], len(axes))
        return f"r.reduce_with({self.combination(reduction.monoid)}, {value}, {len(axes)})"


class ContractionWriter(Writer):
    """Both sides as matrices, multiplied by BLAS."""

    def write(self) -> None:
        kernel = self.kernel
        domain = kernel.batch + kernel.m + kernel.n + kernel.k
        kind = TYPES[kernel.dtype.name]
        shape = kernel.batch + kernel.m + kernel.n
        window = windows.window_of(kernel.right) if 0 not in domain and kind in ("float32", "float64") else None
        if window is not None and kernel.operands[window.operand].dtype.name != "bfloat16":
            left = self._spread(kernel.left, domain, "m")
            name, sizes = f"c{len(self.constants)}", self._sizes(domain, "n")
            self.constants[name] = window
            counts = (len(kernel.batch), len(kernel.m), len(kernel.n))
            call = (
                f"contracting.contract_window({left}, {self.flat(window.operand)}, {name}, {sizes}, {counts}, n.{kind}"
            )
            if windows.stored_alone(kernel):
                (store,) = kernel.stores
                into = self.view("outputs", store.output, kernel.dtype, store.offset, store.strides, shape)
                self.store(f"{call}, {into})")
                return
            self.body.append(f"total = {call}).reshape({shape})")
        else:
            kernel = self.kernel = windows.in_order_of_memory(kernel)
            domain, shape = kernel.batch + kernel.m + kernel.n + kernel.k, kernel.batch + kernel.m + kernel.n
            left = self._side(kernel.left, domain, "m")
            right = self._told_apart(self._side(kernel.right, domain, "n"))
            rows, work = number_of_elements(kernel.m), number_of_elements(kernel.m + kernel.n + kernel.k)
            function = "r.product" if 1 < rows <= MOST_ROWS and work >= LEAST_WORK else "n.matmul"
            product = f"{function}({left}, {right}"
            matrices = (*kernel.batch, *map(number_of_elements, (kernel.m, kernel.n)))
            if windows.stored_whole(kernel, shape):
                whole = self.view("outputs", 0, kernel.dtype, 0, kernel.stores[0].strides, shape)
                self.store(f"{product}, out={whole if shape == matrices else f'{whole}.reshape({matrices})'})")
                return
            typed = "" if kind in ("float32", "float64") else f".astype(n.{kind}, copy=False)"
            self.body.append(f"total = {product}){typed}{'' if shape == matrices else f'.reshape({shape})'}")
        block, indent = self.loop(shape, range(len(shape)))
        accumulator = f"total[{subscript(block)}]" if block else "total"
        stores = self.simplified(kernel.stores, shape)
        self.stores(stores, self.printer(shape, block, None, accumulator), shape, block, indent)

    def _told_apart(self, right: str) -> str:
        """Return the right side so that it is not the left one's own memory, where that takes longer.

        Of a matrix and itself NumPy has BLAS compute one half, and takes longer to mirror it than that saves where sums are short.
        """
        kernel = self.kernel
        if {kernel.left.step, kernel.right.step} != {"load"} or number_of_elements(kernel.k) >= LONG_SUM:
            return right
        one, other = kernel.left.payload[0], kernel.right.payload[0]
        if one == other:
            return f"{right}.copy()"
        if number_of_elements(kernel.m) == number_of_elements(kernel.n):
            # Two operands may be one array.
            self.body.append(f"sn = {right}.copy() if operands[{one}] is operands[{other}] else {right}")
            return "sn"
        return right

    def _sizes(self, domain: Shape, group: str) -> Shape:
        """Return the domain with the other side's own dimensions of size 1."""
        kernel = self.kernel
        start = len(kernel.batch) + (len(kernel.m) if group == "m" else 0)
        hidden = range(start, start + len(kernel.n if group == "m" else kernel.m))
        return tuple(1 if index in hidden else size for index, size in enumerate(domain))

    def _spread(self, value: Expression, domain: Shape, group: str) -> str:
        """Return the name of one side over its dimensions."""
        shape, first = self._sizes(domain, group), len(self.body)
        printer = self.printer(shape, {})
        printer.order = range(len(shape))
        name = printer.value(boxes.simplify(value, shape))
        self.flush(printer, "")
        self.body.append(f"s{group} = {printer.spread(name, str(shape))}")
        self.use_registers(first, shape, {}, printer.order, beside=True)
        return f"s{group}"

    def _side(self, value: Expression, domain: Shape, group: str) -> str:
        """Return the source of a [batch, m, k] or [batch, k, n] array."""
        kernel = self.kernel
        matrix = self._matrix(value, domain, group)
        if matrix is not None:
            return matrix
        name = self._spread(value, domain, group)
        target = (*kernel.batch, number_of_elements(getattr(kernel, group)), number_of_elements(kernel.k))
        return f"{name}.reshape({target}){'.swapaxes(-1, -2)' if group == 'n' else ''}"

    def _matrix(self, value: Expression, domain: Shape, group: str) -> str | None:
        """Return the name of a side that lies in memory as a matrix, or None if it is no such one."""
        kernel = self.kernel
        if (
            value.step != "load"
            or value.dtype is not kernel.dtype
            or not len(kernel.m) == len(kernel.n) == len(kernel.k) == 1
        ):
            return None
        operand, offset, strides = value.payload
        batch = range(len(kernel.batch))
        m, n, k = range(len(batch), len(domain))
        axes = (*batch, m, k) if group == "m" else (*batch, k, n)
        if any(domain[axis] > 1 and not strides[axis] for axis in axes):
            return None
        steps, shape = (tuple(each[axis] for axis in axes) for each in (strides, domain))
        return self.view("operands", operand, value.dtype, offset, steps, shape)


_WRITERS: dict[type, type[Writer]] = {
    Pointwise: PointwiseWriter, RowProgram: RowWriter, Contraction: ContractionWriter, Scan: ScanWriter, Sort: SortWriter,
    Scatter: ScatterWriter,
}  # fmt: skip
