"""Products on matrix units: their text for Dawn's compiler, their values where an adapter has such units."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import codegen_harness
import numpy as np
import pytest
import torch
from codegen_harness import Harness
from contraction_cases import close, draw, numbers, product, view
from golden.profiles import PROFILES
from hypothesis import strategies as st
from webgpu_torch_backend_wgpu.backend import WgpuBackend
from webgpu_torch_backend_wgpu.codegen import choose, contraction_matrix, generate
from webgpu_torch_backend_wgpu.codegen.contraction_matrix import MatrixTile, generate_matrix, matrix_tiles_of
from webgpu_torch_backend_wgpu.gpu import dawn, dawn_library
from webgpu_torch_backend_wgpu.gpu.checking import CheckingRuntime
from webgpu_torch_backend_wgpu.gpu.interface import MATRIX_FEATURE, MatrixUnit
from webgpu_torch_backend_wgpu.program import Capabilities
from webgpu_torch_core.backend.interface import Plan, Step
from webgpu_torch_core.ir.dtypes import bfloat16, float16, float32
from webgpu_torch_core.ir.expression import accumulator, apply, cast, coordinate, load, parameter
from webgpu_torch_core.ir.kernels import Contraction, Operand, Output, Store
from webgpu_torch_core.ir.layouts import contiguous_strides, layout
from webgpu_torch_core.operations.contraction.convolution import convolution_kernel

UNITS = tuple(
    MatrixUnit("f16", result, *sizes, 32)
    for result in ("f16", "f32")
    for sizes in ((16, 16, 16), (16, 8, 16), (16, 8, 8))
)
SMALLER_UNITS = UNITS[-1:]
#: an adapter of a GPU with matrix units
ADAPTER = PROFILES["discrete"].replace(features=PROFILES["discrete"].features | {MATRIX_FEATURE}, matrix_units=UNITS)
Case = tuple[Contraction, list[torch.Tensor], np.ndarray]


@cache
def checking() -> Any:
    """Return a device that checks calls and has matrix units."""
    return WgpuBackend(CheckingRuntime([ADAPTER])).open(0)


@cache
def computing() -> Harness:
    """Return an adapter with matrix units."""
    able, reason = dawn_library.works()
    if not able:
        pytest.skip(f"Dawn cannot be used here: {reason}")
    found = Harness(dawn.DawnRuntime())
    if not found.native.matrix_units:
        pytest.skip("the adapter has no matrix units that Dawn grants")
    return found


def tiles(capabilities: Capabilities, split: int = 3) -> dict[str, MatrixTile]:
    """Return the tiles of a product deep enough to be split, each whole and some split."""
    deep = product(1, 256, 256, 4096, kind=float16)[0]
    found: dict[str, MatrixTile] = {}
    for each in matrix_tiles_of(deep, capabilities):
        if each.splits in (1, split):
            found[f"{each.m}x{each.n}x{each.k}{'' if each.splits == 1 else ' split'}"] = each
    return found


def convolution(
    images: int, channels: int, filters: int, size: tuple[int, int], window: tuple[int, int, int], groups: int = 1
) -> Case:
    """Return a convolution of 3x3 taps with (stride, padding, dilation), its operands and exact sums."""
    stride, padding, dilation = window
    x = numbers((images, groups * channels, *size), float16, 1)
    w = numbers((groups * filters, channels, 3, 3), float16, 2)
    exact = torch.nn.functional.conv2d(x.double(), w.double(), None, stride, padding, dilation, groups)
    kernel = convolution_kernel(
        layout(tuple(x.shape), contiguous_strides(tuple(x.shape))), x.numel(),
        layout(tuple(w.shape), contiguous_strides(tuple(w.shape))), w.numel(), float16,
        ((stride,) * 2, (padding,) * 2, (dilation,) * 2, groups, tuple(exact.shape[2:])), float16,
    )  # fmt: skip
    return kernel, [x, w], exact.numpy()


def epilogue(case: Case) -> tuple[Contraction, list[torch.Tensor], list[np.ndarray]]:
    """Return a product with a bias, a residual, a scale and a second, turned result."""
    kernel, operands, exact = case
    b, m, n = exact.shape
    bias, residual = numbers((n,), float16, 5), numbers((b * m * n,), float16, 6)
    value = (
        accumulator(float32) * parameter(0, float32)
        + cast(load(2, 0, (0, 0, 1), float16), float32)
        + cast(load(3, 0, (m * n, n, 1), float16), float32)
        + cast(coordinate(2), float32)
    )
    kernel = kernel.replace(
        operands=(*kernel.operands, Operand(float16, n), Operand(float16, b * m * n)),
        outputs=(Output(float16, b * m * n, None), Output(float32, b * m * n, None)),
        parameters=(float32,),
        stores=(
            Store(0, 0, (m * n, n, 1), cast(apply("maximum", value, 0.0), float16)),
            Store(1, 0, (m * n, 1, m), value),
        ),
    )
    plain = 0.5 * exact + view(bias, (n,), (1,)) + view(residual, (b, m, n), (m * n, n, 1)) + np.arange(n)
    return kernel, [*operands, bias, residual], [np.maximum(plain, 0), plain.transpose(0, 2, 1)]


def prologue() -> Case:
    """Return a product whose left side is computed from two operands and whose right side is one of them, turned."""
    m, n, k = 72, 72, 72
    kernel, (left, right), _ = product(1, m, n, k, kind=float16)
    a = load(0, 0, (0, k, 0, 1), float16)
    scale = load(1, 0, (0, 0, 0, 1), bfloat16)
    value = cast(cast(cast(a, float32) * cast(scale, float32), float16), float32)
    kernel = kernel.replace(
        operands=(Operand(float16, m * k), Operand(bfloat16, k)), left=value,
        right=cast(load(0, 0, (0, 0, 1, n), float16), float32),
    )  # fmt: skip
    factors = right[:k].to(torch.bfloat16)
    scaled = (left.view(m, k).float() * factors.float()).half()
    return kernel, [left, factors], (scaled.double() @ left.view(k, n).double()).numpy()


CASES: dict[str, Case] = {
    "whole": product(1, 128, 128, 64, ("r", "c"), float16),
    "turned": product(2, 136, 72, 40, ("c", "r"), float16),
    "edges": product(1, 130, 133, 67, ("r", "c"), float16),
    "turned edges": product(2, 67, 35, 33, ("c", "r"), float16),
    "both along k": product(3, 40, 200, 104, ("r", "r"), float16, shared=True),
    "both along rows": product(1, 200, 40, 100, ("c", "c"), float16, result=float32),
    "convolution": convolution(2, 12, 40, (9, 11), (1, 1, 1)),
    "strided convolution in groups": convolution(2, 5, 24, (13, 17), (2, 1, 2), 2),
    "computed": prologue(),
}


def test_halves_use_matrix_units() -> None:
    device = checking()
    for name, (kernel, _, _) in CASES.items():
        if "convolution" not in name:
            wide = kernel.replace(k=(64 * 64,)) if name == "whole" else kernel
            assert choose(wide, device.capabilities)[0].name == "tiles of matrices", name
    # Those of convolutions take long to compile, and small ones would gain little.
    assert choose(convolution(2, 128, 128, (32, 32), (1, 1, 1))[0], device.capabilities)[0].name == "tiles of matrices"
    assert choose(convolution(2, 4, 320, (8, 8), (1, 1, 1))[0], device.capabilities)[0].name != "tiles of matrices"
    # Neither other types, nor few rows, nor an adapter without units does.
    for kernel in (
        product(1, 256, 256, 64)[0],
        product(1, 256, 256, 64, kind=bfloat16)[0],
        product(1, 4, 256, 64, kind=float16)[0],
    ):
        assert "atrix" not in choose(kernel, device.capabilities)[0].name
    without = device.capabilities.replace(matrix_units=())
    assert choose(CASES["whole"][0], without)[0].name == "tiles"
    for units in (UNITS[:3], (MatrixUnit("f16", "f32", 12, 16, 16, 32),), (MatrixUnit("i8", "i32", 16, 16, 32, 32),)):
        assert not list(matrix_tiles_of(CASES["whole"][0], without.replace(matrix_units=units)))


def test_tiles_of_few_rows_and_of_few_blocks() -> None:
    given = checking().capabilities
    for few in ((8, 16384), (16384, 8)):
        kernel = product(1, *few, 1, kind=float16)[0].replace(k=(4096,))
        variant, tile = choose(kernel, given)
        assert variant.name == "tiles of matrices" and min(tile.m, tile.n) == 16, few
    # A single row is a matter of reading alone.
    assert choose(product(1, 1, 16384, 1, kind=float16)[0].replace(k=(4096,)), given)[0].name == "few rows"
    # A quarter of the result's blocks would leave units idle, or a second pass would follow.
    variant, tile = choose(product(1, 512, 512, 512)[0], given)
    assert variant.name == "tiles" and tile.slices > 1 and tile.splits == 1


def test_calls_are_valid() -> None:
    device = checking()
    for kernel, _, _ in CASES.values():
        sizes = [(each.numel * each.dtype.itemsize + 31) & ~31 for each in (*kernel.operands, *kernel.outputs)]
        buffers = [device.allocate(each) for each in sizes]
        count = len(kernel.operands)
        step = Step(kernel, tuple(range(count)), tuple(range(count, len(sizes))), ())
        device.run(Plan([step], len(sizes), ()), buffers, ())
        device.synchronize()
    assert "subgroupMatrixMultiplyAccumulate" in device.source(CASES["whole"][0])


_COMPILE = (
    """
