"""Tensors of undefined contents, which have known ones where a program asks for the same results run after run."""

from __future__ import annotations

from typing import Any

from ...ir.dtypes import dtype
from ...record.context import filling
from ...record.devices import device
from ...tensors.tensor import Tensor, empty_tensor


def undefined(shape: tuple[int, ...], kind: dtype, place: device) -> Tensor:
    """Return a tensor of a shape and undefined contents, or of :func:`marked` ones while those are to be known."""
    return marked(empty_tensor(shape, kind, place))


def marked(result: Tensor) -> Tensor:
    """Fill all elements of a tensor with NaN, the greatest integer, True, while undefined contents are to be known."""
    if not filling[0]:
        return result
    value: Any = float("nan") if result.dtype.category > 1 else result.dtype.maximum
    return result.fill_(value)  # type: ignore[attr-defined]
