"""The steps of a tokenizer as tokenizer.json describes them: by kind and fields."""

from __future__ import annotations

import copy
import json
import re
from typing import Any, ClassVar, Self, TypeAlias

from .text import Regex, compiled

#: what a field holds: whatever JSON does, patterns, and other steps
Value: TypeAlias = Any
Description: TypeAlias = dict[str, Value]


class Stage:
    """A step with named fields, which are its arguments, its attributes and what is written of it.

    Attributes:
        FIELDS: names and values where none is given.
        WRITTEN: fields that files call by another name.
        family: the kinds that files may name in its place.
    """

    FIELDS: ClassVar[dict[str, Any]] = {}
    WRITTEN: ClassVar[dict[str, str]] = {}
    family: ClassVar[dict[str, type[Stage]]]

    def __init_subclass__(cls, **options: Value) -> None:
        super().__init_subclass__(**options)
        if Stage in cls.__bases__:
            cls.family = {}
        else:
            cls.family[cls.__name__] = cls

    def __init__(self, *values: Value, **named: Value) -> None:
        if len(values) > len(self.FIELDS) or not named.keys() <= self.FIELDS.keys():
            raise TypeError(f"{type(self).__name__} takes {list(self.FIELDS)}, given {values} and {named}")
        given = dict(zip(self.FIELDS, values, strict=False)) | named
        vars(self).update(copy.deepcopy(self.FIELDS) | given)
        self.prepared()

    def prepared(self) -> None:
        """Derive from the fields what is needed."""

    def described(self) -> Description:
        """Return what tokenizer.json holds of it."""
        fields = {self.WRITTEN.get(name, name): _written(getattr(self, name)) for name in self.FIELDS}
        return {"type": type(self).__name__, **fields}

    @classmethod
    def read(cls, described: Description) -> Self:
        """Return the step that a part of tokenizer.json describes.

        Raises:
            ValueError: its kind is not known here.
        """
        kind = described.get("type")
        found: Any = cls.family.get(str(kind))
        if found is None:
            raise ValueError(
                f"{cls.__name__} {kind!r} is none of those in Python: {', '.join(cls.family)}; "
                "the compiled package tokenizers has it"
            )
        return found.of(described)

    @classmethod
    def of(cls, described: Description) -> Self:
        """Return a step of this kind."""
        names = {cls.WRITTEN.get(name, name): name for name in cls.FIELDS}
        return cls(**{names[key]: value for key, value in described.items() if key in names})

    def __getstate__(self) -> bytes:
        return json.dumps(self.described()).encode()

    def __setstate__(self, state: bytes) -> None:
        vars(self).update(vars(self.of(json.loads(state))))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.FIELDS)})"


def _written(value: Value) -> Value:
    if isinstance(value, Stage):
        return value.described()
    if isinstance(value, Regex):
        return {"Regex": value.pattern}
    return [_written(each) for each in value] if isinstance(value, (list, tuple)) else value


class SequenceOf:
    """What is common to the kinds that are several steps, one after the other; ``LISTED``: what files call these."""

    LISTED: ClassVar[str]
    parts: list[Any]

    def __init__(self, parts: Value) -> None:
        self.parts = list(parts)

    def __getitem__(self, index: int) -> Value:
        return self.parts[index]

    def __len__(self) -> int:
        return len(self.parts)

    def described(self) -> Description:
        """Return what tokenizer.json holds of it."""
        return {"type": "Sequence", self.LISTED: [each.described() for each in self.parts]}

    @classmethod
    def of(cls, described: Description) -> Self:
        """Return what a file describes."""
        kind: type[Stage] = next(each for each in cls.__mro__ if Stage in each.__bases__)
        return cls([kind.read(each) for each in described[cls.LISTED]])


class OfSpaces:
    """What is common to the kinds that know a character for spaces."""

    FIELDS: ClassVar[dict[str, Any]] = {"replacement": "\u2581", "prepend_scheme": "always", "split": True}
    replacement: str
    prepend_scheme: str

    @classmethod
    def of(cls, described: Description) -> Self:
        """Return what a file describes; older ones say ``add_prefix_space``."""
        given = dict(described)
        if not given.get("add_prefix_space", True) and "prepend_scheme" not in given:
            given["prepend_scheme"] = "never"
        return super().of(given)  # type: ignore[misc]


def pattern_of(value: Value) -> re.Pattern[str]:
    """Return the pattern that a field is: a text, a :class:`Regex`, or how files write either."""
    if isinstance(value, dict):
        value = Regex(value["Regex"]) if "Regex" in value else value["String"]
    return compiled(value.pattern) if isinstance(value, Regex) else re.compile(re.escape(value))


def pattern_written(value: Value) -> Value:
    """Return how files write a pattern."""
    if isinstance(value, Regex):
        return {"Regex": value.pattern}
    return {"String": value} if isinstance(value, str) else value


class Replacing:
    """What is common to the kinds that put a text in the place of each match of a pattern."""

    FIELDS: ClassVar[dict[str, Any]] = {"pattern": "", "content": ""}
    pattern: Any
    content: str

    def prepared(self) -> None:
        """Compile the pattern."""
        self.pattern, self._compiled = pattern_written(self.pattern), pattern_of(self.pattern)
