"""Random numbers in LLVM's language: what NumPy can only emulate, such as fused multiply-adds, or has no loop for.

Each text is a function as :mod:`.machine` has them, whose ``arrays`` are addresses; what it computes is said by the functions of
:mod:`webgpu_torch_core.random_streams`, bit for bit. Logarithms, exponentials, sines and cosines of doubles are the C library's.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from webgpu_torch_core.random_streams import box_muller as scalar

from .. import config
from . import adaptive
from .machine import Function, is_installed, machine
from .sampler_texts import POISSON, SHARES, double
from .steps import Unsupported

if TYPE_CHECKING:
    from numpy import ndarray

#: numbers from which on a draw is worth to be compiled
WORTH = 1 << 12

_HEAD = "define void @kernel(i64 %begin, i64 %end, ptr %arrays, ptr %numbers, ptr %parameters) {\nentry:\n"


class _Lines:
    """Statements of a function's body, each of which names its value."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: set[str] = set()

    def __call__(self, source: str) -> str:
        name = f"%t{len(self.lines)}"
        self.lines.append(f"  {name} = {source}")
        return name

    def pointer(self, number: int) -> str:
        """Return the address of an array."""
        return self(f"load ptr, ptr {self(f'getelementptr ptr, ptr %arrays, i64 {number}')}")

    def call(self, name: str, kind: str, *arguments: str) -> str:
        """Call a function of operands of its result's type."""
        self.declarations.add(f"declare {kind} @{name}({', '.join([kind] * len(arguments))})")
        return self(f"call {kind} @{name}({', '.join(f'{kind} {each}' for each in arguments)})")

    def looped(self, head: list[str], body: list[str]) -> str:
        """Return a module with a loop over ``%i`` from ``%begin`` to ``%end``."""
        lines = [
            *head, "  %some = icmp slt i64 %begin, %end", "  br i1 %some, label %loop, label %done", "loop:",
            "  %i = phi i64 [%begin, %entry], [%next, %loop]", *body, "  %next = add i64 %i, 1",
            "  %more = icmp slt i64 %next, %end", "  br i1 %more, label %loop, label %done", "done:", "  ret void", "}",
            *sorted(self.declarations),
        ]  # fmt: skip
        return _HEAD + "\n".join(lines) + "\n"


_SINGLE, _WORD = "<8 x float>", "<8 x i32>"


def _all(kind: str, value: float) -> str:
    """Return a vector of one number."""
    if kind == "float":
        return f"<{', '.join([f'float {double(value)}'] * 8)}>"
    return f"<{', '.join([f'{kind} {int(value)}'] * 8)}>"


