"""Which tokens may come next: what a sequence has so far, its length and a configuration forbid some, or leave no choice.

Everything is computed on the device from tensors of fixed shapes, so that a captured step obeys rules that depend on what was
chosen before, of which the host need not know yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F

from webgpu_torch_models.generation.config import GenerationConfig
from webgpu_torch_models.generation.scores import apply_repetition_penalty

NEVER = -float("inf")


class Past(NamedTuple):
    """What sequences have so far, as far as rules ask for it; steps write into it.

    Attributes:
        seen: bool [rows, vocabulary], which tokens they have.
        history: int64 [rows, capacity], their tokens, prompts and padding included.
    """

    seen: Tensor | None
    history: Tensor | None

    def extended(self, capacity: int) -> Past:
        """Return the same with room for so many tokens."""
        history = self.history
        if history is None or history.shape[1] >= capacity:
            return self
        return Past(self.seen, F.pad(history, (0, capacity - history.shape[1])))

    def note(self, tokens: Tensor, places: Tensor) -> None:
        """Take up tokens, int64 [rows, count], that stand at places, int64 [rows or 1, count]."""
        if self.seen is not None:
            self.seen.scatter_(1, tokens, True)
        if self.history is not None:
            self.history.scatter_(1, places.expand(tokens.shape), tokens)


def marks(lists: Sequence[Sequence[int]], vocabulary: int, device: torch.device) -> Tensor:
    """Return where the listed tokens are: bool [lists, vocabulary]; a token that is none of the vocabulary is nowhere."""
    filled = [[each for each in row if 0 <= each < vocabulary] for row in lists]
    longest = max(map(len, filled))
    places = torch.tensor([[*row, *[vocabulary] * (longest - len(row))] for row in filled], dtype=torch.int64)
    return marked(places.to(device).reshape(len(filled), longest), vocabulary)


def marked(places: Tensor, vocabulary: int) -> Tensor:
    """Return where places are, bool [rows, vocabulary], given int64 [rows, places] of which ``vocabulary`` is nowhere."""
    found = torch.zeros((places.shape[0], vocabulary + 1), dtype=torch.bool, device=places.device)
    return found.scatter_(1, places, True)[:, :vocabulary]


class Words(NamedTuple):
    """Sequences of tokens that must not come.

    Attributes:
        starts: int64 [words, length], all but their last tokens, the last of them first; -1 where a word is shorter.
        ends: int64 [words], their last tokens.
        owners: bool [rows, words], whose they are.
    """

    starts: Tensor
    ends: Tensor
    owners: Tensor

    @classmethod
    def of(cls, lists: Sequence[Sequence[list[int]]], device: torch.device) -> Words | None:
        """Return the words of each row's list; None where there are none."""
        words = list(dict.fromkeys(tuple(word) for row in lists for word in row))
        if not words:
            return None
        length = max(map(len, words)) - 1
        starts = [[*word[-2::-1], *[-1] * (length - len(word) + 1)] for word in words]
        owners = [[list(word) in row for word in words] for row in lists]
        return cls(
            torch.tensor(starts, dtype=torch.int64, device=device).reshape(len(words), length),
            torch.tensor([word[-1] for word in words], device=device),
            torch.tensor(owners, device=device),
        )


class Times(NamedTuple):
    """What Whisper's tokens for times are bound to; all int64 [rows, 1].

    Attributes:
        first: the token of the time zero, which the one for no times precedes.
        end: of a text.
        latest: the last token that may come first.
        start: how many tokens of prompt there are.
    """

    first: Tensor
    end: Tensor
    latest: Tensor
    start: Tensor


RowRules = tuple[Tensor | Words | Times | None, ...]
"""Fields of :class:`Rules` without the last: arguments of steps."""


