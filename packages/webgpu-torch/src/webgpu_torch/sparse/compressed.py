"""Sparse tensors whose rows or columns are compressed, of elements or of blocks: CSR, CSC, BSR and BSC.

The compressed dimension has a pointer to where each of its lines begins, the other one a position for each element or block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

import webgpu_torch_core as torch
from webgpu_torch_core import Size, Tensor
from webgpu_torch_core import layout as Layout
from webgpu_torch_core.ir.layouts import wrap_dimension

from .base import CALLED, Answer, AnySparse, added, refuse, text_of
from .blocks import apart, joined, somewhere
from .coordinates import SparseTensor
from .layouts import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from .making import rebuild, to_sparse
from .nodes import converted, noted, product

_TRANSPOSED = {sparse_csr: sparse_csc, sparse_csc: sparse_csr, sparse_bsr: sparse_bsc, sparse_bsc: sparse_bsr}


class CompressedTensor(AnySparse):
    """A sparse tensor ``[*batch, m, n, *dense]``: line ``i`` has the values ``pointers[i]`` to ``pointers[i + 1]``."""

    _pointers: Tensor
    _places: Tensor
    _kind: Layout

    @classmethod
    def make(cls, pointers: Tensor, places: Tensor, values: Tensor, size: Sequence[int], kind: Layout) -> Self:
        """Return one of pointers ``[*batch, lines + 1]``, places ``[*batch, n]`` and values ``[*batch, n, *block, *dense]``."""
        return cls._made(values, _pointers=pointers, _places=places, _sizes=Size(size), _kind=kind)

    def _with(self, values: Tensor) -> Self:
        device = values.device
        return type(self).make(self._pointers.to(device), self._places.to(device), values, self._sizes, self._kind)

    # What they are

    @property
    def layout(self) -> Layout:  # type: ignore[override]
        """How the tensor is stored."""
        return self._kind

    @property
    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """Whether rows are compressed and values are elements."""
        return self._kind == sparse_csr

    @property
    def _by_rows(self) -> bool:
        return self._kind in (sparse_csr, sparse_bsr)

    @property
    def _blocked(self) -> bool:
        return self._kind in (sparse_bsr, sparse_bsc)

    @property
    def _batch(self) -> tuple[int, ...]:
        return tuple(self._pointers.shape[:-1])

    @property
    def _block(self) -> tuple[int, int]:
        start = len(self._batch) + 1
        return tuple(self._held.shape[start : start + 2]) if self._blocked else (1, 1)  # type: ignore[return-value]

    @property
    def _counts(self) -> tuple[int, int]:
        """The numbers of lines of the compressed dimension and of places in a line, in blocks."""
        start = len(self._batch)
        rows, columns = (size // each for size, each in zip(self._sizes[start : start + 2], self._block, strict=True))
        return (rows, columns) if self._by_rows else (columns, rows)

    def sparse_dim(self) -> int:
        """Return 2."""
        return 2

    def dense_dim(self) -> int:
        """Return how many dimensions each value has."""
        return len(self._sizes) - len(self._batch) - 2

    def _nnz(self) -> int:
        return self._places.shape[-1]

    @noted("ValuesBackward0")
    def values(self) -> Tensor:  # type: ignore[override]
        """Return the values ``[*batch, n, *block, *dense]``."""
        return self._held

    def _indices_of(self, name: str, by_rows: bool, found: Tensor) -> Tensor:
        if self._by_rows is not by_rows:
            self._of_another_layout(name, f"{'row' if by_rows else 'column'} compressed")
        return found

    def crow_indices(self) -> Tensor:  # type: ignore[override]
        """Return where each row begins, ``[*batch, rows + 1]``.

        Raises:
            RuntimeError: columns are compressed.
        """
        return self._indices_of("crow_indices", True, self._pointers)

    def col_indices(self) -> Tensor:  # type: ignore[override]
        """Return the column of each value, ``[*batch, n]``.

        Raises:
            RuntimeError: columns are compressed.
        """
        return self._indices_of("col_indices", True, self._places)

    def ccol_indices(self) -> Tensor:  # type: ignore[override]
        """Return where each column begins, ``[*batch, columns + 1]``.

        Raises:
            RuntimeError: rows are compressed.
        """
        return self._indices_of("ccol_indices", False, self._pointers)

    def row_indices(self) -> Tensor:  # type: ignore[override]
        """Return the row of each value, ``[*batch, n]``.

        Raises:
            RuntimeError: rows are compressed.
        """
        return self._indices_of("row_indices", False, self._places)

    # Conversions

    def _lines(self) -> Tensor:
        """Return the line of each value, counted through the batch."""
        counts = (self._pointers[..., 1:] - self._pointers[..., :-1]).reshape(-1).to(torch.int64)
        return torch.arange(len(counts), device=counts.device).repeat_interleave(counts)

    def _keys(self) -> Tensor:
        """Return the place of each value among all places of all lines of the batch."""
        return self._lines() * self._counts[1] + self._places.reshape(-1).to(torch.int64)

    def _flat(self) -> Tensor:
        """Return the values with the batch and their number in one dimension."""
        return self._held.reshape((-1, *self._held.shape[len(self._batch) + 1 :]))

    def _of_keys(self, keys: Tensor, values: Tensor) -> Self:
        """Return the tensor of the same kind and sizes with values at places that are sorted and each there once."""
        return _compress(keys, values, self._batch, self._counts, self._sizes, self._kind, self._pointers.dtype)

    @noted("ToDenseBackward0")
    def to_dense(self, dtype: Answer = None, *, masked_grad: bool = True) -> Tensor:
        """Return a tensor with all elements."""
        values = self._flat()
        places = math.prod(self._batch) * math.prod(self._counts)
        dense = added(values.new_zeros((places, *values.shape[1:])), self._keys(), values)
        dense = joined(dense, self._batch, self._counts, self._block, self._by_rows, self._blocked)
        dense = dense.reshape(tuple(self._sizes))
        return dense if dtype is None else dense.to(dtype)

    def _elements(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the row, counted through the batch, and the column of every element, and the elements ``[n, *dense]``."""
        lines, places, count = self._lines(), self._places.reshape(-1).to(torch.int64), self._counts[0]
        if self._by_rows:
            rows, columns = lines, places
        else:
            rows, columns = lines // max(count, 1) * self._counts[1] + places, lines % max(count, 1)
        if not self._blocked:
            return rows, columns, self._flat()
        height, width = self._block
        down, right = torch.arange(height, device=rows.device), torch.arange(width, device=rows.device)
        shape = (len(rows), height, width)
        rows = (rows[:, None, None] * height + down[:, None]).expand(shape).reshape(-1)
        columns = (columns[:, None, None] * width + right).expand(shape).reshape(-1)
        values = self._flat()
        return rows, columns, values.reshape((len(rows), *values.shape[3:]))

    @noted(converted)
    def to_sparse(
        self,
        sparse_dim: int | None = None,
        *,
        layout: Layout | None = None,
        blocksize: int | Sequence[int] | None = None,
        dense_dim: int | None = None,
    ) -> AnySparse:
        """Return the tensor in another layout, by coordinates unless one is given.

        Raises:
            RuntimeError: there is no way from this layout to the other one, or ``sparse_dim`` is not 2.
        """
        wanted = sparse_coo if layout is None else layout
        if wanted == sparse_coo:
            if sparse_dim not in (None, 2):
                raise RuntimeError(
                    f"sparse_compressed_to_sparse: conversion from {CALLED[self._kind]} to Sparse with sparse_dim argument !=2 is "
                    "not supported"
                )
            return self._to_coordinates()
        return self._to_compressed(wanted, blocksize)

    def _to_coordinates(self) -> SparseTensor:
        rows, columns, values = self._elements()
        positions = [columns]
        # Rows are counted through the batch.
        for size in self._sizes[len(self._batch) :: -1]:
            positions.insert(0, rows % max(size, 1))
            rows = rows // max(size, 1)
        return SparseTensor.make(torch.stack(positions), values, self._sizes, self._kind == sparse_csr)

    def _to_compressed(self, kind: Layout, blocksize: int | Sequence[int] | None) -> CompressedTensor:
        name = f"to_{str(kind).removeprefix('torch.')}"
        blocked = kind in (sparse_bsr, sparse_bsc)
        if self._blocked and not blocked:
            raise RuntimeError(
                f"{name.replace('to_', 'sparse_compressed_to_')}: expected SparseCsr or SparseCsc layout but got {CALLED[self._kind]}"
            )
        blocksize = (blocksize, blocksize) if isinstance(blocksize, int) else blocksize
        if self._blocked and blocksize is not None and tuple(blocksize) != self._block:
            raise RuntimeError(
                f"{name}: conversion from {CALLED[self._kind]} to {CALLED[kind]} with blocksize changed from "
                f"{list(self._block)} to {list(blocksize)} is not supported"
            )
        if kind == self._kind:
            return self
        if blocked is self._blocked:
            return self._other_way()
        return of_elements(*self._elements(), self._batch, self._sizes, kind, blocksize, self._pointers.dtype)

    def _other_way(self) -> CompressedTensor:
        """Return the tensor with its other dimension compressed."""
        lines, places = self._counts
        keys = self._keys()
        batch, line, place = (
            keys // max(lines * places, 1),
            keys // max(places, 1) % max(lines, 1),
            keys % max(places, 1),
        )
        keys = (batch * places + place) * lines + line
        order = keys.argsort(stable=True)
        return _compress(
            keys[order], self._flat()[order], self._batch, (places, lines), self._sizes, _TRANSPOSED[self._kind],
            self._pointers.dtype,
        )  # fmt: skip

    @noted("TransposeBackward0")
    def transpose(self, dim0: int, dim1: int) -> CompressedTensor:
        """Return the tensor with its two sparse dimensions exchanged: rows that are compressed become columns.

        Raises:
            RuntimeError: other dimensions are to be exchanged.
        """
        start, count = len(self._batch), len(self._sizes)
        dims = sorted(wrap_dimension(each, count) for each in (dim0, dim1))
        if dims[0] == dims[1]:
            return self
        if dims != [start, start + 1]:
            raise RuntimeError(
                f"transpose(): can only transpose the sparse dimensions {start} and {start + 1} here, not {dims}"
            )
        sizes = list(self._sizes)
        sizes[start], sizes[start + 1] = sizes[start + 1], sizes[start]
        values = self._held.transpose(start + 1, start + 2) if self._blocked else self._held
        return CompressedTensor.make(self._pointers, self._places, values, sizes, _TRANSPOSED[self._kind])

    # Arithmetic

    @noted("AddBackward0")
    def add(self, other: Tensor, *, alpha: complex = 1) -> Tensor:
        """Return the sum: sparse with a tensor of the same layout, else dense.

        Raises:
            RuntimeError: the other one is sparse in another layout, or of other sizes.
        """
        if not isinstance(other, AnySparse):
            return self.to_dense().add(other, alpha=alpha)
        if not isinstance(other, CompressedTensor) or other._kind != self._kind or other._block != self._block:
            raise RuntimeError(
                f"sparse tensors of layouts {self._kind} and {other.layout} cannot be added: convert one first"
            )
        if other._sizes != self._sizes:
            raise RuntimeError(
                f"sparse tensors of sizes {tuple(self._sizes)} and {tuple(other._sizes)} cannot be added"
            )
        keys, places = torch.cat([self._keys(), other._keys()]).unique(return_inverse=True)
        scaled = other._flat() if alpha == 1 else other._flat().to(torch.promote_types(self.dtype, other.dtype)) * alpha
        values = torch.cat([self._flat(), scaled])
        return self._of_keys(keys, added(values.new_zeros((len(keys), *values.shape[1:])), places, values))

    def _picked(self, dense: Tensor) -> Tensor:
        """Return a dense tensor's elements at the places that have values here."""
        dense = dense.expand(tuple(self._sizes))
        parts = apart(dense, self._batch, self._block, self._by_rows, self._blocked)
        return parts[self._keys()].reshape((*self._batch, self._nnz(), *parts.shape[1:]))

    def mul(self, other: Tensor | complex) -> CompressedTensor:
        """Return the product element by element, at places that both have."""
        if not isinstance(other, Tensor) or (other.dim() == 0 and not isinstance(other, AnySparse)):
            return self._with(self._held * other)
        if not isinstance(other, CompressedTensor):
            return self._with(self._held * self._picked(other.to_dense()))
        values = self._held * self._picked(other.to_dense())
        ones = other._with(other._held.detach().new_ones(other._held.shape, dtype=torch.float32))
        shared = somewhere(self._picked(ones.to_dense()).reshape(self._flat().shape) != 0)
        if bool(shared.all()):
            return self._with(values)
        flat = values.reshape(self._flat().shape)
        return self._of_keys(self._keys()[shared], flat[shared])

    def div(self, other: Tensor | float, *, rounding_mode: str | None = None) -> CompressedTensor:
        """Return the quotient by a number."""
        if isinstance(other, Tensor) and other.dim():
            refuse("torch.div by a tensor")
        return self._with(self._held.div(other, rounding_mode=rounding_mode))

    @noted(product)
    def matmul(self, other: Tensor) -> Tensor:
        """Return the product ``[m, k] @ [k, n]``, or ``[m, k] @ [k]``: dense with a dense operand, else sparse.

        Raises:
            RuntimeError: sizes do not match.
        """
        if self._batch or self.dense_dim():
            refuse("torch.matmul of a batch")
        if other.dim() not in (1, 2) or self._sizes[1] != other.shape[0]:
            sizes = "x".join(map(str, self._sizes))
            if other.dim() == 1:
                raise RuntimeError(
                    f"size mismatch, got input ({self._sizes[0]}), mat ({sizes}), vec ({other.shape[0]})"
                )
            raise RuntimeError(
                f"mat1 and mat2 shapes cannot be multiplied ({sizes} and {'x'.join(map(str, other.shape))})"
            )
        if isinstance(other, AnySparse):
            return self._times_sparse(other)
        operand = other[:, None] if other.dim() == 1 else other
        height, width = self._block
        lines, places = self._lines(), self._places.to(torch.int64)
        rows, columns = (lines, places) if self._by_rows else (places, lines)
        parts = operand.reshape((self._sizes[1] // width, width, operand.shape[1])).index_select(0, columns)
        values = self._held if self._blocked else self._held[:, None, None]
        product = values @ parts if self._blocked else values * parts
        summed = added(product.new_zeros((self._sizes[0] // height, height, operand.shape[1])), rows, product)
        return summed.reshape((self._sizes[0], *other.shape[1:]))

    def _times_sparse(self, other: AnySparse) -> Tensor:
        """Return a product of two sparse matrices: where some product of places is, whatever its value."""
        if self._blocked:
            refuse("torch.matmul of two tensors of blocks")
        dense = self.matmul(other.to_dense())
        one = self._with(self._held.detach().new_ones(self._held.shape, dtype=torch.float32))
        two = other._with(other._held.detach().new_ones(other._held.shape, dtype=torch.float32))
        rows, columns = (one.matmul(two.to_dense()) != 0).nonzero().unbind(1)
        kind = self._kind
        return of_elements(rows, columns, dense[rows, columns], (), dense.shape, kind, None, self._pointers.dtype)

    @noted("SparseSampledAddmmBackward0")
    def sampled_addmm(self, mat1: Tensor, mat2: Tensor, *, beta: complex = 1, alpha: complex = 1) -> CompressedTensor:
        """Return ``beta * self + alpha * (mat1 @ mat2)`` at the places that have values here.

        Raises:
            RuntimeError: sizes do not match.
        """
        if self._batch or self._kind != sparse_csr:
            refuse("torch.sparse.sampled_addmm of another layout than sparse_csr")
        if mat1.shape[1] != mat2.shape[0] or (mat1.shape[0], mat2.shape[1]) != tuple(self._sizes):
            raise RuntimeError(
                f"sampled_addmm: mat1 {tuple(mat1.shape)} and mat2 {tuple(mat2.shape)} do not make {tuple(self._sizes)}"
            )
        rows, columns, values = self._elements()
        product = (mat1.index_select(0, rows) * mat2.t().index_select(0, columns)).sum(1) * alpha
        return self._with(product if beta == 0 else values * beta + product)

    def sum(self, dim: Answer = None, keepdim: bool = False, *, dtype: Answer = None) -> Tensor:
        """Return the sum of all elements.

        Raises:
            NotImplementedError: over some dimensions only.
        """
        if dim is not None:
            refuse("torch.sum over dimensions of a compressed tensor")
        return (self._held if dtype is None else self._held.to(dtype)).sum()

    # Python

    def __getitem__(self, item: Answer) -> Tensor:
        found = self.to_dense()[item]
        return found if found.dim() == 0 else to_sparse(found)

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        names = ("crow_indices=", "col_indices=") if self._by_rows else ("ccol_indices=", "row_indices=")
        parts = [*zip(names, (self._pointers, self._places), strict=True), ("values=", self._held.detach())]
        return text_of(self, parts, False)

    def __deepcopy__(self, memo: dict[int, Answer]) -> CompressedTensor:
        return self._copied(self._with(self._held.detach().clone()), memo)

    def __reduce_ex__(self, protocol: object) -> tuple[Answer, ...]:
        return rebuild, (self._kind, (self._pointers, self._places, self._held.detach(), self._sizes))


def _compress(
    keys: Tensor, values: Tensor, batch: tuple[int, ...], counts: tuple[int, int], sizes: Sequence[int], kind: Layout,
    index_type: Answer,
) -> Answer:  # fmt: skip
    """Return the tensor of values ``[n, *block, *dense]`` at sorted places of all lines of the batch.

    Raises:
        RuntimeError: the tensors of the batch do not have as many values each.
    """
    lines, several = math.prod(batch), counts[0] * counts[1]
    per_line = added(keys.new_zeros(lines * counts[0]), keys // max(counts[1], 1), torch.ones_like(keys))
    pointers = per_line.reshape((lines, counts[0])).cumsum(1)
    pointers = torch.cat([pointers.new_zeros((lines, 1)), pointers], 1)
    number = len(keys) // max(lines, 1)
    if several and lines and not bool((pointers[:, -1] == number).all()):
        raise RuntimeError("Expect the same number of specified elements per batch.")
    places = keys % max(counts[1], 1)
    return CompressedTensor.make(
        pointers.reshape((*batch, counts[0] + 1)).to(index_type), places.reshape((*batch, number)).to(index_type),
        values.reshape((*batch, number, *values.shape[1:])), sizes, kind,
    )  # fmt: skip


def of_elements(
    rows: Tensor, columns: Tensor, values: Tensor, batch: tuple[int, ...], sizes: Sequence[int], kind: Layout,
    blocksize: int | Sequence[int] | None, index_type: Answer,
) -> CompressedTensor:  # fmt: skip
    """Return the compressed tensor of elements ``[n, *dense]`` at rows, counted through the batch, and columns, each there once."""
    start = len(batch)
    blocked = kind in (sparse_bsr, sparse_bsc)
    height, width = _block_of(sizes[start : start + 2], kind, blocksize)
    down, right = sizes[start] // height, sizes[start + 1] // width
    block_row, block_column = rows // height, columns // width
    if kind in (sparse_csr, sparse_bsr):
        counts, keys = (down, right), block_row * right + block_column
    else:
        tensor = block_row // max(down, 1)
        counts, keys = (right, down), (tensor * right + block_column) * down + block_row % max(down, 1)
    if not blocked:
        order = keys.argsort(stable=True)
        return _compress(keys[order], values[order], batch, counts, sizes, kind, index_type)
    keys, blocks = keys.unique(return_inverse=True)
    inner = (blocks * height + rows % height) * width + columns % width
    held = added(values.new_zeros((len(keys) * height * width, *values.shape[1:])), inner, values)
    return _compress(
        keys, held.reshape((len(keys), height, width, *values.shape[1:])), batch, counts, sizes, kind, index_type
    )


def of_dense(
    dense: Tensor, kind: Layout, blocksize: int | Sequence[int] | None, dense_dim: int | None
) -> CompressedTensor:
    """Return a dense tensor's elements or blocks that are not zero.

    Raises:
        RuntimeError: there are fewer than two dimensions for positions, or sizes are no multiples of the block's.
    """
    inner = 0 if dense_dim is None else dense_dim
    start = dense.dim() - inner - 2
    if start < 0:
        raise RuntimeError(
            f"to_{str(kind).removeprefix('torch.')}: a tensor of {dense.dim()} dimensions has no rows and columns"
        )
    batch = tuple(dense.shape[:start])
    block = _block_of(dense.shape[start : start + 2], kind, blocksize)
    by_rows, blocked = kind in (sparse_csr, sparse_bsr), kind in (sparse_bsr, sparse_bsc)
    parts = apart(dense, batch, block, by_rows, blocked)
    keys = somewhere(parts.detach() != 0).nonzero()[:, 0]
    down, right = dense.shape[start] // block[0], dense.shape[start + 1] // block[1]
    counts = (down, right) if by_rows else (right, down)
    return _compress(keys, parts[keys], batch, counts, dense.shape, kind, torch.int64)


def _block_of(sizes: Sequence[int], kind: Layout, blocksize: int | Sequence[int] | None) -> tuple[int, int]:
    """Return the sizes of blocks, of one element where there are none.

    Raises:
        RuntimeError: they are missing, not asked for, or do not fit.
    """
    name = str(kind).removeprefix("torch.")
    if kind not in (sparse_bsr, sparse_bsc):
        if blocksize is not None:
            raise RuntimeError(
                f"dense_to_sparse: conversion from Strided to {CALLED[kind]} with blocksize argument given is not supported"
            )
        return 1, 1
    blocksize = (blocksize, blocksize) if isinstance(blocksize, int) else blocksize
    if blocksize is None or len(blocksize) != 2:
        raise RuntimeError(f"to_{name}: blocksize of two numbers is asked for, not {blocksize}")
    height, width = (int(each) for each in blocksize)
    if min(height, width) < 1 or sizes[0] % height or sizes[1] % width:
        raise RuntimeError(
            f"dense_to_{name}: tensor sparse size ({sizes[0]},{sizes[1]}) must be divisible by given blocksize ({height},{width})"
        )
    return height, width
