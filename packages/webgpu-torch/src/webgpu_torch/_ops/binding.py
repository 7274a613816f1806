"""The arguments of a call of an operation that a program defined, checked by its schema."""

from __future__ import annotations

import numbers
from collections.abc import Callable

import webgpu_torch_core
from webgpu_torch_core import Tensor, device, dtype
from webgpu_torch_core.dispatch.torch_dispatch import Value

from .schemas import Argument, FunctionSchema

_TAKEN: dict[str, Callable[[Value], bool]] = {
    # PyTorch has None for tensors that are not there, whether or not the schema says so.
    "Tensor": lambda value: value is None or isinstance(value, Tensor),
    "Scalar": lambda value: isinstance(value, numbers.Number | Tensor),
    "int": lambda value: isinstance(value, numbers.Integral | Tensor),
    "float": lambda value: isinstance(value, numbers.Real | Tensor),
    "bool": lambda value: isinstance(value, bool | Tensor),
    "str": lambda value: isinstance(value, str),
    "ScalarType": lambda value: isinstance(value, dtype),
    "Device": lambda value: isinstance(value, device | str),
}
_CAST: dict[str, Callable[[Value], Value]] = {"int": int, "float": float, "bool": bool, "Device": device}


def _fits(value: Value, kind: str) -> bool:
    if kind.endswith("?"):
        return value is None or _fits(value, kind[:-1])
    if kind.endswith("[]"):
        return isinstance(value, list | tuple) and all(_fits(each, kind[:-2]) for each in value)
    # A class that answers calls for itself stands for anything; so does a type that is not known here.
    return kind not in _TAKEN or _TAKEN[kind](value) or hasattr(value, "__torch_function__")


def _cast(value: Value, kind: str) -> Value:
    kind = kind.removesuffix("?")
    if value is None:
        return None
    if kind.endswith("[]"):
        return [_cast(each, kind[:-2]) for each in value]
    stands = hasattr(value, "__torch_function__") and not isinstance(value, Tensor)
    return _CAST[kind](value) if kind in _CAST and not stands else value


def _told(kind: str) -> str:
    """Return what PyTorch's messages call a type."""
    if kind.endswith("?"):
        return f"Optional[{_told(kind[:-1])}]"
    return (
        f"List[{_told(kind[:-2])}]"
        if kind.endswith("[]")
        else {"ScalarType": "int", "Scalar": "number"}.get(kind, kind)
    )


def _checked(schema: FunctionSchema, place: int, argument: Argument, value: Value) -> Value:
    if _fits(value, argument.type):
        return _cast(value, argument.type)
    raise RuntimeError(
        f"{schema.name}() Expected a value of type '{_told(argument.type)}' for argument '{argument.name}' but instead found type "
        f"'{type(value).__name__}'.\nPosition: {place}\nValue: {value!r}\nDeclaration: {schema}"
    )


def default_of(argument: Argument) -> Value:
    """Return the value of an argument that is left out."""
    value = argument.default_value
    if argument.type == "ScalarType" and isinstance(value, str):
        return getattr(webgpu_torch_core, value)
    return _cast(value, argument.type)


def bind(
    schema: FunctionSchema, args: tuple[Value, ...], kwargs: dict[str, Value]
) -> tuple[list[Value], dict[str, Value]]:
    """Return the values of all arguments: of those that may be given by position, and of the others by name.

    Raises:
        RuntimeError: one is missing, of another type, or unknown.
    """
    positional = [each for each in schema.arguments if not each.kwarg_only]
    if len(args) > len(positional):
        raise RuntimeError(
            f"{schema.name}() expected at most {len(positional)} argument(s) but received {len(args) + len(kwargs)} argument(s). "
            f"Declaration: {schema}"
        )
    rest = dict(kwargs)
    values: list[Value] = []
    named: dict[str, Value] = {}
    for place, argument in enumerate(schema.arguments):
        if place < len(args):
            value = _checked(schema, place, argument, args[place])
        elif argument.name in rest:
            value = _checked(schema, place, argument, rest.pop(argument.name))
        elif argument.optional:
            value = default_of(argument)
        else:
            raise RuntimeError(
                f"{schema.name}() is missing value for argument '{argument.name}'. Declaration: {schema}"
            )
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            values.append(value)
    if rest:
        raise RuntimeError(
            f"Unknown keyword argument '{next(iter(rest))}' for operator '{schema.name}'. Schema: {schema}"
        )
    return values, named
