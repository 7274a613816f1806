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
        kind = _types[key] = namedtuple(name, tuple(fields))  # pyright: ignore[reportUntypedNamedTuple]
        kind.__module__ = "torch.return_types"
    return kind(**fields)