import { pathToFileURL } from "node:url";
import { readFileSync } from "node:fs";
const [dawn, texts] = process.argv.slice(2);
const { create } = await import(pathToFileURL(`${dawn}/index.js`).href);
const gpu = create(["backend=null", "enable-dawn-features=allow_unsafe_apis"]);
const adapter = await gpu.requestAdapter();
const device = await adapter.requestDevice({ requiredFeatures: ["shader-f16", "subgroups", "%s"] });
const found = [];
for (const code of JSON.parse(readFileSync(texts, "utf8"))) {
  device.pushErrorScope("validation");
  const { messages } = await device.createShaderModule({ code }).getCompilationInfo();
  await device.popErrorScope();
  found.push(messages.map((each) => `${each.type} in line ${each.lineNum}: ${each.message}`));
}
console.log(JSON.stringify(found));
"""
    % MATRIX_FEATURE
)


def assert_valid(texts: list[Any], folder: Path) -> None:
    """Ask the compiler that comes with Dawn for Node, which needs no GPU, what it thinks of some texts."""
    registry = pytest.importorskip("webgpu_torch_web.site.registry")
    try:
        node, package = registry.tool("node"), registry.npm_package("webgpu", "0.6.2")
    except registry.MissingTool as missing:
        pytest.skip(str(missing))
    (folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    (folder / "compile.mjs").write_text(_COMPILE, encoding="utf-8")
    command = [node, "compile.mjs", str(package), "texts.json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for text, messages in zip(texts, json.loads(done.stdout), strict=True):
        assert not messages, f"{messages}\n{text}"


def test_text_is_valid(tmp_path: Path) -> None:
    given = checking().capabilities
    texts: list[str] = []
    for number, (kernel, _, _) in enumerate([*CASES.values(), epilogue(CASES["turned edges"])]):
        units = SMALLER_UNITS if number % 3 == 0 else UNITS
        for tile in tiles(given.replace(matrix_units=units)).values():
            texts += [each.source for each in generate_matrix(kernel, given, tile).passes]
    assert_valid(texts, tmp_path)


def run(
    kernel: Contraction, operands: list[torch.Tensor], tile: MatrixTile | None = None, scale: float | None = None
) -> list[torch.Tensor]:
    """Run a kernel by a tile, or as it is chosen."""
    with pytest.MonkeyPatch.context() as patch:
        make = generate if tile is None else lambda kernel, given: generate_matrix(kernel, given, tile)
        patch.setattr(codegen_harness, "generate", make)
        return computing().run(kernel, operands, () if scale is None else (scale,))


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    kernel, operands, exact = CASES[name]
    for tile in (None, *tiles(computing().native).values()):
        (got,) = run(kernel, operands, tile)
        close(got, exact, kernel.k[0])


@pytest.mark.parametrize("name", ["turned edges", "turned", "both along k"])
def test_epilogues(name: str) -> None:
    kernel, operands, exact = epilogue(CASES[name])
    for tile in tiles(computing().native).values():
        for got, wanted in zip(run(kernel, operands, tile, 0.5), exact, strict=True):
            close(got, wanted, kernel.k[0])


def test_same_bits_run_after_run(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, operands, _ = product(1, 96, 96, 1024, kind=float16)
    for tile in tiles(computing().native).values():
        first, second = (run(kernel, operands, tile)[0] for _ in range(2))
        assert torch.equal(first, second)
        # However its products are written.
        with monkeypatch.context() as patch:
            patch.setattr(contraction_matrix, "_LONG", 0.0)
            assert torch.equal(run(kernel, operands, tile)[0], first)


def any_product(data: st.DataObject) -> None:
    size = st.integers(9, 300)
    b, m, n, k = data.draw(st.integers(1, 3)), data.draw(size), data.draw(size), data.draw(st.integers(1, 300))
    step = data.draw(st.sampled_from([1, 1, 4, 8]))
    m, n, k = (-(-each // step) * step for each in (m, n, k))
    layouts = (data.draw(st.sampled_from("rc")), data.draw(st.sampled_from("rc")))
    result = data.draw(st.sampled_from([float16, float32]))
    kernel, operands, exact = product(b, m, n, k, layouts, float16, data.draw(st.booleans()), result)
    tile = data.draw(st.sampled_from([None, *tiles(computing().native).values()]))
    (got,) = run(kernel, operands, tile)
    close(got, exact, k)


@pytest.mark.parametrize("count", [pytest.param(10, id="some"), pytest.param(150, id="many", marks=pytest.mark.slow)])
def test_any_product(count: int) -> None:
    computing()
    draw(count, any_product, derandomize=True)