class _Vectors(_Lines):
    """Statements over eight float32 numbers or words at a time."""

    def single(self, step: str, left: str, right: str | float) -> str:
        """Return an operation of numbers."""
        return self(f"{step} {_SINGLE} {left}, {right if isinstance(right, str) else _all('float', right)}")

    def word(self, step: str, left: str, right: str | int) -> str:
        """Return an operation of words."""
        return self(f"{step} {_WORD} {left}, {right if isinstance(right, str) else _all('i32', right)}")

    def fused(self, left: str, right: str | float, addend: str | float) -> str:
        """Return ``left * right + addend``, rounded once."""
        of = (left, *(each if isinstance(each, str) else _all("float", each) for each in (right, addend)))
        return self.call("llvm.fma.v8f32", _SINGLE, *of)

    def horner(self, coefficients: tuple[float, ...], x: str) -> str:
        """Return a polynomial, the highest power's coefficient first."""
        result = _all("float", coefficients[0])
        for each in coefficients[1:]:
            result = self.fused(result, x, each)
        return result

    def unit(self, words: str) -> str:
        """Return numbers from [0, 1) of 24 bits."""
        return self.single("fmul", self(f"sitofp {_WORD} {self.word('and', words, 0xFFFFFF)} to {_SINGLE}"), 2.0**-24)

    def bits(self, value: str) -> str:
        """Return the bits of numbers."""
        return self(f"bitcast {_SINGLE} {value} to {_WORD}")

    def number(self, bits: str) -> str:
        """Return the numbers that have some bits."""
        return self(f"bitcast {_WORD} {bits} to {_SINGLE}")

    def logarithm(self, value: str) -> str:
        """Return what :func:`box_muller._log` does."""
        bits = self.bits(value)
        root = struct.unpack("<i", struct.pack("<f", scalar._SQRT_HALF))[0]
        shift = self.word("and", self.word("sub", bits, root), ~0x7FFFFF)
        x = self.single("fsub", self.number(self.word("sub", bits, shift)), 1.0)
        exponent = self(f"sitofp {_WORD} {self.word('ashr', shift, 23)} to {_SINGLE}")
        square = self.single("fmul", x, x)
        y = self.single("fmul", self.horner(scalar._LOG_COEFFICIENTS, x), x)
        y = self.fused(y, square, self.single("fmul", exponent, scalar._LOG_TWO_LOW))
        y = self.single("fsub", y, self.single("fmul", square, 0.5))
        return self.fused(exponent, scalar._LOG_TWO_HIGH, self.single("fadd", x, y))

    def sine_cosine(self, angle: str) -> tuple[str, str]:
        """Return what :func:`box_muller._sine_cosine` does."""
        octants = self(f"fptosi {_SINGLE} {self.single('fmul', angle, scalar._FOUR_OVER_PI)} to {_WORD}")
        octants = self.word("and", self.word("add", octants, 1), ~1)
        x, wide = angle, self(f"sitofp {_WORD} {octants} to {_SINGLE}")
        for part in scalar._QUARTER_PI_PARTS:
            x = self.fused(wide, part, x)
        square = self.single("fmul", x, x)
        cosine = self.single("fmul", self.horner(scalar._COSINE_COEFFICIENTS, square), square)
        cosine = self.fused(cosine, square, self.single("fmul", square, -0.5))
        cosine = self.bits(self.single("fadd", cosine, 1.0))
        sine = self.single("fmul", self.horner(scalar._SINE_COEFFICIENTS, square), square)
        sine = self.bits(self.fused(sine, x, x))
        odd = self(f"icmp ne {_WORD} {self.word('and', octants, 2)}, zeroinitializer")
        signs = [self.word("and", self.word("shl", octants, 29), -(1 << 31))]
        signs.append(
            self.word("and", self.word("shl", self.word("xor", self.word("sub", octants, 2), -1), 29), -(1 << 31))
        )
        turned = [
            self(f"select <8 x i1> {odd}, {_WORD} {one}, {_WORD} {other}")
            for one, other in ((cosine, sine), (sine, cosine))
        ]
        sine, cosine = (self.number(self.word("xor", *each)) for each in zip(turned, signs, strict=True))
        return sine, cosine


def _normal_singles() -> str:
    """Return the text of ``box_muller.normal_float32``: each pass takes a row of 16 words; parameters are deviation and mean."""
    of = _Vectors()
    words, result = of.pointer(0), of.pointer(1)
    spread = []
    for number in range(2):
        wide = of(f"load double, ptr {of(f'getelementptr double, ptr %parameters, i64 {number}')}")
        lane = of(f"insertelement {_SINGLE} poison, float {of(f'fptrunc double {wide} to float')}, i64 0")
        spread.append(of(f"shufflevector {_SINGLE} {lane}, {_SINGLE} poison, <8 x i32> zeroinitializer"))
    count = len(of.lines)
    first = of("mul i64 %i, 16")
    at = [first, of(f"add i64 {first}, 8")]
    drawn = [of(f"load {_WORD}, ptr {of(f'getelementptr i32, ptr {words}, i64 {each}')}, align 4") for each in at]
    lengths = of.single("fmul", of.logarithm(of(f"fsub {_SINGLE} {_all('float', 1.0)}, {of.unit(drawn[0])}")), -2.0)
    radius = of.call("llvm.sqrt.v8f32", _SINGLE, lengths)
    sine, cosine = of.sine_cosine(of.single("fmul", of.unit(drawn[1]), scalar._TWO_PI))
    for place, value in zip(at, (cosine, sine), strict=True):
        found = of.fused(of.single("fmul", radius, value), *spread)
        target = of(f"getelementptr float, ptr {result}, i64 {place}")
        of.lines.append(f"  store {_SINGLE} {found}, ptr {target}, align 4")
    return of.looped(of.lines[:count], of.lines[count:])


