"""Masks of operands and of results, and what a reduction leaves out, as ``torch.masked._ops``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.api.masked import *  # noqa: F403
from webgpu_torch_core.operations.common import as_dimensions

from ..sparse.layouts import sparse_coo, sparse_csr
from ..sparse.making import sparse_coo_tensor

Dimensions: TypeAlias = int | Sequence[int] | None
Function: TypeAlias = Callable[..., Tensor]
#: a tensor of any layout, which has methods of its own, or an option
Laid: TypeAlias = Any
REDUCTIONS = frozenset(
    ("sum", "prod", "amax", "amin", "argmax", "argmin", "mean", "median", "norm", "var", "std", "logsumexp")
)
NORMALIZATIONS = frozenset(("softmax", "log_softmax", "softmin", "normalize", "cumsum", "cumprod"))
_canonical_dim = as_dimensions


def _reduction_identity(op_name: str, input: Tensor, *args: float) -> Tensor | None:
    """Return the element that changes no result of a reduction, ``[]`` in the input's type; None where there is no single one.

    Raises:
        NotImplementedError: there is none of such a type, or no such reduction.
    """
    name = op_name.rpartition(".")[2]
    real, whole = input.dtype.is_floating_point, not (input.dtype.is_floating_point or input.dtype.is_complex)
    kind, found = input.dtype, None
    if name in ("mean", "var", "std"):
        return None
    if name in ("sum", "cumsum"):
        found = 0.0
    elif name in ("prod", "cumprod"):
        found = 1.0
    elif name == "norm":
        found = math.inf if args and args[0] == -math.inf else 0.0
    elif name == "median":
        kind, found = input.dtype if real else torch.float32, math.nan
    elif name in ("amax", "argmax", "logaddexp", "logsumexp"):
        if real or (name == "logsumexp" and input.dtype.is_complex):
            found = -math.inf
        elif whole and input.dtype is not torch.bool:
            found = torch.iinfo(kind).min
    elif name in ("amin", "argmin"):
        if real:
            found = math.inf
        elif whole and input.dtype is not torch.bool:
            found = torch.iinfo(kind).max
    if found is None:
        raise NotImplementedError(f"identity of {name} on {kind} input")
    return torch.tensor(found, dtype=kind, device=input.device)


def _dense(tensor: Laid) -> Tensor:
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def _input_mask(input: Laid, *args: object, mask: Laid = None, **kwargs: object) -> Laid:
    """Return a mask in its input's shape and layout, of bool.

    Raises:
        ValueError: there is no mask, or the input's layout is neither dense, by coordinates, nor of compressed rows.
        IndexError: the mask has more dimensions than the input.
    """
    if input.layout not in (torch.strided, sparse_coo, sparse_csr):
        raise ValueError(f"_input_mask expects strided or sparse COO or sparse CSR tensor but got {input.layout}")
    if mask is None:
        raise ValueError("_input_mask requires explicit mask")
    if mask.ndim > input.ndim:
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    if mask.shape == input.shape and mask.layout is input.layout:
        return (mask.coalesce() if mask.layout is sparse_coo else mask).to(torch.bool)
    shown: Laid = _dense(mask).to(torch.bool).expand(tuple(input.shape))
    if input.layout is torch.strided:
        return shown
    return shown.to_sparse(input.sparse_dim()) if input.layout is sparse_coo else shown.to_sparse_csr()


def _output_mask(op: Function, input: Laid, *args: Laid, **kwargs: Laid) -> Tensor:
    """Return where a masked operation's result is one of elements that the mask shows.

    Raises:
        ValueError: it is no masked operation.
    """
    name = getattr(op, "__name__", None)
    if name in NORMALIZATIONS:
        return _input_mask(input, *args, **kwargs)
    if name not in REDUCTIONS:
        raise ValueError(f"_output_mask expected masked operation (got {name or type(op).__name__})")
    given = args[1:] if name == "norm" else args
    dims: Dimensions = given[0] if given else kwargs.get("dim")
    shown = _input_mask(input, *args, **kwargs)
    if not shown.ndim:
        return shown
    return _dense(shown).any(_canonical_dim(dims, input.ndim), bool(kwargs.get("keepdim", False)))


def _where(mask: Laid, input: Laid, fill_value: Tensor) -> Laid:
    """Return the input's elements where the mask shows them; of a sparse input nothing else is there.

    In the dense dimensions of a sparse input ``fill_value`` is where the mask shows nothing.

    Raises:
        ValueError: the mask's layout is neither dense, by coordinates, nor of compressed rows.
    """
    if mask.layout is torch.strided:
        return torch.where(mask, input, fill_value)
    if mask.layout is sparse_csr:
        return _where(mask.to_sparse_coo(), input.to_sparse_coo(), fill_value).to_sparse_csr()
    if mask.layout is not sparse_coo:
        raise ValueError(f"_where expects strided or sparse COO or sparse CSR tensor but got {mask.layout}")
    mask = mask.coalesce()
    shown = mask.values() if mask.values().ndim == 1 else mask.values().flatten(1).any(1)
    places = mask.indices()[:, shown]
    values = input.to_dense()[tuple(places)]
    if mask.values().ndim > 1:
        values = torch.where(mask.values()[shown], values, fill_value)
    return sparse_coo_tensor(places, values, tuple(input.shape), is_coalesced=True)


def with_sparse(op: Function, input: Laid, *args: Laid, mask: Laid = None, **kwargs: Laid) -> Laid:
    """Return a masked operation of sparse operands, in the input's layout: what a sparse tensor does not name is masked.

    Raises:
        ValueError: a reduction of compressed rows does not keep its dimensions.
    """
    if input.layout is torch.strided:
        return op(input, *args, mask=None if mask is None else _dense(mask), **kwargs)
    layout, name = input.layout, getattr(op, "__name__", "")
    if layout is sparse_csr and name in REDUCTIONS and not kwargs.get("keepdim"):
        raise ValueError("reduction operations on CSR tensors with keepdim=False is unsupported")
    if mask is None:
        ones = torch.ones_like(input.values(), dtype=torch.bool) if layout is sparse_csr else None
        mask = input._with(ones) if ones is not None else _named(input)
    dense, shown = input.to_dense(), _input_mask(input, mask=mask).to_dense()
    result = op(dense, *args, mask=shown, **kwargs)
    left = _output_mask(op, dense, *args, mask=shown, **kwargs)
    made: Laid = sparse_coo_tensor(left.nonzero().t(), result[left], tuple(result.shape), is_coalesced=True)
    return made if layout is sparse_coo else made.to_sparse_csr()


def _named(input: Laid) -> Laid:
    once = input.detach().coalesce()
    return once._with(torch.ones_like(once.values(), dtype=torch.bool))
