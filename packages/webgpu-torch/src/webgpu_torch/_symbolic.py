"""Arithmetic on sizes that PyTorch's tracer may not know yet: here sizes are always numbers."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterable
from typing import TypeVar

Size = TypeVar("Size", int, float)
Chosen = TypeVar("Chosen")


def sym_int(a: float) -> int:
    """Return a number without its fraction, rounded toward zero."""
    return math.trunc(a)


def sym_float(a: float) -> float:
    """Return a number as a float."""
    return float(a)


def sym_not(a: bool) -> bool:
    """Return the opposite."""
    return not a


def sym_max(a: Size, b: Size) -> Size:
    """Return the larger number; a float if one of the two is."""
    return builtins.max(a, b) if type(a) is type(b) else type(a + b)(builtins.max(a, b))


def sym_min(a: Size, b: Size) -> Size:
    """Return the smaller number; a float if one of the two is."""
    return builtins.min(a, b) if type(a) is type(b) else type(a + b)(builtins.min(a, b))


def sym_sum(args: Iterable[int]) -> int:
    """Return the sum of numbers."""
    return builtins.sum(args)


def sym_ite(b: bool, t: Chosen, f: Chosen) -> Chosen:
    """Return the second argument if the first is true, else the third."""
    return t if b else f


def _sym_sqrt(a: float) -> float:
    """Return the square root of a number."""
    return math.sqrt(a)
