"""Encodings: numbers of a few bits, several to a byte, with how to read them declared once as an expression.

A kernel that loads encoded numbers evaluates the expression, on every backend: a quantised weight is an operand like any
other, which a contraction decodes while it loads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from . import float8
from .dtypes import float32, int32
from .expression import Expression, cast, substitute, trace
from .interpreter import Environment, evaluate
from .records import Record
from .scalar import where


class Encoding(Record):
    """Numbers of ``bits`` bits (a divisor of 8) in bytes, the first in the lowest bits.

    Fields:
        name: for people and profiles.
        bits: how many bits a number takes.
        value: the float32 number, over ``argument(0)``, its bits as an int32 between 0 and ``2 ** bits - 1``.
    """

    __slots__ = fields = ("name", "bits", "value")
    name: str
    bits: int
    value: Expression

    @property
    def lanes(self) -> int:
        """How many numbers a byte holds."""
        return 8 // self.bits

    def unpack(self, word: Expression, lane: Expression | int) -> Expression:
        """Return number ``lane`` of a byte (an integer expression), as float32."""
        whole = cast(word, int32)
        found: Any = whole & ((1 << self.bits) - 1)
        for number in range(1, self.lanes):
            # Every branch is of bits that are read: what they are is for no compiler to know.
            found = where(lane < number, found, (whole >> number * self.bits) & ((1 << self.bits) - 1))
        return substitute(self.value, (found if self.lanes > 1 else whole,))

    def codes(self) -> list[float]:
        """Return the number that each pattern of bits stands for."""
        return [float(evaluate(self.value, (), Environment((), (), [bits]))) for bits in range(1 << self.bits)]


def define(name: str, bits: int, value: Callable[[Any], Any]) -> Encoding:
    """Return an encoding from a function of a number's bits.

    Raises:
        ValueError: the bits do not divide a byte.
    """
    if bits not in (1, 2, 4, 8):
        raise ValueError(f"encoding '{name}' has numbers of {bits} bits; a byte holds whole ones of 1, 2, 4 or 8")
    return Encoding(name, bits, cast(trace(value, (int32,)), float32))


def _signed(bits: int) -> Callable[[Any], Any]:
    return lambda word: where(word < 1 << bits - 1, word, word - (1 << bits))


#: quantiles of a normal distribution scaled to -1..1 (Dettmers et al., "QLoRA", 2023, appendix E)
NORMAL_QUANTILES = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip


def table(values: Sequence[float]) -> Callable[[Any], Any]:
    """Return the decoder that looks a pattern of bits up: a tree of selections."""

    def value(word: Any, first: int = 0, count: int = len(values)) -> Any:
        if count == 1:
            return values[first]
        half = count // 2
        return where(word < first + half, value(word, first, half), value(word, first + half, count - half))

    return value


#: Each encoding by name.
ENCODINGS: dict[str, Encoding] = {
    each.name: each
    for each in (
        define("int8", 8, _signed(8)),
        define("int4", 4, _signed(4)),
        define("uint4", 4, lambda word: word),
        define("int2", 2, _signed(2)),
        define("nf4", 4, table(NORMAL_QUANTILES)),
        *(define(name, 8, each.decode) for name, each in float8.FORMATS.items()),
    )
}


@lru_cache(maxsize=64)
def codes(found: Encoding) -> tuple[float, ...]:
    """Return the finite numbers of an encoding in the order of their bits; patterns of none give infinity."""
    return tuple(each if abs(each) < float("inf") else float("inf") for each in found.codes())
