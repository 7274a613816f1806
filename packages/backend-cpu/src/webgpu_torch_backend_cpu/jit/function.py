"""A function in LLVM's language: loops, and each statement in the outermost loop in which it can stand."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from webgpu_torch_core.ir.dtypes import dtype, float64, int32, int64
from webgpu_torch_core.ir.expression import Expression, topological
from webgpu_torch_core.ir.kernels import Kernel
from webgpu_torch_core.ir.layouts import Shape

from .steps import STORED, TYPES, Statements, Unsupported, literal

#: where an array of NumPy has the address of its elements: behind what every object begins with. To ask Python for it would take
#: longer than most small kernels; :mod:`.machine` checks that it is there.
DATA_OFFSET = object.__basicsize__

#: integers up to this size stand in the text: they are no sizes
SMALL = 2
#: strides up to this one stand in the text: LLVM reads elements that are so far apart as vectors, others one after the other
SHORT = 4
#: steps whose second operand stands in the text: divisions and bits by a known number are far quicker
_LITERAL = (
    "whole_quotient",
    "whole_rest",
    "machine_shift_left",
    "machine_shift_right",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
)


class Scope:
    """The body of a loop, or of the function: its statements, and the names of what they compute."""

    def __init__(self, group: str = "") -> None:
        self.lines: list[str] = []
        self.names: dict[Hashable, str] = {}
        #: what is added to an access to memory: that iterations do not depend on each other
        self.group = group


#: vectors of as many bits as the processor has: LLVM takes half of 512 otherwise, which first processors that had them ran slower
WIDEST = 'attributes #0 = { "prefer-vector-width"="512" }'


class Function:
    """``kernel(begin, end, arrays, numbers, parameters)``: the outermost loop runs from ``begin`` to ``end``.

    ``numbers`` are the sizes, strides and offsets that the text leaves open; ``self.numbers`` has them for this kernel.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.head: list[str] = []
        self.metadata: list[str] = []
        self.declarations: dict[str, str] = {}
        self.scopes = [Scope()]
        self.count = 0
        self.numbers: list[int] = []
        #: the loop of each dimension that has one: its variable and its depth
        self.dimensions: dict[int, tuple[str, int]] = {}
        #: what is added to floating-point sums: "reassoc " where their order may change
        self.literals: set[Expression] = set()
        self._shared: dict[str, str] = {}

    def name(self, prefix: str = "t") -> str:
        """Return a name that is not taken."""
        self.count += 1
        return f"%{prefix}{self.count}"

    def emit(self, depth: int, source: str) -> str:
        """Write a statement into the body of a loop; return the name of its value."""
        name = self.name()
        self.scopes[depth].lines.append(f"{name} = {source}")
        return name

    def here(self, source: str) -> str:
        """Write a statement into the innermost loop; return the name of its value."""
        return self.emit(len(self.scopes) - 1, source)

    def least(self, left: str, right: str) -> str:
        """Return the smaller of two places, in the innermost loop."""
        return self._extremum("smin", left, right)

    def greatest(self, left: str, right: str) -> str:
        """Return the larger of two places, in the innermost loop."""
        return self._extremum("smax", left, right)

    def extremum(self, which: str, kind: str, left: str, right: str) -> str:
        """Return the greater or the smaller of two floating-point numbers, NaN if one is, in the innermost loop."""
        suffix = {"float": "f32", "double": "f64"}[kind]
        return Statements(self.here, self.declarations).call(
            f"llvm.{which}.{suffix}", kind, [(kind, left), (kind, right)]
        )

    def _extremum(self, which: str, left: str, right: str) -> str:
        return Statements(self.here, self.declarations).call(
            f"llvm.{which}.i64", "i64", [("i64", left), ("i64", right)]
        )

    def number(self, key: Hashable, value: int) -> str:
        """Return the name of an integer that the text leaves open."""
        scope = self.scopes[0]
        found = scope.names.get(key)
        if found is None:
            at = self.name("a")
            self.head.append(f"{at} = getelementptr i64, ptr %numbers, i64 {len(self.numbers)}")
            found = scope.names[key] = self.name("n")
            self.head.append(f"{found} = load i64, ptr {at}")
            self.numbers.append(value)
        return found

    def stride(self, key: Hashable, value: int) -> str:
        """Return a stride: that of parts of pairs, pixels and the like stands in the text, others are left open."""
        return str(value) if 0 < value <= SHORT else self.number(key, value)

    def buffer(self, group: str, index: int) -> str:
        """Return the pointer of an operand or output; an output that starts as an operand is that operand's."""
        if group == "outputs":
            initial = self.kernel.outputs[index].initial
            group, index = ("operands", initial) if initial is not None else (group, index)
        key = ("buffer", group, index)
        found = self.scopes[0].names.get(key)
        if found is None:
            at = self.name("a")
            place = index + (len(self.kernel.operands) if group == "outputs" else 0)
            self.head.append(f"{at} = getelementptr ptr, ptr %arrays, i64 {place}")
            array, data, found = self.name("a"), self.name("a"), self.name("p")
            self.scopes[0].names[key] = found
            self.head += [
                f"{array} = load ptr, ptr {at}", f"{data} = getelementptr i8, ptr {array}, i64 {DATA_OFFSET}",
                f"{found} = load ptr, ptr {data}",
            ]  # fmt: skip
        return found

    def variable(self, of: str, count: int | str = 1) -> str:
        """Return the address of memory of the function's own."""
        name = self.name("v")
        self.head.append(f"{name} = alloca {of}, i64 {count}, align 64")
        return name

    @contextmanager
    def loop(
        self,
        dimension: int | None,
        start: str,
        end: str,
        step: int = 1,
        parallel: bool = False,
        backwards: bool = False,
    ) -> Iterator[str]:
        """Write a loop; ``parallel``: its iterations do not depend on each other, so that it may become one over vectors.

        ``backwards``: from the last coordinate of a dimension to 0.
        """
        counter, label, variable = self.variable("i64"), self.name("l")[1:], self.name("i")
        group = self._group() if parallel else ""
        scope = Scope(f", !llvm.access.group {group}" if group else "")
        depth = len(self.scopes)
        self.scopes.append(scope)
        before = self.dimensions.get(dimension) if dimension is not None else None
        if backwards:
            place = self.here(f"sub nsw i64 {self.here(f'sub nsw i64 {end}, 1')}, {variable}")
        else:
            place = variable
        if dimension is not None:
            self.dimensions[dimension] = (place, depth)
        yield place
        self.scopes.pop()
        if dimension is not None:
            self.dimensions.pop(dimension)
            if before is not None:
                self.dimensions[dimension] = before
        following, going = self.name(), self.name()
        self.scopes[-1].lines += [
            f"store i64 {start}, ptr {counter}", f"br label %{label}.test", f"{label}.test:",
            f"{variable} = load i64, ptr {counter}", f"{going} = icmp slt i64 {variable}, {end}",
            f"br i1 {going}, label %{label}.body, label %{label}.done", f"{label}.body:", *scope.lines,
            f"{following} = add nuw nsw i64 {variable}, {step}", f"store i64 {following}, ptr {counter}",
            f"br label %{label}.test{self._loop(group)}", f"{label}.done:",
        ]  # fmt: skip

    @contextmanager
    def when(self, conditions: list[str]) -> Iterator[None]:
        """Write what runs only where all conditions hold."""
        if not conditions:
            yield
            return
        condition = conditions[0]
        for each in conditions[1:]:
            condition = self.here(f"and i1 {condition}, {each}")
        label = self.name("w")[1:]
        self.scopes.append(Scope())
        yield
        scope = self.scopes.pop()
        self.scopes[-1].lines += [
            f"br i1 {condition}, label %{label}.yes, label %{label}.done", f"{label}.yes:", *scope.lines,
            f"br label %{label}.done", f"{label}.done:",
        ]  # fmt: skip

    def _group(self) -> str:
        self.metadata.append("distinct !{}")
        return f"!{len(self.metadata) - 1}"

    def _loop(self, group: str) -> str:
        if not group:
            return ""
        number = len(self.metadata)
        self.metadata += [
            f"distinct !{{!{number}, !{number + 1}}}",
            f'!{{!"llvm.loop.parallel_accesses", {group}}}',
        ]
        return f", !llvm.loop !{number}"

    def place(self, key: tuple[Hashable, ...], offset: int, strides: Shape) -> tuple[str, int]:
        """Return the number of an element, and the depth at which it is known."""
        axes = sorted((self.dimensions[axis][1], axis, stride) for axis, stride in enumerate(strides) if stride)
        # Which part of pairs or pixels it is stands in the text, too: all of their parts become one access.
        is_part = any(offset < stride <= SHORT for stride in strides)
        name, depth = (
            (str(offset) if 0 <= offset and (is_part or not offset) else self.number((*key, "offset"), offset)),
            0,
        )
        for number, (depth, axis, stride) in enumerate(axes):
            names = self.scopes[depth].names
            part = (*key, number, depth)
            if part not in names:
                term, factor = self.dimensions[axis][0], self.stride((*key, "stride", axis), stride)
                if factor != "1":
                    term = self.emit(depth, f"mul nsw i64 {term}, {factor}")
                names[part] = term if name == "0" else self.emit(depth, f"add nsw i64 {name}, {term}")
            name = names[part]
        return name, depth

    def load(self, pointer: str, place: str, depth: int, of: dtype) -> str:
        """Read an element."""
        kind = STORED[of.name]
        at = self.emit(depth, f"getelementptr {kind}, ptr {pointer}, i64 {place}")
        value = self.emit(depth, f"load {kind}, ptr {at}, align 1{self.scopes[depth].group}")
        return self.emit(depth, f"icmp ne i8 {value}, 0") if of.category == 0 else value

    def store(self, pointer: str, place: str, of: dtype, value: str) -> None:
        """Write an element, in the innermost loop."""
        scope, kind, depth = self.scopes[-1], STORED[of.name], len(self.scopes) - 1
        if of.category == 0:
            value = self.emit(depth, f"zext i1 {value} to i8")
        at = self.emit(depth, f"getelementptr {kind}, ptr {pointer}, i64 {place}")
        scope.lines.append(f"store {kind} {value}, ptr {at}, align 1{scope.group}")

    def value(self, root: Expression) -> str:
        """Return the name of an expression's value, each part of it computed in the outermost loop it can be."""
        for node in topological(root):
            if node.step in _LITERAL and len(node.arguments) == 2:
                self.literals.add(node.arguments[1])
        for node in topological(root):
            if self.find(node) is None:
                self._write(node)
        found = self.find(root)
        assert found is not None
        return found[0]

    def find(self, node: Hashable) -> tuple[str, int] | None:
        """Return a value's name and depth, None where it has not been computed for these loops."""
        for depth in range(len(self.scopes) - 1, -1, -1):
            found = self.scopes[depth].names.get(node)
            if found is not None:
                return found, depth
        return None

    def _write(self, node: Expression) -> None:
        found = [self.find(each) for each in node.arguments]
        names = [each[0] for each in found if each is not None]
        depth = max((each[1] for each in found if each is not None), default=0)
        step = node.step
        if step == "constant":
            name = self._constant(node)
        elif step == "parameter":
            name = self._parameter(node)
        elif step == "coordinate":
            variable, depth = self.dimensions[node.payload]
            name = self.emit(depth, f"trunc i64 {variable} to i32")
        elif step == "load":
            operand, offset, strides = node.payload
            place, depth = self.place(("load", operand, offset, strides), offset, strides)
            name = self.load(self.buffer("operands", operand), place, depth, node.dtype)
        elif step == "load_at":
            name = self._load_at(node, names[0], depth)
        else:
            statements = Statements(lambda source: self.emit(depth, source), self.declarations)
            name = statements.step(node, names)
        self.scopes[depth].names[node] = name

    def _constant(self, node: Expression) -> str:
        of = node.dtype
        if of in (int32, int64) and abs(node.payload) > SMALL and node not in self.literals:
            wide = self.number(node, node.payload)
            return wide if of is int64 else self._entry(f"trunc i64 {wide} to i32")
        return literal(node.payload, of)

    def _entry(self, source: str) -> str:
        name = self.name()
        self.head.append(f"{name} = {source}")
        return name

    def _parameter(self, node: Expression) -> str:
        of, kind = node.dtype, TYPES[node.dtype.name]
        at = self._entry(f"getelementptr i64, ptr %parameters, i64 {node.payload}")
        if of.category == 2:
            value = self._entry(f"load double, ptr {at}")
            return Statements(self._entry, self.declarations).cast(value, float64, of)
        value = self._entry(f"load i64, ptr {at}")
        if of.category == 0:
            return self._entry(f"icmp ne i64 {value}, 0")
        return value if of.bits == 64 else self._entry(f"trunc i64 {value} to {kind}")

    def _load_at(self, node: Expression, index: str, depth: int) -> str:
        """Read at a computed place, kept inside of the operand: nothing else is ever read."""
        of = node.arguments[0].dtype
        wide = index if of is int64 else self.emit(depth, f"sext {TYPES[of.name]} {index} to i64")
        last = self.number(("last", node.payload), self.kernel.operands[node.payload].numel - 1)
        statements = Statements(lambda source: self.emit(depth, source), self.declarations)
        place = statements.call("llvm.umin.i64", "i64", [("i64", wide), ("i64", last)])
        return self.load(self.buffer("operands", node.payload), place, depth, node.dtype)

    def text(self) -> str:
        """Return the module."""
        (scope,) = self.scopes
        body = [*self.head, *scope.lines, "ret void"]
        lines = ["define void @kernel(i64 %begin, i64 %end, ptr %arrays, ptr %numbers, ptr %parameters) #0 {", "entry:"]
        lines += [each if each.endswith(":") else f"  {each}" for each in body]
        lines += ["}", *self.declarations.values(), WIDEST]
        lines += [f"!{number} = {each}" for number, each in enumerate(self.metadata)]
        return "\n".join(lines) + "\n"


__all__ = ["Function", "Unsupported"]
