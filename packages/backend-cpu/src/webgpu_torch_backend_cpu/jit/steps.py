"""Expressions as LLVM's language: one table for steps, one for types."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from webgpu_torch_core.ir.dtypes import bfloat16, dtype, float16, float32, float64
from webgpu_torch_core.ir.expression import Expression, Number
from webgpu_torch_core.ir.scalar_math import float_to_bfloat16_bits, round_to_float16, round_to_float32


class Unsupported(Exception):
    """There is no machine code for a kernel: NumPy runs it."""


#: the type of a value while it is computed with (bfloat16 is its bits)
TYPES = {
    "bool": "i1", "uint8": "i8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint16": "i16",
    "uint32": "i32", "uint64": "i64",
    "float16": "half", "bfloat16": "i16", "float32": "float", "float64": "double",
}  # fmt: skip

#: the type of an element in memory where it is another
STORED = {**TYPES, "bool": "i8"}

#: each step by the kind of its operands: f(loat), s(igned), u(nsigned) integer, b(ool); "@" calls an intrinsic function
STEPS: dict[str, dict[str, str]] = {
    "add": {"f": "fadd", "su": "add"}, "subtract": {"f": "fsub", "su": "sub"},
    "multiply": {"f": "fmul", "su": "mul"}, "divide": {"f": "fdiv"}, "fmod": {"f": "frem"},
    "whole_quotient": {"s": "sdiv", "u": "udiv"}, "whole_rest": {"s": "srem", "u": "urem"},
    "negate": {"f": "fneg", "su": "sub {t} 0, {0}"}, "absolute": {"f": "@fabs", "s": "@abs", "u": "{0}"},
    "minimum": {"f": "@minimum", "s": "@smin", "u": "@umin", "b": "and"},
    "maximum": {"f": "@maximum", "s": "@smax", "u": "@umax", "b": "or"},
    "fused_multiply_add": {"f": "@fma"}, "multiply_add": {"f": "@fmuladd"}, "floor": {"f": "@floor"}, "ceil": {"f": "@ceil"}, "truncate": {"f": "@trunc"},
    "round": {"f": "@rint"}, "sqrt": {"f": "@sqrt"}, "copysign": {"f": "@copysign"},
    "is_nan": {"f": "fcmp uno {t} {0}, {0}", "sub": "false"},
    "equal": {"f": "fcmp oeq", "sub": "icmp eq"}, "not_equal": {"f": "fcmp une", "sub": "icmp ne"},
    "less": {"f": "fcmp olt", "s": "icmp slt", "ub": "icmp ult"},
    "less_equal": {"f": "fcmp ole", "s": "icmp sle", "ub": "icmp ule"},
    "bitwise_and": {"sub": "and"}, "bitwise_or": {"sub": "or"}, "bitwise_xor": {"sub": "xor"},
    "bitwise_not": {"sub": "xor {t} {0}, -1"}, "machine_shift_left": {"su": "shl"},
    "machine_shift_right": {"s": "ashr", "u": "lshr"},
}  # fmt: skip

#: steps that the library of mathematical functions has, by their names there for float64
LIBRARY = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
    "power": "pow", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "atan2": "atan2",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "hypot": "hypot",
    "erf": "erf", "erfc": "erfc", "lgamma": "lgamma",
}  # fmt: skip


def kind_of(of: dtype) -> str:
    """Return the letter of a type's kind in :data:`STEPS`."""
    if of is bfloat16:
        raise Unsupported("arithmetic on bits of bfloat16")
    return "f" if of.category == 2 else "b" if of.category == 0 else "s" if of.is_signed else "u"


def literal(value: Number, of: dtype) -> str:
    """Return a constant of a type."""
    if of.category == 0:
        return "true" if value else "false"
    if of.category == 1:
        value = int(value) & ((1 << of.bits) - 1)
        return str(value - (1 << of.bits) if value >> (of.bits - 1) else value)
    value = float(value)
    if of is bfloat16:
        return str(float_to_bfloat16_bits(value))
    if of is float16:
        return f"0xH{struct.unpack('<H', struct.pack('<e', round_to_float16(value)))[0]:04X}"
    # Constants of single precision are written as the double that they are.
    value = round_to_float32(value) if of is float32 else value
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


