"""Functions that make sparse tensors: of positions and values, of what is dense, of diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor, device, dtype, layout
from webgpu_torch_core.dispatch.overrides import public
from webgpu_torch_core.files.permissions import add_rebuilder

from .layouts import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from .nodes import converted, noted

if TYPE_CHECKING:
    from .base import Answer, AnySparse
    from .compressed import CompressedTensor
    from .coordinates import SparseTensor


@noted("SparseCooTensorWithDimsAndTensorsBackward0")
def sparse_coo_tensor(
    indices: Tensor | Sequence[Sequence[int]] | Sequence[int] = (),
    values: Tensor | Sequence[object] | float | None = None,
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
        indices: the positions; values at one that repeats are added. Without values the sizes of a tensor that has none.
        values: the values.
        size: the sizes; by default what holds the positions.
        dtype, device: of the values, by default their own.
        requires_grad: let them take part in a graph.
        check_invariants: positions are always checked.
        is_coalesced: positions are known to be sorted and each there once.

    Raises:
        RuntimeError: positions and values do not fit together, or positions are not inside of the sizes.
    """
    from .coordinates import SparseTensor

    del check_invariants
    if values is None:
        size = [*map(int, indices)] if size is None else size  # type: ignore[arg-type]
        indices, values, is_coalesced = torch.zeros(len(size), 0), torch.zeros(0, dtype=dtype, device=device), True
    held = torch.as_tensor(values, dtype=dtype, device=device)
    held = held.reshape(1) if held.dim() == 0 else held
    positions = torch.as_tensor(indices, dtype=torch.int64, device=held.device)
    if positions.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(positions.shape)}")
    if size is not None and len(size) != positions.shape[0] + held.dim() - 1:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = {positions.shape[0]}, "
            f"dense_dim = {held.dim() - 1}"
        )
    if positions.shape[1] != held.shape[0]:
        raise RuntimeError(
            "indices and values must have same nnz, but got nnz from indices: "
            f"{positions.shape[1]}, nnz from values: {held.shape[0]}"
        )
    counted = positions.shape[0] > 0 and positions.shape[1] > 0
    # One read of both bounds of all dimensions.
    bounds = torch.stack([positions.amin(1), positions.amax(1)], 1).tolist() if counted else [[0, -1]] * len(positions)
    highest = [most + 1 for _, most in bounds]
    sizes = [*highest, *held.shape[1:]] if size is None else list(size)
    for place, ((least, most), each) in enumerate(zip(bounds, sizes)):
        if least < 0:
            raise RuntimeError(f"found negative index {least} for dim {place}")
        if most >= each:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {place}, size is {each} but found index {most}"
            )
    if len(sizes) != len(positions) + held.dim() - 1:
        raise RuntimeError(
            f"size {sizes} does not hold positions up to {[each - 1 for each in highest]} of values {list(held.shape[1:])}"
        )
    made = SparseTensor.make(positions, held.detach() if requires_grad else held, sizes, bool(is_coalesced))
    return made.requires_grad_() if requires_grad else made


