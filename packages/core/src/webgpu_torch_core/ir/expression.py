"""The scalar expression language: what one element of a kernel computes, as a typed, shared DAG.

An operation's definition is a short Python function. Called with :class:`Expression` arguments it builds the DAG that
backends print as source; called with plain numbers it just computes, so a debugger can step through it. The functions
both forms use (``exp``, ``where``, …) are in :mod:`webgpu_torch_core.ir.scalar`; the table of primitive steps, with the
meaning of each on numbers and its gradient, is in :mod:`webgpu_torch_core.ir.steps`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Iterable
from functools import lru_cache
from itertools import chain
from typing import Any
from weakref import KeyedRef, WeakValueDictionary, ref

from .dtypes import bool_, dtype, float32, int32

Number = bool | int | float


class Expression:
    """One node: a step applied to arguments. Equal nodes are the same object.

    Leaves (``payload`` says which):
        ``constant`` (the value), ``argument`` (index; only inside definitions), ``parameter`` (index of a run-time
        scalar), ``coordinate`` (dimension of the kernel's domain, int32), ``load`` (operand, offset, strides over the
        domain), ``reduced`` (index of a row program's earlier reduction), ``accumulator`` (a contraction's sum).
    Inner nodes:
        ``load_at`` (payload: operand; argument: element index), ``cast`` (to ``dtype``), ``checked`` (the first argument's
        value; where the second holds, the device reports the third, a code, with the 64 bits of the other two, low ones
        first), and every name in
        :data:`webgpu_torch_core.ir.steps.STEPS`.
    """

    __slots__ = ("__weakref__", "arguments", "dtype", "payload", "size", "step")

    step: str
    arguments: tuple[Expression, ...]
    payload: Any
    dtype: dtype
    size: int
    """How many nodes the expression has when written out as a tree (an upper bound of its cost)."""

    def __repr__(self) -> str:
        if self.step == "constant":
            return repr(self.payload)
        if self.step in LEAF_STEPS:
            return f"{self.step}{self.payload}:{self.dtype.name}"
        name = f"cast_{self.dtype.name}" if self.step == "cast" else self.step
        payload = "" if self.payload is None else f"{self.payload}, "
        return f"{name}({payload}{', '.join(map(repr, self.arguments))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return make, (self.step, self.arguments, self.payload, self.dtype)

    def __add__(self, other: Operand) -> Expression:
        return binary("add", self, other)

    def __radd__(self, other: Operand) -> Expression:
        return binary("add", other, self)

    def __sub__(self, other: Operand) -> Expression:
        return binary("subtract", self, other)

    def __rsub__(self, other: Operand) -> Expression:
        return binary("subtract", other, self)

    def __mul__(self, other: Operand) -> Expression:
        return binary("multiply", self, other)

    def __rmul__(self, other: Operand) -> Expression:
        return binary("multiply", other, self)

    def __truediv__(self, other: Operand) -> Expression:
        return binary("divide", self, other)

    def __rtruediv__(self, other: Operand) -> Expression:
        return binary("divide", other, self)

    def __floordiv__(self, other: Operand) -> Expression:
        return binary("floor_divide", self, other)

    def __rfloordiv__(self, other: Operand) -> Expression:
        return binary("floor_divide", other, self)

    def __mod__(self, other: Operand) -> Expression:
        return binary("remainder", self, other)

    def __rmod__(self, other: Operand) -> Expression:
        return binary("remainder", other, self)

    def __neg__(self) -> Expression:
        return apply("negate", self)

    def __abs__(self) -> Expression:
        return apply("absolute", self)

    def __lt__(self, other: Operand) -> Expression:
        return binary("less", self, other)

    def __le__(self, other: Operand) -> Expression:
        return binary("less_equal", self, other)

    def __gt__(self, other: Operand) -> Expression:
        return binary("less", other, self)

    def __ge__(self, other: Operand) -> Expression:
        return binary("less_equal", other, self)

    def __and__(self, other: Operand) -> Expression:
        return binary("bitwise_and", self, other)

    def __rand__(self, other: Operand) -> Expression:
        return binary("bitwise_and", other, self)

    def __or__(self, other: Operand) -> Expression:
        return binary("bitwise_or", self, other)

    def __ror__(self, other: Operand) -> Expression:
        return binary("bitwise_or", other, self)

    def __xor__(self, other: Operand) -> Expression:
        return binary("bitwise_xor", self, other)

    def __rxor__(self, other: Operand) -> Expression:
        return binary("bitwise_xor", other, self)

    def __lshift__(self, other: Operand) -> Expression:
        return binary("shift_left", self, other)

    def __rshift__(self, other: Operand) -> Expression:
        return binary("shift_right", self, other)

    def __invert__(self) -> Expression:
        return apply("bitwise_not", self)

    def __bool__(self) -> bool:
        raise TypeError(
            "an expression has no truth value while a kernel is traced: write where(condition, a, b) instead of `if`, "
            "and equal(a, b) instead of `==`"
        )


Operand = Expression | Number

LEAF_STEPS = frozenset(("argument", "parameter", "coordinate", "load", "reduced", "accumulator", "constant"))
LOAD_STEPS = frozenset(("load", "load_at"))
BOOLEAN_STEPS = frozenset(("equal", "not_equal", "less", "less_equal", "is_nan", "is_infinite", "sign_bit"))

_interned: WeakValueDictionary[tuple[Any, ...], Expression] = WeakValueDictionary()
# The references themselves: asking the dictionary for a value, or to take one, costs as much as the rest of making an expression.
_references: dict[tuple[Any, ...], ref[Expression]] = _interned.data  # type: ignore[attr-defined]
_forget: Callable[[ref[Expression]], None] = _interned._remove  # type: ignore[attr-defined]


def make(step: str, arguments: tuple[Expression, ...], payload: Any, dtype: dtype) -> Expression:
    """Return the one expression with these parts."""
    identity = payload
    if step == "constant":
        # 0.0 == -0.0 and 1 == True in Python, and nan != nan: compare float constants by their bits.
        identity = struct.pack("<d", payload) if isinstance(payload, float) else (type(payload).__name__, payload)
    key = (step, arguments, identity, dtype)
    reference = _references.get(key)
    found = reference() if reference is not None else None
    if found is None:
        found = Expression()
        found.step, found.arguments, found.payload, found.dtype = step, arguments, payload, dtype
        size = 1
        for each in arguments:
            size += each.size
        found.size = size
        _references[key] = KeyedRef(found, _forget, key)
    return found


def constant(value: Number, dtype: dtype) -> Expression:
    """Return a literal of a type."""
    if dtype.category == 0:
        value = bool(value)
    elif dtype.category == 1:
        value = int(value)
    else:
        value = float(value)
    return make("constant", (), value, dtype)


def argument(index: int, dtype: dtype) -> Expression:
    """Return the placeholder of a definition's argument."""
    return make("argument", (), index, dtype)


