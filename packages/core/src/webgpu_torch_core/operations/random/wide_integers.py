"""Integers of ranges that 32 bits do not count, made of draws that count fewer."""

from __future__ import annotations

from collections.abc import Callable

from ...tensors.tensor import Tensor
from ..elementwise.choosing import where


def wide_integers(low: int, high: int, bits: Callable[[int, int], Tensor]) -> Tensor:
    """Return int64 numbers from ``[low, high)``; ``bits`` draws a tensor of them, of some shape, from a range of 31 bits at most.

    Of ranges that 62 bits do not count, those are drawn again that lie outside, and the device is asked each time whether any do.
    """

    def word() -> Tensor:
        return bits(0, 1 << 31) * (1 << 31) + bits(0, 1 << 31)

    if high - low <= 1 << 62:
        return word() % (high - low) + low
    result = word() + bits(-2, 2) * (1 << 62)
    while (outside := (result < low) | (result > high - 1)).any():
        result = where(outside, word() + bits(-2, 2) * (1 << 62), result)
    return result
