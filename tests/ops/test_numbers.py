"""Python numbers as operands and fills: ranges, constants and arithmetic give what PyTorch gives, on every device."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ops_oracle import ORACLE, OURS, compare, to_ours
from test_view_properties import cases

KINDS = ("float32", "float16", "bfloat16", "int64", "int32", "uint8")
INTEGERS = KINDS[3:]
#: ends of ranges: within, at and beyond what types of integers hold
ENDS = (
    0,
    1,
    3,
    -3,
    2.7,
    100,
    127,
    128,
    -128,
    -129,
    255,
    256,
    -255,
    -300,
    40_000,
    -70_000,
    2**31 - 1,
    2**31,
    2**40,
    1e30,
    math.inf,
)

CREATION: dict[str, Callable[..., Any]] = {
    "linspace": lambda t, **o: t.linspace(0, 10, 7, **o),
    "linspace fractions": lambda t, **o: t.linspace(0.1, 0.9, 5, **o),
    "linspace one": lambda t, **o: t.linspace(3.5, 10, 1, **o),
    "linspace none": lambda t, **o: t.linspace(3, 10, 0, **o),
    "linspace many": lambda t, **o: t.linspace(0, 100, 1001, **o),
    "logspace": lambda t, **o: t.logspace(0, 2, 7, **o),
    "logspace of two": lambda t, **o: t.logspace(0, 2, 7, base=2.0, **o),
    "arange": lambda t, **o: t.arange(0, 5, 1, **o),
    "arange fractions": lambda t, **o: t.arange(0.5, 9.7, 2.3, **o),
    "arange down": lambda t, **o: t.arange(9, 2, -2, **o),
    "full": lambda t, **o: t.full((3,), 2.7, **o),
    "full whole": lambda t, **o: t.full((3,), 3, **o),
    "full true": lambda t, **o: t.full((3,), True, **o),
}
FLOAT_CREATION: dict[str, Callable[..., Any]] = {
    "arange tenths": lambda t, **o: t.arange(0, 1, 0.1, **o),
    "arange thousandths": lambda t, **o: t.arange(0, 1, 1e-3, **o),
    "arange far": lambda t, **o: t.arange(0, 1e6, 1234.567, **o),
    "linspace far": lambda t, **o: t.linspace(-1e8, 1e8, 33, **o),
    "full nan": lambda t, **o: t.full((2,), math.nan, **o),
    "full infinity": lambda t, **o: t.full((2,), -math.inf, **o),
    "full default": lambda t, **o: t.full((2,), 0.1, **o),
    "full int64": lambda t, **o: t.full((2,), 1 << 40, **o),
    "arange int64": lambda t, **o: t.arange(1 << 40, (1 << 40) + 5, **o),
    "number": lambda t, **o: t.tensor(0.1, **o) * 0.3 + t.tensor([1, 2], **o),
}
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda t, x: x + 0.1,
    "add reversed": lambda t, x: 0.1 + x,
    "multiply": lambda t, x: x * 0.3,
    "divide": lambda t, x: x / 0.7,
    "divide reversed": lambda t, x: 1.5 / (x + 1),
    "power": lambda t, x: x**2.5,
    "power reversed": lambda t, x: 1.5**x,
    "floor divide": lambda t, x: x // 0.7,
    "remainder": lambda t, x: x % 0.7,
    "fmod": lambda t, x: t.fmod(x, 0.7),
    "equal to a tenth": lambda t, x: x / 10 == 0.1,
    "at most seven tenths": lambda t, x: x * 0.7 <= 0.7,
    "subtract": lambda t, x: x - 1e-3,
    "subtract reversed": lambda t, x: 1e-3 - x,
    "greater": lambda t, x: x > 1.5,
    "equal": lambda t, x: x == 0.1,
    "large": lambda t, x: x * 1e30,
    "too large": lambda t, x: x * 1e40,
    "small": lambda t, x: x * 1e-30,
    "clamp": lambda t, x: x.clamp(0.5, 2.5),
    "infinity": lambda t, x: x + math.inf,
    "nan": lambda t, x: x * math.nan,
    "whole": lambda t, x: x + 16777217,
    "wrapping": lambda t, x: x + (1 << 40),
    "wrapping product": lambda t, x: x * 300,
}


def _check(work: Callable[..., Any], device: str) -> None:
    compare(work(OURS, {"device": device}), work(ORACLE, {}))


@pytest.mark.parametrize("name", sorted(CREATION))
def test_creation(name: str, device: str) -> None:
    for kind in (None, *KINDS):
        if name == "arange down" and kind == "uint8":
            continue
        _check(lambda t, o, kind=kind: CREATION[name](t, **o, **({"dtype": getattr(t, kind)} if kind else {})), device)


@pytest.mark.parametrize("name", sorted(FLOAT_CREATION))
def test_default_types(name: str, device: str) -> None:
    _check(lambda t, o: FLOAT_CREATION[name](t, **o), device)


@pytest.mark.parametrize("name", sorted(ARITHMETIC))
def test_arithmetic(name: str, device: str) -> None:
    for kind in KINDS:
        _check(lambda t, o, kind=kind: ARITHMETIC[name](t, t.arange(0, 5, dtype=getattr(t, kind), **o)), device)


REFUSED: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "full float32": lambda t, o: t.full((2,), 1e39, **o),
    "full float16": lambda t, o: t.full((2,), 70000, dtype=t.float16, **o),
    "full bfloat16": lambda t, o: t.full((2,), -1e39, dtype=t.bfloat16, **o),
    "full uint8": lambda t, o: t.full((2,), 300, dtype=t.uint8, **o),
    "full int32": lambda t, o: t.full((2,), 1 << 40, dtype=t.int32, **o),
    "full int32 from float": lambda t, o: t.full((2,), 3e9, dtype=t.int32, **o),
    "full int32 from nan": lambda t, o: t.full((2,), math.nan, dtype=t.int32, **o),
    "fill_": lambda t, o: t.ones(2, **o).fill_(1e39),
    "masked_fill": lambda t, o: t.ones(2, **o).masked_fill(t.ones(2, **o) > 0, 1e39),
    "where": lambda t, o: t.where(t.ones(2, **o) > 0, 1e39, t.ones(2, **o)),
    "clamp": lambda t, o: t.ones(2, **o).clamp(-1e39, 1e39),
    "clamp integers": lambda t, o: t.ones(2, dtype=t.int8, **o).clamp_max(1000),
    "clamp_min": lambda t, o: t.ones(2, dtype=t.float16, **o).clamp_min(-70000),
    "pow": lambda t, o: t.ones(2, dtype=t.bfloat16, **o).pow(1e39),
    "pow of integers": lambda t, o: t.ones(2, dtype=t.int8, **o) ** 1000,
    "item": lambda t, o: t.ones(2, **o).__setitem__(0, 1e39),
    "arange to infinity": lambda t, o: t.arange(0, math.inf, **o),
    "arange no step": lambda t, o: t.arange(0, 5, 0, **o),
    "arange away": lambda t, o: t.arange(0, 5, -1, **o),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused(name: str, device: str) -> None:
    with pytest.raises((RuntimeError, ValueError)) as expected:
        REFUSED[name](ORACLE, {})
    with pytest.raises(type(expected.value)) as found:
        REFUSED[name](OURS, {"device": device})
    assert str(found.value) == str(expected.value)


def test_an_int64_range_steps_by_whole_numbers(device: str) -> None:
    _check(lambda t, o: t.arange(0.5, 9.7, 1.5, dtype=t.int64, **o), device)
    # Some releases of PyTorch divide by zero here.
    with pytest.raises(ValueError, match="step must be nonzero"):
        OURS.arange(0, 5, 0.5, dtype=OURS.int64, device=device)


@pytest.mark.parametrize("kind", ["uint8", "int32"])
def test_negative_fills_wrap(kind: str, device: str) -> None:
    _check(lambda t, o: t.full((2,), -1, dtype=getattr(t, kind), **o), device)
    _check(lambda t, o: t.arange(5, dtype=getattr(t, kind), **o) > (1 << 40), device)
    assert torch.full((1,), -1, dtype=torch.uint8).item() == 255


@pytest.mark.parametrize("number", [2**31, 2**32 - 1, 2**40 + 2**31, 2**63 - 1, -(2**63), -(2**40) - 1, -1])
def test_wide_integers_arrive_whole(number: int, device: str) -> None:
    zeros = OURS.zeros(2, dtype=OURS.int64, device=device)
    assert OURS.full((2,), number, dtype=OURS.int64, device=device).tolist() == [number] * 2
    assert (zeros + number).tolist() == [number] * 2
    assert OURS.maximum(zeros + number, zeros).tolist() == [max(number, 0)] * 2


def test_widened_integers_keep_their_sign(device: str) -> None:
    """The size and the sign of numbers that become 64 bits wide in the same kernel."""

    def sizes(torch: Any, input: Any) -> Any:
        wide = input.to(torch.int64)
        return wide.abs(), wide.sign(), wide.abs() / (wide.abs() + 1), torch.gcd(wide, wide - 2)

    numbers = torch.tensor([0, -2, 5, -(2**31), 2**31 - 1], dtype=torch.int32)
    for kind in (torch.int32, torch.int16, torch.int8):
        given = numbers.to(kind)
        compare(sizes(OURS, to_ours(given, device)), sizes(ORACLE, given))


MIXED: dict[str, Callable[..., Any]] = {
    **{
        name: lambda t, a, b, name=name: getattr(t, name)(a, b) for name in ("add", "sub", "mul", "div", "floor_divide")
    },
    "trunc": lambda t, a, b: t.div(a, b, rounding_mode="trunc"),
    "remainder": lambda t, a, b: t.remainder(a, b),
    "where": lambda t, a, b: t.where(t.add(a, b) > 2, a, b),
}


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", sorted(MIXED))
def test_numbers_beside_short_floats_round_where_pytorch_rounds_them(name: str, kind: str, device: str) -> None:
    """A number, or a tensor without dimensions: in the first place rounded, in the second by the operation."""
    tensor = torch.tensor([1e-4, 2.0, -65504.0, 0.3, -7.5, 100.3, math.inf], dtype=getattr(torch, kind))
    ours = to_ours(tensor, device)
    for number in (1e5, 1.001, 0.1, -65519.0, 1 / 3):
        zero_dim, our_zero_dim = torch.tensor(number), OURS.tensor(number, device=device)
        for one, our in ((number, number), (zero_dim, our_zero_dim)):
            for turned in (False, True):
                want, got = (tensor, one)[:: -1 if turned else 1], (ours, our)[:: -1 if turned else 1]
                assert str(MIXED[name](OURS, *got).tolist()) == str(MIXED[name](ORACLE, *want).tolist()), (
                    number,
                    turned,
                )


def test_the_neighbour_of_a_short_float_beside_a_wider_number(device: str) -> None:
    _check(lambda t, o: t.tensor([2.0, -1.0], dtype=t.bfloat16, **o).nextafter(t.tensor(1e5, **o)), device)


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16"])
def test_a_remainder_of_zero_has_the_dividends_sign(kind: str, device: str) -> None:
    if kind == "float64" and device == "webgpu":
        kind = "float32"
    values = torch.tensor([-4.0, -2.0, -0.0, 0.0, 2.0, 6.0, math.inf], dtype=getattr(torch, kind))
    first, second = values.repeat_interleave(7), values.repeat(7)
    a, b = to_ours(first, device), to_ours(second, device)
    for work in (lambda x, y: x % y, lambda x, y: x.clone().remainder_(y), lambda x, y: x % -2.0, lambda x, y: -2 % y):
        assert str(work(a, b).tolist()) == str(work(first, second).tolist())


@cases(200)
@given(
    st.sampled_from(("linspace", "logspace")),
    st.sampled_from(("uint8", "int8", "int16", "int32", "int64", "bool")),
    st.sampled_from(ENDS), st.sampled_from(ENDS), st.integers(0, 6),
)  # fmt: skip
def test_ranges_of_integers(name: str, kind: str, start: float, end: float, steps: int) -> None:
    found: list[Any] = []
    for library in (torch, OURS):
        try:
            found.append(getattr(library, name)(start, end, steps, dtype=getattr(library, kind)).tolist())
        except (RuntimeError, OverflowError, ValueError, TypeError) as error:
            found.append(type(error))
    assert found[0] == found[1]


@cases(100)
@given(
    st.sampled_from(("float32", "float64", "float16", "bfloat16")),
    # (Where the start is nothing beside the step, what two roundings leave of it could decide a tie.)
    st.one_of(st.sampled_from((0.0, -0.5, -1.0)), st.floats(-100, 100).filter(lambda start: abs(start) > 1e-3)),
    st.one_of(st.sampled_from((0.1, 0.01, 1 / 3, 0.5, 1.0, -0.1)), st.floats(-2, 2).filter(lambda step: abs(step) > 1e-3)),
    st.integers(1, 300),
)  # fmt: skip
def test_ranges_have_the_bits_of_pytorchs(kind: str, start: float, step: float, count: int) -> None:
    end = start + step * count
    for name, arguments in (("arange", (start, end, step)), ("linspace", (start, end, count))):
        ours, reference = (getattr(t, name)(*arguments, dtype=getattr(t, kind)).tolist() for t in (OURS, torch))
        assert ours == reference


@pytest.mark.parametrize("start, end, step", [(0, 8, 2), (0.5, 8, 0.3), (3, -3, -0.25)])
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_ranges_without_data(kind: str, start: float, end: float, step: float) -> None:
    """On ``meta``, where networks are built before their weights are read."""
    for name, arguments in (("arange", (start, end, step)), ("linspace", (start, end, 5))):
        found, expected = (getattr(t, name)(*arguments, dtype=getattr(t, kind), device="meta") for t in (OURS, ORACLE))
        assert tuple(found.shape) == tuple(expected.shape)
        assert (str(found.dtype), found.device.type) == (str(expected.dtype), "meta")


#: what takes a number for elements of a type; numbers at the edge of what types, and PyTorch's scalars, hold
TAKERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda t, x, n: x + n,
    "mul_": lambda t, x, n: x.mul_(n),
    "eq": lambda t, x, n: x == n,
    "rsub": lambda t, x, n: n - x,
    "full": lambda t, x, n: t.full((2,), n, dtype=x.dtype),
    "fill_": lambda t, x, n: x.fill_(n),
    "assigned": lambda t, x, n: x.__setitem__(0, n) or x,
    "assigned where": lambda t, x, n: x.__setitem__(x == x, n) or x,
    "full, one": lambda t, x, n: t.full((1,), n, dtype=x.dtype),
    "fill_, one": lambda t, x, n: x[0].fill_(n),
    "fill": lambda t, x, n: t.fill(x, n),
    "index_fill": lambda t, x, n: x.index_fill(0, t.tensor([0]), n),
    "fill_diagonal_": lambda t, x, n: x.reshape(1, 2).fill_diagonal_(n),
    "masked_fill": lambda t, x, n: x.masked_fill(x == x, n),
    "scatter_": lambda t, x, n: x.scatter_(0, t.tensor([0]), n),
    "pad": lambda t, x, n: t.nn.functional.pad(x, (1, 0), value=n),
    "tensor": lambda t, x, n: t.tensor(n, dtype=x.dtype),
    "alpha": lambda t, x, n: t.add(x, x, alpha=n) if isinstance(n, complex) else x,
}
NUMBERS = (300, 70_000.0, 1e39, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 2**70, 1j, 1 + 0j, math.nan)


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("number", NUMBERS, ids=str)
@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "complex64", "uint8", "int64", "bool"])
@pytest.mark.parametrize("name", TAKERS)
def test_numbers_that_a_type_does_not_hold(name: str, kind: str, number: complex) -> None:
    if kind == "bool" and (name in ("rsub", "assigned where") or number in (2**63, 2**64 - 1)):
        pytest.skip("truth values are not compared so, nor do they meet unsigned integers")
    if kind == "complex64" and name == "add" and not abs(number) < 1e39:
        pytest.skip("sums of complex numbers of which a part is not finite")
    if kind == "int64" and (number != number or (name == "pad" and number == 2**63)):
        pytest.skip("an undefined conversion")

    def run(library: Any) -> tuple[str, Any]:
        x = library.tensor([0, 1], dtype=getattr(library, kind))
        try:
            result = TAKERS[name](library, x, number)
        except Exception as error:
            return type(error).__name__, str(error).partition(" (position")[0].partition(" must")[0]
        return str(result.dtype), result.tolist()

    assert str(run(OURS)) == str(run(ORACLE))
