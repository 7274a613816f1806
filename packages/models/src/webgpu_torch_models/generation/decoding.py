"""A model, its cache, and its steps as functions of tensors, which also choose the next token.

A step, of a prompt or of a token of each sequence, is kept by the model under all that it depends on besides its arguments:
what was captured for one text is replayed for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F

from webgpu_torch_models.cache import CacheStep, bucket_of
from webgpu_torch_models.generation.config import GenerationConfig, Sampling
from webgpu_torch_models.generation.kept import step_of
from webgpu_torch_models.generation.rules import Past, RowRules, Rules
from webgpu_torch_models.generation.scores import process_scores

if TYPE_CHECKING:
    from webgpu_torch_models.pretrained import PreTrainedModel

T = TypeVar("T", Tensor, tuple[Tensor, Tensor])
Ruled = Callable[[Tensor], Tensor]
Choose = Callable[..., T]
"""Takes logits, float32 [batch, vocabulary], the function that applies the rules to scores, and more; returns tensors."""


def next_token(sampling: Sampling, generator: torch.Generator | None = None) -> Choose[Tensor]:
    """Return the function that chooses the likeliest token, or draws one: int64 [batch]."""

    def choose(logits: Tensor, ruled: Ruled) -> Tensor:
        logits = ruled(logits)
        if not sampling.do_sample:
            return logits.argmax(dim=-1)
        probabilities = F.softmax(process_scores(logits, sampling), dim=-1)
        return torch.multinomial(probabilities, 1, generator=generator).squeeze(1)

    return choose


class Decoder(Generic[T]):
    """A model and its cache, which take up a prompt and then tokens.

    Args:
        model: has ``new_cache`` and takes ``cache`` in its call.
        config: how tokens are chosen.
        batch_size, capacity: of the cache.
        padding: int64 [batch], padding at the start of each sequence.
        compile: capture the steps with :func:`torch.compile`, once for each length of prompts (of which there are few:
            :func:`.bucket_of`) and window of the cache.
        context: what an encoder made for the decoder.
        choice: a function that returns what is made of each step's logits, and its arguments but for the generator; by
            default :func:`next_token`.
        generator: what is drawn from; None is the device's own.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        config: GenerationConfig,
        batch_size: int,
        capacity: int,
        padding: Tensor | None = None,
        compile: bool = False,
        context: Sequence[Tensor] = (),
        choice: tuple[Callable[..., Choose[T]], *tuple[Hashable, ...]] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        self.model = model
        self.config = config
        model.join_maps()
        self.cache = model.new_cache(batch_size, capacity, padding)
        self.cache.context = context
        self.compile = compile
        self.choice: tuple[Any, ...] = (next_token, config.sampling) if choice is None else choice
        self.generator = generator if config.do_sample else None
        self.vocabulary: int = model.config.vocab_size
        self.rules: Rules | None = None
        """What may come next; known once there is a prompt."""
        self.past = Past(None, None)
        self._history: Tensor | None = None
        self._variant: Any = None

    def prefill(self, input_ids: Tensor, *given: Tensor) -> T:
        """Take up the prompt [batch, tokens]; return what is chosen after it, from the logits and what is given."""
        cache, count = self.cache, input_ids.shape[1]
        cache.take(count)
        # What fills a prompt up comes after it, where no token of it looks; the tokens to come take its place in the cache.
        bucket = bucket_of(count)
        window = cache.reserve(bucket)
        if self.model.starts_anew_with_variant:
            self._history = input_ids
        self._variant = self.model.step_variant(count)
        if self.rules is None:
            self.rules = Rules.of([self.config], [count], self.vocabulary, input_ids.device)
        seen = None if self.rules.penalty is None else self._tokens_in(input_ids)
        history = F.pad(input_ids, (0, window - count)) if self.rules.asks_history else None
        self.past = Past(seen, history)
        last = torch.tensor([count - 1], device=input_ids.device)
        return self._run(True, F.pad(input_ids, (0, bucket - count)), last, None, given)

    def _tokens_in(self, input_ids: Tensor) -> Tensor:
        """Return which tokens of the vocabulary the prompts have: bool [batch, vocabulary]."""
        if self.cache.padding is not None:
            columns = torch.arange(input_ids.shape[1], device=input_ids.device)
            # The last token is never padding.
            input_ids = torch.where(columns >= self.cache.padding.unsqueeze(1), input_ids, input_ids[:, -1:])
        found = torch.zeros((input_ids.shape[0], self.vocabulary), dtype=torch.bool, device=input_ids.device)
        return found.scatter_(1, input_ids, True)

    def note_seen(self, tokens: Tensor) -> None:
        """Note that sequences have tokens, int64 [batch, count], where it matters."""
        if self.past.seen is not None:
            self.past.seen.scatter_(1, tokens, True)

    def advance(self, token: Tensor, *given: Tensor, order: Tensor | None = None) -> T:
        """Take up one token per sequence [batch]; return what is chosen after it.

        Args:
            token: int64 [batch].
            given: goes to what chooses.
            order: int64 [batch], of which sequence each one is the continuation; None where each is its own.
        """
        cache = self.cache
        variant = self.model.step_variant(cache.length + 1)
        if self._history is not None:
            before = self._history if order is None else self._history.index_select(0, order)
            self._history = torch.cat([before, token.unsqueeze(1)], dim=1)
            if variant != self._variant:
                cache.clear()
                return self.prefill(self._history, *given)
        self._variant = variant
        cache.take(1)
        self.past = self.past.extended(cache.reserve(cache.length))
        return self._run(False, token.unsqueeze(1), cache.position, order, given)

    def _run(self, is_prompt: bool, tokens: Tensor, last: Tensor, order: Tensor | None, given: Sequence[Tensor]) -> T:
        """Run the step of a prompt or of a token, which goes on to ``last``; return what is chosen."""
        cache, rules = self.cache, self.rules
        assert rules is not None
        key = is_prompt, self._variant, self.choice, rules.longest
        make, *options = self.choice
        step = step_of(
            self.model,
            key,
            lambda model, generator: _step_of(model, make(*options, generator), cache.length, rules.longest, is_prompt),
            self.generator,
            self.compile,
        )
        state = cache.padding, self.past, tuple(rules[:-1]), tuple(cache.buffers), tuple(cache.context)
        choice, cache.position = step(tokens, last, order, given, *state)
        return choice


