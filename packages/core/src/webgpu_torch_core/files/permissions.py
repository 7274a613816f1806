"""Functions and classes that a program lets files name: reading a file may then call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .pickle_objects import REBUILDERS, home

# Never to be called from a file, whatever the program says.
BLOCKED_MODULES = ("sys", "os", "posix", "nt")

_added: list[Any] = []


def add_rebuilder(path: str, function: Callable[..., object]) -> None:
    """Let every file name a function by the path that PyTorch has for it: it makes a tensor of parts, and trusts none of them."""
    REBUILDERS[path] = function


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let files name functions and classes: ``torch.load`` then calls the functions, and makes objects of the classes.

    Args:
        safe_globals: functions and classes, or pairs of one and the full name that files have for it.
    """
    for each in safe_globals:
        if not any(_same(each, known) for known in _added):
            _added.append(each)


def get_safe_globals() -> list[Any]:
    """Return what :func:`add_safe_globals` was given."""
    return list(_added)


def clear_safe_globals() -> None:
    """Let files name nothing but tensors and plain containers again."""
    _added.clear()


class safe_globals:
    """A context manager inside of which files may name functions and classes, as after :func:`add_safe_globals`.

    Args:
        safe_globals: functions and classes, or pairs of one and the full name that files have for it.
    """

    def __init__(self, safe_globals: list[Any]) -> None:
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        add_safe_globals(self.safe_globals)

    def __exit__(self, *problem: object) -> None:
        _added[:] = [known for known in _added if not any(_same(known, each) for each in self.safe_globals)]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return one == other
    return one is other


def by_path() -> dict[str, Any]:
    """Return the functions and classes by the names that files have for them: their own, and PyTorch's for this library's.

    Raises:
        ValueError: a tuple is not a pair.
        TypeError: the second of a pair is not a name.
    """
    found: dict[str, Any] = {}
    for each in _added:
        if isinstance(each, tuple):
            pair: tuple[Any, ...] = each
            if len(pair) != 2:
                raise ValueError(
                    "Expected tuple of length 2 (global, str of callable full path), "
                    f"but got tuple of length: {len(pair)}"
                )
            if type(pair[1]) is not str:
                raise TypeError(
                    f"Expected second item in tuple to be str of callable full path, but got: {type(pair[1])}"
                )
            found[pair[1]] = pair[0]
            continue
        for module in (each.__module__, home(each)):
            found[f"{'builtins' if module == '__builtin__' else module}.{each.__qualname__}"] = each
    return found


def is_added(value: object) -> bool:
    """Return whether a value is one of the functions and classes."""
    return any(value is (each[0] if isinstance(each, tuple) else each) for each in _added)


def give_state(target: Any, state: Any) -> None:
    """Give an object of a class that was added its state, as Python's pickle does: by its own method or by attributes."""
    setter = getattr(target, "__setstate__", None)
    if setter is not None:
        setter(state)
        return
    slots: dict[str, Any] | None = None
    if isinstance(state, tuple) and len(state) == 2:  # type: ignore[arg-type]
        state, slots = state
    if state:
        target.__dict__.update(state)
    for name, value in (slots or {}).items():
        setattr(target, name, value)
