"""One module under construction: buffers, parameters, workgroup memory, functions and the statements of its entry point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..program import Binding, Capabilities, Pass, Size, part_bytes
from .ir import Array, Buffer, Name, Node, bitcast, convert_to, fixed, u32, vector
from .statements import Body, Function
from .steps import widen_word
from .traced import Traced
from .types import ElementType, element_type
from .wgsl import print_module, spelled

#: names that a fresh one must not be, however its number comes out
TYPE_NAMES = frozenset({"f16", "f32", "f64", "i32", "i64", "u32", "u64"})
#: threads of a workgroup, where the adapter has as many
WORKGROUP = 256

#: this thread's number in its workgroup
THREAD = Name("thread", "u32")
#: this thread's number in its subgroup, where threads exchange values in it
SUBGROUP_THREAD = Name("subgroup_thread", "u32")
#: the linear number of this workgroup, for one- and two-dimensional dispatches
LINEAR_GROUP = Name("group", "vec3<u32>").lane(0) + Name("group", "vec3<u32>").lane(1) * Name(
    "groups", "vec3<u32>"
).lane(0)


def hidden(value: Node) -> Node:
    """Return a float plus a zero that drivers cannot tell, anything else as it is.

    They take 0 / x for 0 where they know the 0, also where x is 0 or NaN: sums of nothing must not be known.
    """
    return value + convert_to("f32", LINEAR_GROUP >> 31) if value.type == "f32" else value


class Module:
    """Collects one module; statements go to ``body``."""

    def __init__(self, kernel: Any, capabilities: Capabilities) -> None:
        self.kernel = kernel
        self.capabilities = capabilities
        self.body = Body()
        self.bindings: list[Binding] = []
        self.shared: list[Array | Function] = []
        #: elements that neither reductions nor contractions have summed: their results equal elements
        self.single = False
        self._declared: list[tuple[str, Buffer | int]] = []
        self._buffers: dict[tuple[str, int], Buffer] = {}
        self._arrays: dict[str, Array] = {}
        self._parameters: Array | None = None
        self._counter = 0

    @property
    def workgroup(self) -> int:
        """The usual number of threads of a workgroup."""
        return min(WORKGROUP, self.capabilities.invocations)

    def type(self, kind: Any) -> ElementType:
        """Return the row of an element type on this adapter."""
        return element_type(kind.name, self.capabilities)

    def fresh(self, prefix: str = "t") -> str:
        """Return a variable name used nowhere else in the module, nor a type's (``i32``)."""
        self._counter += 1
        while f"{prefix}{self._counter}" in TYPE_NAMES:
            self._counter += 1
        return f"{prefix}{self._counter}"

    def buffer(self, kind: str, index: int, encoding: ElementType, writes: bool) -> Buffer:
        """Return a storage buffer, bound when it is first asked for."""
        found = self._buffers.get((kind, index))
        if found is None:
            parts = self._parts(kind, index)
            numbers = tuple(range(len(self.bindings), len(self.bindings) + parts))
            found = self._buffers[kind, index] = Buffer(f"{kind}{index}", encoding, numbers, writes)
            self._declared.append((found.name, found))
            self.bindings += [Binding(kind, index, writes, part) for part in range(parts)]
        return found

    def _parts(self, kind: str, index: int) -> int:
        """Return in how many bindings a buffer is bound: one unless it is longer than the adapter allows."""
        if kind not in ("operand", "output"):
            return 1
        described = (self.kernel.operands if kind == "operand" else self.kernel.outputs)[index]
        nbytes = described.numel * described.dtype.itemsize
        if nbytes <= self.capabilities.binding_bytes:
            return 1
        return -(-nbytes // part_bytes(self.capabilities.binding_bytes))

    def array(self, name: str, kind: str, size: int) -> Array:
        """Return an array in workgroup memory, declared once."""
        found = self._arrays.get(name)
        if found is None:
            found = self._arrays[name] = Array(name, kind, size)
            self.shared.append(found)
        return found

    @contextmanager
    def function(self, name: str, parameters: dict[str, str], result: str) -> Iterator[list[Name]]:
        """Open the body of a function of the module, without a result where its type is empty; gives its parameters' names."""
        function = Function(name, parameters, result, [])
        with self.body.inside(function.body):
            yield [Name(each, kind) for each, kind in parameters.items()]
        self.shared.append(function)

    def parameter(self, index: int, kind: Any) -> Node:
        """Return a run-time scalar."""
        if self._parameters is None:
            total = sum(_words(each) for each in self.kernel.parameters)
            self._parameters = Array("parameters", "vec4<u32>", -(-total // 64) * 16)
            self._declared.append(("parameters", self._parameters.size))
            self.bindings.append(Binding("parameters", 0, False))
        parameters = self._parameters
        word = sum(_words(each) for each in self.kernel.parameters[:index])

        def read(at: int) -> Node:
            return parameters[at // 4].lane(at % 4)

        if kind.name == "int64":
            low, high = read(word), read(word + 1)
            return join_words(low, high) if self.capabilities.int64 else vector("u32", (low, high))
        if kind.name == "bool":
            return read(word).differs(fixed(0))
        scalar = self.type(kind).scalar
        return read(word) if scalar == "u32" else bitcast(scalar, read(word))

    def finish(self, workgroup: int, workgroups: int, suffix: str = "") -> Pass:
        """Return the pass of ``workgroups`` workgroups with that many threads each."""
        pieces = print_module(self._declared, self.shared, self.body.statements, workgroup, self.capabilities)
        # Of sizes that are traced there is no text: it would be that of these sizes only.
        traced = any(isinstance(each, Size) and isinstance(each.value, Traced) for each in pieces)
        source = "" if traced else "".join([spelled(each) if isinstance(each, Size) else each for each in pieces])
        spread = spread_workgroups(workgroups, self.capabilities.workgroups_per_dimension)
        return Pass(self.kernel.name + suffix, source, spread, tuple(self.bindings), (), pieces)


def _words(kind: Any) -> int:
    return 2 if kind.itemsize == 8 else 1


def join_words(low: Node, high: Node) -> Node:
    """Return two words as i64."""
    return (convert_to("i64", bitcast("i32", high)) << 32) | widen_word(low)


def linear_index(offset: int, strides: tuple[int, ...], coordinates: Sequence[Node]) -> Node:
    """Return ``offset + sum(stride * coordinate)`` as u32; negative strides subtract."""
    terms: list[Node] = [u32(offset)] if offset > 0 or not (offset or any(strides)) else []
    minus: list[Node] = [u32(-offset)] if offset < 0 else []
    for stride, coordinate in zip(strides, coordinates, strict=False):
        if stride:
            term = coordinate if abs(stride) == 1 else coordinate * abs(stride)
            (terms if stride > 0 else minus).append(term)
    total = terms[0] if terms else fixed(0)
    for each in terms[1:]:
        total = total + each
    for each in minus:
        total = total - each
    return total


def split_index(module: Module, flat: Node, sizes: tuple[int, ...]) -> list[Node]:
    """Write the statements that turn a row-major index into coordinates; return these."""
    if len(sizes) <= 1:
        return [flat] * len(sizes)
    names: list[Node] = [flat] * len(sizes)
    rest = flat
    for dimension in range(len(sizes) - 1, 0, -1):
        name, quotient = module.fresh("c"), module.fresh("q")
        following = module.body.let(quotient, rest // sizes[dimension])
        names[dimension] = module.body.let(name, rest - following * sizes[dimension])
        rest = following
    names[0] = rest
    return names


def spread_workgroups(count: int, limit: int) -> tuple[int, int, int]:
    """Return workgroups in two dimensions for a count that may pass the limit of one."""
    if count <= limit:
        return max(count, 1), 1, 1
    rows = -(-count // limit)
    return -(-count // rows), rows, 1
