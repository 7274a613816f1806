"""Keys and values of many sequences in one pool of pages, which sequences take and give back (Kwon et al., 2023).

A sequence's pages need not lie side by side: its row of a table says which they are. New tokens are written where the
table says, and attention runs over the pages of a window, gathered, under a mask computed from each sequence's position.
Page 0 belongs to nobody: rows that fill up a batch, and tokens that fill up a prompt, are written there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_models.cache import CacheStep

if TYPE_CHECKING:
    from webgpu_torch_models.pretrained import PreTrainedModel


class PagedStep(CacheStep):
    """One forward call's view of the pool.

    Args:
        buffers: each layer's keys, and after them its values: [pages * page_size, 2 * heads, head_dim].
        table: int64 [batch, pages], each sequence's pages in their order; 0 after its last.
        positions: int64 [batch, count], where new tokens stand in their sequences.
        page_size: in tokens.
        length: how many tokens the longest sequence has after this call.
        is_first: whether all tokens of the sequences are new.
    """

    def __init__(
        self, buffers: Sequence[Tensor], table: Tensor, positions: Tensor, page_size: int, length: int, is_first: bool
    ) -> None:
        self.buffers, self.table, self.page_size, self.length = buffers, table, page_size, length
        self.position_ids = self.positions = positions
        self.count, self.padding, self.context = positions.shape[1], None, ()
        self.window = table.shape[1] * page_size
        self.is_causal = is_first
        pages = table.gather(1, torch.div(positions, page_size, rounding_mode="floor"))
        self.places = (pages * page_size + positions % page_size).flatten()
        places = torch.arange(self.window, device=positions.device)
        # What others left behind may be no numbers at all, which no weight of zero takes away.
        self.strange = (places > positions[:, -1:])[:, :, None, None]

    def update_both(self, layer: int, both: Tensor) -> tuple[Tensor, Tensor]:
        """Store a layer's new keys and after them its values, [batch, 2 * heads, count, head_dim]; return those to attend to."""
        buffer, (batch, rows, _, dim) = self.buffers[layer], both.shape
        heads = rows // 2
        buffer.index_copy_(0, self.places, both.transpose(1, 2).reshape(-1, rows, dim))
        if self.is_causal:
            return both[:, :heads], both[:, heads:]
        pages = buffer.reshape(-1, self.page_size * rows * dim).index_select(0, self.table.flatten())
        own = pages.reshape(batch, self.window, rows, dim).masked_fill(self.strange, 0).transpose(1, 2)
        return own[:, :heads], own[:, heads:]


class PagePool:
    """Pages on a device, and which of them are free.

    Args:
        model: whose keys and values they hold.
        pages: how many there are.
        page_size: in tokens.
    """

    def __init__(self, model: PreTrainedModel, pages: int, page_size: int) -> None:
        layers, heads, dim = model.cache_sizes()
        shape = ((pages + 1) * page_size, 2 * heads, dim)
        self.buffers = [torch.zeros(shape, dtype=model.dtype, device=model.device) for _ in range(layers)]
        self.pages, self.page_size = pages, page_size
        self.free = list(range(pages, 0, -1))

    def needed(self, tokens: int) -> int:
        """Return how many pages hold so many tokens."""
        return -(-tokens // self.page_size)

    def take(self, count: int) -> list[int] | None:
        """Return free pages, which are free no more; None if there are not enough."""
        if count > len(self.free):
            return None
        return [self.free.pop() for _ in range(count)]

    def give_back(self, pages: list[int]) -> None:
        """Make pages free again."""
        self.free.extend(reversed(pages))
