"""Elements of rows read at positions that differ per row of a batch but not per channel."""

from __future__ import annotations

from typing import Any

from ..dtypes import int64
from ..tensor import Tensor
from .common import attach, needs_gradient
from .gathering import gather, index_add


def sampled(input: Tensor, index: Tensor) -> Tensor:
    """Return [n, c, p]: the elements of [n, c, s] at integer positions [n, p] (in range), the same for all channels.

    The gradient adds whole rows of channels, so that it runs over positions once for all channels.
    """
    batch, channels, _ = input._layout.shape
    places = index.unsqueeze(1).expand((batch, channels, index.shape[1]))
    result = gather(input.detach(), 2, places)
    if needs_gradient(input):
        shape, saved = tuple(input._layout.shape), index._save()
        attach(result, "GridSamplerBackward0", (input,), lambda grad: _returned(grad, saved.unpack(), shape))
    return result


def _returned(grad: Tensor, index: Tensor, shape: tuple[int, ...]) -> Any:
    """Return [n, c, s]: gradients [n, c, p] added at positions [n, p]."""
    from .creation import arange

    batch, channels, size = shape
    flat = index.to(int64)
    if batch > 1:
        flat = flat + arange(batch, device=index.device).unsqueeze(1) * size
    rows = grad.permute((0, 2, 1)).reshape((-1, channels))
    total = index_add(grad.new_zeros((batch * size, channels)), 0, flat.reshape(-1), rows)
    return total.reshape((batch, size, channels)).permute((0, 2, 1))
