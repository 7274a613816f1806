"""Every kernel form in plain Python: the definition the other devices must agree with, and one to step through.

A single recorded operation runs by calling its own definition with numbers, so a breakpoint inside ``silu`` stops once
per element. Sums are accumulated in Python's numbers and rounded to the stored type at the end.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..bounded import Bounded
from .dtypes import float32, float64
from .expression import Expression, topological
from .kernels import (
    Attention,
    Contraction,
    Pointwise,
    PreparedContraction,
    Product,
    RowProgram,
    Scan,
    Scatter,
    Sort,
    Store,
)
from .layouts import Shape
from .monoids import Monoid
from .scalar_math import Real, convert, divide, truncate
from .steps import STEPS

Definition = tuple[Callable[..., Any], tuple[Expression, ...]]
_definitions: Bounded[Any, Definition] = Bounded(4096)


def register_definition(kernel: Any, function: Callable[..., Any], arguments: tuple[Expression, ...]) -> None:
    """Remember that a recorded kernel computes ``function(*arguments)`` at every coordinate."""
    _definitions[kernel] = (function, arguments)


class Environment:
    """What expressions read while a kernel runs: operands, parameters, a definition's arguments, intermediate results."""

    def __init__(
        self, operands: Sequence[Sequence[Any]], parameters: Sequence[Any], arguments: Sequence[Any] = ()
    ) -> None:
        self.operands = operands
        self.parameters = parameters
        self.arguments = arguments
        self.reduced: list[Any] = []
        self.accumulator: Any = None
        # What ``checked`` expressions reported: codes and what was found.
        self.reported: list[tuple[int, int]] = []


def evaluate(root: Expression, at: Shape, env: Environment) -> Any:
    """Return an expression's value at a coordinate."""
    values: dict[Expression, Any] = {}
    for node in topological(root):
        values[node] = _evaluate_node(node, values, at, env)
    return values[root]


def _evaluate_node(node: Expression, values: dict[Expression, Any], at: Shape, env: Environment) -> Any:
    step = node.step
    if step == "constant":
        return Real(node.payload) if node.dtype.is_floating_point else node.payload
    if step == "load":
        operand, offset, strides = node.payload
        return _number(env.operands[operand][offset + sum(map(int.__mul__, strides, at))])
    if step == "load_at":
        return _number(env.operands[node.payload][int(values[node.arguments[0]])])
    if step == "coordinate":
        return at[node.payload]
    if step == "argument":
        if node.payload >= len(env.arguments):
            raise KeyError(f"argument {node.payload} of a definition that was given {len(env.arguments)}")
        return env.arguments[node.payload]
    if step == "parameter":
        return _number(convert(env.parameters[node.payload], node.dtype))
    if step == "reduced":
        return _number(env.reduced[node.payload])
    if step == "accumulator":
        return _number(env.accumulator)
    arguments = [values[each] for each in node.arguments]
    if step == "checked":
        value, wrong, code, low, high = arguments
        if wrong:
            env.reported.append((int(code), (int(high) << 32) | (int(low) & 0xFFFFFFFF)))
        return value
    if step == "cast":
        return convert(arguments[0], node.dtype)
    if _is_typed(node):
        return _evaluate_typed(node, arguments)
    result = STEPS[step].evaluate(*arguments)
    # Fixed-width integers wrap; floats keep double precision until they are stored.
    return convert(result, node.dtype) if node.dtype.category == 1 else result


def _number(value: Any) -> Any:
    return Real(value) if isinstance(value, float) else value


def coordinates(shape: Shape) -> Iterator[Shape]:
    """Yield every coordinate of a box in row-major order."""
    return itertools.product(*map(range, shape))


def run_kernel(kernel: Any, operands: Sequence[Any], outputs: Sequence[Any], parameters: Sequence[Any]) -> None:
    """Run a kernel over lists of numbers; ``outputs`` are changed in place."""
    env = Environment(operands, parameters)
    if isinstance(kernel, Pointwise):
        _pointwise(kernel, env, outputs)
    elif isinstance(kernel, RowProgram):
        _rows(kernel, env, outputs)
    elif isinstance(kernel, Contraction):
        _contraction(kernel, env, outputs)
    elif isinstance(kernel, Scan):
        _scan(kernel, env, outputs)
    elif isinstance(kernel, Sort):
        _sort(kernel, env, outputs)
    elif isinstance(kernel, Scatter):
        _scatter(kernel, env, outputs)
    elif isinstance(kernel, Attention):
        _attention(kernel, env, outputs)
    else:
        raise TypeError(f"unknown kernel form {type(kernel).__name__}")


def _store(stores: tuple[Store, ...], at: Shape, env: Environment, outputs: Sequence[Any], kernel: Any) -> None:
    # All values before any store: one output may overwrite what another value reads.
    _put(stores, _values(stores, at, env, kernel), outputs)


