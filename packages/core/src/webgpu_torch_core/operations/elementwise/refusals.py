"""Element types that element-wise operations could compute on but PyTorch refuses, in the words of its kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.dtypes import bool_, dtype
from ..common import dtype_title

Refusal = Callable[[tuple[Any, ...], dtype], None]


def floats_only(kernel: str) -> Refusal:
    """Return what raises for integers and booleans as PyTorch's kernel of a name does."""

    def refuse(operands: tuple[object, ...], promoted: dtype) -> None:
        if promoted.category < 2:
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtype_title(promoted)}'")

    return refuse


def no_booleans(kernel: str) -> Refusal:
    """Return what raises for booleans as PyTorch's kernel of a name does."""

    def refuse(operands: tuple[object, ...], promoted: dtype) -> None:
        if promoted is bool_:
            raise NotImplementedError(f"\"{kernel}\" not implemented for 'Bool'")

    return refuse
