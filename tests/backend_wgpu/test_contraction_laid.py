"""Sides that are laid out before products on matrix units, and convolutions by eight channels of a place: halves and pairs of these."""

from __future__ import annotations

import math
from pathlib import Path

import matrix_emulation
import numpy as np
import pytest
import test_contraction_matrix
import torch
from contraction_cases import close, draw, product
from hypothesis import strategies as st
from test_contraction_pairs import Adapter, able, compare_convolution, convolution
from webgpu_torch_backend_wgpu.codegen.contraction_laid import laid_groups
from webgpu_torch_backend_wgpu.codegen.contraction_matrix import MatrixTile, generate_matrix, matrix_tiles_of
from webgpu_torch_backend_wgpu.codegen.contraction_pairs import generate_pairs, pair_tiles_of
from webgpu_torch_backend_wgpu.codegen.contraction_window import channels_inside
from webgpu_torch_core.ir.dtypes import float16
from webgpu_torch_core.ir.expression import Expression
from webgpu_torch_core.ir.kernels import Contraction


def halves_of(kernel: Contraction) -> tuple[Expression, Expression]:
    """Return the halves that both sides are."""
    return kernel.left.arguments[0], kernel.right.arguments[0]


class HalvesAdapter(matrix_emulation.Adapter):
    """Runs products of halves."""

    def tiles(self, kernel: Contraction) -> list[MatrixTile]:
        """Return the tiles of sides that are laid out, whole and split in two; of an emulation small ones."""
        if self.emulation is None:
            return [each for each in matrix_tiles_of(kernel, self.capabilities) if each.splits < 3 and each.laid]
        unit, groups = self.emulation.unit, laid_groups(kernel, halves_of(kernel), 8, False, 1 << 30)
        return [MatrixTile(32, 32, 32, 16, 16, 1, 0, 8, 8, splits, 1, unit, groups) for splits in (1, 2)]

    def run(self, kernel: Contraction, operands: list[torch.Tensor], tile: MatrixTile) -> torch.Tensor:
        """Return what a tile computes."""
        return self.compute(generate_matrix, kernel, operands, tile)


@pytest.fixture(params=matrix_emulation.PLACES)
def adapter(request: pytest.FixtureRequest) -> Adapter:
    return matrix_emulation.opened(Adapter, request.param, 16)


@pytest.fixture(params=matrix_emulation.PLACES)
def halves(request: pytest.FixtureRequest) -> HalvesAdapter:
    return matrix_emulation.opened(HalvesAdapter, request.param, 16)


SOME_AND_MANY = pytest.mark.parametrize(
    "count",
    [pytest.param(3, id="some"), pytest.param(40, id="many", marks=[pytest.mark.slow, pytest.mark.timeout(900)])],
)

Case = tuple[int, int, int, tuple[int, int], int, tuple[int, int, int], int]


def drawn_convolution(data: st.DataObject, taps: int) -> Case:
    """Draw images, channels that are multiples of eight, filters, sizes, (stride, padding, dilation) and groups."""
    number, few = st.integers(1, 3), st.integers(1, 2)
    window = (data.draw(few), data.draw(st.integers(0, 2)), data.draw(few))
    least = window[2] * (taps - 1) + 1
    size = (data.draw(st.integers(least, least + 3)), data.draw(st.integers(7, 9)) * window[0] + least)
    return data.draw(few), 8 * data.draw(number), data.draw(st.integers(1, 35)), size, taps, window, data.draw(few)


def any_convolution(data: st.DataObject, adapter: Adapter) -> None:
    case = drawn_convolution(data, data.draw(st.integers(1, 3)))
    kernel = convolution(*case)
    if math.prod(kernel.k) < 16:
        return
    ordered = channels_inside(kernel)
    assert ordered.k[-1] == 8 and math.prod(ordered.k) == math.prod(kernel.k)
    kind = data.draw(st.sampled_from(["usual", "positive", "integers", "zeros", "not finite"]))
    tile = data.draw(st.sampled_from([each for each in adapter.tiles(kernel) if each.laid]))
    compare_convolution(kernel, case, kind, data.draw(st.integers(0, 99)), adapter, tile)


@SOME_AND_MANY
def test_any_convolution(count: int, adapter: Adapter) -> None:
    draw(count, lambda data: any_convolution(data, adapter), derandomize=True)


def any_convolution_of_halves(data: st.DataObject, adapter: HalvesAdapter) -> None:
    images, channels, filters, size, _, window, groups = drawn_convolution(data, 3)
    kernel, operands, exact = test_contraction_matrix.convolution(images, channels, filters, size, window, groups)
    tile = data.draw(st.sampled_from(adapter.tiles(kernel)))
    close(adapter.run(kernel, operands, tile), exact, math.prod(kernel.k))


@SOME_AND_MANY
def test_any_convolution_of_halves(count: int, halves: HalvesAdapter) -> None:
    draw(count, lambda data: any_convolution_of_halves(data, halves), derandomize=True)


def any_product_of_halves(data: st.DataObject, adapter: HalvesAdapter) -> None:
    size = st.integers(4, 30)
    m, n, k = (2 * data.draw(each) + 1 for each in (size, size, st.integers(8, 100)))
    layouts = data.draw(st.sampled_from("rc")), data.draw(st.sampled_from("rc"))
    kernel, operands, exact = product(data.draw(st.integers(1, 2)), m, n, k, layouts, float16, data.draw(st.booleans()))
    assert laid_groups(kernel, halves_of(kernel), 8, False, 1 << 30) == ("m", "n")
    tile = data.draw(st.sampled_from(adapter.tiles(kernel)))
    close(adapter.run(kernel, operands, tile), exact, k)


@SOME_AND_MANY
def test_any_product_of_halves(count: int, halves: HalvesAdapter) -> None:
    draw(count, lambda data: any_product_of_halves(data, halves), derandomize=True)


def test_text_is_valid(tmp_path: Path) -> None:
    given = able()
    numbers = convolution(2, 16, 24, (9, 13), 3, (1, 1, 1), 2), product(2, 67, 35, 33, ("c", "r"))[0]
    halves = (
        test_contraction_matrix.convolution(2, 16, 24, (9, 13), (1, 1, 1))[0],
        product(2, 67, 35, 33, ("c", "r"), float16)[0],
    )
    texts = [
        each.source
        for kernels, tiles_of, make in (
            (numbers, pair_tiles_of, generate_pairs),
            (halves, matrix_tiles_of, generate_matrix),
        )
        for kernel in kernels
        for tile in tiles_of(kernel, given)
        if tile.laid and tile.splits < 3
        for each in make(kernel, given, tile).passes
    ]
    assert len(texts) > 20
    test_contraction_matrix.assert_valid(texts, tmp_path)


def test_only_channels_come_last() -> None:
    """Windows stay as they are recorded where channels are no multiple of eight, rows are short, or depths are positions."""
    whole = (1, 16, 8, (9, 9), 3, (1, 1, 1), 1)
    assert channels_inside(convolution(*whole)).k == (2, 3, 3, 8)
    for number, value in ((1, 12), (3, (9, 4))):
        case = [*whole]
        case[number] = value
        kernel = convolution(*case)
        assert channels_inside(kernel) is kernel
    kernel = product(1, 64, 64, 64)[0]
    assert channels_inside(kernel) is kernel
    assert np.prod(channels_inside(convolution(*whole)).n) == 81