class Statements:
    """Spells steps as statements; ``emit(source)`` writes one and returns the name of its value."""

    def __init__(self, emit: Callable[[str], str], declarations: dict[str, str]) -> None:
        self.emit = emit
        #: functions that are called, by their names
        self.declarations = declarations

    def call(self, name: str, result: str, arguments: list[tuple[str, str]]) -> str:
        """Call a function of typed arguments."""
        self.declarations[name] = f"declare {result} @{name}({', '.join(of for of, _ in arguments)})"
        return self.emit(f"call {result} @{name}({', '.join(f'{of} {value}' for of, value in arguments)})")

    def step(self, node: Expression, arguments: list[str]) -> str:
        """Write a step on values and return the name of its result."""
        step, of = node.step, (node.arguments[-1] if node.arguments else node).dtype
        kind = TYPES[of.name]
        if step == "cast":
            return self.cast(arguments[0], of, node.dtype)
        if step == "bits":
            return self.emit(f"bitcast {kind} {arguments[0]} to {TYPES[node.dtype.name]}")
        if step == "select":
            return self.emit(f"select i1 {arguments[0]}, {kind} {arguments[1]}, {kind} {arguments[2]}")
        if step == "hypot" and of is float32:
            return self._hypot(arguments)
        if step in LIBRARY and of in (float32, float64):
            name = LIBRARY[step] + ("f" if of is float32 else "")
            return self.call(name, kind, [(kind, each) for each in arguments])
        letter = kind_of(of)
        spelling = next((text for kinds, text in STEPS.get(step, {}).items() if letter in kinds), None)
        if spelling is None or of is float16:
            raise Unsupported(f"{step} of {of.name}")
        return self._spelled(spelling, kind, arguments)

    def _spelled(self, spelling: str, kind: str, arguments: list[str]) -> str:
        if spelling.startswith("@"):
            suffix = {"float": "f32", "double": "f64"}.get(kind, kind)
            # The smallest integer has no absolute value, and stays what it is.
            further = [("i1", "false")] if spelling == "@abs" else []
            return self.call(f"llvm.{spelling[1:]}.{suffix}", kind, [(kind, each) for each in arguments] + further)
        if "{" in spelling:
            source = spelling.format(*arguments, t=kind)
            return source if " " not in source else self.emit(source)
        return spelling if spelling == "false" else self.emit(f"{spelling} {kind} {', '.join(arguments)}")

    def _hypot(self, arguments: list[str]) -> str:
        """Return ``sqrt(a * a + b * b)`` in double precision, where no square leaves the range; the library takes one at a time."""
        squares: list[str] = []
        endless: list[str] = []
        for each in arguments:
            wide = self.emit(f"fpext float {each} to double")
            squares.append(self.emit(f"fmul double {wide}, {wide}"))
            size = self.call("llvm.fabs.f32", "float", [("float", each)])
            endless.append(self.emit(f"fcmp oeq float {size}, {literal(math.inf, float32)}"))
        total = self.emit(f"fadd double {squares[0]}, {squares[1]}")
        root = self.emit(f"fptrunc double {self.call('llvm.sqrt.f64', 'double', [('double', total)])} to float")
        # Beside an infinite number what is no number does not matter.
        either = self.emit(f"or i1 {endless[0]}, {endless[1]}")
        return self.emit(f"select i1 {either}, float {literal(math.inf, float32)}, float {root}")

    def cast(self, value: str, source: dtype, target: dtype) -> str:
        """Convert a value as PyTorch converts elements."""
        if source is target:
            return value
        if source is bfloat16:
            wide = self.emit(f"shl i32 {self.emit(f'zext i16 {value} to i32')}, 16")
            return self.cast(self.emit(f"bitcast i32 {wide} to float"), float32, target)
        if target is bfloat16:
            return self._to_bfloat16(self.cast(value, source, float32))
        if source is float16 and target.category < 2:
            return self.cast(self.cast(value, source, float32), float32, target)
        if target is float16:
            # Numbers of 64 bits are rounded twice, as in PyTorch.
            return self.emit(f"fptrunc float {self.cast(value, source, float32)} to half")
        old, new = TYPES[source.name], TYPES[target.name]
        if target.category == 0:
            test = "fcmp une" if source.category == 2 else "icmp ne"
            return self.emit(f"{test} {old} {value}, {'0.0' if source.category == 2 else '0'}")
        if source.category == 2:
            if target.category == 1:
                return self._to_integer(value, source, target)
            return self.emit(f"{'fpext' if target.itemsize > source.itemsize else 'fptrunc'} {old} {value} to {new}")
        signed = source.is_signed and source.category == 1
        if target.category == 2:
            return self.emit(f"{'s' if signed else 'u'}itofp {old} {value} to {new}")
        if source.category and target.bits <= source.bits:
            return value if target.bits == source.bits else self.emit(f"trunc {old} {value} to {new}")
        return self.emit(f"{'s' if signed else 'z'}ext {old} {value} to {new}")

    def _to_bfloat16(self, value: str) -> str:
        """Round to nearest, ties to even; NaN is kept."""
        pattern = self.emit(f"bitcast float {value} to i32")
        odd = self.emit(f"and i32 {self.emit(f'lshr i32 {pattern}, 16')}, 1")
        moved = self.emit(f"add i32 {self.emit(f'add i32 {pattern}, {0x7FFF}')}, {odd}")
        high = self.emit(f"trunc i32 {self.emit(f'lshr i32 {moved}, 16')} to i16")
        is_nan = self.emit(f"fcmp uno float {value}, {value}")
        return self.emit(f"select i1 {is_nan}, i16 {0x7FC0}, i16 {high}")

    def _to_integer(self, value: str, source: dtype, target: dtype) -> str:
        """Truncate; what has no integer becomes the smallest, of 32 bits or 64, as on x86."""
        width = 32 if target.is_signed and target.bits <= 32 else 64
        old, end = TYPES[source.name], 2.0 ** (width - 1)
        below = -end - 1 if width == 32 and source is float64 else None
        low = f"fcmp {'ogt' if below else 'oge'} {old} {value}, {literal(below or -end, source)}"
        high = self.emit(f"fcmp olt {old} {value}, {literal(end, source)}")
        inside = self.emit(f"and i1 {self.emit(low)}, {high}")
        whole = self.emit(f"select i1 {inside}, {old} {value}, {old} 0.0")
        found = self.emit(f"fptosi {old} {whole} to i{width}")
        found = self.emit(f"select i1 {inside}, i{width} {found}, i{width} {-(1 << width - 1)}")
        return found if target.bits == width else self.emit(f"trunc i{width} {found} to {TYPES[target.name]}")
