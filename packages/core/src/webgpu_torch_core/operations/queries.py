"""Questions about tensors and types that Python code asks: answers are Python values."""

from __future__ import annotations

from typing import Any

from ..dispatch.registry import operation
from ..ir.dtypes import dtype, require_dtype
from ..tensors.tensor import Tensor
from .movement.joining import flip


@operation("composite", name="is_nonzero")
def is_nonzero(input: Tensor) -> bool:
    """Whether a tensor's only element is not zero.

    Raises:
        RuntimeError: another number of elements.
    """
    if input.numel() == 0:
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
    if input.numel() > 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(input.item())


@operation("composite")
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have one shape."""
    return input._layout.shape == other._layout.shape


@operation("composite", namespace="method")
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether two tensors are the same view of the same memory."""
    return self._storage.number == tensor._storage.number and self._layout == tensor._layout


@operation("composite", namespace="method", name="_is_view")
def is_view(self: Tensor) -> bool:
    """Whether the tensor was made as a view of another one."""
    return self._base is not None


@operation("composite", method=False)
def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether PyTorch converts silently: never from complex to real, float to integer, number to bool."""
    require_dtype("can_cast", "from_", from_)
    require_dtype("can_cast", "to", to)
    return from_.category <= to.category


def _contains(self: Tensor, element: Any) -> bool:
    if isinstance(element, Tensor | bool | int | float) or element.__class__ is complex:
        return bool(self.eq(element).any())
    raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")


def _reversed(self: Tensor) -> Tensor:
    return self if self.ndim == 0 else flip(self, (0,))


Tensor.__contains__ = _contains  # type: ignore[attr-defined]
Tensor.__reversed__ = _reversed  # type: ignore[attr-defined]
