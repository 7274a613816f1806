"""What comes of a text: ``tokenizers.Encoding``."""

from __future__ import annotations

from dataclasses import dataclass, field

Ids = list[int]
Maybe = list[int | None]


@dataclass
class Encoding:
    """Tokens with what is known of each.

    Attributes:
        ids, type_ids, tokens: numbers, the segments they are of, and texts.
        offsets: where in its text each starts and ends.
        special_tokens_mask, attention_mask: 1 at tokens that no text has, 0 at padding.
        word_ids, sequence_ids: which word and which text each is of, None where of none.
        overflowing: the windows that are left of a text that was too long.
    """

    ids: Ids = field(default_factory=list)
    type_ids: Ids = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    offsets: list[tuple[int, int]] = field(default_factory=list)
    special_tokens_mask: Ids = field(default_factory=list)
    attention_mask: Ids = field(default_factory=list)
    word_ids: Maybe = field(default_factory=list)
    sequence_ids: Maybe = field(default_factory=list)
    overflowing: list[Encoding] = field(default_factory=list)

    _COLUMNS = (
        "ids", "type_ids", "tokens", "offsets", "special_tokens_mask", "attention_mask", "word_ids", "sequence_ids",
    )  # fmt: skip

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def words(self) -> Maybe:
        """The older name of ``word_ids``."""
        return self.word_ids

    @property
    def n_sequences(self) -> int:
        """How many texts there are."""
        return len({each for each in self.sequence_ids if each is not None}) or 1

    def add(
        self, number: int, text: str, offsets: tuple[int, int] = (0, 0), word: int | None = None, sequence: int | None = None,
        type_id: int = 0, special: int = 0, attention: int = 1,
    ) -> None:  # fmt: skip
        """Add a token."""
        row = (number, type_id, text, offsets, special, attention, word, sequence)
        for name, value in zip(self._COLUMNS, row, strict=True):
            getattr(self, name).append(value)

    def extend(self, other: Encoding) -> None:
        """Add the tokens of another."""
        for name in self._COLUMNS:
            getattr(self, name).extend(getattr(other, name))

    def part(self, start: int, end: int) -> Encoding:
        """Return some of the tokens."""
        return Encoding(**{name: getattr(self, name)[start:end] for name in self._COLUMNS})

    def given(self, sequence: int, type_id: int) -> Encoding:
        """Return the same tokens as those of a text and a segment."""
        found = self.part(0, len(self))
        found.sequence_ids, found.type_ids = [sequence] * len(self), [type_id] * len(self)
        return found

    def truncated(self, length: int, stride: int = 0, direction: str = "right") -> Encoding:
        """Return the first window of so many tokens, the others in ``overflowing``.

        Raises:
            ValueError: windows would have nothing but what they have in common.
        """
        count = len(self)
        if count <= length:
            return self
        if length == 0:
            return Encoding(overflowing=[self])
        if stride >= length:
            raise ValueError(f"windows of {length} tokens cannot have {stride} in common")
        step, ranges = length - stride, []
        if direction == "right":
            for start in range(0, count, step):
                ranges.append((start, min(start + length, count)))
                if ranges[-1][1] == count:
                    break
        else:
            for end in range(count, 0, -step):
                ranges.append((max(0, end - length), end))
                if ranges[-1][0] == 0:
                    break
        first, *others = (self.part(*each) for each in ranges)
        first.overflowing = others
        return first

    def padded(self, length: int, direction: str, number: int, type_id: int, text: str) -> None:
        """Add padding up to so many tokens, to the windows that are left, too."""
        for each in self.overflowing:
            each.padded(length, direction, number, type_id, text)
        filler = Encoding()
        for _ in range(length - len(self)):
            filler.add(number, text, type_id=type_id, special=1, attention=0)
        for name in self._COLUMNS:
            own, more = getattr(self, name), getattr(filler, name)
            setattr(self, name, own + more if direction == "right" else more + own)

    def token_to_sequence(self, token_index: int) -> int | None:
        """Return which text a token is of."""
        return self.sequence_ids[token_index]

    def token_to_chars(self, token_index: int) -> tuple[int, int] | None:
        """Return where in its text a token is."""
        return None if self.sequence_ids[token_index] is None else self.offsets[token_index]

    def token_to_word(self, token_index: int) -> int | None:
        """Return which word a token is of."""
        return self.word_ids[token_index]

    def word_to_tokens(self, word_index: int, sequence_index: int = 0) -> tuple[int, int] | None:
        """Return the first token of a word and the one after its last."""
        pairs = zip(self.word_ids, self.sequence_ids, strict=True)
        found = [place for place, each in enumerate(pairs) if each == (word_index, sequence_index)]
        return (found[0], found[-1] + 1) if found else None

    def word_to_chars(self, word_index: int, sequence_index: int = 0) -> tuple[int, int] | None:
        """Return where in its text a word is."""
        found = self.word_to_tokens(word_index, sequence_index)
        return None if found is None else (self.offsets[found[0]][0], self.offsets[found[1] - 1][1])

    def char_to_token(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """Return the token of a character."""
        for place, (start, end) in enumerate(self.offsets):
            if self.sequence_ids[place] == sequence_index and start <= char_pos < end:
                return place
        return None

    def char_to_word(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """Return the word of a character."""
        found = self.char_to_token(char_pos, sequence_index)
        return None if found is None else self.word_ids[found]
