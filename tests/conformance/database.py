"""PyTorch's database of operations: which entries are public, and which function of ours answers to each."""

from __future__ import annotations

import contextlib
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import webgpu_torch as ours

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch
    from torch.testing._internal import common_methods_invocations as database
    from torch.testing._internal import common_utils
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.opinfo import core

# For each set of samples PyTorch looks for its own test case among all callers, reading the sources of each: most of the time that
# samples take. None of these tests is one.
common_utils.extract_test_fn = core.extract_test_fn = lambda: None


def name_of(entry: Any) -> str:
    """Return an entry's name, with its variant."""
    return entry.name + (f".{entry.variant_test_name}" if entry.variant_test_name else "")


def is_public(entry: Any) -> bool:
    """Return whether users call the entry by this name: no leading underscore, no dispatcher operation."""
    first = entry.name.removeprefix("torch.").removeprefix("nn.functional.")
    return entry.name.startswith("__") or not (first.startswith("_") or entry.name.startswith(("ops.", "torch.")))


def entries() -> dict[str, Any]:
    """Return the public entries by name."""
    return {name_of(each): each for each in op_db if is_public(each)}


class Missing(Exception):
    """We have no function of this name."""


@contextlib.contextmanager
def unseeded(operation: Any) -> Iterator[None]:
    """Let an operation of the database that seeds PyTorch's stream itself leave it as it is."""
    scope = getattr(operation, "__globals__", {})
    before = scope.get("wrapper_set_seed")
    if before is None:
        yield
        return
    scope["wrapper_set_seed"] = lambda function, *args, **kwargs: function(*args, **kwargs)
    try:
        yield
    finally:
        scope["wrapper_set_seed"] = before


def resolve(path: str) -> Any:
    """Return what is at a dotted name of ours, None where nothing is."""
    found: Any = ours
    for part in path.split("."):
        found = getattr(found, part, None)
        if found is None:
            return None
    return found


def _seeded(operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What the database's ``wrapper_set_seed`` does, on our side."""
    ours.manual_seed(42)
    return operation(*args, **kwargs)


def rebound(function: Any) -> Any:
    """Return a function of PyTorch's test files with ``torch`` standing for us."""
    if not isinstance(function, types.FunctionType) or not function.__module__.startswith("torch.testing"):
        return function
    scope = dict(function.__globals__) | {"torch": ours, "wrapper_set_seed": _seeded, "F": ours.nn.functional}
    closure = function.__closure__
    if closure:
        closure = tuple(types.CellType(_translated_cell(each.cell_contents)) for each in closure)
    copy = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _translated_cell(value: Any) -> Any:
    if isinstance(value, types.FunctionType) and value.__module__.startswith("torch.testing"):
        return rebound(value)
    if callable(value) and getattr(torch, getattr(value, "__name__", ""), None) is value:
        return getattr(ours, value.__name__, value)
    return value


def our_function(entry: Any) -> Callable[..., Any]:
    """Return our function for an entry.

    Raises:
        Missing: there is none.
    """
    operation = entry.op
    if isinstance(operation, types.FunctionType) and operation.__module__.startswith("torch.testing"):
        return rebound(operation)
    if entry.name.startswith("__") or type(operation).__name__ == "method_descriptor":
        found = getattr(ours.Tensor, entry.name, None)
    else:
        found = resolve(entry.name)
    found = found if found is not None else getattr(ours.Tensor, entry.name, None)
    if found is None and isinstance(operation, torch._ops.OpOverload):
        found = resolve(f"ops.aten.{entry.name}")
    if found is None:
        raise Missing(f"no {entry.name}")
    return found


__all__ = [
    "Missing",
    "database",
    "entries",
    "name_of",
    "our_function",
    "ours",
    "rebound",
    "resolve",
    "torch",
    "unseeded",
]
