"""Named orders of elements in memory."""

from __future__ import annotations

from functools import lru_cache

from ..ir.layouts import Layout, channels_last_strides, contiguous_layout, dense_strides, is_dense, layout


class memory_format:
    """A named order of elements in memory."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")

#: how many dimensions a tensor has whose channels are the innermost in memory
CHANNELS_LAST_RANKS = {channels_last: 4, channels_last_3d: 5}


def dense_layout(source: Layout, order: memory_format | None) -> Layout:
    """Return the layout of a copy: in a named order of elements, else in that of the source.

    Raises:
        RuntimeError: the order is for another number of dimensions.
        TypeError: it is no such order.
    """
    if order is None or order is preserve_format:
        return _preserved(source)
    if order is contiguous_format:
        return contiguous_layout(source.shape)
    return layout(source.shape, _channels_last_strides(source.shape, order))


@lru_cache(maxsize=4096)
def _preserved(source: Layout) -> Layout:
    strides = source.strides if source.numel == 0 or is_dense(source) else dense_strides(source.shape, source.strides)
    return layout(source.shape, strides)


def _channels_last_strides(shape: tuple[int, ...], order: memory_format) -> tuple[int, ...]:
    rank = CHANNELS_LAST_RANKS.get(order)
    if rank is None:
        raise TypeError(f"memory_format must be a torch.memory_format, not {type(order).__name__}")
    if len(shape) != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {order.name} format")
    return channels_last_strides(shape)


def has_memory_format(source: Layout, order: memory_format | None) -> bool:
    """Return whether elements lie in a named order; strides of dimensions of one element do not matter.

    Raises:
        TypeError: it is no such name.
    """
    if not isinstance(order, memory_format):
        raise TypeError(f"memory_format must be torch.memory_format, not {order.__class__.__name__}")
    if order not in CHANNELS_LAST_RANKS:
        return source.is_contiguous
    shape = source.shape
    if len(shape) != CHANNELS_LAST_RANKS[order] or 0 in shape:
        return False
    wanted = _channels_last_strides(shape, order)
    return all(size == 1 or own == stride for size, own, stride in zip(shape, source.strides, wanted, strict=True))


def suggested_format(source: Layout) -> memory_format:
    """Return the order in which results for an image or a volume lie: channels last where its own channels lie so.

    The rules for dimensions of one element are those of PyTorch's ``suggest_memory_format``.
    """
    order = {rank: each for each, rank in CHANNELS_LAST_RANKS.items()}.get(len(source.shape))
    if order is None or 0 in source.shape or source.strides[1] == 0:
        return contiguous_format
    least = 0
    for dimension in (1, *range(len(source.shape) - 1, 1, -1), 0):
        stride = source.strides[dimension]
        if stride < least or (dimension == 0 and least == source.strides[1]):
            return contiguous_format
        least = stride * source.shape[dimension]
    return order


@lru_cache(maxsize=1 << 12)
def as_image(lines: Layout) -> Layout:
    """Return the layout of lines ``[n, c, length]`` as images of one row, ``[n, c, 1, length]``."""
    (count, channels, length), (first, second, last) = lines.shape, lines.strides
    return layout((count, channels, 1, length), (first, second, length * last, last), lines.offset)
