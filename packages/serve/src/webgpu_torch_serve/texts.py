"""An answer's text as it comes: whole characters, and nothing of a stop text."""

from __future__ import annotations

from collections.abc import Sequence

from webgpu_torch_models import Tokenizer


class AnswerText:
    """Turns tokens into text, up to a stop text; holds back what may be a stop text's beginning.

    Args:
        tokenizer: has the tokens' texts.
        stops: the texts that end an answer and are no part of it.
    """

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str]) -> None:
        self.stops, self.is_over = list(stops), False
        self._stream, self._held = tokenizer.stream(), ""

    def put(self, tokens: Sequence[int], is_last: bool) -> str:
        """Add tokens; return the text that has become certain."""
        if self.is_over:
            return ""
        self._held += self._stream.put(tokens) + (self._stream.end() if is_last else "")
        ends = [place for each in self.stops if (place := self._held.find(each)) >= 0]
        if ends:
            self.is_over = True
            return self._held[: min(ends)]
        keep = 0 if is_last else max((self._beginning_of(each) for each in self.stops), default=0)
        given, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return given

    def _beginning_of(self, stop: str) -> int:
        """Return how much of the held text's end is how a stop text begins."""
        longest = min(len(stop) - 1, len(self._held))
        return next((count for count in range(longest, 0, -1) if self._held.endswith(stop[:count])), 0)
