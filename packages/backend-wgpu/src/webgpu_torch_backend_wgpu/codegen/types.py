"""How each element type lies in a buffer and what it is inside an expression: one table."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from ..program import Capabilities
from .ir import Call, Literal, Node, Number, bitcast, choose, convert_to, fixed, u32
from .wgsl import Helper

Unpack = Callable[[Node, Node], Node]
Pack = Callable[[Node], Node]


class ElementType:
    """The encoding of one element type on one adapter.

    Attributes:
        name: the core's name.
        scalar: type of a value in an expression.
        word: type of a word of the buffer.
        lanes: elements per word (1 for types stored as they are).
        bits: width of one packed element.
        unpack: ``unpack(word, lane)`` is the value of an element of a packed word.
        pack: ``pack(value)`` is a value's bits in the low end of a u32.
    """

    __slots__ = ("bits", "lanes", "name", "pack", "scalar", "unpack", "word")

    def __init__(
        self,
        name: str,
        scalar: str,
        word: str = "",
        lanes: int = 1,
        unpack: Unpack | None = None,
        pack: Pack | None = None,
    ) -> None:
        self.name, self.scalar, self.word, self.lanes = name, scalar, word or scalar, lanes
        self.bits = 32 // lanes
        self.unpack: Unpack = unpack or (lambda word, lane: word)
        self.pack: Pack = pack or (lambda value: value)

    def words(self, count: int) -> int:
        """Return how many words ``count`` neighbouring elements take."""
        return count // self.lanes

    def packed(self, values: Sequence[Node]) -> Node:
        """Return the word of ``lanes`` elements."""
        word, *others = [self.pack(each) << self.bits * lane for lane, each in enumerate(values)]
        for each in others:
            word = word | each
        return word

    @property
    def grouped(self) -> bool:
        """Whether neighbouring elements can be read and written as one vector: there are no vectors of vectors."""
        return self.word != "vec2<u32>"


def _bits(word: Node, lane: Node, width: int) -> Node:
    return (word >> lane * fixed(width)) & fixed((1 << width) - 1)


def _unpack_signed(width: int) -> Unpack:
    return lambda word, lane: Call("extractBits", (bitcast("i32", word), lane * fixed(width), fixed(width)), "i32")


def _helper(name: str, kind: str, *arguments: Node) -> Node:
    return Call(name, arguments, kind)


#: name → scalar, word, elements per word, unpack, pack; types that adapters differ in are in :func:`element_type`
_PACKED: dict[str, tuple[str, int, Unpack, Pack]] = {
    # Values of this type are rounded already: casts and constants see to it.
    "bfloat16": ("f32", 2, lambda word, lane: _helper("wt_bf16_bits_to_f32", "f32", _bits(word, lane, 16)),
                 lambda value: bitcast("u32", value) >> 16),
    "float16": ("f32", 2, lambda word, lane: _helper("wt_f16_bits_to_f32", "f32", _bits(word, lane, 16)),
                lambda value: _helper("wt_f32_to_f16_bits", "u32", value)),
    "int16": ("i32", 2, _unpack_signed(16), lambda value: bitcast("u32", value) & fixed(0xFFFF)),
    "int8": ("i32", 4, _unpack_signed(8), lambda value: bitcast("u32", value) & fixed(0xFF)),
    "uint8": ("i32", 4, lambda word, lane: convert_to("i32", _bits(word, lane, 8)),
              lambda value: bitcast("u32", value) & fixed(0xFF)),
    "uint16": ("i32", 2, lambda word, lane: convert_to("i32", _bits(word, lane, 16)),
               lambda value: bitcast("u32", value) & fixed(0xFFFF)),
    "bool": ("bool", 4, lambda word, lane: _bits(word, lane, 8).differs(fixed(0)),
             lambda value: choose(value, fixed(1), fixed(0))),
}  # fmt: skip
#: float16 on adapters that compute with it, read as words: there are vectors of four words, and none of eight halves
HALVES_IN_WORDS = ElementType(
    "float16", "f16", "u32", 2, lambda word, lane: bitcast("vec2<f16>", word)[lane],
    lambda value: bitcast("u32", Call("vec2<f16>", (value, convert_to("f16", fixed(0))), "vec2<f16>")),
)  # fmt: skip
_PLAIN = {"float32": "f32", "int32": "i32", "uint32": "u32"}
_TYPES: dict[tuple[str, bool, bool], ElementType] = {}


def element_type(name: str, capabilities: Capabilities) -> ElementType:
    """Return the row of an element type."""
    key = name, capabilities.half, capabilities.int64
    found = _TYPES.get(key)
    if found is None:
        found = _TYPES[key] = _element_type(*key)
    return found


def _element_type(name: str, half: bool, int64: bool) -> ElementType:
    if name in _PLAIN:
        return ElementType(name, _PLAIN[name])
    if name == "int64":
        return ElementType(name, "i64" if int64 else "vec2<u32>")
    if name == "float16" and half:
        return ElementType(name, "f16")
    if name in _PACKED:
        scalar, lanes, unpack, pack = _PACKED[name]
        return ElementType(name, scalar, "u32", lanes, unpack, pack)
    raise TypeError(
        f"webgpu kernels have no {name}; supported are float32, float16, bfloat16, integers up to 64 bits and bool"
    )


def literal(value: Any, kind: ElementType) -> Node:
    """Return a constant."""
    if kind.scalar == "bool":
        return Literal(bool(value), "bool")
    if kind.scalar == "i64":
        # The most negative number has no literal of its own.
        lowest = value == -(1 << 63)
        return _signed(value, "i64") if lowest else convert_to("i64", _signed(value, "i64"))
    if kind.scalar == "vec2<u32>":
        bits = value & 0xFFFFFFFFFFFFFFFF
        return Call("vec2<u32>", (u32(bits & 0xFFFFFFFF), u32(bits >> 32)), "vec2<u32>")
    if kind.scalar == "u32":
        return u32(value)
    if kind.scalar == "i32":
        # Positions beyond 2**31 are what u32 makes of their bits, which is all that sums and products are asked for.
        return _signed((value + (1 << 31)) % (1 << 32) - (1 << 31), "i32")
    return _float_literal(float(value), kind)


def _signed(value: int, kind: str) -> Node:
    if value >= 0:
        return Number(value, kind)
    if value == -(1 << (31 if kind == "i32" else 63)):
        return -fixed(-value - 1, kind) - fixed(1, kind)
    return -Number(-value, kind)


def _float_literal(value: float, kind: ElementType) -> Node:
    if value != value:
        node = _helper("wt_nan", "f32")
    elif value in (float("inf"), float("-inf")) or abs(value) > 3.4028234663852886e38:
        infinity = _helper("wt_inf", "f32")
        node = infinity if value > 0 else -infinity
    elif value == 0.0:
        # WGSL compilers may fold -0.0 to 0.0.
        negative = str(value)[0] == "-"
        node = bitcast("f32", Helper("wt_zero", "u32") | fixed(0x80000000)) if negative else Literal(0.0, "f32")
    else:
        single = _rounded(value, kind.name)
        node = Literal(single if abs(single) >= 1.1754943508222875e-38 else 0.0, "f32")
    return convert_to("f16", node) if kind.scalar == "f16" else node


def _rounded(value: float, name: str) -> float:
    """Return a number as float32 holds it, rounded to the type of this name before."""
    (single,) = struct.unpack("<f", struct.pack("<f", value))
    if name == "bfloat16":
        (bits,) = struct.unpack("<I", struct.pack("<f", single))
        (single,) = struct.unpack("<f", struct.pack("<I", (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000))
    elif name == "float16" and abs(single) < 65520.0:
        (single,) = struct.unpack("<e", struct.pack("<e", single))
    return single
