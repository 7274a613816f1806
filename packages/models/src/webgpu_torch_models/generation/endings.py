"""Where sequences end: at tokens, and at texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from webgpu_torch_models.generation.config import GenerationConfig

if TYPE_CHECKING:
    from webgpu_torch_models.tokenizer import Tokenizer

#: how many more tokens than bytes of a text are looked at: some tokens have no text
MARGIN = 8


class Endings:
    """Says when a sequence has ended.

    Args:
        config: names the tokens and texts.
        tokenizer: has ``decode``; needed where there are texts.

    Raises:
        ValueError: there are texts and no tokenizer.
    """

    def __init__(self, config: GenerationConfig, tokenizer: Tokenizer | None = None) -> None:
        self.tokens = frozenset(config.end_tokens)
        texts = config.stop_strings
        self.texts = [texts] if isinstance(texts, str) else list(texts or ())
        if self.texts and tokenizer is None:
            raise ValueError(f"stop_strings {self.texts} are found in the text: give the tokenizer, too")
        self.tokenizer = tokenizer if self.texts else None
        self._reach = max((len(each.encode()) for each in self.texts), default=0) + MARGIN

    def __bool__(self) -> bool:
        return bool(self.tokens or self.texts)

    def after(self, tokens: Sequence[int]) -> bool:
        """Return whether a sequence of new tokens ends with the last of them, given that it did not before."""
        if tokens[-1] in self.tokens:
            return True
        if self.tokenizer is None:
            return False
        text = self.tokenizer.decode(list(tokens[-self._reach :]))
        return any(each in text for each in self.texts)


class Progress:
    """The new tokens of a batch as the host sees them.

    Args:
        endings: when a sequence has ended.
        batch: how many sequences there are.
        filler: what follows the end of a sequence.
    """

    def __init__(self, endings: Endings, batch: int, filler: int | None) -> None:
        if batch > 1 and endings and filler is None:
            raise ValueError("stop_strings of several sequences need pad_token_id: it follows those that have ended")
        self.endings, self.filler = endings, filler
        self.rows: list[list[int]] = [[] for _ in range(batch)]
        self.ended = [False] * batch

    def take(self, values: Sequence[int]) -> list[int]:
        """Take up a token of each sequence; return them, with the filler in place of those after an end."""
        for number, value in enumerate(values):
            if not self.ended[number]:
                self.rows[number].append(value)
                self.ended[number] = self.endings.after(self.rows[number])
        total = max(map(len, self.rows))
        return [row[-1] if len(row) == total else self.filler or 0 for row in self.rows]

    @property
    def lengths(self) -> list[int]:
        """How many new tokens each sequence has."""
        return [len(row) for row in self.rows]
