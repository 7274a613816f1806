"""Element types that element-wise operations could compute on but PyTorch, for good reasons, refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.dtypes import bool_, dtype

_MASK = "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
_NAMES = {"bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long"}


def _subtraction(operands: tuple[Any, ...], promoted: dtype) -> None:
    del promoted
    flags = [each.__class__ is bool or getattr(each, "dtype", None) is bool_ for each in operands]
    if all(flags):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator "
            "instead."
        )
    if any(flags):
        raise RuntimeError(f"Subtraction, the `-` operator, with a bool tensor is not supported. {_MASK}")


def _negation(operands: tuple[Any, ...], promoted: dtype) -> None:
    del operands
    if promoted is bool_:
        raise RuntimeError(f"Negation, the `-` operator, on a bool tensor is not supported. {_MASK}")


def _relu(operands: tuple[Any, ...], promoted: dtype) -> None:
    del operands
    if promoted is bool_:
        raise RuntimeError("Boolean inputs not supported for relu")


def _fraction(operands: tuple[Any, ...], promoted: dtype) -> None:
    del operands
    if promoted.category < 2:
        raise NotImplementedError(f"\"frac_cpu\" not implemented for '{_NAMES[promoted.name]}'")


#: operation -> a function of its operands and their promoted type that raises where PyTorch does
REFUSALS: dict[str, Callable[[tuple[Any, ...], dtype], None]] = {
    "sub": _subtraction,
    "neg": _negation,
    "relu": _relu,
    "frac": _fraction,
}
