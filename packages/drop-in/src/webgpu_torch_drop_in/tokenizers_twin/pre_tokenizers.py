"""How a text is split before the model sees it: ``tokenizers.pre_tokenizers``."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from .stages import OfSpaces, SequenceOf, Stage, pattern_of, pattern_written
from .text import Piece, category, compiled

WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


@cache
def byte_characters() -> tuple[str, ...]:
    """Return the characters that stand for bytes: printable ones for themselves, others from 256 on, as in GPT-2."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return tuple(chr(byte if byte in printable else next(others)) for byte in range(256))


class PreTokenizer(Stage):
    """A way to split texts."""

    def pieces(self, piece: Piece) -> list[Piece]:
        """Return the parts of a text."""
        raise NotImplementedError

    def pre_tokenize_str(self, sequence: str) -> list[tuple[str, tuple[int, int]]]:
        """Return the parts of a text with where they are."""
        found = [each for each in self.pieces(Piece(sequence)) if each.text]
        return [(each.text, each.span(0, len(each.text))) for each in found]


class Sequence(SequenceOf, PreTokenizer):
    """Several ways, one after the other."""

    LISTED = "pretokenizers"

    def pieces(self, piece: Piece) -> list[Piece]:
        """Return the parts of a text."""
        found = [piece]
        for each in self.parts:
            found = [part for whole in found for part in each.pieces(whole) if part.text]
        return found


class ByteLevel(PreTokenizer):
    """Words as GPT-2 splits them, in bytes, each as a character."""

    FIELDS = {"add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    add_prefix_space: bool
    use_regex: bool

    @staticmethod
    def alphabet() -> list[str]:
        """Return the characters that stand for bytes."""
        return list(byte_characters())

    def pieces(self, piece: Piece) -> list[Piece]:
        """Return the words of a text as characters that stand for bytes."""
        if self.add_prefix_space and not piece.text.startswith(" "):
            piece = piece.before(" ")
        table = byte_characters()
        words = piece.split(compiled(WORDS)) if self.use_regex else [piece]
        return [each.mapped(lambda one: "".join(table[byte] for byte in one.encode())) for each in words]


class Split(PreTokenizer):
    """By a pattern."""

    FIELDS = {"pattern": "", "behavior": "Isolated", "invert": False}
    pattern: Any
    behavior: str
    invert: bool

    def prepared(self) -> None:
        """Compile the pattern."""
        self.pattern, self._compiled = pattern_written(self.pattern), pattern_of(self.pattern)
        self.behavior = "".join(word[:1].upper() + word[1:] for word in self.behavior.split("_"))

    def pieces(self, piece: Piece) -> list[Piece]:
        """Return the parts of a text."""
        return piece.split(self._compiled, self.behavior, self.invert)


class Digits(PreTokenizer):
    """Digits apart."""

    FIELDS = {"individual_digits": False}

    def pieces(self, piece: Piece) -> list[Piece]:
        """Return the numbers of a text and what is between them."""
        return piece.split(compiled(r"\p{N}" if self.individual_digits else r"\p{N}+"))  # type: ignore[attr-defined]


class Whitespace(PreTokenizer):
    """Words, and runs of what is neither a word nor white space."""

    def pieces(self, piece: Piece) -> list[Piece]:
        """Return the words of a text."""
        return piece.split(compiled(r"\w+|[^\w\s]+"), "removed", invert=True)


class WhitespaceSplit(PreTokenizer):
    """What is between white space."""

    def pieces(self, piece: Piece) -> list[Piece]:
        """Return the parts of a text."""
        return piece.split(compiled(r"\s"), "removed")


class CharDelimiterSplit(PreTokenizer):
    """What is between a character."""

    FIELDS = {"delimiter": " "}

    def pieces(self, piece: Piece) -> list[Piece]:
        """Return the parts of a text."""
        return piece.split(pattern_of(self.delimiter), "removed")  # type: ignore[attr-defined]


@cache
def _punctuation() -> re.Pattern[str]:
    return re.compile(rf"[!-/:-@\[-`{{-~{category('P')}]")


class Punctuation(PreTokenizer):
    """Punctuation apart."""

    FIELDS = {"behavior": "Isolated"}

    def prepared(self) -> None:
        """Write the behaviour as files do."""
        self.behavior = "".join(word[:1].upper() + word[1:] for word in self.behavior.split("_"))

    def pieces(self, piece: Piece) -> list[Piece]:
        """Return the parts of a text."""
        return piece.split(_punctuation(), self.behavior)


class BertPreTokenizer(PreTokenizer):
    """Words between white space, punctuation apart."""

    def pieces(self, piece: Piece) -> list[Piece]:
        """Return the words of a text."""
        words = piece.split(compiled(r"\s"), "removed")
        return [part for each in words for part in each.split(_punctuation())]


class Metaspace(OfSpaces, PreTokenizer):
    """Words that begin with a character that stands for a space."""

    def pieces(self, piece: Piece) -> list[Piece]:
        """Return the words of a text."""
        piece = piece.mapped(lambda each: self.replacement if each == " " else each)
        first = bool(piece.origins) and piece.origins[0][0] == 0
        if (
            self.prepend_scheme == "always" or (self.prepend_scheme == "first" and first)
        ) and not piece.text.startswith(self.replacement):
            piece = piece.before(self.replacement)
        return piece.split(pattern_of(self.replacement), "merged_with_next") if self.split else [piece]  # type: ignore[attr-defined]
