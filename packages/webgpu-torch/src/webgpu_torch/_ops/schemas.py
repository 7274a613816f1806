"""Schemas of PyTorch's operations, as PyTorch prints them: ``add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor``."""

from __future__ import annotations

import ast
import functools
import lzma
import re
from pathlib import Path
from typing import NamedTuple

RECORD = "schemas.xz"
_ALIAS = re.compile(r"\((\w+)(!?)[^)]*\)")
_SIZED = re.compile(r"\[(\d+)\]")


class AliasInfo(NamedTuple):
    """What an argument or result shares memory with.

    Fields:
        before_set: names of the sets of aliases.
        is_write: whether the operation writes into it.
    """

    before_set: frozenset[str]
    is_write: bool


class Argument(NamedTuple):
    """One argument or result of an operation.

    Fields:
        name: its name; empty for most results.
        type: its type, such as ``Tensor``, ``int[]?`` or ``Scalar``.
        default_value: its value in calls that leave it out, and None where there is none.
        optional: whether calls may leave it out.
        kwarg_only: whether it is only given by name.
        alias_info: what it shares memory with, None: nothing.
        N: of how many numbers the list is that one number stands for, None where a number stands for none.
    """

    name: str
    type: str
    default_value: object
    optional: bool
    kwarg_only: bool
    alias_info: AliasInfo | None
    N: int | None

    def has_default_value(self) -> bool:
        """Return whether calls may leave it out."""
        return self.optional

    @property
    def is_write(self) -> bool:
        """Whether the operation writes into it."""
        return self.alias_info is not None and self.alias_info.is_write


class FunctionSchema:
    """What an overload of an operation takes and returns.

    Args:
        text: as PyTorch prints it, without a namespace.
        namespace: whose operation it is.

    Attributes:
        name: the operation's name, such as ``aten::add``.
        overload_name: ``Tensor``; empty for the overload ``default``.
        arguments: what it takes.
        returns: what it returns.
    """

    def __init__(self, text: str, namespace: str = "aten") -> None:
        self._text = f"{namespace}::{text}"
        head, _, rest = text.partition("(")
        taken, _, given = rest.rpartition(") -> ")
        name, _, self.overload_name = head.partition(".")
        self.name = f"{namespace}::{name}"
        self.arguments: list[Argument] = []
        by_name = False
        for each in _split(taken):
            if each == "*":
                by_name = True
            else:
                self.arguments.append(_argument(each, by_name))
        several = given.startswith("(")
        parts = _split(given[1:-1]) if several else [given]
        self.returns = [_argument(each, False) for each in parts]

    @property
    def is_mutable(self) -> bool:
        """Whether the operation writes into an argument."""
        return any(each.is_write for each in self.arguments)

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


def _split(text: str) -> list[str]:
    """Return the parts of a text between commas that stand in no brackets."""
    parts, depth, start = [], 0, 0
    for place, character in enumerate(text):
        depth += (character in "[(") - (character in "])")
        if character == "," and not depth:
            parts.append(text[start:place].strip())
            start = place + 1
    return [*parts, text[start:].strip()] if text.strip() else []


def _argument(text: str, by_name: bool) -> Argument:
    found = _ALIAS.search(text)
    alias = None if found is None else AliasInfo(frozenset((found[1],)), bool(found[2]))
    text = text if found is None else text[: found.start()] + text[found.end() :]
    kind, _, rest = text.partition(" ")
    name, has_default, default = rest.partition("=")
    sized = _SIZED.search(kind)
    kind = _SIZED.sub("[]", kind).replace("SymInt", "int")
    count = None if sized is None else int(sized[1])
    value = _default(default)
    value = [value] * count if count is not None and isinstance(value, int) else value
    return Argument(name, kind, value, bool(has_default), by_name, alias, count)


def _default(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        # A name, such as contiguous_format.
        return text or None


@functools.cache
def _texts() -> dict[str, list[str]]:
    lines = lzma.decompress(Path(__file__).with_name(RECORD).read_bytes()).decode().splitlines()
    found: dict[str, list[str]] = {}
    for line in lines[1:]:
        found.setdefault(line.partition("(")[0].partition(".")[0], []).append(line)
    return found


@functools.cache
def schemas_of(name: str) -> tuple[FunctionSchema, ...]:
    """Return the schemas of an operation of ``torch.ops.aten``, none where PyTorch has none of that name."""
    return tuple(FunctionSchema(each) for each in _texts().get(name, ()))
