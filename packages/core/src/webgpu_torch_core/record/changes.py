"""A counter of changes that no recording sees: of modules' structure and modes, and of what tensors are."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

_numbers = itertools.count(1)


class _Structure:
    """``version`` is another number after every change."""

    version = 0


structure = _Structure()
#: identities of tensors that compiled functions know (some may be gone)
watched: set[int] = set()


def changed() -> None:
    """Note that a module's attribute, mode, parameter, hook or submodule, or an optimiser's state, is another one."""
    # Numbers never come back, whichever thread writes last.
    structure.version = next(_numbers)


def changed_tensor(tensor: Any) -> None:
    """Note that a tensor has other memory, another layout or asks for gradients now."""
    if id(tensor) in watched:
        changed()


def _noticed(kind: type, name: str) -> Callable[..., Any]:
    original = getattr(kind, name)

    def method(self: Any, *given: Any, **named: Any) -> Any:
        try:
            return original(self, *given, **named)
        finally:
            changed()

    method.__name__ = name
    return method


_WRITES = ("__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update")


class Registry(dict[str, Any]):
    """A module's parameters, buffers or submodules: a dictionary whose writes are noticed."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Files and copies hold an ordinary dictionary.
        return dict, (dict(self),)


class Hooks(OrderedDict[int, Any]):
    """Hooks by number: an ordered dictionary whose writes are noticed."""

    def __repr__(self) -> str:
        return repr(OrderedDict(self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return OrderedDict, (list(self.items()),)


for _kind, _base in ((Registry, dict), (Hooks, OrderedDict)):
    for _name in _WRITES:
        setattr(_kind, _name, _noticed(_base, _name))

#: hooks of all modules: part of what every function depends on
hooks_of_all: list[Hooks] = []
