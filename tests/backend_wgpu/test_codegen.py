"""Generated WGSL for pointwise kernels and row programs, against the kernels' definition in plain Python and PyTorch."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from codegen_harness import CORE, TORCH, harness
from webgpu_torch_backend_wgpu.codegen import generate
from webgpu_torch_backend_wgpu.codegen.module import Module
from webgpu_torch_backend_wgpu.codegen.steps import FLOAT_STEPS, TABLES
from webgpu_torch_core.ir import scalar
from webgpu_torch_core.ir.dtypes import bool_, compute_dtype, dtype, float32, int32, int64, uint8
from webgpu_torch_core.ir.expression import (
    Expression,
    apply,
    binary,
    cast,
    coordinate,
    load,
    load_at,
    parameter,
    select,
)
from webgpu_torch_core.ir.interpreter import run_kernel
from webgpu_torch_core.ir.kernels import Kernel, Operand, Output, Pointwise, Store
from webgpu_torch_core.ir.layouts import contiguous_strides, number_of_elements
from webgpu_torch_core.ir.steps import STEPS

pytestmark = pytest.mark.usefixtures("webgpu")
STORAGE = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32"]
EMULATE = pytest.mark.parametrize("emulate", [False, True], ids=["native", "emulated"])


def values(kind: dtype, count: int, seed: int) -> torch.Tensor:
    """Return small numbers of a type; floats are exact in every format."""
    generator = torch.Generator().manual_seed(seed)
    if kind is bool_:
        return torch.randint(0, 2, (count,), generator=generator).bool()
    low = 0 if not kind.is_signed else -9
    whole = torch.randint(low, 10, (count,), generator=generator)
    return (whole / 2 if kind.is_floating_point else whole).to(TORCH[kind.name])


def expected(kernel: Kernel, operands: Sequence[torch.Tensor], parameters: Sequence[Any] = ()) -> list[torch.Tensor]:
    """Return the outputs by the kernel's definition."""
    lists = [each.tolist() for each in operands]
    outputs = [list(lists[each.initial]) if each.initial is not None else [0] * each.numel for each in kernel.outputs]
    run_kernel(kernel, lists, outputs, parameters)
    return [
        torch.tensor(data, dtype=TORCH[each.dtype.name]) for data, each in zip(outputs, kernel.outputs, strict=True)
    ]


def check(
    kernel: Kernel, operands: Sequence[torch.Tensor], parameters: Sequence[Any] = (), emulate: bool = False
) -> None:
    """Compare a kernel's run with its definition."""
    got = harness().run(kernel, operands, parameters, emulate)
    for mine, right in zip(got, expected(kernel, operands, parameters), strict=True):
        tolerance = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}.get(right.dtype, 0)
        torch.testing.assert_close(mine, right, rtol=tolerance, atol=tolerance, equal_nan=True)


def operand(kind: dtype, numel: int) -> Operand:
    return Operand(kind, numel)


def whole(number: int, kind: dtype, shape: tuple[int, ...], value: Expression) -> Store:
    """Return a store of every element of a contiguous output."""
    del kind
    return Store(number, 0, contiguous_strides(shape), value)


def test_names_are_not_types() -> None:
    """Names are a prefix and a number; ``i`` and 32 would hide the type ``i32``."""
    module = object.__new__(Module)
    module._counter = 0
    names = {module.fresh(prefix) for _ in range(70) for prefix in ("i", "u", "f", "t")}
    assert len(names) == 280
    assert not names & {"i32", "u32", "f32", "f16", "i64", "u64", "f64"}


def test_every_step_has_a_spelling() -> None:
    spelled = set().union(*TABLES.values()) | {"threefry"}
    assert set(STEPS) <= spelled, set(STEPS) - spelled
    assert set(STEPS) - {
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "bitwise_not",
        "shift_left",
        "shift_right",
        "greatest_common_divisor",
        "threefry",
    } <= set(FLOAT_STEPS)


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
    "add": torch.add, "subtract": torch.sub, "multiply": torch.mul, "divide": torch.div, "floor_divide": torch.floor_divide,
    "truncate_divide": lambda a, b: torch.div(a, b, rounding_mode="trunc"), "remainder": torch.remainder, "fmod": torch.fmod,
    "minimum": torch.minimum, "maximum": torch.maximum, "power": torch.pow, "atan2": torch.atan2, "hypot": torch.hypot,
    "copysign": torch.copysign, "nextafter": torch.nextafter, "equal": torch.eq, "not_equal": torch.ne, "less": torch.lt,
    "less_equal": torch.le,
}  # fmt: skip
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.0, 1e-6, 1e20, math.inf, -math.inf, math.nan, 0.9, 7.25]


