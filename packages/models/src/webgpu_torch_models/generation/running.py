"""A running batch: rows of sequences that take one step together, each with options and random numbers of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F

from webgpu_torch_models.cache import bucket_of, window_of
from webgpu_torch_models.generation.kept import KeptSteps
from webgpu_torch_models.generation.rules import Past, RowRules, Rules, marks
from webgpu_torch_models.generation.scores import RowOptions, process_scores
from webgpu_torch_models.paged_cache import PagedStep, PagePool

if TYPE_CHECKING:
    from webgpu_torch_models.generation.continuous import Request
    from webgpu_torch_models.pretrained import PreTrainedModel

Row = tuple[Tensor | float | None, ...]
"""Options of :class:`RowOptions` without the last."""


def next_tokens(logits: Tensor, options: RowOptions, generators: Sequence[torch.Generator]) -> Tensor:
    """Return each row's next token, int64 [batch]: the likeliest, or one drawn from the row's own generator.

    A row whose logits are no numbers gets -1: it is to end, and no other with it.

    Args:
        logits: float32 [batch, vocabulary], to which the rules were applied.
        options: of the rows.
        generators: one for each row.
    """
    strange = ~(logits.amax(dim=-1).abs() < float("inf"))
    likeliest = logits.argmax(dim=-1).masked_fill(strange, -1)
    if not isinstance(options.do_sample, Tensor):
        return likeliest
    probabilities = F.softmax(process_scores(logits, options), dim=-1)
    strange = strange | ~(probabilities.amax(dim=-1) > 0)
    probabilities = probabilities.masked_fill(strange.unsqueeze(1), 1.0)
    drawn = [torch.multinomial(probabilities[row : row + 1], 1, generator=each) for row, each in enumerate(generators)]
    chosen = torch.where(options.do_sample, torch.cat(drawn), likeliest.unsqueeze(1)).squeeze(1)
    return chosen.masked_fill(strange, -1)


class Steps:
    """The steps of a model over a pool, each captured once for its sizes.

    Args:
        model: predicts the next token.
        pool: of keys and values.
        sizes: how many rows a batch may have, ascending.
        compile: whether to capture.
    """

    def __init__(self, model: PreTrainedModel, pool: PagePool, sizes: Sequence[int], compile: bool) -> None:
        model.join_maps()
        self.model, self.pool, self.sizes, self.compile = model, pool, tuple(sizes), compile
        self.vocabulary: int = model.config.vocab_size
        self._kept = KeptSteps()

    def size_for(self, rows: int) -> int:
        """Return the least size that holds so many rows."""
        return next(size for size in self.sizes if size >= rows)

    def generators(self, group: int, rows: int) -> list[torch.Generator]:
        """Return the generators of a group's rows: always the same ones, as captured steps draw from them."""
        return [self._kept.generator((group, row), self.model.device) for row in range(rows)]

    def table(self, requests: Sequence[Request], rows: int, tokens: int) -> Tensor:
        """Return the pages of the requests as far as they hold so many tokens: int64 [rows, pages]."""
        pages = self.pool.needed(tokens)
        filled = [(each.pages + [0] * pages)[:pages] for each in requests]
        return self.tensor(filled + [[0] * pages] * (rows - len(filled)))

    def rules(self, requests: Sequence[Request], rows: int) -> Rules:
        """Return what may come next in each row; those that nobody has are bound to what the first is."""
        filled = [*requests, *[requests[0]] * (rows - len(requests))]
        configs, prompts = [each.config for each in filled], [len(each.prompt) for each in filled]
        return Rules.of(configs, prompts, self.vocabulary, self.model.device)

    def past(self, requests: Sequence[Request], rows: int, rules: Rules, capacity: int) -> Past:
        """Return what the sequences have so far, as far as the rules ask, with room for so many tokens."""
        lists = [*[each.history for each in requests], *[[]] * (rows - len(requests))]
        filled = [(each + [0] * capacity)[:capacity] for each in lists] if rules.asks_history else []
        return Past(
            None if rules.penalty is None else marks(lists, self.vocabulary, self.model.device),
            self.tensor(filled) if filled else None,
        )

    def tensor(self, values: Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
        """Return integers on the model's device."""
        return torch.tensor(values, dtype=torch.int64, device=self.model.device)

    def prefill(self, request: Request) -> Tensor:
        """Take up everything a request has so far; return the token after it, int64 [1]."""
        history, length = request.history, len(request.history)
        # Few different lengths: what fills a prompt up comes after it, where no token of it looks.
        bucket = self.pool.needed(bucket_of(length)) * self.pool.page_size
        options = RowOptions.of([request.config], self.model.device)
        generators = self.generators(-1, 1)
        generators[0].move_to(request.generator.position())
        rules = self.rules([request], 1)
        key = "prefill", bucket, request.variant, options.kind, rules.kind
        step = self._step(key, length, options.most, rules.longest, generators)
        ids = self.tensor([history + [0] * (bucket - length)])
        given = (
            self.table([request], 1, bucket),
            self.tensor([length - 1]),
            self.past([request], 1, rules, bucket),
            tuple(rules[:-1]),
            tuple(options[:-1]),
        )
        token, _ = step(ids, *given, tuple(self.pool.buffers))
        request.generator.move_to(generators[0].position())
        return token

    def _step(
        self, key: tuple[object, ...], length: int, most: int, longest: int, generators: Sequence[torch.Generator]
    ) -> Callable[..., tuple[Tensor, Tensor]]:
        def make() -> Callable[..., tuple[Tensor, Tensor]]:
            is_prompt = key[0] == "prefill"
            return _step_of(self.model, self.pool.page_size, length, most, longest, generators, is_prompt)

        return self._kept.get(key, make) if self.compile else make()

    def advancing(
        self, group: int, rows: int, window: int, length: int, variant: object, options: RowOptions, rules: Rules
    ) -> Callable[..., tuple[Tensor, Tensor]]:
        """Return the step by which a batch advances."""
        key = group, rows, window, variant, options.kind, rules.kind
        return self._step(key, length, options.most, rules.longest, self.generators(group, rows))


def _step_of(
    model: PreTrainedModel, page_size: int, length: int, most: int, longest: int, generators: Sequence[torch.Generator],
    is_prompt: bool,
) -> Callable[..., tuple[Tensor, Tensor]]:  # fmt: skip
    """Return the step that takes up a prompt, filled up at its end, or a token of each row.

    The step takes int64 [1, count] or [rows], the table of pages, where the last token of each sequence stands [rows], what the
    sequences have, rules, options and the pool's buffers; it returns the next tokens, and where these stand.
    """

    def step(
        tokens: Tensor, table: Tensor, last: Tensor, past: Past, rules: RowRules, options: Row, buffers: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        ids = tokens if is_prompt else tokens.clamp(min=0).unsqueeze(1)
        positions = torch.arange(ids.shape[1], device=ids.device).unsqueeze(0) if is_prompt else last.unsqueeze(1)
        view = PagedStep(buffers, table, positions, page_size, length, is_prompt)
        if is_prompt:
            # A model with learned positions may have none for what fills the prompt up.
            view.position_ids = torch.minimum(positions, last)
        else:
            past.note(ids, positions)
        logits = model(ids, cache=view, logits_to_keep=last if is_prompt else 0).logits[:, -1].float()
        logits = Rules.of_rows(rules, longest).apply(logits, past, last.unsqueeze(1) + 1)
        return next_tokens(logits, RowOptions._make((*options, most)), generators), last + 1

    return step


class RunningBatch:
    """Sequences that take their steps together; who is in it does not change.

    Args:
        steps: of the model.
        requests: those in it, all of one variant.
        group: the number of this batch among those that run side by side.
    """

    def __init__(self, steps: Steps, requests: Sequence[Request], group: int) -> None:
        self.steps, self.requests, self.group = steps, list(requests), group
        self.variant = requests[0].variant
        self.rows = rows = steps.size_for(len(requests))
        filler = [0] * (rows - len(requests))
        self.tokens = steps.tensor([each.history[-1] for each in requests] + filler)
        self.positions = steps.tensor([len(each.history) - 1 for each in requests] + filler)
        self.length = max(len(each.history) for each in requests)
        self.rules = steps.rules(requests, rows)
        self.past = steps.past(requests, rows, self.rules, self.length)
        configs = [each.config for each in requests]
        self.options = RowOptions.of(configs + configs[:1] * len(filler), steps.model.device)
        self.window = 0
        self.table: Tensor | None = None
        for slot, each in zip(steps.generators(group, rows), requests, strict=False):
            slot.move_to(each.generator.position())

    def advance(self) -> Callable[[], list[int]]:
        """Take a step; return the function that waits for its tokens, one for each row."""
        steps = self.steps
        # One of few, as each is a step of its own.
        window = window_of(self.length)
        if window != self.window or self.table is None:
            self.window, self.table = window, steps.table(self.requests, self.rows, window)
            self.past = self.past.extended(window)
        step = steps.advancing(self.group, self.rows, window, self.length, self.variant, self.options, self.rules)
        self.tokens, self.positions = step(
            self.tokens,
            self.table,
            self.positions,
            self.past,
            tuple(self.rules[:-1]),
            tuple(self.options[:-1]),
            tuple(steps.pool.buffers),
        )
        self.length += 1
        return torch.webgpu.read_later(self.tokens)

    def dissolve(self) -> None:
        """Give the requests their random numbers back, so that they go on elsewhere."""
        for slot, each in zip(self.steps.generators(self.group, self.rows), self.requests, strict=False):
            each.generator.move_to(slot.position())
