"""Inclusive scans with an associative function of the caller, as ``torch._higher_order_ops.associative_scan``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import webgpu_torch_core as core

from ..utils import _pytree


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """Return ``y[i] = combine_fn(y[i - 1], x[i])`` along a dimension, starting with ``y[0] = x[0]``.

    Computed in ``ceil(log2(n))`` steps, each of which combines what lies a power of two apart (Hillis and Steele, "Data
    parallel algorithms", 1986); gradients flow through them.

    Args:
        combine_fn: an associative function of two trees like ``xs`` that returns another.
        xs: a tensor or a tree of tensors, all of the same size along ``dim``.
        dim: the dimension to scan.
        reverse: whether to start at its end.
        combine_mode: ``"pointwise"`` or ``"generic"``; both are computed alike.

    Raises:
        ValueError: no tensors are given, their sizes differ, or the mode is unknown.
    """
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    leaves, structure = _pytree.tree_flatten(xs)
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    sizes = {leaf.shape[dim] for leaf in leaves}
    if len(sizes) > 1:
        raise ValueError(f"All xs leaves must have the same size along dimension {dim}, but got {sorted(sizes)}")
    size = sizes.pop()
    if reverse:
        leaves = [core.flip(leaf, [dim]) for leaf in leaves]
    distance = 1
    while distance < size:
        earlier = [leaf.narrow(dim, 0, size - distance) for leaf in leaves]
        later = [leaf.narrow(dim, distance, size - distance) for leaf in leaves]
        combined = combine_fn(_pytree.tree_unflatten(earlier, structure), _pytree.tree_unflatten(later, structure))
        leaves = [
            core.cat([leaf.narrow(dim, 0, distance), rest], dim)
            for leaf, rest in zip(leaves, _pytree.tree_flatten(combined)[0], strict=True)
        ]
        distance *= 2
    if reverse:
        leaves = [core.flip(leaf, [dim]) for leaf in leaves]
    return _pytree.tree_unflatten(leaves, structure)
