"""The schemas of functions with annotations, as ``torch.library.infer_schema`` infers them."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from typing import NoReturn

from webgpu_torch_core import Tensor, device, dtype

_NUMBER = int | float | bool
#: what annotations of single values are called in schemas
_KINDS: dict[object, str] = {
    Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", _NUMBER: "Scalar", dtype: "ScalarType", device: "Device",
}  # fmt: skip
_LISTED = ("Tensor", "SymInt", "float", "bool", "Scalar")
_RETURNED: dict[object, str] = {
    Tensor: "Tensor", typing.List[Tensor]: "Tensor[]", list[Tensor]: "Tensor[]", int: "SymInt", float: "float", bool: "bool",  # noqa: UP006
    _NUMBER: "Scalar",
}  # fmt: skip


def _within_optional(annotation: object) -> object | None:
    """Return what may be None instead; None for other annotations."""
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType) or type(None) not in parts:
        return None
    rest = tuple(each for each in parts if each is not type(None))
    return typing.Union[rest]  # noqa: UP007


def _kind(annotation: object) -> str | None:
    """Return the type that a schema has for an annotation of a parameter; None where it has none."""
    known = _KINDS.get(annotation) if isinstance(annotation, collections.abc.Hashable) else None
    if known is not None:
        return known
    inner = _within_optional(annotation)
    if inner is not None:
        kind = _kind(inner)
        fits = kind is not None and (kind in _KINDS.values() or kind in ("SymInt[]", "float[]", "bool[]"))
        return f"{kind}?" if fits else None
    if typing.get_origin(annotation) not in (list, collections.abc.Sequence):
        return None
    kind = _kind(typing.get_args(annotation)[0])
    return f"{kind}[]" if kind in (*_LISTED, "Tensor?") else None


class _Inference:
    """The parameters of one function, one after the other."""

    def __init__(self, function: Callable[..., object], mutates_args: str | Iterable[str]) -> None:
        self.signature = inspect.signature(function)
        try:
            self.resolved = inspect.signature(function, eval_str=True)
        except NameError as error:
            self.refuse(f"Unsupported type annotation: {error}.")
        self.mutated = mutates_args if isinstance(mutates_args, str) else tuple(mutates_args)
        if isinstance(self.mutated, str) and self.mutated != "unknown":
            raise ValueError(
                "mutates_args must either be a sequence of the names of the arguments that are mutated or the string 'unknown'. "
            )

    def refuse(self, what: str) -> NoReturn:
        """Raise what PyTorch raises of functions that have no schema."""
        raise ValueError(f"infer_schema(func): {what} Got func with signature {self.signature})")

    def parameter(self, place: int, parameter: inspect.Parameter) -> str:
        """Return a parameter as a schema has it."""
        name = parameter.name
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            self.refuse("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.annotation is parameter.empty:
            self.refuse(f"Parameter {name} must have a type annotation.")
        kind = _kind(parameter.annotation)
        if kind is None:
            self.refuse(f"Parameter {name} has unsupported type {self.signature.parameters[name].annotation}.")
        if kind.startswith("Tensor") if self.mutated == "unknown" else name in self.mutated:
            if not kind.startswith("Tensor"):
                self.refuse(
                    f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated"
                )
            kind = f"Tensor(a{place}!){kind.removeprefix('Tensor')}"
        return f"{kind} {name}{self._default(parameter)}"

    def _default(self, parameter: inspect.Parameter) -> str:
        value = parameter.default
        if value is parameter.empty:
            return ""
        if value is None or isinstance(value, int | float):
            return f"={value}"
        if isinstance(value, str | device):
            return f'="{value}"'
        if isinstance(value, dtype):
            return f"={str(value).removeprefix('torch.')}"
        self.refuse(f"Parameter {parameter.name} has an unsupported default value type {type(value)}.")

    def returned(self) -> str:
        """Return what a schema says of the results."""
        annotation = self.resolved.return_annotation
        if annotation is None:
            return "()"
        if annotation is inspect.Signature.empty:
            self.refuse("No return type annotation was provided. Please add one.")
        several = typing.get_origin(annotation) is tuple
        parts = typing.get_args(annotation) if several else (annotation,)
        kinds = [_RETURNED[each] for each in parts if isinstance(each, collections.abc.Hashable) and each in _RETURNED]
        if len(kinds) < len(parts):
            self.refuse(f"Return has unsupported type {annotation}.")
        joined = ", ".join(kinds)
        return joined if not several else f"(({joined}))" if len(kinds) == 1 else f"({joined})"


def infer_schema(
    prototype_function: Callable[..., object], /, *, mutates_args: str | Iterable[str], op_name: str | None = None
) -> str:
    """Return the schema of a function, by its annotations.

    Args:
        prototype_function: the function; each parameter and the result have an annotation.
        mutates_args: names of the parameters that the function writes into, or ``"unknown"``: all tensors.
        op_name: what the schema calls the operation; without it the schema begins with the parameters.

    Raises:
        ValueError: an annotation is missing, or none that operations can have.
    """
    found = _Inference(prototype_function, mutates_args)
    parameters: list[str] = []
    for place, (name, parameter) in enumerate(found.resolved.parameters.items()):
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parameters:
            parameters.append("*")
        parameters.append(found.parameter(place, parameter.replace(name=name)))
    unseen = set() if isinstance(found.mutated, str) else set(found.mutated) - set(found.resolved.parameters)
    if unseen:
        found.refuse(
            f"{unseen} in mutates_args were not found in the custom op's signature. mutates_args should contain the names of "
            "all args that the custom op mutates, or just the string 'unknown' if you don't know."
        )
    return f"{op_name or ''}({', '.join(parameters)}) -> {found.returned()}"
