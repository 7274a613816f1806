"""Functions that take sparse tensors and that their classes do not have as methods: others of the same kind, masks, norms, parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NoReturn

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor, device, dtype, layout
from webgpu_torch_core.ir.layouts import wrap_dimension

from .base import CALLED, Answer, AnySparse, refuse
from .compressed import CompressedTensor
from .coordinates import SparseTensor
from .layouts import sparse_bsc, sparse_bsr, sparse_coo, sparse_csr
from .nodes import noted

#: what makes a tensor like another one, and whether no values will do
LIKE = {
    "zeros_like": True, "empty_like": True, "ones_like": False, "full_like": False, "randn_like": False, "rand_like": False,
    "randint_like": False,
}  # fmt: skip


def like(
    name: str, input: AnySparse, *args: Answer, dtype: dtype | None = None, layout: layout | None = None,
    device: device | str | None = None, memory_format: Answer = None, requires_grad: bool = False, **options: Answer,
) -> Tensor:  # fmt: skip
    """Return a tensor of a sparse one's sizes, by the name of the function: without values, or with others at the same places.

    Raises:
        NotImplementedError: values are asked for at places that are not known.
        RuntimeError: a memory format for a layout that has none.
    """
    function = getattr(torch, name)
    wanted = input.layout if layout is None else layout
    kind, place = dtype or input.dtype, device or input.device
    if wanted is torch.strided:
        dense = torch.empty(tuple(input.shape), dtype=kind, device=place)
        if memory_format is not None:
            options["memory_format"] = memory_format
        return function(dense, *args, requires_grad=requires_grad, **options)
    if memory_format is not None:
        raise RuntimeError("memory format option is only supported by strided tensors")
    if LIKE[name]:
        made = without_values(input, wanted, kind, place)
    elif wanted == input.layout and isinstance(input, CompressedTensor):
        made = input._with(function(input._held.detach(), *args, dtype=kind, device=place, **options))
    else:
        refuse(f"torch.{name}")
    return made.requires_grad_() if requires_grad else made


def without_values(input: AnySparse, kind: layout, dtype: dtype, device: device | str) -> AnySparse:
    """Return a sparse tensor of another one's sizes, in a layout, that has no values."""
    sizes, inner = tuple(input.shape), input.dense_dim()
    start = len(sizes) - inner - 2
    dense = sizes[len(sizes) - inner :]
    if kind == sparse_coo:
        positions = torch.zeros((len(sizes) - inner, 0), dtype=torch.int64, device=device)
        return SparseTensor.make(positions, torch.zeros((0, *dense), dtype=dtype, device=device), sizes, True)
    block = input._block if isinstance(input, CompressedTensor) else (1, 1)
    by_rows, blocked = kind in (sparse_csr, sparse_bsr), kind in (sparse_bsr, sparse_bsc)
    lines = sizes[start] // block[0] if by_rows else sizes[start + 1] // block[1]
    batch, index_type = sizes[:start], input._pointers.dtype if isinstance(input, CompressedTensor) else torch.int64
    values = torch.zeros((*batch, 0, *(block if blocked else ()), *dense), dtype=dtype, device=device)
    return CompressedTensor.make(
        torch.zeros((*batch, lines + 1), dtype=index_type, device=device),
        torch.zeros((*batch, 0), dtype=index_type, device=device), values, sizes, kind,
    )  # fmt: skip


def zero_(self: AnySparse) -> AnySparse:
    """Take all values away."""
    return self._become(without_values(self, self.layout, self.dtype, self.device))


def copy_(self: AnySparse, other: Tensor, non_blocking: bool = False) -> AnySparse:
    """Become a copy of another sparse tensor, in the type that this one has.

    Raises:
        RuntimeError: the other one is dense, or compressed with another number of values.
    """
    if not isinstance(other, AnySparse) or not isinstance(self, AnySparse):
        one, two = (
            f"torch.{'sparse.' * isinstance(each, AnySparse)}{each.dtype.title}Tensor" for each in (self, other)
        )
        raise RuntimeError(
            f"copy_() between dense and sparse Tensors is not implemented! Found self type = {one} and src type = {two}"
        )
    if isinstance(self, CompressedTensor) and isinstance(other, CompressedTensor) and self._nnz() != other._nnz():
        raise RuntimeError(
            "torch.copy_: only sparse compressed tensors with the same number of specified elements are supported."
        )
    return self._become(other.clone().to(self.dtype))