@noted("SparseCompressedTensorBackward0")
def sparse_compressed_tensor(
    compressed_indices: Tensor | Sequence[object],
    plain_indices: Tensor | Sequence[object],
    values: Tensor | Sequence[object],
    size: Sequence[int] | None = None,
    *,
    dtype: dtype | None = None,
    layout: layout | None = None,
    device: device | str | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> CompressedTensor:
    """Return a sparse tensor whose rows or columns are compressed: line ``i`` has the values ``compressed[i]`` to ``compressed[i + 1]``.

    Args:
        compressed_indices: where the lines begin, ``[*batch, lines + 1]``.
        plain_indices: the place of each value in its line, ``[*batch, n]``.
        values: ``[*batch, n, *dense]``, or ``[*batch, n, rows, columns, *dense]`` of blocks.
        size: the sizes; by default what holds the places.
        dtype, device: of the values, by default their own.
        layout: ``torch.sparse_csr``, ``sparse_csc``, ``sparse_bsr`` or ``sparse_bsc``.
        pin_memory: accepted.
        requires_grad: let the values take part in a graph.
        check_invariants: places are always checked.

    Raises:
        RuntimeError: the parts do not fit together, lines are not in order, or places are outside of the sizes.
    """
    from .checks import compressed

    del pin_memory, check_invariants
    if layout not in (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc):
        raise RuntimeError(
            f"sparse_compressed_tensor expected sparse compressed tensor layout but got {'none' if layout is None else layout}"
        )
    held = torch.as_tensor(values, dtype=dtype, device=device)
    pointers, places = (
        torch.as_tensor(each, dtype=None if isinstance(each, Tensor) else torch.int64, device=held.device)
        for each in (compressed_indices, plain_indices)
    )
    made = compressed(pointers, places, held.detach() if requires_grad else held, size, layout)
    return made.requires_grad_() if requires_grad else made


def rebuild(kind: layout, parts: tuple[Answer, ...]) -> SparseTensor | CompressedTensor:
    """Return the sparse tensor of a layout, of the parts that files of ``torch.save`` have for it.

    Raises:
        RuntimeError: they do not fit together.
        TypeError: they are other things.
    """
    if kind is sparse_coo:
        positions, values, size, *known = parts
        return sparse_coo_tensor(positions, values, tuple(size), is_coalesced=any(known))
    pointers, places, values, size = parts
    return sparse_compressed_tensor(pointers, places, values, tuple(size), layout=kind)


add_rebuilder("torch._utils._rebuild_sparse_tensor", rebuild)


@noted("SparseCompressedTensorBackward0")
def sparse_csr_tensor(
    crow_indices: Tensor | Sequence[object],
    col_indices: Tensor | Sequence[object],
    values: Tensor | Sequence[object],
    size: Sequence[int] | None = None,
    *,
    dtype: dtype | None = None,
    device: device | str | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> CompressedTensor:
    """Return a sparse tensor with compressed rows.

    Args:
        crow_indices: where the rows begin, ``[*batch, rows + 1]``.
        col_indices: the column of each value, ``[*batch, n]``.
        values: ``[*batch, n, *dense]``.
        size, dtype, device, pin_memory, requires_grad, check_invariants: as in :func:`torch.sparse_compressed_tensor`.

    Raises:
        RuntimeError: the parts do not fit together.
    """
    return sparse_compressed_tensor(
        crow_indices, col_indices, values, size, dtype=dtype, layout=sparse_csr, device=device,
        pin_memory=pin_memory, requires_grad=requires_grad, check_invariants=check_invariants,
    )  # fmt: skip


@noted("SparseCompressedTensorBackward0")
def sparse_csc_tensor(
    ccol_indices: Tensor | Sequence[object],
    row_indices: Tensor | Sequence[object],
    values: Tensor | Sequence[object],
    size: Sequence[int] | None = None,
    *,
    dtype: dtype | None = None,
    device: device | str | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> CompressedTensor:
    """Return a sparse tensor with compressed columns.

    Args:
        ccol_indices: where the columns begin, ``[*batch, columns + 1]``.
        row_indices: the row of each value, ``[*batch, n]``.
        values: ``[*batch, n, *dense]``.
        size, dtype, device, pin_memory, requires_grad, check_invariants: as in :func:`torch.sparse_compressed_tensor`.

    Raises:
        RuntimeError: the parts do not fit together.
    """
    return sparse_compressed_tensor(
        ccol_indices, row_indices, values, size, dtype=dtype, layout=sparse_csc, device=device,
        pin_memory=pin_memory, requires_grad=requires_grad, check_invariants=check_invariants,
    )  # fmt: skip


@noted("SparseCompressedTensorBackward0")
def sparse_bsr_tensor(
    crow_indices: Tensor | Sequence[object],
    col_indices: Tensor | Sequence[object],
    values: Tensor | Sequence[object],
    size: Sequence[int] | None = None,
    *,
    dtype: dtype | None = None,
    device: device | str | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> CompressedTensor:
    """Return a sparse tensor with compressed rows of blocks.

    Args:
        crow_indices: where the rows begin, ``[*batch, rows + 1]``.
        col_indices: the column of each block, ``[*batch, n]``.
        values: ``[*batch, n, rows, columns, *dense]``.
        size, dtype, device, pin_memory, requires_grad, check_invariants: as in :func:`torch.sparse_compressed_tensor`.

    Raises:
        RuntimeError: the parts do not fit together.
    """
    return sparse_compressed_tensor(
        crow_indices, col_indices, values, size, dtype=dtype, layout=sparse_bsr, device=device,
        pin_memory=pin_memory, requires_grad=requires_grad, check_invariants=check_invariants,
    )  # fmt: skip


@noted("SparseCompressedTensorBackward0")
def sparse_bsc_tensor(
    ccol_indices: Tensor | Sequence[object],
    row_indices: Tensor | Sequence[object],
    values: Tensor | Sequence[object],
    size: Sequence[int] | None = None,
    *,
    dtype: dtype | None = None,
    device: device | str | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> CompressedTensor:
    """Return a sparse tensor with compressed columns of blocks.

    Args:
        ccol_indices: where the columns begin, ``[*batch, columns + 1]``.
        row_indices: the row of each block, ``[*batch, n]``.
        values: ``[*batch, n, rows, columns, *dense]``.
        size, dtype, device, pin_memory, requires_grad, check_invariants: as in :func:`torch.sparse_compressed_tensor`.

    Raises:
        RuntimeError: the parts do not fit together.
    """
    return sparse_compressed_tensor(
        ccol_indices, row_indices, values, size, dtype=dtype, layout=sparse_bsc, device=device,
        pin_memory=pin_memory, requires_grad=requires_grad, check_invariants=check_invariants,
    )  # fmt: skip


@noted(converted)
def to_sparse(
    input: Tensor,
    sparse_dim: int | None = None,
    *,
    layout: layout | None = None,
    blocksize: int | Sequence[int] | None = None,
    dense_dim: int | None = None,
) -> AnySparse:
    """Return a tensor's elements that are not zero, with their positions in the first ``sparse_dim`` dimensions, all by default.

    Args:
        input: of any shape and type; compressed, ``[*batch, m, n, *dense]``.
        sparse_dim: how many dimensions positions have.
        layout: ``torch.sparse_coo``, or a compressed one.
        blocksize: the rows and columns of blocks.
        dense_dim: of compressed layouts, how many dimensions each value has.

    Raises:
        RuntimeError: the layout has no blocks, or the sizes are no multiples of theirs.
    """
    if layout is torch.strided:
        return input  # type: ignore[return-value]
    if layout not in (None, sparse_coo):
        from .compressed import of_dense

        return of_dense(input, layout, blocksize, dense_dim)
    from .coordinates import _from_dense

    if blocksize is not None:
        raise RuntimeError(f"to_sparse(): blocksize {blocksize} is for blocks, which sparse_coo has not")
    return _from_dense(input, sparse_dim)


def to_sparse_csr(input: Tensor, dense_dim: int | None = None) -> AnySparse:
    """Return the elements of ``[*batch, m, n, *dense]`` that are not zero, rows compressed; as many in each of the batch."""
    return to_sparse(input, layout=sparse_csr, dense_dim=dense_dim)


def to_sparse_csc(input: Tensor, dense_dim: int | None = None) -> AnySparse:
    """Return the elements of ``[*batch, m, n, *dense]`` that are not zero, columns compressed; as many in each of the batch."""
    return to_sparse(input, layout=sparse_csc, dense_dim=dense_dim)


def to_sparse_bsr(input: Tensor, blocksize: int | Sequence[int], dense_dim: int | None = None) -> AnySparse:
    """Return the blocks of ``[*batch, m, n, *dense]`` that are not zero, rows compressed; as many in each of the batch."""
    return to_sparse(input, layout=sparse_bsr, blocksize=blocksize, dense_dim=dense_dim)


def to_sparse_bsc(input: Tensor, blocksize: int | Sequence[int], dense_dim: int | None = None) -> AnySparse:
    """Return the blocks of ``[*batch, m, n, *dense]`` that are not zero, columns compressed; as many in each of the batch."""
    return to_sparse(input, layout=sparse_bsc, blocksize=blocksize, dense_dim=dense_dim)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Sequence[int], layout: layout | None = None) -> AnySparse:
    """Return the sparse matrix with the rows of ``diagonals`` ``[k, n]`` along its diagonals: element ``[i, i + offset]`` is ``row[i + offset]``.

    Args:
        diagonals: one row for each diagonal, or a single row.
        offsets: where each diagonal is, ``[k]``, positive above the main one.
        shape: the sizes of the matrix.
        layout: by coordinates, or with compressed rows or columns.

    Raises:
        RuntimeError: there are not as many offsets as diagonals, or one of them twice.
    """
    rows = diagonals.reshape((-1, diagonals.shape[-1]))
    numbers = offsets.reshape(-1)
    if len(numbers) != len(rows) or len(numbers.unique()) != len(numbers):
        raise RuntimeError(f"spdiags: {len(rows)} diagonals ask for as many different offsets, not {numbers.tolist()}")
    columns = torch.arange(rows.shape[1]).expand(tuple(rows.shape))
    lines = columns - numbers[:, None]
    inside = (lines >= 0) & (lines < shape[0]) & (columns < shape[1])
    made = sparse_coo_tensor(torch.stack([lines[inside], columns[inside]]), rows[inside], shape)
    return made if layout in (None, sparse_coo) else made.to_sparse(layout=layout)


def sparse_mask(input: Tensor, mask: Tensor) -> AnySparse:
    """Return the elements of a tensor, dense or sparse, at the places that a sparse one of its sizes has: sparse as the mask is.

    Args:
        input: of any shape and type.
        mask: a sparse tensor of the same shape; its values play no part.

    Raises:
        RuntimeError: the sizes differ, or the mask is dense.
    """
    from .answers import sparse_mask

    return sparse_mask(input, mask)


for _name, _function in (
    ("sparse_mask", sparse_mask),
    ("to_sparse", to_sparse),
    ("to_sparse_coo", to_sparse),
    ("to_sparse_csr", to_sparse_csr),
    ("to_sparse_csc", to_sparse_csc),
    ("to_sparse_bsr", to_sparse_bsr),
    ("to_sparse_bsc", to_sparse_bsc),
):
    setattr(Tensor, _name, public(_function, f"torch.Tensor.{_name}"))
