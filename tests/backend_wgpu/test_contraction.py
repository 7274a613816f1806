"""Contractions in WGSL, every kernel variant of them, against NumPy in float64."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import codegen_harness
import numpy as np
import pytest
import torch
import webgpu_torch as ours
from codegen_harness import harness
from contraction_cases import close, draw, numbers, product, view
from hypothesis import strategies as st
from webgpu_torch_backend_wgpu.codegen import choose, generate
from webgpu_torch_backend_wgpu.codegen.contraction_host import generate_host
from webgpu_torch_backend_wgpu.codegen.contraction_tile import Tile, generate_tile
from webgpu_torch_backend_wgpu.codegen.contraction_vector import Strip, generate_alone, generate_vector
from webgpu_torch_backend_wgpu.program import Capabilities
from webgpu_torch_core.ir.dtypes import bfloat16, dtype, float16, float32, int32, int64
from webgpu_torch_core.ir.expression import (  # fmt: skip
    Expression,
    accumulator,
    apply,
    cast,
    constant,
    coordinate,
    load,
    load_at,
    parameter,
    select,
)
from webgpu_torch_core.ir.kernels import Contraction, Operand, Output, Store
from webgpu_torch_core.ir.layouts import contiguous_strides

pytestmark = pytest.mark.usefixtures("webgpu")
TILES = {
    "large": Tile(128, 256, 8, 16, 8),
    "spans and bands": Tile(128, 128, 8, 8, 8, span=8, band=2),
    "two stages": Tile(64, 64, 16, 8, 4, stages=2),
    "two stages, flat": Tile(64, 128, 16, 8, 8, stages=2, span=4),
    "two stages padded": Tile(64, 32, 8, 4, 4, stages=2, span=4, pad=4, band=3),
    "padded": Tile(64, 64, 16, 4, 4, pad=4),
    "tiny": Tile(32, 32, 16, 4, 4),
    "wide": Tile(32, 64, 4, 4, 8),
    "forty columns": Tile(128, 40, 16, 8, 4, pad=4),
    "eighty columns": Tile(128, 80, 16, 8, 8, pad=4),
    "split": Tile(32, 32, 16, 4, 4, splits=3),
    "split, two stages": Tile(64, 64, 8, 8, 8, stages=2, splits=5),
    "sliced": Tile(32, 32, 32, 4, 4, slices=4),
    "sliced and split": Tile(32, 64, 16, 8, 8, stages=2, splits=2, slices=2),
}
TILE = pytest.mark.parametrize("tile", TILES.values(), ids=TILES)
# Rows, columns of a thread, threads, depth: small ones, which software compiles quickly, and one that is chosen.
HOST_TILES = {
    f"{rows} rows, {columns} columns of {threads} threads": Tile(rows, columns * threads, depth, rows, columns)
    for rows, columns, threads, depth in ((32, 8, 8, 4), (8, 4, 16, 8), (4, 8, 16, 4))
}
LAYOUTS = list(itertools.product("rc", "rc"))


Make = Callable[[Contraction, Any], Any]


def run(
    kernel: Contraction, operands: list[torch.Tensor], make: Make = generate, emulate: bool = False,
    parameters: tuple[float, ...] = (),
) -> list[torch.Tensor]:  # fmt: skip
    """Run a kernel as ``make`` generates it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codegen_harness, "generate", make)
        return harness().run(kernel, operands, parameters, emulate)


def test_tiles_without_edges() -> None:
    kernel, operands, exact = product(1, 256, 256, 32, ("r", "c"))
    (got,) = run(kernel, operands, lambda kernel, given: generate_tile(kernel, given, TILES["large"]))
    close(got, exact, 32)


