"""A model, its cache, and one decoding step as a function of tensors, which also chooses the next token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F

from webgpu_torch_models.cache import CacheStep
from webgpu_torch_models.generation.config import GenerationConfig
from webgpu_torch_models.generation.scores import apply_repetition_penalty, process_scores, without_tokens

if TYPE_CHECKING:
    from webgpu_torch_models.pretrained import PreTrainedModel

T = TypeVar("T", Tensor, tuple[Tensor, Tensor])
Choose = Callable[..., T]
"""Takes logits, float32 [batch, vocabulary], which tokens were seen (None unless it matters), and more; returns tensors."""


def next_token(config: GenerationConfig, generator: torch.Generator | None = None) -> Callable[..., Tensor]:
    """Return the function that chooses the likeliest token, or draws one: int64 [batch]."""

    def choose(logits: Tensor, seen: Tensor | None) -> Tensor:
        logits = apply_repetition_penalty(logits, seen, config.repetition_penalty)
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
        batch_size, capacity: of the cache.
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
        self.cache = model.new_cache(batch_size, capacity, padding)
        self.cache.context = context
        self.compile = compile
        self.choose: Choose[T] = next_token(config) if choose is None else choose  # type: ignore[assignment]
        self.never, self.not_first = (
            torch.tensor(each, dtype=torch.int64, device=model.device) if each else None
            for each in (config.suppress_tokens, config.begin_suppress_tokens)
        )
        self.vocabulary = 0
        self.seen: Tensor | None = None
        """Which tokens each sequence has, bool [batch, vocabulary], where repetition is penalised."""
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
        logits = without_tokens(without_tokens(logits, self.never), self.not_first)
        if self.config.repetition_penalty != 1.0:
            self.seen = self._tokens_in(input_ids, logits)
        return self.choose(logits, self.seen, *given)

    def _tokens_in(self, input_ids: Tensor, logits: Tensor) -> Tensor:
        """Return which tokens of the vocabulary the prompts have: bool, in the logits' shape."""
        if self.cache.padding is not None:
            columns = torch.arange(input_ids.shape[1], device=input_ids.device)
            # The last token is never padding.
            input_ids = torch.where(columns >= self.cache.padding.unsqueeze(1), input_ids, input_ids[:, -1:])
        return torch.zeros_like(logits, dtype=torch.bool).scatter_(1, input_ids, True)

    def note_seen(self, tokens: Tensor) -> None:
        """Note that sequences have tokens, int64 [batch, count], where it matters."""
        if self.seen is not None:
            self.seen.scatter_(1, tokens, True)

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
        state = cache.padding, self.seen, tuple(cache.buffers), tuple(cache.context)
        choice, cache.position = step(token, cache.position, order, given, *state)
        return choice

    def _step_for(self, window: int, length: int) -> Callable[..., tuple[T, Tensor]]:
        model, choose, never = self.model, self.choose, self.never

        def step(
            token: Tensor, position: Tensor, order: Tensor | None, given: Sequence[Tensor], padding: Tensor | None,
            seen: Tensor | None, buffers: Sequence[Tensor], context: Sequence[Tensor],
        ) -> tuple[T, Tensor]:  # fmt: skip
            if order is not None:
                for each in buffers if seen is None else (*buffers, seen):
                    each.copy_(each.index_select(0, order))
            view = CacheStep(buffers, position, 1, window, length, padding, context=context)
            logits = without_tokens(model(token.unsqueeze(1), cache=view).logits[:, -1].float(), never)
            if seen is not None:
                seen.scatter_(1, token.unsqueeze(1), True)
            return choose(logits, seen, *given), position + 1

        return step
