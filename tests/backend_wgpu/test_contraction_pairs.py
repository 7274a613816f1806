"""Products of float32 on matrix units: their text for Dawn's compiler, what is scaled by what, their values where there are units."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from itertools import product as combinations
from pathlib import Path

import codegen_harness
import numpy as np
import pytest
import torch
from contraction_cases import draw, product
from hypothesis import strategies as st
from test_contraction_matrix import UNITS, assert_valid, checking, computing
from webgpu_torch_backend_wgpu.codegen import choose
from webgpu_torch_backend_wgpu.codegen.contraction_magnitudes import span_of
from webgpu_torch_backend_wgpu.codegen.contraction_pairs import PairTile, generate_pairs, pair_tiles_of
from webgpu_torch_backend_wgpu.program import Capabilities
from webgpu_torch_core.ir.dtypes import bfloat16, dtype, float16, float32
from webgpu_torch_core.ir.expression import accumulator, cast, load
from webgpu_torch_core.ir.interpreter import Environment, evaluate
from webgpu_torch_core.ir.kernels import Contraction, Operand, Output, Store
from webgpu_torch_core.ir.layouts import contiguous_strides, layout
from webgpu_torch_core.operations.contraction.convolution import convolution_kernel


@cache
def able() -> Capabilities:
    """Return the capabilities of a GPU with matrix units that rounds halves as it should."""
    given = checking().capabilities
    return given.replace(facts=given.facts.replace(packs_halves=True, keeps_rests=True))


def tiles(kernel: Contraction, given: Capabilities) -> Iterator[PairTile]:
    """Yield the tiles of a kernel, each whole and split in two."""
    yield from (each for each in pair_tiles_of(kernel, given) if each.splits < 3)


def convolution(
    images: int,
    channels: int,
    filters: int,
    size: tuple[int, int],
    taps: int,
    window: tuple[int, int, int],
    groups: int,
) -> Contraction:
    """Return a convolution of square windows with (stride, padding, dilation)."""
    stride, padding, dilation = window
    results = tuple([(each + 2 * padding - dilation * (taps - 1) - 1) // stride + 1 for each in size])
    x, w = (images, groups * channels, *size), (groups * filters, channels, taps, taps)
    return convolution_kernel(
        layout(x, contiguous_strides(x)), math.prod(x), layout(w, contiguous_strides(w)), math.prod(w), float32,
        ((stride,) * 2, (padding,) * 2, (dilation,) * 2, groups, results), float32,
    )  # fmt: skip


def large(m: int, n: int, k: int, kind: dtype = float32) -> Contraction:
    """Return a product by a transposed matrix, without numbers."""
    return Contraction(
        (Operand(kind, m * k), Operand(kind, n * k)), (Output(kind, m * n, None),), (), "product", (), (m,), (n,), (k,),
        cast(load(0, 0, (k, 0, 1), kind), float32), cast(load(1, 0, (0, k, 1), kind), float32), float32,
        (Store(0, 0, (n, 1), cast(accumulator(float32), kind)),),
    )  # fmt: skip


def test_large_products_are_by_pairs() -> None:
    given = able()
    for kernel in (large(4096, 4096, 4096), large(1024, 3072, 1024), large(2048, 2048, 2048, bfloat16)):
        assert "pairs" in choose(kernel, given)[0].name, kernel.m
    # Neither small ones, nor few rows, nor halves, nor an adapter that rounds halves otherwise or has no units.
    whole = large(4096, 4096, 4096)
    for kernel, other in (
        (large(64, 64, 64), given),
        (large(4, 4096, 4096), given),
        (large(4096, 4096, 4096, float16), given),
        (whole, given.replace(facts=given.facts.replace(packs_halves=False))),
        (whole, given.replace(facts=given.facts.replace(keeps_rests=False))),
        (whole, given.replace(facts=given.facts.replace(products=0.0))),
        (whole, given.replace(matrix_units=())),
        (whole, given.replace(subgroup_size=16)),
    ):
        assert "pairs" not in choose(kernel, other)[0].name


def test_text_is_valid(tmp_path: Path) -> None:
    kernels = [
        product(1, 128, 128, 64, ("r", "c"))[0],
        product(2, 67, 35, 33, ("c", "r"))[0],
        product(3, 40, 200, 4096, ("r", "r"), shared=True)[0],
        product(1, 130, 133, 67, ("r", "c"), kind=bfloat16)[0],
        convolution(2, 5, 24, (13, 17), 3, (2, 1, 2), 2),
    ]
    texts: list[str] = []
    for number, kernel in enumerate(kernels):
        given = able().replace(matrix_units=UNITS[-1:] if number % 2 else UNITS)
        for tile in tiles(kernel, given):
            texts += [each.source for each in generate_pairs(kernel, given, tile).passes]
    assert len(texts) > 3 * len(kernels)
    assert_valid(texts, tmp_path)


def any_span(data: st.DataObject) -> None:
    """Compare the span of a convolution's images with the places that the definition reads."""
    number = st.integers(1, 3)
    taps, window = data.draw(number), (data.draw(number), data.draw(st.integers(0, 2)), data.draw(number))
    least = window[2] * (taps - 1) + 1
    size = (data.draw(st.integers(least, least + 4)), data.draw(st.integers(least, least + 4)))
    groups = data.draw(st.integers(1, 2))
    kernel = convolution(data.draw(number), data.draw(number), 2, size, taps, window, groups)
    total = kernel.operands[0].numel
    for value in (kernel.left, kernel.right):
        span = span_of(kernel, value)
        if span is None:
            continue
        # Nothing outside of the images is in the span, and everything that is read.
        assert span.load.payload == 0 and span.first >= 0 and span.first + span.count <= total
        domain = combinations(*map(range, kernel.batch + kernel.m[:1] + kernel.n + kernel.k))
        for at in domain:
            place = evaluate(span.load.arguments[0], at, Environment([[0.0] * total], ()))
            assert span.first <= place < span.first + span.count


