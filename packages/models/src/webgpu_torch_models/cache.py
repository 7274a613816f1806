"""A key-value cache whose write position lives in a tensor.

Every decoding step has the same shapes and the same Python values as the one before, so a captured step can be
replayed: the keys and values of new tokens are written with ``index_copy_`` at the position, and attention runs over
the cache under a mask computed from the position. The cache is a window of one of few lengths (:func:`window_of`); where it is
full, its contents move to the next longer one, for which the step is captured once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F

#: the smallest window, and from which one on there is one between it and twice of it
_LEAST, _LONG = 128, 512
#: shorter prompts are taken as they are
_SHORT = 8


def bucket_of(length: int) -> int:
    """Return how many tokens a prompt is filled up to, one of few numbers: at most an eighth of the next power of two more."""
    step = (1 << (length - 1).bit_length()) // 8
    return length if length <= _SHORT else -(-length // step) * step


def window_of(length: int) -> int:
    """Return the window that holds ``length`` tokens: 128 and its doubles, and half as much more from 512 on."""
    double = _LEAST << (-(-length // _LEAST) - 1).bit_length()
    between = double // 4 * 3
    return between if double > _LONG and length <= between else double


class CacheStep:
    """One forward call's view of the cache.

    Args:
        buffers: each layer's keys, and after them its values: [batch, 2 * heads, window, head_dim].
        position: int64 [1], how many tokens the cache held before this call.
        count: how many tokens this call adds to each sequence.
        length: how many tokens the cache holds after this call.
        padding: int64 [batch], how many tokens at each sequence's start are padding; None if there are none.
        is_first: whether the cache was empty before this call.
        context: what an encoder made, which every step reads: keys and values of every layer in turn, for instance.
        window: how many places of the buffers attention looks at; None is all.
    """

    def __init__(
        self,
        buffers: Sequence[Tensor],
        position: Tensor,
        count: int,
        length: int,
        padding: Tensor | None = None,
        is_first: bool = False,
        context: Sequence[Tensor] = (),
        window: int | None = None,
    ) -> None:
        self.buffers, self.context = buffers, context
        self.window, self.length = window or buffers[0].shape[2], length
        self.positions = position + torch.arange(count, device=position.device)
        self.position_ids = self.positions.unsqueeze(0)
        if padding is not None:
            self.position_ids = (self.position_ids - padding.unsqueeze(1)).clamp(min=0)
        self.count, self.padding, self.is_first = count, padding, is_first
        self.is_causal = is_first and padding is None
        """Whether the new tokens see exactly each other, so that no cached value is needed."""

    def mask_within(self, sliding_window: int | None = None) -> Tensor | None:
        """Return which tokens each new token sees: bool [batch or 1, 1, count, tokens]; None is itself and earlier ones.

        Args:
            sliding_window: how many tokens, itself included, a token sees at most; None is all.
        """
        if self.is_causal and (sliding_window is None or sliding_window >= self.count):
            return None
        rows = self.positions.unsqueeze(-1)
        seen = torch.arange(self.count if self.is_causal else self.window, device=rows.device).unsqueeze(0)
        near = seen <= rows
        if sliding_window is not None and sliding_window < self.window:
            near = near & (seen > rows - sliding_window)
        if self.padding is None:
            return near[None, None] if near.ndim == 2 else near.unsqueeze(1)
        # A padding token sees itself: a row that sees nothing would be all NaN.
        return (near & ((seen >= self.padding[:, None, None]) | (seen == rows))).unsqueeze(1)

    def update(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store a layer's new keys and values [batch, heads, count, head_dim]; return those to attend to."""
        # One buffer for both, as one kernel writes both.
        cached = self.update_both(layer, torch.cat((keys, values), dim=1))
        return (keys, values) if self.is_causal else cached

    def update_both(self, layer: int, both: Tensor) -> tuple[Tensor, Tensor]:
        """Store a layer's new keys and after them its values, [batch, 2 * heads, count, head_dim]; return those to attend to.

        What computes both, one beside the other, can store them, too.
        """
        buffer, heads = self.buffers[layer], both.shape[1] // 2
        if self.is_first:
            # All of it, with zeros behind: what weights of zero are multiplied with must be numbers.
            buffer.copy_(F.pad(both, (0, 0, 0, buffer.shape[2] - self.count)))
        else:
            buffer.index_copy_(2, self.positions, both)
        whole = buffer[:, :, : self.count if self.is_causal else self.window]
        return whole[:, :heads], whole[:, heads:]


class KeyValueCache:
    """Keys and values of the tokens a model has seen.

    Args:
        layers, batch_size, heads, head_dim: sizes.
        capacity: the most tokens that it may hold; memory is taken as they come.
        dtype, device: of the buffers.
        padding: int64 [batch], tokens of padding at each sequence's start.

    Attributes:
        buffers: each layer's keys and values: [batch, 2 * heads, window, head_dim].
        context: what an encoder made, which every step reads.
    """

    def __init__(
        self,
        layers: int,
        batch_size: int,
        heads: int,
        capacity: int,
        head_dim: int,
        dtype: Any = None,
        device: Any = None,
        padding: Tensor | None = None,
    ) -> None:
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.window = 0
        self.buffers: list[Tensor] = []
        self._layers, self._sizes = layers, (batch_size, 2 * heads, head_dim)
        self._options: dict[str, Any] = {"dtype": dtype, "device": device}
        self.padding = padding
        self.context: Sequence[Tensor] = ()
        self.capacity = capacity
        self.length = 0
        """The host's copy of the position."""

    def clear(self) -> None:
        """Forget all tokens."""
        self.crop(0)

    def crop(self, length: int) -> None:
        """Forget all but the first ``length`` tokens."""
        self.length = length
        self.position = torch.full_like(self.position, length)

    def reserve(self, tokens: int) -> int:
        """Have a window that holds so many tokens; return its length."""
        more = window_of(tokens) - self.window
        if more > 0:
            self.window += more
            if self.buffers:
                self.buffers = [F.pad(each, (0, 0, 0, more)) for each in self.buffers]
            else:
                batch, heads, dim = self._sizes
                shape = batch, heads, self.window, dim
                # The first call writes all of them.
                self.buffers = [torch.empty(shape, **self._options) for _ in range(self._layers)]
        return self.window

    def take(self, count: int) -> None:
        """Count ``count`` more tokens.

        Raises:
            ValueError: they do not fit.
        """
        if self.length + count > self.capacity:
            raise ValueError(
                f"the key-value cache holds {self.length} of at most {self.capacity} tokens; {count} more do not fit"
            )
        self.length += count

    def step(self, count: int) -> CacheStep:
        """Return the view with which a forward call adds ``count`` tokens, and move the position past them.

        Raises:
            ValueError: the tokens do not fit.
        """
        is_first = self.length == 0
        self.take(count)
        self.reserve(self.length)
        window = min(self.window, window_of(self.length))
        result = CacheStep(
            self.buffers, self.position, count, self.length, self.padding, is_first, self.context, window
        )
        self.position = self.position + count
        return result
