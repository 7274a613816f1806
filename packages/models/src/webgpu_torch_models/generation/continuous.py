"""Continuous batching: requests join a running batch and leave it between steps (Yu et al., 2022, Orca)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Unpack

import webgpu_torch_core as torch
from webgpu_torch_core.record.devices import is_accelerator

from webgpu_torch_models.generation.config import GenerationConfig, GenerationOptions
from webgpu_torch_models.generation.endings import Endings
from webgpu_torch_models.generation.loop import check_length
from webgpu_torch_models.generation.running import RunningBatch, Steps
from webgpu_torch_models.paged_cache import PagePool

if TYPE_CHECKING:
    from webgpu_torch_models.pretrained import PreTrainedModel
    from webgpu_torch_models.tokenizer import Tokenizer

BATCH_SIZES = (1, 2, 4, 8, 16, 32)


class Request:
    """A sequence that is to be continued.

    Attributes:
        prompt: its tokens.
        config: how it is continued.
        tokens: the new tokens so far.
        finish_reason: "stop" after a token or text that ends it, "length" after the last token that may be added,
            "cancelled", "overflow" where the model's logits are no numbers, or None while it waits or runs.
    """

    def __init__(
        self, prompt: Sequence[int], config: GenerationConfig, endings: Endings, generator: torch.Generator
    ) -> None:
        self.prompt, self.config, self.endings, self.generator = list(prompt), config, endings, generator
        self.tokens: list[int] = []
        self.finish_reason: str | None = None
        self.pages: list[int] = []
        self.variant: object = None

    @property
    def history(self) -> list[int]:
        """The prompt and the new tokens."""
        return self.prompt + self.tokens

    def take(self, token: int) -> None:
        """Take up the next token; -1 where there is none."""
        if token < 0:
            self.finish_reason = "overflow"
            return
        self.tokens.append(token)
        if self.endings and self.endings.after(self.tokens):
            self.finish_reason = "stop"
        elif len(self.tokens) == self.config.new_tokens:
            self.finish_reason = "length"


class ContinuousBatch:
    """Continues many sequences at once; each gets the tokens that it would get alone.

    Every request has pages for its longest continuation from when it joins until it leaves; it waits where too few are
    free.

    Args:
        model: a decoder of this package, in evaluation mode.
        tokenizer: finds ``stop_strings`` in texts.
        pages: how many pages of keys and values there are.
        page_size: in tokens.
        batch_sizes: how many sequences a step may have: it is captured once for each, and rows nobody has are idle.
        compile: capture the steps; by default on every device but the CPU.
    """

    def __init__(
        self, model: PreTrainedModel, tokenizer: Tokenizer | None = None, *, pages: int = 512, page_size: int = 16,
        batch_sizes: Sequence[int] = BATCH_SIZES, compile: bool | None = None,
    ) -> None:  # fmt: skip
        self.model, self.tokenizer = model, tokenizer
        self.reads_ahead = is_accelerator(model.device)
        self.pool = PagePool(model, pages, page_size)
        self.steps = Steps(model, self.pool, sorted(batch_sizes), self.reads_ahead if compile is None else compile)
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self._batches: list[RunningBatch] = []
        self._pending: list[tuple[RunningBatch, Callable[[], list[int]]]] = []
        self._is_stale = False

    @property
    def most(self) -> int:
        """How many requests run at once at most."""
        return self.steps.sizes[-1]

    def submit(
        self, input_ids: Sequence[int], *, seed: int | None = None, generation_config: GenerationConfig | None = None,
        **options: Unpack[GenerationOptions],
    ) -> Request:  # fmt: skip
        """Add a request; it joins when there is room.

        Args:
            input_ids: the tokens to continue.
            seed: of the random numbers; without one they start anywhere.
            generation_config: the model's own by default.
            options: attributes of :class:`GenerationConfig`, which they override.

        Raises:
            TypeError: there is no such option.
            ValueError: an option is out of range, a token is none of the model's, or the sequence can never fit.
        """
        config = (generation_config or self.model.generation_config).changed(**options)
        if config.num_beams > 1:
            raise ValueError(f"num_beams={config.num_beams}: sequences of a running batch are not continued by beams")
        if config.return_timestamps:
            raise ValueError("return_timestamps: sequences of a running batch have no times")
        config.check_tokens(self.steps.vocabulary)
        if not input_ids:
            raise ValueError("input_ids must have at least one token, got none")
        wrong = [each for each in input_ids if not 0 <= each < self.steps.vocabulary]
        if wrong:
            raise ValueError(f"token {wrong[0]} is none of the model's {self.steps.vocabulary}")
        check_length(self.model, len(input_ids), config.new_tokens)
        needed = self.pool.needed(len(input_ids) + config.new_tokens)
        if needed > self.pool.pages:
            raise ValueError(
                f"{len(input_ids)} tokens of prompt and max_new_tokens={config.new_tokens} need {needed} pages of the "
                f"key-value cache, which has {self.pool.pages} of {self.pool.page_size} tokens"
            )
        generator = torch.Generator(self.model.device)
        generator.seed() if seed is None else generator.manual_seed(seed)
        request = Request(input_ids, config, Endings(config, self.tokenizer), generator)
        self.waiting.append(request)
        return request

    def cancel(self, request: Request) -> None:
        """End a request; its pages are free before the next step."""
        if request.finish_reason is None:
            request.finish_reason = "cancelled"
            self._is_stale = True

    def step(self) -> list[Request]:
        """Continue every running request by a token; return those that got new ones."""
        with torch.no_grad():
            grown: list[Request] = []
            if self._is_stale or self._may_join() or not self._alike():
                grown = self._regroup()
            if grown or not self._batches:
                return grown
            before = self._pending
            self._pending = [(each, each.advance()) for each in self._batches]
            if not self.reads_ahead:
                before, self._pending = self._pending, []
            return self._deliver(before)

    def _may_join(self) -> bool:
        if not self.waiting or len(self.running) >= self.most:
            return False
        first = self.waiting[0]
        return self.pool.needed(len(first.prompt) + first.config.new_tokens) <= len(self.pool.free)

    def _alike(self) -> bool:
        """Return whether every request may take its next step as it took the one before."""
        return all(self.model.step_variant(each.length) == each.variant for each in self._batches)

    def _deliver(self, pending: list[tuple[RunningBatch, Callable[[], list[int]]]]) -> list[Request]:
        grown = []
        for batch, wait in pending:
            for request, token in zip(batch.requests, wait(), strict=False):
                # Of one that has ended, the token was under way.
                if request.finish_reason is None:
                    request.take(token)
                    grown.append(request)
        self._is_stale = self._is_stale or any(each.finish_reason for each in grown)
        return grown

    def _regroup(self) -> list[Request]:
        """Let requests leave and join; return those that got tokens by it."""
        grown = self._deliver(self._pending)
        for batch in self._batches:
            batch.dissolve()
        self._pending, self._batches, self._is_stale = [], [], False
        self._leave()
        changed = [each for each in self.running if self._update_variant(each)]
        # Keys of another variant are of no use to some models.
        begun = self._join() + (changed if self.model.starts_anew_with_variant else [])
        for request, wait in [(each, torch.webgpu.read_later(self.steps.prefill(each))) for each in begun]:
            request.take(wait()[0])
            grown.append(request)
        self._leave()
        groups: dict[object, list[Request]] = {}
        for request in self.running:
            groups.setdefault(request.variant, []).append(request)
        self._batches = [RunningBatch(self.steps, each, number) for number, each in enumerate(groups.values())]
        return grown

    def _update_variant(self, request: Request) -> bool:
        """Note by which kind of step a request goes on; return whether that is another one than before."""
        before, request.variant = request.variant, self.model.step_variant(len(request.history))
        return request.variant != before

    def _join(self) -> list[Request]:
        """Give waiting requests their pages, in their order, as far as there is room; return those that got them."""
        joined = []
        while self._may_join():
            request = self.waiting.popleft()
            request.pages = self.pool.take(self.pool.needed(len(request.prompt) + request.config.new_tokens)) or []
            self._update_variant(request)
            joined.append(request)
            self.running.append(request)
        return joined

    def _leave(self) -> None:
        """Take the pages of those that have ended."""
        for request in self.running:
            if request.finish_reason is not None:
                self.pool.give_back(request.pages)
                request.pages = []
        self.running = [each for each in self.running if each.finish_reason is None]
        self.waiting = deque(each for each in self.waiting if each.finish_reason is None)
