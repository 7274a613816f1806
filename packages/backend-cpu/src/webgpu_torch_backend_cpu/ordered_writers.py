"""Kernel forms in which the order of elements matters: scans, sorts and scatters."""

from __future__ import annotations

from webgpu_torch_core.ir.dtypes import compute_dtype, float32
from webgpu_torch_core.ir.expression import Expression, topological
from webgpu_torch_core.ir.layouts import Shape
from webgpu_torch_core.ir.monoids import standard_name

from . import boxes
from .printer import TYPES, convert
from .writer import BLOCK_ELEMENTS, Block, Writer, subscript

#: the functions of NumPy that combine as standard monoids do, without and with positions
_FUNCTIONS = {
    "sum": "add", "product": "multiply", "maximum": "maximum", "minimum": "minimum", "any": "logical_or", "all": "logical_and",
    "xor": "bitwise_xor",
}  # fmt: skip
#: times as many lines as a block has where they take each step together
LINES_TOGETHER = 8
_ACCUMULATIONS = {**_FUNCTIONS, "running_maximum": "maximum", "running_minimum": "minimum"}


class ScanWriter(Writer):
    """NumPy's accumulate along the last axis, a block of lines at a time."""

    def write(self) -> None:
        kernel, shape = self.kernel, self.kernel.shape
        # Lines whose elements are neighbours of other lines' take each step together: many at a time.
        together = len(shape) > 1 and kernel.strides[-1] != 1
        limit = BLOCK_ELEMENTS * (LINES_TOGETHER if together else 1)
        block, indent = self.loop(shape, (0,) if len(shape) > 1 else (), limit)
        printer = self.printer(shape, block)
        value = printer.value(boxes.simplify(kernel.value, shape))
        self.flush(printer, indent)
        kind = TYPES[kernel.monoid.states[0].name]
        flip = "[..., ::-1]" if kernel.reverse else ""
        sizes = (f"min(block.stop, {shape[0]}) - start" if block else str(shape[0]), *map(str, shape[1:]))
        self.body.append(f"{indent}x = r.spread({value}, ({', '.join(sizes)}, )){flip}")
        name = standard_name(kernel.monoid)
        if name not in _ACCUMULATIONS:
            self.body.append(f"{indent}found = r.scan_with({self.combination(kernel.monoid)}, x, {kernel.reverse})")
            for index in range(len(kernel.outputs)):
                self._store(index, f"found[{index}]{flip}", block, indent)
            return
        wide = "n.float64" if kind == "float32" and name in ("sum", "product") else f"n.{kind}"
        call = f"{indent}y = r.accumulated(n.{_ACCUMULATIONS[name]}, x, {wide}"
        of = TYPES[kernel.outputs[0].dtype.name]
        # Positions follow from sums as they were computed.
        if of == kind and kernel.outputs[0].dtype.name != "bfloat16":
            self.store(f"{call}, out={self._place(0, block)}{flip})")
        else:
            self.body.append(f"{call})")
            self._store(0, f"y{flip}", block, indent)
        if len(kernel.outputs) > 1:
            place = f"{'' if not kernel.reverse else f'{shape[-1] - 1} - '}r.latest(n.equal(x, y) | n.not_equal(x, x))"
            self._store(1, f"({place}){flip}", block, indent)

    def _place(self, output: int, block: Block) -> str:
        """Return the source of where a block of an output goes."""
        kernel = self.kernel
        kind = kernel.outputs[output].dtype
        name = self.view("outputs", output, kind, kernel.offset, kernel.strides, kernel.shape)
        return f"{name}[{subscript(block) or '...'}]"

    def _store(self, output: int, value: str, block: Block, indent: str) -> None:
        if self.kernel.outputs[output].dtype.name == "bfloat16":
            value = f"r.to_bfloat16(n.asarray({value}, n.float32))"
        self.store(f"{indent}{self._place(output, block)} = {value}")


class SortWriter(Writer):
    """A stable order of positions, and what lies there."""

    def write(self) -> None:
        kernel = self.kernel
        printer = self.printer(kernel.shape, {})
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
            self.store(f"array({shape}, {kind}_, outputs[{index}])[...] = {result}")