def test_float_steps_against_pytorch() -> None:
    x = torch.tensor(SPECIAL)
    names = sorted(UNARY)
    for start in range(0, len(names), 6):
        some = names[start : start + 6]
        roots = [apply(name, load(0, 0, (1,), float32)) for name in some]
        outputs = tuple(Output(root.dtype, len(x), None) for root in roots)
        stores = tuple(Store(number, 0, (1,), root) for number, root in enumerate(roots))
        got = harness().run(Pointwise((operand(float32, len(x)),), outputs, (), "unary", (len(x),), stores), [x])
        for name, mine in zip(some, got, strict=True):
            right = UNARY[name](x)
            tolerance = 1e-4 if name in ("lgamma", "digamma", "erfinv") else 4e-6
            torch.testing.assert_close(
                mine, right, rtol=tolerance, atol=1e-6, equal_nan=True, msg=lambda text, n=name: f"{n}: {text}"
            )


def test_binary_steps_against_pytorch() -> None:
    x = torch.tensor(SPECIAL)
    n = len(x)
    names = sorted(BINARY)
    left, right = x.repeat_interleave(n), x.repeat(n)
    for start in range(0, len(names), 6):
        some = names[start : start + 6]
        roots = [binary(name, load(0, 0, (1, 0), float32), load(0, 0, (0, 1), float32)) for name in some]
        outputs = tuple(Output(root.dtype, n * n, None) for root in roots)
        stores = tuple(Store(number, 0, (n, 1), root) for number, root in enumerate(roots))
        got = harness().run(Pointwise((operand(float32, n),), outputs, (), "binary", (n, n), stores), [x])
        for name, mine in zip(some, got, strict=True):
            wanted = BINARY[name](left, right)
            # Adapters may take subnormal results as zero.
            torch.testing.assert_close(
                mine, wanted, rtol=4e-6, atol=1.2e-38, equal_nan=True, msg=lambda text, n=name: f"{n}: {text}"
            )


INTEGER_BINARY = ["add", "subtract", "multiply", "floor_divide", "truncate_divide", "remainder", "fmod", "minimum", "maximum", "equal",
                  "not_equal", "less", "less_equal", "bitwise_and", "bitwise_or", "bitwise_xor"]  # fmt: skip
INTEGER_TORCH = BINARY | {
    "bitwise_and": torch.bitwise_and,
    "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor,
}


@EMULATE
@pytest.mark.parametrize("kind", [int32, int64], ids=str)
def test_integer_steps_against_pytorch(kind: dtype, emulate: bool) -> None:
    info = torch.iinfo(TORCH[kind.name])
    x = torch.tensor([1, -1, 2, -2, 7, -7, 100003, -100003, info.max, info.min + 1], dtype=TORCH[kind.name])
    n = len(x)
    left, right = x.repeat_interleave(n), x.repeat(n)
    for start in range(0, len(INTEGER_BINARY), 6):
        some = INTEGER_BINARY[start : start + 6]
        roots = [binary(name, load(0, 0, (1, 0), kind), load(0, 0, (0, 1), kind)) for name in some]
        outputs = tuple(Output(root.dtype, n * n, None) for root in roots)
        stores = tuple(Store(number, 0, (n, 1), root) for number, root in enumerate(roots))
        got = harness().run(Pointwise((operand(kind, n),), outputs, (), "integers", (n, n), stores), [x], (), emulate)
        for name, mine in zip(some, got, strict=True):
            assert torch.equal(mine, INTEGER_TORCH[name](left, right)), name
    roots = [apply(name, load(0, 0, (1,), kind)) for name in ("negate", "absolute", "sign", "bitwise_not", "sign_bit")]
    roots += [binary("shift_left", load(0, 0, (1,), kind), 3), binary("shift_right", load(0, 0, (1,), kind), 3)]
    outputs = tuple(Output(root.dtype, n, None) for root in roots)
    stores = tuple(Store(number, 0, (1,), root) for number, root in enumerate(roots))
    got = harness().run(Pointwise((operand(kind, n),), outputs, (), "integers", (n,), stores), [x], (), emulate)
    for mine, wanted in zip(got, [-x, x.abs(), x.sign(), ~x, x < 0, x << 3, x >> 3], strict=True):
        assert torch.equal(mine, wanted)