def _normal_doubles() -> str:
    """Return the text of the same in double precision, from words of 64 bits: each pass makes a pair of numbers."""
    of = _Lines()
    words, result = of.pointer(0), of.pointer(1)
    spread = [of(f"load double, ptr {of(f'getelementptr double, ptr %parameters, i64 {each}')}") for each in range(2)]
    count = len(of.lines)
    high = of("and i64 %i, -8")
    first = of(f"add i64 %i, {high}")
    at = [first, of(f"add i64 {first}, 8")]
    units = []
    for place in at:
        word = of(f"load i64, ptr {of(f'getelementptr i64, ptr {words}, i64 {place}')}")
        wide = of(f"sitofp i64 {of(f'and i64 {word}, {(1 << 53) - 1}')} to double")
        units.append(of(f"fmul double {wide}, {double(2.0**-53)}"))
    length = of(f"fmul double {of.call('log', 'double', of(f'fsub double 1.0, {units[0]}'))}, -2.0")
    radius = of.call("llvm.sqrt.f64", "double", length)
    angle = of(f"fmul double {units[1]}, {double(2.0 * math.pi)}")
    for place, function in zip(at, ("cos", "sin"), strict=True):
        value = of(f"fmul double {radius}, {of.call(function, 'double', angle)}")
        found = of.call("llvm.fma.f64", "double", value, *spread)
        of.lines.append(f"  store double {found}, ptr {of(f'getelementptr double, ptr {result}, i64 {place}')}")
    return of.looped(of.lines[:count], of.lines[count:])


def _permutation(bits: int) -> str:
    """Return the text of ``distributions.fill_permutation`` over numbers in order, from words of so many bits."""
    of = _Lines()
    words, result = of.pointer(0), of.pointer(1)
    total = of("load i64, ptr %numbers")
    count = len(of.lines)
    word = of(f"load i{bits}, ptr {of(f'getelementptr i{bits}, ptr {words}, i64 %i')}")
    left = of(f"sub i64 {total}, %i")
    if bits == 32:
        rest = of(f"urem i32 {word}, {of(f'trunc i64 {left} to i32')}")
        rest = of(f"zext i32 {rest} to i64")
    else:
        rest = of(f"urem i64 {word}, {left}")
    here = of(f"getelementptr i64, ptr {result}, i64 %i")
    there = of(f"getelementptr i64, ptr {result}, i64 {of(f'add i64 %i, {rest}')}")
    one, other = of(f"load i64, ptr {here}"), of(f"load i64, ptr {there}")
    of.lines += [f"  store i64 {other}, ptr {here}", f"  store i64 {one}, ptr {there}"]
    return of.looped(of.lines[:count], of.lines[count:])


_TEXTS: dict[str, Callable[[], str]] = {
    "normal_singles": _normal_singles, "normal_doubles": _normal_doubles,
    "permutation_32": lambda: _permutation(32), "permutation_64": lambda: _permutation(64), "poisson": lambda: POISSON,
    "shares_float32": lambda: SHARES.replace("KIND", "float"), "shares_float64": lambda: SHARES.replace("KIND", "double"),
}  # fmt: skip


class Sampler:
    """A text that is compiled beside the program when it is first asked for."""

    def __init__(self, name: str, waits: bool) -> None:
        self.name = name
        self.function: Function | None = None
        if waits:
            self.advance(True)
        else:
            adaptive.compile_later(self)

    def advance(self, compiles: bool) -> None:
        """Take machine code if there is some, or if it is to be made."""
        compiler = machine()
        try:
            self.function = compiler and compiler.function(_TEXTS[self.name](), compiles)
        except Unsupported as error:
            adaptive.logger.debug("%s stays with NumPy: %s", self.name, error)


@lru_cache(maxsize=2 * len(_TEXTS))
def _sampler(name: str, waits: bool) -> Sampler:
    return Sampler(name, waits)


#: how many numbers were asked of each sampler
_asked: dict[str, int] = {}


def sampler(name: str, count: int) -> Callable[..., None] | None:
    """Return ``run(begin, end, arrays, numbers, parameters)`` for a draw of so many numbers; None while NumPy draws them."""
    mode = config.JIT.text("1")
    if mode == "0" or not is_installed() or adaptive.is_child():
        return None
    asked = _asked[name] = _asked.get(name, 0) + count
    if asked < WORTH:
        return None
    function = _sampler(name, mode == "wait").function

    def run(
        begin: int, end: int, arrays: list[ndarray], numbers: tuple[int, ...], parameters: tuple[float, ...]
    ) -> None:
        assert function is not None
        pointers = struct.pack(f"{len(arrays)}P", *(each.ctypes.data for each in arrays))
        function(
            begin,
            end,
            pointers,
            struct.pack(f"{len(numbers)}q", *numbers),
            struct.pack(f"{len(parameters)}d", *parameters),
        )

    return run if function is not None else None
