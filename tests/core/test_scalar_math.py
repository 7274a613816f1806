"""Scalar steps on Python numbers against PyTorch's float64 results and integer semantics."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from webgpu_torch_core.ir import dtypes
from webgpu_torch_core.ir import scalar_math as numbers
from webgpu_torch_core.ir.scalar_math import Real
from webgpu_torch_core.ir.steps import STEPS

INF, NAN = math.inf, math.nan
VALUES = [
    0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.5, -2.5, 3.7, -3.7, 0.1, -0.1, 1e-9, -1e-9, 1e-30, -1e-30, 10.0,
    0.999, -0.999, -10.0, 10.5, -10.5, 100.25, 8099.0, 1e15, -1e15, 1e300, -1e300, INF, -INF, NAN,
]  # fmt: skip

UNARY = {
    "negate": torch.neg, "absolute": torch.abs, "sign": torch.sign, "floor": torch.floor, "ceil": torch.ceil,
    "truncate": torch.trunc, "round": torch.round, "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1,
    "log": torch.log, "log2": torch.log2, "log10": torch.log10, "log1p": torch.log1p, "sqrt": torch.sqrt,
    "reciprocal_sqrt": torch.rsqrt, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "asin": torch.asin,
    "acos": torch.acos, "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh, "tanh": torch.tanh,
    "asinh": torch.asinh, "acosh": torch.acosh, "atanh": torch.atanh, "erf": torch.erf, "erfc": torch.erfc,
    "erfinv": torch.erfinv, "lgamma": torch.lgamma, "digamma": torch.digamma, "sign_bit": torch.signbit,
    "is_nan": torch.isnan, "is_infinite": torch.isinf,
}  # fmt: skip

BINARY = {
    "add": torch.add, "subtract": torch.sub, "multiply": torch.mul, "divide": torch.div,
    "floor_divide": torch.floor_divide, "truncate_divide": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder": torch.remainder, "fmod": torch.fmod, "minimum": torch.minimum, "maximum": torch.maximum,
    "power": torch.pow, "atan2": torch.atan2, "hypot": torch.hypot, "copysign": torch.copysign, "equal": torch.eq,
    "not_equal": torch.ne, "less": torch.lt, "less_equal": torch.le,
}  # fmt: skip


def check(name, table, wanted):
    for row, expected in zip(table, wanted.tolist(), strict=True):
        result = STEPS[name].evaluate(*map(Real, row))
        where = f"{name}{row}"
        if isinstance(expected, bool):
            assert result is expected, where
            continue
        assert float(result) == pytest.approx(expected, rel=1e-12, abs=1e-300, nan_ok=True), where
        if expected == 0 and name not in ("lgamma", "remainder", "fmod"):
            assert math.copysign(1, result) == math.copysign(1, expected), where


@pytest.mark.parametrize("name", sorted(UNARY))
def test_unary(name):
    wanted = UNARY[name](torch.tensor(VALUES, dtype=torch.float64))
    check(name, [(each,) for each in VALUES], wanted)


@pytest.mark.parametrize("name", sorted(BINARY))
def test_binary(name):
    table = list(itertools.product(VALUES, VALUES))
    if name in ("fmod", "remainder", "floor_divide"):
        # PyTorch's vectorized version gives NaN where the quotient has no exact representation.
        table = [(a, b) for a, b in table if b == 0 or not abs(a) < INF or abs(a / b) < 2.0**52]
    a, b = (torch.tensor(column, dtype=torch.float64) for column in zip(*table, strict=True))
    check(name, table, BINARY[name](a, b))


def test_fused_multiply_add_and_select():
    assert STEPS["fused_multiply_add"].evaluate(2.0, 3.0, -1.0) == 5.0
    assert STEPS["select"].evaluate(True, 1, 2) == 1
    assert STEPS["select"].evaluate(False, 1, 2) == 2


WHOLE = [0, 1, -1, 2, -2, 3, 7, -7, 100, -101, 2**31 - 1, -(2**31), 2**40 + 1, -(2**40)]
WHOLE_STEPS = {
    "add": torch.add, "subtract": torch.sub, "multiply": torch.mul, "minimum": torch.minimum, "maximum": torch.maximum,
    "floor_divide": torch.floor_divide, "truncate_divide": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder": torch.remainder, "fmod": torch.fmod, "bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor, "equal": torch.eq, "not_equal": torch.ne, "less": torch.lt,
    "less_equal": torch.le,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(WHOLE_STEPS))
def test_integers(name):
    divides = name in ("floor_divide", "truncate_divide", "remainder", "fmod")
    table = [(a, b) for a in WHOLE for b in WHOLE if b or not divides]
    a, b = (torch.tensor(column, dtype=torch.int64) for column in zip(*table, strict=True))
    for row, expected in zip(table, WHOLE_STEPS[name](a, b).tolist(), strict=True):
        assert numbers.convert(STEPS[name].evaluate(*row), dtypes.int64) == expected, f"{name}{row}"


@pytest.mark.parametrize("name", ["floor_divide", "truncate_divide", "remainder", "fmod"])
def test_integers_divided_by_zero_stop_no_kernel(name):
    """Operations refuse a divisor of zero; what a kernel computes beside the quotient stays."""
    assert STEPS[name].evaluate(1, 0) == 0


def test_integer_powers():
    bases, exponents = [-3, -2, -1, 1, 2, 3, 10], [0, 1, 2, 3, 5, 19, 63, 64]
    for a, b in itertools.product(bases, exponents):
        expected = torch.pow(torch.tensor([a]), torch.tensor([b])).item()
        assert numbers.convert(STEPS["power"].evaluate(a, b), dtypes.int64) == expected, (a, b)
    for a in bases:
        expected = torch.pow(torch.tensor([a]), torch.tensor([-1])).item()
        assert STEPS["power"].evaluate(a, -1) == expected, a


def test_shifts():
    for a, count in itertools.product([1, -1, 5, -8, 2**40], [0, 1, 31, 62]):
        left, right = (
            each(torch.tensor([a]), torch.tensor([count])).item()
            for each in (torch.bitwise_left_shift, torch.bitwise_right_shift)
        )
        assert numbers.convert(STEPS["shift_left"].evaluate(a, count), dtypes.int64) == left
        assert STEPS["shift_right"].evaluate(a, count) == right
    assert STEPS["shift_left"].evaluate(1, 64) == STEPS["shift_left"].evaluate(1, -1) == 0
    assert STEPS["shift_right"].evaluate(-5, 64) == STEPS["shift_right"].evaluate(-5, -1) == -1


def test_bitwise_not_of_booleans_is_logical():
    assert STEPS["bitwise_not"].evaluate(True) is False
    assert STEPS["bitwise_not"].evaluate(5) == -6


def test_nextafter_is_the_next_float32():
    values = [0.0, -0.0, 1.0, -1.0, 0.10000000149011612, 3.4028234663852886e38, INF, -INF, NAN, 1.401298464324817e-45]
    for a, b in itertools.product(values, values):
        expected = torch.nextafter(torch.tensor(a), torch.tensor(b)).item()
        assert float(STEPS["nextafter"].evaluate(a, b)) == pytest.approx(expected, rel=0, abs=0, nan_ok=True), (a, b)


@pytest.mark.parametrize("source", ["float64", "int64", "bool"])
@pytest.mark.parametrize(
    "target", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
)
def test_conversions(source, target):
    if source == "bool":
        values = [True, False]
    elif source == "int64":
        values = [0, 1, -1, 127, 128, 255, 256, -129, 40000, 65535, 2**31, -(2**31) - 1, 2**24 + 1, 2**53 + 1, 2**62]
    else:
        values = [0.0, -0.0, 0.5, 1.5, -0.5, 100.7, 2.0**-24, 2.0**-25, 1.0001, 0.1, 1 / 3]
        if target not in ("uint8", "int8", "int16", "int32", "int64"):
            values += [
                65504.0,
                65519.9,
                65520.0,
                2049.0,
                2051.0,
                257.0,
                259.0,
                3.4e38,
                1e39,
                -1e39,
                1e-45,
                INF,
                -INF,
                NAN,
            ]
        elif target != "uint8":
            values += [-1.0, -100.7]
    expected = torch.tensor(values, dtype=getattr(torch, source)).to(getattr(torch, target)).tolist()
    for value, wanted in zip(values, expected, strict=True):
        result = numbers.convert(value, dtypes.BY_NAME[target])
        assert result == wanted or (wanted != wanted and result != result), (value, result, wanted)


def test_conversion_to_unsigned_words():
    assert numbers.convert(-1, dtypes.uint32) == 2**32 - 1
    assert numbers.convert(2**32 + 7, dtypes.uint32) == 7


def test_bfloat16_bits_match():
    values = [0.0, -0.0, 1.0, 1.00390625, 1.01171875, 3.4e38, INF, -INF, 1e-40, -257.0]
    bits = torch.tensor(values).to(torch.bfloat16).view(torch.int16).tolist()
    for value, expected in zip(values, bits, strict=True):
        assert numbers.float_to_bfloat16_bits(value) == expected % 65536
        assert numbers.bfloat16_bits_to_float(expected % 65536) == torch.tensor(value).to(torch.bfloat16).item()
    assert math.isnan(numbers.bfloat16_bits_to_float(numbers.float_to_bfloat16_bits(NAN)))


def test_real_numbers_follow_ieee():
    one, zero = Real(1.0), Real(0.0)
    assert one / 0 == INF
    assert -one / zero == -INF
    assert math.isnan(zero / zero)
    assert 1 / Real(-0.0) == -INF
    assert math.isnan(one % 0)
    assert isinstance(2 * one - 3, Real)
    assert Real(1e308) * 10 == INF