class Rules(NamedTuple):
    """What :class:`GenerationConfig` forbids, by row; None is what it does not.

    Attributes:
        penalty: [rows, 1], of repetition.
        repeated: int64 [rows, 1]: so many tokens in a row come once only; 0 is any number.
        words: sequences that must not come.
        ends, least: bool [rows, vocabulary] and int64 [rows, 1]: tokens that end no shorter sequence.
        begun: bool [rows, vocabulary]: of a sequence of one token, what comes next is among these.
        ended, full: bool [rows, vocabulary] and int64 [rows, 1]: what comes next is among these at that length.
        never: bool [rows, vocabulary].
        not_first, start: bool [rows, vocabulary] and int64 [rows, 1]: what does not come at that length.
        times: Whisper's.
        longest: the greatest of ``repeated``.
    """

    penalty: Tensor | None
    repeated: Tensor | None
    words: Words | None
    ends: Tensor | None
    least: Tensor | None
    begun: Tensor | None
    ended: Tensor | None
    full: Tensor | None
    never: Tensor | None
    not_first: Tensor | None
    start: Tensor | None
    times: Times | None
    longest: int

    @classmethod
    def of(
        cls, configs: Sequence[GenerationConfig], prompts: Sequence[int], vocabulary: int, device: torch.device
    ) -> Rules:
        """Return the rules of rows.

        Args:
            configs: of each row.
            prompts: how many tokens each row's prompt has.
            vocabulary: how many tokens there are.
            device: where they are to be.

        Raises:
            ValueError: a token that is to come, or a word that is not, is none of the vocabulary.
        """
        for each in configs:
            each.check_tokens(vocabulary)

        def listed(*lists: Sequence[int] | None) -> Tensor | None:
            return marks([each or [] for each in lists], vocabulary, device) if any(lists) else None

        def column(*values: float) -> Tensor:
            return torch.tensor(values, device=device).unsqueeze(1)

        rows = list(zip(configs, prompts, strict=True))
        least = [prompt + each.min_new_tokens if each.min_new_tokens else each.min_length for each, prompt in rows]
        ends = listed(
            *[each.end_tokens if last > prompt else [] for (each, prompt), last in zip(rows, least, strict=True)]
        )
        ended, not_first = (
            listed(*[each.forced_ends for each in configs]),
            listed(*[each.begin_suppress_tokens for each in configs]),
        )
        # After a token that is forced, the next one is the first.
        starts = [prompt + (prompt == 1 and each.forced_bos_token_id is not None) for each, prompt in rows]
        penalties, longest = (
            [each.repetition_penalty for each in configs],
            [each.no_repeat_ngram_size for each in configs],
        )
        return cls(
            column(*penalties) if set(penalties) != {1.0} else None,
            column(*longest) if any(longest) else None,
            Words.of([each.bad_words for each in configs], device),
            ends, None if ends is None else column(*least),
            listed(*[None if each.forced_bos_token_id is None else [each.forced_bos_token_id] for each in configs]),
            ended, None if ended is None else column(*[prompt + each.new_tokens - 1 for each, prompt in rows]),
            listed(*[each.suppress_tokens for each in configs]),
            not_first, None if not_first is None else column(*starts),
            cls._times(rows, vocabulary, column) if any(each.return_timestamps for each in configs) else None,
            max(longest),
        )  # fmt: skip

    @classmethod
    def of_rows(cls, rows: RowRules, longest: int) -> Rules:
        """Return the rules that a step was given."""
        return cls._make((*rows, longest))

    @staticmethod
    def _times(rows: Sequence[tuple[GenerationConfig, int]], vocabulary: int, column: Callable[..., Tensor]) -> Times:
        found = []
        for each, prompt in rows:
            first, latest = (each.no_timestamps_token_id or 0) + 1, each.max_initial_timestamp_index
            end = each.end_tokens[0] if each.end_tokens else each.bos_token_id or 0
            found.append((first, end, vocabulary if latest is None else first + latest, prompt))
        return Times(*[column(*values) for values in zip(*found, strict=True)])

    @property
    def kind(self) -> tuple[object, ...]:
        """What is equal for rows that are computed alike."""
        words = None if self.words is None else tuple(self.words.starts.shape)
        return (*[each is None for each in self[:-1]], words, self.longest)

    @property
    def asks_history(self) -> bool:
        """Whether they depend on more than which tokens there are."""
        words = self.words is not None and self.words.starts.shape[1] > 0
        return words or self.repeated is not None or self.times is not None

    def apply(self, scores: Tensor, past: Past, length: Tensor) -> Tensor:
        """Return scores with -inf for what may not come next.

        Args:
            scores: [rows, vocabulary].
            past: of the sequences.
            length: int64 [rows or 1, 1], of the sequences.
        """
        if self.penalty is not None:
            scores = apply_repetition_penalty(scores, past.seen, self.penalty)
        if self.repeated is not None and past.history is not None:
            scores = scores.masked_fill(self._repetitions(scores, past.history, length, self.repeated), NEVER)
        if self.words is not None:
            scores = scores.masked_fill(self._ends_of_words(scores, past.history, length, self.words), NEVER)
        if self.ends is not None and self.least is not None:
            scores = scores.masked_fill(self.ends & (length < self.least), NEVER)
        if self.begun is not None:
            scores = _only(scores, self.begun, (length == 1) & self.begun.any(dim=-1, keepdim=True))
        if self.ended is not None and self.full is not None:
            scores = _only(scores, self.ended, (length == self.full) & self.ended.any(dim=-1, keepdim=True))
        if self.never is not None:
            scores = scores.masked_fill(self.never, NEVER)
        if self.not_first is not None and self.start is not None:
            scores = scores.masked_fill(self.not_first & (length == self.start), NEVER)
        if self.times is not None and past.history is not None:
            scores = _timed(scores, past.history, length, self.times)
        return scores

    def _repetitions(self, scores: Tensor, history: Tensor, length: Tensor, repeated: Tensor) -> Tensor:
        """Return which tokens would complete as many tokens in a row as were there before: bool [rows, vocabulary]."""
        rows, capacity = scores.shape[0], history.shape[1]
        history, length = history.expand(rows, -1), length.expand(rows, -1)
        places = torch.arange(capacity, device=history.device)
        found = (repeated > 0) & (places >= repeated - 1) & (places < length)
        for back in range(1, self.longest):
            # Whether what stands so far before a place is what stands so far before the next token.
            before = F.pad(history, (back, 0))[:, :capacity]
            found = found & ((before == _token(history, length - back)) | (repeated <= back))
        return marked(history.masked_fill(~found, scores.shape[1]), scores.shape[1])

    def _ends_of_words(self, scores: Tensor, history: Tensor | None, length: Tensor, words: Words) -> Tensor:
        """Return which tokens would complete a word: bool [rows, vocabulary]."""
        found = words.owners.expand(scores.shape[0], -1)
        if history is not None and words.starts.shape[1]:
            history = history.expand(scores.shape[0], -1)
            for back in range(1, words.starts.shape[1] + 1):
                wanted = words.starts[:, back - 1]
                here = (_token(history, length.expand(scores.shape[0], -1) - back) == wanted) & (length >= back)
                found = found & (here | (wanted < 0))
        places = words.ends.expand(found.shape).masked_fill(~found, scores.shape[1])
        return marked(places, scores.shape[1])


