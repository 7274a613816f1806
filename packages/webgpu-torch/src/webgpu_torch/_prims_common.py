"""Which element types belong together, by the names of PyTorch's helpers for operations written in Python."""

from __future__ import annotations

import webgpu_torch_core as torch
from webgpu_torch_core import dtype

_COMPLEX = {
    torch.float16: torch.complex32, torch.bfloat16: torch.complex64, torch.float32: torch.complex64,
    torch.float64: torch.complex128,
}  # fmt: skip
_REAL = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}


def corresponding_complex_dtype(dtype: dtype) -> dtype:
    """Return the type of complex numbers with parts of a floating-point type.

    Raises:
        KeyError: another type.
    """
    return _COMPLEX[dtype]


def corresponding_real_dtype(dtype: dtype) -> dtype:
    """Return the type of the parts of complex numbers.

    Raises:
        KeyError: another type.
    """
    return _REAL[dtype]


def dtype_to_type(dtype: dtype) -> type:
    """Return the class of Python's numbers that a type's elements are read as."""
    if dtype.is_complex:
        return complex
    if dtype.is_floating_point:
        return float
    return bool if dtype is torch.bool else int


def is_boolean_dtype(dtype: dtype) -> bool:
    """Return whether elements are truth values."""
    return dtype is torch.bool


def is_integer_dtype(dtype: dtype) -> bool:
    """Return whether elements are integers."""
    return not dtype.is_floating_point and not dtype.is_complex and dtype is not torch.bool


def is_float_dtype(dtype: dtype) -> bool:
    """Return whether elements are floating-point numbers."""
    return dtype.is_floating_point


def is_complex_dtype(dtype: dtype) -> bool:
    """Return whether elements are complex numbers."""
    return dtype.is_complex
