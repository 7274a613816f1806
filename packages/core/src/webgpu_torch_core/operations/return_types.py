"""Named tuples that operations with several results return, as ``torch.return_types``."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

_types: dict[tuple[str, tuple[str, ...]], Any] = {}


def make(name: str, **fields: Any) -> Any:
    """Return a named tuple of type ``torch.return_types.<name>``."""
    key = (name, tuple(fields))
    kind = _types.get(key)
    if kind is None:
        kind = _types[key] = _kind(name, tuple(fields))
    return kind._make(fields.values())


def _kind(name: str, fields: tuple[str, ...]) -> Any:
    base: Any = namedtuple(name, fields)  # pyright: ignore[reportUntypedNamedTuple]

    def new(kind: type, *values: object, **named: object) -> object:
        # As PyTorch's, which are made of one sequence: programs that map over results call their types so.
        together = len(values) == 1 < len(fields) and not named
        return base.__new__(kind, *(values[0] if together else values), **named)  # type: ignore[misc]

    def show(self: Any) -> str:
        parts = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self, strict=True))
        return f"torch.return_types.{name}(\n{parts})"

    def reduce(self: Any) -> Any:
        return _restored, (name, fields, tuple(self))

    members = {"__slots__": (), "__new__": new, "__repr__": show, "__reduce__": reduce, "__module__": "torch.return_types"}
    return type(name, (base,), members)


def _restored(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return make(name, **dict(zip(fields, values, strict=True)))
