"""A model, its cache, and one decoding step as a function of tensors, which also chooses the next token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F

from webgpu_torch_models.cache import CacheStep, capacity_of
from webgpu_torch_models.generation.config import GenerationConfig
from webgpu_torch_models.generation.rules import Past, Rules
from webgpu_torch_models.generation.scores import process_scores

if TYPE_CHECKING:
    from webgpu_torch_models.pretrained import PreTrainedModel

T = TypeVar("T", Tensor, tuple[Tensor, Tensor])
Ruled = Callable[[Tensor], Tensor]
Choose = Callable[..., T]
"""Takes logits, float32 [batch, vocabulary], the function that applies the rules to scores, and more; returns tensors."""


def next_token(config: GenerationConfig, generator: torch.Generator | None = None) -> Callable[..., Tensor]:
    """Return the function that chooses the likeliest token, or draws one: int64 [batch]."""

    def choose(logits: Tensor, ruled: Ruled) -> Tensor:
        logits = ruled(logits)
        if not config.do_sample:
            return logits.argmax(dim=-1)
        probabilities = F.softmax(process_scores(logits, config), dim=-1)
        return torch.multinomial(probabilities, 1, generator=generator).squeeze(1)

    return choose


class Decoder(Generic[T]):
    """A model, its cache, and one decoding step as a function of tensors.

    Args:
        model: has ``new_cache`` and takes ``cache`` in its call.
        config: how tokens are chosen.
        batch_size, capacity: of the cache, which may have room for more tokens.
        padding: int64 [batch], padding at the start of each sequence.
        compile: capture the decoding step with :func:`torch.compile`, once for each window of the cache.
        context: what an encoder made for the decoder.
        choose: what is made of each step's logits; by default :func:`next_token`.
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
        choose: Choose[T] | None = None,
    ) -> None:
        self.model = model
        self.config = config
        model.join_maps()
        self.cache = model.new_cache(batch_size, capacity_of(capacity), padding)
        self.cache.context = context
        self.compile = compile
        self.choose: Choose[T] = next_token(config) if choose is None else choose  # type: ignore[assignment]
        self.vocabulary = 0
        self.rules: Rules | None = None
        """What may come next; known once there is a prompt."""
        self.past = Past(None, None)
        self._history: Tensor | None = None
        self._variant: Any = None
        self._steps: dict[tuple[int, Any], Callable[..., tuple[T, Tensor]]] = {}

    def prefill(self, input_ids: Tensor, *given: Tensor) -> T:
        """Take up the prompt [batch, tokens]; return what is chosen after it, from the logits and what is given."""
        if self.model.starts_anew_with_variant:
            self._history = input_ids
        self._variant = self.model.step_variant(input_ids.shape[1])
        logits = self.model(input_ids, cache=self.cache, logits_to_keep=1).logits[:, -1].float()
        self.vocabulary = logits.shape[-1]
        if self.rules is None:
            self.rules = Rules.of([self.config], [input_ids.shape[1]], self.vocabulary, input_ids.device)
        seen = None if self.rules.penalty is None else self._tokens_in(input_ids, logits)
        history = F.pad(input_ids, (0, self.cache.capacity - input_ids.shape[1])) if self.rules.asks_history else None
        self.past = Past(seen, history)
        length = torch.tensor([[input_ids.shape[1]]], device=input_ids.device)
        return self.choose(logits, partial(self.rules.apply, past=self.past, length=length), *given)

    def _tokens_in(self, input_ids: Tensor, logits: Tensor) -> Tensor:
        """Return which tokens of the vocabulary the prompts have: bool, in the logits' shape."""
        if self.cache.padding is not None:
            columns = torch.arange(input_ids.shape[1], device=input_ids.device)
            # The last token is never padding.
            input_ids = torch.where(columns >= self.cache.padding.unsqueeze(1), input_ids, input_ids[:, -1:])
        return torch.zeros_like(logits, dtype=torch.bool).scatter_(1, input_ids, True)

    def note_seen(self, tokens: Tensor) -> None:
        """Note that sequences have tokens, int64 [batch, count], where it matters."""
        if self.past.seen is not None:
            self.past.seen.scatter_(1, tokens, True)

    def advance(self, token: Tensor, *given: Tensor, order: Tensor | None = None) -> T:
        """Take up one token per sequence [batch]; return what is chosen after it.

        Args:
            token: int64 [batch].
            given: goes to ``choose``.
            order: int64 [batch], of which sequence each one is the continuation; None where each is its own.
        """
        cache = self.cache
        cache.check_room(1)
        variant = self.model.step_variant(cache.length + 1)
        if self._history is not None:
            before = self._history if order is None else self._history.index_select(0, order)
            self._history = torch.cat([before, token.unsqueeze(1)], dim=1)
            if variant != self._variant:
                cache.clear()
                return self.prefill(self._history, *given)
        cache.length += 1
        kind = cache.window(cache.length), variant
        step = self._steps.get(kind)
        if step is None:
            step = self._step_for(kind[0], cache.length)
            self._steps = {kind: torch.compile(step) if self.compile else step}
            step = self._steps[kind]
        state = cache.padding, self.past, tuple(cache.buffers), tuple(cache.context)
        choice, cache.position = step(token, cache.position, order, given, *state)
        return choice

    def _step_for(self, window: int, length: int) -> Callable[..., tuple[T, Tensor]]:
        model, choose, rules = self.model, self.choose, self.rules
        assert rules is not None

        def step(
            token: Tensor, position: Tensor, order: Tensor | None, given: Sequence[Tensor], padding: Tensor | None,
            past: Past, buffers: Sequence[Tensor], context: Sequence[Tensor],
        ) -> tuple[T, Tensor]:  # fmt: skip
            if order is not None:
                for each in (*buffers, *past):
                    if each is not None:
                        each.copy_(each.index_select(0, order))
            past.note(token.unsqueeze(1), position.unsqueeze(1))
            view = CacheStep(buffers, position, 1, window, length, padding, context=context)
            logits = model(token.unsqueeze(1), cache=view).logits[:, -1].float()
            ruled = partial(rules.apply, past=past, length=position.unsqueeze(1) + 1)
            return choose(logits, ruled, *given), position + 1

        return step
