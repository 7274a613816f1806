"""How each element type lies in a buffer and what it is inside an expression: one table."""

from __future__ import annotations

from typing import Any

from ..program import Capabilities


class ElementType:
    """One element type on one adapter.

    Attributes:
        name: the core's name.
        scalar: WGSL type of a value in an expression.
        word: WGSL type of a buffer's array element.
        lanes: elements per buffer word (1 for types stored as they are).
        bits: width of one packed element.
    """

    __slots__ = ("bits", "lanes", "name", "scalar", "word")

    def __init__(self, name: str, scalar: str, word: str, lanes: int = 1, bits: int = 32) -> None:
        self.name = name
        self.scalar = scalar
        self.word = word
        self.lanes = lanes
        self.bits = bits

    def unpack(self, word: str, lane: str) -> str:
        """Return the expression of element ``lane`` (u32 text) of a packed word."""
        shift = f"({lane}) * {self.bits}u"
        if self.name == "bool":
            return f"((({word}) >> ({shift})) & 0xffu) != 0u"
        if self.name == "uint8":
            return f"i32((({word}) >> ({shift})) & 0xffu)"
        if self.name in ("int8", "int16"):
            return f"extractBits(bitcast<i32>({word}), {shift}, {self.bits}u)"
        if self.name == "bfloat16":
            return f"wt_bf16_bits_to_f32((({word}) >> ({shift})) & 0xffffu)"
        return f"wt_f16_bits_to_f32((({word}) >> ({shift})) & 0xffffu)"

    def pack(self, value: str) -> str:
        """Return a value's bits in the low end of a u32."""
        if self.name == "bool":
            return f"select(0u, 1u, {value})"
        if self.name in ("uint8", "int8"):
            return f"(bitcast<u32>({value}) & 0xffu)"
        if self.name == "int16":
            return f"(bitcast<u32>({value}) & 0xffffu)"
        if self.name == "bfloat16":
            # Values of this type are rounded already: casts and constants see to it.
            return f"(bitcast<u32>({value}) >> 16u)"
        return f"wt_f32_to_f16_bits({value})"


def element_type(name: str, capabilities: Capabilities) -> ElementType:
    """Return the row of an element type."""
    if name == "float32":
        return ElementType(name, "f32", "f32")
    if name == "int32":
        return ElementType(name, "i32", "i32")
    if name == "uint32":
        return ElementType(name, "u32", "u32")
    if name == "int64":
        return ElementType(name, "i64", "i64") if capabilities.int64 else ElementType(name, "vec2<u32>", "vec2<u32>")
    if name == "float16":
        return ElementType(name, "f16", "f16") if capabilities.half else ElementType(name, "f32", "u32", 2, 16)
    if name == "bfloat16":
        return ElementType(name, "f32", "u32", 2, 16)
    if name == "int16":
        return ElementType(name, "i32", "u32", 2, 16)
    if name in ("uint8", "int8"):
        return ElementType(name, "i32", "u32", 4, 8)
    if name == "bool":
        return ElementType(name, "bool", "u32", 4, 8)
    raise TypeError(
        f"webgpu kernels have no {name}; supported are float32, float16, bfloat16, integers up to 64 bits and bool"
    )


def literal(value: Any, kind: ElementType) -> str:
    """Return the WGSL text of a constant."""
    if kind.scalar == "bool":
        return "true" if value else "false"
    if kind.scalar == "i64":
        # The most negative number has no literal of its own.
        return f"i64({value}li)" if value > -(1 << 63) else "(-9223372036854775807li - 1li)"
    if kind.scalar == "vec2<u32>":
        bits = value & 0xFFFFFFFFFFFFFFFF
        return f"vec2<u32>({bits & 0xFFFFFFFF}u, {bits >> 32}u)"
    if kind.scalar == "u32":
        return f"{value}u"
    if kind.scalar == "i32":
        return f"{value}i" if value > -(1 << 31) else "(-2147483647i - 1i)"
    return _float_literal(float(value), kind)


def _float_literal(value: float, kind: ElementType) -> str:
    if value != value:
        text = "wt_nan()"
    elif value in (float("inf"), float("-inf")) or abs(value) > 3.4028234663852886e38:
        text = "wt_inf()" if value > 0 else "(-wt_inf())"
    elif value == 0.0:
        # WGSL compilers may fold -0.0 to 0.0.
        text = "0.0f" if str(value)[0] != "-" else "bitcast<f32>(wt_zero | 0x80000000u)"
    else:
        import struct

        single = struct.unpack("<f", struct.pack("<f", value))[0]
        if kind.name == "bfloat16":
            (bits,) = struct.unpack("<I", struct.pack("<f", single))
            single = struct.unpack("<f", struct.pack("<I", (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000))[0]
        elif kind.name == "float16" and abs(single) < 65520.0:
            single = struct.unpack("<e", struct.pack("<e", single))[0]
        text = f"{single!r}f" if abs(single) >= 1.1754943508222875e-38 else "0.0f"
    return f"f16({text})" if kind.scalar == "f16" else text