def _token(history: Tensor, places: Tensor) -> Tensor:
    """Return the tokens at places, int64 [rows, 1]; the first where a place is before it."""
    return history.gather(1, places.clamp(min=0))


def _only(scores: Tensor, tokens: Tensor, here: Tensor) -> Tensor:
    """Leave no choice but tokens, bool [rows, vocabulary], in those rows: bool [rows, 1]."""
    return scores.masked_fill(here & ~tokens, NEVER).masked_fill(here & tokens, 0.0)


def _timed(scores: Tensor, history: Tensor, length: Tensor, times: Times) -> Tensor:
    """Keep times in pairs and in order, and prefer one where all together are likelier than any text (Radford et al., 2022)."""
    rows = scores.shape[0]
    history, length = history.expand(rows, -1), length.expand(rows, -1)
    columns, places = (torch.arange(each.shape[1], device=scores.device) for each in (scores, history))
    is_time, first = columns >= times.first, times.first
    last = (_token(history, length - 1) >= first) & (length > times.start)
    before = (_token(history, length - 2) >= first) | (length < times.start + 2)
    new = (places >= times.start) & (places < length) & (history >= first)
    latest = torch.where(new, history, -1).amax(dim=-1, keepdim=True)
    opened = last & ~before
    banned = (columns == first - 1) | (last & before & is_time) | (opened & (columns < times.end))
    banned = banned | (is_time & (columns < torch.where(opened, latest, latest + 1)))
    banned = banned | ((length == times.start) & (~is_time | (columns > times.latest)))
    scores = scores.masked_fill(banned, NEVER)
    together = torch.logsumexp(scores.masked_fill(~is_time, NEVER), dim=-1, keepdim=True)
    return scores.masked_fill(
        (together > scores.masked_fill(is_time, NEVER).amax(dim=-1, keepdim=True)) & ~is_time, NEVER
    )
