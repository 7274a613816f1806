"""A running batch: rows of sequences that take one step together, each with options and random numbers of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F

from webgpu_torch_models.cache import WINDOW_STEP
from webgpu_torch_models.generation.scores import RowOptions, apply_repetition_penalty, process_scores
from webgpu_torch_models.paged_cache import PagedStep, PagePool

if TYPE_CHECKING:
    from webgpu_torch_models.generation.continuous import Request
    from webgpu_torch_models.pretrained import PreTrainedModel

#: how many steps of different sizes are kept
MOST_STEPS = 64
Row = tuple[Tensor | float | None, ...]
"""Options of :class:`RowOptions` without the last."""


def next_tokens(
    logits: Tensor,
    seen: Tensor | None,
    banned: Tensor | None,
    options: RowOptions,
    generators: Sequence[torch.Generator],
) -> Tensor:
    """Return each row's next token, int64 [batch]: the likeliest, or one drawn from the row's own generator.

    A row whose logits are no numbers gets -1: it is to end, and no other with it.

    Args:
        logits: float32 [batch, vocabulary].
        seen: bool [batch, vocabulary], tokens of the sequences; None where nothing penalises repetition.
        banned: bool [batch, vocabulary], tokens that are not chosen; None where all may be.
        options: of the rows.
        generators: one for each row.
    """
    if banned is not None:
        logits = logits.masked_fill(banned, -float("inf"))
    logits = apply_repetition_penalty(logits, seen, options.repetition_penalty)
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
        self.model, self.pool, self.sizes, self.compile = model, pool, tuple(sizes), compile
        self.vocabulary: int = model.config.vocab_size
        self._generators: dict[int, list[torch.Generator]] = {}
        self._found: dict[object, Callable[..., tuple[Tensor, Tensor]]] = {}

    def size_for(self, rows: int) -> int:
        """Return the least size that holds so many rows."""
        return next(size for size in self.sizes if size >= rows)

    def generators(self, group: int, rows: int) -> list[torch.Generator]:
        """Return the generators of a group's rows: always the same ones, as captured steps draw from them."""
        found = self._generators.setdefault(group, [])
        found += [torch.Generator(self.model.device) for _ in range(rows - len(found))]
        return found[:rows]

    def table(self, requests: Sequence[Request], rows: int, tokens: int) -> Tensor:
        """Return the pages of the requests as far as they hold so many tokens: int64 [rows, pages]."""
        pages = self.pool.needed(tokens)
        filled = [(each.pages + [0] * pages)[:pages] for each in requests]
        return self.tensor(filled + [[0] * pages] * (rows - len(filled)))

    def seen(self, requests: Sequence[Request], rows: int) -> Tensor | None:
        """Return which tokens the sequences have, bool [rows, vocabulary]; None where nobody asks."""
        if all(each.config.repetition_penalty == 1.0 for each in requests):
            return None
        return self._marks([each.history for each in requests], rows)

    def banned(self, requests: Sequence[Request], rows: int) -> Tensor | None:
        """Return which tokens may not come next, bool [rows, vocabulary]; None where all may."""
        lists = [
            [*(each.config.suppress_tokens or ()), *((not each.tokens and each.config.begin_suppress_tokens) or ())]
            for each in requests
        ]
        return self._marks(lists, rows) if any(lists) else None

    def _marks(self, lists: Sequence[list[int]], rows: int) -> Tensor:
        """Return where the listed tokens are: bool [rows, vocabulary]."""
        lists = [*lists, *[[]] * (rows - len(lists))]
        longest = max(map(len, lists))
        places = self.tensor([(each or [0]) + (each or [0])[:1] * (longest - max(1, len(each))) for each in lists])
        marks = torch.tensor([bool(each) for each in lists], device=self.model.device).unsqueeze(1)
        shape = (rows, self.vocabulary)
        return torch.zeros(shape, dtype=torch.bool, device=self.model.device).scatter_(
            1, places, marks.expand(places.shape)
        )

    def tensor(self, values: Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
        """Return integers on the model's device."""
        return torch.tensor(values, dtype=torch.int64, device=self.model.device)

    def prefill(self, request: Request) -> Tensor:
        """Take up everything a request has so far; return the token after it, int64 [1]."""
        history, size = request.history, self.pool.page_size
        length = len(history)
        # Few different lengths: what fills a prompt up comes after it, where no token of it looks.
        bucket = max(size, 1 << (length - 1).bit_length())
        bucket = -(-bucket // size) * size
        options = RowOptions.of([request.config], self.model.device)
        generators = self.generators(-1, 1)
        generators[0].move_to(request.generator.position())
        key = "prefill", bucket, request.variant, options.kind
        step = self._step(key, length, options.most, generators)
        ids = self.tensor([history + [0] * (bucket - length)])
        given = (
            self.table([request], 1, bucket),
            self.tensor([length - 1]),
            self.seen([request], 1),
            self.banned([request], 1),
            tuple(options[:-1]),
        )
        token, _ = step(ids, *given, tuple(self.pool.buffers))
        request.generator.move_to(generators[0].position())
        return token

    def _step(
        self, key: tuple[object, ...], length: int, most: int, generators: Sequence[torch.Generator]
    ) -> Callable[..., tuple[Tensor, Tensor]]:
        found = self._found.pop(key, None)
        if found is None:
            make = _prefilling if key[0] == "prefill" else _advancing
            found = make(self.model, self.pool.page_size, length, most, generators)
            found = torch.compile(found) if self.compile else found
        # The last is the one used last.
        self._found[key] = found
        if len(self._found) > MOST_STEPS:
            del self._found[next(iter(self._found))]
        return found

    def advancing(
        self, group: int, rows: int, window: int, length: int, variant: object, options: RowOptions
    ) -> Callable[..., tuple[Tensor, Tensor]]:
        """Return the step by which a batch advances."""
        key = group, rows, window, variant, options.kind
        return self._step(key, length, options.most, self.generators(group, rows))


def _prefilling(
    model: PreTrainedModel, page_size: int, length: int, most: int, generators: Sequence[torch.Generator]
) -> Callable[..., tuple[Tensor, Tensor]]:
    def step(
        ids: Tensor,
        table: Tensor,
        last: Tensor,
        seen: Tensor | None,
        banned: Tensor | None,
        options: Row,
        buffers: Sequence[Tensor],
    ) -> tuple[Tensor, Tensor]:
        positions = torch.arange(ids.shape[1], device=ids.device).unsqueeze(0)
        view = PagedStep(buffers, table, positions, page_size, length, True)
        # A model with learned positions may have none for what fills the prompt up.
        view.position_ids = torch.minimum(positions, last)
        logits = model(ids, cache=view, logits_to_keep=last).logits[:, -1].float()
        return next_tokens(logits, seen, banned, RowOptions._make((*options, most)), generators), last + 1

    return step


def _advancing(
    model: PreTrainedModel, page_size: int, length: int, most: int, generators: Sequence[torch.Generator]
) -> Callable[..., tuple[Tensor, Tensor]]:
    def step(
        tokens: Tensor,
        table: Tensor,
        positions: Tensor,
        seen: Tensor | None,
        banned: Tensor | None,
        options: Row,
        buffers: Sequence[Tensor],
    ) -> tuple[Tensor, Tensor]:
        view = PagedStep(buffers, table, positions.unsqueeze(1), page_size, length, False)
        tokens = tokens.clamp(min=0)
        logits = model(tokens.unsqueeze(1), cache=view).logits[:, -1].float()
        if seen is not None:
            seen.scatter_(1, tokens.unsqueeze(1), True)
        return next_tokens(logits, seen, banned, RowOptions._make((*options, most)), generators), positions + 1

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
        self.seen, self.banned = steps.seen(requests, rows), steps.banned(requests, rows)
        configs = [each.config for each in requests]
        self.options = RowOptions.of(configs + configs[:1] * len(filler), steps.model.device)
        self.window = 0
        self.table: Tensor | None = None
        for slot, each in zip(steps.generators(group, rows), requests, strict=False):
            slot.move_to(each.generator.position())

    def advance(self) -> Callable[[], list[int]]:
        """Take a step; return the function that waits for its tokens, one for each row."""
        steps = self.steps
        # Powers of two, as each is a step of its own.
        window = WINDOW_STEP << (-(-self.length // WINDOW_STEP) - 1).bit_length()
        if window != self.window or self.table is None:
            self.window, self.table = window, steps.table(self.requests, self.rows, window)
        step = steps.advancing(self.group, self.rows, window, self.length, self.variant, self.options)
        self.tokens, self.positions = step(
            self.tokens,
            self.table,
            self.positions,
            self.seen,
            self.banned,
            tuple(self.options[:-1]),
            tuple(steps.pool.buffers),
        )
        self.length += 1
        return torch.webgpu.read_later(self.tokens)

    def dissolve(self) -> None:
        """Give the requests their random numbers back, so that they go on elsewhere."""
        for slot, each in zip(self.steps.generators(self.group, self.rows), self.requests, strict=False):
            each.generator.move_to(slot.position())
