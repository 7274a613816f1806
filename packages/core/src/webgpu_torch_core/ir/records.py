"""Immutable values with named fields, which everything that is scheduled and remembered is made of."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar


class Record:
    """An immutable value with named fields, compared and hashed by them (a light dataclass)."""

    __slots__ = ("_hash",)
    fields: tuple[str, ...] = ()
    #: those of the last fields that are None where they are not given
    optional: ClassVar[tuple[str, ...]] = ()
    _hash: int
    _read: ClassVar[Callable[[Record], tuple[Any, ...]]]
    #: what sets the fields: nothing else can
    _writes: ClassVar[tuple[Callable[[Record, Any], None], ...]] = ()

    def __init_subclass__(cls) -> None:
        # Scheduling compares and hashes records all the time: one call reads all fields.
        if len(cls.fields) > 1:
            cls._read = attrgetter(*cls.fields)
        else:
            cls._read = lambda self: tuple(getattr(self, name) for name in cls.fields)
        cls._writes = tuple([getattr(cls, name).__set__ for name in cls.fields])
        if "__init__" not in cls.__dict__ and cls.fields:
            cls.__init__ = _constructor(cls.fields, cls.optional, cls._writes)  # type: ignore[method-assign]

    def __init__(self, *values: Any, **named: Any) -> None:
        if len(values) != len(self.fields):
            values += tuple([named.pop(name) for name in self.fields[len(values) :]])
        if named:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(named)}; it has {', '.join(self.fields)}")
        for write, value in zip(self._writes, values, strict=True):
            write(self, value)
        _write_hash(self, hash(values))

    def values(self) -> tuple[Any, ...]:
        """Return the fields in order."""
        return type(self)._read(self)

    def replace(self, **changes: Any) -> Any:
        """Return a copy with some fields changed."""
        return type(self)(*map(changes.get, self.fields, self.values()))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is type(self) and self._hash == other._hash and self.values() == other.values()
        )

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.fields)
        return f"{type(self).__name__}({inside})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.values()


_write_hash: Callable[[Record, int], None] = Record.__dict__["_hash"].__set__


def _constructor(
    fields: tuple[str, ...], optional: tuple[str, ...], writes: tuple[Callable[[Record, object], None], ...]
) -> Callable[..., None]:
    """Return what :meth:`Record.__init__` does for these fields, without a loop: scheduling makes records all the time."""
    names = ", ".join(fields)
    lines = [f"    write_{number}(self, {name})" for number, name in enumerate(fields)]
    given = ", ".join(f"{name}=None" if name in optional else name for name in fields)
    source = "\n".join((f"def __init__(self, {given}):", *lines, f"    write_hash(self, hash(({names},)))"))
    scope: dict[str, Any] = {f"write_{number}": write for number, write in enumerate(writes)}
    scope |= {"write_hash": _write_hash, "__name__": __name__}
    exec(compile(source, "<record>", "exec"), scope)
    return scope["__init__"]
