"""Which overload of an operation a call means, and its arguments as PyTorch hands them to ``__torch_dispatch__``."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence

from webgpu_torch_core import Generator, Tensor, device, dtype
from webgpu_torch_core.dispatch.torch_dispatch import Value
from webgpu_torch_core.tensors.kinds import layout
from webgpu_torch_core.tensors.memory_formats import memory_format

from .schemas import Argument, FunctionSchema

#: operations whose operand may be a number where their schema has a tensor
_NUMBERS_AS_TENSORS = frozenset(
    name + suffix
    for name in ("add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "floor_divide", "copy")
    for suffix in ("", "_")
)
#: NumPy's names of arguments, and this library's of the first one
_OTHER_NAMES = {"input": "self", "axis": "dim", "keepdims": "keepdim"}


def _is_int(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Number)


_KINDS: dict[str, Callable[[object], bool]] = {
    "Tensor": lambda value: isinstance(value, Tensor),
    "Scalar": _is_number,
    "int": _is_int,
    "float": lambda value: isinstance(value, numbers.Real) and not isinstance(value, bool),
    "bool": lambda value: isinstance(value, bool),
    "str": lambda value: isinstance(value, str),
    "ScalarType": lambda value: isinstance(value, dtype),
    "Device": lambda value: isinstance(value, device | str),
    "Layout": lambda value: isinstance(value, layout),
    "MemoryFormat": lambda value: isinstance(value, memory_format),
    "Generator": lambda value: isinstance(value, Generator),
}
_ABSENT = object()


def _fits(value: object, kind: str) -> bool:
    if kind.endswith("?"):
        return value is None or _fits(value, kind[:-1])
    if kind.endswith("[]"):
        return isinstance(value, list | tuple) and all(_fits(each, kind[:-2]) for each in value)
    check = _KINDS.get(kind)
    return check is not None and check(value)


def _taken(argument: Argument, value: Value, numbers_as_tensors: bool) -> Value:
    """Return a value as an argument takes it; :data:`_ABSENT` if it does not."""
    if _fits(value, argument.type):
        if "[]" in argument.type and value is not None:
            return list(value)
        return device(value) if isinstance(value, str) and argument.type.startswith("Device") else value
    if argument.N is not None and _fits(value, argument.type.rstrip("?").removesuffix("[]")):
        return [value] * argument.N
    if numbers_as_tensors and argument.type == "Tensor" and _is_number(value):
        return value
    return _ABSENT


def match(
    schemas: Sequence[FunctionSchema], args: Sequence[Value], kwargs: dict[str, Value]
) -> tuple[FunctionSchema, tuple[Value, ...], dict[str, Value]] | None:
    """Return the first schema that a call fits, with its arguments; None if it fits none.

    Arguments that have their default value are left out, but for positional ones before others.
    """
    for schema in schemas:
        names = {each.name for each in schema.arguments}
        given = {name if name in names else _OTHER_NAMES.get(name, name): value for name, value in kwargs.items()}
        bound = _bind(schema, args, given)
        if bound is not None:
            return schema, *_canonical(schema, bound)
    return None


def _bind(schema: FunctionSchema, args: Sequence[Value], given: dict[str, Value]) -> list[Value] | None:
    """Return the value of each argument, or None."""
    arguments = schema.arguments
    positional = [each for each in arguments if not each.kwarg_only]
    values: Sequence[Value] = args
    # Sizes and dimensions of methods may be given one by one.
    lists = [place for place, each in enumerate(positional[:2]) if each.type in ("int[]", "int[]?") and each.N is None]
    for place in lists[:1]:
        if len(args) > place and all(_is_int(each) for each in args[place:]):
            values = (*args[:place], list(args[place:]))
    if len(values) > len(positional):
        return None
    name = schema.name.rpartition("::")[2]
    rest = dict(given)
    bound = []
    for place, argument in enumerate(arguments):
        if place < len(values) and not argument.kwarg_only:
            value = values[place]
            if argument.name in rest:
                return None
        elif argument.name in rest:
            value = rest.pop(argument.name)
        elif argument.optional:
            value = argument.default_value
            bound.append(value)
            continue
        else:
            return None
        if value is None and argument.optional and not argument.type.endswith("?"):
            # Functions written in Python say so where the operation has a default of another type.
            bound.append(argument.default_value)
            continue
        value = _taken(argument, value, place > 0 and name in _NUMBERS_AS_TENSORS)
        if value is _ABSENT:
            return None
        bound.append(value)
    # Options that a call names at their default take part in no schema: dtype=None of what takes no type.
    return None if any(value is not None for value in rest.values()) else bound


def _is_default(argument: Argument, value: Value) -> bool:
    default = argument.default_value
    return argument.optional and type(value) is type(default) and not isinstance(value, Tensor) and value == default


def _canonical(schema: FunctionSchema, bound: list[Value]) -> tuple[tuple[Value, ...], dict[str, Value]]:
    pairs = list(zip(schema.arguments, bound, strict=True))
    positional = [pair for pair in pairs if not pair[0].kwarg_only]
    while positional and _is_default(*positional[-1]):
        positional.pop()
    named = {
        argument.name: value for argument, value in pairs if argument.kwarg_only and not _is_default(argument, value)
    }
    return tuple(value for _, value in positional), named
