"""Every primitive step on a table of values, special ones included."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
from webgpu_torch_core.ir.dtypes import bool_, dtype, float32, float64, int32, int64, uint32
from webgpu_torch_core.ir.expression import BOOLEAN_STEPS, Expression, cast, constant, make
from webgpu_torch_core.ir.interpreter import Environment, evaluate
from webgpu_torch_core.ir.kernels import Pointwise
from webgpu_torch_core.ir.scalar_math import Real, convert
from webgpu_torch_core.ir.steps import STEPS

from .base import Conformance
from .building import operands, outputs, read, write
from .running import TOLERANCES, is_close, rounded, run_kernel

INF, NAN = math.inf, math.nan
SMALLEST_NORMAL = 2.0**-126

UNARY = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.0, -2.0, 2.5, -2.5, 3.7, -3.7, 0.999, -0.999, 1e-3, -1e-3, 1e-8,
    -1e-8, 10.5, -10.5, 88.0, -88.0, 100.0, -100.0, 8099.0, -8099.0, 8388607.5, 16777217.0, 1e-30, -1e-30, 1e30,
    -1e30, 3e38, -3e38, 1e-40, -1e-40, INF, -INF, NAN,
]  # fmt: skip
BINARY = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, -7.25, 1e-3, 100.25, -1e5, 1e30, -3e38, 1e-40, INF, -INF, NAN]
TERNARY = [0.0, 1.0, -2.5, 3.0, 1e-3, -1e5, INF, NAN]
# Quotients beyond 2**24 have no correct fraction in float32 division; these are compared where they are meaningful.
QUOTIENT = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, -7.25, 10.0, -10.5, 100.25, 12345.0, -0.1, INF, -INF, NAN]
WHOLE = {
    int32: [0, 1, -1, 2, -2, 3, 7, -7, 10, -10, 100, 65537, 2**31 - 1, -(2**31)],
    int64: [0, 1, -1, 2, -7, 10, -10, 2**31, 2**40 + 3, -(2**40), 2**63 - 1, -(2**63)],
    uint32: [0, 1, 2, 7, 100, 65537, 2**31, 2**32 - 1],
}
COUNTS = [0, 1, 5, 31, 32, 63, 64]

UNARY_FLOAT = [
    "negate", "absolute", "sign", "floor", "ceil", "truncate", "round", "exp", "exp2", "expm1", "log", "log2",
    "log10", "log1p", "sqrt", "reciprocal_sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "lgamma", "digamma", "sign_bit", "is_nan",
    "is_infinite",
]  # fmt: skip
BINARY_FLOAT = [
    "add", "subtract", "multiply", "divide", "floor_divide", "truncate_divide", "remainder", "fmod", "minimum",
    "maximum", "power", "atan2", "hypot", "copysign", "nextafter", "equal", "not_equal", "less", "less_equal",
]  # fmt: skip
UNARY_WHOLE = ["negate", "absolute", "sign", "bitwise_not"]
BINARY_WHOLE = [
    "add", "subtract", "multiply", "floor_divide", "truncate_divide", "remainder", "fmod", "minimum", "maximum",
    "power", "equal", "not_equal", "less", "less_equal", "bitwise_and", "bitwise_or", "bitwise_xor", "shift_left",
    "shift_right", "greatest_common_divisor",
]  # fmt: skip
DIVISIONS = ("floor_divide", "truncate_divide", "remainder", "fmod")
UNSIGNED = [
    "add",
    "subtract",
    "multiply",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "shift_left",
    "shift_right",
    "less",
    "equal",
]


def rows(step: str, kind: dtype) -> list[tuple[Any, ...]]:
    """Return the argument tuples a step is tried on."""
    if kind is bool_:
        return [(a, b) for a in (False, True) for b in (False, True)]
    if kind.category == 1:
        return _whole_rows(step, kind)
    if step in UNARY_FLOAT:
        extra = [1e300, -1e-300, 710.5, 0.1] if kind is float64 else []
        return [(each,) for each in UNARY + extra]
    if step == "fused_multiply_add":
        return list(itertools.product(TERNARY, repeat=3))
    if step in DIVISIONS:
        return list(itertools.product(QUOTIENT, repeat=2))
    return list(itertools.product(BINARY, repeat=2))


def _whole_rows(step: str, kind: dtype) -> list[tuple[Any, ...]]:
    values = WHOLE[kind]
    if step in UNARY_WHOLE:
        return [(each,) for each in values]
    if step in ("shift_left", "shift_right"):
        return list(itertools.product(values, COUNTS))
    if step == "power":
        return list(itertools.product([-3, -2, -1, 1, 2, 3, 7], [0, 1, 2, 5, 13, 31, -1, -2]))
    pairs = list(itertools.product(values, repeat=2))
    # Division by zero and the one quotient that does not fit have no defined result.
    return [(a, b) for a, b in pairs if b != 0 and (a, b) != (kind.minimum, -1)] if step in DIVISIONS else pairs


def flushed(value: Any, kind: dtype) -> Any:
    """Return a number with a subnormal taken as zero, which devices may do."""
    if isinstance(value, float) and kind is float32 and abs(value) < SMALLEST_NORMAL:
        return Real(math.copysign(0.0, value))
    return value


def allowed(step: str, arguments: Sequence[Any], kind: dtype, result: dtype) -> list[Any]:
    """Return the values a step may give: its definition's, and that of flushed arguments.

    What chooses one of its arguments may compare them flushed and give the one it chose as it is, as WGSL allows for subnormals.
    """
    nothing = Environment((), ())
    values = []
    for row in (arguments, [flushed(each, kind) for each in arguments]):
        value = make(step, tuple(constant(each, kind) for each in row), None, result)
        values.append(convert(evaluate(value, (), nothing), result))
    if step in ("minimum", "maximum"):
        values += [each for each in arguments if flushed(each, kind) == flushed(values[-1], kind)]
    return [*values, *(flushed(each, kind) for each in values)]


class StepTests(Conformance):
    """See the module."""

    @pytest.mark.parametrize("step", [*UNARY_FLOAT, *BINARY_FLOAT, "fused_multiply_add"])
    def test_step_on_float32(self, step: str) -> None:
        self.check_step(step, float32)

    @pytest.mark.parametrize("step", [*UNARY_FLOAT, *BINARY_FLOAT, "fused_multiply_add"])
    def test_step_on_float64(self, step: str) -> None:
        self.check_step(step, float64)

    @pytest.mark.parametrize("step", [*UNARY_WHOLE, *BINARY_WHOLE])
    @pytest.mark.parametrize("kind", [int32, int64], ids=str)
    def test_step_on_integers(self, step: str, kind: dtype) -> None:
        self.check_step(step, kind)

    @pytest.mark.parametrize("step", UNSIGNED)
    def test_step_on_uint32(self, step: str) -> None:
        self.check_step(step, uint32)

    @pytest.mark.parametrize("step", ["equal", "not_equal", "bitwise_and", "bitwise_or", "bitwise_xor"])
    def test_step_on_booleans(self, step: str) -> None:
        self.check_step(step, bool_)

    def test_every_step_is_tested(self) -> None:
        tested = {*UNARY_FLOAT, *BINARY_FLOAT, *UNARY_WHOLE, *BINARY_WHOLE, "fused_multiply_add"}
        missing = sorted(set(STEPS) - tested - {"select", "threefry"})
        if missing:
            raise AssertionError(f"no table of values for the steps {missing}")

    def check_step(self, step: str, kind: dtype) -> None:
        """Run a step over its table and compare each row with the values allowed."""
        # Unsigned words travel in int32 buffers.
        stored = int32 if kind is uint32 else kind
        result = bool_ if step in BOOLEAN_STEPS else kind
        self.needs(stored)
        table = [tuple(rounded(row, kind)) for row in rows(step, kind)]
        size, columns = len(table), [list(column) for column in zip(*table, strict=True)]
        arguments: list[Expression] = [cast(read(index, (size,), stored), kind) for index in range(len(columns))]
        value = make(step, tuple(arguments), None, result)
        produced = stored if result is kind else bool_
        kernel = Pointwise(
            operands(*((stored, size) for _ in columns)), outputs((produced, size)), (), f"{step} {kind}", (size,),
            (write(0, (size,), value, produced),),
        )  # fmt: skip
        inputs = [[convert(each, stored) for each in column] for column in columns]
        (found,) = run_kernel(self.target, kernel, inputs)
        relative, absolute = TOLERANCES.get(kind.name, (0.0, 0.0)) if step not in _EXACT else (0.0, 0.0)
        wrong = []
        for row, value_found in zip(table, found, strict=True):
            wanted = [convert(each, produced) for each in allowed(step, row, kind, result)]
            if not any(is_close(value_found, each, relative, absolute) for each in wanted):
                wrong.append(f"{step}{row} is {value_found!r}, expected {wanted[0]!r}")
        if wrong:
            raise AssertionError(
                f"{self.target.name}, {kind.name}: {len(wrong)} of {size} rows differ: {'; '.join(wrong[:6])}"
            )


_EXACT = frozenset(
    ("negate", "absolute", "sign", "floor", "ceil", "truncate", "round", "minimum", "maximum", "copysign", "nextafter")
)
