"""Texts that know where each of their characters came from, and patterns of Rust in Python's syntax."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache

#: what ``\s`` is in Rust: the white space of Unicode, which Python's separators of files are not
SPACES = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"


def is_space(character: str) -> bool:
    """Return whether a character is white space of Unicode."""
    return character.isspace() and not "\x1c" <= character <= "\x1f"


@cache
def category(name: str) -> str:
    """Return the characters of a general category, ``L`` or ``Lu``, as they stand in brackets."""
    ranges: list[list[int]] = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)).startswith(name):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    if not ranges:
        raise ValueError(f"\\p{{{name}}} is no general category of characters; scripts are not known here")
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


class Regex:
    """A pattern in the syntax of Rust's and Oniguruma's expressions."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Regex) and other.pattern == self.pattern

    def __hash__(self) -> int:
        return hash(self.pattern)


@cache
def word_characters() -> str:
    """Return what ``\\w`` is in Rust, as it stands in brackets: marks and joiners, too, of which words consist."""
    letters = "".join(map(category, ("L", "M", "Nd", "Nl", "Pc")))
    return rf"{letters}\u200c\u200d\u24b6-\u24e9\U0001f130-\U0001f149\U0001f150-\U0001f169\U0001f170-\U0001f189"


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern that Python matches as Rust does.

    Raises:
        ValueError: it has a part that Python cannot express.
    """
    inside = False

    def replaced(found: re.Match[str]) -> str:
        nonlocal inside
        part = found[0]
        if part in "[]":
            inside = part == "["
            return part
        kind = part[1:2]
        if kind in "pP" and kind:
            group, denied = category(part[2:].strip("{}^")), (kind == "P") != ("^" in part)
        elif kind in "sS" and kind:
            group, denied = SPACES, kind == "S"
        elif kind in "wW" and kind:
            group, denied = word_characters(), kind == "W"
        else:
            return part
        if denied and inside:
            raise ValueError(f"{pattern!r}: what a class lacks cannot stand in brackets here")
        return group if inside else f"[{'^' if denied else ''}{group}]"

    text = re.sub(r"\\[pP]\{\^?\w+\}|\\[pP]\w|\\.|[\[\]]", replaced, pattern, flags=re.DOTALL)
    # Python has no flag but i within an expression that is not at its start.
    return re.compile(text)


class Piece:
    """A part of a text, as it has become, with where in the text each character came from.

    Attributes:
        text: the characters.
        origins: for each the first place in the given text, and the one after the last.
        token: the number of the added token that it is.
    """

    def __init__(self, text: str, origins: list[tuple[int, int]] | None = None, token: int | None = None) -> None:
        self.text = text
        self.origins = [(place, place + 1) for place in range(len(text))] if origins is None else origins
        self.token = token

    def part(self, start: int, end: int) -> Piece:
        """Return some of the characters."""
        return Piece(self.text[start:end], self.origins[start:end])

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where in the given text some of the characters came from."""
        if start >= end:
            return (0, 0)
        return self.origins[start][0], self.origins[end - 1][1]

    def mapped(self, change: Callable[[str], str]) -> Piece:
        """Return what becomes of each character by itself."""
        parts = [change(each) for each in self.text]
        origins = [origin for part, origin in zip(parts, self.origins, strict=True) for _ in part]
        return Piece("".join(parts), origins)

    def before(self, added: str) -> Piece:
        """Return it after some more characters."""
        first = self.origins[0] if self.origins else (0, 0)
        return Piece(added + self.text, [first] * len(added) + self.origins)

    def replaced(self, pattern: re.Pattern[str], content: str) -> Piece:
        """Return it with a text in the place of every match."""
        text, origins, last = [], [], 0
        for match in pattern.finditer(self.text):
            text += [self.text[last : match.start()], content]
            origins += self.origins[last : match.start()]
            origins += self.origins[max(match.end() - 1, 0) :][:1] * len(content)
            last = match.end()
        return Piece("".join([*text, self.text[last:]]), origins + self.origins[last:])

    def normalized(self, form: str) -> Piece:
        """Return a normal form of Unicode."""
        if unicodedata.is_normalized(form, self.text):  # type: ignore[arg-type]
            return self

        def normal(text: str) -> str:
            return unicodedata.normalize(form, text)  # type: ignore[arg-type]

        text: list[str] = []
        origins: list[tuple[int, int]] = []
        start = 0
        for end in range(1, len(self.text) + 1):
            whole = self.text[start:end]
            # Characters that change together stay together.
            if end < len(self.text) and (
                unicodedata.combining(self.text[end])
                or normal(whole + self.text[end]) != normal(whole) + normal(self.text[end])
            ):
                continue
            result = normal(whole)
            text.append(result)
            # What is composed comes from where its first character did.
            fewer = max(0, end - start - len(result))
            origins += [
                self.origins[min(start + place + (fewer if place else 0), end - 1)] for place in range(len(result))
            ]
            start = end
        return Piece("".join(text), origins)

    def split(self, pattern: re.Pattern[str], behavior: str = "isolated", invert: bool = False) -> list[Piece]:
        """Return the parts between the matches of a pattern and the matches, as a behaviour says."""
        return [self.part(start, end) for start, end in _joined(list(self._ranges(pattern, invert)), behavior)]

    def _ranges(self, pattern: re.Pattern[str], invert: bool) -> Iterator[tuple[int, int, bool]]:
        last = 0
        for match in pattern.finditer(self.text):
            if match.start() > last:
                yield last, match.start(), invert
            if match.end() > match.start():
                yield *match.span(), not invert
            last = match.end()
        if last < len(self.text):
            yield last, len(self.text), invert


def _joined(ranges: list[tuple[int, int, bool]], behavior: str) -> list[tuple[int, int]]:
    kind = behavior.replace("_", "").lower()
    if kind == "removed":
        return [(start, end) for start, end, matched in ranges if not matched]
    if kind == "isolated":
        return [(start, end) for start, end, _ in ranges]
    backwards = kind == "mergedwithnext"
    found: list[tuple[int, int]] = []
    before: bool | None = None
    for start, end, matched in reversed(ranges) if backwards else ranges:
        joins = matched == before if kind == "contiguous" else matched and not before
        if joins and found:
            first, last = found[-1]
            found[-1] = (start, last) if backwards else (first, end)
        else:
            found.append((start, end))
        before = matched
    return found[::-1] if backwards else found
