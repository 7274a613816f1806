"""What the writers of all kernel forms share: views, blocks and stores of a printed function."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from webgpu_torch_core.ir.dtypes import bfloat16, bool_, dtype, float16, float32
from webgpu_torch_core.ir.expression import Expression
from webgpu_torch_core.ir.kernels import Kernel, Store
from webgpu_torch_core.ir.layouts import Shape, contiguous_strides, number_of_elements
from webgpu_torch_core.ir.monoids import Monoid

from . import boxes
from .memory import Registers, Step, write_over
from .moving import has_short_rows
from .pool import LINE
from .printer import CHOICES, FUNCTIONS, KNOWN, TYPES, Printer

#: elements per block: a fused chain of float32 blocks this long stays in the second-level cache, and the allocator
#: serves blocks this small from memory that is already mapped
BLOCK_ELEMENTS = 1 << 15

#: elements of a block from which on its steps write into registers: fewer are quicker to allocate
LEAST_REGISTER = 1 << 13

#: the slices that loops take of dimensions, by their names
Block = dict[int, str]

#: elements from which on positions are computed in 64 bits
WIDE_ELEMENTS = 1 << 31


#: types that no conversion by NumPy alone makes truth values into
_APART = (bool_, bfloat16)
#: the functions that make numbers of 16 bits of float32 numbers, and these of them
_PACKED = {float16: "r.to_half", bfloat16: "r.to_bfloat16"}
_UNPACKED = {float16: "r.from_half", bfloat16: "r.from_bfloat16"}


class Writer:
    """Collects the lines of one kernel's function."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.head: list[str] = []
        self.body: list[str] = []
        #: the number of the body's first line that stores into an output
        self.first_store: int | None = None
        self.constants: dict[str, Any] = {}
        self.views: dict[Any, str] = {}
        self.functions: list[str] = []
        #: the sources of what is the same in all calls, by their names
        self.known: dict[str, str] = {}
        #: the steps of the body that may be written over an operand, by the names of their values
        self.steps: dict[str, Step] = {}
        self.number = itertools.count()
        #: how far loops go at a time along dimensions, and the bytes that the registers of one piece take at most
        self.lengths: dict[int, int] = {}
        self.register_bytes = 0
        self.registers = 0
        sizes = [each.numel for each in (*kernel.operands, *kernel.outputs)]
        self.wide = max([*sizes, kernel.elements()]) >= WIDE_ELEMENTS
        self.head += parameter_lines(kernel)

    def simplified(self, stores: tuple[Store, ...], domain: Shape) -> tuple[Store, ...]:
        """Return stores over a domain with what it decides decided."""
        return tuple(each.replace(value=boxes.simplify(each.value, domain)) for each in stores)

    def text(self) -> tuple[str, dict[str, Any]]:
        """Return the source, the constants it names and, as ``first_store``, its first line that stores into an output."""
        self.write()
        write_over(self.body, self.steps)
        if self.registers:
            self.head.insert(0, f"memory = pool.take_registers({self.register_bytes})")
            self.body.append("pool.give_registers(memory)")
        known = [f"{name} = {source}" for name, source in self.known.items()]
        lines = [*self.functions, *known, "def kernel(operands, outputs, parameters):"]
        lines += [f"    {line}" for line in self.head]
        self.constants["first_store"] = len(lines) + 1 + (self.first_store or 0)
        lines += [f"    {line}" for line in self.body]
        return "\n".join(lines) + "\n", self.constants

    def store(self, line: str) -> None:
        """Add a line to the body that stores into an output."""
        if self.first_store is None:
            self.first_store = len(self.body)
        self.body.append(line)

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
            # Each argument counts where there are few elements.
            more = "" if strides == contiguous_strides(shape) else f", {offset * step}, {scaled}"
            more = more or (f", {offset * step}" if offset else "")
            self.head.append(
                f"{found} = n.empty({shape}, {type_})"
                if 0 in shape
                else f"{found} = array({shape}, {type_}, {target}[{index}]{more})"
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

    def printer(self, domain: Shape, block: Block, reduced: list[str] | None = None, accumulator: str = "") -> Printer:
        """Return a printer whose loads read a block."""

        def leaf(node: Expression, argument: str | None) -> str:
            if node.step == "load":
                operand, offset, strides = node.payload
                return self._load(operand, node.dtype, offset, strides, domain, block)
            if node.step == "load_at":
                return f"{self.flat(node.payload)}.take({argument}, mode='wrap')"
            if node.step in ("load_rows", "gathered_rows"):
                return self._rows(node, argument or "", domain, block)
            if node.step == "coordinate":
                return self._coordinate(node.payload, domain, block)
            if node.step == "reduced":
                return (reduced or [])[node.payload]
            return accumulator

        result = Printer(leaf, self.number, self.wide, domain)
        result.constants, result.steps = self.constants, self.steps
        result.known = None if self.wide else self.known
        return result

    def _load(self, operand: int, kind: dtype, offset: int, strides: Shape, domain: Shape, block: Block) -> str:
        # Broadcast dimensions stay of size 1, so that what varies only along others is computed once.
        shape = tuple(1 if stride == 0 else size for stride, size in zip(strides, domain, strict=True))
        name = self.view("operands", operand, kind, offset, strides, shape)
        taken = subscript({axis: each for axis, each in block.items() if strides[axis]})
        return f"{name}[{taken}]" if taken else name

    def _rows(self, node: Expression, first: str, domain: Shape, block: Block) -> str:
        """Return the source of rows of an operand, or of sums of such: of a view whose first axis numbers the elements where rows start."""
        operand, strides = node.payload
        row = tuple(number for number, stride in enumerate(strides) if stride)
        count = self.kernel.operands[operand].numel - sum((domain[each] - 1) * strides[each] for each in row)
        shape, steps = (count, *(domain[each] for each in row)), (1, *(strides[each] for each in row))
        name = self.view("operands", operand, node.dtype, 0, steps, shape)
        taken = subscript({1 + row.index(axis): each for axis, each in block.items() if axis in row})
        name = f"{name}[{taken}]" if taken else name
        if node.step == "gathered_rows":
            return f"gathers.gathered_rows({name}, {row}, {len(domain)}, {first})"
        return f"r.rows({name}, {first}, {row}, {len(domain)})"

    def _coordinate(self, dimension: int, domain: Shape, block: Block) -> str:
        shape = tuple(-1 if index == dimension else 1 for index in range(len(domain)))
        kind = "int64" if self.wide else "int32"
        if dimension in block:
            of = block[dimension]
            return f"n.arange({of}.start, min({of}.stop, {domain[dimension]}), dtype=n.{kind}).reshape({shape})"
        key = ("coordinate", dimension, len(domain), domain[dimension])
        found = self.views.get(key)
        if found is None:
            found = self.views[key] = f"v{len(self.views)}"
            source = f"n.arange({domain[dimension]}, dtype=n.{kind}).reshape({shape})"
            if domain[dimension] <= KNOWN and not self.wide:
                self.known[found] = f"r.shared({source})"
            else:
                self.head.append(f"{found} = {source}")
        return found

    def stores(self, stores: tuple[Store, ...], printer: Printer, domain: Shape, block: Block, indent: str) -> None:
        """Write the values of all stores, then the stores, of a block; a single one may be written as it is computed."""
        if len(stores) == 1 and self._direct(stores[0], printer, domain, block, indent):
            return
        self.put(stores, self.store_values(stores, printer, indent, first_may_be_view=True), domain, block, indent)

    def _direct(self, store: Store, printer: Printer, domain: Shape, block: Block, indent: str) -> bool:
        """Write a store whose value NumPy can compute in its place; return whether it can."""
        kind = self.kernel.outputs[store.output].dtype
        value = printer.printable(store.value)
        if value.step in ("gathered_rows", "load_rows") and value.dtype is kind and not self.wide:
            first = ", ".join(map(printer.value, value.arguments))
            self.flush(printer, indent)
            call = self._rows(value, first, domain, block).removesuffix(")")
            self.store(f"{indent}{call}, out={self._target(store, domain, block)})")
            return True
        if value.step == "load_at" and value.dtype is kind and not self.wide:
            return self._taken(value, store, printer, domain, block, indent)
        function = FUNCTIONS.get(value.step)
        if value.step in CHOICES and value.dtype is kind and kind is not bool_:
            function, more = f"r.{value.step}", CHOICES[value.step]
        elif value.step == "cast" and value.dtype is kind and value.arguments[0].dtype is bool_ and kind not in _APART:
            function, more = "r.cast", f", n.{TYPES[kind.name]}"
        elif value.step == "cast" and kind in _PACKED and value.arguments[0].dtype is float32 and value.dtype is kind:
            function, more = _PACKED[kind], ""
        elif value.step == "cast" and kind is float32 and value.arguments[0].dtype in _UNPACKED:
            function, more = _UNPACKED[value.arguments[0].dtype], ""
        elif function is None or value.dtype is not kind or kind.name in ("bfloat16", "float16"):
            return False
        else:
            function, more = f"n.{function}", ""
        names = [printer.value(each) for each in value.arguments]
        # Along the last dimension of a whole array, along which NumPy goes then, nothing lies apart.
        if store.strides != contiguous_strides(domain) and printer.may_misread(value, names[0]):
            return False
        arguments = printer.arguments(value, names)
        self.flush(printer, indent)
        self.store(f"{indent}{function}({', '.join(arguments)}{more}, out={self._target(store, domain, block)})")
        return True

    def _taken(
        self, value: Expression, store: Store, printer: Printer, domain: Shape, block: Block, indent: str
    ) -> bool:
        """Write a store of elements at computed positions, of which there are as many."""
        index = printer.value(value.arguments[0])
        if not printer.is_whole(index):
            return False
        self.flush(printer, indent)
        self.store(
            f"{indent}{self.flat(value.payload)}.take({index}, mode='wrap', out={self._target(store, domain, block)})"
        )
        return True

    def _target(self, store: Store, domain: Shape, block: Block) -> str:
        """Return the source of where a block of a store's values goes."""
        kind = self.kernel.outputs[store.output].dtype
        name = self.view("outputs", store.output, kind, store.offset, store.strides, domain)
        return f"{name}[{subscript(block)}]" if block else name

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

    def put(self, stores: tuple[Store, ...], names: list[str], domain: Shape, block: Block, indent: str) -> None:
        """Write the stores of values that have names."""
        for each, value in zip(stores, names, strict=True):
            target = self._target(each, domain, block)
            if is_copy_of_rows(each, self.kernel.outputs[each.output].dtype, domain):
                self.store(f"{indent}move({target}, {value})")
            else:
                self.store(f"{indent}{target}{'' if block else '[...]'} = {value}")

    def use_registers(
        self, first: int, domain: Shape, block: Block, order: Sequence[int], beside: bool = False
    ) -> None:
        """Have the steps since a line of the body, which are over a domain in an order, write into memory that is kept for them.

        ``beside``: what earlier steps wrote there is still needed.
        """
        lines, registers = self.body[first:], Registers(self.registers)
        sizes = {axis: self.lengths[axis] if axis in block else size for axis, size in enumerate(domain)}
        if number_of_elements(tuple(sizes.values())) < LEAST_REGISTER:
            return
        write_over(lines, self.steps, registers)
        self.steps.clear()
        # The last block may be shorter than the others.
        short = {axis: name for axis, name in block.items() if domain[axis] % self.lengths[axis]}
        start, views = self.register_bytes if beside else 0, ""
        for number, kind in enumerate(registers.kinds, self.registers):
            strides, step = [0] * len(domain), kind.itemsize
            for axis in reversed(order):
                strides[axis] = step
                step *= sizes[axis]
            name = f"{'m' if short else 's'}{number}"
            self.head.append(
                f"{name} = array({tuple(sizes.values())}, {TYPES[kind.name]}_, memory, {start}, {tuple(strides)})"
            )
            taken = subscript({axis: f":{domain[axis]} - {name}.start" for axis, name in short.items()})
            views += f"; s{number} = m{number}[{taken}]" if short else ""
            start += -(-step // LINE) * LINE
        if short:
            within = next(number for number in reversed(range(len(lines))) if " = slice(" in lines[number])
            lines[within] += views
        self.body[first:] = lines
        self.registers += len(registers.kinds)
        self.register_bytes = max(self.register_bytes, start)

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

    def loop(self, shape: Shape, axes: Sequence[int] = (0,), limit: int = BLOCK_ELEMENTS) -> tuple[Block, str]:
        """Open loops over blocks of a domain; return the block and the indentation.

        Blocks are parts of the first of some dimensions, or, where one of its elements is longer than a block, parts of the next one.
        """
        inner, block, indent = number_of_elements(shape), {}, ""
        self.lengths = {}
        axes = [axis for axis in axes if axis < len(shape) and shape[axis] > 1]
        if inner <= 2 * limit:
            return block, indent
        for variable, axis in zip(("start", "start1"), axes, strict=False):
            inner //= shape[axis]
            step = max(limit // max(inner, 1), 1)
            if step >= shape[axis]:
                break
            block[axis] = variable.replace("start", "block")
            self.lengths[axis] = step
            self.body.append(f"{indent}for {variable} in range(0, {shape[axis]}, {step}):")
            indent += "    "
            self.body.append(f"{indent}{block[axis]} = slice({variable}, {variable} + {step})")
            if inner <= 2 * limit:
                break
        return block, indent


def is_copy_of_rows(store: Store, kind: dtype, domain: Shape) -> bool:
    """Return whether a store copies short rows that lie together on both sides, and apart from each other on one."""
    value = store.value
    if value.step != "load" or value.dtype is not kind or not has_short_rows(domain, kind.itemsize):
        return False
    strides = value.payload[2]
    apart = contiguous_strides(domain) != strides or strides != store.strides
    return strides[-1] == store.strides[-1] == 1 and apart


def parameter_lines(kernel: Kernel) -> list[str]:
    """Return the lines that give the kernel's parameters their types."""
    lines = []
    for index, kind in enumerate(kernel.parameters):
        name = f"n.{TYPES[kind.name]}"
        text = f"r.integer({name}, parameters[{index}])" if kind.category == 1 else f"{name}(parameters[{index}])"
        lines.append(f"p{index} = {text}")
    return lines


def subscript(block: Block) -> str:
    """Return the source of what a block takes of an array that has all dimensions."""
    return ", ".join(block.get(axis, ":") for axis in range(max(block, default=-1) + 1))