def _values(stores: tuple[Store, ...], at: Shape, env: Environment, kernel: Any) -> list[tuple[int | None, Any]]:
    """Return for each store its index, None where nothing is stored, and its value."""
    found: list[tuple[int | None, Any]] = []
    for each in stores:
        value = convert(evaluate(each.value, at, env), kernel.outputs[each.output].dtype)
        index = each.offset + sum(map(int.__mul__, each.strides, at))
        index += 0 if each.place is None else int(evaluate(each.place, at, env))
        found.append((index if each.where is None or evaluate(each.where, at, env) else None, value))
    return found


def _put(stores: tuple[Store, ...], values: list[tuple[int | None, Any]], outputs: Sequence[Any]) -> None:
    for each, (index, value) in zip(stores, values, strict=True):
        if index is not None:
            outputs[each.output][index] = value


def _pointwise(kernel: Pointwise, env: Environment, outputs: Sequence[Any]) -> None:
    found = _definitions.get(kernel)
    if found is None or len(kernel.stores) != 1 or _needs_types(kernel.stores[0].value):
        for at in coordinates(kernel.shape):
            _store(kernel.stores, at, env, outputs, kernel)
        return
    function, arguments = found
    store = kernel.stores[0]
    for at in coordinates(kernel.shape):
        value = function(*(evaluate(each, at, env) for each in arguments))
        outputs[0][store.offset + sum(map(int.__mul__, store.strides, at))] = convert(value, kernel.outputs[0].dtype)


def _needs_types(value: Expression) -> bool:
    """Return whether plain numbers, which do not know their type, cannot tell what an expression means."""
    return any(map(_is_typed, topological(value)))


def _is_typed(node: Expression) -> bool:
    return (node.step, node.dtype) in (("nextafter", float64), ("truncate_divide", float32))


def _evaluate_typed(node: Expression, arguments: list[Any]) -> Real:
    """Return the result of a step that depends on the precision: a neighbour, a quotient that rounds to an integer."""
    if node.step == "nextafter":
        return Real(math.nextafter(*arguments))
    return truncate(convert(divide(*arguments), node.dtype))


def lift(monoid: Monoid, element: Any, position: int) -> list[Any]:
    """Return the state of one element."""
    return _applied(monoid.lift, [convert(element, monoid.states[0]), position])


def combine(monoid: Monoid, earlier: Sequence[Any], later: Sequence[Any]) -> list[Any]:
    """Return two states combined; fixed-width integers wrap, sums of floats are not rounded yet."""
    return _applied(monoid.combine, [*earlier, *later])


def results(monoid: Monoid, state: Sequence[Any]) -> list[Any]:
    """Return what a state means, rounded to the types of the results."""
    values = _applied(monoid.results, state)
    return [convert(value, root.dtype) for root, value in zip(monoid.results, values, strict=True)]


def _applied(roots: tuple[Expression, ...], arguments: Sequence[Any]) -> list[Any]:
    env = Environment((), (), [_number(each) for each in arguments])
    return [evaluate(root, (), env) for root in roots]


def reduce_row(monoid: Monoid, elements: Sequence[Any]) -> Any:
    """Return the result of a reduction."""
    state: Sequence[Any] = monoid.identity
    for position, element in enumerate(elements):
        state = combine(monoid, state, lift(monoid, element, position))
    return results(monoid, state)[0]


def _rows(kernel: RowProgram, env: Environment, outputs: Sequence[Any]) -> None:
    inner = list(coordinates(kernel.inner))
    for row in coordinates(kernel.outer):
        env.reduced = []
        for reduction in kernel.reductions:
            values = [evaluate(reduction.value, row + at, env) for at in inner]
            env.reduced.append(reduce_row(reduction.monoid, values))
        values = _values(kernel.row_stores, row, env, kernel)
        for at in inner if kernel.stores else ():
            _store(kernel.stores, row + at, env, outputs, kernel)
        # Last, because the elements' values may read what these overwrite.
        _put(kernel.row_stores, values, outputs)


def _contraction(kernel: Contraction, env: Environment, outputs: Sequence[Any]) -> None:
    depth = list(coordinates(kernel.k))
    zeros_m, zeros_n = (0,) * len(kernel.m), (0,) * len(kernel.n)
    for batch in coordinates(kernel.batch):
        left = {m: _left_row(kernel, [batch + m + zeros_n + k for k in depth], env) for m in coordinates(kernel.m)}
        right = {
            n: [evaluate(kernel.right, batch + zeros_m + n + k, env) for k in depth] for n in coordinates(kernel.n)
        }
        for m, n in itertools.product(left, right):
            total = sum(map(operator.mul, left[m], right[n]))
            env.accumulator = convert(total, kernel.dtype)
            _store(kernel.stores, batch + m + n, env, outputs, kernel)


def _left_row(kernel: Contraction, row: Sequence[Shape], env: Environment) -> list[Any]:
    """Return the elements of a row of the left side, after the reductions that they are computed with."""
    env.reduced = []
    for each in kernel.reductions if isinstance(kernel, PreparedContraction) else ():
        env.reduced.append(reduce_row(each.monoid, [evaluate(each.value, at, env) for at in row]))
    return [evaluate(kernel.left, at, env) for at in row]