@EMULATE
@pytest.mark.parametrize("number", [0, 1, -1, 8, -9, 2**31, -(2**31), 2**40, -(2**40)])
def test_widened_integers_beside_constants(number: int, emulate: bool) -> None:
    """Mesa compares an i32 that was widened wrongly with a constant of 64 bits."""
    x = torch.tensor([0, 5, 9, -3, 8, 7, 2**31 - 1, -(2**31)], dtype=torch.int32)
    given, other = load(0, 0, (1,), int32), cast(number, int64)
    for narrow, wide in ((given, x.long()), (apply("maximum", given, cast(0, int32)), x.long().clamp(min=0))):
        one = cast(narrow, int64)
        roots = {
            "less": (binary("less", one, other), wide < number),
            "greater": (binary("less", other, one), wide > number),
            "at most": (binary("less_equal", one, other), wide <= number),
            "at least": (binary("less_equal", other, one), wide >= number),
            "sign": (apply("sign_bit", one), wide < 0),
            "remainder": (
                binary("remainder", other, one),
                torch.where(wide == 0, number, number % wide.where(wide != 0, 1)),
            ),
        }
        outputs = tuple(Output(root.dtype, 8, None) for root, _ in roots.values())
        stores = tuple(Store(place, 0, (1,), root) for place, (root, _) in enumerate(roots.values()))
        got = harness().run(Pointwise((operand(int32, 8),), outputs, (), "widened", (8,), stores), [x], (), emulate)
        for (name, (_, wanted)), mine in zip(roots.items(), got, strict=True):
            assert torch.equal(mine, wanted.to(mine.dtype)), name


@EMULATE
@pytest.mark.parametrize("source", STORAGE)
def test_casts_between_all_types(source: str, emulate: bool) -> None:
    x = (
        values(CORE[TORCH[source]], 37, 3)
        if source != "float32"
        else torch.tensor([0.0, -0.0, 1.5, -1.5, 100.25, 1e-7, 65519.0, 3.1415927])
    )
    if source == "int64":
        x = torch.tensor(
            [0, 1, -1, 127, -128, 255, 256, 40000, -40000, 1 << 31, -(1 << 31) - 1, (1 << 62) + 1, -(1 << 63)]
        )
    n = len(x)
    kind = CORE[x.dtype]
    for start in range(0, len(STORAGE), 3):
        targets = [CORE[TORCH[name]] for name in STORAGE[start : start + 3]]
        outputs = tuple(Output(each, n, None) for each in targets)
        stores = tuple(
            Store(number, 0, (1,), cast(load(0, 0, (1,), kind), each)) for number, each in enumerate(targets)
        )
        got = harness().run(Pointwise((operand(kind, n),), outputs, (), "casts", (n,), stores), [x], (), emulate)
        for each, mine in zip(targets, got, strict=True):
            source_values = x
            if source == "float32" and each.category == 1:
                source_values = x.clamp(-100, 100)
                mine = torch.where(x.abs() <= 100, mine, source_values.to(mine.dtype))
            wanted = source_values.to(TORCH[each.name])
            torch.testing.assert_close(mine, wanted, rtol=0, atol=0, equal_nan=True)


@EMULATE
@pytest.mark.parametrize("target", ["float16", "bfloat16"])
def test_rounding_to_sixteen_bits(target: str, emulate: bool) -> None:
    bits = torch.randint(-(1 << 31), (1 << 31) - 1, (4096,), generator=torch.Generator().manual_seed(1)).int()
    x = torch.cat(
        [
            bits.view(torch.float32),
            torch.randn(4000),
            torch.tensor([65519.0, 65520.0, -65536.0, 2.0**-24, 2.0**-25, 3e-8]),
        ]
    )
    ties = torch.arange(1 << 11, (1 << 11) + 512).float() + 0.5
    x = torch.cat([x, ties, ties / 2.0**16, ties * 128.0])
    x = torch.where((x.abs() < 1.2e-38), 0.0, x)
    own = CORE[TORCH[target]]
    kernel = Pointwise((operand(float32, len(x)),), (Output(own, len(x), None),), (), "round", (len(x),),
                       (Store(0, 0, (1,), cast(load(0, 0, (1,), float32), own)),))  # fmt: skip
    got = harness().run(kernel, [x], (), emulate)[0]
    torch.testing.assert_close(got, x.to(TORCH[target]), rtol=0, atol=0, equal_nan=True)


