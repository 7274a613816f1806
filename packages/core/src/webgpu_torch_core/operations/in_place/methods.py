"""Methods that change a tensor in place and follow from functions of several families, and what they do to shapes."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...ir.dtypes import bool_
from ...ir.layouts import contiguous_strides
from ...record.devices import on_host
from ...tensors.tensor import Tensor
from ..common import dtype_title
from ..contraction.matrix_products import addmm, addmv, baddbmm
from ..contraction.products import addbmm, addr
from ..creation.factories import ones
from ..creation.typed_storage import TypedStorage
from ..creation.untyped_storage import UntypedStorage
from ..movement.joining import tril, triu
from ..movement.splitting import become_view
from ..movement.views import as_strided
from .writing import check_leaf, make_in_place, refuse_gradient, without_repeats

if TYPE_CHECKING:
    from ...tensors.type_aliases import Number

for _function in (addbmm, addmm, addmv, addr, baddbmm, tril, triu):
    setattr(Tensor, f"{_function.__name__}_", make_in_place(_function, f"{_function.__name__}_", _function, None))


def _matrices_in_order(batches: Tensor) -> bool:
    """Return whether the matrices of several dimensions of batches lie one behind the other: others PyTorch writes as a copy."""
    if batches.ndim < 4:
        return True
    expected = batches.shape[-1] * batches.shape[-2]
    for number, size, stride in list(zip(range(batches.ndim - 2), batches.shape, batches.stride(), strict=False))[::-1]:
        if not (number == 0 and (stride == 0 or size == 1)):
            if stride != expected:
                return False
            expected *= size
    return True


def _triangle_in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the in-place version of a triangle: what an expanded tensor shows several times is zeroed where any of these is."""
    write = getattr(Tensor, f"{function.__name__}_")

    def in_place(self: Tensor, diagonal: int = 0) -> Tensor:
        shown = without_repeats(self)
        if shown is self or self.ndim < 2 or not _matrices_in_order(self):
            return write(self, diagonal)
        repeated = tuple(each for each in (-2, -1) if shown.shape[each] != self.shape[each])
        outside = function(ones(self.shape[-2:], dtype=bool_, device=self.device), diagonal).logical_not()
        shown.masked_fill_(outside.any(repeated, True) if repeated else outside, 0)
        refuse_gradient(self, shown)
        return self

    in_place.__name__ = in_place.__qualname__ = write.__name__
    in_place.__doc__ = write.__doc__
    return in_place


Tensor.tril_ = _triangle_in_place(tril)  # type: ignore[attr-defined]
Tensor.triu_ = _triangle_in_place(triu)  # type: ignore[attr-defined]


@operation("composite", namespace="method")
def fill_diagonal_(self: Tensor, fill_value: Number, wrap: bool = False) -> Tensor:
    """Write a number on the main diagonal; ``wrap`` begins again below the square part of a tall matrix.

    Raises:
        RuntimeError: fewer than two dimensions, or more of unequal sizes.
    """
    if self.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    shape, strides = self._layout.shape, self._layout.strides
    if self.ndim > 2 and len(set(shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    size, step = min(shape), sum(strides)
    if self.numel():
        self.as_strided((size,), (step,)).fill_(fill_value)
    if wrap and self.ndim == 2 and shape[0] > shape[1] + 1 and self.numel():
        # The row between two diagonals stays as it is.
        start = (size + 1) * strides[0]
        count = math.ceil((shape[0] - size - 1) * shape[1] / (shape[1] + 1))
        self.as_strided((count,), (step,), self._layout.offset + start).fill_(fill_value)
    return self


@operation("view", namespace="method")
def as_strided_(self: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """Look at the storage by other sizes, strides and offset, in place."""
    return become_view(self, as_strided, size, stride, storage_offset)


@operation("composite", namespace="method")
def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace every element by what a Python function makes of it; slow, and only on the CPU.

    Raises:
        TypeError: a tensor on another device, or the function returns no number.
    """
    return _mapped(self, (self,), callable, "apply_")


@operation("composite", namespace="method")
def map_(self: Tensor, other: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace every element by what a Python function makes of it and of another tensor's; slow, and only on the CPU.

    Raises:
        TypeError: a tensor on another device.
    """
    return _mapped(self, (self, other.expand(self.shape)), callable, "map_")


@operation("composite", namespace="method")
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Replace every element by what a Python function makes of it and of two other tensors'; slow, and only on the CPU.

    Raises:
        TypeError: a tensor on another device.
    """
    return _mapped(self, (self, x.expand(self.shape), y.expand(self.shape)), callable, "map2_")


@operation("view", namespace="method")
def set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Look at another tensor's memory, or a storage's, in place; at none without a source.

    Args:
        source: a tensor, which is then shown as it is, or a storage.
        storage_offset: where in the storage to begin, if ``size`` is given.
        size: sizes of the view; all of a storage's elements if None.
        stride: strides of the view, row-major if None.

    Raises:
        RuntimeError: a source of another element type or device, a view that reaches past the storage, or a leaf that requires
            a gradient.
    """
    check_leaf(self)
    if source is None:
        source = self.new_empty(0)
    elif isinstance(source, UntypedStorage):
        source = source.as_elements(self.dtype)
    elif isinstance(source, TypedStorage):
        if source.dtype is not self.dtype:
            raise RuntimeError(
                f"Expected a Storage of type {dtype_title(self.dtype)} or an UntypedStorage, but got type {dtype_title(source.dtype)} for "
                "argument 1 'storage'"
            )
        source = source.untyped().as_elements(self.dtype)
    if source.dtype is not self.dtype:
        raise RuntimeError(f"Could not set tensor of type {source.dtype.name} to a tensor of type {self.dtype.name}")
    if source.device != self.device:
        raise RuntimeError(f"Attempted to set the storage of a tensor on device \"{self.device}\" to a storage on "
                           f"different device \"{source.device}\"")  # fmt: skip
    if size is not None:
        shape = tuple(int(each) for each in size)
        source = source.detach().as_strided(
            shape, contiguous_strides(shape) if stride is None else stride, storage_offset
        )
    self._storage, self._layout, self._base = source._storage, source._layout, None
    return self


@operation("composite", namespace="method")
def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """Return what a module's parameter or buffer becomes when another tensor of its shape is loaded into it.

    ``load_state_dict`` asks for it where parameters are swapped, which ``torch.__future__`` tells of; subclasses may answer.

    Args:
        other: the tensor that is loaded.
        assign: True to keep the tensor as it is, False to write it into this one.
    """
    return other.detach() if assign else self.copy_(other).detach()


def _mapped(self: Tensor, operands: tuple[Tensor, ...], callable: Callable[..., Any], name: str) -> Tensor:
    for each in operands:
        if each.requires_grad:
            raise RuntimeError(
                f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
            )
        if not on_host(each.device):
            raise TypeError(f"{name} is only implemented on CPU tensors")
    rows = [each.reshape(-1).tolist() for each in operands]
    values = [callable(*numbers) for numbers in zip(*rows, strict=True)]
    for each in values:
        if not isinstance(each, numbers.Number):
            raise TypeError(f"{name}: the function should return a number, not {type(each).__name__}")
    return self.copy_(self.new_tensor(values, dtype=self.dtype).reshape(self.shape))
