"""Beam search: several continuations of each sequence are followed at once, and the best whole one is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F

from webgpu_torch_models.generation.config import GenerationConfig, Sampling
from webgpu_torch_models.generation.decoding import Choose, Decoder, Ruled
from webgpu_torch_models.generation.endings import Endings
from webgpu_torch_models.generation.scores import process_scores

if TYPE_CHECKING:
    from webgpu_torch_models.pretrained import PreTrainedModel

#: the score of what must not be chosen
LEAST = -1e9


class Beam(NamedTuple):
    """A continuation: the sum of its tokens' log-probabilities (of a whole one, by its length), the new tokens, and
    which of the beams before it continues.
    """

    score: float
    tokens: list[int]
    parent: int = 0


class Beams:
    """The continuations of one sequence, running and whole.

    Args:
        config: how many there are, and when they end.
        endings: where a continuation is whole.
    """

    def __init__(self, config: GenerationConfig, endings: Endings) -> None:
        self.config, self.endings, self.count = config, endings, config.num_beams
        # At first all are the same: only one of them is to be continued.
        self.running = [Beam(LEAST if number else 0.0, []) for number in range(self.count)]
        self.whole: list[Beam] = []
        self.may_improve = True

    @property
    def is_full(self) -> bool:
        """Whether there are as many whole continuations as running ones."""
        return len(self.whole) == self.count

    def take(self, scores: Sequence[float], places: Sequence[int], vocabulary: int) -> None:
        """Take up the best continuations by one token.

        Args:
            scores: sums of log-probabilities.
            places: of each, its beam times the vocabulary plus the token.
            vocabulary: how many tokens there are.
        """
        config = self.config
        found = []
        for score, place in zip(scores, places, strict=True):
            parent, token = divmod(place, vocabulary)
            found.append(Beam(score, [*self.running[parent].tokens, token], parent))
        length = len(found[0].tokens)
        ended = [length == config.new_tokens or self.endings.after(each.tokens) for each in found]
        scale = length**config.length_penalty
        if self.may_improve and not (self.is_full and config.early_stopping is True):
            first = zip(found[: self.count], ended, strict=False)
            fresh = [Beam(each.score / scale, each.tokens) for each, end in first if end]
            self.whole = sorted([*self.whole, *fresh], key=lambda each: -each.score)[: self.count]
        # Those that have ended run on only for want of others.
        going = [each._replace(score=each.score + LEAST * end) for each, end in zip(found, ended, strict=True)]
        self.running = sorted(going, key=lambda each: -each.score)[: self.count]
        if self.is_full:
            best = config.new_tokens if config.early_stopping == "never" and config.length_penalty > 0 else length
            reachable = self.running[0].score / best**config.length_penalty
            self.may_improve = self.may_improve and reachable > self.whole[-1].score


def continuations(
    sampling: Sampling, beams: int, keep: int, generator: torch.Generator | None = None
) -> Choose[tuple[Tensor, Tensor]]:
    """Return the function that gives the ``keep`` best continuations of each sequence, or draws them.

    It takes logits [batch * beams, vocabulary], what applies the rules, and the beams' scores [batch * beams], and returns sums of log-probabilities
    and places (beam times vocabulary plus token), each [batch, keep].
    """

    def choose(logits: Tensor, ruled: Ruled, scores: Tensor) -> tuple[Tensor, Tensor]:
        logits = ruled(F.log_softmax(logits, dim=-1))
        if sampling.do_sample:
            logits = process_scores(logits, sampling, keep // beams)
        total = (logits + scores.unsqueeze(1)).reshape(-1, beams * logits.shape[-1])
        if not sampling.do_sample:
            found = torch.topk(total, keep)
            return found[0], found[1]
        places = torch.multinomial(F.softmax(total, dim=-1), keep, generator=generator)
        return total.gather(1, places), places

    return choose


def beam_search(
    model: PreTrainedModel, input_ids: Tensor, config: GenerationConfig, endings: Endings, padding: Tensor | None = None,
    compile: bool = False, context: Sequence[Tensor] = (), generator: torch.Generator | None = None,
) -> Tensor:  # fmt: skip
    """Continue each sequence by the best continuation that ``num_beams`` beams find; arguments as a request's.

    Vijayakumar et al., 2016, section 2; what ends it is what :attr:`GenerationConfig.early_stopping` says. The host compares
    the beams of each step and says which of them go on: the cache is reordered where it is.

    Returns:
        int64 [batch, tokens + new tokens], prompts included; shorter continuations are filled with the padding token.
    """
    batch, tokens = input_ids.shape
    beams, count = config.num_beams, config.new_tokens
    keep = max(2, 1 + len(endings.tokens)) * beams
    rows = [Beams(config, endings) for _ in range(batch)]
    repeated = [each.repeat_interleave(beams, 0) for each in context]
    spread = None if padding is None else padding.repeat_interleave(beams, 0)
    choice = continuations, config.sampling, beams, keep
    decoder = Decoder(model, config, batch * beams, tokens + count, spread, compile, repeated, choice, generator)
    device = input_ids.device

    def scores() -> Tensor:
        return torch.tensor([beam.score for row in rows for beam in row.running], device=device)

    found = decoder.prefill(input_ids.repeat_interleave(beams, 0), scores())
    vocabulary = decoder.vocabulary
    for index in range(count):
        # Both copies are under way before the first is waited for.
        sums, places = [wait() for wait in [torch.webgpu.read_later(each) for each in found]]
        for row, each, place in zip(rows, sums, places, strict=True):
            row.take(each, place, vocabulary)
        everything = all(row.is_full for row in rows) and config.early_stopping is True
        if index + 1 == count or everything or not any(row.may_improve for row in rows):
            break
        going = [
            (beam.tokens[-1], number * beams + beam.parent) for number, row in enumerate(rows) for beam in row.running
        ]
        last, order = (torch.tensor(each, dtype=torch.int64, device=device) for each in zip(*going, strict=True))
        found = decoder.advance(last, scores(), order=order)
    best = [row.whole[0].tokens for row in rows]
    longest = max(map(len, best))
    filled = [[*each, *[config.filler or 0] * (longest - len(each))] for each in best]
    return torch.cat([input_ids, torch.tensor(filled, dtype=torch.int64, device=device)], dim=1)
