"""What is done to the scores of the next token before one is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F

from webgpu_torch_models.generation.config import GenerationConfig, Sampling

#: no option needs to be greater
MOST = 1 << 30


class RowOptions(NamedTuple):
    """Options of :class:`GenerationConfig` by row, each [batch, 1], or a number where they do nothing in any row.

    Attributes:
        do_sample: bool; rows without it take the likeliest token.
        top_k: int64; 0 is all.
        most: the greatest ``top_k``.
    """

    do_sample: Tensor | bool
    temperature: Tensor | float
    top_k: Tensor | int
    top_p: Tensor | float
    min_p: Tensor | float | None
    most: int

    @classmethod
    def of(cls, configs: Sequence[GenerationConfig], device: torch.device) -> RowOptions:
        """Return the options of a batch; those that do nothing in any row are plain numbers."""
        drawn = [each.do_sample for each in configs]

        def column(name: str, nothing: float) -> Tensor | float:
            given = [getattr(each, name) if each.do_sample else None for each in configs]
            values = [nothing if each is None else min(each, MOST) for each in given]
            return nothing if set(values) == {nothing} else torch.tensor(values, device=device).unsqueeze(1)

        most = max((min(each.top_k, MOST) for each in configs if each.do_sample), default=0)
        return cls(
            torch.tensor(drawn, device=device).unsqueeze(1) if any(drawn) else False,
            column("temperature", 1.0), column("top_k", 0), column("top_p", 1.0), column("min_p", 0.0),  # type: ignore[arg-type]
            # Few different numbers, as each is a kernel of its own.
            1 << (most - 1).bit_length() if most else 0,
        )  # fmt: skip

    @property
    def kind(self) -> tuple[object, ...]:
        """What is equal for batches that are computed alike."""
        return (*[isinstance(each, Tensor) for each in self[:-1]], self.most)


def _does(option: Tensor | float | None, nothing: float) -> bool:
    return isinstance(option, Tensor) or (option is not None and option != nothing)


def apply_repetition_penalty(scores: Tensor, seen: Tensor | None, penalty: Tensor | float) -> Tensor:
    """Divide positive scores of tokens that were seen by the penalty and multiply negative ones (Keskar et al., 2019).

    Args:
        scores: [batch, vocabulary].
        seen: bool [batch, vocabulary]; None where there is no penalty.
        penalty: 1.0 is none; one number, or each row's own, [batch, 1].
    """
    if seen is None:
        return scores
    return torch.where(seen, torch.where(scores < 0, scores * penalty, scores / penalty), scores)


def apply_top_k(scores: Tensor, top_k: int, rows: Tensor | None = None) -> Tensor:
    """Set all but the ``top_k`` largest scores [batch, vocabulary] (and those equal to the last) to -inf.

    Args:
        scores: [batch, vocabulary].
        top_k: of the row with most.
        rows: int64 [batch, 1], of each row, 0 for all scores; None where they are the same.
    """
    largest = torch.topk(scores, min(top_k, scores.shape[-1]))[0]
    if rows is None:
        threshold = largest[..., -1, None]
    else:
        threshold = largest.gather(1, (rows - 1).clamp(0, largest.shape[-1] - 1)).masked_fill(rows == 0, -float("inf"))
    return scores.masked_fill(scores < threshold, -float("inf"))


def apply_top_p(scores: Tensor, top_p: Tensor | float, keep: int = 1) -> Tensor:
    """Keep the smallest set of most likely tokens whose probabilities reach ``top_p``; -inf elsewhere.

    Nucleus sampling (Holtzman et al., 2019); scores [batch, vocabulary], of which the ``keep`` greatest always stay.
    """
    ascending, order = torch.sort(scores, descending=False)
    removed = F.softmax(ascending, dim=-1).cumsum(dim=-1) <= 1 - top_p
    last = torch.arange(scores.shape[-1], device=scores.device) >= scores.shape[-1] - keep
    removed = removed & ~last
    return scores.masked_fill(torch.zeros_like(removed).scatter(-1, order, removed), -float("inf"))


def apply_min_p(scores: Tensor, min_p: Tensor | float, keep: int = 1) -> Tensor:
    """Keep the tokens whose probability is at least ``min_p`` times the greatest one; -inf elsewhere (Nguyen et al., 2024).

    Scores are [batch, vocabulary], of which the ``keep`` greatest always stay.
    """
    probabilities = F.softmax(scores, dim=-1)
    removed = probabilities < min_p * probabilities.amax(dim=-1, keepdim=True)
    if keep > 1:
        # The likeliest token is never below a share of itself.
        places = torch.topk(probabilities, min(keep, scores.shape[-1]))[1]
        removed = removed.scatter(-1, places, torch.zeros_like(places, dtype=torch.bool))
    return scores.masked_fill(removed, -float("inf"))


def process_scores(scores: Tensor, options: Sampling | RowOptions, keep: int = 1) -> Tensor:
    """Apply temperature, top-k, top-p and min-p, in that order, to scores [batch, vocabulary]; ``keep`` always stay."""
    if _does(options.temperature, 1.0):
        scores = scores / options.temperature
    if isinstance(options, RowOptions):
        if isinstance(options.top_k, Tensor):
            scores = apply_top_k(scores, options.most, options.top_k)
    elif options.top_k > 0:
        scores = apply_top_k(scores, max(options.top_k, keep))
    if _does(options.top_p, 1.0):
        scores = apply_top_p(scores, options.top_p, keep)
    if options.min_p is not None and _does(options.min_p, 0.0):
        scores = apply_min_p(scores, options.min_p, keep)
    return scores