def random_load(number: int, kind: dtype, shape: tuple[int, ...], dice: random.Random) -> tuple[Expression, int]:
    """Return a load over a domain and how many elements its operand needs: contiguous, permuted, broadcast, flipped, offset."""
    order = list(range(len(shape)))
    style = dice.choice(["plain", "plain", "permuted", "broadcast", "padded", "flipped"])
    if style == "permuted":
        dice.shuffle(order)
    strides = [0] * len(shape)
    step = dice.choice([1, 2]) if style == "padded" else 1
    for dimension in reversed(order):
        if style == "broadcast" and dice.random() < 0.5:
            continue
        strides[dimension] = step
        step *= shape[dimension] + (dice.choice([0, 0, 4]) if style == "padded" else 0)
    offset = dice.choice([0, 0, 4, 1]) if style != "plain" else dice.choice([0, 0, 0, 4, 3])
    if style == "flipped":
        for dimension in range(len(shape)):
            if dice.random() < 0.5:
                offset += strides[dimension] * (shape[dimension] - 1)
                strides[dimension] = -strides[dimension]
    highest = offset + sum(max(stride, 0) * (size - 1) for stride, size in zip(strides, shape, strict=True))
    return load(number, offset, tuple(strides), kind), highest + 1 + dice.choice([0, 1, 5])


def random_store(
    number: int, shape: tuple[int, ...], value: Expression, dice: random.Random
) -> tuple[Store, int, bool]:
    """Return a store, the output's size and whether it fills the output."""
    if dice.random() < 0.6:
        return Store(number, 0, contiguous_strides(shape), value), number_of_elements(shape), True
    step = dice.choice([1, 1, 2, 3])
    strides = [0] * len(shape)
    for dimension in range(len(shape) - 1, -1, -1):
        strides[dimension] = step
        step *= shape[dimension] + dice.choice([0, 0, 1, 4])
    offset = dice.choice([0, 1, 4])
    top = offset + sum(stride * (size - 1) for stride, size in zip(strides, shape, strict=True))
    return Store(number, offset, tuple(strides), value), top + 1 + dice.choice([0, 3]), False


SIZES = [1, 2, 3, 4, 5, 7, 8, 12, 16, 17]


def random_pointwise(seed: int) -> tuple[Pointwise, list[torch.Tensor], list[float]]:
    dice = random.Random(seed)
    shape = tuple(
        dice.choice(SIZES if rank < 3 else SIZES[:4]) for rank in range(dice.choice([0, 1, 1, 2, 2, 3, 4, 6]))
    )
    if dice.random() < 0.15:
        shape = (dice.choice([255, 257, 1000, 1003]),)
    kinds = [CORE[TORCH[dice.choice(STORAGE)]] for _ in range(dice.choice([1, 2, 3]))]
    loads, sizes = zip(*(random_load(number, kind, shape, dice) for number, kind in enumerate(kinds)), strict=True)
    common = compute_dtype(max(kinds, key=lambda each: (each.category, each.itemsize)))
    common = int32 if common is bool_ else common
    total = cast(parameter(0, float32), common)
    for each in loads:
        wide = cast(cast(each, compute_dtype(each.dtype)), common)
        total = dice.choice(
            [total + wide, total - wide, scalar.maximum(total, wide), select(binary("less", wide, total), wide, total)]
        )
    if shape and dice.random() < 0.3:
        total = total + cast(coordinate(dice.randrange(len(shape))), common)
    outputs, stores, operands = [], [], [operand(kind, size) for kind, size in zip(kinds, sizes, strict=True)]
    for number in range(dice.choice([1, 1, 2])):
        kind = CORE[TORCH[dice.choice(STORAGE)]]
        value = cast(cast(total + number, compute_dtype(kind)), kind)
        store, size, fills = random_store(number, shape, value, dice)
        if not fills:
            operands.append(operand(kind, size))
        outputs.append(Output(kind, size, None if fills else len(operands) - 1))
        stores.append(store)
    kernel = Pointwise(tuple(operands), tuple(outputs), (float32,), "random", shape, tuple(stores))
    return kernel, [values(each.dtype, each.numel, seed + n) for n, each in enumerate(operands)], [3.0]


