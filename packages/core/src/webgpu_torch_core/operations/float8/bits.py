"""The bits of 8-bit floats, as kernels see them."""

from __future__ import annotations

from ...ir.dtypes import dtype, uint8
from ...tensors.tensor import Tensor


def bits_alias(value: Tensor) -> Tensor:
    """Return the bits of 8-bit floats as uint8 elements, sharing their storage, without gradient and not as a view."""
    return Tensor._from_storage(value._storage, value._layout, uint8, value.device)


def float8_alias(bits: Tensor, kind: dtype) -> Tensor:
    """Return uint8 elements as 8-bit floats, sharing their storage, without gradient and not as a view."""
    return Tensor._from_storage(bits._storage, bits._layout, kind, bits.device)
