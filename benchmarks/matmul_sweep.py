"""Variants of the matrix-product kernels at given sizes, checked, with their rates and PyTorch's (CUDA, TF32 off).

Usage: matmul_sweep.py [MxNxK[:LAYOUTS[:TYPE]] ...]; LAYOUTS is one letter each for left and right: r (k contiguous) or c,
TYPE float32 or float16; WEBGPU_TORCH_RUNTIME=dawn multiplies on matrix units where there are any.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from common import peer
from webgpu_torch_backend_wgpu.backend import WgpuBackend
from webgpu_torch_backend_wgpu.codegen import generate
from webgpu_torch_backend_wgpu.codegen.contraction_matrix import MatrixTile, generate_matrix, matrix_tiles_of
from webgpu_torch_backend_wgpu.codegen.contraction_pairs import PairTile, generate_pairs, pair_tiles_of
from webgpu_torch_backend_wgpu.codegen.contraction_tile import Tile, generate_tile
from webgpu_torch_backend_wgpu.codegen.contraction_vector import SKINNY, Strip, generate_vector
from webgpu_torch_backend_wgpu.program import Capabilities, Program
from webgpu_torch_core.backend.interface import Plan, Step
from webgpu_torch_core.ir.dtypes import dtype, float16, float32
from webgpu_torch_core.ir.expression import accumulator, cast, load
from webgpu_torch_core.ir.kernels import Contraction, Kernel, Operand, Output, Store

SIZES = (
    "4096x4096x4096:rc", "4096x4096x4096:rr", "4096x4096x4096:cc", "4096x4096x4096:cr", "1024x1024x1024:rc",
    "1000x1000x1000:rc", "256x256x65536:cc", "1x3072x768:rc", "1x3072x768:rr", "1x50257x768:rr", "1x16384x16384:rr",
    "1x16384x16384:rc", "8x16384x4096:rr", "4096x4096x4096:rc:float16", "4096x4096x4096:rr:float16", "4095x4095x4095:rc:float16",
    "1024x1024x1024:rc:float16", "64x4096x4096:rr:float16",
)  # fmt: skip
TILES = (
    Tile(128, 256, 8, 16, 8), Tile(128, 256, 8, 16, 8, span=8), Tile(128, 256, 8, 16, 8, band=8),
    Tile(128, 256, 8, 16, 8, span=8, band=8), Tile(128, 256, 8, 16, 8, span=8, pad=4, band=8),
    Tile(128, 256, 8, 16, 8, stages=2, span=8, band=8), Tile(256, 128, 8, 16, 8, span=8, band=8),
    Tile(128, 128, 8, 8, 8), Tile(128, 128, 8, 8, 8, span=8, band=8), Tile(128, 128, 16, 8, 8, stages=2, span=8, band=8),
    Tile(64, 64, 16, 4, 4), Tile(64, 64, 16, 8, 8, span=4), Tile(64, 64, 16, 4, 4, splits=16),
)  # fmt: skip
STRIPS = tuple(
    Strip(*each)
    for each in (
        (8, 1, 1),
        (16, 1, 1),
        (32, 1, 1),
        (64, 1, 1),
        (16, 1, 4),
        (32, 1, 2),
        (32, 1, 4),
        (64, 1, 4),
        (16, 4, 1),
        (32, 8, 1),
    )
)
#: in how many parts sums are tried on matrix units
SPLITS = (1, 2, 3, 4, 6, 8)
#: seconds after which no further size is started, and seconds each variant is measured for
BUDGET = 150.0
EACH = 0.15

Make = Callable[[Any, Any], Program]


def product(m: int, n: int, k: int, layouts: str, kind: dtype, name: str) -> Contraction:
    """Return ``out[m, n]`` of a left [m, k] and a right [n, k] operand, each with k innermost (r) or outermost (c)."""
    left = (k, 0, 1) if layouts[0] == "r" else (1, 0, m)
    right = (0, k, 1) if layouts[1] == "r" else (0, 1, n)
    return Contraction(
        (Operand(kind, m * k), Operand(kind, n * k)), (Output(kind, m * n, None),), (), name, (), (m,), (n,), (k,),
        cast(load(0, 0, left, kind), float32), cast(load(1, 0, right, kind), float32), float32,
        (Store(0, 0, (n, 1), cast(accumulator(float32), kind)),),
    )  # fmt: skip


def variants(kernel: Contraction, given: Capabilities) -> dict[str, Make]:
    """Return the kernels to try at a size: the generator's own choice first."""
    found: dict[str, Make] = {"chosen": generate}
    (m,), (n,) = kernel.m, kernel.n
    matrices = [each for each in matrix_tiles_of(kernel, given) if each.splits in SPLITS]
    if matrices:
        return found | {matrix_name(each): lambda k, c, each=each: generate_matrix(k, c, each) for each in matrices}
    if min(m, n) <= SKINNY:
        return found | {str(each): lambda k, c, each=each: generate_vector(k, c, each) for each in STRIPS}
    pairs = [each for each in pair_tiles_of(kernel, given) if each.splits in SPLITS]
    found |= {f"pairs, {matrix_name(each)}": lambda k, c, each=each: generate_pairs(k, c, each) for each in pairs}
    tiles = [each for each in TILES if each.m <= 2 * m and each.n <= 2 * n]
    return found | {str(each): lambda k, c, each=each: generate_tile(k, c, each) for each in tiles}


