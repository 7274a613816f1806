"""``torch.func``'s transforms, and batches in a given number of parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from webgpu_torch_core.tensors.pytree import tree_leaves

from ..func import grad as grad
from ..func import grad_and_value as grad_and_value
from ..func import vmap as vmap

Dimensions: TypeAlias = Any


def chunk_vmap(
    func: Callable[..., object],
    in_dims: Dimensions = 0,
    out_dims: Dimensions = 0,
    randomness: str = "error",
    chunks: int = 2,
) -> Callable[..., object]:
    """Return ``vmap(func)``, which takes the examples of a batch in so many parts, one after the other.

    Args:
        func, in_dims, out_dims, randomness: as for :func:`torch.vmap`.
        chunks: the number of parts.
    """

    def mapped(*args: object, **kwargs: object) -> object:
        dims = tree_leaves(in_dims) if isinstance(in_dims, tuple) else [in_dims] * len(tree_leaves(args))
        count = next(each.shape[dim] for each, dim in zip(tree_leaves(args), dims, strict=True) if dim is not None)
        return vmap(func, in_dims, out_dims, randomness, chunk_size=max(1, -(-count // chunks)))(*args, **kwargs)

    return mapped
