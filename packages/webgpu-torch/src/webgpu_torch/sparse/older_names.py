"""PyTorch's older names of products with sparse matrices and of sparse tensors of one element type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import webgpu_torch_core as torch
from webgpu_torch_core import Size, Tensor
from webgpu_torch_core.api.typed_tensors import TYPES, TypedTensorType

from .layouts import sparse_coo
from .making import sparse_coo_tensor

if TYPE_CHECKING:
    from .coordinates import SparseTensor


def hspmm(mat1: SparseTensor, mat2: Tensor) -> SparseTensor:
    """Return ``mat1 @ mat2`` of a sparse matrix ``[m, k]`` and a dense one ``[k, n]`` as a sparse tensor of the rows that are there."""
    rows = mat1.coalesce().indices()[0].unique()
    return sparse_coo_tensor(rows[None], (mat1 @ mat2)[rows], (mat1.shape[0], mat2.shape[1]), is_coalesced=True)


def hsmm(input: SparseTensor, mat2: Tensor) -> SparseTensor:
    """Return what :func:`hspmm` does, ``input @ mat2`` of matrices ``[m, k]`` and ``[k, n]``."""
    return hspmm(input, mat2)


def smm(input: SparseTensor, mat2: Tensor) -> SparseTensor:
    """Return ``input @ mat2`` of a sparse matrix ``[m, k]`` and a dense one ``[k, n]`` as a sparse matrix ``[m, n]``."""
    rows = hspmm(input, mat2)
    values, width = rows.values(), mat2.shape[1]
    columns = torch.arange(width, device=mat2.device).repeat(values.shape[0])
    places = torch.stack([rows.indices()[0].repeat_interleave(width), columns])
    return sparse_coo_tensor(places, values.flatten(), rows.shape)


def sspaddmm(
    input: SparseTensor, mat1: SparseTensor, mat2: Tensor, *, beta: complex = 1, alpha: complex = 1
) -> SparseTensor:
    """Return ``beta * input + alpha * (mat1 @ mat2)`` of sparse matrices ``[m, n]`` and ``[m, k]`` and a dense one ``[k, n]``, sparse."""
    product = smm(mat1, mat2)
    places = torch.cat([input._indices(), product._indices()], dim=1)
    values = torch.cat([input._values() * beta, product._values() * alpha])
    return sparse_coo_tensor(places, values, input.shape)


class SparseTensorType(TypedTensorType):
    """The type of these names: sparse tensors by coordinates of the element type are their instances."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.layout is sparse_coo and instance.dtype is cls.dtype

    def __call__(cls, *args: Tensor | Size | int, device: torch.device | str = "cpu") -> SparseTensor:  # type: ignore[override]
        """Return a sparse tensor of positions, values and sizes, or of sizes and without values, as PyTorch's legacy constructors."""
        given: list[Any] = list(args)
        if given and isinstance(given[0], Tensor):
            return sparse_coo_tensor(*given, device=device)
        sizes = given[0] if given and isinstance(given[0], Size) else given or (0,)
        return sparse_coo_tensor(sizes, dtype=cls.dtype, device=device)


TENSORS = {
    name: SparseTensorType(name, (), {"dtype": dtype, "__module__": "torch.sparse"})
    for name, dtype in TYPES.items()
    if name != "BoolTensor"
}
