"""Element types that element-wise operations could compute on but PyTorch refuses, in the words of its kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.dtypes import bool_, dtype
from ...ir.host_bytes import check_number
from ..common import dtype_title

Refusal = Callable[[tuple[Any, ...], dtype], None]


def floats_only(kernel: str) -> Refusal:
    """Return what raises for integers and booleans as PyTorch's kernel of a name does."""

    def refuse(operands: tuple[object, ...], promoted: dtype) -> None:
        if promoted.category < 2:
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtype_title(promoted)}'")

    return refuse


def wide_reals(kernel: str) -> Refusal:
    """Return what raises for complex numbers and floats of 16 bits as PyTorch's kernel of a name does."""

    def refuse(operands: tuple[object, ...], promoted: dtype) -> None:
        if promoted.is_complex or (promoted.is_floating_point and promoted.itemsize == 2):
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtype_title(promoted)}'")

    return refuse


def no_booleans(kernel: str) -> Refusal:
    """Return what raises for booleans as PyTorch's kernel of a name does."""

    def refuse(operands: tuple[object, ...], promoted: dtype) -> None:
        if promoted is bool_:
            raise NotImplementedError(f"\"{kernel}\" not implemented for 'Bool'")

    return refuse


def refuse_options(name: str, options: tuple[object, ...], promoted: dtype) -> None:
    """Raise for factors that are no numbers of the type in which an operation computes."""
    if name in ("add", "sub"):
        (alpha,) = options
        if isinstance(alpha, str):
            raise TypeError(f"{name}(): argument 'alpha' must be Number, not str")
        if promoted.category == 2 and alpha.__class__ is complex:
            raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
        if promoted.category < 2 and alpha.__class__ in (float, complex):
            raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    for each in options:
        if isinstance(each, complex) and not promoted.is_complex:
            check_number(each, promoted)
