"""Names in generated code: of values, each its own, and of the functions and types of PyTorch's API."""

from __future__ import annotations

import builtins
import inspect
import keyword
import operator
import re
import types
from collections.abc import Callable
from typing import TypeAlias

from webgpu_torch._ops import OpOverload, OpOverloadPacket
from webgpu_torch.library import CustomOpDef
from webgpu_torch_core.dispatch.overrides import PATHS

#: how Python writes what the operator module calls by name
REFLECTABLE = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}", "truediv": "{} / {}", "div": "{} / {}",
    "mod": "{} % {}", "pow": "{} ** {}", "lshift": "{} << {}", "rshift": "{} >> {}", "and_": "{} & {}", "or_": "{} | {}",
    "xor": "{} ^ {}", "getitem": "{}[{}]", "matmul": "{} @ {}",
}  # fmt: skip
OPERATORS = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}", "ge": "{} >= {}", "pos": "+{}",
    "neg": "-{}", "invert": "~{}", **REFLECTABLE,
}  # fmt: skip
IN_PLACE = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}", "imod": "{} %= {}",
    "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}", "ipow": "{} **= {}", "irshift": "{} >>= {}",
    "isub": "{} -= {}", "itruediv": "{} /= {}", "ixor": "{} ^= {}", "setitem": "{}[{}] = {}",
}  # fmt: skip
_TAKEN: dict[str, object] = {**vars(builtins), **{each: object() for each in keyword.kwlist}}
_OURS = ("webgpu_torch", "webgpu_torch_core", "webgpu_torch_nn")
#: places in which PyTorch's API has its functions and classes
_PLACES = (
    "torch",
    "torch.nn.functional",
    "torch.nn",
    "torch.linalg",
    "torch.special",
    "torch.fft",
    "torch.fx._symbolic_trace",
)

Function: TypeAlias = Callable[..., object]


def snake_case(text: str) -> str:
    """Return a name in small letters, words of mixed case set apart by underscores."""
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", text).lower()


class Namespace:
    """Names that are given once: each object has one, and none hides one of Python's own."""

    def __init__(self) -> None:
        self._names: dict[object, str] = {}
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}

    def create_name(self, candidate: str, obj: object | None) -> str:
        """Return the name of an object, which is made like a candidate: ``x``, ``x_1``, ``x_2``, …."""
        if obj is not None and obj in self._names:
            return self._names[obj]
        candidate = re.sub("[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        found = re.match(r"(.*?)(?:_(\d+))?$", candidate)
        assert found is not None
        base, number = found.groups()
        if not base:
            base, number = candidate, None
        count = int(number) if number is not None and candidate not in self._used else self._counts.get(base, 0)
        if (number is None or candidate in self._used) and _TAKEN.get(candidate, obj) is not obj:
            count += 1
            candidate = f"{base}_{count}"
        while candidate in self._used:
            count += 1
            candidate = f"{base}_{count}"
        self._used.add(candidate)
        self._counts[base] = count
        if obj is not None:
            self._names[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: object) -> None:
        """Keep a name, made before, as an object's."""
        self._names[obj] = name

    def rename(self, obj: object, name: str) -> None:
        """Give an object another name."""
        self._names[obj] = name
        self._used.add(name)


def torch() -> types.ModuleType:
    """Return the module that generated code calls ``torch``."""
    import webgpu_torch

    return webgpu_torch


def torch_path(value: object) -> str | None:
    """Return where PyTorch's API has a function or class, ``torch.nn.functional.relu`` for instance; None if it has not."""
    if isinstance(value, types.FunctionType) and value in PATHS:
        return PATHS[value]
    if isinstance(value, OpOverload | OpOverloadPacket):
        return f"torch.ops.{value}"
    if isinstance(value, CustomOpDef):
        return f"torch.ops.{value.name.replace('::', '.')}"
    name, module = getattr(value, "__name__", None), getattr(value, "__module__", None)
    if not isinstance(name, str) or not isinstance(module, str):
        return None
    if module.partition(".")[0] not in (*_OURS, "torch", "webgpu_torch_tools"):
        return None
    for place in _PLACES:
        owner: object = torch()
        for part in place.split(".")[1:]:
            owner = getattr(owner, part, None)
        if vars(owner).get(name) is value if isinstance(owner, types.ModuleType) else False:
            return f"{place}.{name}"
    return None


def qualified_name(function: Function) -> str:
    """Return how code outside of its module calls a function.

    Raises:
        RuntimeError: it is a lambda whose source is not found.
    """
    name = getattr(function, "__name__", type(function).__name__)
    if getattr(builtins, name, None) is function:
        return name
    path = torch_path(function)
    if path is not None:
        return path
    if name == "<lambda>":
        try:
            name = inspect.getsource(function).partition("=")[0].strip()
        except (OSError, TypeError) as error:
            raise RuntimeError("a lambda whose source is not found has no name: define a function") from error
    return f"{function.__module__}.{name}"


def printed_target(target: str | Function) -> str:
    """Return how texts of graphs name what a node calls."""
    if isinstance(target, str):
        return target
    name, module = getattr(target, "__name__", None), getattr(target, "__module__", None)
    if name is not None and module in ("builtins", "_operator"):
        return f"{module.strip('_')}.{name}"
    return qualified_name(target)


def type_name(kind: object) -> str:
    """Return how code names a type."""
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        path = torch_path(kind)
        if path is not None:
            return path
        return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if kind is ...:
        return "..."
    return kind.__name__ if isinstance(kind, types.FunctionType) else repr(kind)


def attribute(base: str, path: str) -> str:
    """Return code for an attribute of an attribute, each of which may have a name that is no identifier."""
    for part in path.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


def is_operator(target: object, known: dict[str, str]) -> bool:
    """Return whether a node calls one of the operators that code writes with signs."""
    return getattr(target, "__module__", "") == operator.add.__module__ and getattr(target, "__name__", "") in known
