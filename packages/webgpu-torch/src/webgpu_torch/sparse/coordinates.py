"""Sparse tensors by coordinates: the positions of some elements, and their values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

import webgpu_torch_core as torch
from webgpu_torch_core import Size, Tensor
from webgpu_torch_core import layout as Layout
from webgpu_torch_core.dispatch.titles import by_dimension
from webgpu_torch_core.ir.layouts import wrap_dimension
from webgpu_torch_core.tensors.type_aliases import Number

from .base import CALLED, Answer, AnySparse, added, in_type_of, text_of
from .layouts import sparse_coo
from .making import rebuild
from .nodes import converted, noted, product, softened


class SparseTensor(AnySparse):
    """A sparse tensor: element ``[indices[0, i], indices[1, i], ...]`` is ``values[i]``, a sum where positions repeat, else zero."""

    _positions: Tensor
    _unique: bool

    @classmethod
    def make(cls, indices: Tensor, values: Tensor, size: Sequence[int], is_coalesced: bool) -> Self:
        """Return one: positions ``[sparse dimensions, n]``, values ``[n, ...]``, the sizes, and whether positions are sorted and unique."""
        return cls._made(values, _positions=indices, _sizes=Size(size), _unique=is_coalesced)

    def _with(self, values: Tensor) -> Self:
        return type(self).make(self._positions.to(values.device), values, self._sizes, self._unique)

    # What they are

    layout = sparse_coo
    is_sparse = True  # type: ignore[assignment]

    def _as_gradient(self, found: Tensor) -> Self:
        if self._unique:
            return self._with(found)
        # Values at one position have one gradient.
        once = type(self).make(self._positions, found.detach(), self._sizes, False)
        count = type(self).make(self._positions, found.new_ones(found.shape), self._sizes, False).coalesce()
        return count._with(once.coalesce()._held / count._held)

    def _picked(self, dense: Tensor) -> Tensor:
        return dense.expand(tuple(self._sizes))[tuple(self._positions)]

    def sparse_dim(self) -> int:
        """Return how many dimensions positions have."""
        return len(self._positions)

    def dense_dim(self) -> int:
        """Return how many dimensions each value has."""
        return len(self._sizes) - len(self._positions)

    def _nnz(self) -> int:
        return self._positions.shape[1]

    def _indices(self) -> Tensor:
        return self._positions

    def indices(self) -> Tensor:  # type: ignore[override]
        """Return the positions ``[sparse dimensions, n]``.

        Raises:
            RuntimeError: some may repeat.
        """
        self._require_unique("indices")
        return self._positions

    @noted("ValuesBackward0")
    def values(self) -> Tensor:  # type: ignore[override]
        """Return the values ``[n, ...]``.

        Raises:
            RuntimeError: positions may repeat.
        """
        self._require_unique("values")
        return self._held

    def _require_unique(self, asked: str) -> None:
        if not self._unique:
            raise RuntimeError(f"Cannot get {asked} on an uncoalesced tensor, please call .coalesce() first")

    def is_coalesced(self) -> bool:  # type: ignore[override]
        """Return whether positions are sorted and each is there once."""
        return self._unique

    def _coalesced_(self, coalesced: bool) -> Self:
        """Take a caller's word for positions being sorted and each there once, or for nothing known of them."""
        self.__dict__["_unique"] = coalesced
        return self

    def _flat(self) -> Tensor:
        """Return each value's place among the sparse dimensions."""
        sizes = self._sizes[: len(self._positions)]
        flat = self._positions.new_zeros(self._nnz())
        for dim, size in enumerate(sizes):
            flat = flat * size + self._positions[dim]
        return flat

    @noted("UnsqueezeBackward0")
    def unsqueeze(self, dim: int) -> Self:
        """Return the tensor with a dimension of size 1 put in: among the sparse dimensions up to right behind them, else a dense one."""
        dim, kept = wrap_dimension(dim, len(self._sizes) + 1), self.sparse_dim()
        sizes = (*self._sizes[:dim], 1, *self._sizes[dim:])
        if dim > kept:
            return type(self).make(self._positions, self._held.unsqueeze(dim - kept + 1), sizes, self._nnz() < 2)
        row = self._positions.new_zeros((1, self._nnz()))
        positions = torch.cat([self._positions[:dim], row, self._positions[dim:]])
        return type(self).make(positions, self._held, sizes, self._nnz() < 2)

    # Conversions

    @noted("CoalesceBackward0")
    def coalesce(self) -> Self:
        """Return the same tensor with positions sorted and each there once, values at one position added."""
        if self._unique:
            return self
        flat, places = self._flat().unique(return_inverse=True)
        values = added(self._held.new_zeros((len(flat), *self._held.shape[1:])), places, self._held)
        rows = []
        for size in reversed(self._sizes[: len(self._positions)]):
            rows.insert(0, flat % size)
            flat = flat // size
        return type(self).make(_stacked(rows, self._positions, len(values)), values, self._sizes, True)

    @noted("ToDenseBackward0")
    def to_dense(self, dtype: Answer = None, *, masked_grad: bool = True) -> Tensor:
        """Return a tensor with all elements."""
        sizes = self._sizes[: len(self._positions)]
        dense = added(self._held.new_zeros((math.prod(sizes), *self._held.shape[1:])), self._flat(), self._held)
        dense = dense.reshape(tuple(self._sizes))
        return dense if dtype is None else dense.to(dtype)

    @noted(converted)
    def to_sparse(
        self,
        sparse_dim: int | None = None,
        *,
        layout: Layout | None = None,
        blocksize: int | Sequence[int] | None = None,
        dense_dim: int | None = None,
    ) -> AnySparse:
        """Return the tensor, which is sparse, in another layout if one is given.

        Raises:
            RuntimeError: it is no matrix, or another number of sparse dimensions is asked for.
        """
        if layout in (None, sparse_coo):
            if sparse_dim not in (None, self.sparse_dim()):
                raise RuntimeError(
                    "to_sparse: conversion from Sparse to Sparse with sparse_dim argument !=self.sparse_dim() is not supported: "
                    f"{sparse_dim} is asked for, and it is {self.sparse_dim()}"
                )
            return self
        from .compressed import of_elements

        if self.sparse_dim() != 2:
            raise RuntimeError(
                f"to_{str(layout).removeprefix('torch.')}: conversion from Sparse to {CALLED[layout]} for input tensors with "
                f"sparse_dim()!=2 is not supported, and this one has {self.sparse_dim()}"
            )
        mine = self.coalesce()
        rows, columns = mine._positions
        return of_elements(rows, columns, mine._held, (), self._sizes, layout, blocksize, rows.dtype)

    @noted("TransposeBackward0")
    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        """Return the tensor with two of its sparse dimensions exchanged.

        Raises:
            RuntimeError: one is dense.
        """
        count = len(self._positions)
        order = list(range(len(self._sizes)))
        first, second = (wrap_dimension(each, len(order)) for each in (dim0, dim1))
        if first == second:
            return self
        if max(first, second) >= count:
            raise RuntimeError(
                f"sparse transpose: transposed dimensions must be sparse Got sparse_dim: {count}, d0: {first}, d1: {second}"
            )
        order[first], order[second] = second, first
        return self._in_order(order)

    @noted("PermuteBackward0")
    def permute(self, *dims: int | Sequence[int]) -> SparseTensor:
        """Return the tensor with its sparse dimensions, and its dense ones, in another order.

        Raises:
            RuntimeError: not each dimension is named once, or one would be exchanged between sparse and dense.
        """
        given = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
        order = [wrap_dimension(int(each), len(self._sizes)) for each in given]  # type: ignore[arg-type,union-attr]
        if sorted(order) != list(range(len(self._sizes))):
            raise RuntimeError(
                f"permute(sparse_coo): number of dimensions in the tensor input does not match, or repeated: {given}"
            )
        if any(each >= len(self._positions) for each in order[: len(self._positions)]):
            raise RuntimeError(
                "permute(sparse_coo): transpositions between sparse and dense dimensions are not allowed."
            )
        return self._in_order(order)

    def _in_order(self, order: list[int]) -> SparseTensor:
        count = len(self._positions)
        sizes = [self._sizes[each] for each in order]
        dense = [0, *(each - count + 1 for each in order[count:])]
        values = self._held if dense == sorted(dense) else self._held.permute(dense)
        return SparseTensor.make(self._positions[order[:count]], values, sizes, False)

    # Arithmetic

    @noted("AddBackward0")
    def add(self, other: Tensor, *, alpha: Number = 1) -> Tensor:
        """Return the sum of two sparse tensors, which is sparse: coalesced if both are, else one's positions after the other's.

        Raises:
            RuntimeError: the other is dense, or of other sizes.
        """
        if not isinstance(other, SparseTensor):
            raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
        if self._sizes != other._sizes or len(self._positions) != len(other._positions):
            raise RuntimeError(
                f"sparse tensors of sizes {tuple(self._sizes)} and {tuple(other._sizes)} cannot be added"
            )
        import webgpu_torch as torch

        # As in PyTorch the sum's type is multiplied, which may have a sign, but where there is nothing to add to, the other's.
        kind = torch.promote_types(self.dtype, other.dtype) if self._nnz() else other.dtype
        scaled = other._held if alpha == 1 else other._held.to(kind) * alpha
        positions = torch.cat([self._positions, other._positions], 1)
        both = SparseTensor.make(positions, torch.cat([self._held, scaled]), self._sizes, False)
        return both.coalesce() if self._unique and other._unique else both

    def mul(self, other: Tensor | Number) -> SparseTensor:
        """Return the product element by element, which is sparse."""
        if not isinstance(other, Tensor) or (other.dim() == 0 and not isinstance(other, AnySparse)):
            return self._with(self._held * other)
        mine = self.coalesce()
        dense: Tensor = other.to_dense()
        if isinstance(other, SparseTensor) and self._sizes == other._sizes and self.sparse_dim() == other.sparse_dim():
            # Places that only one of them has are none of the product.
            both = torch.zeros(self._sizes[: self.sparse_dim()], dtype=torch.bool, device=self.device)
            both[tuple(other._positions)] = True
            kept = both[tuple(mine._positions)].nonzero().flatten()
            mine = SparseTensor.make(mine._positions[:, kept], mine._held[kept], self._sizes, True)
        return mine._with(mine._held * mine._picked(dense))

    def mul_(self, other: Tensor | Number) -> AnySparse:
        """Become the product with another tensor or a number, in the type that this one has.

        Raises:
            RuntimeError: the type is of a lower kind than the product's, which has values.
        """
        product = self.mul(other)
        if isinstance(other, SparseTensor) and not (self._nnz() and other._nnz()):
            return self._become(product._with(product._held.to(self.dtype)))
        return self._become(in_type_of(self, "mul", product))

    def div(self, other: Tensor | Number, *, rounding_mode: str | None = None) -> SparseTensor:
        """Return the quotient by a number.

        Raises:
            RuntimeError: a divisor with dimensions.
        """
        if isinstance(other, Tensor) and other.dim():
            floor = " floor" if rounding_mode == "floor" else ""
            raise RuntimeError(
                f"Sparse{floor} division requires a scalar or zero-dim dense tensor divisor (got shape {list(other.shape)} for divisor)"
            )
        mine = self.coalesce()
        return mine._with(mine._held.div(other, rounding_mode=rounding_mode))

    def floor_divide(self, other: Tensor | Number) -> SparseTensor:
        """Return the quotient by a number, rounded down."""
        return self.div(other, rounding_mode="floor")

    def pow(self, exponent: Number) -> SparseTensor:
        """Return a positive power of each element."""
        if not isinstance(exponent, int | float) or exponent <= 0:
            raise NotImplementedError(
                f"powers of sparse tensors have positive exponents, not {exponent}: call to_dense() first"
            )
        mine = self.coalesce()
        return mine._with(mine._held**exponent)

    def _require_product(self, other: Tensor) -> None:
        """Raise unless there is a product with another tensor: of matrices, of one and a vector, or of batches of matrices."""
        count = len(self._sizes)
        if self.dense_dim() or (count == 1 and other.dim() == 2):
            raise RuntimeError(f"addmm: matrices expected, got {len(self._positions)}D tensor")
        if count == other.dim() == 3:
            if self._sizes[0] != other.shape[0]:
                raise RuntimeError("bmm_sparse: 'self.size(0)' and 'mat2.size(0)' must match")
            return
        if count == 2 and other.dim() == 1 and self._sizes[1] != other.shape[0]:
            raise RuntimeError("mv: expected self.size(-1) == vec.size(-1)")
        if count != 2 or other.dim() not in (1, 2):
            raise RuntimeError(
                f"mat1 and mat2 shapes cannot be multiplied: {tuple(self._sizes)} and {tuple(other.shape)}"
            )
        if self._sizes[1] != other.shape[0]:
            raise RuntimeError(
                f"addmm: Argument #3 (dense): Expected dim 0 size {self._sizes[1]}, got {other.shape[0]}"
            )

    @noted(product)
    def matmul(self, other: Tensor) -> Tensor:
        """Return the product ``[m, k] @ [k, n]``, or ``[m, k] @ [k]``: dense with a dense operand, else sparse.

        Raises:
            RuntimeError: sizes do not match.
        """
        self._require_product(other)
        if len(self._sizes) == 3:
            return torch.stack([one @ two for one, two in zip(self.unbind(0), other.unbind(0), strict=True)])
        if isinstance(other, AnySparse):
            return _from_dense(self.matmul(other.to_dense()))
        rows, columns = self._positions
        values = self._held if other.dim() == 1 else self._held[:, None]
        product = values * other.index_select(0, columns)
        return added(product.new_zeros((self._sizes[0], *other.shape[1:])), rows, product)

    @noted(by_dimension("Sum", 0, 1))
    def sum(self, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Answer = None) -> Tensor:
        """Return the sum over some sparse dimensions, which is sparse, or over all, which is not.

        Raises:
            NotImplementedError: over some dimensions that are dense, or that are to be kept.
        """
        values = self._held if dtype is None else self._held.to(dtype)
        count = len(self._positions)
        dims = range(len(self._sizes)) if dim is None else [dim] if isinstance(dim, int) else dim
        dims = {wrap_dimension(each, len(self._sizes)) for each in dims}
        if len(dims) == len(self._sizes):
            return values.sum()
        if keepdim or max(dims) >= count:
            raise NotImplementedError(
                "sparse tensors are summed over sparse dimensions without keeping them: call to_dense() first"
            )
        kept = [each for each in range(count) if each not in dims]
        if not kept:
            return values.sum(0)
        sizes = [each for place, each in enumerate(self._sizes) if place not in dims]
        return SparseTensor.make(self._positions[kept], values, sizes, False).coalesce()

    @noted(softened)
    def softmax(self, dim: int, dtype: Answer = None, *, logarithms: bool = False) -> SparseTensor:
        """Return the softmax along a sparse dimension of the elements that are there, or its logarithm.

        Raises:
            NotImplementedError: the dimension is dense.
        """
        mine = self.coalesce()
        dim %= len(self._sizes)
        if dim >= len(mine._positions):
            raise NotImplementedError(
                "the softmax of a sparse tensor is along a sparse dimension: call to_dense() first"
            )
        flat = mine._positions.new_zeros(mine._nnz())
        for place, size in enumerate(self._sizes[: len(mine._positions)]):
            if place != dim:
                flat = flat * size + mine._positions[place]
        values = mine._held if dtype is None else mine._held.to(dtype)
        groups, group = flat.unique(return_inverse=True)
        shape = (len(groups), *values.shape[1:])
        highest = values.detach().new_full(shape, -math.inf).index_reduce(0, group, values.detach(), "amax")
        shifted = values - highest[group]
        total = added(values.new_zeros(shape), group, shifted.exp())[group]
        return mine._with(shifted - total.log() if logarithms else shifted.exp() / total)

    # Python

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        parts = [("indices=", self._positions), ("values=", self._held.detach())]
        return text_of(self, parts, True)

    def __deepcopy__(self, memo: dict[int, Answer]) -> SparseTensor:
        made = type(self).make(self._positions.clone(), self._held.detach().clone(), self._sizes, self._unique)
        return self._copied(made, memo)

    def __reduce_ex__(self, protocol: object) -> tuple[Answer, ...]:
        parts = (self._positions, self._held.detach(), self._sizes, self._unique)
        return rebuild, (sparse_coo, parts)


def _stacked(rows: Sequence[Tensor], like: Tensor, count: int) -> Tensor:
    import webgpu_torch as torch

    return torch.stack(list(rows)) if rows else like.new_zeros((0, count))


def _from_dense(dense: Tensor, sparse_dim: int | None = None) -> SparseTensor:
    """Return a dense tensor's elements, or parts, that are not zero."""
    count = dense.dim() if sparse_dim is None else sparse_dim
    if not 0 <= count <= dense.dim():
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{dense.dim()}] range, but {count} is given"
        )
    if dense.dim() and not count:
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    taken = dense.detach() != 0
    if count < dense.dim():
        taken = taken.flatten(count).any(-1)
    positions = taken.nonzero().t().contiguous()
    values = dense[tuple(positions)] if count else dense[None][: positions.shape[1]]
    return SparseTensor.make(positions, values, dense.shape, True)
