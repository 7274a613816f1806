"""What is done to the scores of the next token before one is chosen."""

from __future__ import annotations

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F

from webgpu_torch_models.generation.config import GenerationConfig


def apply_repetition_penalty(scores: Tensor, seen: Tensor | None, penalty: float) -> Tensor:
    """Divide positive scores of tokens that were seen by the penalty and multiply negative ones (Keskar et al., 2019).

    Args:
        scores: [batch, vocabulary].
        seen: bool [batch, vocabulary]; None where there is no penalty.
        penalty: 1.0 is none.
    """
    if seen is None:
        return scores
    return torch.where(seen, torch.where(scores < 0, scores * penalty, scores / penalty), scores)


def without_tokens(scores: Tensor, tokens: Tensor | None) -> Tensor:
    """Set the scores [batch, vocabulary] of tokens, int64 [tokens] or None, to -inf."""
    return scores if tokens is None else scores.index_fill(-1, tokens, -float("inf"))


def apply_top_k(scores: Tensor, top_k: int) -> Tensor:
    """Set all but the ``top_k`` largest scores [batch, vocabulary] (and those equal to the last) to -inf."""
    threshold = torch.topk(scores, min(top_k, scores.shape[-1]))[0][..., -1, None]
    return scores.masked_fill(scores < threshold, -float("inf"))


def apply_top_p(scores: Tensor, top_p: float, keep: int = 1) -> Tensor:
    """Keep the smallest set of most likely tokens whose probabilities reach ``top_p``; -inf elsewhere.

    Nucleus sampling (Holtzman et al., 2019); scores [batch, vocabulary], of which the ``keep`` greatest always stay.
    """
    ascending, order = torch.sort(scores, descending=False)
    removed = F.softmax(ascending, dim=-1).cumsum(dim=-1) <= 1 - top_p
    last = torch.arange(scores.shape[-1], device=scores.device) >= scores.shape[-1] - keep
    removed = removed & ~last
    return scores.masked_fill(torch.zeros_like(removed).scatter(-1, order, removed), -float("inf"))


def apply_min_p(scores: Tensor, min_p: float, keep: int = 1) -> Tensor:
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


def process_scores(scores: Tensor, config: GenerationConfig, keep: int = 1) -> Tensor:
    """Apply temperature, top-k, top-p and min-p, in that order, to scores [batch, vocabulary]; ``keep`` always stay."""
    if config.temperature != 1.0:
        scores = scores / config.temperature
    if config.top_k > 0:
        scores = apply_top_k(scores, max(config.top_k, keep))
    if config.top_p < 1.0:
        scores = apply_top_p(scores, config.top_p, keep)
    if config.min_p is not None:
        scores = apply_min_p(scores, config.min_p, keep)
    return scores
