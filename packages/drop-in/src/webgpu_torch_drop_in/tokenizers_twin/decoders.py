"""How tokens become a text: ``tokenizers.decoders``."""

from __future__ import annotations

import re
from functools import cache

from .pre_tokenizers import byte_characters
from .stages import OfSpaces, Replacing, SequenceOf, Stage


@cache
def _bytes() -> dict[str, int]:
    return {character: byte for byte, character in enumerate(byte_characters())}


class Decoder(Stage):
    """A step from tokens to a text."""

    def chain(self, tokens: list[str]) -> list[str]:
        """Return the parts of the text that tokens become."""
        raise NotImplementedError

    def decode(self, tokens: list[str]) -> str:
        """Return the text of tokens."""
        return "".join(self.chain(tokens))


class Sequence(SequenceOf, Decoder):
    """Several steps."""

    LISTED = "decoders"

    def chain(self, tokens: list[str]) -> list[str]:
        """Return the parts of the text that tokens become."""
        for each in self.parts:
            tokens = each.chain(tokens)
        return tokens


class ByteLevel(Decoder):
    """Characters that stand for bytes."""

    FIELDS = {"add_prefix_space": True, "trim_offsets": True, "use_regex": True}

    def chain(self, tokens: list[str]) -> list[str]:
        """Return the text of the bytes."""
        table, found = _bytes(), bytearray()
        for token in tokens:
            known = all(each in table for each in token)
            found += bytes(table[each] for each in token) if known else token.encode()
        return [found.decode(errors="replace")]


class ByteFallback(Decoder):
    """Tokens that are bytes."""

    _BYTE = re.compile("<0x([0-9A-Fa-f]{2})>")

    def chain(self, tokens: list[str]) -> list[str]:
        """Return the tokens with characters for their bytes, or a mark for each byte of what is no character."""
        found: list[str] = []
        waiting = bytearray()

        def end() -> None:
            if waiting:
                try:
                    found.append(waiting.decode())
                except UnicodeDecodeError:
                    found.extend("\ufffd" * len(waiting))
                waiting.clear()

        for token in tokens:
            byte = self._BYTE.fullmatch(token)
            if byte:
                waiting.append(int(byte[1], 16))
            else:
                end()
                found.append(token)
        end()
        return found


class Fuse(Decoder):
    """All in one."""

    def chain(self, tokens: list[str]) -> list[str]:
        """Return one part."""
        return ["".join(tokens)]


class Strip(Decoder):
    """Fewer of a character at the ends of every token."""

    FIELDS = {"content": " ", "left": 0, "right": 0}
    WRITTEN = {"left": "start", "right": "stop"}
    content: str
    left: int
    right: int

    def _stripped(self, token: str) -> str:
        start, end = 0, len(token)
        while start < min(self.left, end) and token[start] == self.content:
            start += 1
        while end > max(start, len(token) - self.right) and token[end - 1] == self.content:
            end -= 1
        return token[start:end]

    def chain(self, tokens: list[str]) -> list[str]:
        """Return the tokens without some characters."""
        return [self._stripped(each) for each in tokens]


class Replace(Replacing, Decoder):
    """A text for each match of a pattern."""

    def chain(self, tokens: list[str]) -> list[str]:
        """Return the tokens with the matches replaced."""
        return [self._compiled.sub(lambda _: self.content, each) for each in tokens]


class Metaspace(OfSpaces, Decoder):
    """A character that stands for a space."""

    def chain(self, tokens: list[str]) -> list[str]:
        """Return the tokens with spaces, of which the first has none in front."""
        first = " " if self.prepend_scheme == "never" else ""
        return [each.replace(self.replacement, " " if place else first) for place, each in enumerate(tokens)]


#: how English is written after tokens were joined by spaces
_CLEANED = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"), (" do not", " don't"),
    (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip


class WordPiece(Decoder):
    """Tokens that go on with a word, and others with a space between."""

    FIELDS = {"prefix": "##", "cleanup": True}
    prefix: str
    cleanup: bool

    def chain(self, tokens: list[str]) -> list[str]:
        """Return the parts of the text."""
        found = []
        for place, token in enumerate(tokens):
            text = token
            if place:
                text = token.removeprefix(self.prefix) if token.startswith(self.prefix) else f" {token}"
            if self.cleanup:
                for before, after in _CLEANED:
                    text = text.replace(before, after)
            found.append(text)
        return found


class BPEDecoder(Decoder):
    """Tokens that say where words end."""

    FIELDS = {"suffix": "</w>"}
    suffix: str

    def chain(self, tokens: list[str]) -> list[str]:
        """Return the words with spaces between."""
        last = len(tokens) - 1
        return [each.replace(self.suffix, "" if place == last else " ") for place, each in enumerate(tokens)]
