"""Variants of the attention kernels at given sizes: times, estimates, and PyTorch's time (CUDA, TF32 off).

Usage: attention_sweep.py [BxHxMxNxE[:causal][:TYPE] ...]: B batches, H heads of width E, M rows, N columns. Operands lie as
models have them, all heads of a position side by side. Results are compared with those of the variant that is chosen.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from matmul_sweep import measure, seconds_of_peer, sweep_all
from webgpu_torch_backend_wgpu.codegen.variants import VARIANTS, choose
from webgpu_torch_core.ir.dtypes import bfloat16, dtype, float16, float32
from webgpu_torch_core.ir.expression import Expression, accumulator, cast, constant, coordinate, load, reduced
from webgpu_torch_core.ir.kernels import Attention, Operand, Output, Product, Store, WeightedSum

SIZES = (
    "1x16x2048x2048x64", "1x16x4096x4096x128:causal", "1x16x1024x1024x128:causal", "1x12x1024x1024x64:causal", "8x12x512x512x64",
    "1x12x1500x1500x64", "32x12x197x197x64", "8x12x128x128x64", "2x8x4096x4096x40", "8x4x1x8192x128:float16",
    "1x16x2048x2048x64:float16", "1x16x4096x4096x128:causal:float16",
)  # fmt: skip
#: how many variants are told, the fastest first
SHOWN = 12


def attention(batch: int, heads: int, m: int, n: int, width: int, kind: dtype, causal: bool) -> Attention:
    """Return the kernel of queries [batch, m, heads, width], and of keys and values [batch, n, heads, width]."""
    row, head = heads * width, width

    def read(operand: int, rows: int, along: tuple[int, ...]) -> Expression:
        return cast(load(operand, 0, (rows * row, head, *along), kind), float32)

    product = Product(read(0, m, (row, 1, 0, 0)), read(1, n, (0, 1, 0, row)), "k")
    store = Store(0, 0, (m * row, head, row, 0, 1), cast(accumulator(float32), kind))
    values = WeightedSum(accumulator(float32), read(2, n, (0, 0, 1, row)), "v", store)
    last = coordinate(2) + 1 if causal else None
    score = reduced(0, float32) * constant(width**-0.5, float32)
    sizes = [batch * each * row for each in (m, n, n)]
    return Attention(
        tuple(Operand(kind, each) for each in sizes), (Output(kind, sizes[0], None),), (), "attention", (batch, heads), (m,),
        (width,), (width,), (n,), (product,), None, last, score, (values,), (),
    )  # fmt: skip


def stored(array: Any, kind: dtype) -> Any:
    """Return float32 numbers as they lie in memory: those of bfloat16, which NumPy does not have, as their upper halves."""
    return (array.view(np.uint32) >> 16).astype(np.uint16) if kind is bfloat16 else array.astype(kind.name)


def values(array: Any, kind: dtype) -> Any:
    """Return what lies in memory as float32 numbers."""
    return (array.astype(np.uint32) << 16).view(np.float32) if kind is bfloat16 else array.astype(np.float32)


def theirs(pytorch: Any, arrays: list[Any], kind: dtype, causal: bool) -> float:
    """Return PyTorch's median seconds of one attention."""
    query, key, value = (
        pytorch.from_numpy(values(each, kind)).to("cuda", getattr(pytorch, kind.name)).transpose(1, 2)
        for each in arrays
    )
    attend = pytorch.nn.functional.scaled_dot_product_attention
    return seconds_of_peer(pytorch, lambda: attend(query, key, value, is_causal=causal))


def sweep(device: Any, pytorch: Any, text: str) -> None:
    """Print the table of one size."""
    sizes, *others = text.split(":")
    causal, kind = "causal" in others, next((each for each in (float16, bfloat16) if each.name in others), float32)
    batch, heads, m, n, width = (int(each) for each in sizes.split("x"))
    generator = np.random.default_rng(1)
    arrays = [stored(generator.standard_normal((batch, rows, heads, width), np.float32), kind) for rows in (m, n, n)]
    kernel = attention(batch, heads, m, n, width, kind, causal)
    buffers = [device.allocate(each.nbytes) for each in arrays]
    buffers.append(device.allocate(arrays[0].nbytes))
    for buffer, each in zip(buffers[:3], arrays, strict=True):
        device.write(buffer, memoryview(each.tobytes()))
    given = device.capabilities
    taken = choose(kernel, given)
    print(
        f"\n{text}" + (f"  PyTorch {theirs(pytorch, arrays, kind, causal) * 1e3:.4f} ms" if pytorch else ""), flush=True
    )
    lines: list[tuple[float, str]] = []
    wanted = None
    # The one that is chosen comes first.
    every = [(each, plan) for each in VARIANTS[Attention] for plan in each.fits(kernel, given)]
    tried = [taken] + [each for each in every if each != taken]
    for variant, plan in tried:
        estimate = variant.cost(kernel, plan, given.facts)
        if estimate > 4 * taken[0].cost(kernel, taken[1], given.facts):
            continue
        named = kernel.replace(name=f"attention {text} {plan}")
        try:
            seconds = measure(device, named, lambda k, c, v=variant, p=plan: v.emit(k, c, p), buffers)
        except Exception as failure:  # one variant that an adapter refuses must not end the sweep
            print(f"  failed: {plan}: {type(failure).__name__}: {str(failure)[:200]}", flush=True)
            continue
        found = values(np.frombuffer(device.read(buffers[3], arrays[0].nbytes), arrays[0].dtype), kind)
        wanted = found if wanted is None else wanted
        error = float(np.abs(found - wanted).max())
        told = ", ".join(f"{name} {getattr(plan, name)}" for name in plan.fields)
        mark = " <- chosen" if (variant, plan) == taken else ""
        lines.append((seconds, f"  {seconds * 1e3:8.4f} ms ({estimate * 1e3:8.4f}) {error:.0e} {told}{mark}"))
    print("\n".join(line for _, line in sorted(lines)[:SHOWN]), flush=True)


if __name__ == "__main__":
    sweep_all(SIZES, sweep)
