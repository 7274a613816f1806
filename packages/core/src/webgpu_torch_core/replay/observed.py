"""What was met on the way to a description, and whether it is still so: asked before every replay, of thousands of variables.

What is compared stands in columns, one for each kind of holder, so that comparing them is a few calls into the interpreter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import chain, repeat
from operator import attrgetter, eq, getitem, is_
from types import CellType
from typing import Protocol

_MISSING = object()
_contents_of = attrgetter("cell_contents")


class _Array(Protocol):
    def tobytes(self) -> bytes: ...


class Observed:
    """Variables and what they held, containers and their elements, how many attributes objects had, and arrays' bytes."""

    def __init__(self) -> None:
        self._mappings: list[Mapping[str, object]] = []
        self._keys: list[str] = []
        self._values: list[object] = []
        self._owners: list[object] = []
        self._names: list[str] = []
        self._attributes: list[object] = []
        self._cells: list[CellType] = []
        self._held: list[object] = []
        self._containers: list[Collection[object]] = []
        self._elements: list[object] = []
        self._dictionaries: list[dict[object, object]] = []
        self._entries: list[object] = []
        self._sized: list[Collection[object]] = []
        self._sizes: list[int] = []
        self._arrays: list[tuple[_Array, bytes]] = []

    def variable(self, scope: Mapping[str, object], name: str, value: object) -> None:
        """Note what a scope, or an object's dictionary, has by a name."""
        self._mappings.append(scope)
        self._keys.append(name)
        self._values.append(value)

    def attribute(self, owner: object, name: str) -> tuple[bool, object]:
        """Note what an object has by a name, if anything; return whether it does, and what."""
        value = getattr(owner, name, _MISSING)
        self._owners.append(owner)
        self._names.append(name)
        self._attributes.append(value)
        return value is not _MISSING, value

    def cell(self, cell: CellType) -> object:
        """Note what a variable of an enclosing function holds, and return it.

        Raises:
            ValueError: it holds nothing (yet).
        """
        self._held.append(cell.cell_contents)
        self._cells.append(cell)
        return self._held[-1]

    def container(self, container: Collection[object]) -> None:
        """Note the elements of a list, tuple or set, or the keys and values of a dictionary."""
        self.size(container)
        self._containers.append(container)
        self._elements += container
        if isinstance(container, dict):
            self._dictionaries.append(container)
            self._entries += dict.values(container)

    def size(self, container: Collection[object]) -> None:
        """Note how many elements a container has."""
        self._sized.append(container)
        self._sizes.append(len(container))

    def array(self, array: _Array) -> bytes:
        """Note the bytes of an array of NumPy's, and return them."""
        self._arrays.append((array, array.tobytes()))
        return self._arrays[-1][1]

    def moved(self) -> bool:
        """Return whether a variable has another value, or a container other contents."""
        try:
            same = (
                all(map(is_, map(getitem, self._mappings, self._keys), self._values))
                and all(map(is_, map(getattr, self._owners, self._names, repeat(_MISSING)), self._attributes))
                and all(map(is_, map(_contents_of, self._cells), self._held))
                and all(map(eq, map(len, self._sized), self._sizes))
                and all(map(is_, chain.from_iterable(self._containers), self._elements))
                and all(map(is_, chain.from_iterable(map(dict.values, self._dictionaries)), self._entries))
            )
        except (KeyError, ValueError, RuntimeError):
            # Gone, empty, or changed by another thread just now.
            return True
        return not same or any(array.tobytes() != held for array, held in self._arrays)
