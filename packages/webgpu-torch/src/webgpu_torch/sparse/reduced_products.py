"""Products of a sparse matrix by rows with a dense one whose terms another reduction than the sum joins."""

from __future__ import annotations

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.operations.common import attach
from webgpu_torch_core.tensors.saved_tensors import SavedTensor

from .base import AnySparse
from .compressed import CompressedTensor


def _mean(values: Tensor, other: Tensor, rows: Tensor, columns: Tensor, counts: Tensor) -> Tensor:
    """Return means of products ``[m, n]``, whose gradients are divided by ``counts`` ``[m, 1]`` where PyTorch divides them."""
    saved = SavedTensor(values), SavedTensor(other)
    with torch.no_grad():
        terms = values[:, None] * other.index_select(0, columns)
        result = terms.new_zeros((len(counts), terms.shape[1])).index_add(0, rows, terms) / counts

    def run_backward(cotangent: Tensor) -> tuple[Tensor, Tensor]:
        values, other = (each.unpack() for each in saved)
        spread, of_row = cotangent.index_select(0, rows), counts.index_select(0, rows)
        ours = (spread * other.index_select(0, columns)).sum(1) / of_row[:, 0]
        return ours, torch.zeros_like(other).index_add(0, columns, values[:, None] / of_row * spread)

    return attach(result, "SparseMmReduceImplBackward0", (values, other), run_backward)


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
    rows, columns, values = matrix._elements()
    if reduce == "mean":
        return _mean(values, other, rows, columns, counts.clamp(min=1).to(other.dtype))
    terms = values[:, None] * other.index_select(0, columns)
    nothing = terms.new_zeros((matrix.shape[0], terms.shape[1]))
    lines, fixed = rows[:, None].expand(terms.shape), terms.detach()
    best = nothing.scatter_reduce(0, lines, fixed, "a" + reduce[-3:], include_self=False)[rows]
    # The gradient goes to one term alone, the first of the equal ones.
    places = torch.arange(len(rows), device=rows.device)[:, None]
    places = torch.where((fixed == best) | fixed.isnan(), places, len(rows) - 1)
    first = torch.full(nothing.shape, len(rows) - 1, device=rows.device).scatter_reduce(0, lines, places, "amin")
    return torch.where(counts != 0, terms.gather(0, first), nothing)
