"""Between 8-bit floats and other types."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ...ir.dtypes import FLOAT8, dtype, float32, uint8
from ...ir.float8 import FORMATS
from ...ir.layouts import Layout
from ...tensors.tensor import Tensor
from ..elementwise.call import Elementwise
from ..elementwise.facts import Facts
from .bits import bits_alias, float8_alias


@lru_cache
def _conversion(kind: dtype, encodes: bool) -> Elementwise:
    """Return the element-wise operation from float32 to a type's bits, or back."""
    found, result = FORMATS[kind.name], uint8 if encodes else float32
    name, definition = ("encode", found.encode) if encodes else ("decode", found.decode)
    return Elementwise(f"{name}_{kind.name}", definition, "default", Facts(result_dtype=lambda operands: result))


def decoded(value: Tensor) -> Tensor:
    """Return 8-bit floats as float32, element by element, without gradient."""
    return _conversion(value.dtype, False).call((bits_alias(value),))


def encoded(value: Tensor, kind: dtype) -> Tensor:
    """Return float32 numbers as the nearest 8-bit floats, element by element, without gradient."""
    return float8_alias(_conversion(kind, True).call((value.detach(),)), kind)


def copy_float8(
    input: Tensor, kind: dtype, target: Layout, copied: Callable[[Tensor, dtype, Layout], Tensor]
) -> Tensor:
    """Return a copy in an element type and a dense layout, without gradient, where either type has eight bits.

    ``copied`` copies tensors of other types.
    """
    if input.dtype is kind:
        return float8_alias(copied(bits_alias(input), uint8, target), kind)
    if kind not in FLOAT8:
        return copied(decoded(input), kind, target)
    result = encoded(copied(input.detach(), float32, target), kind)
    result._layout = target
    return result
