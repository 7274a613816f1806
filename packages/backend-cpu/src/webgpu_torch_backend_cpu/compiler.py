"""Every kernel form as a NumPy function: source printed, compiled once, blocked so that chains stay in cache."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
from webgpu_torch_core.ir.dtypes import compute_dtype, dtype
from webgpu_torch_core.ir.expression import Expression
from webgpu_torch_core.ir.kernels import Contraction, Pointwise, RowProgram, Scan, Scatter, Sort, Store
from webgpu_torch_core.ir.layouts import Shape, number_of_elements
from webgpu_torch_core.ir.monoids import Monoid, standard_name

from . import boxes, runtime, windows
from .printer import FUNCTIONS, TYPES, Printer

#: elements per block: a fused chain of float32 blocks this long stays in the second-level cache, and the allocator
#: serves blocks this small from memory that is already mapped
BLOCK_ELEMENTS = 1 << 14

#: elements from which on positions are computed in 64 bits
WIDE_ELEMENTS = 1 << 31
#: elements of a row from which on it is reduced in pieces, so that no copy of all of it is made
LONG_ROW = 1 << 20

#: what the source of kernels names: ``array`` makes a view, of a type that has its name with a line behind it
_SCOPE = {
    "n": np, "r": runtime, "w": windows, "array": np.ndarray, **{f"{name}_": np.dtype(name) for name in set(TYPES.values())}
}  # fmt: skip
_numbers = itertools.count()


def compile_kernel(kernel: Any) -> Callable[..., None]:
    """Return ``function(operands, outputs, parameters)`` over lists of byte arrays and numbers."""
    source, constants = _print(kernel)
    name = f"<cpu kernel {next(_numbers)} {kernel.name}>"
    # Tracebacks and debuggers show the generated lines.
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope: dict[str, Any] = {**_SCOPE, **constants}
    exec(compile(source, name, "exec"), scope)
    return scope["kernel"]


def source_of(kernel: Any) -> str:
    """Return the NumPy source of a kernel."""
    return _print(kernel)[0]


def _print(kernel: Any) -> tuple[str, dict[str, Any]]:
    for form, writer in _WRITERS.items():
        if isinstance(kernel, form):
            return writer(kernel).text()
    raise TypeError(f"the cpu backend has no form for {type(kernel).__name__}")


class Writer:
    """Collects the lines of one kernel's function."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.head: list[str] = []
        self.body: list[str] = []
        self.constants: dict[str, Any] = {}
        self.views: dict[Any, str] = {}
        self.functions: list[str] = []
        self.number = itertools.count()
        sizes = [each.numel for each in (*kernel.operands, *kernel.outputs)]
        self.wide = max([*sizes, kernel.elements()]) >= WIDE_ELEMENTS
        for index, kind in enumerate(kernel.parameters):
            name = f"n.{TYPES[kind.name]}"
            text = f"r.integer({name}, parameters[{index}])" if kind.category == 1 else f"{name}(parameters[{index}])"
            self.head.append(f"p{index} = {text}")

    def simplified(self, stores: tuple[Store, ...], domain: Shape) -> tuple[Store, ...]:
        """Return stores over a domain with what it decides decided."""
        return tuple(each.replace(value=boxes.simplify(each.value, domain)) for each in stores)

    def text(self) -> tuple[str, dict[str, Any]]:
        """Return the source and the constants it names."""
        self.write()
        lines = [*self.functions, "def kernel(operands, outputs, parameters):"]
        lines += [f"    {line}" for line in self.head + self.body]
        return "\n".join(lines) + "\n", self.constants

    def write(self) -> None:
        """Fill head and body."""
        raise NotImplementedError

    def view(self, target: str, index: int, kind: dtype, offset: int, strides: Shape, shape: Shape) -> str:
        """Return the name of a view over a whole domain, made once before any loop."""
        key = (target, index, offset, strides, shape)
        found = self.views.get(key)
        if found is None:
            found = self.views[key] = f"v{len(self.views)}"
            step = kind.itemsize
            scaled = tuple(stride * step for stride in strides)
            type_ = f"{TYPES[kind.name]}_"
            # A view of nothing may start anywhere; NumPy wants it inside of the buffer.
            self.head.append(
                f"{found} = n.empty({shape}, {type_})"
                if 0 in shape
                else f"{found} = array({shape}, {type_}, {target}[{index}], {offset * step}, {scaled})"
            )
        return found

    def flat(self, index: int) -> str:
        """Return the name of all elements of an operand."""
        key = ("flat", index)
        found = self.views.get(key)
        if found is None:
            found = self.views[key] = f"v{len(self.views)}"
            operand = self.kernel.operands[index]
            self.head.append(f"{found} = array(({operand.numel},), {TYPES[operand.dtype.name]}_, operands[{index}])")
        return found

    def printer(
        self, domain: Shape, block: str, reduced: list[str] | None = None, accumulator: str = "", axis: int = 0
    ) -> Printer:
        """Return a printer whose loads read block ``block`` (a slice of dimension ``axis``, '' for everything)."""

        def leaf(node: Expression, argument: str | None) -> str:
            if node.step == "load":
                operand, offset, strides = node.payload
                return self._load(operand, node.dtype, offset, strides, domain, block, axis)
            if node.step == "load_at":
                return f"{self.flat(node.payload)}[{argument}]"
            if node.step == "load_rows":
                return self._rows(node, argument or "", domain, block, axis)
            if node.step == "coordinate":
                return self._coordinate(node.payload, domain, block, axis)
            if node.step == "reduced":
                return (reduced or [])[node.payload]
            return accumulator

        result = Printer(leaf, self.number, self.wide)
        result.constants = self.constants
        return result

    def _load(
        self, operand: int, kind: dtype, offset: int, strides: Shape, domain: Shape, block: str, axis: int
    ) -> str:
        # Broadcast dimensions stay of size 1, so that what varies only along others is computed once.
        shape = tuple(1 if stride == 0 else size for stride, size in zip(strides, domain, strict=True))
        name = self.view("operands", operand, kind, offset, strides, shape)
        return f"{name}[{':, ' * axis}{block}]" if block and strides and strides[axis] != 0 else name

    def _rows(self, node: Expression, first: str, domain: Shape, block: str, axis: int) -> str:
        """Return the source of rows of an operand: of a view whose first axis numbers the elements where rows start."""
        operand, strides = node.payload
        row = tuple(number for number, stride in enumerate(strides) if stride)
        count = self.kernel.operands[operand].numel - sum((domain[each] - 1) * strides[each] for each in row)
        shape, steps = (count, *(domain[each] for each in row)), (1, *(strides[each] for each in row))
        name = self.view("operands", operand, node.dtype, 0, steps, shape)
        if block and axis in row:
            name = f"{name}[:, {':, ' * row.index(axis)}{block}]"
        return f"r.rows({name}, {first}, {row}, {len(domain)})"

    def _coordinate(self, dimension: int, domain: Shape, block: str, axis: int) -> str:
        shape = tuple(-1 if index == dimension else 1 for index in range(len(domain)))
        kind = "int64" if self.wide else "int32"
        if block and dimension == axis:
            stop = f"min({block}.stop, {domain[dimension]})"
            return f"n.arange({block}.start, {stop}, dtype=n.{kind}).reshape({shape})"
        key = ("coordinate", dimension, len(domain), domain[dimension])
        found = self.views.get(key)
        if found is None:
            found = self.views[key] = f"v{len(self.views)}"
            self.head.append(f"{found} = n.arange({domain[dimension]}, dtype=n.{kind}).reshape({shape})")
        return found

    def stores(self, stores: tuple[Store, ...], printer: Printer, domain: Shape, block: str, indent: str) -> None:
        """Write the values of all stores, then the stores; a single one may be written as it is computed."""
        if len(stores) == 1 and self._direct(stores[0], printer, domain, block, indent):
            return
        self.put(stores, self.store_values(stores, printer, indent, first_may_be_view=True), domain, block, indent)

    def _direct(self, store: Store, printer: Printer, domain: Shape, block: str, indent: str) -> bool:
        """Write a store whose value NumPy can compute in its place; return whether it can."""
        kind = self.kernel.outputs[store.output].dtype
        function = FUNCTIONS.get(store.value.step)
        if function is None or store.value.dtype is not kind or kind.name in ("bfloat16", "float16"):
            return False
        arguments = [printer.value(each) for each in store.value.arguments]
        self.flush(printer, indent)
        name = self.view("outputs", store.output, kind, store.offset, store.strides, domain)
        target = f"{name}[{block}]" if block else name
        self.body.append(f"{indent}n.{function}({', '.join(arguments)}, out={target})")
        return True

    def store_values(
        self, stores: tuple[Store, ...], printer: Printer, indent: str, first_may_be_view: bool = False
    ) -> list[str]:
        """Write the values of all stores; return their names."""
        names = [printer.value(each.value) for each in stores]
        self.flush(printer, indent)
        for index, (store, name) in enumerate(zip(stores, names, strict=True)):
            # A bare load is a view of its operand, which a store before this one may overwrite.
            if store.value.step == "load" and not (first_may_be_view and index == 0):
                names[index] = f"t{next(self.number)}"
                self.body.append(f"{indent}{names[index]} = {name}.copy()")
        return names

    def put(self, stores: tuple[Store, ...], names: list[str], domain: Shape, block: str, indent: str) -> None:
        """Write the stores of values that have names."""
        for each, value in zip(stores, names, strict=True):
            kind = self.kernel.outputs[each.output].dtype
            name = self.view("outputs", each.output, kind, each.offset, each.strides, domain)
            self.body.append(f"{indent}{name}[{block or '...'}] = {value}")

    def flush(self, printer: Printer, indent: str) -> None:
        """Move a printer's statements into the body."""
        self.body += [f"{indent}{line}" for line in printer.lines]
        printer.lines.clear()

    def combination(self, monoid: Monoid) -> str:
        """Write the functions of a monoid; return the source of their tuple, as :class:`runtime.Combination`."""
        parts = {"lift": (monoid.lift, 2), "combine": (monoid.combine, 2 * len(monoid.states))}
        names = [self._function(f"{name}{len(self.functions)}", *part) for name, part in parts.items()]
        results = self._function(f"results{len(self.functions)}", monoid.results, len(monoid.states))
        states = ", ".join(f"n.{TYPES[each.name]}" for each in monoid.states)
        identity = f"c{len(self.constants)}"
        self.constants[identity] = monoid.identity
        return f"r.Combination(({states},), {identity}, {', '.join(names)}, {results})"

    def _function(self, name: str, roots: tuple[Expression, ...], count: int) -> str:
        printer = Printer(lambda node, _: f"a{node.payload}", self.number)
        printer.constants = self.constants
        values = [printer.value(root) for root in roots]
        self.functions.append(f"def {name}({', '.join(f'a{index}' for index in range(count))}):")
        self.functions += [f"    {line}" for line in printer.lines]
        self.functions.append(f"    return ({', '.join(values)},)")
        return name

    def loop(self, size: int, inner: int, limit: int = BLOCK_ELEMENTS) -> tuple[str, str]:
        """Open a loop over blocks of the first dimension; return the block's subscript and the indentation."""
        if size * inner <= 2 * limit or size <= 1:
            return "", ""
        step = max(limit // max(inner, 1), 1)
        self.body.append(f"for start in range(0, {size}, {step}):")
        self.body.append(f"    block = slice(start, start + {step})")
        return "block", "    "


class PointwiseWriter(Writer):
    """Boxes, in blocks of the first dimension; values, then stores."""

    def write(self) -> None:
        for shape, stores in boxes.pieces(self.kernel.shape, self.kernel.stores):
            block, indent = self.loop(shape[0] if shape else 1, number_of_elements(shape[1:]))
            self.stores(stores, self.printer(shape, block), shape, block, indent)


_REDUCTIONS = {
    "sum": "r.total({0}, {1}, n.{2})", "product": "r.product({0}, {1}, n.{2})",
    "maximum": "n.maximum.reduce({0}, axis={1}, keepdims=True)", "minimum": "n.minimum.reduce({0}, axis={1}, keepdims=True)",
    "any": "n.logical_or.reduce({0}, axis={1}, keepdims=True)", "all": "n.logical_and.reduce({0}, axis={1}, keepdims=True)",
    "argmaximum": "r.position({0}, {3}, True)", "argminimum": "r.position({0}, {3}, False)",
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
        block = indent = ""
        if not self._is_long():
            block, indent = self.loop(
                kernel.outer[0] if depth else 1, number_of_elements(domain[1:]) if depth else 1, 4 * BLOCK_ELEMENTS
            )
        reduced: list[str] = []
        if self._is_long():
            self._reduce_in_pieces(domain, depth, axes)
            squeezed = [f"r0.reshape({kernel.outer})"]
            names = self.store_values(kernel.row_stores, self.printer(kernel.outer, "", squeezed), "")
            self.put(kernel.row_stores, names, kernel.outer, "", "")
            return
        printer = self.printer(domain, block, reduced)
        sizes = "".join(f"{each}, " for each in (domain[1:] if block else domain))
        for number, reduction in enumerate(kernel.reductions):
            value = printer.value(reduction.value)
            self.flush(printer, indent)
            shape = (
                f"(len(range(start, min(start + block.stop - start, {domain[0]}))), {sizes})" if block else f"({sizes})"
            )
            self.body.append(f"{indent}w{number} = r.spread({value}, {shape})")
            self.body.append(f"{indent}r{number} = {self._reduce(reduction, f'w{number}', axes)}")
            reduced.append(f"r{number}")
        squeezed = [f"{name}.reshape({name}.shape[:{len(kernel.outer)}])" for name in reduced]
        names = self.store_values(kernel.row_stores, self.printer(kernel.outer, block, squeezed), indent)
        if kernel.stores:
            self.stores(kernel.stores, printer, domain, block, indent)
        # Last, because the elements' values may read what these overwrite.
        self.put(kernel.row_stores, names, kernel.outer, block, indent)

    def _is_long(self) -> bool:
        """Return whether rows are so long that one reduction's operand should not be computed at once."""
        kernel = self.kernel
        simple = len(kernel.reductions) == 1 and not kernel.stores and len(kernel.inner) > 0
        simple = simple and standard_name(kernel.reductions[0].monoid) in _REDUCTIONS
        return simple and kernel.inner[0] > 1 and number_of_elements(kernel.inner) >= LONG_ROW

    def _reduce_in_pieces(self, domain: Shape, depth: int, axes: Shape) -> None:
        """Write the loop over pieces of all rows: slices of the first inner dimension."""
        kernel = self.kernel
        (reduction,) = kernel.reductions
        size, others = domain[depth], number_of_elements(domain) // domain[depth]
        step = max(4 * BLOCK_ELEMENTS // max(others, 1), 1)
        kind, name = TYPES[reduction.dtype.name], standard_name(reduction.monoid)
        self.body += ["r0 = None", f"for start in range(0, {size}, {step}):"]
        self.body.append(f"    block = slice(start, min(start + {step}, {size}))")
        printer = self.printer(domain, "block", None, axis=depth)
        value = printer.value(reduction.value)
        self.flush(printer, "    ")
        lead = "".join(f"{each}, " for each in domain[:depth])
        rest = "".join(f"{each}, " for each in domain[depth + 1 :])
        inner = number_of_elements(domain[depth + 1 :])
        self.body.append(f"    w0 = r.spread({value}, ({lead}block.stop - start, {rest}))")
        self.body.append(f"    r0 = r.further(r0, '{name}', w0, {axes}, n.{kind}, start * {inner})")
        self.body.append(f"r0 = r.finished(r0, '{name}', n.{kind})")

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
            self.body.append(f"patches = w.patches({self.flat(window.operand)}, {name}, {sizes}, n.{kind})")
            counts = (len(kernel.batch), len(kernel.m), len(kernel.n))
            self.body.append(f"total = w.contract({left}, patches, {counts}).reshape({shape})")
        else:
            kernel = self.kernel = windows.in_order_of_memory(kernel)
            domain, shape = kernel.batch + kernel.m + kernel.n + kernel.k, kernel.batch + kernel.m + kernel.n
            sides = [self._side(kernel.left, domain, "m"), self._side(kernel.right, domain, "n")]
            product = f"n.matmul({sides[0]}, n.swapaxes({sides[1]}, -1, -2)"
            if windows.stored_whole(kernel, shape):
                whole = self.view("outputs", 0, kernel.dtype, 0, kernel.stores[0].strides, shape)
                matrices = (*kernel.batch, *map(number_of_elements, (kernel.m, kernel.n)))
                self.body.append(f"{product}, out={whole}.reshape({matrices}))")
                return
            self.body.append(f"total = {product}).astype(n.{kind}, copy=False).reshape({shape})")
        block, indent = self.loop(shape[0] if shape else 1, number_of_elements(shape[1:]))
        accumulator = "total[block]" if block else "total"
        stores = self.simplified(kernel.stores, shape)
        self.stores(stores, self.printer(shape, block, None, accumulator), shape, block, indent)

    def _sizes(self, domain: Shape, group: str) -> Shape:
        """Return the domain with the other side's own dimensions of size 1."""
        kernel = self.kernel
        start = len(kernel.batch) + (len(kernel.m) if group == "m" else 0)
        hidden = range(start, start + len(kernel.n if group == "m" else kernel.m))
        return tuple(1 if index in hidden else size for index, size in enumerate(domain))

    def _spread(self, value: Expression, domain: Shape, group: str) -> str:
        """Return the name of one side over its dimensions."""
        shape = self._sizes(domain, group)
        printer = self.printer(shape, "")
        name = printer.value(boxes.simplify(value, shape))
        self.flush(printer, "")
        self.body.append(f"s{group} = r.spread({name}, {shape})")
        return f"s{group}"

    def _side(self, value: Expression, domain: Shape, group: str) -> str:
        """Return the name of a [batch, rows, k] array."""
        kernel = self.kernel
        name = self._spread(value, domain, group)
        target = (*kernel.batch, number_of_elements(getattr(kernel, group)), number_of_elements(kernel.k))
        return f"{name}.reshape({target})"


#: the functions of NumPy that combine as standard monoids do, without and with positions
_FUNCTIONS = {
    "sum": "add", "product": "multiply", "maximum": "maximum", "minimum": "minimum", "any": "logical_or", "all": "logical_and",
    "xor": "bitwise_xor",
}  # fmt: skip
_ACCUMULATIONS = {**_FUNCTIONS, "running_maximum": "maximum", "running_minimum": "minimum"}


class ScanWriter(Writer):
    """NumPy's accumulate along the last axis."""

    def write(self) -> None:
        kernel = self.kernel
        printer = self.printer(kernel.shape, "")
        value = printer.value(boxes.simplify(kernel.value, kernel.shape))
        self.flush(printer, "")
        kind = TYPES[kernel.monoid.states[0].name]
        flip = "[..., ::-1]" if kernel.reverse else ""
        self.body.append(f"x = r.spread({value}, {kernel.shape}){flip}")
        name = standard_name(kernel.monoid)
        if name not in _ACCUMULATIONS:
            self.body.append(f"found = r.scan_with({self.combination(kernel.monoid)}, x, {kernel.reverse})")
            for index in range(len(kernel.outputs)):
                self._store(index, f"found[{index}]{flip}")
            return
        wide = "n.float64" if kind == "float32" and name in ("sum", "product") else f"n.{kind}"
        self.body.append(f"y = n.{_ACCUMULATIONS[name]}.accumulate(x, axis=-1, dtype={wide})")
        self._store(0, f"y{flip}")
        if len(kernel.outputs) > 1:
            length = kernel.shape[-1]
            place = f"n.arange({length})" if not kernel.reverse else f"n.arange({length - 1}, -1, -1)"
            self.body.append(f"hit = n.where(n.equal(x, y) | n.not_equal(x, x), n.arange({length}), 0)")
            self.body.append(f"place = {place}[n.maximum.accumulate(hit, axis=-1)]")
            self._store(1, f"place{flip}")

    def _store(self, output: int, value: str) -> None:
        kernel = self.kernel
        kind = kernel.outputs[output].dtype
        name = self.view("outputs", output, kind, kernel.offset, kernel.strides, kernel.shape)
        if kind.name == "bfloat16":
            value = f"r.to_bfloat16(n.asarray({value}, n.float32))"
        self.body.append(f"{name}[...] = {value}")


class SortWriter(Writer):
    """A stable order of positions, and what lies there."""

    def write(self) -> None:
        kernel = self.kernel
        printer = self.printer(kernel.shape, "")
        value = printer.value(boxes.simplify(kernel.value, kernel.shape))
        self.flush(printer, "")
        length = kernel.shape[-1]
        self.body.append(f"x = r.spread({value}, {kernel.shape})")
        keys = "r.from_bfloat16(x)" if kernel.dtype.name == "bfloat16" else "x"
        few = kernel.limit * 8 <= length
        self.body.append(
            f"order = r.first_sorted({keys}, {kernel.limit}, {kernel.descending})"
            if few and kernel.limit
            else f"order = r.sorted_order({keys}, {kernel.descending}, {kernel.limit})"
        )
        shape = (*kernel.shape[:-1], kernel.limit)
        for index, result in enumerate(("n.take_along_axis(x, order, -1)", "order")):
            kind = TYPES[kernel.outputs[index].dtype.name]
            self.body.append(f"array({shape}, {kind}_, outputs[{index}])[...] = {result}")


class ScatterWriter(Writer):
    """ufunc.at in the entries' order; 16-bit floats combine in float32."""

    def write(self) -> None:
        kernel = self.kernel
        domain = kernel.lanes + kernel.entries
        printer = self.printer(domain, "")
        index, value = (boxes.simplify(each, domain) for each in (kernel.index, kernel.value))
        index, value = printer.position(index), printer.value(value)
        self.flush(printer, "")
        of = kernel.outputs[0].dtype
        kind, count = TYPES[of.name], kernel.outputs[0].numel
        self.body.append(f"target = array(({count},), {kind}_, outputs[0])")
        self.body.append(f"index = r.spread({index}, {domain}).reshape(-1)")
        self.body.append(f"value = r.spread({value}, {domain}).reshape(-1)")
        if kernel.monoid is None:
            self.body.append("target[index] = value")
            return
        name = standard_name(kernel.monoid)
        at = (
            f"n.{_FUNCTIONS[name]}.at(" if name in _FUNCTIONS else f"r.scatter_with({self.combination(kernel.monoid)}, "
        )
        if compute_dtype(of) is of or of.category == 1:
            self.body.append(f"{at}target, index, value)")
            return
        unpack, pack = (
            ("r.from_bfloat16({0})", "r.to_bfloat16({0})")
            if of.name == "bfloat16"
            else ("{0}.astype(n.float32)", "{0}.astype(n.float16)")
        )
        self.body.append(f"wide = {unpack.format('target')}")
        self.body.append(f"{at}wide, index, {unpack.format('value')})")
        self.body.append(f"target[...] = {pack.format('wide')}")


_WRITERS: dict[type, type[Writer]] = {
    Pointwise: PointwiseWriter, RowProgram: RowWriter, Contraction: ContractionWriter, Scan: ScanWriter, Sort: SortWriter,
    Scatter: ScatterWriter,
}  # fmt: skip
