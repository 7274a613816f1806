"""Batches of tensors that differ in one size, as ``torch.nested``, in the layout ``torch.jagged``: values one after another, and offsets.

Their class is loaded when the first one is made: calls then look for it among their arguments.
"""

from __future__ import annotations

from .layouts import jagged as jagged
from .making import (
    as_nested_tensor,
    masked_select,
    narrow,
    nested_tensor,
    nested_tensor_from_jagged,
    to_padded_tensor,
)

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]
