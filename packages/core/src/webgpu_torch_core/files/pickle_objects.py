"""Objects of any class in files: by the functions and arguments that make them again, as Python's pickle has it (PEP 307).

``torch.load(path, weights_only=True)`` refuses such files, in PyTorch and here, unless the program added the classes with
``torch.serialization.add_safe_globals``; training arguments and whole modules are written so.
"""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Callable
from functools import partial
from pickle import PicklingError
from typing import Any

#: functions that make tensors of other kinds from their parts, by the names that files have for them
REBUILDERS: dict[str, Callable[..., object]] = {}
#: where PyTorch has what this library's modules hold, the longest names first
HOMES = (
    ("webgpu_torch_core.api.functional", "torch.nn.functional"),
    ("webgpu_torch_core.api", "torch"),
    ("webgpu_torch_nn.functional", "torch.nn.functional"),
    ("webgpu_torch_nn.optim", "torch.optim"),
    ("webgpu_torch_nn", "torch.nn"),
    ("webgpu_torch_core", "torch"),
    ("webgpu_torch_tools.ao", "torch.ao"),
    ("webgpu_torch", "torch"),
)


def write_object(pickler: Any, value: Any) -> None:
    """Write a class, a function, or an object that says how to make it again.

    Raises:
        TypeError: it does not say so, or cannot be found under its name.
    """
    if isinstance(value, type) or type(value).__name__ in ("function", "builtin_function_or_method"):
        _write_name(pickler, value)
        return
    reduced = _reduced(value)
    if isinstance(reduced, str):
        pickler.write_global(home(type(value)), reduced)
        return
    parts: tuple[Any, ...] = (*reduced, None, None, None, None)
    function, arguments, state, items, pairs, setter = parts[:6]
    if setter is not None:
        raise TypeError(f"cannot save a {_title(value)}: it restores its state by a function")
    if getattr(function, "__name__", "") == "__newobj__":
        pickler.save(arguments[0])
        pickler.save(tuple(arguments[1:]))
        pickler.write(b"\x81")
    elif getattr(function, "__name__", "") == "__newobj_ex__":
        kind, given, named = arguments
        pickler.save(partial(kind.__new__, kind, *given, **named))
        pickler.write(b")R")
    else:
        pickler.save(function)
        pickler.save(arguments)
        pickler.write(b"R")
    if pickler.knows(value):
        # An argument led back here and wrote this object already.
        pickler.write(b"0")
        pickler.save(value)
        return
    pickler.remember(value)
    _write_contents(pickler, state, items, pairs)


def _write_contents(pickler: Any, state: Any, items: Any, pairs: Any) -> None:
    if items is not None:
        pickler.write(b"(")
        for each in items:
            pickler.save(each)
        pickler.write(b"e")
    if pairs is not None:
        pickler.write(b"(")
        for key, each in pairs:
            pickler.save(key)
            pickler.save(each)
        pickler.write(b"u")
    if state is not None:
        pickler.save(state)
        pickler.write(b"b")


def _reduced(value: Any) -> Any:
    special = copyreg.dispatch_table.get(type(value))
    if special is not None:
        return special(value)
    try:
        return value.__reduce_ex__(2)
    except (TypeError, AttributeError) as error:
        raise TypeError(f"cannot save a {_title(value)}: {error}") from error


def _title(value: Any) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def home(value: Any) -> str:
    """Return the module that a file looks for a class or function in."""
    module = getattr(value, "__module__", None) or "builtins"
    if module == "builtins":
        return "__builtin__"
    for own, theirs in HOMES:
        if module == own or module.startswith(f"{own}."):
            if theirs in ("torch", "torch.nn.functional") and _is_in_core(value, theirs):
                return theirs
            return theirs + module[len(own) :]
    return module


def _is_in_core(value: Any, home: str) -> bool:
    """Return whether PyTorch has a thing directly under ``torch``, or its networks' functions under ``functional``."""
    return home != "torch" or getattr(sys.modules["webgpu_torch_core"], getattr(value, "__name__", ""), None) is value


def _write_name(pickler: Any, value: Any) -> None:
    if value is type(None):
        # Its name leads nowhere.
        pickler.write_global("__builtin__", "type")
        pickler.save((None,))
        pickler.write(b"R")
        return
    for name, function in REBUILDERS.items():
        if function is value:
            module, _, name = name.rpartition(".")
            pickler.write_global(module, name)
            return
    path = value.__qualname__.split(".")
    found: Any = sys.modules.get(getattr(value, "__module__", None) or "builtins")
    for each in path:
        found = getattr(found, each, None)
    if found is not value and found is not getattr(value, "__wrapped__", value):
        if "<locals>" in path:
            raise AttributeError(f"Can't pickle local object {value.__qualname__!r}")
        raise PicklingError(
            f"Can't pickle {value!r}: attribute lookup {value.__qualname__} on {value.__module__} failed"
        )
    if len(path) == 1:
        pickler.write_global(home(value), path[0])
        return
    owner: Any = sys.modules[value.__module__]
    for each in path[:-1]:
        owner = getattr(owner, each)
    pickler.write_global("__builtin__", "getattr")
    pickler.save((owner, path[-1]))
    pickler.write(b"R")
