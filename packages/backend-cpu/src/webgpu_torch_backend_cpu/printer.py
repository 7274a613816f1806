"""Expressions as NumPy source: one table for steps, one for types."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from webgpu_torch_core.ir.dtypes import bfloat16, bool_, dtype, float16, float32, float64, int32, int64
from webgpu_torch_core.ir.expression import Expression, topological
from webgpu_torch_core.ir.layouts import Shape, number_of_elements

from .choices import MANY
from .memory import Step
from .quicker import NUMBERS, quicker

#: NumPy's name of each element type's storage (bfloat16 is kept as its bits)
TYPES = {
    "bool": "bool", "uint8": "uint8", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "uint16": "uint16",
    "uint32": "uint32", "uint64": "uint64",
    "float16": "float16", "bfloat16": "uint16", "float32": "float32", "float64": "float64",
}  # fmt: skip

#: the spelling of each primitive step; ``r`` is :mod:`.runtime`, ``n`` is NumPy
STEPS = {
    "add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}", "divide": "n.divide({0}, {1})",
    "floor_divide": "r.floor_divide({0}, {1})", "truncate_divide": "r.truncate_divide({0}, {1})",
    "remainder": "r.remainder({0}, {1})", "fmod": "r.fmod({0}, {1})", "negate": "-{0}", "absolute": "n.abs({0})",
    "sign": "r.sign({0})", "minimum": "n.minimum({0}, {1})", "maximum": "n.maximum({0}, {1})",
    "fused_multiply_add": "r.fused_multiply_add({0}, {1}, {2})", "floor": "n.floor({0})", "ceil": "n.ceil({0})", "truncate": "n.trunc({0})",
    "round": "n.rint({0})", "exp": "n.exp({0})", "exp2": "n.exp2({0})", "expm1": "r.expm1({0})", "log": "n.log({0})",
    "log2": "n.log2({0})", "log10": "n.log10({0})", "log1p": "r.log1p({0})", "sqrt": "n.sqrt({0})",
    "reciprocal_sqrt": "1 / n.sqrt({0})", "power": "r.power({0}, {1})", "sin": "n.sin({0})", "cos": "n.cos({0})",
    "tan": "n.tan({0})", "asin": "n.arcsin({0})", "acos": "n.arccos({0})", "atan": "n.arctan({0})", "atan2": "n.arctan2({0}, {1})",
    "sinh": "n.sinh({0})", "cosh": "n.cosh({0})", "tanh": "n.tanh({0})", "asinh": "n.arcsinh({0})", "acosh": "n.arccosh({0})",
    "atanh": "n.arctanh({0})", "hypot": "r.hypot({0}, {1})", "erf": "r.erf({0})", "erfc": "r.erfc({0})", "erfinv": "r.erfinv({0})",
    "lgamma": "r.lgamma({0})", "digamma": "r.digamma({0})", "copysign": "n.copysign({0}, {1})", "sign_bit": "r.sign_bit({0})",
    "is_nan": "n.isnan({0})", "is_infinite": "n.isinf({0})", "nextafter": "n.nextafter({0}, {1})", "equal": "n.equal({0}, {1})",
    "not_equal": "n.not_equal({0}, {1})", "less": "n.less({0}, {1})", "less_equal": "n.less_equal({0}, {1})",
    "bitwise_and": "n.bitwise_and({0}, {1})", "bitwise_or": "n.bitwise_or({0}, {1})", "bitwise_xor": "n.bitwise_xor({0}, {1})",
    "bitwise_not": "n.invert({0})", "greatest_common_divisor": "n.gcd({0}, {1})", "shift_left": "r.shift_left({0}, {1})", "shift_right": "r.shift_right({0}, {1})",
    "select": "r.select({0}, {1}, {2})", "clip": "r.clip({0}, {1}, {2})", "threefry": "r.threefry({8}, {0}, {1}, {2}, {3}, {4}, {5}, {6}, {7})",
    "negated_bits": "r.negated_bits({0})", "absolute_bits": "r.absolute_bits({0})",
}  # fmt: skip


#: steps that are one function of NumPy, which can write its result where it is to be stored; not the tests for NaN and infinity and
#: that of the sign: NumPy 2.4 writes those of 16 or more numbers beside where truth values lie apart
FUNCTIONS = {
    "add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide", "negate": "negative", "absolute": "absolute",
    "minimum": "minimum", "maximum": "maximum", "floor": "floor", "ceil": "ceil", "truncate": "trunc", "round": "rint", "exp": "exp",
    "exp2": "exp2", "log": "log", "log2": "log2", "log10": "log10", "sqrt": "sqrt", "sin": "sin",
    "cos": "cos", "tan": "tan", "tanh": "tanh", "equal": "equal", "not_equal": "not_equal", "less": "less",
    "less_equal": "less_equal", "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
}  # fmt: skip

#: functions that NumPy computes otherwise, and rounds otherwise, where elements lie backwards in memory
_FORWARDS = frozenset((
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "power", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh", "hypot", "erf", "erfc", "erfinv", "lgamma", "digamma",
))  # fmt: skip

#: elements up to which what does not depend on operands is kept from call to call
KNOWN = 1 << 10

#: types of whose extrema NumPy has vector instructions for two arrays only
_LINED = ("float32", "float64", "int32", "int64")

#: conversions that can write where they are told
_CONVERSIONS = ("r.cast(", "r.from_half(", "r.from_bfloat16(")

#: the same of this package, and further arguments
CHOICES = {"select": ", False", "clip": "", "negated_bits": "", "absolute_bits": ""}


class Printer:
    """Writes statements that compute expressions, each node once, with leaves spelled by the caller.

    ``leaf(node)`` returns the source of a load, load_at, coordinate, reduced or accumulator.
    """

    def __init__(self, leaf: Any, number: Any, wide: bool = False, domain: Shape = ()) -> None:
        self.leaf = leaf
        self.domain = domain
        #: the dimensions from the one along which results lie farthest apart, if that is known, and values that lie otherwise
        self.order: Sequence[int] | None = None
        self.turned: set[str] = set()
        #: the dimensions along which the values with these names vary at least
        self.axes: dict[str, frozenset[int]] = {}
        self.steps: dict[str, Step] = {}
        # Positions are computed in 64 bits: the kernel's memory has more elements than 32 bits count.
        self.wide = wide
        self.positions: dict[Expression, str] = {}
        # Shared by all printers of one function, so that no variable is written twice.
        self.number = number
        self.names: dict[Expression, str] = {}
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}
        #: the source of what is the same in all calls, by its name; None where everything is computed in each
        self.known: dict[str, str] | None = None

    def value(self, root: Expression) -> str:
        """Return the name of a variable holding an expression's value."""
        root = self.printable(root)
        if self.wide:
            return self._spelled(root, self.names)
        for node in topological(root):
            if node not in self.names:
                self.names[node] = self._node(node, [self.names[each] for each in node.arguments], node.dtype)
        return self.names[root]

    def position(self, root: Expression) -> str:
        """Return the name of a variable holding the number of an element."""
        return self._spelled(self.printable(root), self.positions) if self.wide else self.value(root)

    def printable(self, root: Expression) -> Expression:
        """Return an expression in steps for which NumPy has quicker ones."""
        return quicker(root, number_of_elements(self.domain) >= MANY)

    def _spelled(self, node: Expression, names: dict[Expression, str]) -> str:
        """Return a node's name among values, or among positions, in which integers have 64 bits."""
        if node not in names:
            below = self.positions if node.step in ("load_at", "load_rows") else names
            arguments = [self._spelled(each, below) for each in node.arguments]
            widened = names is self.positions and node.dtype is int32 and node.step not in ("load_at", "load_rows")
            names[node] = self._node(node, arguments, int64 if widened else node.dtype)
        return names[node]

    def _node(self, node: Expression, arguments: list[str], kind: dtype) -> str:
        step = node.step
        axes = self._varies(node, arguments)
        whole = self._is_whole(axes)
        if step == "constant":
            return self._constant(node.payload, kind)
        if step == "parameter":
            return f"p{node.payload}"
        if step == "cast":
            source = convert(arguments[0], node.arguments[0].dtype, kind)
        elif step == "select" and self.domain and number_of_elements(self.domain) < MANY:
            source = f"n.where({', '.join(arguments)})"
        elif step == "select" and not whole and not any(each.step == "load" for each in node.arguments):
            source = f"r.select({', '.join(arguments)}, False)"
        elif step in STEPS:
            source = STEPS[step].format(*self.arguments(node, arguments))
        elif step in ("load_at", "load_rows"):
            source = self.leaf(node, arguments[0])
        elif step == "gathered_rows":
            source = self.leaf(node, ", ".join(arguments))
        else:
            source = self.leaf(node, None)
        name = source
        if not source.isidentifier():
            name = f"t{next(self.number)}"
            if self._is_known(node, arguments, axes):
                self.known[name] = f"r.shared({source})"  # type: ignore[index]
                self.axes[name] = axes
                return name
            self.lines.append(f"{name} = {source}")
        self.axes[name] = axes
        if not self._in_order(node, arguments):
            self.turned.add(name)
        if name is not source and (step in ("cast", "load_rows") or step in STEPS) and whole:
            call = self._call(step, self.arguments(node, arguments)) or self._conversion(source)
            if step == "negate" and node.arguments[0].step == "load" and self.may_misread(node, arguments[0]):
                call = None
            # New arrays, too, and written where they are told.
            call = source[:-1] if step == "load_rows" else call
            self.steps[name] = Step(kind, call, tuple(arguments), name not in self.turned)
        return name

    def _is_known(self, node: Expression, arguments: list[str], axes: frozenset[int]) -> bool:
        """Return whether a step of few elements depends on coordinates and constants alone: it is computed once, not in each call."""
        if self.known is None or not (node.step in STEPS or node.step == "cast"):
            return False
        count = number_of_elements([self.domain[axis] for axis in axes])
        return count <= KNOWN and all(each in self.known or each in self.constants for each in arguments)

    def _call(self, step: str, arguments: list[str]) -> str | None:
        """Return the source, without its end, of the call that computes a step and can write where it is told."""
        function = f"n.{FUNCTIONS[step]}" if step in FUNCTIONS else f"r.{step}" if step in CHOICES else None
        return function and f"{function}({', '.join(arguments)}"

    def may_misread(self, node: Expression, name: str) -> bool:
        """Return whether a negation that is told where to write may read other elements than its operand's, which has a name.

        NumPy 2.4 takes elements of 4 bytes that lie 4 elements apart, and those of 8 that lie 8 apart, for neighbours where results
        lie apart, too. It goes along the innermost dimension, which is known where operands lie in the order of the results.
        """
        operand, wide = node.arguments[0], node.dtype.itemsize
        if node.step != "negate" or wide not in (4, 8):
            return False
        strides = operand.payload[-1] if operand.step == "load" else ()
        apart = [axis for axis, stride in enumerate(strides) if abs(stride) == wide and self.domain[axis] > 1]
        if strides and not apart:
            return False
        if self.order is None or name in self.turned:
            return True
        return next((axis for axis in reversed(self.order) if self.domain[axis] > 1), None) in apart

    @staticmethod
    def _conversion(source: str) -> str | None:
        """Return the source, without its end, of the call of a conversion that can write where it is told."""
        return source[:-1] if source.startswith(_CONVERSIONS) and source.count("(") == 1 else None

    def _in_order(self, node: Expression, arguments: list[str]) -> bool:
        """Return whether a value's elements lie in memory in the order of the results."""
        if self.order is None or any(each in self.turned for each in arguments):
            return False
        if node.step != "load":
            return node.step in STEPS or node.step in ("cast", "coordinate", "reduced", "load_rows")
        strides = node.payload[-1]
        steps = [strides[axis] for axis in self.order if self.domain[axis] > 1 and strides[axis]]
        return all(one >= other > 0 for one, other in itertools.pairwise([*steps, 1]))

    def arguments(self, node: Expression, names: list[str]) -> list[str]:
        """Return the operands of a step as its function takes them."""
        if node.step in _FORWARDS:
            # A value is the same wherever it is computed: all of a flipped tensor, or one element of it.
            pairs = zip(node.arguments, names, strict=True)
            return [f"{name}.copy()" if self._is_backwards(each) else name for each, name in pairs]
        if node.step in ("maximum", "minimum") and node.dtype.name in _LINED:
            for place, other in ((0, 1), (1, 0)):
                if node.arguments[place].step in NUMBERS and self.is_whole(names[other]):
                    names = list(names)
                    names[place] = f"r.repeated({names[place]}, {names[other]})"
        return names

    def _is_backwards(self, node: Expression) -> bool:
        """Return whether a value's elements lie backwards in memory along some dimension; computed ones never do."""
        return node.step == "load" and any(
            stride < 0 and size > 1 for stride, size in zip(node.payload[-1], self.domain)
        )

    def spread(self, name: str, shape: str) -> str:
        """Return the source of a value as an array of a shape, which is the domain's or a block's of it."""
        axes = self.axes.get(name, frozenset())
        fills = axes and all(axis in axes for axis, size in enumerate(self.domain) if size != 1)
        return name if fills else f"r.spread({name}, {shape})"

    def is_whole(self, name: str) -> bool:
        """Return whether what has a name are as many elements as the domain has, and many."""
        return self._is_whole(self.axes.get(name, frozenset()))

    def _is_whole(self, axes: frozenset[int]) -> bool:
        """Return whether values that vary along some dimensions are as many as the domain's elements, and many."""
        sizes = [size for axis, size in enumerate(self.domain) if size > 1 and axis not in axes]
        return not sizes and number_of_elements(self.domain) >= MANY

    def _varies(self, node: Expression, arguments: list[str]) -> frozenset[int]:
        """Return the dimensions along which a step varies at least."""
        if node.step == "coordinate":
            return frozenset((node.payload,))
        if node.step == "accumulator":
            return frozenset(range(len(self.domain)))
        found = frozenset().union(*(self.axes.get(each, frozenset()) for each in arguments))
        if node.step in ("load", "load_rows", "gathered_rows"):
            found |= {axis for axis, stride in enumerate(node.payload[-1]) if stride}
        return found

    def _constant(self, value: Any, kind: dtype) -> str:
        import numpy

        from .runtime import to_bfloat16

        name = f"c{len(self.constants)}"
        if kind is bfloat16:
            self.constants[name] = to_bfloat16(numpy.float32(value))[()]
        elif kind.category == 1:
            self.constants[name] = (
                numpy.int64(value).astype(TYPES[kind.name]) if value < 1 << 63 else numpy.uint64(value)
            )
        else:
            with numpy.errstate(all="ignore"):
                self.constants[name] = numpy.dtype(TYPES[kind.name]).type(value)
        return name


def convert(name: str, source: dtype, target: dtype) -> str:
    """Return the source of a conversion between element types."""
    if target is bfloat16:
        inner = name if source.name == "float32" else f"n.asarray({convert(name, source, float32)})"
        return f"r.to_bfloat16({inner})"
    if source is bfloat16:
        wide = f"r.from_bfloat16({name})"
        return wide if target.name == "float32" else convert(wide, float32, target)
    if target is bool_:
        return f"n.not_equal({name}, 0)"
    if (source, target) == (float16, float32):
        return f"r.from_half({name})"
    if (source, target) == (float32, float16):
        return f"r.to_half({name})"
    if (source, target) == (float64, float16):
        # Rounded twice, as in PyTorch.
        return convert(convert(name, source, float32), float32, target)
    kind = f"n.{TYPES[target.name]}"
    if target.category == 1 and source.category == 2:
        return f"r.to_integer({name}, {kind})"
    return f"r.cast({name}, {kind})"
