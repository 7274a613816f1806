"""Remembered calls: what an operation recorded for arguments of one kind is recorded again without running its Python.

An operation written with others spends far more time in Python than its few kernels need to be appended to the graph. What
it records without gradients depends on its arguments' layouts, types and plain values only; so the second call of one kind
appends the same kernels over the new values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from ..ir.dtypes import dtype
from ..record.context import context, default_float
from ..record.tape import Tape
from ..tensors.tensor import Tensor

#: kinds of calls kept per operation
_LIMIT = 4096
#: classes of tensors that are nothing but tensors
PLAIN: set[type] = {Tensor}
_SIMPLE = frozenset((bool, int, float, str, type(None), dtype))


class _Recipe:
    """What a call recorded.

    Attributes:
        steps: kernels with their operands (numbers of arguments, then of values made before) and parameters.
        result: the number of the value that holds the result.
        layout, dtype, device: the result's.
    """

    __slots__ = ("device", "dtype", "layout", "result", "steps")

    def __init__(self, steps: list[tuple[Any, list[int], tuple[Any, ...]]], number: int, result: Tensor) -> None:
        self.steps = steps
        self.result = number
        self.layout, self.dtype, self.device = result._layout, result.dtype, result.device


def remembered(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Decorate a deterministic operation with one tensor as its result, which is none of its arguments."""
    recipes: dict[tuple[Any, ...], _Recipe] = {}

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Tensor:
        key: list[Any] = [default_float[0]]
        values: list[Any] = []
        given = (*args, *kwargs, *kwargs.values()) if kwargs else args
        if context.casting or not _describe(given, key, values):
            return function(*args, **kwargs)
        identity = tuple(key)
        found = recipes.get(identity)
        if found is None or not _distinct(values):
            return _watched(function, args, kwargs, values, recipes, identity)
        engine = values[0].engine
        for kernel, operands, parameters in found.steps:
            values += engine.record(kernel, [values[number] for number in operands], parameters)
        return Tensor._from_value(values[found.result], found.layout, found.dtype, found.device)

    return call


def _describe(given: Iterable[Any], key: list[Any], values: list[Any]) -> bool:
    """Add what arguments are to a call's key and their values to its values; False where one must not be remembered."""
    for each in given:
        kind = each.__class__
        if kind in PLAIN:
            if context.enabled and (each._requires_grad or each._grad_fn is not None):
                return False
            value = each._storage.value
            key += (each._layout, each.dtype, value.numel, value.engine)
            values.append(value)
        elif kind in _SIMPLE:
            key += (kind, each)
        elif isinstance(each, list | tuple):
            key += (kind, len(each))
            if not _describe(each, key, values):
                return False
        else:
            return False
    return True


def _distinct(values: list[Any]) -> bool:
    """Return whether no two arguments share their memory."""
    return len(values) < 2 or len(set(map(id, values))) == len(values)


def _watched(
    function: Any, args: Any, kwargs: Any, values: list[Any], recipes: dict[tuple[Any, ...], _Recipe], identity: Any
) -> Tensor:
    """Call the function and remember what it recorded, if it did nothing else."""
    engine: Any = values[0].engine if values else None
    # Devices without kernels (meta) have nothing to remember.
    if not hasattr(engine, "record") or not _distinct(values) or any(each.engine is not engine for each in values):
        return function(*args, **kwargs)
    tape, before = engine.tape, _state(engine)
    start = len(tape.entries)
    result = function(*args, **kwargs)
    given = any(result is each for each in (*args, *kwargs.values()))
    if tape.open and _state(engine) == before and result.__class__ is Tensor and result._grad_fn is None and not given:
        recipe = _recipe(tape, values, start, result)
        if recipe is not None:
            if len(recipes) >= _LIMIT:
                recipes.pop(next(iter(recipes)))
            recipes[identity] = recipe
    return result


def _state(engine: Any) -> tuple[Any, ...]:
    """Return what a call changes that does more than record: a read, a check of values."""
    return engine.reads, engine.checks


def _recipe(tape: Tape, values: list[Any], start: int, result: Tensor) -> _Recipe | None:
    """Return what was recorded since the tape had ``start`` kernels."""
    number_of = {each.place[1]: number for number, each in enumerate(values) if each.place[0] is tape}
    count = len(values)
    steps: list[tuple[Any, list[int], tuple[Any, ...]]] = []
    for kernel, operands, output, parameters in tape.entries[start:]:
        if any(each not in number_of for each in operands):
            return None
        steps.append((kernel, [number_of[each] for each in operands], parameters))
        for slot in range(output, output + len(kernel.outputs)):
            number_of[slot] = count
            count += 1
    tape_of_result, slot = result._storage.value.place
    number = number_of.get(slot, -1) if tape_of_result is tape else -1
    return _Recipe(steps, number, result) if number >= len(values) else None
