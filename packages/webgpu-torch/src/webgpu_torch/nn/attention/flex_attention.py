"""Attention with a score function and a mask function, as ``torch.nn.attention.flex_attention``.

The functions are called once with index tensors that broadcast to ``(batch, heads, queries, keys)``, and their results take
part in the lazy graph; PyTorch generates a kernel from them instead (Dong et al., "Flex Attention", 2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

_DEFAULT_SPARSE_BLOCK_SIZE = 128
ScoreModifier = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
MaskModifier = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class AuxRequest(NamedTuple):
    """Which further results :func:`flex_attention` returns."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """Further results of :func:`flex_attention`, of shape ``(batch, heads, queries)``."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def _indices(sizes: tuple[int, ...], device: Any) -> list[Tensor]:
    count = len(sizes)
    return [
        torch.arange(size, device=device).view([size if axis == place else 1 for axis in range(count)])
        for place, size in enumerate(sizes)
    ]


class BlockMask:
    """Which keys each query sees: a boolean tensor of shape ``(batch, heads, queries, keys)``, True where seen."""

    def __init__(self, mask: Tensor, mask_mod: MaskModifier, block_size: int | tuple[int, int]) -> None:
        self.mask = mask
        self.mask_mod = mask_mod
        self.BLOCK_SIZE = (block_size, block_size) if isinstance(block_size, int) else tuple(block_size)
        self.shape = mask.shape
        self.seq_lengths = (mask.shape[-2], mask.shape[-1])

    def to_dense(self) -> Tensor:
        """Return for each block whether any of its pairs is seen."""
        height, width = self.BLOCK_SIZE
        batch, heads, queries, keys = self.mask.shape
        rows = [self.mask[..., start : start + height, :].any(-2) for start in range(0, queries, height)]
        tall = torch.stack(rows, -2)
        return torch.stack([tall[..., start : start + width].any(-1) for start in range(0, keys, width)], -1).view(
            batch, heads, len(rows), -1
        )

    def to(self, device: Any) -> BlockMask:
        """Return the mask on a device."""
        return BlockMask(self.mask.to(device), self.mask_mod, self.BLOCK_SIZE)  # type: ignore[arg-type]


def create_mask(
    mod_fn: MaskModifier, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """Return the boolean tensor of a mask function, of shape ``(B or 1, H or 1, Q_LEN, KV_LEN)``."""
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    return mod_fn(*_indices(sizes, device)).expand(sizes)


def create_block_mask(
    mask_mod: MaskModifier,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
) -> BlockMask:
    """Return a mask from a function of batch, head, query and key indices that broadcasts."""
    return BlockMask(create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device), mask_mod, BLOCK_SIZE)


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreModifier | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """``softmax(score_mod(q·kᵀ·scale) where seen) · v`` for ``(batch, heads, length, width)`` tensors.

    Args:
        score_mod: ``score_mod(score, batch, head, query, key)``; it must broadcast.
        block_mask: from :func:`create_block_mask`; a query that sees nothing gives zeros.
        scale: ``1 / sqrt(width)`` if None.
        enable_gqa: whether several query heads share a key head.
        return_lse: whether to return the logarithm of the sum of exponentials, too.

    Raises:
        ValueError: the numbers of heads differ and ``enable_gqa`` is False.
    """
    if query.shape[1] != key.shape[1]:
        if not enable_gqa:
            raise ValueError(f"query has {query.shape[1]} heads and key {key.shape[1]}: pass enable_gqa=True")
        key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
        value = value.repeat_interleave(query.shape[1] // value.shape[1], 1)
    scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if score_mod is not None:
        scores = score_mod(scores, *_indices(tuple(scores.shape), scores.device)).to(query.dtype)
    if block_mask is not None:
        seen = block_mask.mask[..., : scores.shape[-2], : scores.shape[-1]]
        scores = scores.masked_fill(~seen, -math.inf)
    lse = scores.logsumexp(-1)
    weights = torch.where(lse.isneginf().unsqueeze(-1), 0.0, (scores - lse.unsqueeze(-1)).exp())
    output = weights @ value
    if return_aux is not None:
        highest = scores.amax(-1) if return_aux.max_scores else None
        return output, AuxOutput(lse if return_aux.lse else None, highest)
    return (output, lse) if return_lse else output