@noted("SparseMaskBackward0")
def sparse_mask(self: Tensor, mask: Tensor) -> AnySparse:
    """Return the elements of a tensor, dense or sparse, at the places that a sparse one of its sizes has.

    Raises:
        RuntimeError: the sizes differ, or the mask is dense.
    """
    if not isinstance(mask, AnySparse):
        raise RuntimeError("sparse_mask(): the mask must be a sparse tensor")
    if tuple(self.shape) != tuple(mask.shape):
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self.shape)} but mask has size {list(mask.shape)}"
        )
    if isinstance(self, SparseTensor) and isinstance(mask, SparseTensor) and self.sparse_dim() == mask.sparse_dim():
        # What is large and nearly empty is not made dense.
        mine = self.coalesce()
        if not mine._nnz():
            return mask._with(mine._held.new_zeros((mask._nnz(), *mine._held.shape[1:])))
        known, wanted = mine._flat(), mask._flat()
        found = torch.searchsorted(known, wanted).clamp(max=len(known) - 1)
        there = (known[found] == wanted).reshape((-1, *([1] * self.dense_dim())))
        values = mine._held[found]
        return mask._with(torch.where(there, values, torch.zeros_like(values)))
    return mask._with(mask._picked(self.to_dense() if isinstance(self, AnySparse) else self))


@noted("NormBackward1")
def norm(
    self: AnySparse, p: float | str | None = "fro", dim: Answer = None, keepdim: bool = False, dtype: Answer = None
) -> Tensor:
    """Return the norm of all elements.

    Raises:
        RuntimeError: of a part of the dimensions, which are to be kept, or in another type.
        ValueError: in another type, of the norm of squares.
    """
    if keepdim:
        raise RuntimeError("norm_sparse currently does not support keepdim=True")
    if dim is not None and sorted(wrap_dimension(each, self.dim()) for each in _several(dim)) != [*range(self.dim())]:
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all dimensions"
        )
    if dtype is not None and p == "fro":
        raise ValueError("dtype argument is not supported in frobenius norm")
    if dtype is not None:
        raise RuntimeError("norm_sparse currently does not support 'dtype' argument")
    return self.coalesce()._held.norm(2 if p in (None, "fro") else p)


def _several(dim: int | Sequence[int]) -> Sequence[int]:
    return (dim,) if isinstance(dim, int) else dim


def stride(self: AnySparse, dim: int | None = None) -> tuple[int, ...] | int:
    """Return steps of 0, as tensors by coordinates have.

    Raises:
        RuntimeError: a line is compressed.
    """
    if isinstance(self, CompressedTensor):
        raise RuntimeError(f"Sparse {str(self.layout)[-3:].upper()} tensors do not have strides")
    return (0,) * self.dim() if dim is None else 0


def is_contiguous(self: AnySparse, memory_format: object = None) -> bool:
    """Return False.

    Raises:
        RuntimeError: a line is compressed.
    """
    if isinstance(self, CompressedTensor):
        raise RuntimeError(f"Sparse {str(self.layout)[-3:].upper()} tensors do not have is_contiguous")
    return False


def any(self: AnySparse) -> Tensor:
    """Return whether some element is not zero."""
    return self.coalesce()._held.any()


@noted("SelectBackward0")
def select(self: AnySparse, dim: int, index: int) -> Tensor:
    """Return the part at an index of a dimension: dense where no sparse dimension is left."""
    if isinstance(self, CompressedTensor):
        return self.to_sparse_coo().select(dim, index)
    mine: SparseTensor = self  # type: ignore[assignment]
    dim, kept = wrap_dimension(dim, self.dim()), mine.sparse_dim()
    size = self.shape[dim]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(self.shape)} at dimension {dim}"
        )
    index %= size
    sizes = [each for place, each in enumerate(self.shape) if place != dim]
    if dim >= kept:
        return SparseTensor.make(mine._positions, mine._held.select(dim - kept + 1, index), sizes, mine._unique)
    taken = (mine._positions[dim] == index).nonzero()[:, 0]
    values = mine._held[taken]
    if kept == 1:
        return values.sum(0)
    rest = [each for each in range(kept) if each != dim]
    return SparseTensor.make(mine._positions[rest][:, taken], values, sizes, mine._unique)


