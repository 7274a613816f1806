"""Hashes of what tensors hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dispatch.registry import operation
from ...ir.dtypes import float32, float64, int32, int64, uint16, uint32, uint64
from ...tensors.tensor import Tensor
from ..common import as_dimensions, dtype_title
from ..elementwise.choosing import where
from ..outputs import into
from .reductions import reduce, require_elements

if TYPE_CHECKING:
    from ...tensors.type_aliases import Dimensions


def _as_words(input: Tensor) -> Tensor:
    """Return each element's 64 bits as int64: an integer's own, a floating-point number's as a float64.

    A float32's exponent and fraction are moved to their places in a float64 (IEEE 754-2019, section 3.4), which no device has to have.
    """
    if input.dtype is float64:
        return input.view(int64)
    if input.dtype.category < 2:
        return input.to(int64)
    bits = input.to(float32).contiguous().view(int32)
    magnitude = bits & 0x7FFFFFFF
    subnormal, endless = magnitude < 1 << 23, magnitude >= 255 << 23
    # A subnormal number is its fraction times 2**-149, and its fraction is a normal number.
    whole = where(subnormal, magnitude.to(float32).view(int32), magnitude).to(int64)
    exponent = where(subnormal, 896 - 149, where(endless, 896 + 896, 896))
    quiet = (magnitude > 255 << 23).to(int64) << 51
    word = ((whole << 29) + (exponent.to(int64) << 52)) | quiet
    return where(magnitude == 0, 0, word) | ((bits < 0).to(int64) << 63)


@operation("composite")
def hash_tensor(
    input: Tensor, dim: Dimensions = (), *, keepdim: bool = False, mode: int = 0, out: Tensor | None = None
) -> Tensor:
    """The exclusive or of the elements' 64 bits over dimensions, as uint64: integers as int64, other numbers as float64.

    Raises:
        RuntimeError: another ``mode`` than 0, or nothing to reduce.
        IndexError: a dimension that is not there or has no elements.
        NotImplementedError: complex numbers, float8, or wide unsigned integers.
    """
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    if (
        input.dtype.category > 2
        or (input.dtype.itemsize == 1 and input.dtype.category == 2)
        or input.dtype in (uint16, uint32, uint64)
    ):
        raise NotImplementedError(f"\"xor_sum_cpu\" not implemented for '{dtype_title(input.dtype)}'")
    dims = as_dimensions(None if dim == () else dim, input.ndim)
    require_elements(input, dims, None if dim == () else dim, "hash_tensor")
    return into(reduce(_as_words(input.detach()), "xor", dims, keepdim, int64, int64).view(uint64), out, exact=True)
