"""Expressions of core as statements: each node of the graph once, with the spelling that keeps PyTorch's results."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce

from webgpu_torch_core.backend.interface import REPORT_SLOTS
from webgpu_torch_core.ir.expression import Expression, topological

from ..program import REPORT_WORDS
from .cancelling import guarded
from .ir import Call, Literal, Name, Node, Number, convert_to, vector
from .module import Module
from .statements import Store
from .steps import convert, spell
from .types import element_type, literal

#: the argument of ``checked`` that is its code, before the words that are found
CODE = 2

#: steps whose values are read or drawn, not computed from others
READ = ("load", "load_at", "coordinate", "reduced", "accumulator", "argument", "threefry")

#: what gives the value of a load, load_at (with its index), coordinate, reduced, accumulator or argument
Leaf = Callable[[Expression, Node | None], Node]


class Reports:
    """What expressions of one scope find wrong, written together.

    A write that may happen between two reads would keep drivers from having both under way. Operations that look at one
    position in the same way find the same: the first of them is named.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self._found: dict[Node, tuple[Lowering, Expression]] = {}
        self._written: set[Node] = set()

    def add(self, wrong: Node, lowering: Lowering, node: Expression) -> None:
        """Report what a ``checked`` node tells, where something is wrong."""
        if wrong not in self._written:
            self._found.setdefault(wrong, (lowering, node))

    def write(self) -> None:
        """Write what has been added."""
        if not self._found:
            return
        # Of what finds the same code, one is told: any of them will do.
        codes: dict[Expression, list[Node]] = {}
        for wrong, (_, node) in self._found.items():
            codes.setdefault(node.arguments[CODE], []).append(wrong)
        with self.module.body.when(reduce(operator.or_, self._found)):
            if len(codes) == 1:
                self._write([*self._found])
            else:
                # The first code stays: it is written last.
                for found in reversed(codes.values()):
                    with self.module.body.when(reduce(operator.or_, found)):
                        self._write(found)
        self._written.update(self._found)
        self._found.clear()

    def _write(self, found: list[Node]) -> None:
        body = self.module.body
        *others, last = found
        code, *words = self._told(last, CODE)
        for wrong in reversed(others):
            own = self._told(wrong, CODE + 1)
            words = [Call("select", (after, each, wrong), each.type) for each, after in zip(own, words, strict=True)]
        buffer = self.module.buffer("reports", 0, element_type("int32", self.module.capabilities), True)
        start = body.let(self.module.fresh(), (convert_to("u32", code) % REPORT_SLOTS) * REPORT_WORDS)
        # Threads that find something at once overwrite each other: any of them will do.
        for number, word in enumerate((code, *words)):
            body.add(Store(buffer, start + number if number else start, word))

    def _told(self, wrong: Node, first: int) -> list[Node]:
        lowering, node = self._found[wrong]
        return lowering.aside(node.arguments[first:])


