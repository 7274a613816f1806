"""Tensors of undefined contents, which have known ones where a program asks for the same results run after run."""

from __future__ import annotations

from typing import Any

from ...ir.dtypes import dtype
from ...record.context import filling
from ...record.devices import device
from ...tensors.tensor import Tensor, empty_tensor


def undefined(shape: tuple[int, ...], kind: dtype, place: device) -> Tensor:
    """Return a tensor of a shape and undefined contents, or of :func:`mark` while those are to be known."""
    result = empty_tensor(shape, kind, place)
    return mark(result) if filling[0] else result


def mark(result: Tensor) -> Tensor:
    """Fill all elements of a tensor with what shows that nothing was written: NaN, the greatest integer, True."""
    value: Any = float("nan") if result.dtype.category > 1 else result.dtype.maximum
    return result.fill_(value)  # type: ignore[attr-defined]
