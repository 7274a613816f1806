"""Gradients of tables that name only the rows that were looked up: sparse tensors, which a floor above this one has."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.dtypes import int64
from ...tensors.tensor import Tensor
from ..common import attach, needs_gradient

#: makes a sparse tensor of positions ``[1, n]``, values ``[n, features]`` and sizes: put here where there are sparse tensors
makers: list[Callable[..., Tensor]] = []


def with_sparse_gradient(rows: Tensor, weight: Tensor, index: Tensor, padding_idx: int | None) -> Tensor:
    """Return rows of a table, ``[*index, features]``, whose gradient names only the rows at ``index``, but for the padding's.

    Raises:
        NotImplementedError: this library is used without its sparse tensors.
    """
    if not needs_gradient(weight):
        return rows
    if not makers:
        raise NotImplementedError("embedding: sparse gradients need webgpu_torch's sparse tensors: import webgpu_torch")
    saved, sizes = index._save(), tuple(weight.shape)

    def run_backward(grad: Tensor) -> Tensor:
        # What is looked up next may be written where this was: the gradient keeps what was looked up.
        places = saved.unpack().to(int64).reshape(-1).clone()
        values = grad.reshape(places.shape[0], sizes[1])
        if padding_idx is not None:
            kept = places != padding_idx
            places, values = places[kept], values[kept]
        return makers[-1](places.unsqueeze(0), values, sizes)

    return attach(rows, "EmbeddingBackward0", (weight,), run_backward)