def matrix_name(tile: MatrixTile) -> str:
    """Return what a tile of matrices is called here."""
    unit, split = tile.unit, f" split {tile.splits}" if tile.splits > 1 else ""
    laid = ", laid out" if isinstance(tile, PairTile) and tile.laid else ""
    return f"matrices {tile.m}x{tile.n}x{tile.k} of {unit.m}x{unit.n}x{unit.k}{split}{laid}"


def measure(device: Any, kernel: Kernel, make: Make, buffers: list[Any], parameters: tuple[float, ...] = ()) -> float:
    """Return the median seconds of one dispatch, by the wall clock over batches that fill ``EACH`` seconds."""
    device.compiler.generate = make
    inputs, outputs = len(kernel.operands), len(kernel.outputs)
    places = tuple(range(inputs)), tuple(range(inputs, inputs + outputs))
    step = Step(kernel, *places, tuple(range(len(parameters))))
    single = Plan([step], inputs + outputs, ())
    for _ in range(2):
        start = time.perf_counter()
        device.run(single, buffers, parameters)
        device.synchronize()
        once = time.perf_counter() - start
    count = max(1, min(200, int(EACH / 5 / max(once, 1e-5))))
    many = Plan([step] * count, inputs + outputs, ())
    device.run(many, buffers, parameters)
    device.synchronize()
    found = []
    for _ in range(5):
        start = time.perf_counter()
        device.run(many, buffers, parameters)
        device.synchronize()
        found.append((time.perf_counter() - start) / count)
    return statistics.median(found)


def largest_error(device: Any, buffer: Any, left: Any, right: Any, m: int, n: int, k: int) -> float:
    """Return the largest error of 64 sampled entries against float64, relative to the square root of k."""
    got = np.frombuffer(device.read(buffer, m * n * left.itemsize), left.dtype).reshape(m, n)
    chosen = np.random.default_rng(0)
    rows, columns = chosen.integers(0, m, 64), chosen.integers(0, n, 64)
    exact = np.einsum("ik,ik->i", left[rows].astype(np.float64), right[columns].astype(np.float64))
    return float(np.abs(got[rows, columns] - exact).max() / k**0.5)


def theirs(pytorch: Any, left: Any, right: Any) -> float:
    """Return PyTorch's median seconds of one product of the same operands in the same layouts."""
    a, b = (pytorch.from_numpy(each).to("cuda") for each in (left, right))
    return seconds_of_peer(pytorch, lambda: pytorch.mm(a, b.T))


def seconds_of_peer(pytorch: Any, call: Callable[[], object]) -> float:
    """Return the median seconds that PyTorch takes for a call."""
    found = []
    for _ in range(6):
        start = time.perf_counter()
        for _ in range(20):
            call()
        pytorch.cuda.synchronize()
        found.append((time.perf_counter() - start) / 20)
    return statistics.median(found[1:])


def sweep(device: Any, pytorch: Any, text: str) -> None:
    """Print the table of one size."""
    sizes, *others = text.split(":")
    layouts = others[0] if others else "rc"
    kind, tolerance = (float16, 1e-3) if others[1:] == ["float16"] else (float32, 1e-4)
    m, n, k = (int(each) for each in sizes.split("x"))
    generator = np.random.default_rng(1)
    stored = [generator.standard_normal(count * k, np.float32).astype(kind.name) for count in (m, n)]
    left, right = (
        flat.reshape(count, k) if layout == "r" else flat.reshape(k, count).T
        for flat, count, layout in zip(stored, (m, n), layouts, strict=True)
    )
    buffers = [device.allocate(each.nbytes) for each in stored] + [device.allocate(m * n * kind.itemsize)]
    for buffer, each in zip(buffers[:2], stored, strict=True):
        device.write(buffer, memoryview(each.tobytes()))
    print(f"\n{m} x {n} x {k}, layouts {layouts}", flush=True)

    def line(name: str, seconds: float, error: str) -> None:
        rate, moved = 2 * m * n * k / seconds / 1e12, kind.itemsize * (m * k + n * k + m * n) / seconds / 1e9
        print(f"  {seconds * 1e3:9.4f} ms {rate:8.3f} TFLOP/s {moved:8.0f} GB/s  {error:>9}  {name}", flush=True)

    if pytorch is not None:
        line("PyTorch", theirs(pytorch, left, right), "")
    for name, make in variants(product(m, n, k, layouts, kind, ""), device.capabilities).items():
        try:
            device.write(buffers[2], memoryview(bytes(m * n * kind.itemsize)))
            seconds = measure(device, product(m, n, k, layouts, kind, f"product {text} {name}"), make, buffers)
            error = largest_error(device, buffers[2], left, right, m, n, k)
            line(name, seconds, f"{error:.1e}" if error < tolerance else f"WRONG {error:.1e}")
        except Exception as failure:  # one variant that an adapter refuses must not end the sweep
            print(f"  failed: {name}: {type(failure).__name__}: {str(failure)[:200]}", flush=True)


def sweep_all(usual: Sequence[str], each: Callable[[Any, Any, str], None]) -> None:
    """Sweep the sizes named on the command line, or the usual ones."""
    start = time.perf_counter()
    device, pytorch = WgpuBackend().open(0), peer()
    print(device.description())
    for text in sys.argv[1:] or usual:
        if time.perf_counter() - start > BUDGET:
            print(f"\nleft out after {BUDGET:.0f} s: {text}")
            continue
        each(device, pytorch, text)


if __name__ == "__main__":
    sweep_all(SIZES, sweep)
