"""Batches of tensors that differ in sizes, as ``torch.nested``.

In the layout ``torch.jagged`` they differ in one: values one after another, and offsets. In ``torch.strided`` they may in all.
Their classes are loaded when the first one is made: calls then look for it among their arguments.
"""

from __future__ import annotations

from .layouts import jagged as jagged
from .making import _nested_tensor_from_mask as _nested_tensor_from_mask
from .making import _nested_tensor_from_mask_left_aligned as _nested_tensor_from_mask_left_aligned
from .making import (
    as_nested_tensor,
    masked_select,
    narrow,
    nested_tensor,
    nested_tensor_from_jagged,
    to_padded_tensor,
)

__all__ = [
    "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged", "to_padded_tensor",
]  # fmt: skip
