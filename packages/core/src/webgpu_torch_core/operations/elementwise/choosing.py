"""Elements that a condition chooses from two tensors or numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dispatch.direct import NUMBERS
from ...dispatch.registry import operation
from ...ir.dtypes import float32, float64, int32, int64, uint8
from ...ir.host_bytes import check_number, stored
from ...ir.layouts import broadcast_shapes
from ...notices import warn_once
from ...tensors.tensor import Tensor
from .. import elementwise as e
from ..common import type_title
from ..outputs import finish_out
from .promotion import result_type

if TYPE_CHECKING:
    from ...tensors.type_aliases import Number


@operation("elementwise", method=False)
def where(
    condition: Tensor,
    input: Tensor | Number | None = None,
    other: Tensor | Number | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """``input`` where the condition holds, else ``other``; without them, positions as ``nonzero(as_tuple=True)``."""
    if input is None:
        return condition.nonzero(as_tuple=True)
    if condition.dtype is uint8:
        warn_once(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future version of PyTorch. "
            "Use a boolean condition instead."
        )
        condition = condition != 0
    if condition.dtype.category:
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {type_title(condition)}"
        )
    return finish_out(_where(condition, input, other), out, (condition, input, other), exact=True)


#: types whose numbers are parameters of kernels as they are
_AS_NUMBERS = (float32, float64, int32, int64)


def _where(condition: Tensor, input: Tensor | Number, other: Tensor | Number | None) -> Tensor:
    if not (isinstance(input, Tensor) and isinstance(other, Tensor) and input.dtype is other.dtype):
        input, other = _in_one_type(condition, input, other)
    shapes = [each._layout.shape for each in (condition, input, other) if isinstance(each, Tensor)]
    if shapes.count(shapes[0]) < len(shapes):
        # In the order in which PyTorch compares them.
        broadcast_shapes(*shapes)
    return e.select_(input, other, condition)


def _in_one_type(
    condition: Tensor, input: Tensor | Number, other: Tensor | Number | None
) -> tuple[Tensor | Number, Tensor | Number]:
    """Return what is chosen from as tensors of one type; a single number as it is, where its type stands for the other's."""
    alone, number = (input, other) if isinstance(input, Tensor) else (other, input)
    if isinstance(alone, Tensor) and isinstance(number, int | float) and number.__class__ in NUMBERS:
        kind = alone.dtype
        if kind in _AS_NUMBERS and (kind.category == 2 or number.__class__ is not float):
            check_number(number, kind)
            return (alone, number) if alone is input else (number, alone)
    kind = result_type(input, other)

    def converted(given: Tensor | Number | None) -> Tensor:
        if isinstance(given, Tensor):
            return given if given.dtype is kind else given.to(kind)
        if given is not None and kind.category == 2 and kind.itemsize == 2:
            # Infinite if it is too large, where other types refuse it.
            return condition.new_full((), stored(given, float32), dtype=float32).to(kind)
        return condition.new_full((), given, dtype=kind)

    return converted(input), converted(other)


def _method_where(self: Tensor, condition: Tensor, other: Tensor | Number) -> Tensor:
    """The tensor's elements where ``condition`` holds, else ``other``; shapes broadcast."""
    return where(condition, self, other)


Tensor.where = _method_where  # type: ignore[attr-defined]
