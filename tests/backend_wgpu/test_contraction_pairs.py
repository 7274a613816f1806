"""Products of float32 on matrix units: their text for Dawn's compiler, what is scaled by what, their values where there are units."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from itertools import product as combinations
from pathlib import Path
from typing import Any

import matrix_emulation
import numpy as np
import pytest
import torch
from contraction_cases import draw, product
from hypothesis import strategies as st
from test_contraction_matrix import UNITS, assert_valid, checking
from webgpu_torch_backend_wgpu.codegen import choose, contraction_matrix
from webgpu_torch_backend_wgpu.codegen.contraction_laid import laid_groups
from webgpu_torch_backend_wgpu.codegen.contraction_magnitudes import span_of
from webgpu_torch_backend_wgpu.codegen.contraction_pairs import PairTile, generate_pairs, pair_tiles_of
from webgpu_torch_backend_wgpu.modules import Compiler
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


class Adapter(matrix_emulation.Adapter):
    """Runs products by pairs."""

    def tiles(self, kernel: Contraction) -> list[PairTile]:
        """Return the tiles of a kernel, whole and split in two; of an emulation small ones."""
        if self.emulation is None:
            return list(tiles(kernel, self.capabilities))
        groups = laid_groups(kernel, (kernel.left, kernel.right), 4, True, 1 << 30)
        return [
            PairTile(32, 32, 32, 16, 16, 1, 0, 8, 8, splits, 1, self.emulation.unit, laid)
            for splits in (1, 2)
            for laid in (((), groups) if groups else ((),))
        ]

    def run(self, kernel: Contraction, operands: list[torch.Tensor], tile: PairTile) -> np.ndarray:
        """Return what a tile computes."""
        return self.compute(generate_pairs, kernel, operands, tile).double().numpy()


@pytest.fixture(params=matrix_emulation.PLACES)
def adapter(request: pytest.FixtureRequest) -> Adapter:
    return matrix_emulation.opened(Adapter, request.param, 16)


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
    assert (np.abs(found[finite] - wanted[finite]) <= bound * size[finite]).all()


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


def test_values_of_all_kinds(adapter: Adapter) -> None:
    kernel = product(1, 35, 44, 250, ("r", "c"))[0]
    for kind in KINDS:
        left, right = numbers(kind, 35, 44, 250, 3)
        for tile in adapter.tiles(kernel):
            found = adapter.run(kernel, [left.flatten(), right.flatten()], tile)
            errors(found, left, right)
            # Run after run it has the same bits.
            np.testing.assert_array_equal(found, adapter.run(kernel, [left.flatten(), right.flatten()], tile))
            # However its products are written, too.
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(contraction_matrix, "_LONG", 0.0)
                np.testing.assert_array_equal(found, adapter.run(kernel, [left.flatten(), right.flatten()], tile))


def any_product(data: st.DataObject, adapter: Adapter) -> None:
    size = st.integers(9, 70 if adapter.emulation else 300)
    m, n, k = data.draw(size), data.draw(size), data.draw(st.integers(16, 300 if adapter.emulation else 700))
    step = data.draw(st.sampled_from([1, 1, 4, 8]))
    m, n, k = (-(-each // step) * step for each in (m, n, k))
    layouts = data.draw(st.sampled_from("rc")), data.draw(st.sampled_from("rc"))
    kernel = product(1, m, n, k, layouts)[0]
    left, right = numbers(data.draw(st.sampled_from(KINDS)), m, n, k, data.draw(st.integers(0, 99)))
    stored = left if layouts[0] == "r" else left.T, right.T if layouts[1] == "r" else right
    tile = data.draw(st.sampled_from(adapter.tiles(kernel)))
    errors(adapter.run(kernel, [each.contiguous().flatten() for each in stored], tile), left, right)


@pytest.mark.parametrize(
    "count",
    [pytest.param(2, id="some"), pytest.param(40, id="many", marks=[pytest.mark.slow, pytest.mark.timeout(900)])],
)
def test_any_product(count: int, adapter: Adapter) -> None:
    draw(count, lambda data: any_product(data, adapter), derandomize=True)


@pytest.mark.parametrize("kind", [float16, bfloat16])
def test_products_of_halves_and_numbers(kind: dtype, adapter: Adapter) -> None:
    # Rows of halves are one part; a side of float32 beside them has two.
    kernel, (left, right), _ = product(2, 20, 24, 70, ("c", "r"), bfloat16, result=float32)
    wide = right.float() * 1.2345
    if kind is float16:
        side = load(1, 0, (24 * 70, 0, 70, 1), float32)
        kernel = kernel.replace(operands=(kernel.operands[0], Operand(float32, wide.numel())), right=side)
    second = wide if kind is float16 else right.float()
    exact = torch.einsum("bkm,bnk->bmn", left.double().view(2, 70, 20), second.double().view(2, 24, 70))
    for tile in adapter.tiles(kernel):
        got = adapter.run(kernel, [left, wide if kind is float16 else right], tile)
        np.testing.assert_allclose(got, exact.numpy().reshape(-1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("window", [(1, 1, 1), pytest.param((2, 1, 1), marks=pytest.mark.slow)])
def test_convolutions(window: tuple[int, int, int], adapter: Adapter) -> None:
    kernel = convolution(2, 5, 20, (7, 6), 3, window, 1)
    for tile in adapter.tiles(kernel)[:1]:
        compare_convolution(kernel, (2, 5, 20, (7, 6), 3, window, 1), "usual", 1, adapter, tile)


def compare_convolution(
    kernel: Contraction, case: tuple[Any, ...], kind: str, seed: int, adapter: Adapter, tile: PairTile
) -> None:
    """Compare a convolution of one kind of numbers with the exact one."""
    images, channels, filters, size, taps, (stride, padding, dilation), groups = case
    rows, depth = images * math.prod(size), channels * taps * taps
    w = numbers(kind, max(groups * filters, 2), 1, depth, seed)[0][: groups * filters].reshape(-1, channels, taps, taps)
    x = numbers(kind, groups * channels, 1, rows, seed + 1)[0].reshape(-1, images, *size).transpose(0, 1).contiguous()

    def convolve(x: torch.Tensor, w: torch.Tensor) -> np.ndarray:
        return torch.nn.functional.conv2d(x.double(), w.double(), None, stride, padding, dilation, groups).numpy()

    got = adapter.run(kernel, [x.flatten(), w.flatten()], tile)
    exact, size_of = convolve(x, w), convolve(x.abs(), w.abs())
    got, finite = got.reshape(exact.shape), np.isfinite(exact)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    infinite = np.isinf(exact)
    np.testing.assert_array_equal(got[infinite], exact[infinite])
    greatest = x.abs()[x.isfinite()].max().item() * w.abs().nan_to_num(0, 0, 0).sum().item()
    # All images are scaled by one power of two: numbers far below the largest one are kept to its bits.
    assert (np.abs(got[finite] - exact[finite]) <= 2.0**-21 * size_of[finite] + 2.0**-36 * greatest).all()


def test_sizes_of_long_text_share_pipelines_until_they_stay() -> None:
    device = checking()
    compiler = Compiler(device.gpu, able(), trusted=False)
    layers = [convolution(2, channels, 640, (32, 32), 3, (1, 1, 1), 1) for channels in (640, 960, 1280)]
    assert all("pairs" in choose(each, able())[0].name for each in layers)
    found = compiler.compile(layers)
    assert all(each.shared for each in found.values())
    # Magnitudes, what is laid out, parts and their sums: one pipeline each, however many layers there are.
    assert compiler.compiled_pipelines == 4
    own = compiler.compile(layers, own=True)
    assert not any(each.shared for each in own.values())
    # The sums are of as many results in all of them.
    assert compiler.compiled_pipelines == 4 + 3 * len(layers)