def parameter(index: int, dtype: dtype) -> Expression:
    """Return a run-time scalar: its value may change without compiling anything."""
    return make("parameter", (), index, dtype)


def coordinate(dimension: int) -> Expression:
    """Return the position of the element along a dimension of the kernel's domain."""
    return make("coordinate", (), dimension, int32)


def load(operand: int, offset: int, strides: tuple[int, ...], dtype: dtype) -> Expression:
    """Return operand element ``offset + sum(stride * coordinate)``, strides given per domain dimension."""
    return make("load", (), (operand, offset, strides), dtype)


def load_at(operand: int, index: Expression, dtype: dtype) -> Expression:
    """Return the operand's element at a computed index (an in-range int32 or int64 expression)."""
    return make("load_at", (index,), operand, dtype)


def reduced(index: int, dtype: dtype) -> Expression:
    """Return the result of a row program's reduction number ``index`` for this row."""
    return make("reduced", (), index, dtype)


def accumulator(dtype: dtype) -> Expression:
    """Return the finished sum of a contraction, for its epilogue."""
    return make("accumulator", (), None, dtype)


def cast(value: Operand, dtype: dtype) -> Expression:
    """Return a value converted as PyTorch's ``Tensor.to(dtype)`` converts it."""
    if not isinstance(value, Expression):
        return constant(value, dtype)
    if value.dtype is dtype:
        return value
    if value.step == "constant" and dtype.is_floating_point and dtype.itemsize >= 4:
        return constant(value.payload, dtype)
    return make("cast", (value,), None, dtype)


def common_dtype(values: Iterable[Operand]) -> dtype:
    """Return the type that operands of one step share: the widest expression's, plain numbers adapt to it."""
    best: dtype | None = None
    fractional = False
    for value in values:
        if isinstance(value, Expression):
            other = value.dtype
            if best is None or (other.category, other.itemsize) > (best.category, best.itemsize):
                best = other
        elif isinstance(value, float):
            fractional = True
    if best is None:
        raise TypeError("a step needs at least one expression among its operands")
    if fractional and best.category < 2:
        return float32
    return best


