"""Checks of the parts of sparse tensors, under the names that PyTorch has for them: they raise where parts do not fit together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from webgpu_torch_core import Tensor, layout

from .layouts import sparse_bsc, sparse_bsr, sparse_csc, sparse_csr
from .making import sparse_compressed_tensor, sparse_coo_tensor


def _validate_sparse_coo_tensor_args(
    indices: Tensor,
    values: Tensor,
    size: Sequence[int],
    is_coalesced: bool | None = None,
    check_pinning: bool | None = None,
) -> None:
    """Raise RuntimeError where positions ``[sparse dimensions, n]`` and values ``[n, ...]`` make no tensor of the sizes."""
    made = sparse_coo_tensor(indices.detach(), values.detach(), size)
    if is_coalesced:
        flat = made._flat()
        if not bool((flat[1:] > flat[:-1]).all()):
            raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")


def _validate_sparse_compressed_tensor_args(
    compressed_indices: Tensor, plain_indices: Tensor, values: Tensor, size: Sequence[int], layout: layout,
    check_pinning: bool | None = None,
) -> None:  # fmt: skip
    """Raise RuntimeError where pointers, places and values make no compressed tensor of the sizes in the layout."""
    sparse_compressed_tensor(compressed_indices, plain_indices, values.detach(), size, layout=layout)


def _of_layout(kind: layout) -> Callable[..., None]:
    def validate(
        compressed: Tensor, plain: Tensor, values: Tensor, size: Sequence[int], check_pinning: bool | None = None
    ) -> None:
        _validate_sparse_compressed_tensor_args(compressed, plain, values, size, kind, check_pinning)

    validate.__doc__ = (
        f"Raise RuntimeError where pointers, places and values make no tensor of the sizes in ``{kind}``."
    )
    return validate


_validate_sparse_csr_tensor_args = _of_layout(sparse_csr)
_validate_sparse_csc_tensor_args = _of_layout(sparse_csc)
_validate_sparse_bsr_tensor_args = _of_layout(sparse_bsr)
_validate_sparse_bsc_tensor_args = _of_layout(sparse_bsc)