@EMULATE
@pytest.mark.parametrize("seed", range(60))
def test_random_pointwise(seed: int, emulate: bool) -> None:
    kernel, operands, parameters = random_pointwise(seed)
    check(kernel, operands, parameters, emulate)


@EMULATE
@pytest.mark.parametrize("kind", STORAGE)
def test_in_place_with_load_of_the_same_element(kind: str, emulate: bool) -> None:
    own = CORE[TORCH[kind]]
    for shape, offset, strides, size in (
        ((40,), 0, (1,), 40),
        ((5, 3), 2, (7, 2), 40),
        ((3, 8), 4, (8, 1), 32),
        ((13,), 0, (1,), 13),
    ):
        value = load(0, offset, strides, own)
        changed = apply("bitwise_not", value) if own is bool_ else cast(cast(value, compute_dtype(own)) + 1, own)
        kernel = Pointwise(
            (operand(own, size),), (Output(own, size, 0),), (), "step", shape, (Store(0, offset, strides, changed),)
        )
        check(kernel, [values(own, size, 5)], (), emulate)


@EMULATE
def test_gather_with_computed_index(emulate: bool) -> None:
    index = torch.tensor([3, 0, 2, 2, 1, 3, 0])
    table = torch.randn(4, 6)
    row = load(0, 0, (1, 0), int64)
    value = load_at(1, cast(row, int32) * 6 + coordinate(1), float32)
    kernel = Pointwise((operand(int64, 7), operand(float32, 24)), (Output(float32, 42, None),), (), "embedding", (7, 6),
                       (whole(0, float32, (7, 6), value),))  # fmt: skip
    got = harness().run(kernel, [index, table.view(-1)], (), emulate)[0].view(7, 6)
    assert torch.equal(got, table[index])
    value = load_at(1, row * 6 + cast(coordinate(1), int64), float32)
    kernel = kernel.replace(stores=(whole(0, float32, (7, 6), value),))
    assert torch.equal(harness().run(kernel, [index, table.view(-1)], (), emulate)[0].view(7, 6), table[index])


@EMULATE
def test_constants(emulate: bool) -> None:
    numbers = [math.inf, -math.inf, math.nan, -0.0, 1.2e-38, 3.4028234663852886e38, 0.1, -2147483648.0]
    kernel = Pointwise((), tuple(Output(float32, 5, None) for _ in numbers), (), "constants", (5,),
                       tuple(Store(n, 0, (1,), cast(each, float32)) for n, each in enumerate(numbers)))  # fmt: skip
    for number, mine in zip(numbers, harness().run(kernel, [], (), emulate), strict=True):
        assert torch.equal(mine.view(torch.int32), torch.full((5,), number).view(torch.int32))
    whole_numbers = [
        (-(1 << 31), int32),
        ((1 << 31) - 1, int32),
        (-(1 << 63), int64),
        ((1 << 63) - 1, int64),
        (-1, int64),
        (200, uint8),
    ]
    kernel = Pointwise((), tuple(Output(kind, 3, None) for _, kind in whole_numbers), (), "constants", (3,),
                       tuple(Store(n, 0, (1,), cast(number, kind)) for n, (number, kind) in enumerate(whole_numbers)))  # fmt: skip
    for (number, kind), mine in zip(whole_numbers, harness().run(kernel, [], (), emulate), strict=True):
        assert mine.tolist() == [number] * 3, kind


@EMULATE
def test_parameters(emulate: bool) -> None:
    kinds = (float32, int64, int32, bool_, int64)
    given = [2.5, -(1 << 40), -7, True, 5]
    outputs = tuple(Output(kind, 3, None) for kind in kinds)
    stores = tuple(Store(n, 0, (1,), parameter(n, kind)) for n, kind in enumerate(kinds))
    got = harness().run(Pointwise((), outputs, kinds, "parameters", (3,), stores), [], given, emulate)
    for value, mine in zip(given, got, strict=True):
        assert mine.tolist() == [value] * 3


def test_many_workgroups_use_two_dimensions() -> None:
    count = 256 * 4 * 20 + 3
    kernel = Pointwise((operand(float32, count),), (Output(float32, count, None),), (), "copy", (count,),
                       (Store(0, 0, (1,), load(0, 0, (1,), float32) + 1.0),))  # fmt: skip
    x = torch.randn(count)
    assert torch.equal(harness().run(kernel, [x], (), True)[0], x + 1)


