"""Speculative decoding (Leviathan et al., 2023): a small model proposes tokens, the model scores them in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F

from webgpu_torch_models.cache import CacheStep
from webgpu_torch_models.generation.config import GenerationConfig, Sampling
from webgpu_torch_models.generation.decoding import Choose, Decoder, Ruled
from webgpu_torch_models.generation.kept import step_of
from webgpu_torch_models.generation.rules import Past, RowRules, Rules
from webgpu_torch_models.generation.scores import process_scores

if TYPE_CHECKING:
    from webgpu_torch_models.pretrained import PreTrainedModel


def check_assistant(
    model: PreTrainedModel, assistant: PreTrainedModel, config: GenerationConfig, input_ids: Tensor,
    context: Sequence[Tensor],
) -> None:  # fmt: skip
    """Raise ValueError unless a model can propose tokens to another for a request."""
    if config.num_beams > 1:
        raise ValueError(f"assistant_model proposes no tokens to num_beams={config.num_beams}: use num_beams=1")
    if input_ids.shape[0] != 1:
        raise ValueError(f"assistant_model works on one sequence at a time, got {input_ids.shape[0]}")
    if context:
        raise ValueError("assistant_model proposes no tokens to a model with an encoder")
    sizes = model.config.vocab_size, assistant.config.vocab_size
    if sizes[0] != sizes[1]:
        raise ValueError(f"assistant_model has a vocabulary of {sizes[1]} tokens, the model one of {sizes[0]}")
    if assistant.device != model.device:
        raise ValueError(f"assistant_model is on {assistant.device}, the model on {model.device}")
    for role, each in (("the model", model), ("assistant_model", assistant)):
        if each.starts_anew_with_variant:
            raise ValueError(
                f"{role} computes its cache again where texts get long (LongRoPE): speculation cannot go back"
            )


def proposing(sampling: Sampling, generator: torch.Generator | None) -> Choose[tuple[Tensor, Tensor]]:
    """Return the function that proposes a token, int64 [1], and what it was drawn from: probabilities [1, vocabulary]."""

    def choose(logits: Tensor, ruled: Ruled) -> tuple[Tensor, Tensor]:
        logits = ruled(logits)
        if not sampling.do_sample:
            return logits.argmax(dim=-1), logits
        probabilities = F.softmax(process_scores(logits, sampling), dim=-1)
        return torch.multinomial(probabilities, 1, generator=generator).squeeze(1), probabilities

    return choose


def accept_likeliest(logits: Tensor, proposed: Tensor) -> Tensor:
    """Return the likeliest tokens and how many of the proposed ones are among them from the start: int64 [count + 2].

    Args:
        logits: [count + 1, vocabulary], before each proposed token and after the last.
        proposed: int64 [count].
    """
    likeliest = logits.argmax(dim=-1)
    right = (likeliest[:-1] == proposed).long().cumprod(0).sum()
    return torch.cat([likeliest, right.unsqueeze(0)])


def accept_drawn(
    probabilities: Tensor, proposed: Tensor, drawn_from: Tensor, generator: torch.Generator | None = None
) -> Tensor:
    """Return tokens distributed as the model draws them, and how many of the proposed ones are kept: int64 [count + 2].

    A proposed token x is kept with the probability min(1, p(x) / q(x)); in place of the first that is not, a token is
    drawn with the weights max(0, p - q), and after the last from p (algorithm 1 of the paper).

    Args:
        probabilities: p, [count + 1, vocabulary], before each proposed token and after the last.
        proposed: int64 [count].
        drawn_from: q, [count, vocabulary].
        generator: of the draws.
    """
    places = proposed.unsqueeze(1)
    chances = (probabilities[:-1].gather(1, places) / drawn_from.gather(1, places)).squeeze(1)
    luck = torch.rand(proposed.shape, device=proposed.device, generator=generator)
    kept = (luck < chances).long().cumprod(0).sum().unsqueeze(0)
    p = probabilities.index_select(0, kept)
    q = F.pad(drawn_from, (0, 0, 0, 1)).index_select(0, kept)
    weights = (p - q).clamp(min=0)
    # Rounding may leave nothing of a difference.
    weights = torch.where(weights.sum(dim=-1, keepdim=True) > 0, weights, p)
    fresh = torch.multinomial(weights, 1, generator=generator).squeeze(1)
    # What stands after the fresh token counts for nothing.
    tokens = F.pad(proposed, (0, 1))
    tokens = torch.where(torch.arange(tokens.shape[0], device=tokens.device) == kept, fresh, tokens)
    return torch.cat([tokens, kept])


class Speculation:
    """A model and the one that proposes tokens to it, with a cache each, for one sequence.

    Args:
        model: decides.
        assistant: proposes.
        config: how tokens are chosen, and how many are proposed.
        input_ids: int64 [1, tokens].
        padding: int64 [1], if the sequence starts with padding.
        compile: capture the steps.
        generator: of the draws.
    """

    def __init__(
        self, model: PreTrainedModel, assistant: PreTrainedModel, config: GenerationConfig, input_ids: Tensor,
        padding: Tensor | None, compile: bool, generator: torch.Generator | None,
    ) -> None:  # fmt: skip
        self.model, self.config, self.input_ids = model, config, input_ids
        capacity = input_ids.shape[1] + config.new_tokens
        self.decoder = Decoder(model, config, 1, capacity, padding, compile, generator=generator)
        self.draft = Decoder(
            assistant, config, 1, capacity, padding, compile, choice=(proposing, config.sampling), generator=generator
        )
        self.rounds = self.accepted = 0

    def tokens(self) -> Iterator[int]:
        """Give the new tokens, several at a time as they are known, one by one."""
        history = self.input_ids[0].tolist()
        end = len(history) + self.config.new_tokens
        new = self.decoder.prefill(self.input_ids).tolist()
        self.draft.prefill(self.input_ids)
        while True:
            yield from new
            history += new
            if len(history) == end:
                return
            self.decoder.note_seen(self._tensor([new]))
            new = self._round(history, self._proposals(len(history), end))

    def _proposals(self, length: int, end: int) -> int:
        """Return how many tokens to propose: no more than may follow, and than are scored with the same positions."""
        count = min(self.config.num_assistant_tokens, end - length - 1)
        variant = self.model.step_variant(length)
        while count and self.model.step_variant(length + count) != variant:
            count -= 1
        return count

    def _round(self, history: list[int], count: int) -> list[int]:
        """Propose tokens and return those that follow: the accepted ones, and one more."""
        if count == 0:
            return self.decoder.advance(self._tensor(history[-1:])).tolist()
        found: list[tuple[Tensor, Tensor]] = []
        for token in history[self.draft.cache.length :]:
            found = [self.draft.advance(self._tensor([token]))]
        for _ in range(count - 1):
            found.append(self.draft.advance(found[-1][0]))
        tokens, probabilities = (torch.cat(each) for each in zip(*found, strict=True))
        *chosen, kept = self._score(self._tensor(history[-1:]), tokens, probabilities).tolist()
        # What was not accepted is forgotten by length alone.
        self.decoder.cache.crop(len(history) + kept)
        self.draft.cache.crop(min(self.draft.cache.length, len(history) + kept))
        self.rounds, self.accepted = self.rounds + 1, self.accepted + kept
        return chosen[: kept + 1]

    def _tensor(self, values: Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self.input_ids.device)

    def _score(self, last: Tensor, proposed: Tensor, drawn_from: Tensor) -> Tensor:
        cache, count = self.decoder.cache, len(proposed) + 1
        cache.take(count)
        length, rules = cache.length, self.decoder.rules
        self.decoder.past = self.decoder.past.extended(cache.reserve(length))
        assert rules is not None
        kind = self.model.step_variant(length), rules.longest, self.config.sampling
        step = step_of(
            self.model,
            ("score", *kind),
            lambda model, generator: _scoring(model, length, rules.longest, self.config.sampling, generator),
            self.decoder.generator,
            self.decoder.compile,
        )
        return step(
            torch.cat([last, proposed]),
            drawn_from,
            cache.position,
            cache.padding,
            self.decoder.past,
            tuple(rules[:-1]),
            tuple(cache.buffers),
        )


def _scoring(
    model: PreTrainedModel,
    length: int,
    longest: int,
    sampling: Sampling,
    generator: torch.Generator | None,
) -> Callable[..., Tensor]:
    """Return the step that scores proposed tokens, after which ``length`` tokens are seen."""

    def step(
        tokens: Tensor, drawn_from: Tensor, position: Tensor, padding: Tensor | None, past: Past, rules: RowRules,
        buffers: Sequence[Tensor],
    ) -> Tensor:  # fmt: skip
        view = CacheStep(buffers, position, len(tokens), length, padding)
        logits = model(tokens.unsqueeze(0), cache=view).logits[0].float()
        # What each token comes after, a row for each.
        Past(None, past.history).note(tokens.unsqueeze(0), view.positions.unsqueeze(0))
        before = Past(None if past.seen is None else _seen_before(tokens, past.seen), past.history)
        logits = Rules.of_rows(rules, longest).apply(logits, before, view.positions.unsqueeze(1) + 1)
        if not sampling.do_sample:
            return accept_likeliest(logits, tokens[1:])
        probabilities = F.softmax(process_scores(logits, sampling), dim=-1)
        return accept_drawn(probabilities, tokens[1:], drawn_from, generator)

    return step


def _seen_before(tokens: Tensor, seen: Tensor) -> Tensor:
    """Return what was seen once each of the tokens has been: bool [count, vocabulary], from seen [1, vocabulary]."""
    numbers = torch.arange(tokens.shape[0], device=tokens.device)
    before = torch.where(numbers <= numbers.unsqueeze(1), tokens, tokens[:1])
    return seen.repeat(tokens.shape[0], 1).scatter_(1, before, True)