def _step_of(
    model: PreTrainedModel, choose: Choose[T], length: int, longest: int, is_prompt: bool
) -> Callable[..., tuple[T, Tensor]]:
    """Return the step that takes up a prompt, filled up at its end, or a token of each sequence.

    The step takes int64 [batch, count], where the last token stands, int64 [1], of which sequence each one is the continuation,
    what the choice is given, and what the decoder keeps; it returns what is chosen, and where the next token stands.
    """

    def step(
        tokens: Tensor, last: Tensor, order: Tensor | None, given: Sequence[Tensor], padding: Tensor | None,
        past: Past, rules: RowRules, buffers: Sequence[Tensor], context: Sequence[Tensor],
    ) -> tuple[T, Tensor]:  # fmt: skip
        if order is not None:
            for each in (*buffers, *past):
                if each is not None:
                    each.copy_(each.index_select(0, order))
        if not is_prompt:
            past.note(tokens, last.unsqueeze(1))
        start = torch.zeros_like(last) if is_prompt else last
        view = CacheStep(buffers, start, tokens.shape[1], length, padding, is_prompt, context)
        # A model with learned positions may have none for what fills a prompt up.
        view.position_ids = torch.minimum(view.position_ids, last)
        logits = model(tokens, cache=view, logits_to_keep=last if is_prompt else 0).logits[:, -1].float()
        ruled = partial(Rules.of_rows(rules, longest).apply, past=past, length=last.unsqueeze(1) + 1)
        return choose(logits, ruled, *given), last + 1

    return step