class ScatterWriter(Writer):
    """ufunc.at in the entries' order, a block of them at a time; 16-bit floats combine in float32."""

    def write(self) -> None:
        kernel = self.kernel
        domain = kernel.lanes + kernel.entries
        index, value = (boxes.simplify(each, domain) for each in (kernel.index, kernel.value))
        of = kernel.outputs[0].dtype
        kind, count = TYPES[of.name], kernel.outputs[0].numel
        self.body.append(f"target = array(({count},), {kind}_, outputs[0])")
        narrow = kernel.monoid is not None and compute_dtype(of) is not of and of.category != 1
        if narrow:
            self.body.append(f"wide = {convert('target', of, float32)}")
        into = "wide" if narrow else "target"
        rows = (
            boxes.rows_of(kernel.index, domain)
            if kernel.monoid is None or standard_name(kernel.monoid) in _FUNCTIONS
            else None
        )
        if rows is None:
            self._elements(index, value, into, narrow)
        else:
            self._whole_rows(rows, value, into, narrow)
        if narrow:
            self.body.append(f"target[...] = {convert('wide', float32, of)}")

    def _elements(self, index: Expression, value: Expression, into: str, narrow: bool) -> None:
        """Write what takes each element into its place."""
        kernel = self.kernel
        domain = kernel.lanes + kernel.entries
        order = self._order(index, value)
        axis = order[0] if order else 0
        block, indent = self.loop(domain, (axis,))
        printer = self.printer(domain, block)
        names = printer.position(index), printer.value(value)
        self.flush(printer, indent)
        shape = self._shape(domain, order, block)
        for name, of_each in zip(("index", "value"), names, strict=True):
            self.body.append(f"{indent}{name} = r.ordered({of_each}, {shape}, {order})")
        values = convert("value", kernel.outputs[0].dtype, float32) if narrow else "value"
        self.store(f"{indent}{self._combined(into, values)}")

    def _whole_rows(self, rows: boxes.Rows, value: Expression, into: str, narrow: bool) -> None:
        """Write what takes whole rows into their places."""
        kernel = self.kernel
        domain = kernel.lanes + kernel.entries
        numbers = tuple(axis for axis, stride in enumerate(rows.strides) if not stride)
        row = tuple(axis for axis, stride in enumerate(rows.strides) if stride)
        axis = max(numbers, key=lambda each: domain[each], default=0)
        # Entries keep their order in blocks of lanes, and in blocks of entries where these come first.
        if numbers and axis != next((each for each in numbers if domain[each] > 1), axis):
            axis = numbers[0]
        # What is read as it lies takes no memory of its own, and rows are added the quicker the more there are.
        limit = {"load": 32, "load_rows": 8, "parameter": 8, "constant": 8}.get(value.step, 2) * BLOCK_ELEMENTS
        block, indent = self.loop(domain, (axis,) if numbers else (), limit)
        printer = self.printer(domain, block)
        first, found = printer.position(rows.first), printer.value(value)
        self.flush(printer, indent)
        order = numbers + row
        starts = tuple(1 if axis in row else each for axis, each in enumerate(domain))
        self.body.append(f"{indent}first = r.ordered({first}, {self._shape(starts, order, block)}, {order})")
        self.body.append(f"{indent}value = r.ordered({found}, {self._shape(domain, order, block)}, {order})")
        sizes, strides = (tuple(of[each] for each in row) for of in (domain, rows.strides))
        values = convert("value", kernel.outputs[0].dtype, float32) if narrow else "value"
        how = _FUNCTIONS.get(standard_name(kernel.monoid) or "") if kernel.monoid else None
        how = f"n.{how}" if how else "None"
        self.store(f"{indent}scattering.rows({how}, {into}, first, {values}.reshape((-1, *{sizes})), {strides})")

    def _shape(self, domain: Shape, order: Shape, block: Block) -> str:
        """Return the source of the sizes of a block of a domain in an order."""
        sizes = [f"min(block.stop, {domain[each]}) - start" if each in block else f"{domain[each]}" for each in order]
        return f"({''.join(f'{each}, ' for each in sizes)})"

    def _order(self, index: Expression, value: Expression) -> Shape:
        """Return the dimensions in the order of memory: lanes do not meet, so only the order of their entries is one to keep."""
        lanes, count = len(self.kernel.lanes), len(self.kernel.lanes) + len(self.kernel.entries)
        reads = [node.payload[2] for each in (index, value) for node in topological(each) if node.step == "load"]
        nearest = [
            min((abs(stride) for read in reads for stride in read[low:high] if stride), default=1 << 62)
            for low, high in ((0, lanes), (lanes, count))
        ]
        first, second = tuple(range(lanes)), tuple(range(lanes, count))
        return second + first if nearest[0] < nearest[1] else first + second

    def _combined(self, target: str, value: str) -> str:
        """Return the statement that takes values into their places."""
        monoid = self.kernel.monoid
        if monoid is None:
            return f"{target}[index] = {value}"
        name = standard_name(monoid)
        at = f"n.{_FUNCTIONS[name]}.at(" if name in _FUNCTIONS else f"r.scatter_with({self.combination(monoid)}, "
        return f"{at}{target}, index, {value})"