@EMULATE
@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "int64", "bool"])
def test_large_transpositions(kind: str, emulate: bool) -> None:
    own = CORE[TORCH[kind]]
    for shape, strides in (
        ((150, 130), (1, 150)),
        ((3, 70, 90), (90 * 70, 1, 70)),
        ((70, 3, 90), (1, 90 * 70, 70)),
        ((9, 2000), (1, 9)),
    ):
        count = number_of_elements(shape)
        moved = load(0, 0, strides, own)
        turned = float32 if kind == "bool" else own
        value = (
            cast(moved, turned)
            if own is bool_
            else select(load(1, 0, contiguous_strides(shape), bool_), moved, load(0, 0, strides, own))
        )
        kernel = Pointwise((operand(own, count), operand(bool_, count)), (Output(turned, count, None),), (), "transpose", shape,
                           (whole(0, turned, shape, value),))  # fmt: skip
        x = values(own, count, 1)
        got = harness().run(kernel, [x, values(bool_, count, 2)], (), emulate)[0].view(shape)
        assert torch.equal(got, torch.as_strided(x, shape, strides).to(got.dtype))


@EMULATE
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_constants_of_sixteen_bits_are_rounded(kind: str, emulate: bool) -> None:
    own = CORE[TORCH[kind]]
    numbers = [0.1, -1 / 3, 3.14159, 1e-3, 65504.0, 0.0, math.inf, math.nan, -math.inf]
    kernel = Pointwise((), tuple(Output(own, 9, None) for _ in numbers), (), "constants", (9,),
                       tuple(Store(n, 0, (1,), cast(cast(each, float32), own)) for n, each in enumerate(numbers)))  # fmt: skip
    direct = kernel.replace(stores=tuple(Store(n, 0, (1,), cast(each, own)) for n, each in enumerate(numbers)))
    for each in (kernel, direct):
        for number, mine in zip(numbers, harness().run(each, [], (), emulate), strict=True):
            torch.testing.assert_close(mine, torch.full((9,), number).to(mine.dtype), rtol=0, atol=0, equal_nan=True)


@EMULATE
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "bool"])
def test_large_kernels_without_alignment(kind: str, emulate: bool) -> None:
    """A broadcast over rows of odd length, in place and not."""
    own = CORE[TORCH[kind]]
    rows, length = 301, 255
    x, y = values(own, rows * length, 1), values(own, length, 2)
    left, right = load(0, 0, (length, 1), own), load(1, 0, (0, 1), own)
    wide = compute_dtype(own)
    value = left ^ right if own is bool_ else cast(cast(left, wide) + cast(right, wide), own)
    wanted = (x.view(rows, length) ^ y) if own is bool_ else x.view(rows, length) + y
    for initial in (None, 0):
        kernel = Pointwise((operand(own, rows * length), operand(own, length)), (Output(own, rows * length, initial),), (), "odd",
                           (rows, length), (whole(0, own, (rows, length), value),))  # fmt: skip
        assert torch.equal(harness().run(kernel, [x, y], (), emulate)[0].view(rows, length), wanted)


@EMULATE
@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "int32"])
def test_comparisons_of_a_value_with_itself_ask_for_nan(kind: str, emulate: bool) -> None:
    element = CORE[TORCH[kind]]
    given = torch.tensor([1, 0, -2, 5]).to(TORCH[kind])
    if element.is_floating_point:
        given[1] = math.nan
    value = load(0, 0, (1,), element) * 2
    steps = [apply(each, value, value) for each in ("equal", "not_equal", "less_equal")]
    kernel = Pointwise(
        (Operand(element, 4),), tuple(Output(bool_, 4, None) for _ in steps), (), "self", (4,),
        tuple(Store(number, 0, (1,), each) for number, each in enumerate(steps)),
    )  # fmt: skip
    if element.is_floating_point:
        # Drivers take `x != x` for decided; the test by bits they keep.
        assert "wt_isnan" in generate(kernel, harness().native).passes[0].source
    expected = [given == given, given != given, given <= given]
    for found, want in zip(harness().run(kernel, [given], (), emulate), expected, strict=True):
        assert found.tolist() == want.tolist()