@TILE
@pytest.mark.parametrize("layouts", LAYOUTS, ids="".join)
@pytest.mark.parametrize("sizes", [(2, 70, 68, 36), (1, 33, 131, 19)], ids=str)
def test_tile_variants(tile: Tile, layouts: tuple[str, str], sizes: tuple[int, int, int, int]) -> None:
    kernel, operands, exact = product(*sizes, layouts)
    (got,) = run(kernel, operands, lambda kernel, given: generate_tile(kernel, given, tile))
    close(got, exact, sizes[-1])


@TILE
@pytest.mark.parametrize(("kind", "emulate"), [(float16, True), (bfloat16, False), (int64, True)], ids=str)
def test_tile_variants_of_types(tile: Tile, kind: dtype, emulate: bool) -> None:
    kernel, operands, exact = product(2, 37, 44, 40, ("r", "c"), kind)
    if kind is int64 and tile.m >= 128:
        pytest.skip("64-bit blocks of this size need more workgroup memory than adapters must have")
    (got,) = run(kernel, operands, lambda kernel, given: generate_tile(kernel, given, tile), emulate)
    close(got, exact, 40)


def any_product_for_the_host(tile: Tile, data: st.DataObject) -> None:
    size = st.integers(1, 140)
    b, m, n, k = data.draw(st.integers(1, 3)), data.draw(size), data.draw(size), data.draw(st.integers(0, 40))
    if data.draw(st.booleans()):
        # Whole vectors.
        n, k = -(-n // 4) * 4, -(-k // 4) * 4
    layouts = (data.draw(st.sampled_from("rc")), data.draw(st.sampled_from("rc")))
    kernel, operands, exact = product(
        b, m, n, k, layouts, data.draw(st.sampled_from([float32, float16])), data.draw(st.booleans())
    )
    (got,) = run(kernel, operands, lambda kernel, given: generate_host(kernel, given, tile))
    close(got, exact, k)


@pytest.mark.parametrize("tile", HOST_TILES.values(), ids=HOST_TILES)
@pytest.mark.parametrize("count", [pytest.param(4, id="some"), pytest.param(30, id="many", marks=pytest.mark.slow)])
def test_any_product_by_tiles_for_the_host(tile: Tile, count: int) -> None:
    draw(count, lambda data: any_product_for_the_host(tile, data))


def any_product_by_shared_sums(data: st.DataObject) -> None:
    side, own = st.sampled_from([16, 32]), st.sampled_from([4, 8])
    slices, stages, splits = (data.draw(st.sampled_from(each)) for each in ((2, 4), (1, 2), (1, 1, 3)))
    depth = slices * data.draw(st.sampled_from([4, 8]))
    blocks = data.draw(side), data.draw(side), depth, data.draw(own), data.draw(own)
    tile = Tile(*blocks, stages, pad=data.draw(st.sampled_from([0, 4])), splits=splits, slices=slices)
    size = st.integers(1, 70)
    b, m, n, k = data.draw(st.integers(1, 2)), data.draw(size), data.draw(size), data.draw(st.integers(1, 150))
    layouts = (data.draw(st.sampled_from("rc")), data.draw(st.sampled_from("rc")))
    kernel, operands, exact = product(b, m, n, k, layouts, data.draw(st.sampled_from([float32, float16])))
    (got,) = run(kernel, operands, lambda kernel, given: generate_tile(kernel, given, tile))
    close(got, exact, k)


@pytest.mark.parametrize("count", [pytest.param(4, id="some"), pytest.param(60, id="many", marks=pytest.mark.slow)])
def test_any_product_by_shared_sums(count: int) -> None:
    draw(count, any_product_by_shared_sums)


STRIPS = [Strip(8, 1, 1), Strip(16, 3, 1), Strip(32, 1, 4), Strip(64, 2, 1), Strip(8, 1, 3)]


@pytest.mark.parametrize("strip", STRIPS, ids=str)
@pytest.mark.parametrize("layouts", LAYOUTS, ids="".join)
@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 300, 256), (2, 5, 41, 67), (1, 8, 260, 640), (1, 132, 4, 96), (3, 61, 1, 50), (1, 33, 8, 37)],
    ids=str,
)
def test_vector_variants(strip: Strip, layouts: tuple[str, str], sizes: tuple[int, int, int, int]) -> None:
    kernel, operands, exact = product(*sizes, layouts)
    (got,) = run(kernel, operands, lambda kernel, given: generate_vector(kernel, given, strip))
    close(got, exact, sizes[-1])


