"""How a word becomes tokens: ``tokenizers.models``."""

from __future__ import annotations

import heapq
import json
from pathlib import Path
from typing import Any, NamedTuple

from .stages import Description, Stage, Value


class Token(NamedTuple):
    """A token of a word.

    Attributes:
        id: its number.
        value: its text.
        offsets: which of the word's characters it is of.
    """

    id: int
    value: str
    offsets: tuple[int, int]


class Model(Stage):
    """A vocabulary, and how words are divided by it."""

    vocab: Any

    def prepared(self) -> None:
        """Number the tokens."""
        self.numbers: dict[str, int] = dict(self.vocab or {})
        self.texts = {number: text for text, number in self.numbers.items()}

    def token_to_id(self, token: str) -> int | None:
        """Return a token's number; None if there is no such token."""
        return self.numbers.get(token)

    def id_to_token(self, id: int) -> str | None:
        """Return a token by its number; None if there is no such number."""
        return self.texts.get(id)

    def tokenize(self, sequence: str) -> list[Token]:
        """Return the tokens of a word.

        Raises:
            ValueError: there is none for a part of it.
        """
        raise NotImplementedError


def _bytes_of(model: Value, text: str) -> list[str] | None:
    """Return the tokens of a text's bytes; None unless the model falls back to them and has them all."""
    found = [f"<0x{byte:02X}>" for byte in text.encode()] if model.byte_fallback else []
    return found if found and all(each in model.numbers for each in found) else None


