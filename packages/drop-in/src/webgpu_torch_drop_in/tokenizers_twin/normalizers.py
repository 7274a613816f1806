"""What is done to a text before it is split: ``tokenizers.normalizers``."""

from __future__ import annotations

import re
import unicodedata

from .stages import Replacing, SequenceOf, Stage
from .text import Piece, is_space


class Normalizer(Stage):
    """A change of texts."""

    def changed(self, piece: Piece) -> Piece:
        """Return what becomes of a text."""
        raise NotImplementedError

    def normalize_str(self, sequence: str) -> str:
        """Return what becomes of a text."""
        return self.changed(Piece(sequence)).text


class Sequence(SequenceOf, Normalizer):
    """Several changes."""

    LISTED = "normalizers"

    def changed(self, piece: Piece) -> Piece:
        """Return what becomes of a text."""
        for each in self.parts:
            piece = each.changed(piece)
        return piece


class _Form(Normalizer):
    def changed(self, piece: Piece) -> Piece:
        """Return a normal form of Unicode."""
        return piece.normalized(type(self).__name__)


class NFC(_Form):
    """Composed characters."""


class NFD(_Form):
    """Decomposed characters."""


class NFKC(_Form):
    """Composed characters, and one for those that mean the same."""


class NFKD(_Form):
    """Decomposed characters, and one for those that mean the same."""


class Lowercase(Normalizer):
    """Small letters."""

    def changed(self, piece: Piece) -> Piece:
        """Return the text in small letters."""
        return piece.mapped(str.lower)


class Strip(Normalizer):
    """No white space at the ends."""

    FIELDS = {"left": True, "right": True}
    WRITTEN = {"left": "strip_left", "right": "strip_right"}

    def changed(self, piece: Piece) -> Piece:
        """Return the text without white space at its ends."""
        start, end = 0, len(piece.text)
        while self.left and start < end and is_space(piece.text[start]):  # type: ignore[attr-defined]
            start += 1
        while self.right and end > start and is_space(piece.text[end - 1]):  # type: ignore[attr-defined]
            end -= 1
        return piece.part(start, end)


class StripAccents(Normalizer):
    """No marks that combine with letters."""

    def changed(self, piece: Piece) -> Piece:
        """Return the text without marks."""
        return piece.mapped(lambda each: "" if unicodedata.category(each).startswith("M") else each)


class Prepend(Normalizer):
    """A text in front."""

    FIELDS = {"prepend": "\u2581"}

    def changed(self, piece: Piece) -> Piece:
        """Return the text after another, unless it is empty."""
        return piece.before(self.prepend) if piece.text else piece  # type: ignore[attr-defined]


class Replace(Replacing, Normalizer):
    """A text for each match of a pattern."""

    def changed(self, piece: Piece) -> Piece:
        """Return the text with the matches replaced."""
        return piece.replaced(self._compiled, self.content)


class BertNormalizer(Normalizer):
    """BERT's: no control characters, Chinese characters apart, accents and large letters as is said."""

    FIELDS = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    clean_text: bool
    handle_chinese_chars: bool
    strip_accents: bool | None
    lowercase: bool
    _CHINESE = re.compile(
        "[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b81f\U0002b920-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f]"
    )

    @staticmethod
    def _clean(each: str) -> str:
        if each in "\t\n\r" or is_space(each):
            return " "
        return "" if each in "\0\ufffd" or unicodedata.category(each)[0] == "C" else each

    def changed(self, piece: Piece) -> Piece:
        """Return the text as BERT's tokenizers take it."""
        if self.clean_text:
            piece = piece.mapped(self._clean)
        if self.handle_chinese_chars:
            piece = piece.mapped(lambda each: f" {each} " if self._CHINESE.match(each) else each)
        if self.lowercase if self.strip_accents is None else self.strip_accents:
            piece = piece.normalized("NFD").mapped(lambda each: "" if unicodedata.category(each) == "Mn" else each)
        return piece.mapped(str.lower) if self.lowercase else piece
