"""Sparse tensors by coordinates, as ``torch.sparse``: made of positions and values, multiplied, added, summed and made dense.

Other layouts (rows or columns compressed, blocks) are not there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor, device, dtype, layout
from webgpu_torch_core.dispatch.overrides import public

if TYPE_CHECKING:
    from ._coordinates import SparseTensor

#: how such tensors are stored
sparse_coo = layout("sparse_coo")

__all__ = ["check_sparse_tensor_invariants", "mm", "sparse_coo_tensor", "sum", "to_sparse"]


class check_sparse_tensor_invariants(contextlib.ContextDecorator):
    """A switch for checks of positions, also for a block or a function: it is read back as it was set; positions are always checked.

    Args:
        enable: whether it is on in the block.
    """

    _enabled = False

    def __init__(self, enable: bool = True) -> None:
        self._wanted = enable
        self._before: list[bool] = []

    @staticmethod
    def is_enabled() -> bool:
        """Return whether it is on."""
        return check_sparse_tensor_invariants._enabled

    @staticmethod
    def enable() -> None:
        """Turn it on."""
        check_sparse_tensor_invariants._enabled = True

    @staticmethod
    def disable() -> None:
        """Turn it off."""
        check_sparse_tensor_invariants._enabled = False

    def __enter__(self) -> None:
        self._before.append(self.is_enabled())
        check_sparse_tensor_invariants._enabled = self._wanted

    def __exit__(self, *_: object) -> None:
        check_sparse_tensor_invariants._enabled = self._before.pop()


# Their class is loaded when the first one is made: calls then look for them among their arguments.
def sparse_coo_tensor(
    indices: Tensor | Sequence[Sequence[int]],
    values: Tensor | Sequence[object] | float,
    size: Sequence[int] | None = None,
    *,
    dtype: dtype | None = None,
    device: device | str | None = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """Return a sparse tensor of positions ``[sparse dimensions, n]`` and values ``[n, ...]``.

    Args:
        indices: the positions; values at one that repeats are added.
        values: the values.
        size: the sizes; by default what holds the positions.
        dtype, device: of the values, by default their own.
        requires_grad: let them take part in a graph.
        check_invariants: positions are always checked.
        is_coalesced: positions are known to be sorted and each there once.

    Raises:
        RuntimeError: positions and values do not fit together, or positions are not inside of the sizes.
    """
    from ._coordinates import SparseTensor

    del check_invariants
    held = torch.as_tensor(values, dtype=dtype, device=device)
    positions = torch.as_tensor(indices, dtype=torch.int64, device=held.device)
    if positions.dim() != 2 or held.dim() < 1 or positions.shape[1] != held.shape[0]:
        raise RuntimeError(
            f"indices of shape [sparse_dim, nnz] and values of shape [nnz, ...] are asked for, not {tuple(positions.shape)} and "
            f"{tuple(held.shape)}"
        )
    highest = [int(row.max()) + 1 if len(row) else 0 for row in positions]
    sizes = [*highest, *held.shape[1:]] if size is None else list(size)
    if len(sizes) != len(positions) + held.dim() - 1 or any(most > each for most, each in zip(highest, sizes)):
        raise RuntimeError(
            f"size {sizes} does not hold positions up to {[each - 1 for each in highest]} of values {list(held.shape[1:])}"
        )
    if positions.numel() and int(positions.min()) < 0:
        raise RuntimeError("found negative index in indices of a sparse tensor")
    made = SparseTensor.make(positions, held.detach() if requires_grad else held, sizes, bool(is_coalesced))
    return made.requires_grad_() if requires_grad else made


def to_sparse(
    input: Tensor,
    sparse_dim: int | None = None,
    *,
    layout: layout | None = None,
    blocksize: Sequence[int] | None = None,
    dense_dim: int | None = None,
) -> SparseTensor:
    """Return a tensor's elements that are not zero, with their positions in the first ``sparse_dim`` dimensions, all by default.

    Args:
        input: of any shape and type.
        sparse_dim: how many dimensions positions have.
        layout: ``torch.sparse_coo``.
        blocksize, dense_dim: of layouts that are compressed; the second is looked at by no other.

    Raises:
        NotImplementedError: another layout than ``sparse_coo`` is asked for.
        RuntimeError: ``blocksize`` is given.
    """
    del dense_dim
    from ._coordinates import _from_dense

    if layout not in (None, sparse_coo):
        raise NotImplementedError(f"sparse tensors have the layout torch.sparse_coo here, not {layout}")
    if blocksize is not None:
        raise RuntimeError(f"to_sparse(): blocksize {tuple(blocksize)} is for blocks, which sparse_coo has not")
    return _from_dense(input, sparse_dim)


def mm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """Return a product of matrices ``[m, k] @ [k, n]`` of which the first, at least, is sparse."""
    return mat1 @ mat2


def sum(input: Tensor, dim: int | Sequence[int] | None = None, dtype: dtype | None = None) -> Tensor:
    """Return the sum of a sparse tensor, ``[sparse dimensions ...]`` over some of them or over all."""
    return input.sum(dim, dtype=dtype) if dim is not None else input.sum(dtype=dtype)


for _name in ("to_sparse", "to_sparse_coo"):
    setattr(Tensor, _name, public(to_sparse, f"torch.Tensor.{_name}"))
