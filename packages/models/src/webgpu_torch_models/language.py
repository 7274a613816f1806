"""What language models share: activations by name, masks, the loss of the next token."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F

if TYPE_CHECKING:
    from webgpu_torch_models.cache import CacheStep


def quick_gelu(x: Tensor) -> Tensor:
    """``x * sigmoid(1.702 x)``, CLIP's approximation of GELU."""
    return x * torch.sigmoid(1.702 * x)


def _gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": _gelu_tanh,
    "gelu_fast": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "quick_gelu": quick_gelu,
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
    "tanh": torch.tanh,
}


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """Return the activation that a configuration names.

    Raises:
        ValueError: the name is unknown.
    """
    if name not in ACTIVATIONS:
        raise ValueError(f'the activation "{name}" is unknown; known are: {", ".join(ACTIVATIONS)}')
    return ACTIVATIONS[name]


def causal_mask(attention_mask: Tensor, sliding_window: int | None = None) -> Tensor:
    """Return which tokens each token sees, bool [batch, 1, tokens, tokens]: itself, and earlier ones not padding.

    Args:
        attention_mask: [batch, tokens], 0 at padding.
        sliding_window: how many tokens, itself included, a token sees at most; None is all.
    """
    columns = torch.arange(attention_mask.shape[1], device=attention_mask.device)
    rows = columns.unsqueeze(1)
    near = columns <= rows
    if sliding_window is not None:
        near = near & (columns > rows - sliding_window)
    return ((near & (attention_mask != 0).unsqueeze(1)) | (columns == rows)).unsqueeze(1)


def mask_of(
    input_ids: Tensor, attention_mask: Tensor | None, cache: CacheStep | None, sliding_window: int | None = None
) -> Tensor | None:
    """Return which tokens each token sees, as a cache's step or :func:`causal_mask` says it; None is itself and earlier ones.

    Args:
        input_ids: [batch, tokens].
        attention_mask: [batch, tokens], 0 at padding; None without padding. A cache knows its own.
        cache: the step that the tokens are, if there is a cache.
        sliding_window: how many tokens, itself included, a token sees at most; None is all.
    """
    if cache is not None:
        return cache.mask_within(sliding_window)
    if attention_mask is None:
        if sliding_window is None or sliding_window >= input_ids.shape[1]:
            return None
        attention_mask = torch.ones_like(input_ids)
    return causal_mask(attention_mask, sliding_window)


def kept_positions(states: Tensor, logits_to_keep: int | Tensor) -> Tensor:
    """Return the states [batch, tokens, width] of that many last tokens (0 is all), or of those that int64 [positions] names."""
    if isinstance(logits_to_keep, Tensor):
        return states.index_select(1, logits_to_keep)
    return states[:, -logits_to_keep:] if logits_to_keep else states


def next_token_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy, in float32, of predicting each label from the position before it.

    Args:
        logits: [batch, tokens, vocabulary].
        labels: int64 [batch, tokens]; -100 does not count.
    """
    # The labels are shifted, not the logits: they are smaller by the size of the vocabulary.
    targets = F.pad(labels[:, 1:], (0, 1), value=-100)
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), targets.reshape(-1), ignore_index=-100)


def classification_loss(logits: Tensor, labels: Tensor | None) -> Tensor | None:
    """Return the mean cross-entropy of labels, int64 [...], given logits [..., classes]; None without labels."""
    if labels is None:
        return None
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), labels.reshape(-1), ignore_index=-100)


def sinusoids(values: Tensor, width: int, cosine_first: bool = False, shift: float = 1.0) -> Tensor:
    """Return numbers as sines and cosines of wavelengths from 2 pi to 10000 times that, float32 [numbers, width].

    Vaswani et al., 2017, section 3.5, with the sines of all wavelengths together.

    Args:
        values: [numbers].
        width: of the result; the last column of an odd one is zero.
        cosine_first: whether cosines come before sines.
        shift: how many steps the longest wavelength is left out by: 1 for none, 0 for one.
    """
    half = width // 2
    rates = torch.exp(torch.arange(half, device=values.device).float() * (-math.log(10000) / (half - shift)))
    angles = values.float().unsqueeze(1) * rates
    parts = [angles.cos(), angles.sin()]
    return F.pad(torch.cat(parts if cosine_first else parts[::-1], dim=1), (0, width - 2 * half))


def check_heads(**sizes: int) -> None:
    """Raise ValueError unless the first of two sizes, which come by their names in a configuration, is a multiple of the other."""
    (width, size), (heads, count) = sizes.items()
    if size % count:
        raise ValueError(f"{width}={size} is no multiple of {heads}={count}")


def attend(
    query: Tensor, key: Tensor, value: Tensor, heads: int, mask: Tensor | None = None, dropout: float = 0.0,
    is_causal: bool = False, scale: float | None = None,
) -> Tensor:  # fmt: skip
    """Return attention with several heads over projected inputs.

    Args:
        query: [batch, tokens, width].
        key, value: [batch, other tokens, width].
        heads: into how many the width is split.
        mask: what each token sees, bool or added to scores, broadcast to [batch, heads, tokens, other tokens].
        dropout: of the attention's weights.
        is_causal: whether tokens see earlier ones only.
        scale: of the scores; one over the square root of a head's width by default.

    Returns:
        [batch, tokens, width].
    """
    batch, tokens, width = query.shape
    parts = [each.reshape(batch, each.shape[1], heads, -1).transpose(1, 2) for each in (query, key, value)]
    attended = F.scaled_dot_product_attention(
        *parts, attn_mask=mask, dropout_p=dropout, is_causal=is_causal, scale=scale
    )
    return attended.transpose(1, 2).reshape(batch, tokens, width)
