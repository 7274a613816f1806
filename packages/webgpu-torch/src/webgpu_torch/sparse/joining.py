"""Sparse tensors by coordinates side by side: ``torch.cat`` and ``torch.stack``."""

from __future__ import annotations

from collections.abc import Sequence

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.ir.layouts import wrap_dimension

from .base import AnySparse
from .coordinates import SparseTensor
from .nodes import noted


def cat(tensors: Sequence[Tensor], dim: int = 0) -> SparseTensor:
    """Return sparse tensors of the same sizes but in one dimension, one after the other in that dimension.

    Raises:
        RuntimeError: one is dense or in a compressed layout, or sizes or numbers of sparse dimensions differ.
    """
    parts = [_sparse(each, number) for number, each in enumerate(tensors)]
    first = parts[0]
    dim, kept = wrap_dimension(dim, len(first._sizes)), first.sparse_dim()
    for number, each in enumerate(parts):
        if (each.sparse_dim(), each.dense_dim()) != (kept, first.dense_dim()):
            raise RuntimeError(
                f"All tensors must have the same sparse_dim and dense_dim: {kept}, {first.dense_dim()}, but tensor at position "
                f"{number} has {each.sparse_dim()}, {each.dense_dim()}."
            )
        if any(
            one != other
            for place, (one, other) in enumerate(zip(each._sizes, first._sizes, strict=True))
            if place != dim
        ):
            raise RuntimeError(
                f"All tensors must have the same shape: {list(first._sizes)} (except in the concatenating dimension), but found shape: "
                f"{list(each._sizes)} at position {number}."
            )
    total = sum(each._sizes[dim] for each in parts)
    sizes = (*first._sizes[:dim], total, *first._sizes[dim + 1 :])
    positions, values, start = [], [], 0
    for each in parts:
        place, held = each._positions, each._held
        if dim < kept:
            offset = torch.zeros((kept, 1), dtype=torch.int64, device=place.device)
            offset[dim] = start
            place = place + offset
        else:
            before = (*held.shape[: dim - kept + 1], start, *held.shape[dim - kept + 2 :])
            after = (*before[: dim - kept + 1], total - start - each._sizes[dim], *before[dim - kept + 2 :])
            held = torch.cat([held.new_zeros(before), held, held.new_zeros(after)], dim - kept + 1)
        positions.append(place)
        values.append(held)
        start += each._sizes[dim]
    held = torch.cat(values)
    return SparseTensor.make(torch.cat(positions, 1), held, sizes, len(held) < 2)


@noted("StackBackward0")
def stack(tensors: Sequence[Tensor], dim: int = 0) -> SparseTensor:
    """Return sparse tensors of the same sizes, numbered by a new dimension.

    Raises:
        RuntimeError: one is dense or in a compressed layout, or sizes or numbers of sparse dimensions differ.
    """
    dim = wrap_dimension(dim, len(_sparse(tensors[0], 0)._sizes) + 1)
    return cat([_sparse(each, number).unsqueeze(dim) for number, each in enumerate(tensors)], dim)


def _sparse(tensor: Tensor, number: int) -> SparseTensor:
    if not isinstance(tensor, SparseTensor):
        kind = f"a tensor in the layout {tensor.layout}" if isinstance(tensor, AnySparse) else "a dense tensor"
        raise RuntimeError(f"Concatenating sparse tensors, but {kind} was found at position {number}.")
    return tensor


concat = concatenate = cat


def hstack(tensors: Sequence[Tensor]) -> SparseTensor:
    """Return sparse tensors side by side in the second dimension, vectors in their only one."""
    return cat(tensors, 0 if tensors[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> SparseTensor:
    """Return sparse tensors one below the other, vectors as rows."""
    rows = [_sparse(each, number) for number, each in enumerate(tensors)]
    return cat([each.unsqueeze(0) if each.ndim == 1 else each for each in rows], 0)
