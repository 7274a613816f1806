"""Programs of kernels that differ in sizes only, generated once: the rest follows from what was asked of the first sizes.

A tensor of another length makes kernels that are the same but for sizes, and nearly always the same text but for numbers.
The second such kernel is generated over numbers that note what is asked of them (:mod:`.traced`); where a later one gives the
same answers, its program is the same with other numbers, and no statement is written or printed again.

Of contractions and attention the way is chosen by the sizes themselves: estimates of many are compared, and which is the least holds for more
sizes than how all others compare.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from webgpu_torch_core.bounded import Bounded
from webgpu_torch_core.ir.dtypes import int32, int64
from webgpu_torch_core.ir.expression import Expression, make, rewrite, topological
from webgpu_torch_core.ir.kernels import (
    Attention,
    Contraction,
    Kernel,
    Operand,
    Output,
    Pointwise,
    PreparedContraction,
    RowProgram,
    Store,
)

from ..program import Binding, Capabilities, Pass, Piece, Program, Size
from . import generate
from .traced import Trace, Traced
from .variants import Variant
from .wgsl import spelled

#: forms whose sizes are followed
FORMS = (Pointwise, RowProgram, Contraction, Attention)
#: those of which the way is chosen before
CHOSEN = (Contraction, Attention)
#: kernels without their sizes that are kept, and the traces of each; the least recently used go first
KERNELS, TRACES = 4096, 8
#: nodes of expressions that hold sizes, or compute with some: not the bits of words, of which generators ask in other ways
_SIZED = frozenset(("load", "less", "less_equal", "add", "subtract", "multiply", "minimum", "maximum"))
_POSITIONS = (int32, int64)
_Kernel = TypeVar("_Kernel", bound=Kernel)
#: makes a size without the arguments of its class being looked at
_new_size = tuple.__new__
#: gives what stands for a size
_Sizes = Callable[[int], Any]
_Generate = Callable[[Kernel, Capabilities], Program]


class Template:
    """A program over places of a trace."""

    def __init__(self, trace: Trace, program: Program) -> None:
        self._trace = trace
        self._passes = [_TemplatePass.of(trace, each) for each in program.passes]
        self._scratch = [trace.place(each) for each in program.scratch]
        self._seconds = trace.place(program.seconds)
        trace.close()

    def program(self, sizes: Sequence[int]) -> Program | None:
        """Return the program for other sizes; None where it would be another one."""
        values = self._trace.replay(sizes)
        if values is None:
            return None
        passes = tuple([each.filled(values) for each in self._passes])
        return Program(passes, tuple([int(values[place]) for place in self._scratch]), float(values[self._seconds]))


class _TemplatePass(NamedTuple):
    """A pass in which sizes are places of a trace: for each of its pieces that is a size (index, place, type)."""

    name: str
    skeleton: tuple[str, ...]
    sizes: list[tuple[int, int, str]]
    workgroups: list[int]
    bindings: tuple[Binding, ...]

    @classmethod
    def of(cls, trace: Trace, entry: Pass) -> _TemplatePass:
        """Return the places of a pass."""
        sizes = [
            (index, trace.place(each.value), each.type)
            for index, each in enumerate(entry.pieces)
            if isinstance(each, Size)
        ]
        return cls(entry.name, entry.skeleton, sizes, [trace.place(x) for x in entry.workgroups], entry.bindings)

    def filled(self, values: Sequence[int | float]) -> Pass:
        """Return the pass with the numbers at its places."""
        pieces: list[Piece] = list(self.skeleton)
        texts, literals = list(self.skeleton), []
        for index, place, kind in self.sizes:
            number = int(values[place])
            size = pieces[index] = _new_size(Size, (number, kind))
            literals.append(number)
            texts[index] = spelled(size)
        x, y, z = (int(values[place]) for place in self.workgroups)
        return Pass(
            self.name, "".join(texts), (x, y, z), self.bindings, (), tuple(pieces), None, self.skeleton, tuple(literals)
        )


class Generator:
    """Generates programs, those of kernels that differ in sizes only from templates."""

    def __init__(self) -> None:
        self._kept: Bounded[tuple[object, ...], list[Template]] = Bounded(KERNELS)
        #: how many programs were filled in, and how many kernels traced
        self.filled = self.traced = 0

    def generate(self, kernel: Kernel, capabilities: Capabilities) -> Program:
        """Return the program of a kernel on an adapter with these capabilities."""
        if not isinstance(kernel, FORMS):
            return generate(kernel, capabilities)
        if not isinstance(kernel, CHOSEN):
            return self._followed(kernel, capabilities, generate)
        return generate(kernel, capabilities, self._emitted)

    def _emitted(self, kernel: Kernel, capabilities: Capabilities, variant: Variant, plan: object) -> Program:
        def emit(given: Kernel, capabilities: Capabilities) -> Program:
            return variant.emit(given, capabilities, plan)

        return self._followed(kernel, capabilities, emit, variant.name, plan)

    def _followed(self, kernel: Kernel, capabilities: Capabilities, make: _Generate, *way: object) -> Program:
        """Return the program that a function makes of a kernel, in a way that it has; from a template where there is one."""
        sizes: dict[int, int] = {}
        stands = resized(kernel, lambda size: size if size < 2 else 2 + sizes.setdefault(size, len(sizes)))
        key = stands, capabilities, *way
        templates = self._kept.get(key)
        if templates is None:
            # What comes once need not be followed.
            self._kept[key] = []
            return make(kernel, capabilities)
        self._kept.move_to_end(key)
        given = list(sizes)
        for template in templates:
            program = template.program(given)
            if program is not None:
                self.filled += 1
                return program
        template = _traced(kernel, given, capabilities, make)
        self.traced += 1
        templates.insert(0, template)
        del templates[TRACES:]
        found = template.program(given)
        if found is None:
            raise RuntimeError(f"the trace of kernel '{kernel.name}' does not repeat itself; this is a defect")
        return found


def _traced(kernel: Kernel, sizes: Sequence[int], capabilities: Capabilities, make: _Generate) -> Template:
    """Return the template of kernels that differ from this one in its sizes."""
    trace = Trace()
    leaves: dict[int, Traced] = {each: trace.leaf(each) for each in sizes}
    return Template(trace, make(resized(kernel, lambda size: leaves.get(size, size)), capabilities))


def resized(kernel: _Kernel, size: _Sizes) -> _Kernel:
    """Return a kernel in which something stands for each dimension, number of elements, offset and stride, and for numbers that it
    computes positions with: where one tensor ends and the next begins is one of them."""

    def moved(root: Expression) -> Expression:
        return _resized_value(root, size) if _has_sizes(root) else root

    def stores(given: tuple[Store, ...]) -> tuple[Store, ...]:
        return tuple(
            [
                each.mapped(moved).replace(offset=size(each.offset), strides=tuple(map(size, each.strides)))
                for each in given
            ]
        )

    changes: dict[str, Any] = {name: tuple(map(size, getattr(kernel, name))) for name in kernel.dimension_groups}
    changes["operands"] = tuple([Operand(each.dtype, size(each.numel)) for each in kernel.operands])
    changes["outputs"] = tuple([Output(each.dtype, size(each.numel), each.initial) for each in kernel.outputs])
    for name in ("row_stores", "stores"):
        if hasattr(kernel, name):
            changes[name] = stores(getattr(kernel, name))
    if isinstance(kernel, RowProgram | PreparedContraction):
        changes["reductions"] = tuple([each.replace(value=moved(each.value)) for each in kernel.reductions])
    if isinstance(kernel, Contraction):
        changes.update(left=moved(kernel.left), right=moved(kernel.right))
    if isinstance(kernel, Attention):
        mapped = kernel.map_expressions(moved)
        sums = [each.replace(store=stores((each.store,))[0]) for each in mapped.sums]
        return mapped.replace(**changes, sums=tuple(sums))
    return kernel.replace(**changes)


@lru_cache(8192)
def _has_sizes(root: Expression) -> bool:
    """Return whether an expression has sizes, of its loads or among what it computes with, other than 0 and 1."""
    return any(number > 1 for node in topological(root) if node.step in _SIZED for number in _sizes_of(node))


def _sizes_of(node: Expression) -> Sequence[int]:
    """Return the numbers for which something may stand in a load, or in what is computed of positions."""
    if node.step != "load":
        return [each.payload for each in node.arguments if _is_size(each)]
    _, offset, strides = node.payload
    return (offset, *strides)


def _is_size(node: Expression) -> bool:
    return node.step == "constant" and node.dtype in _POSITIONS


def _resized_value(root: Expression, size: _Sizes) -> Expression:
    def replace(node: Expression, arguments: tuple[Expression, ...]) -> Expression | None:
        if node.step == "load":
            operand, offset, strides = node.payload
            return make("load", (), (operand, size(offset), tuple(map(size, strides))), node.dtype)
        if not any(map(_is_size, arguments)):
            return None
        sized = [make("constant", (), size(each.payload), each.dtype) if _is_size(each) else each for each in arguments]
        return make(node.step, tuple(sized), node.payload, node.dtype)

    return rewrite(root, replace, _SIZED)