@noted("IndexSelectBackward0")
def index_select(self: AnySparse, dim: int, index: Tensor) -> Tensor:
    """Return the parts at some indices of a dimension, ``[k]`` of them, of a tensor by coordinates.

    Raises:
        NotImplementedError: a line is compressed.
    """
    if isinstance(self, CompressedTensor):
        refuse("torch.index_select of a compressed tensor")
    mine: SparseTensor = self.coalesce()  # type: ignore[assignment]
    dim, kept = wrap_dimension(dim, self.dim()), mine.sparse_dim()
    sizes = [*self.shape[:dim], len(index), *self.shape[dim + 1 :]]
    if len(index) and not bool(((index >= -self.shape[dim]) & (index < self.shape[dim])).all()):
        raise IndexError(
            f"index_select(): index contains values out of range for tensor of size {list(self.shape)} at dimension {dim}"
        )
    index = torch.where(index < 0, index + self.shape[dim], index)
    if dim >= kept:
        return SparseTensor.make(mine._positions, mine._held.index_select(dim - kept + 1, index), sizes, True)
    place, number = (index[:, None] == mine._positions[dim]).nonzero().unbind(1)
    positions = mine._positions[:, number].clone()
    positions[dim] = place
    return SparseTensor.make(positions, mine._held[number], sizes, False)


def part(self: AnySparse, index: Answer) -> Tensor:
    """Return the part at one index of some dimensions: numbers, and colons for those that stay.

    Raises:
        NotImplementedError: the index is something else.
    """
    given = index if isinstance(index, tuple) else (index,)
    if Ellipsis in given:
        before, after = given[: given.index(Ellipsis)], given[given.index(Ellipsis) + 1 :]
        given = (*before, *([slice(None)] * (self.dim() - len(before) - len(after))), *after)
    found: Tensor = self
    for place, each in reversed([*enumerate(given)]):
        if each == slice(None):
            continue
        if not isinstance(each, int):
            refuse(f"torch.Tensor.__getitem__ at {each!r}")
        found = found.select(place, each)
    return found


def item(self: AnySparse) -> complex | bool:
    """Return the only element of a tensor of one."""
    if math.prod(self.shape) != 1:
        raise RuntimeError(f"a Tensor with {math.prod(self.shape)} elements cannot be converted to Scalar")
    return self.to_dense().item()


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``input @ weight.T + bias`` [..., n] of an input [..., m] and a weight [n, m], one of them sparse."""
    rows = input if input.dim() < 3 else input.reshape(-1, input.shape[-1])
    product = rows @ weight.t()
    product = product if rows is input else product.reshape(*input.shape[:-1], weight.shape[0])
    return product if bias is None else product + bias


def unbind(self: AnySparse, dim: int = 0) -> tuple[Tensor, ...]:
    """Return the parts at all indices of a dimension."""
    dim = wrap_dimension(dim, self.dim())
    return tuple([self.select(dim, each) for each in range(self.shape[dim])])


def _no_array(self: AnySparse, *args: Answer, **kwargs: Answer) -> NoReturn:
    raise TypeError(f"can't convert {CALLED[self.layout]} layout tensor to numpy. Use Tensor.to_dense() first.")


def _no_memory(self: AnySparse) -> NoReturn:
    raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")


def _no_storage(self: AnySparse) -> NoReturn:
    raise NotImplementedError(f"Cannot access storage of {CALLED[self.layout]}TensorImpl")


def _no_other_shape(self: AnySparse, *args: Answer) -> NoReturn:
    if isinstance(self, CompressedTensor):
        raise RuntimeError("Sparse CSR tensors do not have is_contiguous")
    raise RuntimeError("reshape is not implemented for sparse tensors")


ANSWERS: dict[str, Callable[..., Answer]] = {
    each.__name__: each
    for each in (
        zero_,
        copy_,
        sparse_mask,
        norm,
        stride,
        is_contiguous,
        any,
        select,
        index_select,
        item,
        linear,
        unbind,
    )
}
ANSWERS |= {
    "__bool__": lambda self: bool(self.to_dense()), "__int__": lambda self: int(self.to_dense()),
    "__float__": lambda self: float(self.to_dense()), "numpy": _no_array, "__array__": _no_array, "tolist": _no_memory,
    "data_ptr": _no_memory, "storage": _no_storage, "untyped_storage": _no_storage, "reshape": _no_other_shape, "flatten": _no_other_shape,
}  # fmt: skip
ANSWERS["__getitem__"] = part
