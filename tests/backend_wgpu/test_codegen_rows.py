"""Generated WGSL for row programs, against the kernels' definition in plain Python and PyTorch."""

from __future__ import annotations

import math
import random

import pytest
import torch
from codegen_harness import CORE, TORCH, harness
from test_codegen import EMULATE, SIZES, STORAGE, check, operand, random_load, random_store, values
from webgpu_torch_core.ir import scalar
from webgpu_torch_core.ir.dtypes import bool_, compute_dtype, dtype, float16, float32, int32, int64
from webgpu_torch_core.ir.expression import cast, load, reduced
from webgpu_torch_core.ir.kernels import Output, Reduction, RowProgram, Store
from webgpu_torch_core.ir.layouts import contiguous_strides, number_of_elements
from webgpu_torch_core.ir.monoids import monoid

pytestmark = pytest.mark.usefixtures("webgpu")

KINDS = ["sum", "product", "maximum", "minimum", "any", "all", "argmaximum", "argminimum"]


def random_rows(seed: int) -> tuple[RowProgram, list[torch.Tensor]]:
    dice = random.Random(seed)
    outer = tuple(dice.choice(SIZES) for _ in range(dice.choice([0, 1, 1, 2])))
    inner = dice.choice([(), (1,), (5,), (64,), (33,), (4, 5), (3, 8), (300,), (7, 2, 3), (520,), (1030,)])
    domain = outer + inner
    kinds = [CORE[TORCH[dice.choice(STORAGE)]] for _ in range(dice.choice([1, 2]))]
    loads, sizes = zip(*(random_load(number, kind, domain, dice) for number, kind in enumerate(kinds)), strict=True)
    reductions: list[Reduction] = []
    for _ in range(dice.choice([1, 1, 2, 3])):
        source = dice.choice(loads)
        kind = dice.choice(KINDS[2:] if len(inner) and number_of_elements(inner) > 64 else KINDS)
        kind = "sum" if dice.random() < 0.3 else kind
        of = compute_dtype(source.dtype)
        of = int32 if of is bool_ and kind in ("sum", "product") else of
        value = cast(cast(source, compute_dtype(source.dtype)), of)
        if reductions and dice.random() < 0.5 and of is not bool_ and not reductions[-1].monoid.uses_positions:
            value = scalar.minimum(value, cast(reduced(len(reductions) - 1, reductions[-1].dtype), of))
        if kind in ("any", "all"):
            value, of = cast(value, bool_), bool_
        reductions.append(Reduction(monoid(kind, of), value))
    finished = [reduced(n, each.monoid.results[0].dtype) for n, each in enumerate(reductions)]
    outputs: list[Output] = []
    row_stores, stores = [], []
    operands = [operand(kind, size) for kind, size in zip(kinds, sizes, strict=True)]
    plan = dice.choice(["rows", "rows", "elements", "both"])
    for each in finished if plan != "elements" else ():
        kind = (
            CORE[TORCH[dice.choice(STORAGE)]] if not each.dtype.is_floating_point else dice.choice([float32, float16])
        )
        row_stores.append(Store(len(outputs), 0, contiguous_strides(outer), cast(each, kind)))
        outputs.append(Output(kind, number_of_elements(outer), None))
    if plan != "rows" or not outputs:
        own = dice.choice(loads)
        wide = compute_dtype(own.dtype)
        wide = int32 if wide is bool_ else wide
        value = cast(cast(own, wide) + cast(finished[-1], wide), own.dtype)
        store, size, fills = random_store(len(outputs), domain, value, dice)
        if not fills:
            operands.append(operand(own.dtype, size))
        outputs.append(Output(own.dtype, size, None if fills else len(operands) - 1))
        stores.append(store)
    kernel = RowProgram(
        tuple(operands), tuple(outputs), (), "random", outer, inner, tuple(reductions), tuple(row_stores), tuple(stores)
    )
    return kernel, [values(each.dtype, each.numel, seed + n) for n, each in enumerate(operands)]


