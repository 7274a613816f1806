"""Variants of the attention kernels at given sizes: times, estimates, and PyTorch's time (CUDA, TF32 off).

Usage: attention_sweep.py [BxMxNxE[:causal][:TYPE] ...]; B counts batches and heads, M rows, N columns, E is the width of heads.
Results are compared with those of the variant that is chosen.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from common import peer
from matmul_sweep import BUDGET, measure
from webgpu_torch_backend_wgpu.backend import WgpuBackend
from webgpu_torch_backend_wgpu.codegen.variants import VARIANTS, choose
from webgpu_torch_core.ir.dtypes import float16, float32
from webgpu_torch_core.ir.expression import coordinate
from webgpu_torch_core.ir.kernels import Attention
from webgpu_torch_testing.attention_tests import attention

SIZES = (
    "16x2048x2048x64", "16x4096x4096x128:causal", "16x1024x1024x128:causal", "12x1024x1024x64:causal", "96x512x512x64",
    "12x1500x1500x64", "384x197x197x64", "32x1x8192x128:float16", "16x2048x2048x64:float16", "16x4096x4096x128:causal:float16",
)  # fmt: skip
#: how many variants are told, the fastest first
SHOWN = 12


def theirs(pytorch: Any, arrays: list[Any], causal: bool) -> float:
    """Return PyTorch's median seconds of one attention."""
    query, key, value = (pytorch.from_numpy(each)[None].to("cuda") for each in arrays)
    found = []
    for _ in range(6):
        start = time.perf_counter()
        for _ in range(20):
            pytorch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
        pytorch.cuda.synchronize()
        found.append((time.perf_counter() - start) / 20)
    return float(np.median(found[1:]))


def sweep(device: Any, pytorch: Any, text: str) -> None:
    """Print the table of one size."""
    sizes, *others = text.split(":")
    causal, kind = "causal" in others, float16 if "float16" in others else float32
    batch, m, n, width = (int(each) for each in sizes.split("x"))
    generator = np.random.default_rng(1)
    arrays = [generator.standard_normal((batch, rows, width), np.float32).astype(kind.name) for rows in (m, n, n)]
    kernel = attention(m, n, width, width, kind, batch, last=coordinate(1) + 1 if causal else None)
    buffers = [device.allocate(each.nbytes) for each in arrays]
    buffers += [device.allocate(batch * m * width * kind.itemsize), device.allocate(batch * m * 4)]
    for buffer, each in zip(buffers[:3], arrays, strict=True):
        device.write(buffer, memoryview(each.tobytes()))
    given = device.capabilities
    taken = choose(kernel, given)
    print(f"\n{text}" + (f"  PyTorch {theirs(pytorch, arrays, causal) * 1e3:.4f} ms" if pytorch else ""), flush=True)
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
            seconds = measure(device, named, lambda k, c, v=variant, p=plan: v.emit(k, c, p), buffers, (0.125,))
        except Exception as failure:  # one variant that an adapter refuses must not end the sweep
            print(f"  failed: {plan}: {type(failure).__name__}: {str(failure)[:200]}", flush=True)
            continue
        found = np.frombuffer(device.read(buffers[3], batch * m * width * kind.itemsize), kind.name).astype(np.float32)
        wanted = found if wanted is None else wanted
        error = float(np.abs(found - wanted).max())
        told = ", ".join(f"{name} {getattr(plan, name)}" for name in plan.fields)
        mark = " <- chosen" if (variant, plan) == taken else ""
        lines.append((seconds, f"  {seconds * 1e3:8.4f} ms ({estimate * 1e3:8.4f}) {error:.0e} {told}{mark}"))
    print("\n".join(line for _, line in sorted(lines)[:SHOWN]), flush=True)


def main() -> None:
    """Sweep the sizes named on the command line, or the usual ones."""
    start = time.perf_counter()
    device, pytorch = WgpuBackend().open(0), peer()
    print(device.description())
    for text in sys.argv[1:] or SIZES:
        if time.perf_counter() - start > BUDGET:
            print(f"\nleft out after {BUDGET:.0f} s: {text}")
            continue
        sweep(device, pytorch, text)


if __name__ == "__main__":
    main()
