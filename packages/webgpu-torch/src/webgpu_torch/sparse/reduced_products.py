"""Products of a sparse matrix by rows with a dense one whose terms another reduction than the sum joins."""

from __future__ import annotations

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from .base import AnySparse
from .compressed import CompressedTensor


def reduced_matmul(matrix: CompressedTensor, other: Tensor, reduce: str) -> Tensor:
    """Return the product ``[m, k] @ [k, n]``, the terms that a row's values give joined by a reduction: zero where it has none.

    Raises:
        RuntimeError: sizes or types do not match, ``other`` is sparse, or no reduction has the name.
    """
    if isinstance(other, AnySparse):
        raise RuntimeError(f"Expected tensor to have Strided Layout, but got tensor with {other.layout} Layout")
    if other.dim() != 2 or other.shape[0] != matrix.shape[1]:
        raise RuntimeError(
            f"Expected a tensor of dimension 2 and tensor.size[0] == {matrix.shape[1]} "
            f"but got: dimension {other.dim()} and tensor.size[0] = {other.shape[0] if other.dim() else None}"
        )
    if other.dtype is not matrix.dtype:
        raise RuntimeError(f"Expected 'other' to have scalar type {matrix.dtype}; but got {other.dtype} instead")
    counts = matrix.crow_indices().diff()[:, None]
    if reduce not in ("sum", "mean", "amax", "amin", "max", "min"):
        raise RuntimeError(f'Expect reduce to be one of "sum", "mean", "amax" and "amin", but got "{reduce}"')
    if reduce == "sum" or not matrix._nnz():
        return matrix.matmul(other)
    if reduce == "mean":
        return matrix.matmul(other) / counts.clamp(min=1).to(other.dtype)
    rows, columns, values = matrix._elements()
    terms = values[:, None] * other.index_select(0, columns)
    nothing = terms.new_zeros((matrix.shape[0], terms.shape[1]))
    lines, fixed = rows[:, None].expand(terms.shape), terms.detach()
    best = nothing.scatter_reduce(0, lines, fixed, "a" + reduce[-3:], include_self=False)[rows]
    # The gradient goes to one term alone, the first of the equal ones.
    places = torch.arange(len(rows), device=rows.device)[:, None]
    places = torch.where((fixed == best) | fixed.isnan(), places, len(rows) - 1)
    first = torch.full(nothing.shape, len(rows) - 1, device=rows.device).scatter_reduce(0, lines, places, "amin")
    return torch.where(counts != 0, terms.gather(0, first), nothing)