def any_product_of_few_rows(data: st.DataObject) -> None:
    few, many = data.draw(st.integers(1, 8)), data.draw(st.integers(8, 300))
    m, n = data.draw(st.permutations([few, many]))
    b, k = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 80))
    if data.draw(st.booleans()):
        # Four neighbours at a time.
        m, n, k = (-(-each // 4) * 4 for each in (m, n, k))
    layouts = (data.draw(st.sampled_from("rc")), data.draw(st.sampled_from("rc")))
    kernel, operands, exact = product(
        b, m, n, k, layouts, data.draw(st.sampled_from([float32, float16, bfloat16])), data.draw(st.booleans())
    )
    (got,) = run(kernel, operands, generate_alone, data.draw(st.booleans()))
    close(got, exact, k)


@pytest.mark.parametrize("count", [pytest.param(8, id="some"), pytest.param(60, id="many", marks=pytest.mark.slow)])
def test_threads_that_sum_alone(count: int) -> None:
    draw(count, any_product_of_few_rows)


def any_product(data: st.DataObject) -> None:
    size = st.integers(1, 70)
    b, m, n, k = data.draw(st.integers(1, 4)), data.draw(size), data.draw(size), data.draw(st.integers(0, 70))
    kind = data.draw(st.sampled_from([float32, float32, float16, bfloat16, int32, int64]))
    layouts = (data.draw(st.sampled_from("rc")), data.draw(st.sampled_from("rc")))
    shared, emulate = data.draw(st.booleans()), data.draw(st.booleans())
    kernel, operands, exact = product(b, m, n, k, layouts, kind, shared)
    (got,) = run(kernel, operands, emulate=emulate)
    close(got, exact, k)


@pytest.mark.parametrize("count", [pytest.param(6, id="some"), pytest.param(60, id="many", marks=pytest.mark.slow)])
def test_any_product(count: int) -> None:
    draw(count, any_product, derandomize=True)


@pytest.mark.parametrize("make", [generate, lambda k, c: generate_tile(k, c, TILES["split"])], ids=["chosen", "split"])
@pytest.mark.parametrize("sizes", [(1, 40, 36, 50), (2, 33, 31, 48), (2, 5, 48, 64), (1, 36, 8, 64)], ids=str)
@pytest.mark.parametrize("kind", [float32, float16, bfloat16], ids=str)
@pytest.mark.parametrize("emulate", [False, True], ids=["native", "emulated"])
def test_epilogue(make: Make, sizes: tuple[int, int, int, int], kind: dtype, emulate: bool) -> None:
    b, m, n, k = sizes
    kernel, operands, exact = product(b, m, n, k, ("r", "c"), kind, result=kind)
    bias, residual = numbers((n,), kind, 5), numbers((b * m * n,), kind, 6)
    value = (
        accumulator(float32) * parameter(0, float32)
        + cast(load(2, 0, (0, 0, 1), kind), float32)
        + cast(load(3, 0, (m * n, n, 1), kind), float32)
        + cast(coordinate(2), float32)
    )
    kernel = kernel.replace(
        operands=(*kernel.operands, Operand(kind, n), Operand(kind, b * m * n)),
        outputs=(Output(kind, b * m * n, None), Output(float32, b * m * n, None), Output(kind, b * m * n, 3)),
        parameters=(float32,),
        stores=(
            Store(0, 0, (m * n, n, 1), cast(apply("maximum", value, 0.0), kind)),
            Store(1, 0, (m * n, 1, m), value),
            Store(2, 0, (m * n, n, 1), cast(accumulator(float32), kind)),
        ),
    )
    got = run(kernel, [*operands, bias, residual], make, emulate, (0.5,))
    plain = 0.5 * exact + view(bias, (n,), (1,)) + view(residual, (b, m, n), (m * n, n, 1)) + np.arange(n)
    close(got[0], np.maximum(plain, 0), k)
    close(got[1], plain.transpose(0, 2, 1), k)
    close(got[2], exact, k)


def patch_of(channels: int, height: int, width: int, stride: int, padding: int, dilation: int) -> Expression:
    """Return the guarded load of an image at (batch group 0, n = image, y, x, k = channel, tap, tap)."""
    group, image, y, x, channel, down, across = (coordinate(each) for each in (0, 2, 3, 4, 5, 6, 7))
    top = y * stride + down * dilation - padding
    side = x * stride + across * dilation - padding
    inside = (constant(0, int32) <= top) & (top < height) & (constant(0, int32) <= side) & (side < width)
    inner_top = apply("minimum", apply("maximum", top, 0), height - 1)
    inner_side = apply("minimum", apply("maximum", side, 0), width - 1)
    at = ((image * 2 + group) * channels + channel) * (height * width) + inner_top * width + inner_side
    return select(inside, load_at(0, at, float32), constant(0, float32))


@pytest.mark.parametrize("window", [(1, 1, 1), (2, 1, 1), (1, 2, 2), (2, 0, 1)], ids=str)
@pytest.mark.parametrize("filters", [3, 20])
@pytest.mark.parametrize(
    "make",
    [
        generate,
        lambda k, c: generate_tile(k, c, TILES["split"]),
        lambda k, c: generate_host(k, c, Tile(4, 64, 4, 4, 4)),
    ],
    ids=["chosen", "split", "host"],
)
def test_convolution_in_groups(window: tuple[int, int, int], filters: int, make: Make) -> None:
    stride, padding, dilation = window
    images, channels, height, width, taps = 2, 4, 9, 11, (3, 3)
    x, w = (
        numbers((images, 2 * channels, height, width), float32, 1),
        numbers((2 * filters, channels, *taps), float32, 2),
    )
    wanted = torch.nn.functional.conv2d(x.double(), w.double(), None, stride, padding, dilation, groups=2)
    positions = tuple(wanted.shape[2:])
    dense = contiguous_strides(tuple(wanted.shape))
    per_filter = channels * 9
    kernel = Contraction(
        (Operand(float32, x.numel()), Operand(float32, w.numel())), (Output(float32, wanted.numel(), None),), (), "convolution",
        (2,), (filters,), (images, *positions), (channels, *taps),
        load(1, 0, (filters * per_filter, per_filter, 0, 0, 0, 9, 3, 1), float32),
        patch_of(channels, height, width, stride, padding, dilation), float32,
        (Store(0, 0, (dense[1] * filters, dense[1], dense[0], dense[2], dense[3]), accumulator(float32)),),
    )  # fmt: skip
    (got,) = run(kernel, [x, w], make)
    close(got, wanted.numpy(), per_filter)


def test_more_workgroups_than_one_dimension_takes() -> None:
    kernel, operands, exact = product(9, 40, 36, 20)
    (got,) = run(kernel, operands, emulate=True)
    close(got, exact, 20)


def test_empty_sums_and_no_dimensions() -> None:
    empty = product(1, 3, 4, 0)[0]
    kernel = empty.replace(stores=(Store(0, 0, (12, 4, 1), accumulator(float32) + 1.5),))
    assert run(kernel, [torch.zeros(4), torch.zeros(4)])[0].tolist() == [1.5] * 12
    a, b = numbers((75,), float32, 1), numbers((75,), float32, 2)
    dot = Contraction(
        (Operand(float32, 75), Operand(float32, 75)), (Output(float32, 1, None),), (), "dot", (), (), (), (75,),
        load(0, 0, (1,), float32), load(1, 74, (-1,), float32), float32, (Store(0, 0, (), accumulator(float32)),),
    )  # fmt: skip
    close(run(dot, [a, b])[0], (a.double() @ b.double().flip(0)).numpy(), 75)


def test_one_buffer_on_both_sides() -> None:
    kernel, (left, _), _ = product(1, 36, 36, 36)
    kernel = kernel.replace(operands=kernel.operands[:1], right=load(0, 0, (0, 0, 1, 36), float32))
    a = left.double().view(36, 36).numpy()
    close(run(kernel, [left])[0], a @ a, 36)


def chosen_tile(kernel: Contraction, capabilities: Capabilities) -> Tile:
    """Return the tile that is taken for a contraction."""
    variant, plan = choose(kernel, capabilities)
    assert variant.name == "tiles"
    return plan


def test_chosen_tiles() -> None:
    gpu = harness().native.replace(software=False)
    assert chosen_tile(product(1, 4096, 4096, 1)[0].replace(k=(4096,)), gpu).m == 128
    tall = product(1, 64, 64, 1)[0].replace(k=(100_000,))
    assert chosen_tile(tall, gpu).splits > 64
    assert chosen_tile(tall.replace(dtype=int64), gpu).splits == 1
    # As many units as were measured do not matter to a test.
    software = gpu.replace(software=True, facts=gpu.facts.replace(units=2))
    assert choose(tall, software)[0].name == "tiles for the host"
    assert chosen_tile(product(1, 64, 64, 64)[0], software).threads == 64
    # A result of one row is no tile's; threads of the host sum alone what is not too long or too little.
    row = product(1, 1, 512, 64)[0]
    assert choose(row, gpu)[0].name == "few rows"
    assert choose(row, software)[0].name == "few rows, threads alone"
    assert choose(row.replace(k=(100_000,)), software)[0].name == "few rows"
    assert choose(product(1, 1, 8, 64)[0], software)[0].name == "few rows"


@pytest.mark.parametrize("shape", [(4096, 4096, 4096), (64, 64, 100_000), (120, 40, 500)], ids=str)
def test_tiles_fit_small_adapters(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    small = harness().native.replace(software=False, invocations=128, workgroup_bytes=16384)
    tile = chosen_tile(product(1, m, n, 1)[0].replace(k=(k,)), small)
    assert tile.threads <= 128
    assert tile.nbytes <= 16384


def test_same_bits_run_after_run() -> None:
    kernel, operands, _ = product(1, 40, 40, 500)
    first, second = (run(kernel, operands, lambda k, c: generate_tile(k, c, TILES["split"]))[0] for _ in range(2))
    assert torch.equal(first, second)


def added_along_rows(data: st.DataObject) -> None:
    """Products that are added to what lies along their rows in memory, in place or not: they lie so, too."""
    m, n, k = (data.draw(st.sampled_from(sizes)) for sizes in ((9, 16, 37, 64), (12, 33, 70), (1, 7, 40)))
    batch = data.draw(st.sampled_from([(), (3,)]))
    chance = torch.Generator().manual_seed(m * n + k)
    x, y, bias, old = (torch.randn(each, generator=chance) for each in ((*batch, m, k), (n, k), (n,), (*batch, n, m)))
    mine = [ours.from_numpy(each.numpy()).to("webgpu") for each in (x, y, bias, old)]
    wanted = old.mT + torch.nn.functional.linear(x, y, bias)
    found = mine[3].mT + ours.nn.functional.linear(*mine[:3])
    assert found.stride() == wanted.stride()
    torch.testing.assert_close(torch.tensor(found.tolist()), wanted, rtol=2e-5, atol=2e-4)
    mine[3].mT.add_(ours.nn.functional.linear(*mine[:3]))
    torch.testing.assert_close(torch.tensor(mine[3].mT.tolist()), wanted, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("count", [pytest.param(6, id="some"), pytest.param(60, id="many", marks=pytest.mark.slow)])
def test_added_along_rows(count: int) -> None:
    draw(count, added_along_rows)