@EMULATE
@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed >= 20)) for seed in range(60)])
def test_random_rows(seed: int, emulate: bool) -> None:
    kernel, operands = random_rows(seed)
    check(kernel, operands, (), emulate)


def softmax(rows: int, length: int, strides: tuple[int, int], kind: dtype = float32) -> RowProgram:
    x = cast(load(0, 0, strides, kind), float32)
    power = scalar.exp(x - reduced(0, float32))
    return RowProgram((operand(kind, rows * length),), (Output(kind, rows * length, None),), (), "softmax", (rows,), (length,),
                      (Reduction(monoid("maximum", float32), x), Reduction(monoid("sum", float32), power)), (),
                      (Store(0, 0, strides, cast(power / reduced(1, float32), kind)),))  # fmt: skip


@EMULATE
@pytest.mark.parametrize("length", [1, 3, 64, 100, 1000, 4096, 5001, 70001])
def test_softmax(length: int, emulate: bool) -> None:
    x = torch.randn(3, length, generator=torch.Generator().manual_seed(length))
    got = harness().run(softmax(3, length, (length, 1)), [x], (), emulate)[0].view(3, length)
    torch.testing.assert_close(got, x.softmax(1), rtol=1e-5, atol=1e-7)
    if length == 1:
        return  # NVIDIA's compiler takes x - max(x) as 0 there
    x[1, length // 2] = math.nan
    x[2, 0] = -math.inf
    got = harness().run(softmax(3, length, (length, 1)), [x], (), emulate)[0].view(3, length)
    torch.testing.assert_close(got, x.softmax(1), rtol=1e-5, atol=1e-7, equal_nan=True)


@EMULATE
def test_softmax_over_columns(emulate: bool) -> None:
    x = torch.randn(50, 37)
    got = harness().run(softmax(37, 50, (1, 37)), [x], (), emulate)[0].view(50, 37)
    torch.testing.assert_close(got, x.softmax(0), rtol=1e-5, atol=1e-7)


@EMULATE
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_softmax_of_sixteen_bits(kind: str, emulate: bool) -> None:
    x = torch.randn(5, 48).to(TORCH[kind])
    got = harness().run(softmax(5, 48, (48, 1), CORE[TORCH[kind]]), [x], (), emulate)[0].view(5, 48)
    torch.testing.assert_close(got, x.softmax(1))


def whole_reduction(kind: str, source: dtype, of: dtype, result: dtype, outer: tuple[int, ...], inner: tuple[int, ...],
                    strides: tuple[int, ...], numel: int) -> RowProgram:  # fmt: skip
    value = cast(load(0, 0, strides, source), of)
    finished = cast(reduced(0, int64 if kind.startswith("arg") else of), result)
    store = Store(0, 0, contiguous_strides(outer), finished)
    return RowProgram((operand(source, numel),), (Output(result, number_of_elements(outer), None),), (), kind, outer, inner,
                      (Reduction(monoid(kind, of), value),), (store,), ())  # fmt: skip


@EMULATE
@pytest.mark.parametrize("count", [1, 5, 300000, 300001])
def test_sum_of_everything(count: int, emulate: bool) -> None:
    x = torch.rand(count, generator=torch.Generator().manual_seed(1))
    got = harness().run(whole_reduction("sum", float32, float32, float32, (), (count,), (1,), count), [x], (), emulate)[
        0
    ]
    torch.testing.assert_close(got[0].double(), x.double().sum(), rtol=3e-7, atol=0)
    whole_numbers = torch.arange(count) * 1000003 - 5
    got = harness().run(
        whole_reduction("sum", int64, int64, int64, (), (count,), (1,), count), [whole_numbers], (), emulate
    )[0]
    assert got[0] == whole_numbers.sum()


@EMULATE
@pytest.mark.parametrize("shape", [(3, 5), (2, 100000), (1, 50001)])
def test_argmax_finds_first_and_nan(shape: tuple[int, int], emulate: bool) -> None:
    rows, length = shape
    x = (torch.arange(rows * length) % 7).float().view(rows, length)
    program = whole_reduction("argmaximum", float32, float32, int64, (rows,), (length,), (length, 1), rows * length)
    assert torch.equal(harness().run(program, [x], (), emulate)[0], x.argmax(1))
    x[-1, length // 2 :: 2] = math.nan
    assert torch.equal(harness().run(program, [x], (), emulate)[0], x.argmax(1))


@EMULATE
@pytest.mark.parametrize("shape", [(64, 20), (3, 20000), (1000, 33)])
def test_column_sums(shape: tuple[int, int], emulate: bool) -> None:
    length, columns = shape[1], shape[0]
    x = torch.randn(length, columns)
    program = whole_reduction("sum", float32, float32, float32, (columns,), (length,), (1, columns), length * columns)
    torch.testing.assert_close(harness().run(program, [x], (), emulate)[0], x.sum(0), rtol=1e-5, atol=1e-4)


@EMULATE
def test_empty_rows_give_identities(emulate: bool) -> None:
    outputs, row_stores, reductions = [], [], []
    wanted = {"sum": 0.0, "product": 1.0, "maximum": -math.inf, "minimum": math.inf, "any": False, "all": True}
    for number, kind in enumerate(wanted):
        of = bool_ if kind in ("any", "all") else float32
        reductions.append(Reduction(monoid(kind, of), load(number // 4, 0, (0, 1), of)))
        row_stores.append(Store(number, 0, (1,), reduced(number, of)))
        outputs.append(Output(of, 5, None))
    kernel = RowProgram((operand(float32, 0), operand(bool_, 0)), tuple(outputs), (), "empty", (5,), (0,), tuple(reductions),
                        tuple(row_stores), ())  # fmt: skip
    got = harness().run(kernel, [torch.zeros(0), torch.zeros(0, dtype=torch.bool)], (), emulate)
    for value, mine in zip(wanted.values(), got, strict=True):
        assert mine.tolist() == [value] * 5


@EMULATE
def test_long_rows_with_dependent_reductions(emulate: bool) -> None:
    """Layer norm of two long rows, with the row's statistics stored as well."""
    rows, length = 2, 60000
    x = torch.randn(rows, length) * 3 + 10
    value = load(0, 0, (length, 1), float32)
    mean = reduced(0, float32) / float(length)
    centred = value - mean
    scale = scalar.reciprocal_sqrt(reduced(1, float32) / float(length) + 1e-5)
    kernel = RowProgram((operand(float32, rows * length),), (Output(float32, rows * length, None), Output(float32, rows, None)), (),
                        "layer_norm", (rows,), (length,),
                        (Reduction(monoid("sum", float32), value), Reduction(monoid("sum", float32), centred * centred)),
                        (Store(1, 0, (1,), mean),), (Store(0, 0, (length, 1), centred * scale),))  # fmt: skip
    got = harness().run(kernel, [x], (), emulate)
    torch.testing.assert_close(
        got[0].view(rows, length), torch.nn.functional.layer_norm(x, (length,)), rtol=1e-4, atol=1e-5
    )
    torch.testing.assert_close(got[1], x.mean(1))


@EMULATE
def test_row_stores_in_place_of_what_elements_read(emulate: bool) -> None:
    """Elements use the old running mean although the row store overwrites it."""
    x, running = torch.randn(3, 40), torch.randn(3)
    value = load(0, 0, (40, 1), float32)
    kernel = RowProgram((operand(float32, 120), operand(float32, 3)), (Output(float32, 120, None), Output(float32, 3, 1)), (), "running",
                        (3,), (40,), (Reduction(monoid("sum", float32), value),),
                        (Store(1, 0, (1,), load(1, 0, (1,), float32) * 0.5 + reduced(0, float32)),),
                        (Store(0, 0, (40, 1), value - load(1, 0, (1, 0), float32)),))  # fmt: skip
    got = harness().run(kernel, [x, running], (), emulate)
    torch.testing.assert_close(got[0].view(3, 40), x - running[:, None])
    torch.testing.assert_close(got[1], running * 0.5 + x.sum(1), rtol=1e-5, atol=1e-5)