def _scan(kernel: Scan, env: Environment, outputs: Sequence[Any]) -> None:
    length = kernel.shape[-1]
    order = range(length - 1, -1, -1) if kernel.reverse else range(length)
    for row in coordinates(kernel.shape[:-1]):
        state: Sequence[Any] = kernel.monoid.identity
        for position in order:
            at = (*row, position)
            state = combine(kernel.monoid, state, lift(kernel.monoid, evaluate(kernel.value, at, env), position))
            state = [convert(each, kind) for each, kind in zip(state, kernel.monoid.states, strict=True)]
            target = kernel.offset + sum(map(int.__mul__, kernel.strides, at))
            for output, described, value in zip(outputs, kernel.outputs, results(kernel.monoid, state), strict=False):
                output[target] = convert(value, described.dtype)


def _sort(kernel: Sort, env: Environment, outputs: Sequence[Any]) -> None:
    length = kernel.shape[-1]
    for number, row in enumerate(coordinates(kernel.shape[:-1])):
        values = [evaluate(kernel.value, (*row, position), env) for position in range(length)]
        nan = [position for position in range(length) if values[position] != values[position]]
        rest = [position for position in range(length) if values[position] == values[position]]
        # Stable both ways: equal values keep their order.
        rest.sort(key=lambda position: values[position], reverse=kernel.descending)
        order = nan + rest if kernel.descending else rest + nan
        for place, position in enumerate(order[: kernel.limit]):
            outputs[0][number * kernel.limit + place] = convert(values[position], kernel.outputs[0].dtype)
            outputs[1][number * kernel.limit + place] = position


def _scatter(kernel: Scatter, env: Environment, outputs: Sequence[Any]) -> None:
    target, of = outputs[0], kernel.outputs[0].dtype
    for at in coordinates(kernel.lanes + kernel.entries):
        index, value = int(evaluate(kernel.index, at, env)), evaluate(kernel.value, at, env)
        if kernel.monoid is not None:
            (value,) = combine(kernel.monoid, [target[index]], lift(kernel.monoid, value, 0))
        target[index] = convert(value, of)


def _attention(kernel: Attention, env: Environment, outputs: Sequence[Any]) -> None:
    rest = (0,) * (len(kernel.k) + len(kernel.v))
    columns = list(coordinates(kernel.n))
    for row in coordinates(kernel.batch + kernel.m):
        bounds = [None if each is None else int(evaluate(each, row, env)) for each in (kernel.first, kernel.last)]
        start, stop = max(bounds[0] or 0, 0), len(columns) if bounds[1] is None else min(bounds[1], len(columns))
        read = [row + rest + at for at in columns[start : max(stop, start)]]
        products = [[_product(kernel, each, at, env) for each in kernel.products] for at in read]
        weights = [0.0] * len(read)
        logarithm = -math.inf
        if kernel.score is not None:
            scores: list[float] = []
            for at, env.reduced in zip(read, products, strict=True):
                scores.append(float(evaluate(kernel.score, at, env)))
            weights, logarithm = _softmax(scores)
        for total in kernel.sums:
            factors: list[float] = []
            for at, env.reduced, env.accumulator in zip(read, products, weights, strict=True):
                factors.append(float(evaluate(total.weight, at, env)))
            for along in coordinates(kernel.k if total.along == "k" else kernel.v):
                own = (along, (0,) * len(kernel.v)) if total.along == "k" else ((0,) * len(kernel.k), along)
                place = row + own[0] + own[1]
                values = [float(evaluate(total.value, place + at[len(place) :], env)) for at in read]
                env.accumulator = convert(sum(map(operator.mul, factors, values)), float32)
                _store((total.store,), place, env, outputs, kernel)
        env.accumulator = logarithm
        _store(kernel.row_stores, row, env, outputs, kernel)


def _product(kernel: Attention, product: Product, at: Shape, env: Environment) -> float:
    row, column = at[: len(kernel.batch + kernel.m)], at[len(at) - len(kernel.n) :]
    total = 0.0
    for along in coordinates(kernel.k if product.depth == "k" else kernel.v):
        own = (along, (0,) * len(kernel.v)) if product.depth == "k" else ((0,) * len(kernel.k), along)
        place = row + own[0] + own[1] + column
        total += float(evaluate(product.left, place, env)) * float(evaluate(product.right, place, env))
    return float(convert(total, float32))


def _softmax(scores: list[float]) -> tuple[list[float], float]:
    """Return the softmax of scores, zeros where all are -inf, and the logarithm of the sum of their exponentials."""
    if any(each != each for each in scores):
        return [math.nan] * len(scores), math.nan
    top = max(scores, default=-math.inf)
    if top == -math.inf:
        return [0.0] * len(scores), top
    powers = [math.nan if each == math.inf else math.exp(each - top) for each in scores]
    return [each / sum(powers) for each in powers], top + math.log(sum(powers))