def test_any_span() -> None:
    draw(60, any_span, derandomize=True)


def run(kernel: Contraction, operands: list[torch.Tensor], tile: PairTile, given: Capabilities) -> np.ndarray:
    """Return what a tile computes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codegen_harness, "generate", lambda kernel, _: generate_pairs(kernel, given, tile))
        (got,) = computing().run(kernel, operands)
    return got.double().numpy()


def on_a_gpu() -> Capabilities:
    """Return the capabilities of an adapter with matrix units, or leave a test out."""
    given = computing().native
    return given.replace(facts=given.facts.replace(packs_halves=True, keeps_rests=True, products=5e14))


def errors(got: np.ndarray, left: torch.Tensor, right: torch.Tensor) -> None:
    """Compare a product with the exact one: what is not finite is the same, and no error is above float32's own."""
    exact = left.double() @ right.double()
    size = (left.double().abs() @ right.double().abs()).numpy()
    found, wanted = got.reshape(exact.shape), exact.numpy()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    infinite = np.isinf(wanted)
    np.testing.assert_array_equal(found[infinite], wanted[infinite])
    finite = np.isfinite(wanted)
    # Each number is kept to 2 ** -23, and 192 products in a row are summed towards zero before they are rounded to nearest.
    bound = 2.0**-22 + min(left.shape[1], 192) / 16 * 2.0**-24 + math.sqrt(left.shape[1] / 192 + 1) * 2.0**-23
    assert (np.abs(found - wanted)[finite] <= bound * size[finite]).all()


KINDS = ("usual", "positive", "rows of all sizes", "numbers of many sizes", "integers", "zeros", "not finite")


def numbers(kind: str, m: int, n: int, k: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sides of a product, of one kind of numbers."""
    generator = torch.Generator().manual_seed(seed)
    left, right = (torch.randn(size, generator=generator) for size in ((m, k), (k, n)))
    if kind == "positive":
        left, right = left.abs(), right.abs()
    elif kind == "rows of all sizes":
        left, right = left * torch.logspace(-15, 15, m)[:, None], right * torch.logspace(15, -15, n)
    elif kind == "numbers of many sizes":
        left, right = (each * torch.exp(2 * torch.randn(each.shape, generator=generator)) for each in (left, right))
    elif kind == "integers":
        left, right = (left * 100).round(), (right * 100).round()
    elif kind == "zeros":
        left[:, ::2] = 0
        right[1::2] = 0
    elif kind == "not finite":
        left[0, 0], left[m // 2, k // 2], left[-1, -1] = math.inf, -math.inf, math.nan
        right[k // 3, n // 2], right[0, : n // 2] = math.inf, 1e-30
        left[1, k // 3] = 0
    return left.float(), right.float()


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_all_kinds(kind: str) -> None:
    given = on_a_gpu()
    kernel = product(1, 70, 90, 500, ("r", "c"))[0]
    left, right = numbers(kind, 70, 90, 500, 3)
    for tile in tiles(kernel, given):
        errors(run(kernel, [left.flatten(), right.flatten()], tile, given), left, right)


def any_product(data: st.DataObject) -> None:
    given = on_a_gpu()
    size = st.integers(9, 300)
    m, n, k = data.draw(size), data.draw(size), data.draw(st.integers(16, 700))
    step = data.draw(st.sampled_from([1, 1, 4, 8]))
    m, n, k = (-(-each // step) * step for each in (m, n, k))
    layouts = data.draw(st.sampled_from("rc")), data.draw(st.sampled_from("rc"))
    kernel = product(1, m, n, k, layouts)[0]
    left, right = numbers(data.draw(st.sampled_from(KINDS)), m, n, k, data.draw(st.integers(0, 99)))
    stored = left if layouts[0] == "r" else left.T, right.T if layouts[1] == "r" else right
    tile = data.draw(st.sampled_from(list(tiles(kernel, given))))
    errors(run(kernel, [each.contiguous().flatten() for each in stored], tile, given), left, right)


@pytest.mark.parametrize("count", [pytest.param(10, id="some"), pytest.param(150, id="many", marks=pytest.mark.slow)])
def test_any_product(count: int) -> None:
    computing()
    draw(count, any_product, derandomize=True)


def test_same_bits_run_after_run() -> None:
    given = on_a_gpu()
    kernel, operands, _ = product(1, 96, 96, 1024)
    for tile in tiles(kernel, given):
        first, second = (run(kernel, operands, tile, given) for _ in range(2))
        assert np.array_equal(first, second)


@pytest.mark.parametrize("window", [(1, 1, 1), (2, 1, 1), (1, 0, 2)])
def test_convolutions(window: tuple[int, int, int]) -> None:
    given = on_a_gpu()
    stride, padding, dilation = window
    kernel = convolution(2, 12, 40, (19, 11), 3, window, 1)
    generator = torch.Generator().manual_seed(1)
    x, w = torch.randn(2, 12, 19, 11, generator=generator), torch.randn(40, 12, 3, 3, generator=generator)
    exact = torch.nn.functional.conv2d(x.double(), w.double(), None, stride, padding, dilation)
    size = torch.nn.functional.conv2d(x.double().abs(), w.double().abs(), None, stride, padding, dilation)
    for tile in tiles(kernel, given):
        got = run(kernel, [x.flatten(), w.flatten()], tile, given)
        assert (np.abs(got - exact.numpy().reshape(-1)) <= 2.0**-21 * size.numpy().reshape(-1)).all()