class Lowering:
    """Writes the statements of expressions into a module; leaves are given by the caller.

    ``leaf(node, index)`` returns the value of a load, load_at (at that index), coordinate, reduced, accumulator or argument.
    ``blocks`` keeps the blocks of random words drawn so far, by counter and key; ``given``: values that are there already;
    ``reports``: what collects reports, which are written with each value without it.
    """

    def __init__(
        self,
        module: Module,
        leaf: Leaf,
        blocks: dict[tuple[Node, ...], Name] | None = None,
        given: Mapping[Expression, Node] | None = None,
        reports: Reports | None = None,
    ) -> None:
        self.module = module
        self.leaf = leaf
        self.given: Mapping[Expression, Node] = given or {}
        self.values = dict(self.given)
        self.blocks = {} if blocks is None else blocks
        self._own_reports = reports is None
        self.reports = reports or Reports(module)

    def value(self, root: Expression) -> Node:
        """Write what computes an expression; return a name or a literal."""
        self._compute(root)
        if self._own_reports:
            self.reports.write()
        return self.values[root]

    def aside(self, roots: Sequence[Expression]) -> list[Node]:
        """Return the values of expressions in a block that nothing after it sees, computed from what is there already."""
        before = dict(self.values)
        for each in roots:
            self._compute(each)
        found = [self.values[each] for each in roots]
        self.values = before
        return found

    def _compute(self, root: Expression) -> None:
        """Write what computes an expression, without what only given values and what only reports are computed from."""
        pending = [root]
        while pending:
            node = pending[-1]
            needed = _looked_at(node) if node.step == "checked" else node.arguments
            # The first on top: it comes first.
            missing = [each for each in needed[::-1] if each not in self.values]
            if missing and node not in self.values:
                pending += missing
                continue
            if node not in self.values:
                self.values[node] = self._named(node)
            pending.pop()

    def _named(self, node: Expression) -> Node:
        if node.step == "constant":
            return literal(node.payload, self.module.type(node.dtype))
        found = self._node(node)
        if isinstance(found, (Name, Literal)):
            return found
        return self.module.body.let(self.module.fresh(), found)

    def _node(self, node: Expression) -> Node:
        module, step = self.module, node.step
        if step == "parameter":
            return module.parameter(node.payload, node.dtype)
        if step == "checked":
            self.reports.add(self.values[node.arguments[1]], self, node)
            return self.values[node.arguments[0]]
        arguments = [self.values[each] for each in node.arguments]
        if step == "cast":
            return self._cast(node, arguments[0])
        if step == "load_at":
            return self.leaf(node, as_index(arguments[0]))
        if step in ("load", "coordinate", "reduced", "accumulator", "argument"):
            return self.leaf(node, None)
        if step == "threefry":
            return self._random(*arguments)
        kind = node.arguments[1 if step == "select" else 0].dtype
        scalar = module.type(kind).scalar
        found = _special(node, arguments, module.single) if kind.name == "float32" else None
        return found or _compared_with_itself(node, arguments, scalar) or spell(step, scalar, arguments)

    def _random(self, *arguments: Node) -> Node:
        """Return a word of a block of four random words, which is drawn once for all words asked for."""
        *words, which = arguments
        drawn = self.blocks.get(tuple(words))
        if drawn is None:
            call = Call("wt_threefry", (vector("u32", words[:4]), vector("u32", words[4:])), "vec4<u32>")
            drawn = self.blocks[tuple(words)] = self.module.body.let(self.module.fresh("block"), call)
        return drawn.lane(which.value) if isinstance(which, Number) else drawn[which]

    def _cast(self, node: Expression, value: Node) -> Node:
        operand, module = node.arguments[0], self.module
        source = (operand.dtype.name, module.type(operand.dtype).scalar)
        if source[1] == "f16" and operand.step not in ("load", "load_at", "parameter", "constant"):
            # Some compilers drop a conversion to f16 that is followed by one back.
            value, source = Call("wt_half_rounded", (convert_to("f32", value),), "f32"), ("float32", "f32")
        return convert(value, source, (node.dtype.name, module.type(node.dtype).scalar))


@lru_cache(maxsize=8192)
def _looked_at(node: Expression) -> tuple[Expression, ...]:
    """Return what a ``checked`` node needs where nothing is wrong: of what it tells only what is read."""
    value, wrong, *told = node.arguments
    return value, wrong, *(each for each in topological(*told) if each.step in READ)


def as_index(value: Node) -> Node:
    """Return an index of any integer type as u32."""
    return value.lane(0) if value.type == "vec2<u32>" else convert_to("u32", value)


def as_position(module: Module, value: Node) -> Node:
    """Return a u32 as int64."""
    if module.capabilities.int64:
        return convert_to("i64", value)
    return Call("vec2<u32>", (value, Number(0, "u32", True)), "vec2<u32>")


def _compared_with_itself(node: Expression, arguments: list[Node], scalar: str) -> Node | None:
    """Return ``x != x`` and its like, which ask for NaN: drivers take them for decided, but not the test by bits."""
    if node.step not in ("equal", "not_equal", "less_equal") or node.arguments[0] is not node.arguments[1]:
        return None
    if not node.arguments[0].dtype.is_floating_point:
        return None
    test = spell("is_nan", scalar, arguments[:1])
    return test if node.step == "not_equal" else ~test


def _special(node: Expression, arguments: list[Node], single: bool) -> Node | None:
    """Return a float32 step that has another spelling than usual here.

    Arithmetic that could be cancelled is tested; an extremum with a number is shorter, as only one side can be NaN.
    """
    function = guarded(node, single)
    if function is not None:
        return Call(function, arguments, "f32")
    if node.step not in ("maximum", "minimum"):
        return None
    for place, each in enumerate(node.arguments):
        if each.step == "constant" and each.payload == each.payload:
            return Call(f"wt_{node.step}_number", (arguments[1 - place], arguments[place]), "f32")
    return None