class BPE(Model):
    """Byte-pair encoding: the pair that was learnt first is joined first."""

    FIELDS = {
        "vocab": None, "merges": None, "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
    }  # fmt: skip
    merges: Any
    dropout: float | None
    unk_token: str | None
    continuing_subword_prefix: str | None
    end_of_word_suffix: str | None
    fuse_unk: bool
    ignore_merges: bool

    @classmethod
    def from_file(cls, vocab: str, merges: str, **options: Value) -> BPE:
        """Return the model of two files."""
        lines = Path(merges).read_text(encoding="utf-8").split("\n")
        pairs = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
        return cls(json.loads(Path(vocab).read_text(encoding="utf-8")), pairs, **options)

    def prepared(self) -> None:
        """Rank the pairs.

        Raises:
            ValueError: merges are left out at random, which needs the compiled package.
        """
        if self.dropout:
            raise ValueError("BPE with dropout is for training; the compiled package tokenizers has it")
        super().prepared()
        self.merges = [tuple(each.split(" ")) if isinstance(each, str) else tuple(each) for each in self.merges or ()]
        prefix = len(self.continuing_subword_prefix or "")
        self._ranks = {pair: (rank, pair[0] + pair[1][prefix:]) for rank, pair in enumerate(self.merges)}
        self._known: dict[str, list[Token]] = {}

    def described(self) -> Description:
        """Return what tokenizer.json holds of it."""
        return super().described() | {"vocab": self.numbers, "merges": [list(each) for each in self.merges]}

    def tokenize(self, sequence: str) -> list[Token]:
        """Return the tokens of a word."""
        known = self._known.get(sequence)
        if known is None:
            known = self._divided(sequence)
            if len(self._known) < 65536:
                self._known[sequence] = known
        return known

    def _divided(self, word: str) -> list[Token]:
        if self.ignore_merges and word in self.numbers:
            return [Token(self.numbers[word], word, (0, len(word)))]
        parts = self._joined(self._characters(word))
        return [Token(self.numbers[text], text, (start, end)) for text, start, end in parts]

    def _characters(self, word: str) -> list[tuple[str, int, int]]:
        """Return a word's characters as tokens, with where they are."""
        parts: list[tuple[str, int, int]] = []
        unknown = False
        for place, each in enumerate(word):
            text = (self.continuing_subword_prefix or "") + each if place else each
            if place == len(word) - 1:
                text += self.end_of_word_suffix or ""
            here = (place, place + 1)
            if text in self.numbers:
                parts.append((text, *here))
                unknown = False
                continue
            bytes_of = _bytes_of(self, text)
            if bytes_of is not None:
                parts += [(one, *here) for one in bytes_of]
                unknown = False
            elif self.unk_token is not None:
                if self.unk_token not in self.numbers:
                    raise ValueError(f"the unknown token {self.unk_token!r} is not in the vocabulary")
                if unknown and self.fuse_unk:
                    parts[-1] = (self.unk_token, parts[-1][1], place + 1)
                else:
                    parts.append((self.unk_token, *here))
                unknown = True
        return parts

    def _joined(self, parts: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
        """Join pairs, the best first, of equal ones the first in the word."""
        after = [*range(1, len(parts)), -1]
        before = [*range(-1, len(parts) - 1)]
        alive: list[tuple[str, int, int] | None] = list(parts)
        waiting: list[tuple[int, int, str, str, str]] = []

        def offer(left: int, right: int) -> None:
            first, second = alive[left], alive[right]
            if left >= 0 and right >= 0 and first is not None and second is not None:
                found = self._ranks.get((first[0], second[0]))
                if found is not None:
                    heapq.heappush(waiting, (found[0], left, found[1], first[0], second[0]))

        for place in range(len(parts) - 1):
            offer(place, place + 1)
        while waiting:
            _, left, whole, first, second = heapq.heappop(waiting)
            one, right = alive[left], after[left]
            two = alive[right] if right >= 0 else None
            if one is None or two is None or (one[0], two[0]) != (first, second):
                continue
            alive[left], alive[right] = (whole, one[1], two[2]), None
            after[left] = after[right]
            if after[left] >= 0:
                before[after[left]] = left
                offer(left, after[left])
            if before[left] >= 0:
                offer(before[left], left)
        return [each for each in alive if each is not None]


class WordPiece(Model):
    """The longest tokens first, from the start of a word."""

    FIELDS = {
        "vocab": None, "unk_token": "[UNK]", "max_input_chars_per_word": 100, "continuing_subword_prefix": "##",
    }  # fmt: skip
    unk_token: str
    max_input_chars_per_word: int
    continuing_subword_prefix: str

    def described(self) -> Description:
        """Return what tokenizer.json holds of it."""
        return super().described() | {"vocab": self.numbers}

    def tokenize(self, sequence: str) -> list[Token]:
        """Return the tokens of a word."""
        found: list[Token] = []
        start = 0
        while start < len(sequence) <= self.max_input_chars_per_word:
            prefix = self.continuing_subword_prefix if start else ""
            ends = range(len(sequence), start, -1)
            end = next((end for end in ends if prefix + sequence[start:end] in self.numbers), None)
            if end is None:
                break
            text = prefix + sequence[start:end]
            found.append(Token(self.numbers[text], text, (start, end)))
            start = end
        return found if start == len(sequence) else [_unknown(self, sequence)]


def _unknown(model: Value, word: str) -> Token:
    if model.unk_token not in model.numbers:
        raise ValueError(f"the unknown token {model.unk_token!r} is not in the vocabulary")
    return Token(model.numbers[model.unk_token], model.unk_token, (0, len(word)))


class WordLevel(Model):
    """Whole words."""

    FIELDS = {"vocab": None, "unk_token": "<unk>"}

    def described(self) -> Description:
        """Return what tokenizer.json holds of it."""
        return super().described() | {"vocab": self.numbers}

    def tokenize(self, sequence: str) -> list[Token]:
        """Return the word as a token."""
        number = self.numbers.get(sequence)
        return [_unknown(self, sequence) if number is None else Token(number, sequence, (0, len(sequence)))]


class Unigram(Model):
    """Each token has a probability; the most probable division is taken.

    T. Kudo, "Subword regularization", 2018; parts that no token has count as ten times less probable, in logarithms, than the least.
    """

    FIELDS = {"vocab": None, "unk_id": None, "byte_fallback": False}
    unk_id: int | None
    byte_fallback: bool
    PENALTY = 10.0

    def prepared(self) -> None:
        """Number the tokens."""
        self.vocab = [(text, float(score)) for text, score in self.vocab or ()]
        self._scores = dict(self.vocab)
        self._longest = max(map(len, self._scores), default=1)
        self._least = min(self._scores.values(), default=0.0) - self.PENALTY
        self.numbers = {text: number for number, (text, _) in enumerate(self.vocab)}
        self.texts = {number: text for number, (text, _) in enumerate(self.vocab)}

    def tokenize(self, sequence: str) -> list[Token]:
        """Return the tokens of a text."""
        best: list[tuple[float, int, bool]] = [(0.0, 0, True)] + [(float("-inf"), 0, True)] * len(sequence)
        for start in range(len(sequence)):
            score = best[start][0]
            for end in range(start + 1, min(len(sequence), start + self._longest) + 1):
                known = self._scores.get(sequence[start:end])
                if known is not None and score + known > best[end][0]:
                    best[end] = (score + known, start, True)
            if sequence[start] not in self._scores and score + self._least > best[start + 1][0]:
                best[start + 1] = (score + self._least, start, False)
        parts: list[tuple[int, int, bool]] = []
        end = len(sequence)
        while end:
            _, start, known = best[end]
            # Neighbours that no token has are one.
            if parts and not known and not parts[-1][2]:
                parts[-1] = (start, parts[-1][1], False)
            else:
                parts.append((start, end, known))
            end = start
        return [token for start, end, _ in reversed(parts) for token in self._tokens(sequence[start:end], start, end)]

    def _tokens(self, text: str, start: int, end: int) -> list[Token]:
        if text in self.numbers:
            return [Token(self.numbers[text], text, (start, end))]
        bytes_of = _bytes_of(self, text)
        if bytes_of is not None:
            return [Token(self.numbers[each], each, (start, end)) for each in bytes_of]
        if self.unk_id is None:
            raise ValueError(f"{text!r} is not in the vocabulary, which has no unknown token")
        return [Token(self.unk_id, text, (start, end))]