def binary(step: str, left: Operand, right: Operand) -> Expression:
    """Return a two-operand step, with both operands brought to their common type."""
    shared = common_dtype((left, right))
    if step == "divide" and shared.category < 2:
        shared = float32
    elif shared is bool_ and step in ("add", "subtract", "multiply", "floor_divide", "remainder"):
        shared = int32
    arguments = (cast(left, shared), cast(right, shared))
    return make(step, arguments, None, bool_ if step in BOOLEAN_STEPS else shared)


def apply(step: str, *values: Operand) -> Expression:
    """Return a step applied to operands, all brought to their common type."""
    shared = common_dtype(values)
    arguments = tuple(cast(value, shared) for value in values)
    return make(step, arguments, None, bool_ if step in BOOLEAN_STEPS else shared)


def select(condition: Expression, yes: Operand, no: Operand) -> Expression:
    """Return ``yes`` where the condition holds, else ``no``; neither side may have effects."""
    if condition.dtype is not bool_:
        condition = binary("not_equal", condition, 0)
    if isinstance(yes, Expression) or isinstance(no, Expression):
        shared = common_dtype((yes, no))
    else:
        shared = float32 if isinstance(yes, float) or isinstance(no, float) else int32
    if condition.step == "constant":
        return cast(yes if condition.payload else no, shared)
    return make("select", (condition, cast(yes, shared), cast(no, shared)), None, shared)


def checked(value: Expression, wrong: Expression, code: Expression, found: Expression) -> Expression:
    """Return a value; where ``wrong`` holds, the device reports an int32 code and the integer that was found.

    Only for devices whose kernels report (:attr:`~webgpu_torch_core.backend.interface.Device.reports`).
    """
    low = cast(found, int32)
    high = select(found < 0, -1, 0) if found.dtype.itemsize <= 4 else cast(binary("shift_right", found, 32), int32)
    return make("checked", (value, wrong, code, low, high), None, value.dtype)


Replace = Callable[[Expression, tuple[Expression, ...]], Expression | None]


def rewrite(expression: Expression, replace: Replace, steps: Container[str] | None = None) -> Expression:
    """Return a copy with nodes replaced bottom-up; ``replace(node, new_arguments)`` returns None to keep a node.

    ``steps``: it is asked of these only; None: of all.
    """
    return rewrite_all((expression,), replace, steps)[0]


def rewrite_all(
    expressions: tuple[Expression, ...], replace: Replace, steps: Container[str] | None = None
) -> tuple[Expression, ...]:
    """Return copies as of :func:`rewrite`; what several expressions share is looked at once."""
    done: dict[Expression, Expression] = {}
    get = done.__getitem__
    for node in topological(*expressions):
        given = node.arguments
        arguments = tuple(map(get, given)) if given else given
        result = replace(node, arguments) if steps is None or node.step in steps else None
        if result is None:
            result = node if arguments == given else make(node.step, arguments, node.payload, node.dtype)
        done[node] = result
    return tuple(map(get, expressions))


def substitute(expression: Expression, arguments: tuple[Expression, ...]) -> Expression:
    """Return a definition's expression with its argument placeholders replaced."""
    return rewrite(expression, lambda node, _: arguments[node.payload], ("argument",))


def topological(*roots: Expression) -> tuple[Expression, ...]:
    """Return every distinct node under the roots, arguments before users."""
    if len(roots) == 1:
        return _order(roots[0])
    return tuple(dict.fromkeys(chain.from_iterable(map(_order, roots))))


def loads_of(*roots: Expression) -> list[Expression]:
    """Return the loads under the roots."""
    return [node for node in topological(*roots) if node.step in LOAD_STEPS]


def operand_of(load: Expression) -> int:
    """Return the number of the operand that a load reads."""
    return load.payload[0] if load.step == "load" else load.payload


#: nodes of an expression up to which it is walked by calls, which takes half of the time
_SHALLOW = 64


def _visit(node: Expression, order: dict[Expression, None]) -> None:
    """Add what is not in order yet, arguments before users."""
    for each in node.arguments:
        if each not in order:
            _visit(each, order)
    order[node] = None


@lru_cache(maxsize=8192)
def _order(root: Expression) -> tuple[Expression, ...]:
    order: dict[Expression, None] = {}
    if root.size <= _SHALLOW:
        _visit(root, order)
        return tuple(order)
    stack = [root]
    while stack:
        node = stack[-1]
        # Those not in order yet, the first on top: it comes first.
        missing = [each for each in node.arguments[::-1] if each not in order]
        if missing:
            stack += missing
        else:
            order[node] = None
            stack.pop()
    return tuple(order)


def trace(function: Callable[..., Any], dtypes: Iterable[dtype]) -> Any:
    """Return what a definition builds when called with one placeholder per type."""
    return function(*(argument(index, each) for index, each in enumerate(dtypes)))
